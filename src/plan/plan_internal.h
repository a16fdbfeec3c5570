/* plan_internal.h: the plan's structure, for the files of plan/. */
#ifndef CRN_PLAN_INTERNAL_H
#define CRN_PLAN_INTERNAL_H

#include "base/crn_base.h"
#include "cairn/plan.h"
#include "graph/crn_graph.h"
#include "plan/crn_plan.h"

/* A plan as the library keeps it, behind what callers read. */
typedef struct crn_plan {
    cairn_plan seen; /* first: a cairn_plan is one of these */
    crn_arena arena; /* the plan itself is allocated in it */
    cairn_plan_header header;
    CRN_ARRAY(cairn_step) steps;
} crn_plan;

struct crn_plan_builder {
    cairn_allocator allocator;
    crn_plan *plan; /* NULL after finish */
};

#endif
