/* budget.h: for programs that take budgets from people or solve for many of them: what a budget
 * leaves for a plan, the largest batch that fits one, and what several calls may share. */
#ifndef CAIRN_BUDGET_H
#define CAIRN_BUDGET_H

#include "cairn/solve.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A limit as a person gives it. Start from CAIRN_BUDGET_OPTIONS_INIT; fields are only ever added at
 * the end. */
typedef struct cairn_budget_options {
    uint32_t struct_size;
    uint64_t amount; /* bytes, or with `share` millionths of what `none` needs */
    bool share;
    bool total;                 /* a limit for everything; else without the stationary memory */
    uint32_t optimizer_slots;   /* see cairn_stationary_bytes() */
    const cairn_solution *none; /* of the same graph and costs; NULL: worked out where needed */
} cairn_budget_options;
#define CAIRN_BUDGET_OPTIONS_INIT CAIRN_INIT_SIZED(cairn_budget_options)

/* What a limit amounts to. Start from CAIRN_BUDGET_INIT; fields are only ever added at the end. */
typedef struct cairn_budget {
    uint32_t struct_size;
    uint64_t plan_bytes;  /* for cairn_solve_options; at least 1, so that solvers refuse it and name
                             the smallest budget */
    uint64_t given_bytes; /* the limit in bytes */
    uint64_t stationary_bytes; /* what is spent of it already; 0 unless `total` */
} cairn_budget;
#define CAIRN_BUDGET_INIT CAIRN_INIT_SIZED(cairn_budget)

CAIRN_API CAIRN_MUST cairn_status cairn_budget_resolve(const cairn_graph *graph,
                                                       const cairn_costs *costs,
                                                       const cairn_budget_options *options,
                                                       cairn_budget *out, cairn_error *err);

/* ---- The largest batch ---- */

/* The training step of a network at a batch, and its costs; the library
 * takes ownership of both. */
typedef cairn_status (*cairn_fit_open)(void *context, uint32_t batch, cairn_graph **graph,
                                       cairn_costs **costs, cairn_error *err);

/* Start from CAIRN_FIT_OPTIONS_INIT; fields are only ever added at the end. */
typedef struct cairn_fit_options {
    uint32_t struct_size;
    const char *algorithm;            /* as in cairn_solve() */
    const cairn_solve_options *solve; /* its budget must be given */
    cairn_fit_open open;
    void *context;
    uint32_t hint; /* the batch to begin with; 0: 1 */
} cairn_fit_options;
#define CAIRN_FIT_OPTIONS_INIT CAIRN_INIT_SIZED(cairn_fit_options)

/* Start from CAIRN_FIT_RESULT_INIT; fields are only ever added at the end. */
typedef struct cairn_fit_result {
    uint32_t struct_size;
    uint32_t batch; /* 0: not even one fits */
    int64_t time_ns;
    uint64_t arena_bytes;
    uint64_t next_bytes;  /* the smallest budget for one more; UINT64_MAX: too large to represent */
    char stopped_by[128]; /* the op that sets it */
    int64_t lower_bound_ns; /* no plan of that batch takes less in the budget */
    uint64_t device_bytes;  /* with a limit of everything on the device: the arena and what stays */
} cairn_fit_result;
#define CAIRN_FIT_RESULT_INIT CAIRN_INIT_SIZED(cairn_fit_result)

/* The largest batch whose plan fits the budget. A smaller batch does not always fit where a larger
 * one does. The batch that is found fits, and the next larger one was tried and does not.
 * No batch above 2^24 is tried. Statuses are those of `open` and of cairn_solve(), less
 * CAIRN_INFEASIBLE. */
CAIRN_API CAIRN_MUST cairn_status cairn_fit(const cairn_fit_options *options, cairn_fit_result *out,
                                            cairn_error *err);

/* ---- Many calls ---- */

/* What calls of cairn_solve() may share, see cairn_solve_options: layouts that they searched for,
 * bounds, and the first search of `offload-best`. Each is recognised by all that it depends on, so
 * the graphs may differ. It makes calls faster and changes no result. One call at a time may use a
 * memo. It grows by about a hundred bytes for each size of an arena, and by 8 bytes per lifetime
 * for each layout. */
CAIRN_API CAIRN_MUST cairn_status cairn_memo_create(const cairn_allocator *allocator,
                                                    cairn_memo **out, cairn_error *err);
CAIRN_API void cairn_memo_destroy(cairn_memo *memo);

#ifdef __cplusplus
}
#endif
#endif
