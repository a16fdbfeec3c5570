/* narrow.h: a network of the zoo with all its widths divided, so that it runs quickly. Convolutions
 * and linear layers have fewer outputs, except the last one, which has the classes. Dropout drops
 * nothing. */
#ifndef NARROW_H
#define NARROW_H

#include "cairn/zoo.h"
#include "check.h"
#include "graph/layers.h"
#include "graph/crn_graph.h"
#include "import/importer.h"

typedef struct narrowing {
    const cairn_graph *from;
    cairn_builder *to;
    uint32_t divisor;
    cairn_id last;  /* the op that makes what the loss reads */
    cairn_id *made; /* per old tensor: the new one */
} narrowing;

static inline uint32_t narrow_width(const narrowing *n, cairn_id op, uint32_t channels) {
    uint32_t width = channels > n->divisor ? channels / n->divisor : 1;
    return op == n->last ? channels : width;
}

static inline cairn_id narrow_conv(const narrowing *n, cairn_id id, cairn_id x) {
    const cairn_op *op = cairn_graph_op(n->from, id);
    const cairn_attributes *a = &op->attributes;
    uint32_t old_channels = cairn_graph_tensor(n->from, op->inputs[0])->shape[1];
    crn_conv conv = {
        .channels = narrow_width(n, id, cairn_graph_tensor(n->from, op->outputs[0])->shape[1]),
        .groups = (uint32_t)a->groups == old_channels ? crn_builder_peek(n->to, x).shape[1]
                                                      : (uint32_t)a->groups,
        .bias = op->param_count > 1};
    for (int i = 0; i < 2; i++) {
        conv.kernel[i] = (uint32_t)a->kernel[i];
        conv.stride[i] = (uint32_t)a->stride[i];
        conv.dilation[i] = (uint32_t)a->dilation[i];
    }
    memcpy(conv.pad, a->pad, sizeof conv.pad);
    return crn_build_conv2d(n->to, op->name, x, &conv);
}

static inline cairn_id narrow_op(const narrowing *n, cairn_id id) {
    const cairn_op *op = cairn_graph_op(n->from, id);
    const cairn_attributes *a = &op->attributes;
    uint32_t kernel = (uint32_t)a->kernel[0], stride = (uint32_t)a->stride[0];
    uint32_t pad = (uint32_t)a->pad[0];
    uint32_t channels = cairn_graph_tensor(n->from, op->outputs[0])->shape[1];
    cairn_id in[64];
    for (uint32_t i = 0; i < op->input_count; i++)
        in[i] = n->made[op->inputs[i]];
    switch (op->kind) {
    case CAIRN_OP_CONV2D:
        return narrow_conv(n, id, in[0]);
    case CAIRN_OP_CONV_TRANSPOSE2D:
        return crn_build_conv_transpose2d(n->to, op->name, in[0], narrow_width(n, id, channels),
                                          kernel);
    case CAIRN_OP_LINEAR:
        return crn_build_linear(n->to, op->name, in[0], narrow_width(n, id, channels));
    case CAIRN_OP_BATCH_NORM:
        return crn_build_batch_norm(n->to, op->name, in[0], a->epsilon);
    case CAIRN_OP_RELU:
        return crn_build_relu(n->to, op->name, in[0]);
    case CAIRN_OP_DROPOUT:
        return crn_build_dropout(n->to, op->name, in[0], 0);
    case CAIRN_OP_MAX_POOL:
        return crn_build_max_pool(n->to, op->name, in[0], kernel, stride, pad);
    case CAIRN_OP_AVG_POOL:
        return crn_build_avg_pool(n->to, op->name, in[0], kernel, stride, pad,
                                  a->count_padding != 0);
    case CAIRN_OP_ADAPTIVE_AVG_POOL:
        return crn_build_adaptive_avg_pool(n->to, op->name, in[0], (uint32_t)a->size[0],
                                           (uint32_t)a->size[1]);
    case CAIRN_OP_ADD:
        return crn_build_add(n->to, op->name, in[0], in[1]);
    case CAIRN_OP_CONCAT:
        return crn_build_concat(n->to, op->name, in, op->input_count);
    case CAIRN_OP_FLATTEN:
        return crn_build_flatten(n->to, op->name, in[0]);
    case CAIRN_OP_CROSS_ENTROPY:
        return crn_build_smoothed_cross_entropy(n->to, op->name, in[0], in[1], a->smoothing);
    default:
        fprintf(stderr, "%s: cannot be made narrower\n", op->name);
        exit(1);
    }
}

/* The zoo's own small network of the form; NULL: it has none. */
static inline const char *narrow_small(const char *name) {
    const cairn_zoo_entry *entry;
    for (uint32_t i = 0; (entry = cairn_zoo_list(i)) != NULL; i++)
        if (strcmp(entry->name, name) == 0)
            return entry->small;
    return NULL;
}

/* The network with its widths divided by `divisor`; a transformer is a small one with any divisor
 * above 1. The caller destroys the result. */
static inline cairn_graph *narrow_build(const char *name, const cairn_zoo_options *options,
                                        uint32_t divisor) {
    cairn_graph *from, *to;
    cairn_error err = {0};
    const char *small = divisor > 1 ? narrow_small(name) : NULL;
    CHECK_OK(crn_zoo_build(NULL, small != NULL ? small : name, options, &from, &err), &err);
    if (divisor == 1 || small != NULL)
        return from;
    uint32_t tensors = cairn_graph_tensor_count(from), ops = cairn_graph_op_count(from);
    narrowing n = {.from = from, .divisor = divisor, .made = calloc(tensors, sizeof *n.made)};
    n.last = cairn_graph_tensor(from, cairn_graph_op(from, ops - 1)->inputs[0])->producer;
    CHECK_OK(cairn_builder_create(NULL, name, &n.to), &err);
    for (cairn_id t = 0; t < tensors; t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(from, t);
        if (tensor->role == CAIRN_ROLE_INPUT)
            n.made[t] = crn_build_input(n.to, tensor->name, tensor->rank, tensor->shape);
        if (tensor->role == CAIRN_ROLE_LABEL)
            n.made[t] = crn_build_label(n.to, tensor->name, tensor->rank, tensor->shape);
    }
    for (cairn_id o = 0; o < ops; o++)
        n.made[cairn_graph_op(from, o)->outputs[0]] = narrow_op(&n, o);
    CHECK_OK(cairn_builder_finish(n.to, &to, &err), &err);
    cairn_builder_destroy(n.to);
    cairn_graph_destroy(from);
    free(n.made);
    return to;
}

#endif
