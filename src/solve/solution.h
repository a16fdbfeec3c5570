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

/* See cairn_solution_step_ns() in report.h. */
int64_t crn_solution_step_ns(const cairn_solution *solution, uint32_t micro_batches,
                             int64_t update_ns);

/* The time of a step by the solution, over all its micro-batches. */
int64_t crn_solution_time(const cairn_solution *solution);

/* How much longer than lower_bound_ns the plan takes, in millionths of it, rounded up: no plan can
 * be faster by more. 0 where the bound is not known. */
int64_t crn_solution_gap_ppm(const cairn_solution *solution);

/* `millionths` of `whole`, rounded down: a share as people give it. */
uint64_t crn_share_of(uint64_t whole, uint64_t millionths);

/* Set the time of the micro-batches before the last, if the options have several, and make the
 * bound one of the whole step. */
CAIRN_MUST cairn_status crn_solution_gather(const cairn_graph *graph, const cairn_costs *costs,
                                            const cairn_solve_options *options,
                                            cairn_solution *solution, cairn_error *err);

#endif
