/* chain_solve.h: shared by the algorithms on abstract chains.
 *
 * An algorithm is one file with one function crn_chain_NAME and one line in chain_algorithms.def.
 * It works in the job's arena, which the dispatcher frees on every path, and answers with steps.
 * Cost and peak are taken from the simulation, never from the algorithm. */
#ifndef CRN_CHAIN_SOLVE_H
#define CRN_CHAIN_SOLVE_H

#include "cairn/papers/chain.h"
#include "solve/chain/piece_chain.h"

#define CRN_CHAIN_LIMIT (INT64_MAX / 4) /* all sums of sizes and costs are below this */

typedef CRN_ARRAY(cairn_chain_step) crn_chain_steps;
typedef CRN_ARRAY(cairn_chain_point) crn_chain_points;

typedef struct crn_chain_job {
    const cairn_chain_problem *problem;
    uint64_t budget; /* of the problem, or another one while a curve is traced */
    cairn_chain_options options;
    crn_arena *arena;
    cairn_error *err;
} crn_chain_job;

typedef struct crn_chain_answer {
    bool feasible;
    uint64_t min_budget;
    crn_chain_steps steps; /* if feasible */
    bool bracketed;
    int64_t lower_bound;    /* if bracketed */
    bool has_curve;         /* else a curve is traced by solving for many budgets */
    crn_chain_points curve; /* points that schedules attain, in any order */
} crn_chain_answer;

typedef cairn_status (*crn_chain_solver)(crn_chain_job *job, crn_chain_answer *answer);

#define X(function, name, summary)                                                                 \
    CAIRN_MUST cairn_status crn_chain_##function(crn_chain_job *job, crn_chain_answer *answer);
#include "solve/chain/chain_algorithms.def"
#undef X

/* ---- Writing schedules ---- */

CAIRN_MUST cairn_status crn_chain_push(crn_arena *arena, crn_chain_steps *steps,
                                       cairn_chain_step_kind kind, uint32_t layer);

/* F_{from+1} .. F_to, dropping the forwards between. */
CAIRN_MUST cairn_status crn_chain_sweep(crn_arena *arena, crn_chain_steps *steps, uint32_t from,
                                        uint32_t to);

/* F_{from+1} .. F_to, keeping all, then B_to .. B_from. */
CAIRN_MUST cairn_status crn_chain_unroll(crn_arena *arena, crn_chain_steps *steps, uint32_t from,
                                         uint32_t to);

/* ---- Choosing among fixed schedules ----
 *
 * A baseline that does not use sizes has a parameter (slots, segment length). Offer its schedules
 * one by one. The cheapest one whose simulated peak fits is the answer; the least peak of all is
 * the smallest budget. The offered steps may be overwritten afterwards. */
typedef struct crn_chain_choice {
    crn_chain_job *job;
    crn_chain_answer *answer;
    cairn_chain_verdict best;
} crn_chain_choice;

void crn_chain_choice_init(crn_chain_choice *choice, crn_chain_job *job, crn_chain_answer *answer);
CAIRN_MUST cairn_status crn_chain_offer(crn_chain_choice *choice, const crn_chain_steps *steps);

/* ---- Nested schedules as a table (chain_precise.c), where other algorithms start from ---- */

typedef struct crn_chain_nested {
    crn_piece_chain chain;
    crn_piece_table *table; /* its memory does not count f_0 */
    bool gave_up;           /* too many points; the table must not be used */
    uint64_t floor;         /* smallest feasible budget */
} crn_chain_nested;

/* Solve for budgets up to `budget`, thinned to `max_points` (0: not thinned; it may give up). */
CAIRN_MUST cairn_status crn_chain_nested_solve(crn_chain_job *job, uint64_t budget,
                                               uint32_t max_points, bool downwards,
                                               crn_chain_nested *out);

/* The whole answer of `precise` for a chain with gave_up. */
CAIRN_MUST cairn_status crn_chain_nested_on_grid(crn_chain_job *job, crn_chain_answer *answer);

/* Append the schedule that obtains b_first from f_first and b_{last+1} within `memory`. */
CAIRN_MUST cairn_status crn_chain_nested_steps(const crn_chain_nested *nested, uint32_t first,
                                               uint32_t last, uint64_t memory, crn_arena *arena,
                                               crn_chain_steps *out);

#endif
