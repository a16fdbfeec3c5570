/* bounds.h: what no plan can do better. A solution already holds the bound of its own budget
 * (lower_bound_ns); these ask for others. */
#ifndef CAIRN_BOUNDS_H
#define CAIRN_BOUNDS_H

#include "cairn/solve.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A time that every plan takes at least, by a proof that holds for any order of ops, any number of
 * recomputations, work in place, and, unless options->no_offload is set or there is no machine,
 * copies (docs/algorithms.md). `budget_bytes` 0: the time of all ops that are needed. Other options
 * are ignored. CAIRN_INFEASIBLE: no plan fits. It computes about 200 minimum cuts of a network as
 * large as the graph. */
CAIRN_API CAIRN_MUST cairn_status cairn_time_bound(const cairn_graph *graph,
                                                   const cairn_costs *costs,
                                                   const cairn_solve_options *options, int64_t *out,
                                                   cairn_error *err);

/* A budget below which no plan fits, with or without copies as above. It computes one minimum cut
 * per op, for at most 2000 ops. */
CAIRN_API CAIRN_MUST cairn_status cairn_least_memory(const cairn_graph *graph,
                                                     const cairn_costs *costs,
                                                     const cairn_solve_options *options,
                                                     uint64_t *out, cairn_error *err);

#ifdef __cplusplus
}
#endif
#endif
