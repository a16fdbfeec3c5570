/* solve_homes.h: a limit for everything on the device: which stationary tensors are at home on the
 * host, together with the plan for the rest. */
#ifndef CRN_SOLVE_HOMES_H
#define CRN_SOLVE_HOMES_H

#include "base/crn_base.h"
#include "cairn/solve.h"

/* A solution for options->device_bytes, in the order of the graph. */
CAIRN_MUST cairn_status crn_solve_homes(const cairn_graph *graph, const cairn_costs *costs,
                                        const char *name, const cairn_solve_options *options,
                                        cairn_solution **out, cairn_error *err);

/* Replace a solution by one with the homes of another plan, options->homes. */
CAIRN_MUST cairn_status crn_solve_with_homes(const cairn_graph *graph, const cairn_costs *costs,
                                             const cairn_solve_options *options,
                                             cairn_solution **solution, cairn_error *err);

#endif
