/* profile.h: measure what the ops of a network cost on a device.
 *
 *     graph, device --cairn_bind--> costs --cairn_profile--> the same with measured times
 *                                                              |
 *                             cairn_costs_to_json --> a table for cairn plan, train, sweep
 *
 * Whole training steps are run with a clock between the ops, so that each is measured as it
 * happens: with what the op before it left in the caches, on memory that was used before, all
 * threads at work. Ops with the same signature share one figure. */
#ifndef CAIRN_PROFILE_H
#define CAIRN_PROFILE_H

#include "cairn/exec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Start from CAIRN_PROFILE_OPTIONS_INIT; fields are only ever added at the end. */
typedef struct cairn_profile_options {
    uint32_t struct_size;
    uint32_t repetitions;      /* steps that count; 0: 10. Two more go before them, to warm up */
    double seconds;            /* enough after this, once three have counted; 0: no limit */
    bool every_implementation; /* else the first of each op, which is what solvers use; others may
                                  be slower by orders of magnitude */
    uint64_t memory_bytes;     /* what may be used; 0: what the machine has free */
    cairn_progress progress;   /* called after every step; may be NULL */
    void *progress_context;
} cairn_profile_options;
#define CAIRN_PROFILE_OPTIONS_INIT CAIRN_INIT_SIZED(cairn_profile_options)

/* Replace the times in `costs`, which cairn_bind() made for the same device, by measured ones: per
 * op the median over steps, with quartiles. An implementation that was not measured counts as no
 * faster than the first. The plan that is run keeps everything; if there is too little memory for
 * that, it recomputes. `origin` (may be NULL) gets backend and threads, and the speed of
 * copies and updates; its source is left empty.
 *
 * CAIRN_INFEASIBLE: no plan without copies fits the memory. CAIRN_EINVAL: the graph has no training
 * step, or the costs are not of this backend. After a failure some of the costs may have changed.
 */
CAIRN_API CAIRN_MUST cairn_status cairn_profile(const cairn_graph *graph, cairn_device *device,
                                                const cairn_profile_options *options,
                                                cairn_costs *costs, cairn_costs_origin *origin,
                                                cairn_error *err);

#ifdef __cplusplus
}
#endif
#endif
