/* profile_internal.h: shared by the files of a profile. */
#ifndef CRN_PROFILE_INTERNAL_H
#define CRN_PROFILE_INTERNAL_H

#include "exec/exec_internal.h"

typedef struct crn_profiler {
    cairn_device *device;
    const cairn_graph *graph;
    cairn_profile_options options;
    cairn_costs *costs;
    cairn_costs_origin *origin;
    cairn_error *err;
    crn_arena memory;
    uint32_t steps_done, steps_total; /* for the progress callback */
} crn_profiler;

/* ---- profile_plan.c ---- */

/* A plan that fits the memory, or CAIRN_INFEASIBLE. It has no copies, because they would disturb
 * the measurement. */
CAIRN_MUST cairn_status crn_profile_plan(const crn_profiler *p, cairn_solution **out);

/* A plan in much less memory, which recomputes most ops; NULL: there is none. */
CAIRN_MUST cairn_status crn_profile_tight_plan(const crn_profiler *p, const cairn_solution *usual,
                                               cairn_solution **out);

/* The same plan with implementation `k` of every op that has more than `k`. */
CAIRN_MUST cairn_status crn_profile_vary(const crn_profiler *p, const cairn_plan *plan, uint32_t k,
                                         cairn_solution **out);

/* ---- profile_link.c ---- */

/* Median and quartiles of `count` times (at least one). The times are sorted in place. */
cairn_implementation crn_profile_spread(int64_t *times, uint32_t count);

/* The bandwidth and latency of the link. If there is no memory for the copies, they stay
 * unknown. */
void crn_profile_link(cairn_exec *exec, cairn_costs_origin *out);

#endif
