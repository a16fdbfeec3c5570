/* join_updates.h: updates that run one after another. */
#ifndef CRN_JOIN_UPDATES_H
#define CRN_JOIN_UPDATES_H

#include "base/crn_base.h"
#include "cairn/solve.h"

/* The plan of a solution without homes on the host, with updates moved towards its end, where they
 * follow each other and a device runs them at once; as far as the plan then needs no more than its
 * peak. `*out` NULL: none moves. O(updates * steps) at worst. */
CAIRN_MUST cairn_status crn_join_updates(const cairn_graph *graph, const cairn_costs *costs,
                                         const cairn_solution *solution, cairn_plan **out,
                                         cairn_error *err);

#endif
