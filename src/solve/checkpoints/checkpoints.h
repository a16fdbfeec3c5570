/* checkpoints.h: the algorithms for checkpoints, on networks. */
#ifndef CRN_CHECKPOINTS_H
#define CRN_CHECKPOINTS_H

#include "solve/solver.h"

/* problem->algorithm is "random", "chen", "feng-linear", "feng" or "pieces". */
CAIRN_MUST cairn_status crn_solve_checkpoints(const crn_problem *problem, crn_schedule *schedule);

#endif
