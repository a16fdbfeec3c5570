/* arrays.h: the step of another system as plain arrays, for fronts in other languages.
 *
 * The arrays become a graph of opaque ops with costs, and its solution names tensors and ops by
 * their place in the arrays. docs/graph-format.md says how to write such a step: a tensor is a
 * storage, results stay, an opaque op marks the boundary between forward and backward. At the
 * end cairn_regions_choose() chooses plans for several such steps under one budget. */
#ifndef CAIRN_ARRAYS_H
#define CAIRN_ARRAYS_H

#include "cairn/solve.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CAIRN_TENSOR_FLAG_STATIONARY = 1, /* the caller's: neither counted nor freed */
    CAIRN_TENSOR_FLAG_RESULT = 2      /* counted once it is made, kept to the end */
};

/* Lists of all ops lie in one array, op after op; those of op o are first[o] .. first[o + 1] - 1,
 * so `first` has op_count + 1 elements. Everything is borrowed for the call. */
typedef struct cairn_arrays {
    uint32_t struct_size;
    const char *name; /* of the step; NULL: "step" */
    uint32_t tensor_count, op_count;
    const uint64_t *bytes;           /* per tensor */
    const uint8_t *roles;            /* per tensor: cairn_role */
    const uint8_t *tensor_flags;     /* per tensor: CAIRN_TENSOR_*; NULL: none */
    const char *const *tensor_names; /* NULL: t0, t1, ... */
    const uint8_t *phases;           /* per op: cairn_phase, in rising order */
    const uint8_t *op_flags;         /* per op: CAIRN_OP_FLAG_ONCE and so on; NULL: none */
    const char *const *op_names;     /* NULL: op0, op1, ... */
    const int64_t *time_ns;          /* per op */
    const uint64_t *workspace_bytes; /* per op; NULL: none */
    const uint32_t *groups; /* per op: neighbours of one number other than 0 are one kernel;
                             * what only they exchange is its workspace. NULL: no groups */
    const uint32_t *first_input;
    const cairn_id *inputs; /* parameters, state and slots among them */
    const uint32_t *first_output;
    const cairn_id *outputs;       /* CAIRN_NONE: not wanted */
    const uint32_t *first_inplace; /* NULL: nothing in place */
    const cairn_inplace *inplace; /* by place in the op's own lists; those of a group are ignored */
    uint64_t alignment;           /* to which storages are rounded up, a power of two; 0: 64 */
    /* Per op: a second implementation with less workspace, for plans that need it; ops whose second
     * workspace is not smaller have none, and groups have none. NULL: no op has one. */
    const int64_t *second_time_ns;
    const uint64_t *second_workspace_bytes;
    /* Per op: the time of a run after the first, at most that of the first: one kernel may do it
     * beside other work. Groups have that of the first. NULL: no op has another. */
    const int64_t *again_time_ns;
} cairn_arrays;
#define CAIRN_ARRAYS_INIT CAIRN_INIT_SIZED(cairn_arrays)

/* A step and what it costs. Ids of the graph are not those of the arrays where there are groups:
 * tensor_of and op_of lead back, for a group to its first op. Release with
 * cairn_arrays_step_destroy(). */
typedef struct cairn_arrays_step {
    cairn_graph *graph;
    cairn_costs *costs;
    const cairn_id *tensor_of, *op_of; /* per tensor and op of the graph: its place in the arrays */
    void *memory;                      /* the step's own */
} cairn_arrays_step;

/* CAIRN_EINVAL names what is wrong with the arrays. O(n). */
CAIRN_API CAIRN_MUST cairn_status cairn_arrays_step_create(const cairn_allocator *allocator,
                                                           const cairn_arrays *arrays,
                                                           cairn_arrays_step **out,
                                                           cairn_error *err);
CAIRN_API void cairn_arrays_step_destroy(cairn_arrays_step *step);

/* A plan of the step, judged, in the ids of the arrays. Release with
 * cairn_arrays_solution_destroy(); the step must outlive it. */
typedef struct cairn_arrays_solution {
    const cairn_solution *solution; /* in the ids of the step's graph */
    uint32_t step_count;
    const cairn_step *steps;
    const uint64_t *step_bytes; /* live during a run, after any other step */
    uint32_t lifetime_count;
    const cairn_lifetime *lifetimes;
    const uint64_t *offsets; /* per lifetime, in one arena; with live_peak found quickly */
    uint64_t peak_bytes, arena_bytes;
    int64_t time_ns;
    int64_t lower_bound_ns; /* no plan within the budget takes less; 0: the solver knows none */
    void *memory;
} cairn_arrays_solution;

/* cairn_solve() on a step. */
CAIRN_API CAIRN_MUST cairn_status cairn_arrays_step_solve(const cairn_arrays_step *step,
                                                          const char *name,
                                                          const cairn_solve_options *options,
                                                          cairn_arrays_solution **out,
                                                          cairn_error *err);

/* A plan's text as a solution: docs/plan-format.md. `machine` as in cairn_solution_create(). */
CAIRN_API CAIRN_MUST cairn_status cairn_arrays_step_read(
    const cairn_arrays_step *step, const char *text, size_t length, const char *file,
    const cairn_machine *machine, cairn_arrays_solution **out, cairn_error *err);
CAIRN_API void cairn_arrays_solution_destroy(cairn_arrays_solution *solution);

/* ---- Several steps under one budget ---- */

/* One way to run a region, which is planned by itself (between two graph breaks, a
 * block). Regions run forwards in their order and backwards in the opposite one. */
typedef struct cairn_region_way {
    uint64_t peak_bytes;  /* the most that the region takes while it runs, what it saves included */
    uint64_t saved_bytes; /* of these, what it holds from its forward to its backward ops */
    int64_t time_ns;
} cairn_region_way;

/* Choose a way for every region such that the step takes the least time and never more than
 * `budget_bytes`: region i runs while the regions before it hold what they saved. `first_way` has
 * region_count + 1 elements; `chosen` gets, per region, the place of its way among its own.
 * CAIRN_INFEASIBLE: nothing fits; `err` then holds the smallest budget that would. O(r s w) for
 * fronts of at most s sums; s is at most the product of the ways and rarely more than hundreds. */
CAIRN_API CAIRN_MUST cairn_status cairn_regions_choose(const cairn_allocator *allocator,
                                                       const uint32_t *first_way,
                                                       const cairn_region_way *ways,
                                                       uint32_t region_count, uint64_t budget_bytes,
                                                       uint32_t *chosen, cairn_error *err);

#ifdef __cplusplus
}
#endif
#endif
