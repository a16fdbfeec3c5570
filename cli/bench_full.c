/* bench_full.c: `cairn-bench table2 --run --full`: the eighteen networks of table 2 of Feng and
 * Huang at the batch and the image size of the paper, trained with all the memory and, by `auto`,
 * with less than the authors' own program takes; beside what that program and eager PyTorch took on
 * one H200. It needs a device with the memory and the speed for that. */
#include "bench.h"
#include "planning.h"
#include "quantiles.h"

#include <stdio.h>
#include <string.h>

#define MOST_STEPS 1000u

/* PyTorch 2.11, TF32, SGD with momentum, on one H200: MiB that a step allocates beside parameters,
 * gradients and momenta, and its milliseconds; eager, and with the checkpoints of the authors'
 * program. */
static const struct rival {
    const char *network;
    uint32_t eager_mib, authors_mib;
    double eager_ms, authors_ms;
} rivals[] = {
    {"alexnet", 3930, 3851, 56.9, 77.6},     {"vgg11", 3376, 2781, 28.4, 36.3},
    {"vgg13", 4552, 4351, 42.1, 55.2},       {"vgg16", 4871, 4351, 49.8, 63.6},
    {"vgg19", 5189, 4351, 57.3, 72.8},       {"resnet18", 5515, 3675, 52.3, 73.9},
    {"resnet34", 3998, 1838, 41.1, 57.6},    {"resnet50", 5313, 1979, 35.2, 56.1},
    {"resnet101", 3912, 1023, 36.3, 71.6},   {"resnet152", 2735, 520, 71.2, 118.5},
    {"densenet121", 4030, 827, 62.3, 101.4}, {"densenet161", 3744, 655, 77.6, 131.7},
    {"densenet169", 4873, 863, 75.6, 139.2}, {"densenet201", 3158, 505, 95.5, 141.8},
    {"inception_v3", 3098, 876, 50.5, 82.8}, {"nasnet", 4743, 1096, 150.6, 383.5},
    {"amoebanet", 4078, 1023, 121.8, 338.6}, {"darts", 4423, 1109, 109.9, 322.7},
};

/* What a plan gave. */
typedef struct outcome {
    uint64_t arena;
    int64_t predicted_ns;
    cli_quantiles times;
    char hash[65]; /* of parameters, state and gradients at the end */
    bool as_predicted;
} outcome;

typedef struct full_bench {
    cli_bench_setup setup;
    uint64_t steps;
    cli_model model;
    uint32_t rows, smaller, faster;
} full_bench;

static const struct rival *rival_of(const char *network) {
    for (size_t i = 0; i < sizeof rivals / sizeof *rivals; i++)
        if (strcmp(rivals[i].network, network) == 0)
            return &rivals[i];
    return NULL;
}

/* ---- Running ---- */

static cairn_status open_network(full_bench *b, const cli_paper_row *row, cairn_error *err) {
    cairn_status status = cli_model_network(row->network, row->batch, row->size, &b->model, err);
    if (status == CAIRN_OK)
        status = cli_bench_bind(&b->setup, &b->model, err);
    return status == CAIRN_OK ? cli_bench_profile(&b->model, err) : status;
}

/* Steps with an update each; the first is to warm up. */
static cairn_status run_steps(full_bench *b, cairn_exec *exec, outcome *out, cairn_error *err) {
    int64_t times[MOST_STEPS];
    cairn_status status = CAIRN_OK;
    out->as_predicted = true;
    for (uint64_t i = 0; i <= b->steps && status == CAIRN_OK; i++) {
        cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
        status = cairn_exec_fill(exec, i, err);
        if (status == CAIRN_OK)
            status = cairn_exec_run(exec, i, &result, err);
        if (i > 0)
            times[i - 1] = result.time_ns;
        out->as_predicted &=
            result.measured_peak_bytes == cairn_exec_get_figures(exec)->predicted_peak_bytes;
    }
    if (status != CAIRN_OK)
        return status;
    out->times = cli_quantiles_of(times, (uint32_t)b->steps);
    return cairn_exec_sha256(exec, CAIRN_EXEC_PARAMETERS | CAIRN_EXEC_STATE | CAIRN_EXEC_GRADIENTS,
                             out->hash, err);
}

/* By an algorithm within `budget` bytes; 0: no limit. */
static cairn_status run_plan(full_bench *b, const char *algorithm, uint64_t budget, outcome *out,
                             cairn_error *err) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    cairn_solution *solution;
    cairn_exec *exec = NULL;
    options.budget_bytes = budget;
    options.update_in_run = true;
    options.learning_rate = 0.001f; /* some networks diverge with the default rate */
    cairn_status status = cli_solve(&b->model, algorithm, budget, 0, &solution, err);
    if (status == CAIRN_OK) {
        out->predicted_ns = cli_predicted_ns(&b->model, solution, 1);
        status = cairn_exec_create(b->model.graph, b->model.device, b->model.costs, solution,
                                   &options, &exec, err);
    }
    if (status == CAIRN_OK) {
        out->arena = cairn_exec_get_figures(exec)->arena_bytes;
        status = run_steps(b, exec, out, err);
    }
    cairn_exec_destroy(exec);
    cairn_solution_destroy(solution);
    return status;
}

/* ---- Rows ---- */

static double mib(uint64_t bytes) {
    return (double)bytes / (1 << 20);
}

static double ms(int64_t ns) {
    return (double)ns / 1e6;
}

static void print_row(full_bench *b, const cli_paper_row *row, const struct rival *rival,
                      const outcome *none, const outcome *planned) {
    bool same = strcmp(none->hash, planned->hash) == 0;
    bool smaller = mib(planned->arena) < rival->authors_mib;
    bool faster = ms(planned->times.median) < rival->eager_ms;
    b->rows++;
    b->smaller += smaller;
    b->faster += faster;
    if (!cli_flag(b->setup.args, "json")) {
        printf("%-13s %5u |%6.0f %7.2f |%6.0f %7.2f %7.2f %+6.1f%% %5s %5s |%6u %7.1f |%6u %7.1f\n",
               row->network, row->batch, mib(none->arena), ms(none->times.median),
               mib(planned->arena), ms(planned->predicted_ns), ms(planned->times.median),
               100 * (ms(planned->times.median) / ms(planned->predicted_ns) - 1),
               planned->as_predicted ? "yes" : "NO", same ? "yes" : "NO", rival->authors_mib,
               rival->authors_ms, rival->eager_mib, rival->eager_ms);
    } else {
        cli_bench_line("table2-full");
        printf(
            ", \"network\": \"%s\", \"batch\": %u, \"backend\": \"%s\", \"none_bytes\": %llu, "
            "\"none_ms\": %.3f, \"planned_bytes\": %llu, \"predicted_ms\": %.3f, "
            "\"planned_ms\": %.3f, \"peak_as_predicted\": %s, \"equal_to_none\": %s, "
            "\"authors_mib\": %u, \"authors_ms\": %.1f, \"eager_mib\": %u, \"eager_ms\": %.1f}\n",
            row->network, row->batch, b->setup.backend, (unsigned long long)none->arena,
            ms(none->times.median), (unsigned long long)planned->arena, ms(planned->predicted_ns),
            ms(planned->times.median), planned->as_predicted ? "true" : "false",
            same ? "true" : "false", rival->authors_mib, rival->authors_ms, rival->eager_mib,
            rival->eager_ms);
    }
    fflush(stdout);
}

static cairn_status run_network(full_bench *b, const cli_paper_row *row, const struct rival *rival,
                                cairn_error *err) {
    outcome none = {0}, planned = {0};
    uint64_t budget = ((uint64_t)rival->authors_mib << 20) - 1;
    cairn_status status = open_network(b, row, err);
    if (status == CAIRN_OK)
        status = run_plan(b, "none", 0, &none, err);
    if (status == CAIRN_OK)
        status = run_plan(b, "auto", budget, &planned, err);
    if (status == CAIRN_OK)
        print_row(b, row, rival, &none, &planned);
    return status;
}

int cli_bench_table2_full(const cli_args *args) {
    const cli_paper_row *row;
    full_bench b = {0};
    if (!cli_bench_read(args, 0, 0, &b.setup) ||
        !cli_number(args, "repeat", 1, MOST_STEPS, 10, &b.steps))
        return CLI_USAGE;
    if (!cli_flag(args, "json"))
        printf("%-20s| none         | auto: less memory than the authors'       | the authors'   | "
               "PyTorch, eager\n%-13s %5s |%6s %7s |%6s %7s %7s %7s %5s %5s |%6s %7s |%6s %7s\n",
               "", "network", "batch", "MiB", "ms", "MiB", "pred.", "ms", "error", "peak", "bits",
               "MiB", "ms", "MiB", "ms");
    for (uint32_t i = 0; (row = cli_paper_table2(i)) != NULL; i++) {
        cairn_error err = {0};
        const struct rival *rival = rival_of(row->network);
        if (rival == NULL || (b.setup.only != NULL && strcmp(b.setup.only, row->network) != 0))
            continue;
        cairn_status status = run_network(&b, row, rival, &err);
        cli_model_close(&b.model);
        if (status != CAIRN_OK)
            return cli_fail(status, &err);
    }
    if (!cli_flag(args, "json"))
        printf("%u networks: %u with less memory than the authors' program, %u faster than eager "
               "PyTorch\n",
               b.rows, b.smaller, b.faster);
    return CLI_DONE;
}
