/* offload_solvers.h: the algorithms that offload, on networks. */
#ifndef CRN_OFFLOAD_SOLVERS_H
#define CRN_OFFLOAD_SOLVERS_H

#include "solve/solver.h"

/* problem->algorithm is one of offload_algorithms.def. See offload_pieces.c. */
CAIRN_MUST cairn_status crn_solve_offload_pieces(const crn_problem *problem,
                                                 crn_schedule *schedule);

/* See offload_tensors.c. */
CAIRN_MUST cairn_status crn_solve_offload_best(const crn_problem *problem, crn_schedule *schedule);

#endif
