/* offload.h: GPU-CPU offloading on a chain, the abstract problem of Beaumont, Eyraud-Dubois and
 * Shilova, "Optimal GPU-CPU Offloading Strategies for Deep Neural Network Training" (2020).
 *
 * A chain of `layers` = L + 1 layers trains in the fixed order F_0 .. F_L, B_L .. B_0, one op at a
 * time. F_i reads x_i and makes x_{i+1}; B_i reads x_i, x_{i+1} and y_{i+1} and makes y_i. Each
 * x_0 .. x_L may make one round trip to the host over one link that carries one transfer at a time,
 * while ops run; it must be back before B_i. Wanted: the shortest step whose device memory never
 * exceeds `memory`.
 *
 * Exact integers throughout. Times in results are the real ones multiplied by the bandwidth
 * ("x_beta"): in those units an op takes its time * bandwidth and moving x takes |x|.
 *
 *     cairn_offload_cases_read -> cairn_offload_cases_get -> cairn_offload_solve -> solution
 *
 * Nothing here keeps a reference to what it was given, except that a problem read from a file
 * belongs to its cases. All functions may be called concurrently. */
#ifndef CAIRN_OFFLOAD_H
#define CAIRN_OFFLOAD_H

#include "cairn/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One case. Plain data; its maker owns the arrays. The comment gives the paper's symbol,
 * which is also the field's name in a file. */
typedef struct cairn_offload_problem {
    uint32_t layers;                /* L + 1, at least 1 */
    const uint64_t *activations;    /* x[0..L+1], sizes */
    const uint64_t *gradients;      /* y[0..L+1], sizes */
    const uint64_t *forward_extra;  /* exF[0..L], temporary memory of F_i */
    const uint64_t *backward_extra; /* exB[0..L] */
    const uint64_t *forward_time;   /* uF[0..L] */
    const uint64_t *backward_time;  /* uB[0..L] */
    uint64_t bandwidth;             /* beta: size units per time unit, at least 1 */
    uint64_t memory;                /* M_gpu */
} cairn_offload_problem;

/* ---- Cases from a file ---- */

typedef struct cairn_offload_cases cairn_offload_cases;

/* Read one case, an array of cases, or {"cases": [...]} from `length` bytes of JSON. `file` is
 * named in errors and may be NULL. Result fields of the published examples are ignored; any other
 * unknown field is an error. On CAIRN_OK `*out` is the caller's, to be released with
 * cairn_offload_cases_destroy(); otherwise NULL. CAIRN_ESYNTAX gives line and column, CAIRN_EINVAL
 * and CAIRN_EOVERFLOW the path of the wrong value. A case that does not fit its memory is no
 * error here; cairn_offload_solve() reports it. */
CAIRN_API CAIRN_MUST cairn_status cairn_offload_cases_read(const cairn_allocator *allocator,
                                                           const char *text, size_t length,
                                                           const char *file,
                                                           cairn_offload_cases **out,
                                                           cairn_error *err);
CAIRN_API void cairn_offload_cases_destroy(cairn_offload_cases *cases);
CAIRN_API uint32_t cairn_offload_cases_count(const cairn_offload_cases *cases);

/* The problem of case `index`, and its "id" ("" where the file gives none); NULL past the end. Both
 * live as long as `cases`. */
CAIRN_API const cairn_offload_problem *cairn_offload_cases_get(const cairn_offload_cases *cases,
                                                               uint32_t index);
CAIRN_API const char *cairn_offload_cases_id(const cairn_offload_cases *cases, uint32_t index);

/* ---- Bounds ---- */

typedef struct cairn_offload_bounds {
    uint64_t peak_memory;        /* with nothing offloaded */
    uint64_t min_memory;         /* a schedule exists exactly when memory is at least this */
    char min_memory_op[16];      /* the op that sets it: "F_3", "B_0" */
    uint64_t compute_x_beta;     /* all ops, no waiting */
    uint64_t lower_bound_x_beta; /* max(compute, 2 * (peak_memory - memory)) */
    bool feasible;               /* memory >= min_memory */
    uint64_t fractional_x_beta;  /* optimum when any share of an activation may be moved, a bound on
                                    every schedule; 0 when not feasible */
    uint64_t whole_x_beta;       /* a bound on every schedule with whole release, at least the
                                    former; 0 when not feasible */
} cairn_offload_bounds;

/* Check a problem (CAIRN_EINVAL, CAIRN_EOVERFLOW: one sentence) and bound it. O(layers log layers),
 * apart from a fixed amount of work for the last bound. */
CAIRN_API CAIRN_MUST cairn_status cairn_offload_bound(const cairn_allocator *allocator,
                                                      const cairn_offload_problem *problem,
                                                      cairn_offload_bounds *out, cairn_error *err);

/* ---- Algorithms ---- */

typedef struct cairn_offload_algorithm {
    const char *name;    /* "offload-best" */
    const char *summary; /* one line */
} cairn_offload_algorithm;

/* Algorithm `index`, or NULL past the end. The first is the default. */
CAIRN_API const cairn_offload_algorithm *cairn_offload_algorithm_list(uint32_t index);

/* When the memory of a moved activation is released and taken again. */
typedef enum cairn_offload_release {
    /* released when its offload has ended, taken when its fetch begins */
    CAIRN_OFFLOAD_RELEASE_WHOLE = 0,
    /* released and taken byte by byte as they are moved */
    CAIRN_OFFLOAD_RELEASE_FRACTIONAL = 1
} cairn_offload_release;

#define CAIRN_OFFLOAD_SLOTS_EXACT UINT32_MAX

/* Start from CAIRN_OFFLOAD_OPTIONS_INIT; fields are only ever added at the end. */
typedef struct cairn_offload_options {
    uint32_t struct_size; /* sizeof as the caller compiled it */
    cairn_offload_release release;
    uint32_t slots;    /* of offload-dynprog: 0: exact where that is quick, else 500;
                          CAIRN_OFFLOAD_SLOTS_EXACT: never rounded */
    uint64_t max_work; /* elementary steps of the searches, 0: the default; the same work gives
                          the same answer on every machine */
} cairn_offload_options;

#define CAIRN_OFFLOAD_OPTIONS_INIT                                                                 \
    { sizeof(cairn_offload_options), CAIRN_OFFLOAD_RELEASE_WHOLE, 0, 0 }

/* One round trip. Each transfer takes |x| in these units, without a pause. */
typedef struct cairn_offload_transfer {
    uint32_t activation;
    uint64_t offload_start_x_beta;
    uint64_t fetch_start_x_beta;
} cairn_offload_transfer;

/* A schedule, and what is known about it. Read only; lives until cairn_offload_solution_destroy().
 */
typedef struct cairn_offload_solution {
    uint64_t makespan_x_beta;
    cairn_offload_bounds bounds;
    bool optimal; /* proved shortest of all schedules with whole release, else of ordered ones */
    uint32_t layers, transfer_count;
    const uint64_t *forward_start_x_beta;    /* per layer */
    const uint64_t *backward_start_x_beta;   /* per layer */
    const cairn_offload_transfer *transfers; /* by increasing activation */
} cairn_offload_solution;

/* Solve with the algorithm called `name`; NULL means the default. `options` may be NULL.
 *
 * On CAIRN_OK `*out` is the caller's; otherwise NULL. CAIRN_INFEASIBLE: the case does not fit; the
 * sentence in `err` gives the smallest possible memory (also in `smallest_budget`) and the op
 * that sets it (also in `name`). CAIRN_EUNKNOWN: no such algorithm. */
CAIRN_API CAIRN_MUST cairn_status cairn_offload_solve(
    const cairn_allocator *allocator, const cairn_offload_problem *problem, const char *name,
    const cairn_offload_options *options, cairn_offload_solution **out, cairn_error *err);
CAIRN_API void cairn_offload_solution_destroy(cairn_offload_solution *solution);

/* Evaluate one given set of activations (`count` indices, increasing, each at most L) as an ordered
 * schedule: offloads by increasing index, all before the fetches, fetches by decreasing index; the
 * shortest such. CAIRN_INFEASIBLE: the set leaves some op without memory. O(layers log layers). */
CAIRN_API CAIRN_MUST cairn_status cairn_offload_ordered(
    const cairn_allocator *allocator, const cairn_offload_problem *problem, const uint32_t *set,
    uint32_t count, cairn_offload_release release, cairn_offload_solution **out, cairn_error *err);

#ifdef __cplusplus
}
#endif
#endif
