/* max_term.h: the smallest f(C) + C over all limits C on the cost of a segment. */
#ifndef CRN_MAX_TERM_H
#define CRN_MAX_TERM_H

#include "base/crn_base.h"

/* What is known after solving for one limit C: the least sum of checkpoints, and the limits around
 * C for which nothing changes: `least` <= C < `beyond`. */
typedef struct crn_max_term {
    uint64_t sum;
    uint64_t least;  /* the largest cost of a segment that may be used */
    uint64_t beyond; /* the smallest cost of one that may not; UINT64_MAX: there is none */
} crn_max_term;

/* Solve for the limit `limit`. `sum` must never grow with the limit. */
typedef crn_max_term crn_max_term_solve(void *context, uint64_t limit);

/* Find the limit from 0 to `largest` with the smallest sum + limit. Deterministic; solves for as
 * few limits as the bounds allow, and stops after `most` of them unless that is 0. */
CAIRN_MUST cairn_status crn_max_term_search(crn_arena *arena, crn_max_term_solve *solve,
                                            void *context, uint64_t largest, uint64_t most,
                                            uint64_t *best);

#endif
