/* problem_key.h: what a memo knows a problem by. */
#ifndef CRN_PROBLEM_KEY_H
#define CRN_PROBLEM_KEY_H

#include "cairn/cost.h"
#include "layout/memo.h"

/* A key of all that a graph, its costs and a machine (or NULL) say to a solver; names do not
 * matter. The caller adds what else the result depends on. O(ops + tensors). */
crn_key crn_problem_key(uint64_t sort, const cairn_graph *graph, const cairn_costs *costs,
                        const cairn_machine *machine);

#endif
