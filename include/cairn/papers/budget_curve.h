/* budget_curve.h: `precise` on a network for every budget at once. */
#ifndef CAIRN_BUDGET_CURVE_H
#define CAIRN_BUDGET_CURVE_H

#include "cairn/cost.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The least time of `precise` as a falling step function of the budget. Budgets include all that a
 * plan controls. With `exact` every value is the optimum of the recurrence; otherwise step
 * functions were thinned: every point is still a plan that exists, and `bounds` says below what
 * time no plan of the recurrence gets with the point's budget. */
typedef struct cairn_budget_point {
    uint64_t budget_bytes;
    int64_t time_ns;
} cairn_budget_point;

typedef struct cairn_budget_curve {
    uint32_t piece_count, count;
    const cairn_budget_point *points; /* by rising budget */
    const int64_t *bounds;            /* per point; equal to its time where exact */
    bool exact;
    void *memory; /* the curve's own */
} cairn_budget_curve;

/* `most_points` of one step function; 0: no limit, always exact. With `bounded` a second table
 * gives the bounds, in about the same time again. */
CAIRN_API CAIRN_MUST cairn_status cairn_precise_curve(const cairn_graph *graph,
                                                      const cairn_costs *costs,
                                                      uint32_t most_points, bool bounded,
                                                      cairn_budget_curve **out, cairn_error *err);
CAIRN_API void cairn_budget_curve_destroy(cairn_budget_curve *curve);

#ifdef __cplusplus
}
#endif
#endif
