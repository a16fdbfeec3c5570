/* graph_internal.h: what the files of graph/ share. Other folders use cairn/graph.h. */
#ifndef CRN_GRAPH_INTERNAL_H
#define CRN_GRAPH_INTERNAL_H

#include "base/crn_base.h"
#include "base/names.h"
#include "cairn/graph.h"
#include "graph/crn_graph.h"
#include "graph/layers.h"

/* The graph owns the arena that it is itself allocated in. */
struct cairn_graph {
    crn_arena arena;
    const char *name;
    CRN_ARRAY(cairn_tensor) tensors;
    CRN_ARRAY(cairn_op) ops;
    crn_names tensor_names, op_names;
    uint32_t *reader_first; /* readers of t: readers[reader_first[t] .. reader_first[t + 1]) */
    cairn_id *readers;
    uint64_t hash;
};

/* A builder holds a graph that still grows, and the first error. */
struct cairn_builder {
    cairn_allocator allocator;
    cairn_graph *graph; /* NULL after finish */
    cairn_status status;
    cairn_error err;
};

/* ---- op_kinds.c: the table of op_kinds.def ---- */

enum {
    A_KERNEL = 1 << 0,
    A_STRIDE = 1 << 1,
    A_PAD = 1 << 2,
    A_DILATION = 1 << 3,
    A_GROUPS = 1 << 4,
    A_SIZE = 1 << 5,
    A_INDEX = 1 << 6,
    A_COUNT_PADDING = 1 << 7,
    A_PROBABILITY = 1 << 8,
    A_EPSILON = 1 << 9,
    A_MOMENTUM = 1 << 10,
    A_SMOOTHING = 1 << 11,
    A_HEADS = 1 << 12,
    A_KV_HEADS = 1 << 13,
    A_CAUSAL = 1 << 14,
    A_TANH = 1 << 15,
    A_SAME_ROW = 1 << 16,
    A_THETA = 1 << 17,
    A_DEVIATION = 1 << 18,
    A_SCALING = 1 << 19,
    /* The attributes that files may leave out. A file never holds one that is 0. */
    A_OPTIONAL = A_SMOOTHING | A_CAUSAL | A_TANH | A_SAME_ROW | A_DEVIATION | A_SCALING
};

/* How the parameters of an op are initialised. */
typedef enum crn_start {
    S_NONE,
    S_FAN_IN,       /* weights uniform in +-sqrt(6 / fan-in), or normal with the deviation that the
                     * op has as an attribute; biases zero */
    S_FAN_IN_FIRST, /* the same, but the fan-in is the first dimension of the weight */
    S_HIDDEN,       /* all uniform in +-1 / sqrt(hidden size) */
    S_IDENTITY      /* the first and the last are one, the others zero, as for batch-norm */
} crn_start;

typedef struct crn_op_kind {
    const char *name;
    uint32_t least_inputs, most_inputs, least_outputs, most_outputs, least_params, most_params;
    uint32_t attributes; /* A_* */
    uint32_t flags;      /* every op of the kind has these */
    bool product;        /* multiplies matrices: slow to recompute */
    bool passes;         /* the gradient of its output is that of every input */
    uint32_t work;       /* operations per element; 0: the number of elements of its window */
    const cairn_inplace *inplace; /* permissions, in the order in which they are tried */
    uint32_t inplace_count;
    crn_start start;
    const char *internal; /* suffix of the name of its second output, or NULL */
} crn_op_kind;
extern const crn_op_kind crn_op_kinds[CAIRN_OP_KINDS];

/* One field of cairn_attributes as it appears in files. */
typedef struct crn_attribute {
    uint32_t bit; /* A_* */
    const char *name;
    size_t offset;
    uint32_t count; /* of int32_t; 0: one double */
} crn_attribute;
extern const crn_attribute crn_attribute_list[];
extern const size_t crn_attribute_count;

extern const char *const crn_role_names[CAIRN_ROLE_SLOT + 1];
extern const char *const crn_dtype_names[CAIRN_DTYPE_BOOL + 1];
extern const char *const crn_phase_names[CAIRN_PHASE_UPDATE + 1];
uint32_t crn_dtype_size(cairn_dtype dtype);

/* Whether tensors of the role exist before the step and stay after it. */
static inline bool crn_role_stays(cairn_role role) {
    return role == CAIRN_ROLE_PARAMETER || role == CAIRN_ROLE_STATE || role == CAIRN_ROLE_SLOT;
}

/* ---- builder.c ---- */

cairn_status crn_builder_add_tensor(cairn_builder *builder, const cairn_tensor *tensor,
                                    cairn_id *out);
cairn_status crn_builder_add_op(cairn_builder *builder, const cairn_op *op, cairn_id *out);

/* ---- layers.c ---- */

/* A forward op of any kind: its outputs are inferred, and it may work in place where its kind may.
 * Returns its first output, or CAIRN_NONE after an error. */
cairn_id crn_build_op(cairn_builder *builder, cairn_op_kind kind, const char *name,
                      uint32_t input_count, const cairn_id *inputs, uint32_t param_count,
                      const cairn_id *params, const cairn_attributes *attributes);

/* ---- shapes.c ---- */

#define CRN_MAX_FORWARD_OUTPUTS 2

/* Infer the outputs of a forward op from its inputs and parameters: role, dtype and shape of each,
 * and whether it is an alias (alias_of is then the storage of input 0). The error message names the
 * op. Not for opaque and backward ops. */
/* Whether ops of the kind belong to the forward phase. An opaque op may belong to any. */
bool crn_is_forward_kind(cairn_op_kind kind);

CAIRN_MUST cairn_status crn_infer_outputs(const cairn_graph *graph, const cairn_op *op,
                                          cairn_tensor out[CRN_MAX_FORWARD_OUTPUTS],
                                          cairn_error *err);

/* ---- check_derivative.c ---- */

/* Check a backward op against the rule that it must follow. */
CAIRN_MUST cairn_status crn_check_derivative(const cairn_graph *graph, const cairn_op *op,
                                             cairn_error *err);

/* ---- updates.c ---- */

/* Whether an op is one of the optimiser: it changes all parameters and slots that it names. */
bool crn_op_updates(const cairn_op *op);

/* Mark the slots that only the last of several micro-batches uses: all but the sum of gradients,
 * which is the last of an update's params. */
void crn_graph_mark_last(const cairn_graph *graph, bool *of_last);

/* The step before cairn_graph_add_updates(). */
CAIRN_MUST cairn_status crn_graph_drop_updates(const cairn_graph *whole, cairn_graph **out,
                                               cairn_error *err);

/* ---- validate.c ---- */

/* Check everything, and fill in producers, name tables, readers and hash. */
CAIRN_MUST cairn_status crn_validate(cairn_graph *graph, cairn_error *err);

static inline bool crn_same_shape(const cairn_tensor *a, const cairn_tensor *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

#endif
