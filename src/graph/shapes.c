/* shapes.c: the output shapes of each kind of forward op, and the input shapes that it accepts.
 *
 * One function per kind fills in the outputs. The builder makes tensors from the result; the
 * validation compares tensors with it. */
#include "graph/graph_internal.h"

#include <stdio.h>

typedef struct inference {
    const cairn_graph *graph;
    const cairn_op *op;
    cairn_tensor *out;
    cairn_error *err;
} inference;

static const cairn_tensor *input(const inference *at, uint32_t index) {
    return &at->graph->tensors.data[at->op->inputs[index]];
}

static const cairn_tensor *param(const inference *at, uint32_t index) {
    return &at->graph->tensors.data[at->op->params[index]];
}

/* " [8, 16, 14, 14] [16]" */
static void list_shapes(const inference *at, const cairn_id *tensors, uint32_t count, char *out,
                        size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < count && i < 4 && used < size; i++) {
        const cairn_tensor *t = &at->graph->tensors.data[tensors[i]];
        used += (size_t)snprintf(out + used, size - used, " [");
        for (uint32_t d = 0; d < t->rank && used < size; d++)
            used +=
                (size_t)snprintf(out + used, size - used, "%s%u", d > 0 ? ", " : "", t->shape[d]);
        if (used < size)
            used += (size_t)snprintf(out + used, size - used, "]");
    }
}

/* What was expected, and what was found. */
static cairn_status refuse(const inference *at, const char *what) {
    char reads[160], params[160];
    const cairn_op *op = at->op;
    list_shapes(at, op->inputs, op->input_count, reads, sizeof reads);
    list_shapes(at, op->params, op->param_count, params, sizeof params);
    return crn_fail_at(at->err, CAIRN_EINVAL, op->name, "op \"%s\" (%s) %s; it reads%s%s%s",
                       op->name, crn_op_kinds[op->kind].name, what, reads,
                       op->param_count > 0 ? ", and its parameters are" : "", params);
}

static void set_shape(cairn_tensor *tensor, uint32_t rank, const uint32_t *shape) {
    tensor->rank = rank;
    memcpy(tensor->shape, shape, rank * sizeof *shape);
}

#define SHAPE(tensor, ...)                                                                         \
    set_shape(tensor, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),                        \
              (uint32_t[]){__VA_ARGS__})

static bool has_shape(const cairn_tensor *tensor, uint32_t rank, const uint32_t *shape) {
    return tensor->dtype == CAIRN_DTYPE_F32 && tensor->rank == rank &&
           memcmp(tensor->shape, shape, rank * sizeof *shape) == 0;
}

#define HAS_SHAPE(tensor, ...)                                                                     \
    has_shape(tensor, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),                        \
              (uint32_t[]){__VA_ARGS__})

static cairn_status want_image(const inference *at) {
    const cairn_tensor *x = input(at, 0);
    if (x->rank != 4 || x->dtype != CAIRN_DTYPE_F32)
        return refuse(at, "needs an input of shape [N, C, H, W]");
    return CAIRN_OK;
}

/* The length of a window's output along one axis; 0 if the window does not fit. */
static uint32_t windows(uint32_t length, int64_t kernel, int64_t stride, int64_t dilation,
                        int64_t pad) {
    int64_t room = (int64_t)length + pad - dilation * (kernel - 1) - 1;
    return room < 0 ? 0 : (uint32_t)(room / stride + 1);
}

static cairn_status want_window(const inference *at) {
    const cairn_attributes *a = &at->op->attributes;
    for (int axis = 0; axis < 2; axis++) {
        bool dilated = (crn_op_kinds[at->op->kind].attributes & A_DILATION) != 0;
        if (a->kernel[axis] < 1 || a->stride[axis] < 1 || (dilated && a->dilation[axis] < 1))
            return refuse(at, "has a kernel, stride or dilation below 1");
        if (a->kernel[axis] > 65536 || a->stride[axis] > 65536 || a->dilation[axis] > 65536)
            return refuse(at, "has a kernel, stride or dilation above 65536");
    }
    for (int side = 0; side < 4; side++)
        if (a->pad[side] < -65536 || a->pad[side] > 65536)
            return refuse(at, "has a padding beyond 65536");
    return CAIRN_OK;
}

/* The image that a window sliding over input 0 gives, with `channels`. */
static cairn_status slide(const inference *at, uint32_t channels, int64_t dilation_y,
                          int64_t dilation_x) {
    const cairn_attributes *a = &at->op->attributes;
    const cairn_tensor *x = input(at, 0);
    uint32_t height = windows(x->shape[2], a->kernel[0], a->stride[0], dilation_y,
                              (int64_t)a->pad[0] + a->pad[2]);
    uint32_t width = windows(x->shape[3], a->kernel[1], a->stride[1], dilation_x,
                             (int64_t)a->pad[1] + a->pad[3]);
    if (height == 0 || width == 0) {
        char what[160];
        snprintf(what, sizeof what,
                 "has a %dx%d window that does not fit its %ux%u input; use a "
                 "larger input",
                 a->kernel[0], a->kernel[1], x->shape[2], x->shape[3]);
        return refuse(at, what);
    }
    SHAPE(&at->out[0], x->shape[0], channels, height, width);
    return CAIRN_OK;
}

static cairn_status want_bias(const inference *at, uint32_t channels) {
    if (at->op->param_count == 2 && !HAS_SHAPE(param(at, 1), channels))
        return refuse(at, "has a bias of the wrong shape");
    return CAIRN_OK;
}

static cairn_status infer_conv2d(const inference *at) {
    const cairn_attributes *a = &at->op->attributes;
    CRN_TRY(want_image(at));
    CRN_TRY(want_window(at));
    const cairn_tensor *x = input(at, 0), *weight = param(at, 0);
    if (a->groups < 1 || x->shape[1] % (uint32_t)a->groups != 0 || weight->rank != 4 ||
        weight->shape[0] % (uint32_t)a->groups != 0)
        return refuse(at, "has groups that do not divide its channels");
    if (!HAS_SHAPE(weight, weight->shape[0], x->shape[1] / (uint32_t)a->groups,
                   (uint32_t)a->kernel[0], (uint32_t)a->kernel[1]))
        return refuse(at, "has a weight of the wrong shape");
    CRN_TRY(want_bias(at, weight->shape[0]));
    return slide(at, weight->shape[0], a->dilation[0], a->dilation[1]);
}

static cairn_status infer_conv_transpose2d(const inference *at) {
    const cairn_attributes *a = &at->op->attributes;
    CRN_TRY(want_image(at));
    CRN_TRY(want_window(at));
    const cairn_tensor *x = input(at, 0), *weight = param(at, 0);
    if (weight->rank != 4 || !HAS_SHAPE(weight, x->shape[1], weight->shape[1],
                                        (uint32_t)a->kernel[0], (uint32_t)a->kernel[1]))
        return refuse(at, "has a weight of the wrong shape");
    CRN_TRY(want_bias(at, weight->shape[1]));
    uint64_t height = (uint64_t)(x->shape[2] - 1) * (uint32_t)a->stride[0] + (uint32_t)a->kernel[0];
    uint64_t width = (uint64_t)(x->shape[3] - 1) * (uint32_t)a->stride[1] + (uint32_t)a->kernel[1];
    if (height > UINT32_MAX || width > UINT32_MAX)
        return refuse(at, "makes an image that is too large");
    SHAPE(&at->out[0], x->shape[0], weight->shape[1], (uint32_t)height, (uint32_t)width);
    return CAIRN_OK;
}

/* The number of rows of input 0, each along its last dimension. */
static cairn_status want_rows(const inference *at, uint32_t *rows) {
    const cairn_tensor *x = input(at, 0);
    uint64_t count = 1;
    if (x->rank < 2 || x->dtype != CAIRN_DTYPE_F32)
        return refuse(at, "needs an input of shape [..., F]");
    for (uint32_t i = 0; i + 1 < x->rank; i++)
        if (!crn_mul_u64(count, x->shape[i], &count) || count > UINT32_MAX)
            return refuse(at, "has an input of too many rows");
    *rows = (uint32_t)count;
    return CAIRN_OK;
}

/* Output 0 has the shape of input 0, except for its last dimension. */
static void set_last(const inference *at, uint32_t last) {
    const cairn_tensor *x = input(at, 0);
    set_shape(&at->out[0], x->rank, x->shape);
    at->out[0].shape[x->rank - 1] = last;
}

static cairn_status infer_linear(const inference *at) {
    const cairn_tensor *x = input(at, 0), *weight = param(at, 0);
    uint32_t rows;
    CRN_TRY(want_rows(at, &rows));
    if (weight->rank != 2 || !HAS_SHAPE(weight, weight->shape[0], x->shape[x->rank - 1]))
        return refuse(at, "has a weight of the wrong shape");
    CRN_TRY(want_bias(at, weight->shape[0]));
    set_last(at, weight->shape[0]);
    return CAIRN_OK;
}

static cairn_status want_epsilon(const inference *at) {
    double epsilon = at->op->attributes.epsilon;
    return epsilon >= 0 && epsilon < 1 ? CAIRN_OK : refuse(at, "has an epsilon outside 0 <= e < 1");
}

static cairn_status infer_batch_norm(const inference *at) {
    CRN_TRY(want_image(at));
    CRN_TRY(want_epsilon(at));
    const cairn_tensor *x = input(at, 0);
    for (uint32_t i = 0; i < 4; i++)
        if (!HAS_SHAPE(param(at, i), x->shape[1]) ||
            param(at, i)->role != (i < 2 ? CAIRN_ROLE_PARAMETER : CAIRN_ROLE_STATE))
            return refuse(at, "needs weight, bias, running mean and variance, each of shape [C]");
    set_shape(&at->out[0], x->rank, x->shape);
    SHAPE(&at->out[1], 2, x->shape[1]);
    return CAIRN_OK;
}

static cairn_status infer_same(const inference *at) {
    const cairn_tensor *x = input(at, 0);
    if (x->rank == 0 || x->dtype != CAIRN_DTYPE_F32)
        return refuse(at, "needs an input with a shape");
    set_shape(&at->out[0], x->rank, x->shape);
    return CAIRN_OK;
}

static cairn_status infer_dropout(const inference *at) {
    double p = at->op->attributes.probability;
    if (!(p >= 0 && p < 1))
        return refuse(at, "has a probability outside 0 <= p < 1");
    return infer_same(at);
}

/* The output of a window that slides over each channel. */
static cairn_status infer_pool(const inference *at) {
    const cairn_attributes *a = &at->op->attributes;
    CRN_TRY(want_image(at));
    CRN_TRY(want_window(at));
    for (int side = 0; side < 4; side++)
        if (a->pad[side] < 0 || 2 * a->pad[side] > a->kernel[side % 2])
            return refuse(at, "has a padding of more than half of its kernel");
    return slide(at, input(at, 0)->shape[1], 1, 1);
}

static cairn_status infer_max_pool(const inference *at) {
    const cairn_attributes *a = &at->op->attributes;
    CRN_TRY(infer_pool(at));
    set_shape(&at->out[1], at->out[0].rank, at->out[0].shape);
    /* The place of the maximum in its window: a byte is enough for windows of up to 256
     * elements. */
    at->out[1].dtype =
        a->kernel[0] * (int64_t)a->kernel[1] <= 256 ? CAIRN_DTYPE_U8 : CAIRN_DTYPE_I32;
    return CAIRN_OK;
}

static cairn_status infer_adaptive_avg_pool(const inference *at) {
    CRN_TRY(want_image(at));
    const cairn_tensor *x = input(at, 0);
    const int32_t *size = at->op->attributes.size;
    if (size[0] < 1 || size[1] < 1)
        return refuse(at, "has an output size below 1");
    SHAPE(&at->out[0], x->shape[0], x->shape[1], (uint32_t)size[0], (uint32_t)size[1]);
    return CAIRN_OK;
}

static cairn_status infer_add(const inference *at) {
    if (!crn_same_shape(input(at, 0), input(at, 1)))
        return refuse(at, "adds tensors of different shapes");
    return infer_same(at);
}

static cairn_status infer_concat(const inference *at) {
    CRN_TRY(want_image(at));
    const cairn_tensor *first = input(at, 0);
    uint64_t channels = 0;
    for (uint32_t i = 0; i < at->op->input_count; i++) {
        const cairn_tensor *x = input(at, i);
        if (x->rank != 4 ||
            !HAS_SHAPE(x, first->shape[0], x->shape[1], first->shape[2], first->shape[3]))
            return refuse(at, "joins images that differ in more than their channels");
        channels += x->shape[1];
    }
    if (channels > INT32_MAX)
        return refuse(at, "makes an image that is too large");
    SHAPE(&at->out[0], first->shape[0], (uint32_t)channels, first->shape[2], first->shape[3]);
    return CAIRN_OK;
}

static cairn_status infer_flatten(const inference *at) {
    const cairn_tensor *x = input(at, 0);
    if (x->rank < 2)
        return refuse(at, "needs an input of at least two dimensions");
    uint64_t features = 1;
    for (uint32_t i = 1; i < x->rank; i++)
        if (!crn_mul_u64(features, x->shape[i], &features) || features > UINT32_MAX)
            return refuse(at, "makes a row that is too long");
    SHAPE(&at->out[0], x->shape[0], (uint32_t)features);
    at->out[0].dtype = x->dtype;
    at->out[0].alias_of = x->alias_of == CAIRN_NONE ? at->op->inputs[0] : x->alias_of;
    return CAIRN_OK;
}

static cairn_status infer_select(const inference *at) {
    const cairn_tensor *x = input(at, 0);
    int32_t index = at->op->attributes.index;
    if (x->rank < 2 || x->dtype != CAIRN_DTYPE_F32 || index < 0 || (uint32_t)index >= x->shape[0])
        return refuse(at, "selects a slice that its input does not have");
    set_shape(&at->out[0], x->rank - 1, x->shape + 1);
    return CAIRN_OK;
}

/* x [N, F]; weights [G*H, F] and [G*H, H]; biases [G*H]. */
static cairn_status want_cell(const inference *at, uint32_t gates, uint32_t rows, uint32_t hidden) {
    const cairn_tensor *x = input(at, 0);
    if (x->rank != 2 || x->shape[0] != rows || hidden > UINT32_MAX / 4)
        return refuse(at, "needs an input of shape [N, F] and a state for as many rows");
    uint32_t wide = gates * hidden;
    if (!HAS_SHAPE(param(at, 0), wide, x->shape[1]) || !HAS_SHAPE(param(at, 1), wide, hidden) ||
        !HAS_SHAPE(param(at, 2), wide) || !HAS_SHAPE(param(at, 3), wide))
        return refuse(at, "has weights of the wrong shape");
    return CAIRN_OK;
}

static cairn_status infer_rnn_cell(const inference *at) {
    const cairn_tensor *state = input(at, 1);
    if (state->rank != 2 || state->dtype != CAIRN_DTYPE_F32)
        return refuse(at, "needs a state of shape [N, H]");
    CRN_TRY(want_cell(at, 1, state->shape[0], state->shape[1]));
    set_shape(&at->out[0], 2, state->shape);
    return CAIRN_OK;
}

static cairn_status infer_lstm_cell(const inference *at) {
    const cairn_tensor *state = input(at, 1);
    if (state->rank != 3 || state->shape[0] != 2 || state->dtype != CAIRN_DTYPE_F32)
        return refuse(at, "needs a state of shape [2, N, H]");
    CRN_TRY(want_cell(at, 4, state->shape[1], state->shape[2]));
    set_shape(&at->out[0], 3, state->shape);
    SHAPE(&at->out[1], 4, state->shape[1], state->shape[2]);
    return CAIRN_OK;
}

static cairn_status infer_loss(const inference *at) {
    const cairn_tensor *logits = input(at, 0);
    double smoothing = at->op->attributes.smoothing;
    if (!(smoothing >= 0 && smoothing < 1))
        return refuse(at, "has a smoothing outside 0 <= s < 1");
    SHAPE(&at->out[0], 1);
    at->out[0].role = CAIRN_ROLE_LOSS;
    set_shape(&at->out[1], logits->rank, logits->shape);
    return CAIRN_OK;
}

static cairn_status infer_cross_entropy(const inference *at) {
    const cairn_tensor *logits = input(at, 0), *labels = input(at, 1);
    bool fits = labels->dtype == CAIRN_DTYPE_I32 && logits->dtype == CAIRN_DTYPE_F32 &&
                logits->rank >= 2 && labels->rank == logits->rank - 1 &&
                labels->shape[0] == logits->shape[0];
    for (uint32_t i = 1; fits && i < labels->rank; i++)
        fits = labels->shape[i] == logits->shape[i + 1];
    if (!fits)
        return refuse(at, "needs logits [N, C, ...] and integer labels [N, ...]");
    return infer_loss(at);
}

/* ---- Sequences of tokens ---- */

static cairn_status want_sequence(const inference *at) {
    const cairn_tensor *x = input(at, 0);
    if (x->rank != 3 || x->dtype != CAIRN_DTYPE_F32)
        return refuse(at, "needs an input of shape [N, T, D]");
    return CAIRN_OK;
}

static cairn_status infer_embedding(const inference *at) {
    const cairn_tensor *tokens = input(at, 0), *weight = param(at, 0);
    if (tokens->dtype != CAIRN_DTYPE_I32 || tokens->rank < 1 || tokens->rank >= CAIRN_MAX_RANK)
        return refuse(at, "needs integer tokens of shape [N, T]");
    if (weight->rank != 2 || weight->dtype != CAIRN_DTYPE_F32 || weight->shape[0] > INT32_MAX)
        return refuse(at, "needs a weight of shape [V, D]");
    set_shape(&at->out[0], tokens->rank, tokens->shape);
    at->out[0].shape[at->out[0].rank++] = weight->shape[1];
    return CAIRN_OK;
}

static cairn_status infer_add_positions(const inference *at) {
    CRN_TRY(want_sequence(at));
    const cairn_tensor *x = input(at, 0), *weight = param(at, 0);
    uint32_t least = at->op->attributes.same_row ? 1 : x->shape[1];
    if (weight->rank != 2 || !HAS_SHAPE(weight, weight->shape[0], x->shape[2]))
        return refuse(at, "has a weight of the wrong shape");
    if (weight->shape[0] < least)
        return refuse(at, "has fewer positions than its input has tokens");
    return infer_same(at);
}

static cairn_status infer_image_tokens(const inference *at) {
    CRN_TRY(want_image(at));
    const cairn_tensor *x = input(at, 0);
    uint64_t tokens = (uint64_t)x->shape[2] * x->shape[3] + at->op->param_count;
    if (at->op->param_count > 0 && !HAS_SHAPE(param(at, 0), x->shape[1]))
        return refuse(at, "has a class token of the wrong shape");
    if (tokens > INT32_MAX)
        return refuse(at, "makes a sequence that is too long");
    SHAPE(&at->out[0], x->shape[0], (uint32_t)tokens, x->shape[1]);
    return CAIRN_OK;
}

static cairn_status infer_select_token(const inference *at) {
    CRN_TRY(want_sequence(at));
    const cairn_tensor *x = input(at, 0);
    int32_t index = at->op->attributes.index;
    if (index < 0 || (uint32_t)index >= x->shape[1])
        return refuse(at, "selects a token that its input does not have");
    SHAPE(&at->out[0], x->shape[0], x->shape[2]);
    return CAIRN_OK;
}

static cairn_status want_row_parameters(const inference *at) {
    const cairn_tensor *x = input(at, 0);
    for (uint32_t i = 0; i < at->op->param_count; i++)
        if (!HAS_SHAPE(param(at, i), x->shape[x->rank - 1]))
            return refuse(at, "has a weight or bias of the wrong shape");
    return CAIRN_OK;
}

static cairn_status infer_layer_norm(const inference *at) {
    uint32_t rows;
    CRN_TRY(want_epsilon(at));
    CRN_TRY(want_rows(at, &rows));
    CRN_TRY(want_row_parameters(at));
    SHAPE(&at->out[1], 2, rows);
    return infer_same(at);
}

static cairn_status infer_rms_norm(const inference *at) {
    uint32_t rows;
    CRN_TRY(want_epsilon(at));
    CRN_TRY(want_rows(at, &rows));
    CRN_TRY(want_row_parameters(at));
    SHAPE(&at->out[1], rows);
    return infer_same(at);
}

/* x is [N, T, (heads + 2 kv_heads) * d]; `*size` is d. */
static cairn_status want_heads(const inference *at, uint32_t *size) {
    CRN_TRY(want_sequence(at));
    const cairn_attributes *a = &at->op->attributes;
    uint32_t width = input(at, 0)->shape[2];
    if (a->heads < 1 || a->kv_heads < 1 || a->heads % a->kv_heads != 0)
        return refuse(at, "needs heads that are a multiple of its key and value heads");
    uint64_t all_heads = (uint64_t)a->heads + 2 * (uint64_t)a->kv_heads;
    if (width % all_heads != 0)
        return refuse(at, "has an input that its heads do not divide");
    *size = (uint32_t)(width / all_heads);
    return CAIRN_OK;
}

static cairn_status infer_rotary(const inference *at) {
    uint32_t size;
    CRN_TRY(want_heads(at, &size));
    if (size % 2 != 0)
        return refuse(at, "needs heads of even size");
    if (!(at->op->attributes.theta > 0))
        return refuse(at, "needs a theta above 0");
    if (!(at->op->attributes.scaling >= 0))
        return refuse(at, "needs a scaling of 0 or more");
    return infer_same(at);
}

static cairn_status infer_attention(const inference *at) {
    const cairn_tensor *x = input(at, 0);
    uint32_t size, heads = (uint32_t)at->op->attributes.heads;
    CRN_TRY(want_heads(at, &size));
    SHAPE(&at->out[0], x->shape[0], x->shape[1], heads * size);
    SHAPE(&at->out[1], x->shape[0], heads, x->shape[1]);
    return CAIRN_OK;
}

static cairn_status infer_multiply(const inference *at) {
    if (at->op->inputs[0] == at->op->inputs[1])
        return refuse(at, "multiplies a tensor by itself");
    if (!crn_same_shape(input(at, 0), input(at, 1)))
        return refuse(at, "multiplies tensors of different shapes");
    return infer_same(at);
}

static cairn_status infer_swiglu(const inference *at) {
    const cairn_tensor *x = input(at, 0);
    uint32_t rows;
    CRN_TRY(want_rows(at, &rows));
    if (x->shape[x->rank - 1] % 2 != 0)
        return refuse(at, "needs rows of even length");
    set_last(at, x->shape[x->rank - 1] / 2);
    return CAIRN_OK;
}

static cairn_status infer_token_cross_entropy(const inference *at) {
    const cairn_tensor *logits = input(at, 0), *labels = input(at, 1);
    uint32_t rows;
    CRN_TRY(want_rows(at, &rows));
    if (labels->dtype != CAIRN_DTYPE_I32 || labels->rank != logits->rank - 1 ||
        memcmp(labels->shape, logits->shape, labels->rank * sizeof *labels->shape) != 0)
        return refuse(at, "needs logits [N, T, V] and integer labels [N, T]");
    return infer_loss(at);
}

static cairn_status (*const infer[CAIRN_OP_KINDS])(const inference *at) = {
    [CAIRN_OP_CONV2D] = infer_conv2d,
    [CAIRN_OP_CONV_TRANSPOSE2D] = infer_conv_transpose2d,
    [CAIRN_OP_LINEAR] = infer_linear,
    [CAIRN_OP_BATCH_NORM] = infer_batch_norm,
    [CAIRN_OP_RELU] = infer_same,
    [CAIRN_OP_DROPOUT] = infer_dropout,
    [CAIRN_OP_MAX_POOL] = infer_max_pool,
    [CAIRN_OP_AVG_POOL] = infer_pool,
    [CAIRN_OP_ADAPTIVE_AVG_POOL] = infer_adaptive_avg_pool,
    [CAIRN_OP_ADD] = infer_add,
    [CAIRN_OP_CONCAT] = infer_concat,
    [CAIRN_OP_FLATTEN] = infer_flatten,
    [CAIRN_OP_SELECT] = infer_select,
    [CAIRN_OP_RNN_CELL] = infer_rnn_cell,
    [CAIRN_OP_LSTM_CELL] = infer_lstm_cell,
    [CAIRN_OP_CROSS_ENTROPY] = infer_cross_entropy,
    [CAIRN_OP_EMBEDDING] = infer_embedding,
    [CAIRN_OP_ADD_POSITIONS] = infer_add_positions,
    [CAIRN_OP_IMAGE_TOKENS] = infer_image_tokens,
    [CAIRN_OP_SELECT_TOKEN] = infer_select_token,
    [CAIRN_OP_LAYER_NORM] = infer_layer_norm,
    [CAIRN_OP_RMS_NORM] = infer_rms_norm,
    [CAIRN_OP_ROTARY] = infer_rotary,
    [CAIRN_OP_ATTENTION] = infer_attention,
    [CAIRN_OP_GELU] = infer_same,
    [CAIRN_OP_SILU] = infer_same,
    [CAIRN_OP_MULTIPLY] = infer_multiply,
    [CAIRN_OP_SWIGLU] = infer_swiglu,
    [CAIRN_OP_TOKEN_CROSS_ENTROPY] = infer_token_cross_entropy,
};

bool crn_is_forward_kind(cairn_op_kind kind) {
    return infer[kind] != NULL;
}

cairn_status crn_infer_outputs(const cairn_graph *graph, const cairn_op *op,
                               cairn_tensor out[CRN_MAX_FORWARD_OUTPUTS], cairn_error *err) {
    /* The first output is the result of the op; a second one is only for its backward op. */
    out[0] = out[1] = (cairn_tensor)CAIRN_TENSOR_INIT;
    out[0].role = CAIRN_ROLE_ACTIVATION;
    out[1].role = CAIRN_ROLE_INTERNAL;
    if (infer[op->kind] == NULL)
        return crn_fail(err, CAIRN_EINVAL, "%s is not an op of a network",
                        crn_op_kinds[op->kind].name);
    return infer[op->kind](&(inference){graph, op, out, err});
}
