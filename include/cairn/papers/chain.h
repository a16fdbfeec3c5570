/* chain.h: recomputation on a chain under an exact memory budget, the problem of Butt's thesis.
 *
 * A chain has N layers. Its tensors are the forwards f_0 .. f_N (f_0 is given and stays) and the
 * backwards b_{N+1} .. b_0 (b_{N+1} is given):
 *
 *     f_0 --F1--> f_1 --F2--> f_2 -- .. --FN--> f_N
 *      |           |           |                 |
 *     B_0 <------ B_1 <------ B_2 <-- .. <----- B_N <-- b_{N+1}
 *
 * F_l reads f_{l-1} and makes f_l; B_l reads f_l and b_{l+1} and makes b_l, after which b_{l+1} and
 * f_l (l > 0) are freed. Each B runs once, from B_N down to B_0; an F may be recomputed after its
 * result was dropped. Memory during a step is everything resident, the step's result included, and
 * must not exceed the budget, in which f_0 counts too. Wanted: the cheapest order.
 *
 * Sizes and costs are whole numbers in units of the caller's choice. */
#ifndef CAIRN_CHAIN_H
#define CAIRN_CHAIN_H

#include "cairn/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The longest chain that any algorithm takes; some take less and say so. */
#define CAIRN_CHAIN_MOST_LAYERS 4096u

/* Plain data; the function that makes it says who owns the arrays. Sizes sum to less than 2^58, and
 * so do all costs together times N + 1; costs are not negative. cairn_chain_check() verifies that.
 */
typedef struct cairn_chain_problem {
    uint32_t layers;                /* N */
    const int64_t *forward_costs;   /* alpha_f[0 .. N], entry 0 unused */
    const int64_t *backward_costs;  /* alpha_b[0 .. N+1], entry N+1 unused */
    const uint64_t *forward_sizes;  /* beta_f[0 .. N] */
    const uint64_t *backward_sizes; /* beta_b[0 .. N+1] */
    uint64_t budget;
} cairn_chain_problem;

/* CAIRN_EINVAL or CAIRN_EOVERFLOW with a sentence that names the layer at fault. */
CAIRN_API CAIRN_MUST cairn_status cairn_chain_check(const cairn_chain_problem *problem,
                                                    cairn_error *err);

/* ---- Cases from a file ---- */

typedef struct cairn_chain_cases cairn_chain_cases;

/* Read JSON: one case, an array of cases, or {"cases": [...]}. A case has the members N, alpha_f,
 * alpha_b, beta_f, beta_b and budget; others are ignored. `file` is named in errors and may be
 * NULL. On CAIRN_OK `*out` is the caller's, to be released with cairn_chain_cases_destroy(). */
CAIRN_API CAIRN_MUST cairn_status cairn_chain_cases_read(const cairn_allocator *allocator,
                                                         const char *text, size_t length,
                                                         const char *file, cairn_chain_cases **out,
                                                         cairn_error *err);
CAIRN_API void cairn_chain_cases_destroy(cairn_chain_cases *cases);
CAIRN_API uint32_t cairn_chain_cases_count(const cairn_chain_cases *cases);

/* The problem of case `index`, or NULL past the end. It and its arrays live as long as `cases`. */
CAIRN_API const cairn_chain_problem *cairn_chain_cases_get(const cairn_chain_cases *cases,
                                                           uint32_t index);

/* ---- Schedules and their judge ---- */

typedef enum cairn_chain_step_kind {
    CAIRN_CHAIN_STEP_FORWARD = 0,  /* F_l */
    CAIRN_CHAIN_STEP_BACKWARD = 1, /* B_l; it frees f_l, no drop is written */
    CAIRN_CHAIN_STEP_DROP = 2      /* f_l is freed before its backward */
} cairn_chain_step_kind;

typedef struct cairn_chain_step {
    uint32_t kind; /* a cairn_chain_step_kind */
    uint32_t layer;
} cairn_chain_step;

typedef struct cairn_chain_verdict {
    int64_t cost;  /* of all steps */
    uint64_t peak; /* most memory during any step; 0 without steps */
} cairn_chain_verdict;

/* Walk a whole schedule: is every step legal, is b_0 made at the end, what does it cost, how much
 * does it hold at most? The budget does not matter here. CAIRN_EINVAL names the first step that
 * breaks a rule, and the rule. O(steps + N). */
CAIRN_API CAIRN_MUST cairn_status cairn_chain_judge(const cairn_chain_problem *problem,
                                                    const cairn_chain_step *steps, size_t count,
                                                    cairn_chain_verdict *out, cairn_error *err);

/* ---- Algorithms ---- */

typedef struct cairn_chain_algorithm {
    const char *name;
    const char *summary; /* one line */
} cairn_chain_algorithm;

/* Algorithm `index`, or NULL past the end. The first is the default. */
CAIRN_API const cairn_chain_algorithm *cairn_chain_algorithm_list(uint32_t index);

/* Start from CAIRN_CHAIN_OPTIONS_INIT; fields are only ever added at the end. All limits are on
 * work, never on time, so that results repeat. */
typedef struct cairn_chain_options {
    uint32_t struct_size; /* sizeof as the caller compiled it */
    bool curve;           /* fill solution.curve: the best cost for every budget */
    uint32_t max_points;  /* precise: steps of a cost function; 0: exact up to 120 layers, beyond
                           * that exact or on a grid, see `bracketed` */
    uint32_t max_states;  /* exact, beam: states visited; 0 is the algorithm's own limit */
} cairn_chain_options;

#define CAIRN_CHAIN_OPTIONS_INIT                                                                   \
    { sizeof(cairn_chain_options), false, 0, 0 }

typedef struct cairn_chain_point {
    uint64_t budget; /* the smallest that allows this cost */
    int64_t cost;
} cairn_chain_point;

/* What an algorithm found. Cost and peak are those of `steps` as cairn_chain_judge() gives them. */
typedef struct cairn_chain_solution {
    bool feasible;       /* the algorithm has a schedule within the budget: CAIRN_OK */
    int64_t cost;        /* with feasible */
    uint64_t peak;       /* with feasible: of this schedule, at most the budget */
    uint64_t min_budget; /* the smallest budget for which this algorithm has a schedule */
    bool bracketed;      /* the search ended early: the cost may not be the least possible, ... */
    int64_t lower_bound; /* ... which is no less than this (precise: among nested schedules) */
    const cairn_chain_step *steps; /* with feasible */
    size_t step_count;
    const cairn_chain_point *curve; /* with options.curve: budgets rise, costs fall */
    size_t curve_count;
} cairn_chain_solution;

/* Solve with the algorithm called `algorithm`; NULL means the default.
 *
 * CAIRN_INFEASIBLE: nothing fits; `err` then holds the smallest budget that would. With CAIRN_OK
 * and CAIRN_INFEASIBLE `*out` is the caller's, to be released with cairn_chain_solution_destroy();
 * it keeps no reference to `problem`. Otherwise `*out` is NULL. CAIRN_EUNKNOWN: no such algorithm.
 * CAIRN_EINVAL: the problem fails cairn_chain_check(), or is too long for the algorithm. Safe to
 * call concurrently. */
CAIRN_API CAIRN_MUST cairn_status cairn_chain_solve(const cairn_allocator *allocator,
                                                    const cairn_chain_problem *problem,
                                                    const char *algorithm,
                                                    const cairn_chain_options *options,
                                                    cairn_chain_solution **out, cairn_error *err);
CAIRN_API void cairn_chain_solution_destroy(cairn_chain_solution *solution);

#ifdef __cplusplus
}
#endif
#endif
