/* crn_plan.h: what the rest of the library does with a plan and embedders need not. */
#ifndef CRN_PLAN_H
#define CRN_PLAN_H

#include "cairn/plan.h"

CAIRN_MUST cairn_status crn_plan_copy(const cairn_plan *plan, cairn_plan **out);

#endif
