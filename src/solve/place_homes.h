/* place_homes.h: the steps that bring stationary tensors from their home on the host and back.
 *
 *     plan        run conv   ...          run conv.bwd_data   run conv.weight.update   ...
 *     weight      [fetched, read, freed]   [fetched, read, updated, copied home, freed]
 *     moments                                               [fetched, updated, copied home, freed]
 *
 * A *visit* is the time from a fetch to the free that follows it. A visit begins before its first
 * use, so that the copy runs beside other ops, and ends when the copy home has ended; both as far
 * as the memory allows. */
#ifndef CRN_PLACE_HOMES_H
#define CRN_PLACE_HOMES_H

#include "base/crn_base.h"
#include "cairn/sim.h"

/* The input of crn_place_homes(). */
typedef struct crn_homes {
    const cairn_graph *graph;
    const cairn_costs *costs;
    const cairn_machine *machine; /* for copies; NULL: they take no time */
    const bool *on_host;          /* per tensor: its home is the host */
    uint64_t room;                /* for what the plan controls, visits included */
} crn_homes;

/* A new plan: `plan`, in which everything stationary is at home on the device, with visits of the
 * tensors that are on the host. It needs no more than `room` if every op of the plan has room for
 * the tensors that it visits. O(steps * visits) at worst; visits are short. */
CAIRN_MUST cairn_status crn_place_homes(const crn_homes *homes, const cairn_plan *plan,
                                        cairn_plan **out, cairn_error *err);

/* Mark the tensors that a plan has at home on the host. */
void crn_homes_of_plan(const cairn_graph *graph, const cairn_plan *plan, bool *on_host);

#endif
