/* op_kinds.h: what is known of each kind of op: the table of op_kinds.def, and the names that files
 * have for attributes, roles, types and phases. */
#ifndef CRN_OP_KINDS_H
#define CRN_OP_KINDS_H

#include "cairn/graph.h"

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

/* Whether ops of the kind belong to the forward phase. An opaque op may belong to any. */
bool crn_is_forward_kind(cairn_op_kind kind);

#endif
