/* bench_thesis.c: the figures of Butt's thesis: what memory buys on uniform chains (4.1), what
 * buckets of memory cost (4.2), and how far the batch can grow (4.3). */
#include "bench.h"
#include "cairn/report.h"
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LAYERS 100
#define MOST_POINTS 512

/* ---- Figure 4.1: uniform chains ---- */

typedef struct line {
    char name[32];
    double x[MOST_POINTS], y[MOST_POINTS];
    uint32_t count;
} line;

static cairn_status solve_uniform(uint32_t layers, cairn_chain_solution **out, cairn_error *err) {
    static int64_t costs[MOST_LAYERS + 2];
    static uint64_t sizes[MOST_LAYERS + 2];
    for (uint32_t i = 0; i < MOST_LAYERS + 2; i++)
        costs[i] = 1, sizes[i] = 1;
    cairn_chain_problem problem = {.layers = layers,
                                   .forward_costs = costs,
                                   .backward_costs = costs,
                                   .forward_sizes = sizes,
                                   .backward_sizes = sizes,
                                   .budget = 2 * layers + 4};
    cairn_chain_options options = CAIRN_CHAIN_OPTIONS_INIT;
    options.curve = true;
    return cairn_chain_solve(NULL, &problem, "precise", &options, out, err);
}

static void print_uniform(const cli_args *args, uint32_t layers, const cairn_chain_point *point) {
    if (cli_flag(args, "json")) {
        cli_bench_line("figure4.1");
        printf(", \"layers\": %u, \"budget\": %llu, \"cost\": %lld}\n", layers,
               (unsigned long long)point->budget, (long long)point->cost);
    } else {
        printf("%8u %8llu %8lld\n", layers, (unsigned long long)point->budget,
               (long long)point->cost);
    }
}

static int draw(const cli_args *args, const char *title, const char *x, const char *y,
                const line *lines, uint32_t count) {
    cairn_curve curves[8];
    cairn_text text;
    if (cli_value(args, "svg") == NULL)
        return CLI_DONE;
    for (uint32_t i = 0; i < count; i++)
        curves[i] = (cairn_curve){.name = lines[i].name,
                                  .x = lines[i].x,
                                  .y = lines[i].y,
                                  .count = lines[i].count,
                                  .joined = true};
    cairn_status status = cairn_plot_svg(NULL, title, x, y, curves, count, &text);
    return status == CAIRN_OK ? cli_emit(&text, cli_value(args, "svg")) : cli_fail(status, NULL);
}

static void add_point(line *to, double x, double y) {
    if (to->count < MOST_POINTS) {
        to->x[to->count] = x;
        to->y[to->count++] = y;
    }
}

int cli_bench_uniform(const cli_args *args) {
    static const uint32_t lengths[] = {20, 40, 60, 80, 100};
    static line lines[5];
    cairn_error err = {0};
    if (!cli_flag(args, "json"))
        printf("%8s %8s %8s\n", "layers", "budget", "cost");
    for (uint32_t i = 0; i < 5; i++) {
        cairn_chain_solution *solution;
        cairn_status status = solve_uniform(lengths[i], &solution, &err);
        if (status != CAIRN_OK)
            return cli_fail(status, &err);
        lines[i].count = 0;
        snprintf(lines[i].name, sizeof lines[i].name, "%u layers", lengths[i]);
        for (size_t p = 0; p < solution->curve_count; p++) {
            print_uniform(args, lengths[i], &solution->curve[p]);
            add_point(&lines[i], (double)solution->curve[p].budget,
                      (double)solution->curve[p].cost);
        }
        cairn_chain_solution_destroy(solution);
    }
    return draw(args, "uniform chains: memory against time", "budget, tensors", "steps", lines, 5);
}

/* ---- Plans for 4.2 and 4.3 ---- */

/* Peak and time of an algorithm's plan, made with `believed` costs and judged by the real ones. */
typedef struct outcome {
    uint64_t peak;
    int64_t time, solve_ns;
} outcome;

static cairn_status try_plan(const cli_model *net, const cairn_costs *believed,
                             const char *algorithm, uint64_t budget, outcome *out,
                             cairn_error *err) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_solution *solution = NULL;
    cairn_sim *sim = NULL;
    options.budget_bytes = budget;
    options.machine = &net->machine;
    int64_t start = cli_clock();
    cairn_status status = cairn_solve(net->graph, believed, algorithm, &options, &solution, err);
    out->solve_ns = cli_clock() - start;
    if (status == CAIRN_OK)
        status = cairn_simulate(net->graph, net->costs, solution->plan, NULL, &sim, err);
    if (status == CAIRN_OK) {
        out->peak = sim->summary->peak_bytes;
        out->time = sim->summary->time_ns;
    }
    cairn_sim_destroy(sim);
    cairn_solution_destroy(solution);
    return status;
}

/* ---- Figure 4.2: buckets ---- */

/* Costs in which every size is rounded up to whole buckets. */
static cairn_status bucketed(const cli_model *net, uint64_t bucket, cairn_costs **out,
                             cairn_error *err) {
    cairn_status status = cairn_costs_analytic(net->graph, &net->machine, out, err);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(net->graph) && status == CAIRN_OK; t++) {
        uint64_t bytes = cairn_graph_tensor(net->graph, t)->bytes;
        cairn_costs_set_bytes(*out, t, (bytes + bucket - 1) / bucket * bucket);
    }
    return status;
}

static void print_bucket(const cli_args *args, uint64_t bucket, cairn_status status,
                         const outcome *o, int64_t exact) {
    bool json = cli_flag(args, "json");
    if (json) {
        cli_bench_line("figure4.2");
        printf(", \"bucket_bytes\": %llu, \"solve_ns\": %lld, \"time_ns\": ",
               (unsigned long long)bucket, (long long)o->solve_ns);
        if (status == CAIRN_OK)
            printf("%lld}\n", (long long)o->time);
        else
            printf("null}\n");
        return;
    }
    printf("%12s %12s ", bucket == 1 ? "exact" : cli_bytes(bucket), cli_time(o->solve_ns));
    if (status == CAIRN_OK)
        printf("%12s %+8.1f%%\n", cli_time(o->time),
               100.0 * (double)o->time / (double)exact - 100.0);
    else
        printf("%12s\n", "nothing fits");
}

static int bench_buckets(const cli_args *args, cli_model *net) {
    static const uint64_t buckets[] = {1,        1u << 16,  1u << 18, 1u << 20,
                                       5u << 20, 10u << 20, 25u << 20};
    static line lines[1];
    cairn_error err = {0};
    outcome none, o = {0};
    int64_t exact = 1;
    cairn_status status = try_plan(net, net->costs, "none", 0, &none, &err);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    uint64_t budget = none.peak * 4 / 10;
    if (!cli_flag(args, "json"))
        printf("densenet121, batch 32, %s (40%% of none)\n%12s %12s %12s %9s\n", cli_bytes(budget),
               "bucket", "solving", "step", "over");
    snprintf(lines[0].name, sizeof lines[0].name, "step, ms");
    lines[0].count = 0;
    for (size_t i = 0; i < sizeof buckets / sizeof *buckets; i++) {
        cairn_costs *believed = NULL;
        status = bucketed(net, buckets[i], &believed, &err);
        if (status == CAIRN_OK)
            status = try_plan(net, believed, "precise", budget, &o, &err);
        cairn_costs_destroy(believed);
        if (status != CAIRN_OK && status != CAIRN_INFEASIBLE)
            return cli_fail(status, &err);
        exact = i == 0 ? o.time : exact;
        print_bucket(args, buckets[i], status, &o, exact);
        if (status == CAIRN_OK)
            add_point(&lines[0], (double)buckets[i] / (1 << 20), (double)o.time / 1e6);
    }
    return draw(args, "DenseNet-121: what buckets of memory cost", "bucket, MiB", "step, ms", lines,
                1);
}

int cli_bench_buckets(const cli_args *args) {
    cli_model net;
    cairn_error err = {0};
    cairn_status status = cli_model_network("densenet121", 32, 0, &net, &err);
    int code = status == CAIRN_OK ? bench_buckets(args, &net) : cli_fail(status, &err);
    cli_model_close(&net);
    return code;
}

/* ---- Figure 4.3: the batch ---- */

static void print_batch(const cli_args *args, uint32_t batch, const cairn_status *status,
                        const outcome *o) {
    static const char *const names[] = {"none", "precise"};
    if (cli_flag(args, "json")) {
        cli_bench_line("figure4.3");
        printf(", \"batch\": %u", batch);
        for (int i = 0; i < 2; i++)
            if (status[i] == CAIRN_OK)
                printf(", \"%s_ns\": %lld, \"%s_peak_bytes\": %llu", names[i], (long long)o[i].time,
                       names[i], (unsigned long long)o[i].peak);
        printf("}\n");
        return;
    }
    printf("%6u", batch);
    for (int i = 0; i < 2; i++)
        if (status[i] == CAIRN_OK)
            printf(" %12s %12s %9.0f", cli_bytes(o[i].peak), cli_time(o[i].time),
                   1e9 * batch / (double)o[i].time);
        else
            printf(" %12s %12s %9s", "-", "-", "-");
    printf("\n");
}

/* One batch; `*fits` false when even the best plan does not. */
static cairn_status try_batch(const cli_args *args, uint32_t batch, line *lines, bool *fits,
                              cairn_error *err) {
    cli_model net;
    cairn_status status = cli_model_network("resnet50", batch, 0, &net, err), results[2];
    outcome o[2];
    *fits = false;
    if (status == CAIRN_OK) {
        uint64_t stationary = cairn_stationary_bytes(net.graph, net.costs, 1);
        uint64_t budget = net.machine.memory_bytes - stationary;
        results[0] = try_plan(&net, net.costs, "none", budget, &o[0], err);
        results[1] = try_plan(&net, net.costs, "precise", budget, &o[1], err);
        *fits = results[1] == CAIRN_OK;
        print_batch(args, batch, results, o);
        for (int i = 0; i < 2; i++)
            if (results[i] == CAIRN_OK)
                add_point(&lines[i], batch, (double)o[i].time / 1e6);
        if (results[1] != CAIRN_OK && results[1] != CAIRN_INFEASIBLE)
            status = results[1];
    }
    cli_model_close(&net);
    return status;
}

int cli_bench_batch(const cli_args *args) {
    static line lines[2] = {{.name = "none"}, {.name = "precise"}};
    lines[0].count = lines[1].count = 0;
    if (!cli_flag(args, "json"))
        printf("resnet50 on a V100 of 16 GiB, until nothing fits\n"
               "%6s %12s %12s %9s %12s %12s %9s\n",
               "batch", "none: peak", "step", "images/s", "precise", "step", "images/s");
    bool fits = true;
    for (uint32_t batch = 32; fits && batch <= 4096; batch += batch < 256 ? 32 : 64) {
        cairn_error err = {0};
        cairn_status status = try_batch(args, batch, lines, &fits, &err);
        if (status != CAIRN_OK)
            return cli_fail(status, &err);
    }
    return draw(args, "ResNet-50 in 16 GiB: the batch until nothing fits", "batch", "step, ms",
                lines, 2);
}
