/* op_cases.h: the cases of tests/data/op_cases.json as graphs: one op followed by a loss, so that
 * there is also the backward of the op. The reference script reads the same file.
 *
 *     x0, x1, ... -> y -> (flatten) -> cross-entropy        all with their gradients
 *
 * Parameters are called y.weight and so on, as the builder names those of an op "y". */
#ifndef OP_CASES_H
#define OP_CASES_H

#include "backend/fill.h"
#include "backend/rig.h"
#include "graph/graph_internal.h"
#include "graph/layers.h"
#include "graph/crn_graph.h"

#include <jansson.h>

#define OP_CASE_CLASSES 3 /* labels of a cross-entropy under test are below this */
#define OP_CASE_TOKENS 5  /* tokens of an embedding under test are below this */

typedef struct op_case {
    const char *name;
    cairn_op_kind kind;
    cairn_graph *graph;
    uint32_t input_count;
    cairn_id y;      /* what the op makes; of a cross-entropy, the loss */
    cairn_id op;     /* 0 */
    cairn_id gy;     /* its gradient; CAIRN_NONE for a loss */
    cairn_id behind; /* the first op after the one that makes gy: the backward of the op */
} op_case;

static inline uint32_t case_shape(const json_t *list, uint32_t *shape) {
    for (size_t i = 0; i < json_array_size(list); i++)
        shape[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    return (uint32_t)json_array_size(list);
}

static inline void case_attributes(const json_t *given, cairn_attributes *out) {
    for (size_t i = 0; i < crn_attribute_count; i++) {
        const crn_attribute *a = &crn_attribute_list[i];
        const json_t *value = json_object_get(given, a->name);
        char *field = (char *)out + a->offset;
        for (size_t k = 0; k < a->count && value != NULL; k++) {
            const json_t *number = json_is_array(value) ? json_array_get(value, k) : value;
            int32_t integer = (int32_t)json_integer_value(number);
            memcpy(field + k * sizeof integer, &integer, sizeof integer);
        }
        double real = json_number_value(value);
        if (a->count == 0 && value != NULL)
            memcpy(field, &real, sizeof real);
    }
}

static inline void case_params(cairn_builder *b, const json_t *list, cairn_op *op, cairn_id *out) {
    static const char *const plain[] = {"y.weight", "y.bias", "y.running_mean", "y.running_var"};
    static const char *const cell[] = {"y.rnn.weight_ih", "y.rnn.weight_hh", "y.bias_ih",
                                       "y.bias_hh"};
    bool recurrent = op->kind == CAIRN_OP_RNN_CELL || op->kind == CAIRN_OP_LSTM_CELL;
    for (uint32_t i = 0; i < json_array_size(list); i++) {
        cairn_tensor t = CAIRN_TENSOR_INIT;
        t.name = (recurrent ? cell : plain)[i];
        t.role = i >= 2 && !recurrent ? CAIRN_ROLE_STATE : CAIRN_ROLE_PARAMETER;
        t.stationary = true;
        t.rank = case_shape(json_array_get(list, i), t.shape);
        out[op->param_count++] = cairn_builder_tensor(b, &t);
    }
}

static inline cairn_id case_op(cairn_builder *b, const json_t *given, cairn_op *op) {
    static const char *const internal = "y.internal";
    cairn_id inputs[8], params[4], outputs[CRN_MAX_FORWARD_OUTPUTS], reads[8];
    const json_t *shapes = json_object_get(given, "inputs"),
                 *read = json_object_get(given, "reads");
    for (uint32_t i = 0; i < json_array_size(shapes); i++) {
        uint32_t shape[CAIRN_MAX_RANK], rank = case_shape(json_array_get(shapes, i), shape);
        const char *name = (const char *[]){"x0", "x1", "x2", "x3"}[i];
        inputs[i] = op->kind == CAIRN_OP_EMBEDDING ? crn_build_tokens(b, name, rank, shape)
                                                   : crn_build_input(b, name, rank, shape);
    }
    op->input_count = (uint32_t)json_array_size(read != NULL ? read : shapes);
    for (uint32_t i = 0; i < op->input_count; i++)
        reads[i] = inputs[read != NULL ? json_integer_value(json_array_get(read, i)) : i];
    case_params(b, json_object_get(given, "params"), op, params);
    op->inputs = reads;
    op->params = params;
    op->outputs = outputs;
    cairn_tensor made[CRN_MAX_FORWARD_OUTPUTS];
    cairn_error err;
    CHECK_OK(crn_infer_outputs(b->graph, op, made, &err), &err);
    made[0].name = op->name;
    made[1].name = internal;
    op->output_count = crn_op_kinds[op->kind].most_outputs;
    for (uint32_t i = 0; i < op->output_count; i++)
        outputs[i] = cairn_builder_tensor(b, &made[i]);
    op->inplace = crn_op_kinds[op->kind].inplace;
    op->inplace_count = crn_op_kinds[op->kind].inplace_count;
    cairn_builder_op(b, op);
    return outputs[0];
}

static inline bool case_is_loss(cairn_op_kind kind) {
    return kind == CAIRN_OP_CROSS_ENTROPY || kind == CAIRN_OP_TOKEN_CROSS_ENTROPY;
}

/* Add the loss. A cross-entropy under test is the loss itself. */
static inline cairn_id case_loss(cairn_builder *b, const json_t *given, cairn_op *op) {
    if (!case_is_loss(op->kind)) {
        cairn_id y = case_op(b, given, op), flat = y;
        if (crn_builder_peek(b, y).rank > 2)
            flat = crn_build_flatten(b, "flat", y);
        cairn_id labels = crn_build_label(b, "labels", 1, crn_builder_peek(b, flat).shape);
        crn_build_cross_entropy(b, "loss", flat, labels);
        return y;
    }
    uint32_t shape[CAIRN_MAX_RANK];
    uint32_t rank = case_shape(json_array_get(json_object_get(given, "inputs"), 0), shape);
    cairn_id x = crn_build_input(b, "x0", rank, shape);
    if (op->kind == CAIRN_OP_TOKEN_CROSS_ENTROPY)
        return crn_build_token_cross_entropy(
            b, "y", x, crn_build_label(b, "labels", rank - 1, shape), op->attributes.smoothing);
    memmove(shape + 1, shape + 2, (rank - 2) * sizeof *shape);
    cairn_id labels = crn_build_label(b, "labels", rank - 1, shape);
    return crn_build_smoothed_cross_entropy(b, "y", x, labels, op->attributes.smoothing);
}

static inline cairn_op_kind case_kind(const char *name) {
    cairn_op_kind kind = 0;
    while (strcmp(cairn_op_kind_name(kind), name) != 0)
        kind++;
    return kind;
}

/* `input_gradients` false: only gradients that parameters need are computed. */
static inline op_case case_build(const json_t *given, bool input_gradients) {
    op_case c = {.name = json_string_value(json_object_get(given, "name")), .gy = CAIRN_NONE};
    c.kind = case_kind(json_string_value(json_object_get(given, "kind")));
    c.input_count = (uint32_t)json_array_size(json_object_get(given, "inputs"));
    cairn_error err = {0};
    cairn_builder *b;
    CHECK_OK(cairn_builder_create(NULL, c.name, &b), &err);
    cairn_op op = {
        .name = "y", .kind = c.kind, .of = CAIRN_NONE, .flags = crn_op_kinds[c.kind].flags};
    op.attributes.struct_size = sizeof op.attributes;
    case_attributes(json_object_get(given, "attributes"), &op.attributes);
    c.y = case_loss(b, given, &op);
    cairn_graph *forward;
    CHECK_OK(cairn_builder_finish(b, &forward, &err), &err);
    cairn_builder_destroy(b);
    cairn_differentiate_options options = CAIRN_DIFFERENTIATE_OPTIONS_INIT;
    options.input_gradients = input_gradients;
    CHECK_OK(cairn_graph_differentiate(forward, &options, &c.graph, &err), &err);
    c.behind = cairn_graph_op_count(forward);
    cairn_graph_destroy(forward);
    for (cairn_id t = cairn_graph_tensor_count(c.graph); t-- > 0 && !case_is_loss(c.kind);)
        if (cairn_graph_tensor(c.graph, t)->gradient_of == c.y &&
            cairn_graph_op(c.graph, cairn_graph_tensor(c.graph, t)->producer)->of != c.op)
            c.gy = t;
    if (c.gy != CAIRN_NONE)
        c.behind = cairn_graph_tensor(c.graph, c.gy)->producer + 1;
    return c;
}

static inline json_t *case_load(const char *file) {
    json_error_t error;
    json_t *root = json_load_file(file, 0, &error);
    if (root == NULL) {
        fprintf(stderr, "%s:%d: %s\n", file, error.line, error.text);
        exit(1);
    }
    return root;
}

/* The gradient under test replaces that of the loss; call it before op `behind`. */
static inline void case_fill_gradient(const op_case *c, const rig *r) {
    if (c->gy == CAIRN_NONE)
        return;
    const cairn_tensor *tensor = cairn_graph_tensor(c->graph, c->gy);
    void *plain = rig_block(tensor->bytes);
    fill_values(plain, fill_count(tensor), "gy", 0, 1);
    rig_put(r, c->gy, plain);
    free(plain);
}

/* Fill everything that no op makes: inputs, labels, parameters, state; and that gradient. */
static inline void case_fill(const op_case *c, const rig *r) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(c->graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(c->graph, t);
        void *plain = rig_block(tensor->bytes);
        bool parameter = tensor->role == CAIRN_ROLE_PARAMETER || tensor->role == CAIRN_ROLE_STATE;
        if (tensor->role == CAIRN_ROLE_INPUT && tensor->dtype == CAIRN_DTYPE_F32)
            fill_input(plain, tensor, 0);
        else if (tensor->role == CAIRN_ROLE_INPUT)
            fill_labels(plain, tensor, 0, OP_CASE_TOKENS);
        if (tensor->role == CAIRN_ROLE_LABEL)
            fill_labels(plain, tensor, 0, OP_CASE_CLASSES);
        if (tensor->role == CAIRN_ROLE_LABEL && c->kind == CAIRN_OP_TOKEN_CROSS_ENTROPY)
            ((int32_t *)plain)[1] = -100; /* ignored */
        if (parameter)
            fill_parameter(plain, tensor);
        if (parameter || tensor->role == CAIRN_ROLE_INPUT || tensor->role == CAIRN_ROLE_LABEL)
            rig_put(r, t, plain);
        free(plain);
    }
    case_fill_gradient(c, r);
}

#endif
