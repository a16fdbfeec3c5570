/* graph.h: a training step as one flat DAG of tensors and ops.
 *
 * Forward ops, backward ops and the accumulation of gradients are all just ops; gradients are just
 * tensors. Ops stand in canonical order, which is topological. A graph is made by a builder (or
 * read from a file), checked once, and immutable from then on. It holds structure and plain sizes;
 * what an op costs on a machine is in a separate object (cost.h).
 *
 *     builder --finish--> forward graph --differentiate--> graph of the whole step
 */
#ifndef CAIRN_GRAPH_H
#define CAIRN_GRAPH_H

#include "cairn/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t cairn_id; /* of a tensor or an op: its place in the graph */
#define CAIRN_NONE UINT32_MAX
#define CAIRN_MAX_RANK 5

/* What a tensor is for. Parameters and state exist before the step and stay after it. */
typedef enum cairn_role {
    CAIRN_ROLE_INPUT = 0,      /* data; resident from the start of the step until its last reader */
    CAIRN_ROLE_LABEL = 1,      /* likewise */
    CAIRN_ROLE_PARAMETER = 2,  /* stationary */
    CAIRN_ROLE_STATE = 3,      /* stationary and without gradient: running statistics */
    CAIRN_ROLE_ACTIVATION = 4, /* made by a forward op */
    CAIRN_ROLE_INTERNAL = 5,   /* made by a forward op only for its own backward: pooling indices */
    CAIRN_ROLE_GRADIENT = 6,   /* made by a backward op */
    CAIRN_ROLE_LOSS = 7,       /* the result of the forward pass; stays to the end of the step */
    CAIRN_ROLE_SLOT = 8        /* stationary: what the optimiser keeps of a parameter */
} cairn_role;

/* Kinds other than opaque compute on the first three; the others are for opaque ops. */
typedef enum cairn_dtype {
    CAIRN_DTYPE_F32 = 0,
    CAIRN_DTYPE_I32 = 1,
    CAIRN_DTYPE_U8 = 2,
    CAIRN_DTYPE_F64 = 3,
    CAIRN_DTYPE_F16 = 4,
    CAIRN_DTYPE_BF16 = 5,
    CAIRN_DTYPE_I64 = 6,
    CAIRN_DTYPE_I16 = 7,
    CAIRN_DTYPE_I8 = 8,
    CAIRN_DTYPE_BOOL = 9
} cairn_dtype;

typedef enum cairn_phase {
    CAIRN_PHASE_FORWARD = 0,
    CAIRN_PHASE_BACKWARD = 1,
    CAIRN_PHASE_UPDATE = 2
} cairn_phase;

typedef enum cairn_op_kind {
#define X(name, number, text, il, im, ol, om, pl, pm, attributes, flags, work, inplace, start, in) \
    CAIRN_OP_##name = number,
#include "cairn/op_kinds.def"
#undef X
    CAIRN_OP_KINDS /* how many there are */
} cairn_op_kind;

/* As it stands in files; NULL past the end of the list. */
CAIRN_API const char *cairn_op_kind_name(cairn_op_kind kind);

typedef struct cairn_tensor {
    const char *name; /* unique among tensors; no white space */
    cairn_role role;
    cairn_dtype dtype;
    uint32_t rank; /* 0: shape unknown, bytes given */
    uint32_t shape[CAIRN_MAX_RANK];
    uint64_t bytes;
    cairn_id alias_of;    /* shares the whole storage of this tensor, which is no alias itself */
    cairn_id gradient_of; /* for gradients: of this tensor, whose shape it has */
    bool stationary;      /* outside what a plan controls: parameters, state, their gradients; an
                           * input or label that the caller owns and keeps */
    bool result;          /* made by an op, counted from then on, and kept to the end of the step */
    cairn_id producer;    /* the op that makes it, or CAIRN_NONE; filled in by the builder */
} cairn_tensor;

/* Start a tensor from this: no alias, no gradient. */
#ifdef __cplusplus
extern "C++" inline cairn_tensor cairn_tensor_init() {
    cairn_tensor tensor = cairn_tensor();
    tensor.alias_of = tensor.gradient_of = tensor.producer = CAIRN_NONE;
    return tensor;
}
#define CAIRN_TENSOR_INIT cairn_tensor_init()
#else
#define CAIRN_TENSOR_INIT                                                                          \
    { .alias_of = CAIRN_NONE, .gradient_of = CAIRN_NONE, .producer = CAIRN_NONE }
#endif

/* What an op does exactly; which fields count depends on its kind (op_kinds.def). Spatial pairs are
 * (vertical, horizontal). Start from CAIRN_ATTRIBUTES_INIT; fields are only ever added at the end,
 * and stand last in an op, so that callers of an older version still give and read what they know.
 * An op of a kind that has none may leave them zero. */
typedef struct cairn_attributes {
    uint32_t struct_size;
    int32_t kernel[2], stride[2];
    int32_t pad[4]; /* top, left, bottom, right; negative crops */
    int32_t dilation[2];
    int32_t groups;
    int32_t size[2];       /* of adaptive pooling's output */
    int32_t index;         /* which slice; of a concatenation, its first channel; of an update, its
                            * first row */
    int32_t count_padding; /* whether an average counts padded zeros */
    double probability;    /* that dropout drops */
    double epsilon, momentum;
    double smoothing;        /* of labels: this share of the target is spread over all classes */
    int32_t heads, kv_heads; /* of attention: of queries, of keys and values */
    int32_t causal;          /* whether a token attends only to itself and those before it */
    int32_t tanh;            /* whether a gelu is computed with tanh; else it is exact */
    int32_t same_row;        /* whether row 0 is added to all tokens; else row t to token t */
    double theta;            /* the base of a rotary embedding's angles */
    double deviation;        /* that weights are drawn with; 0: by the fan-in */
    double
        scaling; /* of a rotary embedding: slow pairs turn slower by this factor; 0: they do not */
} cairn_attributes;
#define CAIRN_ATTRIBUTES_INIT CAIRN_INIT_SIZED(cairn_attributes)

enum {
    CAIRN_OP_FLAG_ONCE = 1,   /* has an effect that must happen once a step: running statistics */
    CAIRN_OP_FLAG_RANDOM = 2, /* draws random numbers, a function of seed, step, op and element */
    CAIRN_OP_FLAG_NEVER_AGAIN = 4, /* must not be run a second time */
    CAIRN_OP_FLAG_UPDATES = 8,  /* of an opaque op: it changes its parameters and slots, and no op
                                   may read them in the step after it but other such ops */
    CAIRN_OP_FLAG_TOGETHER = 16 /* two of its in-place pairs may be used in one run, if they have
                                   different outputs and different inputs */
};

/* Output `output` may take the storage of input `input` if nothing needs that any more. */
typedef struct cairn_inplace {
    uint32_t output, input;
} cairn_inplace;

typedef struct cairn_op {
    const char *name; /* unique among ops; no white space */
    cairn_op_kind kind;
    cairn_phase phase;
    cairn_id of; /* the forward op it differentiates, or CAIRN_NONE */
    uint32_t flags;
    uint32_t input_count, output_count, param_count, inplace_count;
    const cairn_id *inputs;
    const cairn_id *outputs; /* CAIRN_NONE: this result is not wanted */
    const cairn_id *params;  /* parameters and state it reads or updates */
    const cairn_inplace *inplace;
    cairn_attributes attributes; /* last: it may grow */
} cairn_op;

/* ---- Reading a graph ---- */

typedef struct cairn_graph cairn_graph;

CAIRN_API void cairn_graph_destroy(cairn_graph *graph);
CAIRN_API const char *cairn_graph_name(const cairn_graph *graph);
CAIRN_API uint32_t cairn_graph_tensor_count(const cairn_graph *graph);
CAIRN_API uint32_t cairn_graph_op_count(const cairn_graph *graph);
CAIRN_API const cairn_tensor *cairn_graph_tensor(const cairn_graph *graph, cairn_id tensor);
CAIRN_API const cairn_op *cairn_graph_op(const cairn_graph *graph, cairn_id op);

/* By name; CAIRN_NONE if there is none. O(n). */
CAIRN_API cairn_id cairn_graph_find_tensor(const cairn_graph *graph, const char *name);

/* The figures of a network. Start from CAIRN_GRAPH_SUMMARY_INIT; fields are only ever added at the
 * end. */
typedef struct cairn_graph_summary {
    uint32_t struct_size;
    uint64_t parameters;       /* elements of all parameters */
    uint64_t parameter_bytes;  /* their bytes */
    uint64_t state_bytes;      /* running statistics */
    uint64_t gradient_bytes;   /* of the parameters, stationary as they are */
    uint64_t activation_bytes; /* made by forward ops, aliases and internals not counted */
    uint32_t forward_ops, backward_ops;
    cairn_id input, output, loss; /* first input, what the loss reads or the last activation */
    bool has_updates;             /* updates of parameters are ops of it */
    uint64_t network_hash;        /* of what the forward ops compute, and of the names of their
                                     parameters; not of sizes, and not of what only training uses */
} cairn_graph_summary;
#define CAIRN_GRAPH_SUMMARY_INIT CAIRN_INIT_SIZED(cairn_graph_summary)

/* Fill as many fields as `out->struct_size` says that the caller knows. */
CAIRN_API void cairn_graph_summarize(const cairn_graph *graph, cairn_graph_summary *out);

/* ---- Building ---- */

/* A builder remembers its first error; after it every call does nothing and returns CAIRN_NONE, and
 * cairn_builder_finish() reports it. So code that builds need not check each call. Names and arrays
 * are copied. */
typedef struct cairn_builder cairn_builder;

CAIRN_API CAIRN_MUST cairn_status cairn_builder_create(const cairn_allocator *allocator,
                                                       const char *name, cairn_builder **out);
CAIRN_API void cairn_builder_destroy(cairn_builder *builder);

/* Any tensor, any op. `bytes` 0 with a shape: as the shape and dtype say. */
CAIRN_API cairn_id cairn_builder_tensor(cairn_builder *builder, const cairn_tensor *tensor);
CAIRN_API cairn_id cairn_builder_op(cairn_builder *builder, const cairn_op *op);

/* Check everything and freeze. The builder is empty afterwards and can only be destroyed.
 * CAIRN_EINVAL or CAIRN_EOVERFLOW names the op or tensor at fault. O(n). */
CAIRN_API CAIRN_MUST cairn_status cairn_builder_finish(cairn_builder *builder, cairn_graph **out,
                                                       cairn_error *err);

/* ---- Differentiating ---- */

typedef struct cairn_differentiate_options {
    uint32_t struct_size;
    bool input_gradients; /* also of inputs; else gradients exist only downstream of parameters */
    bool join_head; /* the last linear layer and its loss over tokens become one op, head_loss,
                       which also makes their gradients: logits exist in its workspace only */
} cairn_differentiate_options;
#define CAIRN_DIFFERENTIATE_OPTIONS_INIT CAIRN_INIT_SIZED(cairn_differentiate_options)

/* A new graph: the forward ops of `forward` followed by their backward ops in reverse order. The
 * gradient of a tensor with several readers is an explicit chain of accumulate ops, so no plan can
 * change the order of a sum. `options` may be NULL. CAIRN_EINVAL: there is no loss, several, or an
 * op that cannot be differentiated (opaque); or backward ops are there already. O(n). */
CAIRN_API CAIRN_MUST cairn_status
cairn_graph_differentiate(const cairn_graph *forward, const cairn_differentiate_options *options,
                          cairn_graph **out, cairn_error *err);

/* The network of a step with a head_loss: its forward ops with the layer and the loss as two ops,
 * so that there are logits. Parameters keep their ids. `*out` NULL: the step has no such op, and is
 * its own network. CAIRN_EINVAL: the step was not made by cairn_graph_differentiate(). O(n). */
CAIRN_API CAIRN_MUST cairn_status cairn_graph_network(const cairn_graph *step, cairn_graph **out,
                                                      cairn_error *err);

/* Start from CAIRN_UPDATES_OPTIONS_INIT; fields are only ever added at the end. */
#define CAIRN_MOST_SLOTS 3
typedef struct cairn_updates_options {
    uint32_t struct_size;
    uint32_t slots; /* tensors of role slot per parameter: cairn_optimizer_slots() */
    bool clip;      /* gradients are clipped by the norm of all of them: an op per gradient adds its
                       squares to a sum, in the order of the graph, and every update, which then
                       stands at the end, reads the sum. How large the norm may be is one of the
                       executor's options */
    bool sums;      /* with `clip`: the last slot is the sum of the gradients of several
                       micro-batches; its squares count, and gradients are freed behind that op */
} cairn_updates_options;
#define CAIRN_UPDATES_OPTIONS_INIT CAIRN_INIT_SIZED(cairn_updates_options)

/* The whole step: a new graph that also has the updates of the parameters. A gradient of a
 * parameter is then an ordinary tensor, freed after its update.
 *
 *     conv.bwd_weight --gw--> conv.weight.update    works in place on conv.weight, which all other
 *     conv.bwd_data                                 ops have read by then, and on its slots
 *
 * Large slots are divided into chunks of rows with an update each, so that not all of them need be
 * in memory at once. The executor's options say which optimiser it is. `options` may be NULL.
 * CAIRN_EINVAL: `step` has updates already, or no gradient of a parameter. O(n). */
CAIRN_API CAIRN_MUST cairn_status cairn_graph_add_updates(const cairn_graph *step,
                                                          const cairn_updates_options *options,
                                                          cairn_graph **out, cairn_error *err);

/* ---- Files ---- */

/* The JSON form of docs/graph-format.md; writing what was read gives the same bytes. */
CAIRN_API CAIRN_MUST cairn_status cairn_graph_to_json(const cairn_graph *graph, cairn_text *out);
CAIRN_API CAIRN_MUST cairn_status cairn_graph_from_json(const cairn_allocator *allocator,
                                                        const char *text, size_t length,
                                                        const char *file, cairn_graph **out,
                                                        cairn_error *err);

#ifdef __cplusplus
}
#endif
#endif
