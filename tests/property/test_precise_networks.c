/* test_precise_networks.c: the prediction of the recurrence for a network agrees with the
 * simulator: the time is exactly the same, and the peak is within the memory. */
#include "cairn.h"
#include "cairn/papers.h"
#include "check.h"
#include "solve/chain/network_pieces.h"
#include "graph/crn_graph.h"
#include "import/importer.h"

typedef struct network {
    cairn_graph *graph;
    cairn_costs *costs;
} network;

static network open_network(const char *name, uint32_t batch, uint32_t size, uint32_t steps) {
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_graph *forward;
    cairn_error err = {0};
    network net;
    options.batch = batch;
    options.steps = steps;
    if (size > 0) {
        options.input[0] = 3;
        options.input[1] = options.input[2] = size;
    }
    CHECK_OK(crn_zoo_build(NULL, name, &options, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &net.graph, &err), &err);
    CHECK_OK(cairn_machine_find("v100", &machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(net.graph, &machine, &net.costs, &err), &err);
    cairn_graph_destroy(forward);
    return net;
}

/* Lower the schedule for one memory and compare. */
static void check_point(const crn_network_pieces *chain, const crn_piece_table *table,
                        uint64_t memory) {
    const crn_problem *p = chain->problem;
    crn_piece_nodes nodes = {0};
    crn_schedule schedule = {0};
    cairn_plan *plan;
    cairn_sim *sim;
    cairn_error err = {0};
    CHECK_OK(crn_piece_schedule(table, 0, chain->chain.count - 1, memory, p->scratch, &nodes),
             &err);
    CHECK_OK(crn_network_pieces_expand(chain, &nodes, &schedule), &err);
    CHECK_OK(crn_lower(p->graph, p->costs, &schedule, CAIRN_GOAL_TRAIN, 0, &plan, &err), &err);
    CHECK_OK(cairn_simulate(p->graph, p->costs, plan, NULL, &sim, &err), &err);
    const cairn_sim_summary *s = sim->summary;
    CHECK_U64((uint64_t)s->time_ns,
              (uint64_t)crn_piece_time(table, 0, chain->chain.count - 1, memory));
    CHECK(s->peak_bytes <= memory + chain->always);
    cairn_sim_destroy(sim);
    cairn_plan_destroy(plan);
}

static void check_network(const char *name, uint32_t batch, uint32_t size, uint32_t steps) {
    network net = open_network(name, batch, size, steps);
    cairn_error err = {0};
    crn_arena scratch;
    crn_arena_init(&scratch, NULL);
    crn_problem problem = {
        .graph = net.graph, .costs = net.costs, .scratch = &scratch, .err = &err};
    cairn_chain_view *view;
    crn_network_pieces chain;
    crn_piece_table *table;
    CHECK_OK(cairn_chain_view_create(net.graph, &view, &err), &err);
    CHECK_OK(crn_network_pieces_build(&problem, view, &chain), &err);
    CHECK_OK(crn_piece_check(&chain.chain, &err), &err);
    crn_piece_options options = {.memory = UINT64_MAX, .max_points = 64};
    CHECK_OK(crn_piece_solve(&chain.chain, &options, &scratch, &table), &err);
    uint64_t least = crn_piece_least_memory(table), most = 0;
    for (uint32_t i = 0; i < chain.chain.count; i++)
        most += chain.chain.pieces[i].ways[0].kept;
    for (uint64_t k = 0; k <= 8; k++)
        check_point(&chain, table, least + (most > least ? (most - least) / 8 * k : 0));
    cairn_chain_view_destroy(view);
    crn_arena_release(&scratch);
    cairn_costs_destroy(net.costs);
    cairn_graph_destroy(net.graph);
}

/* More memory never makes a plan slower, and every plan fits. */
static void check_budgets(const char *name) {
    network net = open_network(name, 4, 0, 0);
    cairn_error err = {0};
    cairn_solution *none;
    CHECK_OK(cairn_solve(net.graph, net.costs, "none", NULL, &none, &err), &err);
    int64_t slower = INT64_MAX;
    for (uint64_t percent = 20; percent <= 110; percent += 15) {
        cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
        options.budget_bytes = none->layout->arena_bytes / 100 * percent;
        cairn_solution *within;
        cairn_status status = cairn_solve(net.graph, net.costs, "precise", &options, &within, &err);
        if (status == CAIRN_INFEASIBLE) {
            CHECK(within == NULL && err.smallest_budget > options.budget_bytes);
            CHECK(crn_graph_find_op(net.graph, err.name) != CAIRN_NONE);
            continue;
        }
        CHECK(status == CAIRN_OK);
        CHECK(within->layout->arena_bytes <= options.budget_bytes);
        CHECK(within->sim->summary->time_ns <= slower);
        slower = within->sim->summary->time_ns;
        cairn_solution_destroy(within);
    }
    CHECK(slower >= none->sim->summary->time_ns);
    cairn_solution_destroy(none);
    cairn_costs_destroy(net.costs);
    cairn_graph_destroy(net.graph);
}

int main(void) {
    check_network("alexnet", 8, 0, 0);
    check_network("vgg11", 2, 0, 0);
    check_network("resnet18", 4, 0, 0);
    check_network("resnet50", 4, 0, 0);
    check_network("inception_v3", 2, 0, 0);
    check_network("densenet121", 2, 64, 0);
    check_network("unet", 1, 64, 0);
    check_network("darts", 2, 0, 0);
    check_network("rnn", 4, 0, 20);
    check_network("lstm", 4, 0, 20);
    check_budgets("resnet18");
    check_budgets("resnet50");
    check_budgets("inception_v3");
    return check_result();
}
