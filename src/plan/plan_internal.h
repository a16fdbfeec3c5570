/* plan_internal.h: the plan's structure, for the files of plan/. */
#ifndef CRN_PLAN_INTERNAL_H
#define CRN_PLAN_INTERNAL_H

#include "base/crn_base.h"
#include "cairn/plan.h"
#include "graph/crn_graph.h"
#include "plan/crn_plan.h"

struct cairn_plan {
    crn_arena arena; /* the plan itself is allocated in it */
    cairn_plan_header header;
    CRN_ARRAY(cairn_step) steps;
};

struct cairn_plan_builder {
    cairn_allocator allocator;
    cairn_plan *plan; /* NULL after finish */
};

#endif
