/* exec_internal.h: what the files of exec/ share: an executor and the program it runs.
 *
 *     plan steps + lifetimes + offsets --step_binding.c--> actions with all their addresses
 *
 * A backend's pools must be memory that the processor can address: filling, updating and check mode
 * work on it directly. */
#ifndef CRN_EXEC_INTERNAL_H
#define CRN_EXEC_INTERNAL_H

#include "backend/backend.h"
#include "base/rng.h"
#include "cairn/exec.h"
#include "cairn/profile.h"
#include "exec/occupancy.h"

/* One step of the plan with everything it needs at hand. Ranges are parts of the arena. */
typedef struct crn_action {
    uint8_t kind; /* cairn_step_kind */
    const crn_kernel *kernel;
    crn_call call;                  /* of a run; `step` is set before it */
    const crn_range *takes, *gives; /* bound before the step; given back after it */
    uint32_t take_count, give_count;
    void *device, *host; /* of a copy */
    uint64_t bytes;
    cairn_id tensor; /* of a copy or a wait: whose event it is */
} crn_action;

typedef struct crn_program {
    crn_action *actions;
    uint32_t count;
    crn_range *inputs; /* bound from the start */
    uint32_t input_count;
    cairn_id *unwaited; /* copies still in flight at the end */
    uint32_t unwaited_count;
    void **input_at; /* per tensor: of inputs and labels, else NULL */
    void *loss;      /* at the end of the step; NULL: the plan makes none */
    void *output;    /* likewise, for evaluation */
    cairn_id output_id;
} crn_program;

typedef struct crn_region {
    void *base;
    uint64_t bytes;
    bool shared; /* another executor's */
} crn_region;

#define CRN_MOST_SLOTS 3 /* two of adam, and the sum of gradients, which is always the last */

/* A parameter with what belongs to it. */
typedef struct crn_parameter {
    cairn_id tensor;
    float *value, *gradient; /* gradient NULL: it has none */
    float *slots[CRN_MOST_SLOTS];
    uint64_t elements;
} crn_parameter;

typedef struct crn_stationary {
    uint64_t *offsets;      /* per tensor, from 1 so that 0 means that it is not stationary */
    uint64_t *slot_offsets; /* of a parameter's first slot; the others follow */
    uint32_t slot_count;
    void **at;              /* per tensor: its address, NULL for what is not stationary */
    uint32_t *parameter_of; /* per tensor that is a parameter: its place in the list */
    crn_parameter *parameters;
    uint32_t parameter_count;
    cairn_id *by_name; /* parameters, state and final gradients, sorted by name */
    uint32_t by_name_count;
} crn_stationary;

/* A part of a parameter, small enough that threads share even one large parameter evenly. */
typedef struct crn_chunk {
    uint32_t parameter;
    uint32_t count; /* elements */
    uint64_t first;
} crn_chunk;

typedef struct crn_optimizer_state {
    crn_chunk *chunks;
    uint32_t chunk_count;
    uint64_t updates;  /* so far */
    uint32_t gathered; /* micro-batches in the sum of gradients */
} crn_optimizer_state;

struct cairn_exec {
    crn_arena memory; /* in which the executor lies */
    const cairn_graph *graph;
    cairn_exec_options options;
    bool training;
    cairn_exec_figures figures;

    const crn_backend *backend;
    crn_device *device;
    crn_storage *storage;             /* per tensor */
    crn_region arena, host, resident; /* resident: the stationary memory */

    crn_program program;
    crn_stationary stationary;
    crn_occupancy occupancy;
    crn_event *events; /* per tensor: of its copy in flight */
    int64_t *times;    /* per action: how long the last run spent on it; NULL: nobody asks */
    crn_optimizer_state optimizer;
};

/* ---- executor.c ---- */

/* cairn_exec_create() on a backend that need not be in the list. */
CAIRN_MUST cairn_status crn_exec_create(const crn_backend *backend, const cairn_graph *graph,
                                        const cairn_costs *costs, const cairn_solution *solution,
                                        const cairn_exec_options *options, cairn_exec **out,
                                        cairn_error *err);

/* Nanoseconds of a clock that only goes forward. */
int64_t crn_exec_clock(void);

/* ---- bind_costs.c ---- */

#define CRN_MOST_CHOICES 16

CAIRN_MUST cairn_status crn_bind(const cairn_graph *graph, const crn_backend *backend,
                                 uint32_t threads, cairn_costs **out, cairn_error *err);

/* The backend of that name, or CAIRN_EUNKNOWN with the names there are. */
CAIRN_MUST cairn_status crn_find_backend(const char *name, const crn_backend **out,
                                         cairn_error *err);

/* ---- profile.c ---- */

/* cairn_profile() on a backend that need not be in the list. */
CAIRN_MUST cairn_status crn_profile(const crn_backend *backend, const cairn_graph *graph,
                                    const cairn_profile_options *options, cairn_costs *costs,
                                    cairn_costs_origin *origin, cairn_error *err);

/* ---- step_binding.c ---- */

/* What a plan becomes addresses with. */
typedef struct crn_binding_input {
    const cairn_costs *costs;
    const cairn_plan *plan;
    const cairn_lifetime *lifetimes; /* of the simulated plan, with their offsets */
    const uint64_t *offsets;
    uint32_t lifetime_count;
} crn_binding_input;

/* Fill exec->program. The regions are reserved, the stationary addresses known. Takes its memory
 * from exec->memory. O(steps + lifetimes). */
CAIRN_MUST cairn_status crn_bind_steps(cairn_exec *exec, const crn_binding_input *input,
                                       cairn_error *err);

/* ---- stationary.c ---- */

/* Give parameters, state, gradients and the optimiser's slots an offset each; `*bytes` is their
 * sum, the same as cairn_stationary_bytes() with as many slots as the optimiser has. */
CAIRN_MUST cairn_status crn_stationary_layout(cairn_exec *exec, const cairn_costs *costs,
                                              uint64_t *bytes);

/* Offsets become addresses in exec->resident. */
void crn_stationary_place(cairn_exec *exec);

/* Take everything over from the executor that this one shares with. */
void crn_stationary_share(cairn_exec *exec);

/* ---- optimizer.c ---- */

/* Cut the parameters into chunks. */
CAIRN_MUST cairn_status crn_optimizer_init(cairn_exec *exec);

/* ---- accuracy.c ---- */

/* Add what the cross-entropy that has just been run got right. */
void crn_count_correct(const crn_call *call, cairn_exec_result *out);

/* ---- initialize.c ---- */

/* Draw all parameters and state from the seed; the optimiser's slots become zero. */
void crn_initialize(cairn_exec *exec);

/* ---- check_mode.c ---- */

/* Before the first step of a run: everything but the inputs becomes NaNs and, by whole pages,
 * inaccessible; so do, as NaNs, the gradients. */
void crn_check_begin(cairn_exec *exec);
void crn_check_take(cairn_exec *exec, crn_range range);
/* After crn_occupancy_give(). */
void crn_check_give(cairn_exec *exec, crn_range range);
/* After the last step: accessible again, so that inputs can be written and results read. */
void crn_check_end(cairn_exec *exec);

#endif
