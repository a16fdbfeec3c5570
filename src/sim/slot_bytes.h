/* slot_bytes.h: the memory of an optimiser's slot. */
#ifndef CRN_SLOT_BYTES_H
#define CRN_SLOT_BYTES_H

#include "cairn/sim.h"

/* The bytes of one slot of a parameter: those of its gradient, because a backend may store a copy
 * of the parameter besides. O(tensors). */
uint64_t crn_slot_bytes(const cairn_graph *graph, const cairn_costs *costs, cairn_id parameter);

#endif
