/* solution.h: making solutions. */
#ifndef CRN_SOLUTION_H
#define CRN_SOLUTION_H

#include "base/crn_base.h"
#include "cairn/solve.h"

/* Make a solution of a plan: simulate it and lay it out, with little effort if `brief`. A memo, if
 * there is one, is asked for the layout first. The solution takes over the plan; on failure the
 * plan is destroyed. */
CAIRN_MUST cairn_status crn_solution_take(const cairn_graph *graph, const cairn_costs *costs,
                                          cairn_plan *plan, const cairn_machine *machine,
                                          bool brief, cairn_memo *memo, cairn_solution **out,
                                          cairn_error *err);

/* Compute a lower bound of the time of any plan: within the budget of the options or, if there is
 * none, within the plan's own arena. */
CAIRN_MUST cairn_status crn_solution_certify(const cairn_graph *graph, const cairn_costs *costs,
                                             const cairn_solve_options *options,
                                             cairn_solution *solution, cairn_error *err);

#endif
