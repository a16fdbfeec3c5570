/* copy_costs.h: costs of a graph that were changed, or brought into another order. */
#ifndef CRN_COPY_COSTS_H
#define CRN_COPY_COSTS_H

#include "base/crn_base.h"
#include "cost/crn_cost.h"

/* What is different in the copy. */
typedef struct crn_costs_change {
    const cairn_id *order;          /* per op: its id where the costs come from; NULL: the same */
    const uint64_t *more_workspace; /* per op: bytes in addition; NULL: none */
} crn_costs_change;

/* New costs of `graph` with those of `from`. */
CAIRN_MUST cairn_status crn_costs_copy(const cairn_graph *graph, const cairn_costs *from,
                                       const crn_costs_change *change, crn_arena *scratch,
                                       cairn_costs **out, cairn_error *err);

#endif
