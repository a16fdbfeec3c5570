/* none.c: plans without decisions: training that keeps what a backward op reads, and inference. */
#include "solve/solver.h"

crn_solver crn_solve_none, crn_solve_infer; /* of solvers.def */

cairn_status crn_solve_none(const crn_problem *problem, crn_schedule *schedule) {
    return crn_schedule_all(schedule, problem->scratch, problem->graph);
}

cairn_status crn_solve_infer(const crn_problem *problem, crn_schedule *schedule) {
    return crn_schedule_infer(schedule, problem->scratch, problem->graph);
}
