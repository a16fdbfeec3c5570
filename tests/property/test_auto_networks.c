/* test_auto_networks.c: `auto` and its bound on the networks: the bound is below the time of every
 * plan of every algorithm; `auto` is never worse than an algorithm without copies; time falls with
 * the budget; the same input gives the same plan. */
#include "check.h"
#include "cairn.h"
#include "cairn/papers/bounds.h"
#include "solve/auto/auto_search.h"
#include "solve/solution.h"
#include "import/importer.h"

typedef struct network {
    cairn_graph *graph;
    cairn_costs *costs;
    cairn_machine machine;
    uint64_t none;
    int64_t none_time;
} network;

static network open_network(const char *name, uint32_t batch, uint32_t steps) {
    cairn_error err = {0};
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    cairn_graph *forward;
    cairn_solution *none;
    network net;
    options.batch = batch;
    options.steps = steps;
    CHECK_OK(crn_zoo_build(NULL, name, &options, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &net.graph, &err), &err);
    cairn_graph_destroy(forward);
    net.machine = (cairn_machine)CAIRN_MACHINE_INIT;
    CHECK_OK(cairn_machine_find("v100", &net.machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(net.graph, &net.machine, &net.costs, &err), &err);
    CHECK_OK(cairn_solve(net.graph, net.costs, "none", NULL, &none, &err), &err);
    net.none = none->layout->arena_bytes;
    net.none_time = none->sim->summary->time_ns;
    cairn_solution_destroy(none);
    return net;
}

static void close_network(network *net) {
    cairn_costs_destroy(net->costs);
    cairn_graph_destroy(net->graph);
}

static int64_t time_of(const cairn_solution *s) {
    return s->sim->summary->time_ns;
}

/* Every algorithm at a budget against the bound and against `auto`. */
static void check_all(const network *net, uint32_t percent, bool no_offload) {
    cairn_error err = {0};
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_solution *best, *other;
    const cairn_solver *solver;
    int64_t bound;
    options.budget_bytes = net->none / 100 * percent;
    options.machine = &net->machine;
    options.no_offload = no_offload;
    if (cairn_time_bound(net->graph, net->costs, &options, &bound, &err) == CAIRN_INFEASIBLE)
        bound = INT64_MAX; /* then no plan may fit */
    cairn_status status = cairn_solve(net->graph, net->costs, "auto", &options, &best, &err);
    for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL; i++) {
        if (solver->goal != CAIRN_GOAL_TRAIN || (solver->offloads && no_offload) ||
            strcmp(solver->name, "auto") == 0 ||
            cairn_solve(net->graph, net->costs, solver->name, &options, &other, &err) != CAIRN_OK)
            continue;
        CHECK(bound <= time_of(other));
        CHECK(status == CAIRN_OK);
        if (status == CAIRN_OK) /* the search ends close to the bound */
            CHECK(time_of(best) <= time_of(other) + time_of(other) / 1000);
        cairn_solution_destroy(other);
    }
    if (status == CAIRN_OK) {
        uint64_t least;
        CHECK_OK(cairn_least_memory(net->graph, net->costs, &options, &least, &err), &err);
        CHECK(least <= best->layout->arena_bytes);
        CHECK(best->lower_bound_ns == bound);
        cairn_solution_destroy(best);
    }
}

/* Budgets that fall: a plan that fits into less memory fits into more, so plans with more memory
 * are not slower, up to the tolerance at which the search ends. The bound rises. */
static void check_monotone(const network *net, uint32_t budgets) {
    cairn_error err = {0};
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    int64_t least = INT64_MAX, highest_bound = INT64_MAX;
    bool fitted = false;
    cairn_solution *solution, *before = NULL;
    options.no_offload = true;
    for (uint32_t k = 1; k <= budgets; k++) {
        options.budget_bytes = net->none / budgets * k;
        options.start = before == NULL ? NULL : before->plan;
        cairn_status status =
            cairn_solve(net->graph, net->costs, "auto", &options, &solution, &err);
        CHECK(status == CAIRN_OK || (status == CAIRN_INFEASIBLE && !fitted));
        if (status != CAIRN_OK)
            continue;
        fitted = true;
        CHECK(time_of(solution) <= least);
        CHECK(solution->lower_bound_ns <= time_of(solution));
        CHECK(solution->lower_bound_ns <= highest_bound);
        least = time_of(solution);
        highest_bound = solution->lower_bound_ns;
        cairn_solution_destroy(before);
        before = solution;
    }
    CHECK(fitted);
    cairn_solution_destroy(before);
}

/* The budget that refusals name can be solved, and one byte less cannot. */
static void check_named(const network *net, const cairn_solve_options *given, uint64_t smallest) {
    cairn_error err = {0};
    cairn_solve_options options = *given;
    cairn_solution *solution;
    options.budget_bytes = smallest - 1;
    CHECK(cairn_solve(net->graph, net->costs, "auto", &options, &solution, &err) ==
          CAIRN_INFEASIBLE);
    CHECK(err.smallest_budget == smallest);
    options.budget_bytes = smallest;
    CHECK_OK(cairn_solve(net->graph, net->costs, "auto", &options, &solution, &err), &err);
    cairn_solution_destroy(solution);
}

/* The same for calls that know nothing of each other. What fits is exact: all refusals name one
 * budget, below which nothing is solved. The bound of a budget is not above the time of any plan
 * for less memory; so a plan is slower than one for less memory by its own gap at most, and by
 * `most` ppm. */
static void check_apart(const network *net, uint32_t budgets, bool copies, int64_t most) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    int64_t least = INT64_MAX;
    uint64_t smallest = 0;
    options.machine = &net->machine;
    options.no_offload = !copies;
    for (uint32_t k = 1; k <= budgets; k++) {
        cairn_error err = {0};
        cairn_solution *solution;
        options.budget_bytes = net->none / budgets * k;
        cairn_status status =
            cairn_solve(net->graph, net->costs, "auto", &options, &solution, &err);
        CHECK(status == CAIRN_OK || (status == CAIRN_INFEASIBLE && least == INT64_MAX));
        if (status != CAIRN_OK) {
            CHECK(smallest == 0 || smallest == err.smallest_budget);
            smallest = err.smallest_budget;
            continue;
        }
        CHECK(options.budget_bytes >= smallest);
        int64_t time = time_of(solution), gap = crn_solution_gap_ppm(solution);
        CHECK(time <= solution->lower_bound_ns + (int64_t)((double)time * (double)gap / 1e6) + 1);
        if (least < INT64_MAX) {
            CHECK(solution->lower_bound_ns <= least);
            CHECK(time <= least + (int64_t)((double)least * (double)CRN_MIN(gap, most) / 1e6) + 1);
        }
        least = CRN_MIN(least, time);
        cairn_solution_destroy(solution);
    }
    CHECK(smallest > 0 && least < INT64_MAX);
    check_named(net, &options, smallest);
}

/* Two runs give the same plan, byte for byte. */
static void check_same(const network *net) {
    cairn_error err = {0};
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_text first, again;
    cairn_solution *solution;
    options.budget_bytes = net->none / 10 * 7;
    options.machine = &net->machine;
    for (uint32_t k = 0; k < 2; k++) {
        CHECK_OK(cairn_solve(net->graph, net->costs, "auto", &options, &solution, &err), &err);
        CHECK_OK(cairn_plan_to_text(solution->plan, net->graph, k == 0 ? &first : &again), &err);
        cairn_solution_destroy(solution);
    }
    CHECK_STRING(again.data, first.data);
    cairn_text_release(&first);
    cairn_text_release(&again);
}

/* The smallest budget is at most this share of the memory of `none`, in hundredths of a percent.
 * The plan for it takes at most `most_time` percent of the time of `none`. */
static void check_smallest(const char *name, uint32_t batch, uint64_t most, int64_t most_time) {
    cairn_error err = {0};
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_solution *solution;
    network net = open_network(name, batch, 0);
    options.no_offload = true;
    options.budget_bytes = 1;
    CHECK(cairn_solve(net.graph, net.costs, "auto", &options, &solution, &err) == CAIRN_INFEASIBLE);
    CHECK(err.smallest_budget <= net.none / 10000 * most);
    options.budget_bytes = err.smallest_budget;
    CHECK_OK(cairn_solve(net.graph, net.costs, "auto", &options, &solution, &err), &err);
    CHECK(time_of(solution) <= net.none_time / 100 * most_time);
    cairn_solution_destroy(solution);
    close_network(&net);
}

int main(void) {
    const cairn_zoo_entry *entry;
    for (uint32_t i = 0; (entry = cairn_zoo_list(i)) != NULL; i++) {
        bool recurrent = entry->defaults.steps > 0;
        network net = open_network(entry->name, recurrent ? 64 : 4, recurrent ? 20 : 0);
        check_all(&net, i % 3 == 0 ? 70 : 45, i % 2 == 0);
        if (i % 4 == 0)
            check_same(&net);
        close_network(&net);
    }
    network net = open_network("vgg11", 16, 0);
    check_monotone(&net, 200);
    check_apart(&net, 40, false, 1000);
    close_network(&net);
    for (uint32_t k = 0; k < 4; k++) {
        net = k < 2 ? open_network("resnet18", 16, 0) : open_network("unet", 4, 0);
        check_apart(&net, 10, k % 2, INT64_MAX);
        close_network(&net);
    }
    check_smallest("lstm", 64, 1680, 320);
    check_smallest("inception_v3", 32, 1585, 140);
    check_smallest("nasnet", 64, 490, 270);
    return check_result();
}
