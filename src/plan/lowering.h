/* lowering.h: shared by the passes of the lowering.
 *
 * Every run and every fetch makes new instances of tensors. A read refers to the latest earlier
 * instance. So the lifetime of an instance is known before the steps are written:
 *
 *     decisions   run A   run B   run C   run A   run D
 *     instances   a1..............|       a2.....|          a1: A's last reader before a2 is C
 *
 * There are three passes. The first, forwards, binds reads to instances. The second, backwards,
 * drops recomputations that nothing needs and finds last uses. The third, forwards, writes the
 * steps. Two instances of one tensor never overlap. */
#ifndef CRN_LOWERING_H
#define CRN_LOWERING_H

#include "plan/lower.h"
#include "plan/crn_plan.h"

#define CRN_NO_INSTANCE UINT32_MAX
#define CRN_TO_THE_END UINT32_MAX

typedef struct crn_instance {
    cairn_id tensor;
    uint32_t made;     /* the decision that makes it; CRN_TO_THE_END: it is there at the start */
    uint32_t last_use; /* the last decision that reads it; `made` if none does */
    uint32_t source;   /* of a fetched instance: the one that was offloaded */
    uint32_t previous; /* the instance of the same tensor before this one */
    bool wanted, read; /* a result of the plan is wanted even if nothing reads it */
    bool stays;        /* it stays to the end */
    bool offloaded;    /* a fetch that is needed brings it back */
    /* state of the third pass: resident, being copied out, being copied in */
    bool resident, going, coming;
    uint32_t storage;
} crn_instance;

typedef struct crn_plan_storage {
    uint64_t bytes;
    uint32_t users;
} crn_plan_storage;

typedef struct crn_lowering {
    const cairn_graph *graph;
    const cairn_costs *costs;
    const crn_decision *decisions;
    uint32_t count;
    const uint16_t *implementations; /* per op; NULL: the fastest */
    const cairn_id *given, *kept;    /* tensors that are there at the start, and at the end */
    uint32_t given_count, kept_count;
    uint64_t budget;
    crn_arena *scratch;
    crn_lower_tables *tables;
    crn_plan_builder *builder; /* NULL: nothing is written, only measured */

    CRN_ARRAY(crn_instance) instances;
    CRN_ARRAY(uint32_t) reads; /* instances read, decision by decision */
    uint32_t *first_read;      /* per decision, and the end */
    uint32_t *first_made;      /* per decision: its first instance, and the end */
    bool *first_run, *dropped; /* per decision */
    uint32_t *dying;           /* instances by last use, a list per decision: its head */
    uint32_t *next_dying;      /* per instance */
    CRN_ARRAY(crn_plan_storage) storages;
    CRN_ARRAY(uint32_t) leaving; /* offloaded instances still resident, oldest first */
    uint32_t first_leaving;
    uint64_t live, peak;
} crn_lowering;

/* The instance that a decision offloads, evicts or fetches; CRN_NO_INSTANCE for a run. */
static inline uint32_t crn_lower_moved(const crn_lowering *l, uint32_t d) {
    return l->decisions[d].kind == CRN_RUN ? CRN_NO_INSTANCE : l->reads.data[l->first_read[d]];
}

/* The first two passes: lower_lifetimes.c. */
CAIRN_MUST cairn_status crn_lower_lifetimes(crn_lowering *l);

/* The third: lower_steps.c. */
CAIRN_MUST cairn_status crn_lower_steps(crn_lowering *l);

#endif
