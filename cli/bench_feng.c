/* bench_feng.c: how long the checkpoint searches take: on the eighteen graphs of Feng and Huang (in
 * tests/data/feng) and on a generated graph of repeated blocks with 20,000 vertices. One thread. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_REPEATS 99
#define BLOCKS 2500u /* of eight vertices each */

static int compare_times(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

typedef struct timing {
    uint64_t value;
    int64_t median_ns;
} timing;

static cairn_status time_search(const cairn_dag *dag, const char *algorithm, uint64_t repeat,
                                timing *out, cairn_error *err) {
    int64_t times[MOST_REPEATS];
    *out = (timing){0};
    for (uint64_t i = 0; i < repeat; i++) {
        cairn_acg_solution *result;
        int64_t start = cli_clock();
        cairn_status status = cairn_acg_solve(NULL, dag, algorithm, NULL, &result, err);
        times[i] = cli_clock() - start;
        if (status != CAIRN_OK)
            return status;
        out->value = result->value;
        cairn_acg_solution_destroy(result);
    }
    qsort(times, repeat, sizeof *times, compare_times);
    out->median_ns = times[repeat / 2];
    return CAIRN_OK;
}

static void print_timing(const cli_args *args, const char *graph, const cairn_dag *dag,
                         const timing *feng, const timing *pieces) {
    if (cli_flag(args, "json")) {
        cli_bench_line("feng");
        printf(", \"graph\": \"%s\", \"vertices\": %u, \"feng_value\": %llu, \"feng_ns\": %lld",
               graph, dag->vertex_count, (unsigned long long)feng->value,
               (long long)feng->median_ns);
        if (pieces != NULL)
            printf(", \"pieces_value\": %llu, \"pieces_ns\": %lld",
                   (unsigned long long)pieces->value, (long long)pieces->median_ns);
        printf("}\n");
        return;
    }
    printf("%-13s %9u %14llu %10s", graph, dag->vertex_count, (unsigned long long)feng->value,
           cli_time(feng->median_ns));
    if (pieces != NULL)
        printf(" %14llu %10s", (unsigned long long)pieces->value, cli_time(pieces->median_ns));
    printf("\n");
}

static int bench_file(const cli_args *args, const char *network, uint64_t repeat, int64_t *total) {
    char path[1024];
    const char *data = cli_value(args, "data");
    snprintf(path, sizeof path, "%s/%s.json", data == NULL ? "tests/data/feng" : data, network);
    cairn_text text;
    cairn_error err = {0};
    cairn_acg_cases *cases = NULL;
    cairn_status status = cairn_text_load(NULL, path, &text, &err);
    if (status == CAIRN_OK) {
        status = cairn_acg_cases_read(NULL, text.data, text.length, path, &cases, &err);
        cairn_text_release(&text);
    }
    timing feng, pieces;
    if (status == CAIRN_OK)
        status = time_search(cairn_acg_cases_get(cases, 0), "feng", repeat, &feng, &err);
    if (status == CAIRN_OK)
        status = time_search(cairn_acg_cases_get(cases, 0), "pieces", 1, &pieces, &err);
    if (status == CAIRN_OK) {
        print_timing(args, network, cairn_acg_cases_get(cases, 0), &feng, &pieces);
        *total += feng.median_ns;
    }
    cairn_acg_cases_destroy(cases);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}

/* A row of blocks, each with two branches, a shortcut and a tangle that does not divide:
 *
 *      0 -> 1 -> 2 -> 6 -> 7 -> next        1 -> 4, 3 -> 4, 4 -> 5, 2 -> 5, 5 -> 6: complicated
 *      0 -> 3 -> 4 -> 5 -> 6, 0 -> 7        0 -> 7: a direct edge
 */
static const uint8_t block_edges[][2] = {{0, 1}, {1, 2}, {2, 6}, {6, 7}, {0, 3}, {3, 4},
                                         {4, 5}, {5, 6}, {1, 4}, {2, 5}, {0, 7}};
#define BLOCK_EDGES (sizeof block_edges / sizeof *block_edges)

static int compare_edges(const void *a, const void *b) {
    const cairn_dag_edge *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

static int bench_large(const cli_args *args, uint64_t repeat) {
    static uint64_t costs[BLOCKS * 8];
    static cairn_dag_edge edges[BLOCKS * (BLOCK_EDGES + 1)];
    uint32_t count = 0;
    for (uint32_t v = 0; v < BLOCKS * 8; v++)
        costs[v] = 1000 + v * 7919u % 1009u;
    for (uint32_t b = 0; b < BLOCKS; b++) {
        for (size_t e = 0; e < BLOCK_EDGES; e++)
            edges[count++] = (cairn_dag_edge){8 * b + block_edges[e][0], 8 * b + block_edges[e][1]};
        if (b + 1 < BLOCKS)
            edges[count++] = (cairn_dag_edge){8 * b + 7, 8 * b + 8};
    }
    qsort(edges, count, sizeof *edges, compare_edges);
    cairn_dag dag = {.vertex_count = BLOCKS * 8,
                     .edge_count = count,
                     .source = 0,
                     .target = BLOCKS * 8 - 1,
                     .costs = costs,
                     .edges = edges};
    cairn_error err = {0};
    timing feng;
    cairn_status status = time_search(&dag, "feng", repeat, &feng, &err);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    print_timing(args, "blocks", &dag, &feng, NULL);
    return CLI_DONE;
}

int cli_bench_feng(const cli_args *args) {
    uint64_t repeat;
    int64_t total = 0;
    const cli_paper_row *row;
    if (!cli_number(args, "repeat", 1, MOST_REPEATS, 5, &repeat))
        return CLI_USAGE;
    if (!cli_flag(args, "json"))
        printf("%-13s %9s %14s %10s %14s %10s\n", "graph", "vertices", "feng value", "time",
               "pieces value", "time");
    for (uint32_t i = 0; (row = cli_paper_table2(i)) != NULL; i++) {
        int code = bench_file(args, row->network, repeat, &total);
        if (code != CLI_DONE)
            return code;
    }
    if (!cli_flag(args, "json"))
        printf("%-13s %9s %14s %10s\n", "all eighteen", "", "", cli_time(total));
    return bench_large(args, repeat);
}
