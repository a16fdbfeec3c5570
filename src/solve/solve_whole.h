/* solve_whole.h: a limit for everything on the device. */
#ifndef CRN_SOLVE_WHOLE_H
#define CRN_SOLVE_WHOLE_H

#include "base/crn_base.h"
#include "cairn/solve.h"

/* cairn_solve() for options->device_bytes. */
CAIRN_MUST cairn_status crn_solve_whole(const cairn_graph *graph, const cairn_costs *costs,
                                        const char *name, const cairn_solve_options *options,
                                        cairn_solution **out, cairn_error *err);

#endif
