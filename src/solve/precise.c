/* precise.c: least time under a budget on the chain of a network, by the recurrence of
 * piece_chain.h (Butt's thesis, paper 003, mended and carried over to pieces of real networks).
 *
 * If the budget is below what the chain can do, the schedule for the least memory is given, and the
 * dispatcher says what that needs. */
#include "solve/network_chain.h"

#define MOST_POINTS 512u /* of one step function; see piece_chain.h */

static cairn_status solve_chain(const crn_problem *problem, const cairn_chain_view *view,
                                crn_schedule *schedule) {
    crn_network_chain network;
    crn_piece_nodes nodes = {0};
    crn_piece_table *table;
    CRN_TRY(crn_network_chain_build(problem, view, &network));
    CRN_TRY(crn_piece_check(&network.chain, problem->err));
    uint64_t memory = problem->budget > network.always ? problem->budget - network.always : 0;
    crn_piece_options options = {.memory = memory, .max_points = MOST_POINTS};
    CRN_TRY(crn_piece_solve(&network.chain, &options, problem->scratch, &table));
    uint64_t least = crn_piece_least_memory(table);
    if (memory < least) {
        options.memory = memory = least;
        CRN_TRY(crn_piece_solve(&network.chain, &options, problem->scratch, &table));
    }
    CRN_TRY(
        crn_piece_schedule(table, 0, network.chain.count - 1, memory, problem->scratch, &nodes));
    return crn_network_chain_expand(&network, &nodes, schedule);
}

cairn_status crn_solve_precise(const crn_problem *problem, crn_schedule *schedule) {
    cairn_chain_view *view;
    CRN_TRY(cairn_chain_view_create(problem->graph, &view, problem->err));
    cairn_status status = solve_chain(problem, view, schedule);
    cairn_chain_view_destroy(view);
    return status;
}
