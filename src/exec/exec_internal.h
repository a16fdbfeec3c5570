/* exec_internal.h: shared by the files of exec/: an executor and the program it runs.
 *
 *     plan steps + lifetimes + offsets --step_binding.c--> actions with all their addresses
 *
 * Addresses of device memory are only numbers here: only the device accesses that memory. */
#ifndef CRN_EXEC_INTERNAL_H
#define CRN_EXEC_INTERNAL_H

#include "backend/backend.h"
#include "base/rng.h"
#include "cairn/exec.h"
#include "cairn/profile.h"
#include "cost/crn_cost.h"
#include "exec/crn_exec.h"
#include "exec/occupancy.h"
#include "graph/crn_graph.h"

/* One step of the plan with everything it needs. Ranges are ranges of the arena. */
typedef struct crn_action {
    uint8_t kind;       /* cairn_step_kind */
    bool counts;        /* a cross-entropy: its correct predictions are counted */
    crn_call call;      /* of a run */
    crn_update *update; /* of the run of an update, which may do the work of those after it; else
                           NULL */
    bool of_last; /* left out unless the run ends with updates: the others only add gradients up */
    const crn_range *takes, *gives; /* allocated before the step; freed after it */
    uint32_t take_count, give_count;
    void *device, *host; /* of a copy */
    uint64_t bytes;
    crn_event ready,
        done; /* of a copy: compute has reached it, it has ended; a wait waits for done */
} crn_action;

typedef struct crn_program {
    crn_action *actions;
    uint32_t count, run_count;
    crn_range *ranges;    /* of all lifetimes, by when they are allocated */
    crn_range *given;     /* the same, by when they are freed */
    uint32_t input_count; /* the first input_count ranges are in use from the start */
    crn_event *unwaited;  /* copies still in flight at the end */
    uint32_t unwaited_count;
    uint32_t event_count;
    void **input_at; /* per tensor: address of an input or label, else NULL */
    void **final_at; /* per tensor: address of what is in the arena at the end, else NULL */
    void *loss;      /* its address at the end of the step; NULL: the plan makes none */
} crn_program;

typedef struct crn_reservation {
    void *base;
    uint64_t bytes;
    bool shared; /* it belongs to another executor */
} crn_reservation;

typedef struct crn_stationary {
    uint64_t *offsets;      /* per tensor, plus 1; 0: it is not stationary */
    uint64_t *slot_offsets; /* of a parameter's first slot; the others follow */
    uint32_t slot_count;    /* 0: the slots are tensors of the graph */
    bool *on_host;          /* per tensor: its home is the host */
    void **at;              /* per tensor: its home; NULL: it is not stationary */
    bool *no_decay;         /* per tensor: it has no weight decay */
    uint32_t *parameter_of; /* per tensor that is a parameter: its place in the list */
    crn_parameter *parameters;
    uint32_t parameter_count;
    cairn_id *by_name; /* parameters, state and final gradients, sorted by name */
    uint32_t by_name_count;
} crn_stationary;

struct cairn_exec {
    crn_arena memory; /* the executor itself is allocated in it */
    const cairn_graph *graph;
    cairn_exec_options options;
    bool training;
    bool timed; /* every action is timed, for profiling */
    cairn_exec_figures figures;

    cairn_device *device;
    const crn_backend *backend; /* the device's */
    crn_queue *queue;
    crn_storage *storage;                  /* per tensor */
    crn_reservation arena, host, resident; /* resident: the stationary memory on the device */
    crn_reservation homes;                 /* the stationary memory on the host */
    crn_reservation staging;               /* host memory for transfers between host and device */

    crn_program program;
    crn_stationary stationary;
    crn_occupancy occupancy;
    /* Of a run that ends without updates, and of one with them; NULL: actions are enqueued every
     * time. */
    crn_recording *recordings[2];
    int64_t *times;     /* if timed, per action: how long it took in the last run */
    crn_update update;  /* of all parameters, if the graph has no updates; else the constants */
    bool whole;         /* the graph has updates, and the plan trains */
    bool enqueues_last; /* the run that is being enqueued ends with updates */
    double rate;        /* of the next update */
    uint64_t updates;   /* so far */
    uint32_t gathered;  /* micro-batches in the sum of gradients */
};

/* ---- executor.c ---- */

/* cairn_exec_create() with every action timed. */
CAIRN_MUST cairn_status crn_exec_create(const cairn_graph *graph, cairn_device *device,
                                        const cairn_costs *costs, const cairn_solution *solution,
                                        const cairn_exec_options *options, bool timed,
                                        cairn_exec **out, cairn_error *err);

/* Nanoseconds of a clock that only goes forward. */
int64_t crn_exec_clock(void);

/* ---- step_binding.c ---- */

/* The input of binding. */
typedef struct crn_binding_input {
    const cairn_costs *costs;
    const cairn_plan *plan;
    const cairn_sim *sim;
    const cairn_layout *layout; /* of its lifetimes */
} crn_binding_input;

/* Fill exec->program. Memory must be reserved and the stationary addresses known. Memory comes
 * from exec->memory. O(steps + lifetimes). */
CAIRN_MUST cairn_status crn_bind_steps(cairn_exec *exec, const crn_binding_input *input,
                                       cairn_error *err);
void crn_unbind_steps(cairn_exec *exec);

/* ---- stationary.c ---- */

/* Give parameters, state, gradients and the optimiser's slots an offset each: in the memory of the
 * device or, if the plan fetches them, of the host. The sums go to exec->figures; together they are
 * cairn_stationary_bytes() with as many slots as the optimiser has. */
CAIRN_MUST cairn_status crn_stationary_layout(cairn_exec *exec, const cairn_costs *costs,
                                              const cairn_plan *plan);

/* Turn offsets into addresses in exec->resident and exec->homes. */
void crn_stationary_place(cairn_exec *exec);

/* Use the stationary memory of the executor that this one shares with. */
void crn_stationary_share(cairn_exec *exec);

/* ---- optimizer.c ---- */

/* Fill in the constants of the update. CAIRN_EINVAL: the graph has another number of slots. */
CAIRN_MUST cairn_status crn_optimizer_init(cairn_exec *exec, cairn_error *err);

/* Describe the update to the device: that of all parameters, or those of all calls, which were
 * described one by one before. Then crn_optimizer_release() releases what the device made of all of
 * them. */
CAIRN_MUST cairn_status crn_optimizer_prepare(cairn_exec *exec, cairn_error *err);
CAIRN_MUST cairn_status crn_optimizer_describe_call(cairn_exec *exec, const crn_call *call,
                                                    crn_update **out);
CAIRN_MUST cairn_status crn_optimizer_prepare_calls(cairn_exec *exec, cairn_error *err);
void crn_optimizer_release(cairn_exec *exec);

/* Enqueue the update of a call. */
void crn_optimizer_act(cairn_exec *exec, const crn_update *update);

/* Whether the next run, which was just begun, ends with updates. */
bool crn_optimizer_is_last(const cairn_exec *exec);

/* Of a run with `update_in_run`; otherwise they do nothing. The values that its end needs; the end
 * that is the same in every run, so that it can be recorded: the update, or with micro-batches
 * the addition to their sum; and what comes after that, the update of the last micro-batch. */
void crn_optimizer_set_values(const cairn_exec *exec, crn_values *values);
void crn_optimizer_end_run(cairn_exec *exec);
void crn_optimizer_after_run(cairn_exec *exec);

/* ---- transfer.c: between host and device, in the plain layout of the graph ---- */

/* The size of the staging memory: the largest chunk of a tensor that is transferred at once. */
uint64_t crn_staging_bytes(const cairn_graph *graph);

/* Write a tensor whose elements are computed. `make` is called for one chunk after the other:
 * `bytes` from byte `first` on. */
typedef void crn_make_chunk(void *context, uint64_t first, uint64_t bytes, void *to);
CAIRN_MUST cairn_status crn_transfer_made(cairn_exec *exec, cairn_id tensor, void *stored,
                                          crn_make_chunk *make, void *context, cairn_error *err);

/* Read a tensor: `see` is called with one chunk after the other. */
typedef void crn_see_chunk(void *context, const void *from, uint64_t bytes);
CAIRN_MUST cairn_status crn_transfer_seen(cairn_exec *exec, cairn_id tensor, void *stored,
                                          crn_see_chunk *see, void *context, cairn_error *err);

/* ---- initialize.c ---- */

/* Initialise all parameters and state from the seed; the slots of the optimiser become zero. */
CAIRN_MUST cairn_status crn_initialize(cairn_exec *exec, cairn_error *err);

/* ---- check_mode.c ---- */

/* Before the first step of a run: everything except the inputs is filled with NaNs, and whole pages
 * of it become inaccessible. The gradients are filled with NaNs, too. */
void crn_check_begin(cairn_exec *exec);
void crn_check_take(cairn_exec *exec, crn_range range);
/* After crn_occupancy_give(). */
void crn_check_give(cairn_exec *exec, crn_range range);
/* After the last step: accessible again, so that inputs can be written and results read. */
void crn_check_end(cairn_exec *exec);

#endif
