/* random_graph.h: seeded graphs, costs and machines for property tests. */
#ifndef RANDOM_GRAPH_H
#define RANDOM_GRAPH_H

#include "base/rng.h"
#include "cairn.h"

static inline uint32_t below(crn_rng *rng, uint32_t bound) {
    return (uint32_t)crn_rng_below(rng, bound);
}

static inline bool one_in(crn_rng *rng, uint32_t n) {
    return below(rng, n) == 0;
}

/* Opaque ops with random operands, aliases, permissions and flags: a few forward ops, one or two
 * losses, backward ops with gradients of parameters (some summed in place), updates. */
cairn_graph *random_graph(crn_rng *rng);

/* A small real network, differentiated: convolutions, batch-norm, additions, dropout and so on, or
 * a recurrent one with shared weights. */
cairn_graph *random_network(crn_rng *rng);

/* One to three implementations per op. Sizes change in the same way for tensors of equal size; with
 * `uneven` sometimes one by one, so that not every in-place pair can be used. */
cairn_costs *random_costs(crn_rng *rng, const cairn_graph *graph, bool uneven);

cairn_machine random_machine(crn_rng *rng);

#endif
