/* bench_curve.c: how long the whole curve of `precise` takes, the answer for every budget: exact to
 * the byte, or with step functions of at most 512 points and the bracket that this leaves. Then how
 * long a plan for one budget takes on a chain of a thousand steps. Next to each is the most memory
 * that the process has taken so far; the networks come by size. */
#include "bench.h"
#include "cairn/budget.h"
#include "cairn/papers/budget_curve.h"
#include "planning.h"

#include <stdio.h>
#include <sys/resource.h>

#define THINNED 512
#define STEPS 1000

static const char *const networks[] = {"resnet18",    "resnet50",     "resnet101",
                                       "resnet152",   "inception_v3", "densenet121",
                                       "densenet161", "densenet169",  "densenet201"};

static uint64_t peak_bytes(void) {
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

/* The widest gap between a point and its bound, in percent. */
static double bracket(const cairn_budget_curve *curve) {
    double widest = 0;
    for (uint32_t i = 0; i < curve->count; i++) {
        double gap = 100.0 * (double)curve->points[i].time_ns / (double)curve->bounds[i] - 100.0;
        widest = gap > widest ? gap : widest;
    }
    return widest;
}

static void print_curve(const cli_args *args, const char *name, const cairn_budget_curve *curve,
                        int64_t time, double gap) {
    if (cli_flag(args, "json")) {
        cli_bench_line("curve");
        printf(
            ", \"network\": \"%s\", \"pieces\": %u, \"points\": %u, \"exact\": %s, \"solve_ns\": "
            "%lld, \"bracket_percent\": %.4f, \"peak_bytes\": %llu}\n",
            name, curve->piece_count, curve->count, curve->exact ? "true" : "false",
            (long long)time, gap, (unsigned long long)peak_bytes());
        return;
    }
    printf("%-13s %7u %9u %-8s %10s %11s", name, curve->piece_count, curve->count,
           curve->exact ? "exact" : "thinned", cli_time(time), cli_bytes(peak_bytes()));
    printf(curve->exact ? "\n" : "   within %.2f%%\n", gap);
}

static cairn_status bench_one(const cli_args *args, const char *name, const cli_model *net,
                              uint32_t most, cairn_error *err) {
    cairn_budget_curve *curve, *bounded = NULL;
    int64_t start = cli_clock();
    cairn_status status = cairn_precise_curve(net->graph, net->costs, most, false, &curve, err);
    int64_t time = cli_clock() - start;
    if (status != CAIRN_OK)
        return status;
    if (most > 0)
        status = cairn_precise_curve(net->graph, net->costs, most, true, &bounded, err);
    if (status == CAIRN_OK)
        print_curve(args, name, curve, time, bounded == NULL ? 0 : bracket(bounded));
    cairn_budget_curve_destroy(bounded);
    cairn_budget_curve_destroy(curve);
    return status;
}

/* A plan for a share of what `none` needs; the time includes its simulation and layout. */
static cairn_status bench_budget(const cli_args *args, const cli_model *net,
                                 const cairn_solution *none, uint32_t percent, cairn_error *err) {
    cairn_solution *solution;
    int64_t start = cli_clock();
    cairn_status status =
        cli_solve(net, "precise", none->layout->arena_bytes * percent / 100, 0, &solution, err);
    int64_t time = cli_clock() - start;
    if (status != CAIRN_OK)
        return status;
    if (cli_flag(args, "json")) {
        cli_bench_line("curve");
        printf(", \"network\": \"lstm\", \"steps\": %u, \"budget_percent\": %u, \"plan_ns\": %lld, "
               "\"peak_bytes\": %llu}\n",
               STEPS, percent, (long long)time, (unsigned long long)peak_bytes());
    } else {
        printf("%-13s %7u %8u%% %-8s %10s %11s\n", "lstm", STEPS, percent, "one plan",
               cli_time(time), cli_bytes(peak_bytes()));
    }
    cairn_solution_destroy(solution);
    return CAIRN_OK;
}

static cairn_status bench_network(const cli_args *args, const char *name, cairn_error *err) {
    cli_model net;
    cairn_status status = cli_model_network(name, 32, 0, &net, err);
    if (status == CAIRN_OK)
        status = bench_one(args, name, &net, 0, err);
    if (status == CAIRN_OK)
        status = bench_one(args, name, &net, THINNED, err);
    cli_model_close(&net);
    return status;
}

static cairn_status bench_sequence(const cli_args *args, cairn_error *err) {
    static const uint32_t percents[] = {10, 30, 50, 80};
    cli_model net;
    cairn_solution *none = NULL;
    cairn_status status = cli_model_sequence("lstm", 32, STEPS, &net, err);
    if (status == CAIRN_OK)
        status = cli_solve(&net, "none", 0, 0, &none, err);
    for (size_t i = 0; i < sizeof percents / sizeof *percents && status == CAIRN_OK; i++)
        status = bench_budget(args, &net, none, percents[i], err);
    cairn_solution_destroy(none);
    cli_model_close(&net);
    return status;
}

int cli_bench_curve(const cli_args *args) {
    cairn_error err = {0};
    cairn_status status = CAIRN_OK;
    if (!cli_flag(args, "json"))
        printf("%-13s %7s %9s %-8s %10s %11s   bracket\n", "network", "pieces", "points", "",
               "time", "memory");
    for (size_t i = 0; i < sizeof networks / sizeof *networks && status == CAIRN_OK; i++)
        status = bench_network(args, networks[i], &err);
    if (status == CAIRN_OK)
        status = bench_sequence(args, &err);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}
