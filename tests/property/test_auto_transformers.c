/* test_auto_transformers.c: the plans of `auto` for large transformers are proven to be at most
 * 0.5% slower than any plan, with copies and without. With everything on the device inside the
 * smallest budget, a plan for 10,000 ops takes at most 1.6 of the time of any plan. */
#include "cairn.h"
#include "check.h"
#include "import/importer.h"

#define MOST_GAP 0.005
#define MOST_OF_WHOLE 1.6 /* of the bound */
#define SLOTS 2

static void check_gap(const char *name, const cairn_graph *graph, const cairn_costs *costs,
                      const cairn_machine *machine, uint64_t budget, bool copies) {
    cairn_error err = {0};
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_solution *solution;
    options.budget_bytes = budget;
    options.machine = machine;
    options.no_offload = !copies;
    CHECK_OK(cairn_solve(graph, costs, "auto", &options, &solution, &err), &err);
    int64_t time = solution->sim->summary->time_ns, bound = solution->lower_bound_ns;
    printf("%s in %.1f GB%s: %.1f ms, at least %.1f ms\n", name, (double)budget / 1e9,
           copies ? " with copies" : "", (double)time / 1e6, (double)bound / 1e6);
    CHECK(bound > 0 && bound <= time);
    CHECK((double)time <= (1 + MOST_GAP) * (double)bound);
    cairn_solution_destroy(solution);
}

static cairn_graph *build(const char *name, uint32_t batch, uint32_t tokens) {
    cairn_error err = {0};
    cairn_zoo_options zoo = CAIRN_ZOO_OPTIONS_INIT;
    cairn_differentiate_options differentiate = CAIRN_DIFFERENTIATE_OPTIONS_INIT;
    cairn_graph *forward, *graph;
    zoo.batch = batch;
    zoo.steps = tokens;
    differentiate.join_head = true;
    CHECK_OK(crn_zoo_build(NULL, name, &zoo, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, &differentiate, &graph, &err), &err);
    cairn_graph_destroy(forward);
    return graph;
}

static void check_network(const char *name, uint32_t batch, uint32_t tokens) {
    static const uint32_t percents[] = {30, 40, 60};
    cairn_error err = {0};
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_graph *graph = build(name, batch, tokens);
    cairn_costs *costs;
    cairn_solution *none;
    CHECK_OK(cairn_machine_find("h200", &machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(graph, &machine, &costs, &err), &err);
    CHECK_OK(cairn_solve(graph, costs, "none", NULL, &none, &err), &err);
    for (size_t i = 0; i < 2 * CRN_LENGTH(percents); i++)
        check_gap(name, graph, costs, &machine, none->layout->arena_bytes / 100 * percents[i / 2],
                  i % 2 == 0);
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
}

/* The whole step in the smallest budget, which a refusal names. */
static void check_smallest(const char *name, uint32_t batch, uint32_t tokens) {
    cairn_error err = {0};
    cairn_updates_options updates = CAIRN_UPDATES_OPTIONS_INIT;
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_graph *graph = build(name, batch, tokens), *whole;
    cairn_costs *costs;
    cairn_solution *solution;
    updates.slots = SLOTS;
    CHECK_OK(cairn_graph_add_updates(graph, &updates, &whole, &err), &err);
    CHECK_OK(cairn_machine_find("h200", &machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(whole, &machine, &costs, &err), &err);
    options.machine = &machine;
    options.device_bytes = 1;
    CHECK(cairn_solve(whole, costs, "auto", &options, &solution, &err) == CAIRN_INFEASIBLE);
    options.device_bytes = err.smallest_budget;
    CHECK_OK(cairn_solve(whole, costs, "auto", &options, &solution, &err), &err);
    const cairn_sim_summary *summary = solution->sim->summary;
    uint64_t stays = cairn_stationary_bytes(whole, costs, 0) - summary->home_bytes;
    printf("%s, %u ops, with updates in %.1f GB: %.1f ms, at least %.1f ms\n", name,
           cairn_graph_op_count(whole), (double)options.device_bytes / 1e9,
           (double)summary->time_ns / 1e6, (double)solution->lower_bound_ns / 1e6);
    CHECK(solution->layout->arena_bytes + stays <= options.device_bytes);
    CHECK((double)summary->time_ns <= MOST_OF_WHOLE * (double)solution->lower_bound_ns);
    cairn_solution_destroy(solution);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(whole);
    cairn_graph_destroy(graph);
}

int main(void) {
    check_network("gpt2:1558M", 16, 1024);
    check_network("llama:llama-2-7b", 4, 2048);
    check_smallest("gpt2:1558M,layers=270", 8, 512);
    return check_result();
}
