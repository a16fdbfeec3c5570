/* max_term.h: the smallest f(C) + C over all limits C on the cost of a segment. */
#ifndef CRN_MAX_TERM_H
#define CRN_MAX_TERM_H

#include "base/crn_base.h"

/* The result of solving for one limit C: the least sum of checkpoints. The result is the same for
 * all limits from `least` to below `beyond`. */
typedef struct crn_max_term {
    uint64_t sum;
    uint64_t least;  /* the largest cost of a segment that the limit allows */
    uint64_t beyond; /* the smallest cost that it forbids; UINT64_MAX: none */
} crn_max_term;

/* Solve for the limit `limit`. `sum` must never grow with the limit. */
typedef crn_max_term crn_max_term_solve(void *context, uint64_t limit);

/* Find the limit from 0 to `largest` with the smallest sum + limit. Deterministic. It solves for as
 * few limits as the bounds allow, and stops after `most` of them (0: no limit). */
CAIRN_MUST cairn_status crn_max_term_search(crn_arena *arena, crn_max_term_solve *solve,
                                            void *context, uint64_t largest, uint64_t most,
                                            uint64_t *best);

#endif
