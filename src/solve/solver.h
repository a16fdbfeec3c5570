/* solver.h: what an algorithm is given and what it gives back.
 *
 * An algorithm fills the schedule. It works in `scratch`, which the dispatcher frees on every path,
 * and so holds no cleanup code. The dispatcher lowers the schedule, has it judged and laid out, and
 * holds it to the budget. */
#ifndef CRN_SOLVER_H
#define CRN_SOLVER_H

#include "cairn/solve.h"
#include "plan/lower.h"

typedef struct crn_problem {
    const cairn_graph *graph;
    const cairn_costs *costs;
    const cairn_machine *machine; /* or NULL */
    uint64_t budget;              /* UINT64_MAX: none */
    uint64_t seed;
    cairn_cost_model cost_model;
    crn_arena *scratch;
    cairn_error *err;
} crn_problem;

#define X(identifier, name, goal, budgeted, summary)                                               \
    CAIRN_MUST cairn_status crn_solve_##identifier(const crn_problem *problem,                     \
                                                   crn_schedule *schedule);
#include "solve/solvers.def"
#undef X

#endif
