/* pieces_anneal.h: random search for cheap checkpoints under a limit on the parts. */
#ifndef CRN_PIECES_ANNEAL_H
#define CRN_PIECES_ANNEAL_H

#include "solve/papers/acg/pieces_order.h"
#include "base/rng.h"

/* From `order` as it stands, whose parts must keep `limit`, take `steps` random steps, at first
 * with a temperature of `heat` / 64 of the cost of a dear vertex, at the end a 180th of that.
 * `best` gets the cheapest set met. Ends early once ranges of the row of length `work` were
 * searched in all. `journal` is room for as many numbers as there are vertices. No floating point;
 * depends on `rng` only. */
void crn_pieces_anneal(crn_pieces_order *order, uint64_t limit, uint64_t steps, uint64_t work,
                       uint32_t heat, crn_rng *rng, uint32_t *journal, uint8_t *best);

#endif
