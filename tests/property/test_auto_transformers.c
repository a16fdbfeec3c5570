/* test_auto_transformers.c: the plans of `auto` for large transformers are proven to be at most
 * 0.5% slower than any plan, with copies and without. */
#include "cairn.h"
#include "check.h"
#include "import/importer.h"

#define MOST_GAP 0.005

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

static void check_network(const char *name, uint32_t batch, uint32_t tokens) {
    static const uint32_t percents[] = {30, 40, 60};
    cairn_error err = {0};
    cairn_zoo_options zoo = CAIRN_ZOO_OPTIONS_INIT;
    cairn_differentiate_options differentiate = CAIRN_DIFFERENTIATE_OPTIONS_INIT;
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_graph *forward, *graph;
    cairn_costs *costs;
    cairn_solution *none;
    zoo.batch = batch;
    zoo.steps = tokens;
    differentiate.join_head = true;
    CHECK_OK(crn_zoo_build(NULL, name, &zoo, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, &differentiate, &graph, &err), &err);
    CHECK_OK(cairn_machine_find("h200", &machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(graph, &machine, &costs, &err), &err);
    CHECK_OK(cairn_solve(graph, costs, "none", NULL, &none, &err), &err);
    for (size_t i = 0; i < 2 * CRN_LENGTH(percents); i++)
        check_gap(name, graph, costs, &machine, none->layout->arena_bytes / 100 * percents[i / 2],
                  i % 2 == 0);
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
    cairn_graph_destroy(forward);
}

int main(void) {
    check_network("gpt2:1558M", 16, 1024);
    check_network("llama:llama-2-7b", 4, 2048);
    return check_result();
}
