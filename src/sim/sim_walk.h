/* sim_walk.h: shared by the files of the simulator: the walk over a plan, and its state.
 *
 *     per tensor   is it resident, in which storage; is a copy of it in flight; is it on the host
 *     per storage  bytes, and how many tensors (aliases) use it
 *     stationary   at home on the device, and not counted; or, if the plan fetches it, at home on
 * the host: there at the start, counted while it is resident, and there at the end lanes when
 * compute, copies out and copies in are next free
 *
 * Memory is counted in the order of the steps: outputs and workspace are allocated while the inputs
 * are still there. For the time, a copy starts when the compute lane has reached its step and the
 * lane of the copy is free. Only a wait stops the compute lane. The walk ends at the first broken
 * rule. */
#ifndef CRN_SIM_WALK_H
#define CRN_SIM_WALK_H

#include "base/crn_base.h"
#include "cairn/sim.h"
#include "graph/crn_graph.h"

typedef enum crn_sim_flight { AT_REST, GOING_OUT, COMING_IN } crn_sim_flight;
typedef enum crn_sim_absence { NEVER_MADE, FREED, OVERWRITTEN, AT_HOME } crn_sim_absence;

#define NO_STORAGE UINT32_MAX

typedef struct crn_sim_place {
    uint32_t storage; /* NO_STORAGE: not resident, or stationary */
    bool resident, on_host;
    bool homed;   /* stationary, and its home is the host */
    bool changed; /* by its update */
    uint8_t flight;
    uint8_t absence;  /* why it is not resident */
    int64_t copy_end; /* of the copy in flight */
} crn_sim_place;

typedef struct crn_sim_storage {
    uint64_t bytes;
    uint32_t users;    /* tensors resident in it; 0: the slot is free */
    uint32_t copied;   /* how many of them are being copied */
    uint32_t lifetime; /* index of its lifetime */
} crn_sim_storage;

/* A simulation as the library keeps it, behind what callers read. */
typedef struct crn_sim {
    cairn_sim seen; /* first: a cairn_sim is one of these */
    crn_arena arena;
    cairn_sim_summary summary;
    cairn_sim_step *steps;
    uint32_t step_count;
    CRN_ARRAY(cairn_lifetime) lifetimes;
    CRN_ARRAY(cairn_holder) holders;
    uint32_t *operands;      /* lifetimes, for all steps one after the other; see sim_operands.c */
    uint64_t *first_operand; /* per step, and one past the end; NULL: not asked for */
} crn_sim;

typedef struct crn_sim_walk {
    const cairn_graph *graph;
    const cairn_costs *costs;
    const cairn_plan *plan;
    const cairn_machine *machine;
    uint64_t budget;
    cairn_goal goal;

    crn_arena scratch;
    crn_sim_place *places;
    CRN_ARRAY(crn_sim_storage) storages;
    CRN_ARRAY(uint32_t) free_slots;
    uint32_t *ran_by; /* per op: 0, or 1 + the implementation that ran it */
    bool gathers;     /* as in cairn_sim_options */
    bool *of_last;    /* then per tensor: no update uses it */
    bool *reads_only; /* per step: it fetches a tensor that is only read */

    uint64_t live;
    int64_t now, out_free, in_free; /* when the compute, copy-out and copy-in lanes are free */
    uint32_t step;
    crn_sim *sim;
    bool find_holders; /* the second walk, which stops at the peak */
    bool found;
} crn_sim_walk;

/* Note the first broken rule; returns CAIRN_EINVAL. */
cairn_status crn_sim_break_rule(crn_sim_walk *w, cairn_rule rule, cairn_id culprit);

/* Whether the plan does not control the tensor: it is stationary and at home on the device. */
static inline bool crn_sim_outside(const crn_sim_walk *w, cairn_id tensor) {
    return cairn_graph_tensor(w->graph, tensor)->stationary && !w->places[tensor].homed;
}

/* ---- sim_memory.c ---- */

/* The memory of this moment, with what a run takes beside the storages. */
CAIRN_MUST cairn_status crn_sim_count(crn_sim_walk *w, uint64_t workspace, cairn_id culprit);

/* Add a lifetime that starts at this step. */
CAIRN_MUST cairn_status crn_sim_record_lifetime(crn_sim_walk *w, cairn_id tensor, uint64_t bytes,
                                                uint32_t last, uint32_t *out);

/* A new storage for a tensor that is not resident. */
CAIRN_MUST cairn_status crn_sim_take_storage(crn_sim_walk *w, cairn_id tensor);

/* A tensor leaves its storage, which is given back with its last user. Steps up to `last` still had
 * it. */
CAIRN_MUST cairn_status crn_sim_leave_storage(crn_sim_walk *w, cairn_id tensor, crn_sim_absence why,
                                              uint32_t last);

/* Walk again up to the peak and list what is in memory there. */
CAIRN_MUST cairn_status crn_sim_find_holders(crn_sim_walk *w);

/* ---- sim_operands.c ---- */

/* Make room for the operands of all steps. */
CAIRN_MUST cairn_status crn_sim_keep_operands(crn_sim_walk *w);

/* Record the lifetimes of tensors, from place `operand` of the step's list on. */
void crn_sim_note_tensors(crn_sim_walk *w, uint32_t operand, const cairn_id *tensors,
                          uint32_t count);
void crn_sim_note_lifetime(crn_sim_walk *w, uint32_t operand, uint32_t lifetime);

/* ---- sim_run.c, sim_move.c: the steps ---- */

CAIRN_MUST cairn_status crn_sim_run(crn_sim_walk *w, const cairn_step *step);
CAIRN_MUST cairn_status crn_sim_free(crn_sim_walk *w, cairn_id tensor);
CAIRN_MUST cairn_status crn_sim_offload(crn_sim_walk *w, cairn_id tensor);
CAIRN_MUST cairn_status crn_sim_fetch(crn_sim_walk *w, cairn_id tensor);
CAIRN_MUST cairn_status crn_sim_wait(crn_sim_walk *w, cairn_id tensor);

/* ---- simulate.c ---- */

/* Walk over the whole plan. */
CAIRN_MUST cairn_status crn_sim_walk_plan(crn_sim_walk *w);

/* ---- sim_rules.c ---- */

/* Describe the broken rule: "step 12 (run conv1) reads "x" after it was freed". */
void crn_sim_describe(const crn_sim_walk *w, cairn_error *err);

#endif
