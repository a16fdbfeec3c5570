/* bench_layout.c: the arena beside the live peak, for every network of the zoo under every
 * algorithm; those that look at a budget under 90, 70, 50 and 30% of what none needs and under the
 * smallest budget that they report as possible. Costs are those of the V100 description. */
#include "bench.h"
#include "model.h"

#include <stdio.h>
#include <string.h>

#define BATCH 32u

static const uint32_t percents[] = {90, 70, 50, 30, 0}; /* 0: the smallest */
#define BUDGETS (sizeof percents / sizeof *percents)

typedef struct bench {
    bool json, quick;
    uint32_t plans, above; /* a hundredth */
    double worst;
    char worst_name[96];
} bench;

static void print_plan(bench *b, const char *network, const char *algorithm, uint32_t percent,
                       const cairn_solution *solution, int64_t solve_ns) {
    uint64_t peak = solution->sim->summary->peak_bytes;
    uint64_t arena = solution->layout->arena_bytes;
    double over = 100.0 * (double)arena / (double)peak - 100.0;
    b->plans++;
    b->above += arena > peak + peak / 100;
    if (b->worst_name[0] == '\0' || over > b->worst) {
        b->worst = over;
        snprintf(b->worst_name, sizeof b->worst_name, "%s, %s", network, algorithm);
    }
    if (b->json) {
        cli_bench_line("layout");
        printf(", \"network\": \"%s\", \"algorithm\": \"%s\", \"budget_percent\": %u, "
               "\"peak_bytes\": %llu, \"arena_bytes\": %llu, \"solve_ns\": %lld}\n",
               network, algorithm, percent, (unsigned long long)peak, (unsigned long long)arena,
               (long long)solve_ns);
    } else {
        char budget[16] = "smallest";
        if (percent > 0)
            snprintf(budget, sizeof budget, "%u%%", percent);
        printf("%-13s %-16s %9s %10s %10s %8.3f%% %10s\n", network, algorithm, budget,
               cli_bytes(peak), cli_bytes(arena), over, cli_time(solve_ns));
    }
    fflush(stdout);
}

/* One plan; what no plan fits, or the algorithm cannot do, is left out. */
static cairn_status bench_plan(bench *b, const cli_model *net, const char *network,
                               const cairn_solver *solver, uint32_t percent, uint64_t budget,
                               uint64_t *smallest, cairn_error *err) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_solution *solution;
    options.machine = &net->machine;
    options.budget_bytes = budget;
    int64_t start = cli_clock();
    cairn_status status =
        cairn_solve(net->graph, net->costs, solver->name, &options, &solution, err);
    int64_t time = cli_clock() - start;
    if (status == CAIRN_INFEASIBLE)
        *smallest = err->smallest_budget;
    if (status == CAIRN_INFEASIBLE || status == CAIRN_EINVAL)
        return CAIRN_OK;
    if (status == CAIRN_OK)
        print_plan(b, network, solver->name, percent, solution, time);
    cairn_solution_destroy(solution);
    return status;
}

static cairn_status bench_algorithm(bench *b, const cli_model *net, const char *network,
                                    const cairn_solver *solver, uint64_t none, cairn_error *err) {
    uint64_t smallest = 0;
    cairn_status status = CAIRN_OK;
    if (!solver->budgeted)
        return bench_plan(b, net, network, solver, 100, 0, &smallest, err);
    for (size_t i = 0; i < BUDGETS && status == CAIRN_OK; i++) {
        if (b->quick && percents[i] != 50)
            continue;
        if (percents[i] == 0 && smallest == 0) /* nothing was refused so far: ask */
            status = bench_plan(b, net, network, solver, 0, 1, &smallest, err);
        uint64_t budget = percents[i] == 0 ? smallest : none / 100 * percents[i];
        if (status == CAIRN_OK && budget > 0)
            status = bench_plan(b, net, network, solver, percents[i], budget, &smallest, err);
    }
    return status;
}

static cairn_status bench_network(bench *b, const char *name, cairn_error *err) {
    cli_model net;
    cairn_solution *none = NULL;
    const cairn_solver *solver;
    cairn_status status = cli_model_network(name, BATCH, 0, &net, err);
    if (status == CAIRN_OK)
        status = cairn_solve(net.graph, net.costs, "none", NULL, &none, err);
    for (uint32_t i = 0; status == CAIRN_OK && (solver = cairn_solver_list(i)) != NULL; i++)
        status = bench_algorithm(b, &net, name, solver, none->sim->summary->peak_bytes, err);
    cairn_solution_destroy(none);
    cli_model_close(&net);
    return status;
}

int cli_bench_layout(const cli_args *args) {
    bench b = {.json = cli_flag(args, "json"), .quick = cli_flag(args, "quick")};
    const cairn_zoo_entry *entry;
    const char *only = cli_value(args, "only");
    cairn_error err = {0};
    if (!b.json)
        printf("%-13s %-16s %9s %10s %10s %9s %10s\n", "network", "algorithm", "budget", "peak",
               "arena", "over", "solved in");
    for (uint32_t i = 0; (entry = cairn_zoo_list(i)) != NULL; i++) {
        if (only != NULL && strcmp(only, entry->name) != 0)
            continue;
        cairn_status status = bench_network(&b, entry->name, &err);
        if (status != CAIRN_OK)
            return cli_fail(status, &err);
    }
    if (!b.json)
        printf("\n%u plans; the arena is at most %.3f%% over the live peak (%s), in %u above 1%%\n",
               b.plans, b.worst, b.worst_name, b.above);
    return CLI_DONE;
}
