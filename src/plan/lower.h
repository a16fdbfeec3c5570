/* lower.h: from a solver's decisions to a plan.
 *
 * A solver decides which ops run in which order, which ops are recomputed, and when tensors are
 * copied. The lowering decides the rest, alike for all solvers. It drops recomputations
 * that nothing needs. It frees a tensor as soon as nothing needs it. It lets an op work in place
 * where it may, and waits for copies where that is necessary. */
#ifndef CRN_LOWER_H
#define CRN_LOWER_H

#include "base/crn_base.h"
#include "cairn/cost.h"
#include "cairn/plan.h"

typedef enum crn_decision_kind {
    CRN_RUN,     /* run the op */
    CRN_OFFLOAD, /* start copying the tensor out; it is freed when its memory is needed, or: */
    CRN_EVICT,   /* free the offloaded tensor here */
    CRN_FETCH    /* start copying the tensor in */
} crn_decision_kind;

typedef struct crn_decision {
    uint8_t kind;
    cairn_id id; /* op or tensor */
} crn_decision;

typedef struct crn_schedule {
    CRN_ARRAY(crn_decision) decisions;
    const uint16_t *implementations; /* per op, for all its runs; NULL: the usual one of each */
    int64_t lower_bound_ns;          /* no plan within the budget takes less; 0: not known */
    bool last; /* the algorithm has nothing that needs less memory. It has judged the plan that is
                  lowered for no budget, so this plan is made. */
} crn_schedule;

/* The implementation that an op has unless a solver chooses another: the fastest that needs no more
 * workspace than the first one, which solvers count with. Of equally fast ones it is the first. */
uint16_t crn_usual_implementation(const cairn_costs *costs, cairn_id op);

CAIRN_MUST cairn_status crn_schedule_add(crn_schedule *schedule, crn_arena *arena,
                                         crn_decision_kind kind, cairn_id id);

/* Every op once, in canonical order. */
CAIRN_MUST cairn_status crn_schedule_all(crn_schedule *schedule, crn_arena *arena,
                                         const cairn_graph *graph);

/* The forward ops that the output depends on. */
CAIRN_MUST cairn_status crn_schedule_infer(crn_schedule *schedule, crn_arena *arena,
                                           const cairn_graph *graph);

/* A keep-set. `segment` has, per forward op, the segment that it is recomputed with, or CAIRN_NONE
 * where its outputs are kept. The backward ops follow the forward pass, segment by segment as far
 * as their dependencies allow. The forward ops of a segment are recomputed before its first
 * backward op. The segment that the backward pass starts with is still in memory and is not
 * recomputed. */
CAIRN_MUST cairn_status crn_schedule_segments(crn_schedule *schedule, crn_arena *arena,
                                              const cairn_graph *graph, const uint32_t *segment);

/* Lower a schedule. A read refers to the latest earlier run or fetch. Offloaded tensors stay in
 * memory until `budget` (0: none) requires that they are freed. Whether the plan is legal depends
 * on the decisions; the simulator checks it. O(decisions + reads). */
CAIRN_MUST cairn_status crn_lower(const cairn_graph *graph, const cairn_costs *costs,
                                  const crn_schedule *schedule, cairn_goal goal, uint64_t budget,
                                  cairn_plan **out, cairn_error *err);

/* A part of a schedule by itself. The tensors `given` are in memory at its start and `wanted` ones
 * at its end; both are counted. Measured are its peak, the memory that is left at its end, and the
 * time of its runs. The memory is what crn_lower() needs for the part, or more. */
typedef struct crn_part {
    const crn_decision *decisions;
    uint32_t count;
    const cairn_id *given, *wanted;
    uint32_t given_count, wanted_count;
} crn_part;

typedef struct crn_part_cost {
    uint64_t peak, left;
    int64_t time;
} crn_part_cost;

/* Tables over a whole graph that the lowering uses. They are clean between two parts, so that many
 * small parts of a large graph do not each clear them. */
typedef struct crn_lower_tables {
    uint32_t *current; /* per tensor: its latest instance */
    bool *on_host;     /* per tensor: it was copied out before */
    bool *has_run;     /* per op */
} crn_lower_tables;

CAIRN_MUST cairn_status crn_lower_tables_make(const cairn_graph *graph, crn_arena *arena,
                                              crn_lower_tables *out);

/* Memory taken from `scratch` is not given back. O(decisions + reads). */
CAIRN_MUST cairn_status crn_measure_part(const cairn_graph *graph, const cairn_costs *costs,
                                         const crn_part *part, crn_lower_tables *tables,
                                         crn_arena *scratch, crn_part_cost *out);

#endif
