/* pieces_anneal.h: simulated annealing for cheap checkpoints under a limit on the components. */
#ifndef CRN_PIECES_ANNEAL_H
#define CRN_PIECES_ANNEAL_H

#include "solve/checkpoints/pieces_order.h"
#include "base/rng.h"

/* Take `steps` random steps from `order`, whose components must not exceed `limit`. The temperature
 * is `heat` / 64 of the cost of an expensive vertex at first, and a 180th of that at the end.
 * `best` receives the cheapest set found. The search ends early when the ranges of the row that it
 * searched have a total length of `work`. `journal` has room for one number per vertex. There is no
 * floating point; the result depends on `rng` only. */
void crn_pieces_anneal(crn_pieces_order *order, uint64_t limit, uint64_t steps, uint64_t work,
                       uint32_t heat, crn_rng *rng, uint32_t *journal, uint8_t *best);

#endif
