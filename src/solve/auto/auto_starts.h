/* auto_starts.h: sets of recomputations to start the search from. */
#ifndef CRN_AUTO_STARTS_H
#define CRN_AUTO_STARTS_H

#include "plan/lower.h"
#include "solve/auto/auto_copies.h"
#include "solve/auto/time_bound.h"

/* Values that the minimum cut at `price` does not keep at the bound's current moment are recomputed
 * before their first reader after it. */
CAIRN_MUST cairn_status crn_start_from_min_cut(crn_search *s, crn_bound *bound, int64_t price,
                                               crn_arena *arena);

/* Take the recomputations of another algorithm's schedule; false if it runs ops in another
 * order. */
bool crn_start_from_schedule(crn_search *s, const crn_schedule *schedule);

/* ---- auto_emit.c ---- */

/* The set as decisions, in `arena`; with the chosen copies, unless `copies` is NULL. */
CAIRN_MUST cairn_status crn_auto_emit(const crn_matrix *m, const crn_copies *copies,
                                      crn_arena *arena, crn_schedule *schedule);

#endif
