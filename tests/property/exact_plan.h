/* exact_plan.h: the least time of any plan of a small graph without aliases, by looking at all
 * states: which values are there, and which ops that leave no value have run. Any order, any number
 * of runs, in place; no copies. */
#ifndef EXACT_PLAN_H
#define EXACT_PLAN_H

#include "cairn.h"

#define EXACT_NONE (-1)      /* nothing fits */
#define EXACT_TOO_LARGE (-2) /* more than 62 values and ops, or too many states */

/* By live peak. Ends the program when memory is out. */
int64_t exact_least_time(const cairn_graph *graph, const cairn_costs *costs, uint64_t budget);

#endif
