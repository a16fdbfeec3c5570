/* bench_homes.c: what `auto` reaches with a limit for everything on the device: time over the step
 * with everything there, the certified bound and the gap to it, what is at home on the host, and
 * the time it takes to solve. Costs are analytic, of the H200; the optimiser keeps two moments. */
#include "bench.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SLOTS 2
#define MOST_MS 3000.0 /* to solve the largest */
#define GIB 1073741824.0

typedef struct row {
    const char *network;
    uint32_t batch, steps; /* of a sequence; 0: images */
    uint32_t percent;      /* of what `none` takes on the device; 0: the smallest budget */
} row;

static const row rows[] = {
    {"gpt2:1558M,layers=270", 8, 512, 30},
    {"gpt2:1558M,layers=270", 8, 512, 8},
    {"gpt2:1558M,layers=270", 8, 512, 4},
    {"gpt2:1558M,layers=270", 8, 512, 0},
    {"gpt2:1558M", 24, 1024, 12},
    {"gpt2:1558M", 24, 1024, 20},
    {"resnet152", 16, 0, 30},
};

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* The step with its updates, on the H200. */
static cairn_status open_whole(const row *r, cli_model *out, cairn_error *err) {
    cairn_updates_options updates = CAIRN_UPDATES_OPTIONS_INIT;
    cairn_graph *whole;
    updates.slots = SLOTS;
    cairn_status status = r->steps > 0
                              ? cli_model_sequence(r->network, r->batch, r->steps, out, err)
                              : cli_model_network(r->network, r->batch, 0, out, err);
    if (status == CAIRN_OK)
        status = cairn_graph_add_updates(out->graph, &updates, &whole, err);
    if (status != CAIRN_OK)
        return status;
    cairn_graph_destroy(out->graph);
    cairn_costs_destroy(out->costs);
    out->graph = whole;
    out->costs = NULL;
    status = cairn_machine_find("h200", &out->machine, err);
    return status == CAIRN_OK ? cairn_costs_analytic(out->graph, &out->machine, &out->costs, err)
                              : status;
}

static void print_row(const cli_args *args, const row *r, const cli_model *model, double none_ms,
                      const cairn_solution *solution, double solved_ms) {
    double ms = (double)solution->sim->summary->time_ns / 1e6;
    double bound = (double)solution->lower_bound_ns / 1e6;
    double homes = (double)solution->sim->summary->home_bytes / GIB;
    uint32_t ops = cairn_graph_op_count(model->graph);
    if (cli_flag(args, "json")) {
        cli_bench_line("homes");
        printf(", \"network\": \"%s\", \"ops\": %u, \"budget_percent\": %u, \"time_ms\": %.3f, "
               "\"everything_ms\": %.3f, \"bound_ms\": %.3f, \"home_gib\": %.2f, "
               "\"solve_ms\": %.0f}\n",
               r->network, ops, r->percent, ms, none_ms, bound, homes, solved_ms);
        return;
    }
    printf("%-22s %6u ops %3u%% %9.2f ms %+7.1f%% %7.1f%% %8.1f GiB %6.0f ms  %s\n", r->network,
           ops, r->percent, ms, 100 * (ms / none_ms - 1), 100 * (ms / bound - 1), homes, solved_ms,
           solved_ms <= MOST_MS ? "met" : "MISSED");
}

/* The budget of a row, where everything takes `all`. A refusal names the smallest. */
static cairn_status find_budget(const row *r, const cli_model *model, uint64_t all, uint64_t *out,
                                cairn_error *err) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_solution *solution;
    *out = all / 100 * r->percent;
    if (r->percent > 0)
        return CAIRN_OK;
    options.device_bytes = 1;
    options.machine = &model->machine;
    cairn_status status = cairn_solve(model->graph, model->costs, "auto", &options, &solution, err);
    cairn_solution_destroy(solution);
    *out = err->smallest_budget;
    return status == CAIRN_INFEASIBLE ? CAIRN_OK : status;
}

static cairn_status run_row(const cli_args *args, const row *r, cairn_error *err) {
    cli_model model = {0};
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_solution *none = NULL, *solution = NULL;
    cairn_status status = open_whole(r, &model, err);
    if (status == CAIRN_OK)
        status = cairn_solve(model.graph, model.costs, "none", NULL, &none, err);
    if (status == CAIRN_OK)
        status = find_budget(r, &model,
                             none->layout->arena_bytes +
                                 cairn_stationary_bytes(model.graph, model.costs, 0),
                             &options.device_bytes, err);
    if (status == CAIRN_OK) {
        options.machine = &model.machine;
        double start = now_ms();
        status = cairn_solve(model.graph, model.costs, "auto", &options, &solution, err);
        if (status == CAIRN_OK)
            print_row(args, r, &model, (double)none->sim->summary->time_ns / 1e6, solution,
                      now_ms() - start);
    }
    cairn_solution_destroy(solution);
    cairn_solution_destroy(none);
    cli_model_close(&model);
    return status;
}

int cli_bench_homes(const cli_args *args) {
    const char *only = cli_value(args, "only");
    cairn_error err = {0};
    cairn_status status = CAIRN_OK;
    if (!cli_flag(args, "json"))
        printf("%-22s %10s %4s %12s %8s %8s %12s %9s\n", "network", "", "", "a step", "more", "gap",
               "on the host", "solved in");
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == CAIRN_OK; i++)
        if (only == NULL || strcmp(only, rows[i].network) == 0)
            status = run_row(args, &rows[i], &err);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}
