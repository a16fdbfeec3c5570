/* test_arena_networks.c: the arena is within a hundredth of the live peak, and within the budget,
 * for every network of the zoo under every algorithm. Machines and budgets alternate, so that each
 * of them is used, but not on every network; `cairn-bench layout` prints all combinations. */
#include "cairn.h"
#include "check.h"
#include "import/importer.h"

#define BATCH 32u
#define SLOW "offload-best" /* takes seconds: on every third network */

static const char *const machines[] = {"v100", "h200", "cpu"};
static const uint32_t percents[] = {50, 30, 70, 40, 90};
enum {
    MACHINES = sizeof machines / sizeof *machines,
    BUDGETS = sizeof percents / sizeof *percents
};

typedef struct network {
    const char *name;
    cairn_graph *graph;
    cairn_costs *costs;
    cairn_machine machine;
    uint64_t none; /* live peak of keeping everything */
} network;

static uint32_t plans, refused;
static double worst;
static char worst_name[96];

static void check_ratio(const network *net, const cairn_solver *solver, uint64_t budget,
                        const cairn_solution *solution) {
    uint64_t peak = solution->sim->summary->peak_bytes;
    uint64_t arena = solution->layout->arena_bytes;
    double over = 100.0 * (double)arena / (double)peak - 100.0;
    if (arena > peak + peak / 100)
        fprintf(stderr, "%s on %s, %s, %.1f%%: the arena is %.2f%% over the live peak\n", net->name,
                net->machine.name, solver->name, 100.0 * (double)budget / (double)net->none, over);
    CHECK(arena >= peak && arena <= peak + peak / 100);
    CHECK(budget == 0 || arena <= budget);
    if (plans++ == 0 || over > worst) {
        worst = over;
        snprintf(worst_name, sizeof worst_name, "%s, %s", net->name, solver->name);
    }
}

/* Check one plan. If it is refused, return the smallest budget. */
static uint64_t check_plan(const network *net, const cairn_solver *solver, uint64_t budget) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_error err = {0};
    cairn_solution *solution;
    options.machine = &net->machine;
    options.budget_bytes = budget;
    cairn_status status =
        cairn_solve(net->graph, net->costs, solver->name, &options, &solution, &err);
    if (status == CAIRN_INFEASIBLE) {
        refused++;
        return err.smallest_budget;
    }
    if (status == CAIRN_EINVAL && strstr(err.message, "not a chain") != NULL)
        return 0; /* for chains only */
    CHECK_OK(status, &err);
    check_ratio(net, solver, budget, solution);
    cairn_solution_destroy(solution);
    return 0;
}

static void check_network(const network *net, uint32_t turn) {
    const cairn_solver *solver;
    for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL; i++) {
        if (strcmp(solver->name, SLOW) == 0 && turn % 3 != 0)
            continue;
        uint64_t budget = solver->budgeted ? net->none / 100 * percents[(turn + i) % BUDGETS] : 0;
        uint64_t smallest = check_plan(net, solver, budget);
        if (smallest > 0) /* a little more, so that it is not refused again by chance */
            check_plan(net, solver, smallest + smallest / 50);
    }
}

static void test_network(const cairn_zoo_entry *entry, uint32_t turn) {
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    cairn_graph *forward;
    cairn_solution *none;
    cairn_error err = {0};
    network net = {.name = entry->name};
    options.batch = BATCH;
    CHECK_OK(crn_zoo_build(NULL, entry->name, &options, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &net.graph, &err), &err);
    net.machine = (cairn_machine)CAIRN_MACHINE_INIT;
    CHECK_OK(cairn_machine_find(machines[turn % MACHINES], &net.machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(net.graph, &net.machine, &net.costs, &err), &err);
    CHECK_OK(cairn_solve(net.graph, net.costs, "none", NULL, &none, &err), &err);
    net.none = none->sim->summary->peak_bytes;
    check_network(&net, turn);
    cairn_solution_destroy(none);
    cairn_costs_destroy(net.costs);
    cairn_graph_destroy(net.graph);
    cairn_graph_destroy(forward);
}

int main(void) {
    const cairn_zoo_entry *entry;
    uint32_t networks = 0;
    for (; (entry = cairn_zoo_list(networks)) != NULL; networks++)
        test_network(entry, networks);
    printf("%u networks, %u plans, %u refused; arena at most %.3f%% over the live peak (%s)\n",
           networks, plans, refused, worst, worst_name);
    CHECK(plans > 10 * networks);
    return check_result();
}
