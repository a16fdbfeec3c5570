/* offload_front.h: the dynamic programme inside DYNPROG. */
#ifndef OFFLOAD_FRONT_H
#define OFFLOAD_FRONT_H

#include "solve/offload/crn_offload.h"

typedef struct crn_offload_limits {
    uint32_t width; /* the most states of a front */
    uint64_t work;  /* after this many comparisons of states fronts are kept narrow */
} crn_offload_limits;

/* Store in `moved` the set of activations whose ordered schedule is shortest under fractional
 * release. `*complete`: no limit was reached, so the set is optimal. The chain must fit. */
CAIRN_MUST cairn_status crn_offload_front(crn_arena *arena, const crn_offload_chain *chain,
                                          crn_offload_limits limits, uint8_t *moved,
                                          bool *complete);

#endif
