/* long_first.h: placing many lifetimes quickly, the longest first or in any order. */
#ifndef CRN_LONG_FIRST_H
#define CRN_LONG_FIRST_H

#include "base/crn_base.h"
#include "cairn/layout.h"

/* First fit in `order`, in which no lifetime is longer than one before it; offsets per lifetime
 * into `offsets`, the end of the highest into `*arena`. CAIRN_ENOMEM. O(n k log k) with k lifetimes
 * live at a time. */
CAIRN_MUST cairn_status crn_place_long_first(crn_arena *scratch, const cairn_lifetime *lifetimes,
                                             const uint32_t *order, uint32_t count,
                                             uint64_t *offsets, uint64_t *arena);

/* First fit in any order. It ends early if `*arena` would be above `most`: then that is above
 * `most`, and the offsets are of no use. Quick where most lifetimes are short: O(n m) with m
 * lifetimes that touch a sixty-fourth of the steps, and O(n) for each long one. */
CAIRN_MUST cairn_status crn_place_in_windows(crn_arena *scratch, const cairn_lifetime *lifetimes,
                                             const uint32_t *order, uint32_t count, uint64_t most,
                                             uint64_t *offsets, uint64_t *arena);

#endif
