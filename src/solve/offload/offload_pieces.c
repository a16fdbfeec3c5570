/* offload_pieces.c: the algorithms of Beaumont et al. on networks. Each chooses pieces of the
 * chain; the tensors that those pieces keep are offloaded one by one. */
#include "solve/offload/offload_solvers.h"

#include "solve/offload/trips_by_chain.h"

static cairn_status solve_on(const crn_problem *problem, const crn_trips *trips,
                             const cairn_chain_view *view, crn_schedule *schedule) {
    crn_pieces_problem chain;
    crn_trip_choice choice;
    crn_judgement is;
    uint64_t *room, budget = CRN_MAX(problem->budget, trips->floor);
    int64_t time;
    CRN_TAKE(problem->scratch, room, trips->ops);
    CRN_TRY(crn_trip_choice_make(trips, &choice));
    CRN_TRY(crn_pieces_problem_build(problem, view, &chain));
    CRN_TRY(crn_choose_by_pieces(&chain, trips, problem->algorithm, budget, &choice, room));
    CRN_TRY(crn_trips_prune(trips, budget, &choice, &time));
    return crn_trips_settle(trips, budget, &choice, schedule, &is);
}

cairn_status crn_solve_offload_pieces(const crn_problem *problem, crn_schedule *schedule) {
    cairn_chain_view *view;
    crn_trips trips;
    CRN_TRY(crn_trips_build(problem, &trips));
    CRN_TRY(cairn_chain_view_create(problem->graph, &view, problem->err));
    cairn_status status = solve_on(problem, &trips, view, schedule);
    cairn_chain_view_destroy(view);
    return status;
}
