/* solver.h: input and output of an algorithm.
 *
 * An algorithm fills the schedule. It works in `scratch`, which the dispatcher frees on every path,
 * so it needs no cleanup code. The dispatcher lowers the schedule, simulates it, lays it out, and
 * checks it against the budget. */
#ifndef CRN_SOLVER_H
#define CRN_SOLVER_H

#include "cairn/solve.h"
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"
#include "plan/lower.h"

typedef struct crn_problem {
    const char *algorithm; /* its name in solvers.def, for a function that serves several names */
    const cairn_graph *graph;
    const cairn_costs *costs;
    const cairn_machine *machine; /* or NULL */
    uint64_t budget;              /* UINT64_MAX: none */
    uint64_t limit; /* of the arena; `budget` is this or, in later rounds, less; 0: none */
    uint64_t seed;
    cairn_cost_model cost_model;
    bool no_offload;  /* offloading is not allowed; for algorithms that can do without */
    bool live_peak;   /* the budget bounds the live peak, not the arena */
    bool for_start;   /* another algorithm asks, which has plans of its own: less work is enough */
    uint32_t effort;  /* of a search; at least 1 */
    uint32_t share;   /* of the work at that effort: one of as many equal shares; 0: all of it */
    cairn_memo *memo; /* or NULL */
    crn_arena *scratch; /* gives out nothing once the caller has ended the call: base/watch.h */
    void **kept;        /* what the algorithm keeps for the next round, in scratch; NULL at first */
    cairn_error *err;
} crn_problem;

/* Memory and time of a plan, from the simulator and the layout. */
typedef struct crn_judgement {
    uint64_t peak, arena;
    uint32_t peak_step;
    int64_t time;
} crn_judgement;

/* Simulate a plan and lay it out; if the budget bounds the live peak, that stands for the arena.
 * The search for a layout ends when the arena is within problem->limit. With `brief` it is a short
 * search, which ends when the arena is close enough to the live peak. */
CAIRN_MUST cairn_status crn_judge(const crn_problem *problem, const cairn_plan *plan, bool brief,
                                  crn_judgement *out);

/* cairn_solve() with one search, of exactly the effort that the options say, or of one of `share`
 * equal shares of it; their memo is set. */
CAIRN_MUST cairn_status crn_solve_round(const cairn_graph *graph, const cairn_costs *costs,
                                        const char *name, const cairn_solve_options *options,
                                        uint32_t share, cairn_solution **out, cairn_error *err);

/* The plan in the least memory that the algorithm finds, which is the one that its refusals name.
 * After CAIRN_OK `err` is that of the refusal: it names the memory and the op that sets it. */
CAIRN_MUST cairn_status crn_solve_least(const cairn_graph *graph, const cairn_costs *costs,
                                        const char *name, const cairn_solve_options *options,
                                        cairn_solution **out, cairn_error *err);

/* How much to subtract from the budget if the arena exceeds it by `excess` in round `round` (from
 * 0). There are at most CRN_MOST_ROUNDS rounds. */
#define CRN_MOST_ROUNDS 8
uint64_t crn_less_after(uint32_t round, uint64_t excess);

/* An algorithm. The dispatcher knows it by its line in solvers.def; another algorithm that calls it
 * includes a header that declares it. */
typedef cairn_status crn_solver(const crn_problem *problem, crn_schedule *schedule);

#endif
