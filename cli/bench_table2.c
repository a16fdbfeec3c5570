/* bench_table2.c: table 2 of Feng and Huang, from the simulator: memory of a training step beyond
 * what is stationary, for regular training and for each checkpoint search, beside the paper's own
 * columns. Transformers, which the paper does not have, follow. */
#include "bench.h"
#include "model.h"

#include <stdio.h>
#include <string.h>

static const char *const algorithms[] = {"none", "random", "chen", "feng", "pieces"};
#define ALGORITHMS (sizeof algorithms / sizeof *algorithms)

static const cli_paper_row transformers[] = {
    {.network = "gpt2", .batch = 8},      {.network = "gpt2:355M", .batch = 8},
    {.network = "llama", .batch = 2},     {.network = "bert_base", .batch = 16},
    {.network = "vit_b_16", .batch = 32}, {.network = "vit_l_16", .batch = 32},
};

/* The rows of the paper, then the transformers, then NULL. */
static const cli_paper_row *row_at(uint32_t index) {
    uint32_t of_paper = 0;
    while (cli_paper_table2(of_paper) != NULL)
        of_paper++;
    if (index < of_paper)
        return cli_paper_table2(index);
    index -= of_paper;
    return index < sizeof transformers / sizeof *transformers ? &transformers[index] : NULL;
}

/* The simulated peak and time of one algorithm; a peak of 0: it does not apply. */
static cairn_status measure(const cli_model *net, const char *algorithm, uint64_t *peak,
                            int64_t *time, cairn_error *err) {
    cairn_solution *solution;
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.seed = 1;
    *peak = 0;
    *time = 0;
    cairn_status status = cairn_solve(net->graph, net->costs, algorithm, &options, &solution, err);
    if (status == CAIRN_EINVAL)
        return CAIRN_OK;
    if (status == CAIRN_OK) {
        *peak = solution->sim->summary->peak_bytes;
        *time = solution->sim->summary->time_ns;
    }
    cairn_solution_destroy(solution);
    return status;
}

static void print_mib(uint64_t bytes) {
    if (bytes == 0)
        printf("      -");
    else
        printf(" %6llu", (unsigned long long)((bytes + (1u << 19)) >> 20));
}

static void print_mb(uint32_t mb) {
    if (mb == 0)
        printf("     -");
    else
        printf(" %5u", mb);
}

static void print_row(const cli_paper_row *row, const uint64_t *peaks, const int64_t *times) {
    printf("%-13s %5u |", row->network, row->batch);
    for (size_t i = 0; i < ALGORITHMS; i++)
        print_mib(peaks[i]);
    printf(" %4.0f%% %4.0f%% %5.0f%% |", 100.0 - 100.0 * (double)peaks[3] / (double)peaks[0],
           100.0 - 100.0 * (double)peaks[4] / (double)peaks[0],
           100.0 * (double)times[3] / (double)times[0] - 100.0);
    print_mb(row->regular);
    print_mb(row->random);
    print_mb(row->chen);
    print_mb(row->feng);
    if (row->regular > 0)
        printf(" %4.0f%%", 100.0 - 100.0 * row->feng / row->regular);
    putchar('\n');
}

static void print_json(const cli_paper_row *row, const uint64_t *peaks, const int64_t *times) {
    cli_bench_line("table2");
    printf(", \"network\": \"%s\", \"batch\": %u", row->network, row->batch);
    for (size_t i = 0; i < ALGORITHMS; i++) {
        if (peaks[i] == 0)
            printf(", \"%s_bytes\": null, \"%s_ns\": null", algorithms[i], algorithms[i]);
        else
            printf(", \"%s_bytes\": %llu, \"%s_ns\": %lld", algorithms[i],
                   (unsigned long long)peaks[i], algorithms[i], (long long)times[i]);
    }
    if (row->regular > 0)
        printf(", \"paper_regular_mb\": %u, \"paper_random_mb\": %u, \"paper_chen_mb\": %u, "
               "\"paper_feng_mb\": %u",
               row->regular, row->random, row->chen, row->feng);
    printf("}\n");
}

int cli_bench_table2(const cli_args *args) {
    const cli_paper_row *row;
    bool json = cli_flag(args, "json");
    if (cli_flag(args, "full") && !cli_flag(args, "run"))
        return cli_usage_error(args, "--full needs --run");
    if (cli_flag(args, "run"))
        return cli_flag(args, "full") ? cli_bench_table2_full(args) : cli_bench_table2_run(args);
    if (!json)
        printf("%-20s| simulated, MiB: peak of what a plan controls            | paper, MB\n"
               "%-13s %5s |%7s%7s%7s%7s%7s%6s%6s%7s |%6s%6s%6s%6s%6s\n",
               "", "network", "batch", "none", "random", "chen", "feng", "pieces", "saved", "saved",
               "time", "reg.", "rand.", "chen", "ours", "saved");
    for (uint32_t i = 0; (row = row_at(i)) != NULL; i++) {
        cli_model net;
        cairn_error err = {0};
        uint64_t peaks[ALGORITHMS];
        int64_t times[ALGORITHMS];
        cairn_status status = cli_model_network(row->network, row->batch, row->size, &net, &err);
        for (size_t a = 0; a < ALGORITHMS && status == CAIRN_OK; a++)
            status = measure(&net, algorithms[a], &peaks[a], &times[a], &err);
        cli_model_close(&net);
        if (status != CAIRN_OK)
            return cli_fail(status, &err);
        if (json)
            print_json(row, peaks, times);
        else
            print_row(row, peaks, times);
    }
    return CLI_DONE;
}
