/* offload_tensors.h: offloading tensor by tensor. */
#ifndef CRN_OFFLOAD_TENSORS_H
#define CRN_OFFLOAD_TENSORS_H

#include "solve/solver.h"

/* See offload_tensors.c. */
CAIRN_MUST cairn_status crn_solve_offload_best(const crn_problem *problem, crn_schedule *schedule);

#endif
