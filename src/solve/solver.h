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
    const char *algorithm; /* its name in solvers.def, for a function that serves several */
    const cairn_graph *graph;
    const cairn_costs *costs;
    const cairn_machine *machine; /* or NULL */
    uint64_t budget;              /* UINT64_MAX: none */
    uint64_t limit;               /* of the arena, from which rounds take off the budget; 0: none */
    uint64_t seed;
    cairn_cost_model cost_model;
    bool no_offload; /* of an algorithm that may offload or not */
    bool live_peak;  /* the budget bounds the live peak, not the arena */
    uint32_t effort; /* of one that searches: at least 1 */
    crn_arena *scratch;
    void **kept; /* the algorithm's own from one round to the next, in scratch; at first NULL */
    cairn_error *err;
} crn_problem;

/* What the simulator and the layout say of a plan. */
typedef struct crn_judgement {
    uint64_t peak, arena;
    uint32_t peak_step;
    int64_t time;
} crn_judgement;

/* The search for a layout ends when the arena is within problem->limit; with `brief` it is a short
 * one for an arena as close to the live peak as is promised. */
CAIRN_MUST cairn_status crn_judge(const crn_problem *problem, const cairn_plan *plan, bool brief,
                                  crn_judgement *out);

/* An algorithm whose arena passes the budget by `excess` is asked again with so much less, this
 * being the answer to round `round` (from 0) of at most CRN_MOST_ROUNDS. */
#define CRN_MOST_ROUNDS 8
uint64_t crn_less_after(uint32_t round, uint64_t excess);

#define X(identifier, name, goal, budgeted, offloads, summary)                                     \
    CAIRN_MUST cairn_status crn_solve_##identifier(const crn_problem *problem,                     \
                                                   crn_schedule *schedule);
#include "solve/solvers.def"
#undef X

#endif
