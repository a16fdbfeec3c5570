/* sim.h: the one judge of a plan: is it legal, what memory does it take, how long does it last.
 *
 * Counted is everything in the arena: inputs, labels, activations, internals, gradients of
 * activations and workspace, each rounded up to 64 bytes; not parameters, their gradients and
 * state, unless they are fetched from the host. Exact: whole bytes and nanoseconds, the same on
 * every machine. What a user is shown of a plan comes from here. */
#ifndef CAIRN_SIM_H
#define CAIRN_SIM_H

#include "cairn/cost.h"
#include "cairn/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The rules, in words that complete "step 12 (run conv1) ...". The numbers are frozen; new ones are
 * only ever added, at the end. */
#define CAIRN_RULE_LIST(X)                                                                         \
    X(NONE, 0, "is legal")                                                                         \
    X(INPUT_NEVER_MADE, 1, "reads %s before anything has made it")                                 \
    X(READ_AFTER_FREE, 2, "reads %s after it was freed")                                           \
    X(READ_OVERWRITTEN, 3, "reads %s, which was overwritten in place although still needed")       \
    X(READ_BEFORE_WAIT, 4, "reads %s before its fetch was waited for")                             \
    X(INPLACE_SHARED, 5, "overwrites %s in place although an alias of it is still needed")         \
    X(INPLACE_FORBIDDEN, 6, "makes %s in place where the op does not allow it")                    \
    X(INPLACE_MISSING, 7, "must make %s in place of the sum before it")                            \
    X(WRITE_IN_FLIGHT, 8, "writes %s while it is being copied")                                    \
    X(FREE_NEVER_MADE, 9, "frees %s, which is not there yet")                                      \
    X(FREED_TWICE, 10, "frees %s, which is gone already")                                          \
    X(FREE_IN_FLIGHT, 11, "frees %s while it is being copied")                                     \
    X(FREE_STATIONARY, 12, "moves or frees %s, which is stationary")                               \
    X(OFFLOAD_ABSENT, 13, "offloads %s, which is not there")                                       \
    X(OFFLOAD_IN_FLIGHT, 14, "offloads %s while it is being copied")                               \
    X(FETCH_WITHOUT_COPY, 15, "fetches %s, which was never offloaded")                             \
    X(FETCH_RESIDENT, 16, "fetches %s, which is still there")                                      \
    X(WAIT_FOR_NOTHING, 17, "waits for %s, which is not being copied")                             \
    X(ONCE_TWICE, 18, "repeats the effect of %s, which must happen once")                          \
    X(NEVER_AGAIN, 19, "runs %s again, which is forbidden")                                        \
    X(NO_IMPLEMENTATION, 20, "runs %s by an implementation that it does not have")                 \
    X(NOT_OF_GOAL, 21, "runs %s, which has no place in a plan for evaluation")                     \
    X(OVER_BUDGET, 22, "needs more memory than the budget, with %s")                               \
    X(HOST_FULL, 23, "offloads %s, for which the host has no memory left")                         \
    X(NEVER_MADE, 24, "%s, which the step must give, was never made or not kept")                  \
    X(LEFT_AT_END, 25, "%s is still in memory and should have been freed")                         \
    X(EFFECT_MISSING, 26, "%s, whose effect must happen once, was not run")                        \
    X(OTHER_IMPLEMENTATION, 27, "runs %s again by another implementation than before")             \
    X(READ_UPDATED, 28, "reads %s after its update")                                               \
    X(READ_BEFORE_FETCH, 29, "reads %s before it was fetched from its home on the host")           \
    X(CHANGE_LOST, 30, "frees %s, which was updated and not copied to its home on the host")

typedef enum cairn_rule {
#define X(name, number, words) CAIRN_RULE_##name = number,
    CAIRN_RULE_LIST(X)
#undef X
} cairn_rule;

typedef struct cairn_sim_options {
    uint32_t struct_size;
    uint64_t budget_bytes;        /* 0: none */
    const cairn_machine *machine; /* for copies; NULL: they take no time, the host has any memory */
    bool no_holders;              /* leave the list of holders empty; it takes a second walk */
    bool gathers; /* it is a micro-batch before the last: its updates only add gradients to their
                     last slots, and what else an update changes is not copied */
} cairn_sim_options;
#define CAIRN_SIM_OPTIONS_INIT CAIRN_INIT_SIZED(cairn_sim_options)

typedef struct cairn_sim_summary {
    cairn_rule rule;      /* the first that is broken, or CAIRN_RULE_NONE */
    uint32_t broken_step; /* the number of steps, for what is wrong at the end */
    cairn_id culprit;     /* the tensor, or the op where it is an op's rule */

    uint64_t peak_bytes;             /* the live peak */
    uint32_t peak_step;              /* the first step that reaches it */
    uint64_t host_bytes;             /* all host copies; they live to the end of the step */
    int64_t time_ns;                 /* of the whole step */
    int64_t compute_ns;              /* the compute lane busy */
    int64_t idle_ns;                 /* the compute lane waiting for copies */
    int64_t copy_out_ns, copy_in_ns; /* the copy lanes busy */
    uint32_t runs, reruns;           /* run steps; those that repeat an op */
    int64_t rerun_ns;
    uint32_t offloads, fetches;
    uint64_t home_bytes; /* of host_bytes: stationary tensors whose home is the host */
} cairn_sim_summary;

/* What one step did. Copies run on their own lanes: their times are those of the copy. */
typedef struct cairn_sim_step {
    uint64_t bytes; /* live during a run, after any other step */
    int64_t start_ns, end_ns;
} cairn_sim_step;

/* A tensor, or the workspace of an op, that was in memory at the peak. */
typedef struct cairn_holder {
    cairn_id tensor; /* CAIRN_NONE: workspace of the op that runs */
    uint64_t bytes;
} cairn_holder;

/* One storage from its allocation to its release, for the layout: live during steps
 * first .. last. In-place results continue the storage of their operand. */
typedef struct cairn_lifetime {
    uint64_t bytes;
    uint32_t first, last;
    cairn_id tensor; /* the first to use it; CAIRN_NONE: workspace */
} cairn_lifetime;

/* What a walk found. Only the library makes one; fields are only ever added at the end. */
typedef struct cairn_sim {
    const cairn_sim_summary *summary;
    const cairn_sim_step *steps; /* per step of the plan */
    uint32_t step_count;
    const cairn_lifetime *lifetimes;
    uint32_t lifetime_count;
    const cairn_holder *holders; /* in memory at the peak, largest first; none with `no_holders` */
    uint32_t holder_count;
} cairn_sim;

/* Walk the plan. CAIRN_OK: it is legal. CAIRN_EINVAL: it is not; `err` says which rule is broken,
 * where, and by which tensor, and `*out` holds what happened before. Either way `*out` is the
 * caller's; it is NULL only with CAIRN_ENOMEM. `out` may be NULL. O(steps). */
CAIRN_API CAIRN_MUST cairn_status cairn_simulate(const cairn_graph *graph, const cairn_costs *costs,
                                                 const cairn_plan *plan,
                                                 const cairn_sim_options *options, cairn_sim **out,
                                                 cairn_error *err);
CAIRN_API void cairn_sim_destroy(cairn_sim *sim);

/* Parameters, state, gradients of parameters, and `optimizer_slots` tensors per parameter (1 for
 * SGD with momentum, 2 for Adam): outside what a plan controls, each rounded up to 64 bytes. A
 * graph with updates has its slots itself, and gradients that the plan controls. The device
 * holds this less home_bytes of the simulation. */
CAIRN_API uint64_t cairn_stationary_bytes(const cairn_graph *graph, const cairn_costs *costs,
                                          uint32_t optimizer_slots);

#ifdef __cplusplus
}
#endif
#endif
