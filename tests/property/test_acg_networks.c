/* test_acg_networks.c: the eighteen networks of Feng and Huang, and large generated graphs. Values
 * of `feng` were confirmed by a slow program that follows the definitions; those of `pieces` are
 * upper bounds. Times are printed, not checked. */
#include "base/rng.h"
#include "cairn/papers/acg.h"
#include "check.h"

#include <time.h>

static const struct {
    const char *name;
    uint64_t feng;
    uint64_t pieces; /* upper bound; 0: not tried, to save time */
} networks[] = {
    {"alexnet", 424232, 424232},        {"vgg11", 4567016, 4567016},
    {"vgg13", 7477224, 7477224},        {"vgg16", 7577576, 7577576},
    {"vgg19", 7778280, 7778280},        {"resnet18", 2158568, 2158568},
    {"resnet34", 2309096, 2309096},     {"resnet50", 6172648, 5520360},
    {"resnet101", 6975464, 6373352},    {"resnet152", 7778280, 7477224},
    {"densenet121", 6191464, 5727336},  {"densenet161", 9790024, 0},
    {"densenet169", 6478408, 0},        {"densenet201", 7389416, 0},
    {"inception_v3", 5659384, 5334888}, {"nasnet", 4629514, 2712586},
    {"amoebanet", 4408330, 2224138},    {"darts", 4721674, 2565130},
};

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static uint64_t solve(const cairn_dag *dag, const char *algorithm, double *ms) {
    cairn_acg_solution *result;
    cairn_error err;
    double start = milliseconds();
    CHECK_OK(cairn_acg_solve(NULL, dag, algorithm, NULL, &result, &err), &err);
    *ms = milliseconds() - start;
    uint64_t value = result->value;
    cairn_acg_solution_destroy(result);
    return value;
}

static void test_network(size_t i) {
    char path[512];
    cairn_text text;
    cairn_error err;
    cairn_acg_cases *cases;
    double feng_ms, pieces_ms = 0;
    snprintf(path, sizeof path, "%s/feng/%s.json", CAIRN_TEST_DATA, networks[i].name);
    CHECK_OK(cairn_text_load(NULL, path, &text, &err), &err);
    CHECK_OK(cairn_acg_cases_read(NULL, text.data, text.length, path, &cases, &err), &err);
    const cairn_dag *dag = cairn_acg_cases_get(cases, 0);
    uint64_t feng = solve(dag, "feng", &feng_ms), pieces = 0;
    CHECK_U64(feng, networks[i].feng);
    if (networks[i].pieces > 0) {
        pieces = solve(dag, "pieces", &pieces_ms);
        CHECK(pieces <= networks[i].pieces);
    }
    printf("%-12s %5u vertices  feng %8" PRIu64 " in %6.2f ms  pieces %8" PRIu64 " in %7.1f ms\n",
           networks[i].name, dag->vertex_count, feng, feng_ms, pieces, pieces_ms);
    cairn_acg_cases_destroy(cases);
    cairn_text_release(&text);
}

/* ---- Large graphs: blocks in a row, or reading the two blocks before ---- */

typedef struct large {
    uint32_t n, m;
    uint64_t *costs;
    cairn_dag_edge *edges;
} large;

static void add_block(large *g, uint32_t other) {
    static const cairn_dag_edge inside[] = {{0, 1}, {1, 2}, {2, 3}, {0, 3}, {1, 4}, {3, 4}, {2, 4}};
    uint32_t start = g->n - 1; /* vertex 0 of the block is the last so far */
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        g->edges[g->m++] = (cairn_dag_edge){start + inside[i].from, start + inside[i].to};
    if (other != UINT32_MAX)
        g->edges[g->m++] = (cairn_dag_edge){other, start + 2};
    g->n += 4;
}

static int compare_edges(const void *a, const void *b) {
    const cairn_dag_edge *x = a, *y = b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from)
                              : (x->to > y->to) - (x->to < y->to);
}

static void test_large(uint32_t blocks, bool crossed) {
    large g = {1, 0, calloc(4 * (size_t)blocks + 1, sizeof *g.costs),
               calloc(8 * (size_t)blocks, sizeof *g.edges)};
    crn_rng rng = {blocks};
    for (uint32_t i = 0; i < blocks; i++)
        add_block(&g, crossed && i > 0 ? g.n - 3 : UINT32_MAX);
    for (uint32_t v = 0; v < g.n; v++)
        g.costs[v] = 1 + crn_rng_below(&rng, 1000000);
    qsort(g.edges, g.m, sizeof *g.edges, compare_edges);
    cairn_dag dag = {g.n, g.m, 0, g.n - 1, g.costs, g.edges};
    double ms;
    uint64_t value = solve(&dag, "feng", &ms);
    CHECK(value > 0);
    printf("%u blocks %s: %u vertices, feng %" PRIu64 " in %.2f ms\n", blocks,
           crossed ? "crossed" : "in a row", g.n, value, ms);
    free(g.costs);
    free(g.edges);
}

int main(void) {
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        test_network(i);
    test_large(5000, false);
    test_large(5000, true);
    test_large(50000, false);
    return check_result();
}
