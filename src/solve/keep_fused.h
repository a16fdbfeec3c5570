/* keep_fused.h: see keep_fused.c. */
#ifndef CRN_KEEP_FUSED_H
#define CRN_KEEP_FUSED_H

#include "solve/solver.h"

/* If the costs say that ops are fused, and the solution of the schedule is within the limit of the
 * problem: replace it by one that recomputes outside of what is fused, where that fits too. */
CAIRN_MUST cairn_status crn_keep_fused(const crn_problem *problem, const crn_schedule *schedule,
                                       cairn_goal goal, cairn_solution **solution);

#endif
