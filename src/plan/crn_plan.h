/* crn_plan.h: what the rest of the library does with a plan and embedders need not. */
#ifndef CRN_PLAN_H
#define CRN_PLAN_H

#include "cairn/plan.h"

/* ---- Building one step by step ---- */

typedef struct crn_plan_builder crn_plan_builder;

CAIRN_MUST cairn_status crn_plan_builder_create(const cairn_allocator *allocator,
                                                crn_plan_builder **out);
void crn_plan_builder_destroy(crn_plan_builder *builder);
CAIRN_MUST cairn_status crn_plan_builder_add(crn_plan_builder *builder, cairn_step step);

/* The plan of the steps that were added. The header's hash is taken from `graph`, and the ids of
 * the steps are checked against it; whether the plan is legal, the simulator says. The builder can
 * only be destroyed afterwards. */
CAIRN_MUST cairn_status crn_plan_builder_finish(crn_plan_builder *builder, const cairn_graph *graph,
                                                const cairn_plan_header *header, cairn_plan **out,
                                                cairn_error *err);

/* The in-place pairs that a run uses; returns how many. */
uint32_t crn_step_pairs(const cairn_op *op, const cairn_step *step, cairn_inplace out[2]);

/* Whether one run may use both pairs. */
bool crn_pairs_go_together(const cairn_op *op, cairn_inplace a, cairn_inplace b);

/* Whether the op has the permissions that a run uses, and allows both of two. */
bool crn_step_is_permitted(const cairn_op *op, const cairn_step *step);

/* Mark the fetches of a tensor that is not changed or copied to the host before it is freed.
 * `changed` has an element per tensor, all false, `reads_only` one per step; both belong to the
 * caller. O(n). */
void crn_plan_mark_reads(const cairn_graph *graph, const cairn_plan *plan, bool *changed,
                         bool *reads_only);

CAIRN_MUST cairn_status crn_plan_copy(const cairn_plan *plan, cairn_plan **out);

#endif
