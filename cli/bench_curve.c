/* bench_curve.c: how long the whole curve of `precise` takes, the answer for every budget: exact to
 * the byte, or with step functions of at most 512 points and the bracket that this leaves. */
#include "bench.h"
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THINNED 512

static const struct {
    const char *name;
    uint32_t batch;
    bool exact; /* also without thinning */
} networks[] = {
    {"resnet18", 32, true},     {"resnet50", 32, true},     {"resnet101", 32, true},
    {"resnet152", 32, true},    {"inception_v3", 32, true}, {"densenet121", 32, true},
    {"densenet161", 32, false}, {"densenet169", 32, false}, {"densenet201", 32, false},
};

/* The widest gap between a point and its bound, in percent. */
static double bracket(const cairn_budget_curve *curve) {
    double widest = 0;
    for (uint32_t i = 0; i < curve->count; i++) {
        double gap = 100.0 * (double)curve->points[i].time_ns / (double)curve->bounds[i] - 100.0;
        widest = gap > widest ? gap : widest;
    }
    return widest;
}

static cairn_status bench_one(const cli_args *args, const char *name, const cairn_graph *graph,
                              const cairn_costs *costs, uint32_t most, cairn_error *err) {
    cairn_budget_curve *curve, *bounded = NULL;
    int64_t start = cli_clock();
    cairn_status status = cairn_precise_curve(graph, costs, most, false, &curve, err);
    int64_t time = cli_clock() - start;
    if (status == CAIRN_OK && most > 0)
        status = cairn_precise_curve(graph, costs, most, true, &bounded, err);
    if (status != CAIRN_OK)
        return status;
    double gap = bounded == NULL ? 0 : bracket(bounded);
    if (cli_flag(args, "json")) {
        cli_bench_line("curve");
        printf(
            ", \"network\": \"%s\", \"pieces\": %u, \"points\": %u, \"exact\": %s, \"solve_ns\": "
            "%lld, \"bracket_percent\": %.4f}\n",
            name, curve->piece_count, curve->count, curve->exact ? "true" : "false",
            (long long)time, gap);
    } else {
        printf("%-13s %7u %9u %-8s %10s", name, curve->piece_count, curve->count,
               curve->exact ? "exact" : "thinned", cli_time(time));
        printf(curve->exact ? "\n" : "   within %.2f%%\n", gap);
    }
    cairn_budget_curve_destroy(bounded);
    cairn_budget_curve_destroy(curve);
    return CAIRN_OK;
}

int cli_bench_curve(const cli_args *args) {
    if (!cli_flag(args, "json"))
        printf("%-13s %7s %9s %-8s %10s   bracket\n", "network", "pieces", "points", "", "time");
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        cairn_error err = {0};
        cli_model net;
        cairn_status status = cli_model_network(networks[i].name, networks[i].batch, 0, &net, &err);
        if (status == CAIRN_OK && networks[i].exact)
            status = bench_one(args, networks[i].name, net.graph, net.costs, 0, &err);
        if (status == CAIRN_OK)
            status = bench_one(args, networks[i].name, net.graph, net.costs, THINNED, &err);
        cli_model_close(&net);
        if (status != CAIRN_OK)
            return cli_fail(status, &err);
    }
    return CLI_DONE;
}
