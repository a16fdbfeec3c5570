/* fuzz_machine.c: the readers of machines and of cost tables. A machine that is accepted can be
 * used for estimates. A table that is accepted gives usable costs, in both ways of merging it. */
#include "cost/crn_cost.h"
#include "fuzz.h"
#include "import/importer.h"

static void check_machine(const cairn_graph *graph, const cairn_machine *machine) {
    cairn_costs *costs;
    cairn_solution *solution;
    cairn_error err = {0};
    FUZZ_CHECK(crn_machine_copy_ns(machine, UINT64_MAX) >= 0);
    FUZZ_CHECK(cairn_costs_analytic(graph, machine, &costs, &err) == CAIRN_OK);
    FUZZ_CHECK(cairn_solve(graph, costs, "none", NULL, &solution, &err) == CAIRN_OK);
    cairn_solution_destroy(solution);
    cairn_costs_destroy(costs);
}

static void check_table(const cairn_graph *graph, const char *text, size_t size) {
    cairn_costs *costs;
    cairn_solution *solution;
    cairn_error err = {0};
    uint32_t matched;
    cairn_costs_origin origin = CAIRN_COSTS_ORIGIN_INIT;
    FUZZ_CHECK(cairn_costs_create(graph, &costs, &err) == CAIRN_OK);
    bool times =
        crn_costs_merge_times_json(costs, graph, text, size, "t", &matched, &err) == CAIRN_OK;
    if (!times)
        fuzz_check_error(err.status, &err);
    cairn_status status = crn_costs_merge_json(costs, graph, text, size, "t", &matched, &err);
    FUZZ_CHECK(times == (status == CAIRN_OK));
    if (crn_costs_origin_from_json(text, size, "t", &origin, NULL) == CAIRN_OK)
        FUZZ_CHECK(crn_costs_update_ns(&origin, graph) >= 0);
    else
        FUZZ_CHECK(status != CAIRN_OK);
    if (status == CAIRN_OK)
        FUZZ_CHECK(cairn_solve(graph, costs, "none", NULL, &solution, &err) == CAIRN_OK);
    else
        fuzz_check_error(status, &err);
    if (status == CAIRN_OK)
        cairn_solution_destroy(solution);
    cairn_costs_destroy(costs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static cairn_graph *graph;
    cairn_error err = {0};
    if (graph == NULL) {
        cairn_graph *forward;
        cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
        options.batch = 1;
        FUZZ_CHECK(crn_zoo_build(NULL, "alexnet", &options, &forward, &err) == CAIRN_OK);
        FUZZ_CHECK(cairn_graph_differentiate(forward, NULL, &graph, &err) == CAIRN_OK);
        cairn_graph_destroy(forward);
    }
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_status status = cairn_machine_from_json((const char *)data, size, "f", &machine, &err);
    if (status == CAIRN_OK)
        check_machine(graph, &machine);
    else
        fuzz_check_error(status, &err);
    check_table(graph, (const char *)data, size);
    return 0;
}
