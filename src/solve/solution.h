/* solution.h: making solutions. */
#ifndef CRN_SOLUTION_H
#define CRN_SOLUTION_H

#include "base/crn_base.h"
#include "cairn/solve.h"

/* Judge a plan: simulate it and lay it out. The plan is the solution's, and destroyed on failure.
 */
CAIRN_MUST cairn_status crn_solution_take(const cairn_graph *graph, const cairn_costs *costs,
                                          cairn_plan *plan, const cairn_machine *machine,
                                          cairn_solution **out, cairn_error *err);

/* Say how good any plan could be: within the budget of the options, or, where there is none, within
 * the plan's own arena. */
CAIRN_MUST cairn_status crn_solution_certify(const cairn_graph *graph, const cairn_costs *costs,
                                             const cairn_solve_options *options,
                                             cairn_solution *solution, cairn_error *err);

#endif
