/* auto_joint.h: the best plan with copies and recomputations. */
#ifndef CRN_AUTO_JOINT_H
#define CRN_AUTO_JOINT_H

#include "solve/auto/auto_ladder.h"

typedef struct crn_joint {
    const crn_problem *problem;
    crn_search *search;
    crn_bound *bound;       /* of a plan without copies, at its best moment */
    crn_bound_result found; /* the result at that moment */
    uint64_t work;          /* of each improvement */
    bool is_far;            /* plans are far from the bound: what begins alike is searched once */
    crn_schedule best;      /* the fastest plan so far, simulated */
    int64_t best_time;      /* INT64_MAX: none */
    uint64_t share;         /* of what the link can carry, in percent, to try; 0: try all, and then
                               it is the best one */
} crn_joint;

/* The most bytes that can be away at the bound's moment in a step of `time_ns`. */
uint64_t crn_joint_away(const crn_bound *bound, const cairn_machine *machine, int64_t time_ns);

/* A lower bound of the time of plans with copies, as extra time over the base, at the best moment
 * found near op `centre`. `raw` counts bytes as copies move them. */
CAIRN_MUST cairn_status crn_joint_bound(crn_bound *raw, const cairn_machine *machine,
                                        uint64_t budget, uint32_t centre, int64_t *extra_ns);

/* The least time of a plan that only copies and recomputes nothing, at the bound's moment. */
int64_t crn_joint_copies_only(const crn_bound *bound, const cairn_machine *machine,
                              uint64_t budget);

/* The schedule of `offload-best` for the whole budget, and its time; INT64_MAX: it does not apply,
 * or its arena exceeds the budget. */
CAIRN_MUST cairn_status crn_joint_ask_offload(const crn_problem *problem, crn_schedule *schedule,
                                              int64_t *time);

/* `*least` is a plan that does not fit the budget: if one that only copies needs less, that one
 * instead, its time, and whether it fits. It does not depend on the budget. */
CAIRN_MUST cairn_status crn_joint_least(const crn_problem *problem, crn_schedule *least,
                                        int64_t *time, bool *fits);

/* The same for plans that offload all results they can, made by `ladder`. */
CAIRN_MUST cairn_status crn_joint_least_results(crn_ladder *ladder, crn_schedule *least,
                                                int64_t *time, bool *fits);

/* Search within `limit`; `start` is the best set without copies, or NULL. */
CAIRN_MUST cairn_status crn_joint_search(crn_joint *joint, int64_t limit, int64_t extra_ns,
                                         const crn_saved *start);

/* Search for plans that offload results and recompute. */
CAIRN_MUST cairn_status crn_joint_search_results(crn_joint *joint, int64_t limit);

#endif
