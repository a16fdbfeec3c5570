/* lower.h: from a solver's decisions to a plan.
 *
 * A solver says which ops run in which order, again or for the first time, and what is copied when.
 * The rest follows here for all of them alike: a re-run that nothing wants is dropped, a tensor is
 * freed at the first moment nothing needs it, an op works in place where it may, copies are waited
 * for where they must be. */
#ifndef CRN_LOWER_H
#define CRN_LOWER_H

#include "base/crn_base.h"
#include "cairn/cost.h"
#include "cairn/plan.h"

typedef enum crn_decision_kind {
    CRN_RUN,     /* run the op */
    CRN_OFFLOAD, /* start copying the tensor out; it goes when its memory is needed, or: */
    CRN_EVICT,   /* give its memory back here */
    CRN_FETCH    /* start copying the tensor in */
} crn_decision_kind;

typedef struct crn_decision {
    uint8_t kind;
    cairn_id id; /* op or tensor */
} crn_decision;

typedef struct crn_schedule {
    CRN_ARRAY(crn_decision) decisions;
    const uint16_t *implementations; /* per op, for all its runs; NULL: the first of each */
    int64_t lower_bound_ns;          /* no plan within the budget takes less; 0: not known */
    bool last;                       /* the algorithm has nothing that needs less memory */
} crn_schedule;

CAIRN_MUST cairn_status crn_schedule_add(crn_schedule *schedule, crn_arena *arena,
                                         crn_decision_kind kind, cairn_id id);

/* Every op once, in canonical order. */
CAIRN_MUST cairn_status crn_schedule_all(crn_schedule *schedule, crn_arena *arena,
                                         const cairn_graph *graph);

/* The forward ops that the output depends on. */
CAIRN_MUST cairn_status crn_schedule_infer(crn_schedule *schedule, crn_arena *arena,
                                           const cairn_graph *graph);

/* A keep-set. Per forward op: the segment that it is run again with, or CAIRN_NONE where its
 * outputs are kept from the first pass. After the first pass come the backward ops, segment by
 * segment as far as their dependencies allow; before a segment's first backward op its forward ops
 * run again. The segment that the backward pass starts with is still there and is not. */
CAIRN_MUST cairn_status crn_schedule_segments(crn_schedule *schedule, crn_arena *arena,
                                              const cairn_graph *graph, const uint32_t *segment);

/* Lower a schedule. Reads bind to the latest earlier run or fetch. Offloaded tensors stay until
 * `budget` (0: none) asks for their memory. The plan is legal if the decisions make sense; the
 * simulator says. O(decisions + reads). */
CAIRN_MUST cairn_status crn_lower(const cairn_graph *graph, const cairn_costs *costs,
                                  const crn_schedule *schedule, cairn_goal goal, uint64_t budget,
                                  cairn_plan **out, cairn_error *err);

/* A part of a schedule by itself, with `given` tensors there at its start and `wanted` ones at its
 * end: the most memory it takes, what is left at its end (both with the given and wanted counted),
 * and the time of its runs. What it says is what crn_lower() makes of the part, or more. */
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

/* `scratch` is used and not given back. O(decisions + reads + tensors). */
CAIRN_MUST cairn_status crn_measure_part(const cairn_graph *graph, const cairn_costs *costs,
                                         const crn_part *part, crn_arena *scratch,
                                         crn_part_cost *out);

#endif
