/* precise.h: least time under a budget on the chain of a network's pieces. */
#ifndef CRN_PRECISE_H
#define CRN_PRECISE_H

#include "solve/solver.h"

/* See precise.c. */
CAIRN_MUST cairn_status crn_solve_precise(const crn_problem *problem, crn_schedule *schedule);

#endif
