/* layers.c: adds forward ops to a network, each with its parameters. */
#include "graph/graph_internal.h"
#include "graph/crn_graph.h"

#include <stdio.h>

#define LONGEST_NAME 200

static void join(char out[LONGEST_NAME], const char *name, const char *suffix) {
    snprintf(out, LONGEST_NAME, "%s.%s", name, suffix);
}

static cairn_id add_tensor(cairn_builder *builder, const char *name, cairn_role role,
                           cairn_dtype dtype, uint32_t rank, const uint32_t *shape) {
    cairn_tensor tensor = CAIRN_TENSOR_INIT;
    tensor.name = name;
    tensor.role = role;
    tensor.dtype = dtype;
    tensor.rank = rank;
    if (rank > CAIRN_MAX_RANK) {
        crn_builder_fail(builder, "a tensor has too many dimensions");
        return CAIRN_NONE;
    }
    memcpy(tensor.shape, shape, rank * sizeof *shape);
    return cairn_builder_tensor(builder, &tensor);
}

cairn_id crn_build_input(cairn_builder *builder, const char *name, uint32_t rank,
                         const uint32_t *shape) {
    return add_tensor(builder, name, CAIRN_ROLE_INPUT, CAIRN_DTYPE_F32, rank, shape);
}

cairn_id crn_build_tokens(cairn_builder *builder, const char *name, uint32_t rank,
                          const uint32_t *shape) {
    return add_tensor(builder, name, CAIRN_ROLE_INPUT, CAIRN_DTYPE_I32, rank, shape);
}

cairn_id crn_build_label(cairn_builder *builder, const char *name, uint32_t rank,
                         const uint32_t *shape) {
    return add_tensor(builder, name, CAIRN_ROLE_LABEL, CAIRN_DTYPE_I32, rank, shape);
}

cairn_id crn_build_parameter(cairn_builder *builder, const char *name, uint32_t rank,
                             const uint32_t *shape) {
    return add_tensor(builder, name, CAIRN_ROLE_PARAMETER, CAIRN_DTYPE_F32, rank, shape);
}

static cairn_id add_param(cairn_builder *builder, const char *name, const char *suffix,
                          cairn_role role, uint32_t rank, const uint32_t *shape) {
    char full[LONGEST_NAME];
    join(full, name, suffix);
    return add_tensor(builder, full, role, CAIRN_DTYPE_F32, rank, shape);
}

/* Add an op of a kind: infer its outputs, add them, and allow it to work in place where its kind
 * may. */
static cairn_id add_op(cairn_builder *builder, cairn_op_kind kind, const char *name,
                       uint32_t input_count, const cairn_id *inputs, uint32_t param_count,
                       const cairn_id *params, const cairn_attributes *attributes) {
    for (uint32_t i = 0; i < input_count && builder->status == CAIRN_OK; i++)
        if (inputs[i] >= builder->graph->tensors.length)
            crn_builder_fail(builder, "an op reads a tensor that does not exist");
    for (uint32_t i = 0; i < param_count && builder->status == CAIRN_OK; i++)
        if (params[i] >= builder->graph->tensors.length)
            crn_builder_fail(builder, "an op has a parameter that does not exist");
    if (builder->status != CAIRN_OK)
        return CAIRN_NONE;

    cairn_op op = {.name = name, .kind = kind, .phase = CAIRN_PHASE_FORWARD, .of = CAIRN_NONE};
    op.inputs = inputs;
    op.input_count = input_count;
    op.params = params;
    op.param_count = param_count;
    if (attributes != NULL)
        op.attributes = *attributes;
    op.attributes.struct_size = sizeof op.attributes;

    cairn_tensor made[CRN_MAX_FORWARD_OUTPUTS];
    builder->status = crn_infer_outputs(builder->graph, &op, made, &builder->err);
    if (builder->status != CAIRN_OK)
        return CAIRN_NONE;
    char internal[LONGEST_NAME];
    const char *suffix = crn_op_kinds[kind].internal;
    join(internal, name, suffix == NULL ? "" : suffix);
    made[0].name = name;
    made[1].name = internal;
    cairn_id outputs[CRN_MAX_FORWARD_OUTPUTS];
    op.output_count = crn_op_kinds[kind].most_outputs;
    for (uint32_t i = 0; i < op.output_count; i++)
        outputs[i] = cairn_builder_tensor(builder, &made[i]);
    op.outputs = outputs;
    op.inplace = crn_op_kinds[kind].inplace;
    op.inplace_count = crn_op_kinds[kind].inplace_count;
    return cairn_builder_op(builder, &op) == CAIRN_NONE ? CAIRN_NONE : outputs[0];
}

static int32_t or_one(uint32_t value) {
    return value == 0 ? 1 : (int32_t)CRN_MIN(value, INT32_MAX);
}

cairn_id crn_build_conv2d(cairn_builder *builder, const char *name, cairn_id x,
                          const crn_conv *conv) {
    cairn_attributes a = {.groups = or_one(conv->groups)};
    for (int i = 0; i < 2; i++) {
        a.kernel[i] = or_one(conv->kernel[i]);
        a.stride[i] = or_one(conv->stride[i]);
        a.dilation[i] = or_one(conv->dilation[i]);
    }
    memcpy(a.pad, conv->pad, sizeof a.pad);
    uint32_t channels = crn_builder_peek(builder, x).shape[1];
    uint32_t weight_shape[] = {conv->channels, channels / (uint32_t)a.groups, (uint32_t)a.kernel[0],
                               (uint32_t)a.kernel[1]};
    cairn_id params[2];
    params[0] = add_param(builder, name, "weight", CAIRN_ROLE_PARAMETER, 4, weight_shape);
    if (conv->bias)
        params[1] = add_param(builder, name, "bias", CAIRN_ROLE_PARAMETER, 1, &conv->channels);
    return add_op(builder, CAIRN_OP_CONV2D, name, 1, &x, conv->bias ? 2 : 1, params, &a);
}

cairn_id crn_build_conv_transpose2d(cairn_builder *builder, const char *name, cairn_id x,
                                    uint32_t channels, uint32_t factor) {
    cairn_attributes a = {0};
    for (int i = 0; i < 2; i++)
        a.kernel[i] = a.stride[i] = or_one(factor);
    uint32_t weight_shape[] = {crn_builder_peek(builder, x).shape[1], channels,
                               (uint32_t)a.kernel[0], (uint32_t)a.kernel[1]};
    cairn_id params[2];
    params[0] = add_param(builder, name, "weight", CAIRN_ROLE_PARAMETER, 4, weight_shape);
    params[1] = add_param(builder, name, "bias", CAIRN_ROLE_PARAMETER, 1, &channels);
    return add_op(builder, CAIRN_OP_CONV_TRANSPOSE2D, name, 1, &x, 2, params, &a);
}

/* The length of the last dimension; 0 after an error. */
static uint32_t last_of(const cairn_builder *builder, cairn_id x) {
    cairn_tensor tensor = crn_builder_peek(builder, x);
    return tensor.rank == 0 ? 0 : tensor.shape[tensor.rank - 1];
}

cairn_id crn_build_linear(cairn_builder *builder, const char *name, cairn_id x, uint32_t features) {
    uint32_t weight_shape[] = {features, last_of(builder, x)};
    cairn_id params[2];
    params[0] = add_param(builder, name, "weight", CAIRN_ROLE_PARAMETER, 2, weight_shape);
    params[1] = add_param(builder, name, "bias", CAIRN_ROLE_PARAMETER, 1, &features);
    return add_op(builder, CAIRN_OP_LINEAR, name, 1, &x, 2, params, NULL);
}

cairn_id crn_build_linear_with(cairn_builder *builder, const char *name, cairn_id x,
                               cairn_id weight, cairn_id bias, double deviation) {
    cairn_attributes a = {.deviation = deviation};
    cairn_id params[] = {weight, bias};
    return add_op(builder, CAIRN_OP_LINEAR, name, 1, &x, bias == CAIRN_NONE ? 1 : 2, params, &a);
}

cairn_id crn_build_batch_norm(cairn_builder *builder, const char *name, cairn_id x,
                              double epsilon) {
    cairn_attributes a = {.epsilon = epsilon, .momentum = 0.1};
    uint32_t channels = crn_builder_peek(builder, x).shape[1];
    cairn_id params[4];
    params[0] = add_param(builder, name, "weight", CAIRN_ROLE_PARAMETER, 1, &channels);
    params[1] = add_param(builder, name, "bias", CAIRN_ROLE_PARAMETER, 1, &channels);
    params[2] = add_param(builder, name, "running_mean", CAIRN_ROLE_STATE, 1, &channels);
    params[3] = add_param(builder, name, "running_var", CAIRN_ROLE_STATE, 1, &channels);
    return add_op(builder, CAIRN_OP_BATCH_NORM, name, 1, &x, 4, params, &a);
}

cairn_id crn_build_relu(cairn_builder *builder, const char *name, cairn_id x) {
    return add_op(builder, CAIRN_OP_RELU, name, 1, &x, 0, NULL, NULL);
}

cairn_id crn_build_dropout(cairn_builder *builder, const char *name, cairn_id x,
                           double probability) {
    cairn_attributes a = {.probability = probability};
    return add_op(builder, CAIRN_OP_DROPOUT, name, 1, &x, 0, NULL, &a);
}

static cairn_attributes window(uint32_t kernel, uint32_t stride, uint32_t pad) {
    cairn_attributes a = {0};
    for (int i = 0; i < 2; i++) {
        a.kernel[i] = or_one(kernel);
        a.stride[i] = or_one(stride);
    }
    for (int i = 0; i < 4; i++)
        a.pad[i] = (int32_t)CRN_MIN(pad, INT32_MAX);
    return a;
}

cairn_id crn_build_max_pool(cairn_builder *builder, const char *name, cairn_id x, uint32_t kernel,
                            uint32_t stride, uint32_t pad) {
    cairn_attributes a = window(kernel, stride, pad);
    return add_op(builder, CAIRN_OP_MAX_POOL, name, 1, &x, 0, NULL, &a);
}

cairn_id crn_build_avg_pool(cairn_builder *builder, const char *name, cairn_id x, uint32_t kernel,
                            uint32_t stride, uint32_t pad, bool count_padding) {
    cairn_attributes a = window(kernel, stride, pad);
    a.count_padding = count_padding;
    return add_op(builder, CAIRN_OP_AVG_POOL, name, 1, &x, 0, NULL, &a);
}

cairn_id crn_build_adaptive_avg_pool(cairn_builder *builder, const char *name, cairn_id x,
                                     uint32_t height, uint32_t width) {
    cairn_attributes a = {.size = {or_one(height), or_one(width)}};
    return add_op(builder, CAIRN_OP_ADAPTIVE_AVG_POOL, name, 1, &x, 0, NULL, &a);
}

cairn_id crn_build_add(cairn_builder *builder, const char *name, cairn_id a, cairn_id b) {
    cairn_id inputs[] = {a, b};
    return add_op(builder, CAIRN_OP_ADD, name, 2, inputs, 0, NULL, NULL);
}

cairn_id crn_build_concat(cairn_builder *builder, const char *name, const cairn_id *inputs,
                          uint32_t count) {
    return add_op(builder, CAIRN_OP_CONCAT, name, count, inputs, 0, NULL, NULL);
}

cairn_id crn_build_flatten(cairn_builder *builder, const char *name, cairn_id x) {
    return add_op(builder, CAIRN_OP_FLATTEN, name, 1, &x, 0, NULL, NULL);
}

cairn_id crn_build_select(cairn_builder *builder, const char *name, cairn_id x, uint32_t index) {
    cairn_attributes a = {.index = (int32_t)CRN_MIN(index, INT32_MAX)};
    return add_op(builder, CAIRN_OP_SELECT, name, 1, &x, 0, NULL, &a);
}

cairn_id crn_build_rnn_cell(cairn_builder *builder, const char *name, cairn_id x, cairn_id state,
                            const cairn_id params[4]) {
    cairn_id inputs[] = {x, state};
    return add_op(builder, CAIRN_OP_RNN_CELL, name, 2, inputs, 4, params, NULL);
}

cairn_id crn_build_lstm_cell(cairn_builder *builder, const char *name, cairn_id x, cairn_id state,
                             const cairn_id params[4]) {
    cairn_id inputs[] = {x, state};
    return add_op(builder, CAIRN_OP_LSTM_CELL, name, 2, inputs, 4, params, NULL);
}

cairn_id crn_build_cross_entropy(cairn_builder *builder, const char *name, cairn_id logits,
                                 cairn_id labels) {
    return crn_build_smoothed_cross_entropy(builder, name, logits, labels, 0);
}

cairn_id crn_build_smoothed_cross_entropy(cairn_builder *builder, const char *name, cairn_id logits,
                                          cairn_id labels, double smoothing) {
    cairn_id inputs[] = {logits, labels};
    cairn_attributes a = {.smoothing = smoothing};
    return add_op(builder, CAIRN_OP_CROSS_ENTROPY, name, 2, inputs, 0, NULL, &a);
}

/* ---- Sequences of tokens ---- */

cairn_id crn_build_embedding(cairn_builder *builder, const char *name, cairn_id tokens,
                             cairn_id weight, double deviation) {
    cairn_attributes a = {.deviation = deviation};
    return add_op(builder, CAIRN_OP_EMBEDDING, name, 1, &tokens, 1, &weight, &a);
}

cairn_id crn_build_add_positions(cairn_builder *builder, const char *name, cairn_id x,
                                 cairn_id weight, bool same_row, double deviation) {
    cairn_attributes a = {.same_row = same_row, .deviation = deviation};
    return add_op(builder, CAIRN_OP_ADD_POSITIONS, name, 1, &x, 1, &weight, &a);
}

cairn_id crn_build_image_tokens(cairn_builder *builder, const char *name, cairn_id x,
                                cairn_id class_token) {
    return add_op(builder, CAIRN_OP_IMAGE_TOKENS, name, 1, &x, class_token != CAIRN_NONE,
                  &class_token, NULL);
}

cairn_id crn_build_select_token(cairn_builder *builder, const char *name, cairn_id x,
                                uint32_t index) {
    cairn_attributes a = {.index = (int32_t)CRN_MIN(index, INT32_MAX)};
    return add_op(builder, CAIRN_OP_SELECT_TOKEN, name, 1, &x, 0, NULL, &a);
}

cairn_id crn_build_layer_norm(cairn_builder *builder, const char *name, cairn_id x,
                              double epsilon) {
    cairn_attributes a = {.epsilon = epsilon};
    uint32_t width = last_of(builder, x);
    cairn_id params[2];
    params[0] = add_param(builder, name, "weight", CAIRN_ROLE_PARAMETER, 1, &width);
    params[1] = add_param(builder, name, "bias", CAIRN_ROLE_PARAMETER, 1, &width);
    return add_op(builder, CAIRN_OP_LAYER_NORM, name, 1, &x, 2, params, &a);
}

cairn_id crn_build_rms_norm(cairn_builder *builder, const char *name, cairn_id x, double epsilon) {
    cairn_attributes a = {.epsilon = epsilon};
    uint32_t width = last_of(builder, x);
    cairn_id weight = add_param(builder, name, "weight", CAIRN_ROLE_PARAMETER, 1, &width);
    return add_op(builder, CAIRN_OP_RMS_NORM, name, 1, &x, 1, &weight, &a);
}

static cairn_attributes heads_of(uint32_t heads, uint32_t kv_heads) {
    cairn_attributes a = {.heads = (int32_t)CRN_MIN(heads, INT32_MAX),
                          .kv_heads = (int32_t)CRN_MIN(kv_heads, INT32_MAX)};
    return a;
}

cairn_id crn_build_rotary(cairn_builder *builder, const char *name, cairn_id x, uint32_t heads,
                          uint32_t kv_heads, double theta) {
    return crn_build_scaled_rotary(builder, name, x, heads, kv_heads, theta, 0);
}

cairn_id crn_build_scaled_rotary(cairn_builder *builder, const char *name, cairn_id x,
                                 uint32_t heads, uint32_t kv_heads, double theta, double scaling) {
    cairn_attributes a = heads_of(heads, kv_heads);
    a.theta = theta;
    a.scaling = scaling;
    return add_op(builder, CAIRN_OP_ROTARY, name, 1, &x, 0, NULL, &a);
}

cairn_id crn_build_attention(cairn_builder *builder, const char *name, cairn_id x, uint32_t heads,
                             uint32_t kv_heads, bool causal) {
    cairn_attributes a = heads_of(heads, kv_heads);
    a.causal = causal;
    return add_op(builder, CAIRN_OP_ATTENTION, name, 1, &x, 0, NULL, &a);
}

cairn_id crn_build_gelu(cairn_builder *builder, const char *name, cairn_id x, bool tanh) {
    cairn_attributes a = {.tanh = tanh};
    return add_op(builder, CAIRN_OP_GELU, name, 1, &x, 0, NULL, &a);
}

cairn_id crn_build_silu(cairn_builder *builder, const char *name, cairn_id x) {
    return add_op(builder, CAIRN_OP_SILU, name, 1, &x, 0, NULL, NULL);
}

cairn_id crn_build_multiply(cairn_builder *builder, const char *name, cairn_id a, cairn_id b) {
    cairn_id inputs[] = {a, b};
    return add_op(builder, CAIRN_OP_MULTIPLY, name, 2, inputs, 0, NULL, NULL);
}

cairn_id crn_build_swiglu(cairn_builder *builder, const char *name, cairn_id x) {
    return add_op(builder, CAIRN_OP_SWIGLU, name, 1, &x, 0, NULL, NULL);
}

cairn_id crn_build_token_cross_entropy(cairn_builder *builder, const char *name, cairn_id logits,
                                       cairn_id labels, double smoothing) {
    cairn_id inputs[] = {logits, labels};
    cairn_attributes a = {.smoothing = smoothing};
    return add_op(builder, CAIRN_OP_TOKEN_CROSS_ENTROPY, name, 2, inputs, 0, NULL, &a);
}

cairn_id crn_build_op(cairn_builder *builder, cairn_op_kind kind, const char *name,
                      uint32_t input_count, const cairn_id *inputs, uint32_t param_count,
                      const cairn_id *params, const cairn_attributes *attributes) {
    return add_op(builder, kind, name, input_count, inputs, param_count, params, attributes);
}
