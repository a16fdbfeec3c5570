/* exact_plan.h: the least time of any plan of a small graph without aliases, by a search over all
 * states. A state is the set of values in memory and the set of ops without values that have run.
 * Plans may use any order, any number of runs, and work in place, but no copies. */
#ifndef EXACT_PLAN_H
#define EXACT_PLAN_H

#include "cairn.h"

#define EXACT_NONE (-1)      /* nothing fits */
#define EXACT_TOO_LARGE (-2) /* more than 62 values and ops, or too many states */

/* The budget bounds the live peak. Ends the program if memory runs out. */
int64_t exact_least_time(const cairn_graph *graph, const cairn_costs *costs, uint64_t budget);

#endif
