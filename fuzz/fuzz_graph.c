/* fuzz_graph.c: the reader of graph files. A graph that it accepts is then used: written and read
 * again it has the same bytes; it has both views and costs; it can be differentiated and planned,
 * or there is an error. */
#include "cairn/papers.h"
#include "cairn/report.h"
#include "cost/crn_cost.h"
#include "fuzz.h"
#include "graph/crn_graph.h"

/* Write, read and write again: the bytes and the structure must be the same. */
static void check_round_trip(const cairn_graph *graph) {
    cairn_text first, second;
    cairn_graph *again;
    cairn_error err = {0};
    FUZZ_CHECK(cairn_graph_to_json(graph, &first) == CAIRN_OK);
    FUZZ_CHECK(cairn_graph_from_json(NULL, first.data, first.length, "f", &again, &err) ==
               CAIRN_OK);
    FUZZ_CHECK(cairn_graph_to_json(again, &second) == CAIRN_OK);
    FUZZ_CHECK(first.length == second.length && memcmp(first.data, second.data, first.length) == 0);
    FUZZ_CHECK(crn_graph_hash(graph) == crn_graph_hash(again));
    cairn_graph_destroy(again);
    cairn_text_release(&second);
    cairn_text_release(&first);
}

static void check_views(const cairn_graph *graph) {
    cairn_dag_view *dag;
    cairn_chain_view *chain;
    cairn_error err = {0};
    FUZZ_CHECK(cairn_dag_view_create(graph, NULL, &dag, &err) == CAIRN_OK);
    for (uint32_t e = 0; e < dag->dag.edge_count; e++)
        FUZZ_CHECK(dag->dag.edges[e].from < dag->dag.vertex_count &&
                   dag->dag.edges[e].to < dag->dag.vertex_count);
    FUZZ_CHECK(cairn_chain_view_create(graph, &chain, &err) == CAIRN_OK);
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++)
        FUZZ_CHECK(chain->piece_of[o] < chain->piece_count);
    cairn_chain_view_destroy(chain);
    cairn_dag_view_destroy(dag);
}

#if defined(FUZZ_QUICK)
#define FEW_OPS 0u
#else
#define FEW_OPS 40u /* up to this many ops every algorithm is tried, beyond that only the first */
#endif

/* A plan, if there is one, must be legal and within the memory that it claims. */
static void check_plans(const cairn_graph *graph, const cairn_costs *costs) {
    const cairn_solver *solver;
    uint32_t most = cairn_graph_op_count(graph) <= FEW_OPS ? UINT32_MAX : 1;
    for (uint32_t i = 0; i < most && (solver = cairn_solver_list(i)) != NULL; i++) {
        cairn_solution *solution;
        cairn_report *report;
        cairn_error err = {0};
        cairn_status status = cairn_solve(graph, costs, solver->name, NULL, &solution, &err);
        if (status != CAIRN_OK) {
            fuzz_check_error(status, &err);
            continue;
        }
        status = cairn_report_create(graph, costs, solution, NULL, 1, &report, &err);
        if (status == CAIRN_OK) {
            cairn_text text;
            FUZZ_CHECK(report->arena_bytes >= solution->sim->summary->peak_bytes);
            FUZZ_CHECK(cairn_report_to_json(report, &text) == CAIRN_OK);
            cairn_text_release(&text);
            FUZZ_CHECK(cairn_report_memory_svg(report, &text) == CAIRN_OK);
            cairn_text_release(&text);
        }
        cairn_report_destroy(report);
        cairn_solution_destroy(solution);
    }
}

static void check_costs(const cairn_graph *graph) {
    cairn_costs *costs;
    cairn_text table, dot;
    cairn_error err = {0};
    uint32_t matched;
    FUZZ_CHECK(cairn_costs_analytic(graph, cairn_machine_list(0), &costs, &err) == CAIRN_OK);
    FUZZ_CHECK(cairn_costs_to_json(costs, graph, NULL, &table) == CAIRN_OK);
    FUZZ_CHECK(crn_costs_merge_json(costs, graph, table.data, table.length, "t", &matched, &err) ==
               CAIRN_OK);
    FUZZ_CHECK(matched == cairn_graph_op_count(graph));
    FUZZ_CHECK(cairn_graph_to_dot(graph, NULL, true, &dot) == CAIRN_OK);
    check_plans(graph, costs);
    cairn_text_release(&dot);
    cairn_text_release(&table);
    cairn_costs_destroy(costs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cairn_graph *graph, *joint;
    cairn_error err = {0};
    cairn_status status = cairn_graph_from_json(NULL, (const char *)data, size, "f", &graph, &err);
    if (status != CAIRN_OK) {
        FUZZ_CHECK(graph == NULL);
        fuzz_check_error(status, &err);
        return 0;
    }
    check_round_trip(graph);
    check_views(graph);
    check_costs(graph);
    status = cairn_graph_differentiate(graph, NULL, &joint, &err);
    if (status == CAIRN_OK) {
        check_round_trip(joint);
        check_views(joint);
        check_costs(joint);
    } else {
        fuzz_check_error(status, &err);
    }
    cairn_graph_destroy(joint);
    cairn_graph_destroy(graph);
    return 0;
}
