/* plan.h: one step list for every algorithm.
 *
 * A plan says in which order ops run, when a tensor is freed, and what is copied to the host and
 * back. Every solver ends in one; the simulator, the layout and the executor know nothing else.
 * Memory is counted in list order and so never depends on timing.
 *
 *     run OP [inplace] [impl K]   the first run, or a recomputation: then `once` effects do not
 *                                 happen, random numbers repeat, and an output that is still
 *                                 resident is overwritten with equal bits
 *     free TENSOR                 its value is dropped from the device
 *     offload TENSOR              start copying it to the host; it may be read, not written or
 *                                 freed
 *     fetch TENSOR                start copying it back; not usable until waited for
 *     wait TENSOR                 until the copy in flight has ended
 *
 * A parameter or slot that a plan fetches is at home on the host: it is there at the start of the
 * step and at its end. */
#ifndef CAIRN_PLAN_H
#define CAIRN_PLAN_H

#include "cairn/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cairn_step_kind {
    CAIRN_STEP_RUN = 0,
    CAIRN_STEP_FREE = 1,
    CAIRN_STEP_OFFLOAD = 2,
    CAIRN_STEP_FETCH = 3,
    CAIRN_STEP_WAIT = 4
} cairn_step_kind;

CAIRN_API const char *cairn_step_kind_name(cairn_step_kind kind);

typedef struct cairn_step {
    uint8_t kind;           /* cairn_step_kind */
    uint8_t inplace;        /* of a run: 0, or 1 + which of the op's permissions is used */
    uint8_t implementation; /* of a run: which of the op's implementations, from 0 */
    uint8_t also;           /* of a run in place: 0, or 1 + which later permission is used too */
    cairn_id id;            /* the op of a run, else the tensor */
} cairn_step;

/* What a plan is to achieve. */
typedef enum cairn_goal {
    CAIRN_GOAL_TRAIN = 0, /* loss and every parameter's gradient; running statistics move */
    CAIRN_GOAL_INFER = 1 /* the network's output, without labels or loss; running statistics stay */
} cairn_goal;

/* What a plan's file says of it. Zero and empty fields are left out. Start from
 * CAIRN_PLAN_HEADER_INIT; fields are only ever added at the end. */
typedef struct cairn_plan_header {
    uint32_t struct_size;
    char model[256]; /* zoo name or graph file */
    uint32_t batch;
    uint32_t input[3]; /* as in cairn_zoo_options */
    uint32_t classes, steps;
    cairn_goal goal;
    char algorithm[32];
    uint64_t predicted_peak_bytes; /* when it was made */
    uint64_t graph_hash;
    uint32_t updates; /* 1 + the slots of a parameter, if the graph has updates; 0: it has none */
    uint32_t clips;   /* updates read the norm of all gradients (1), or of their sums over
                         micro-batches (2); 0: they do not */
} cairn_plan_header;
#define CAIRN_PLAN_HEADER_INIT CAIRN_INIT_SIZED(cairn_plan_header)

/* Only the library makes one; fields are only ever added at the end. */
typedef struct cairn_plan {
    const cairn_plan_header *header;
    const cairn_step *steps;
    uint32_t step_count;
} cairn_plan;

CAIRN_API void cairn_plan_destroy(cairn_plan *plan);

/* Replace the header but for its hash, for callers that know more about the model. CAIRN_EINVAL:
 * its size was never set. */
CAIRN_API CAIRN_MUST cairn_status cairn_plan_set_header(cairn_plan *plan,
                                                        const cairn_plan_header *header,
                                                        cairn_error *err);

/* ---- Files: docs/plan-format.md ---- */

CAIRN_API CAIRN_MUST cairn_status cairn_plan_to_text(const cairn_plan *plan,
                                                     const cairn_graph *graph, cairn_text *out);

/* The header alone, to find the model that a plan is for. */
CAIRN_API CAIRN_MUST cairn_status cairn_plan_header_from_text(const char *text, size_t length,
                                                              const char *file,
                                                              cairn_plan_header *out,
                                                              cairn_error *err);

/* CAIRN_ESYNTAX with line and column; CAIRN_EINVAL: made for a graph of another structure. */
CAIRN_API CAIRN_MUST cairn_status cairn_plan_from_text(const cairn_graph *graph, const char *text,
                                                       size_t length, const char *file,
                                                       cairn_plan **out, cairn_error *err);

#ifdef __cplusplus
}
#endif
#endif
