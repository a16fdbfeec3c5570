/* sequence_comparisons.h: the kernels for sequences of tokens against `ref`. */
#ifndef SEQUENCE_COMPARISONS_H
#define SEQUENCE_COMPARISONS_H

#include "backend/rotary_frequency.h"
#include "cuda/row_comparisons.h"

/* A plain output of elements, or NULL if it is not wanted. */
static void *result(comparison *at, const cairn_op *op, uint32_t output) {
    return wanted(op, output) ? empty(at, op->outputs[output], kernel_rig_element(&at->k)) : NULL;
}

static float *float_result(comparison *at, const cairn_op *op, uint32_t output) {
    return wanted(op, output) ? empty(at, op->outputs[output], 4) : NULL;
}

static uint32_t last_of(const cairn_tensor *t) {
    return t->shape[t->rank - 1];
}

/* ---- Norms of rows ---- */

static crn_row_norm_args row_norm_of(comparison *at, const cairn_op *op, bool centred,
                                     float *stats) {
    const cairn_tensor *x = tensor_of(at, op->inputs[0]);
    uint32_t rows = rows_of(x);
    crn_row_norm_args args = {.tiling = {.rows = rows, .channels = last_of(x)},
                              .element = at->k.element,
                              .centred = centred,
                              .epsilon = (float)op->attributes.epsilon,
                              .x = plain(at, op->inputs[0]),
                              .gamma = floats(at, op->params[0]),
                              .mean = centred ? stats : NULL,
                              .inverse = centred ? stats + rows : stats};
    args.partial = kernel_rig_make(&at->k, crn_row_norm_workspace(&args));
    return args;
}

/* a + b, in a new buffer */
static void *added(comparison *at, const void *a, const void *b, uint32_t count) {
    void *to = kernel_rig_make(&at->k, count * kernel_rig_element(&at->k));
    crn_pointwise_args args = {.op = CRN_ADD,
                               .element = at->k.element,
                               .rows = 1,
                               .channels = count,
                               .a_pitch = count,
                               .b_pitch = count,
                               .to_pitch = count,
                               .a = a,
                               .b = b,
                               .to = to};
    kernel_rig_run(&at->k, crn_pointwise_launch(&args), &args);
    return to;
}

static bool same_bytes(const comparison *at, const void *a, const void *b, uint32_t count) {
    return memcmp(a, b, count * kernel_rig_element(&at->k)) == 0;
}

/* The norm of x + x, which the same kernel adds up: the bits of an addition and a norm. */
static void row_norm_of_sum(comparison *at, crn_row_norm_args args, uint32_t count) {
    crn_row_norm_args apart = args;
    apart.x = added(at, args.x, args.x, count);
    apart.y = kernel_rig_make(&at->k, count * kernel_rig_element(&at->k));
    kernel_rig_run(&at->k, crn_row_norm_launch(&apart), &apart);
    args.added = args.x;
    args.sum = (void *)args.x; /* in place */
    args.y = kernel_rig_make(&at->k, count * kernel_rig_element(&at->k));
    kernel_rig_run(&at->k, crn_row_norm_launch(&args), &args);
    CHECK(same_bytes(at, args.sum, apart.x, count) && same_bytes(at, args.y, apart.y, count));
}

static void row_norm(comparison *at, const cairn_op *op, bool centred) {
    float *stats = empty(at, op->outputs[1], 4);
    crn_row_norm_args args = row_norm_of(at, op, centred, stats);
    args.beta = op->param_count > 1 ? floats(at, op->params[1]) : NULL;
    args.y = result(at, op, 0);
    kernel_rig_run(&at->k, crn_row_norm_launch(&args), &args);
    compare_plain(at, args.y, op->outputs[0], false);
    compare_floats(at, stats, op->outputs[1], F32_TOLERANCE);
    row_norm_of_sum(at, args, (uint32_t)fill_count(tensor_of(at, op->outputs[0])));
}

/* The sums of the columns of `whole`'s result: made with it, and from it alone, with the same bits,
 * which are those of plain sums up to rounding. */
static void row_norm_sums(comparison *at, const crn_row_norm_args *whole, uint32_t count) {
    crn_row_norm_args alone = {
        .tiling = {.rows = whole->tiling.rows, .channels = whole->tiling.channels},
        .element = whole->element,
        .gy = whole->gx,
        .alone = 1};
    uint32_t width = whole->tiling.channels;
    alone.gsum = kernel_rig_make(&at->k, width * sizeof(float));
    alone.partial = kernel_rig_make(&at->k, crn_row_norm_workspace(&alone));
    kernel_rig_run(&at->k, crn_row_norm_bwd_launch(&alone), &alone);
    kernel_rig_run(&at->k, crn_row_norm_finish_launch(&alone), &alone);
    CHECK(memcmp(alone.gsum, whole->gsum, width * sizeof(float)) == 0);
    for (uint32_t c = 0; c < width; c++) {
        double sum = 0, size = 0;
        for (uint32_t i = c; i < count; i += width) {
            double x = at->k.element == CRN_ELEMENT_BF16
                           ? crn_from_bf16(((const uint16_t *)whole->gx)[i])
                           : ((const float *)whole->gx)[i];
            sum += x;
            size += fabs(x);
        }
        CHECK(fabs(alone.gsum[c] - sum) <= 1e-5 * size);
    }
}

static void row_norm_bwd(comparison *at, const cairn_op *op, bool centred) {
    crn_row_norm_args args = row_norm_of(at, op, centred, floats(at, op->inputs[1]));
    args.gy = plain(at, op->inputs[2]);
    args.ggamma = float_result(at, op, 1);
    args.gbeta = float_result(at, op, 2);
    uint32_t count = (uint32_t)fill_count(tensor_of(at, op->inputs[2]));
    const size_t bytes = count * kernel_rig_element(&at->k);
    crn_row_norm_args whole = args; /* the gradient is added to another tensor, in its place */
    whole.gx = kernel_rig_copy(&at->k, args.x, bytes);
    whole.other = whole.gx;
    whole.ggamma = whole.gbeta = NULL;
    if (crn_row_norm_can_sum(args.element, args.tiling.channels))
        whole.gsum = kernel_rig_make(&at->k, args.tiling.channels * sizeof(float));
    whole.partial = kernel_rig_make(&at->k, crn_row_norm_workspace(&whole));
    kernel_rig_run(&at->k, crn_row_norm_bwd_launch(&whole), &whole);
    kernel_rig_run(&at->k, crn_row_norm_finish_launch(&whole), &whole);
    if (whole.gsum != NULL)
        row_norm_sums(at, &whole, count);
    if (wanted(op, 0))
        args.gx = (void *)args.gy; /* in place */
    kernel_rig_run(&at->k, crn_row_norm_bwd_launch(&args), &args);
    kernel_rig_run(&at->k, crn_row_norm_finish_launch(&args), &args);
    if (wanted(op, 0))
        CHECK(same_bytes(at, whole.gx, added(at, args.gx, args.x, count), count));
    if (args.ggamma != NULL)
        compare_floats(at, args.ggamma, op->outputs[1], F32_TOLERANCE);
    if (args.gbeta != NULL)
        compare_floats(at, args.gbeta, op->outputs[2], F32_TOLERANCE);
    if (wanted(op, 0))
        compare_plain(at, args.gx, op->outputs[0], false);
}

/* ---- Gates ---- */

static void gate(comparison *at, const cairn_op *op, uint32_t kind, uint32_t a, uint32_t b,
                 uint32_t output) {
    if (!wanted(op, output))
        return;
    uint32_t count = (uint32_t)fill_count(tensor_of(at, op->inputs[a]));
    crn_pointwise_args args = {.op = kind,
                               .element = at->k.element,
                               .rows = 1,
                               .channels = count,
                               .a_pitch = count,
                               .b_pitch = count,
                               .to_pitch = count,
                               .a = plain(at, op->inputs[a]),
                               .b = b < op->input_count ? plain(at, op->inputs[b]) : NULL,
                               .to = result(at, op, output)};
    kernel_rig_run(&at->k, crn_gate_launch(&args), &args);
    compare_plain(at, args.to, op->outputs[output], false);
}

static void swiglu(comparison *at, const cairn_op *op, bool backward) {
    const cairn_tensor *x = tensor_of(at, op->inputs[0]);
    crn_swiglu_args args = {.element = at->k.element,
                            .rows = rows_of(x),
                            .width = last_of(x) / 2,
                            .x = plain(at, op->inputs[0])};
    void *to = result(at, op, 0);
    if (backward) {
        args.gy = plain(at, op->inputs[1]);
        args.gx = to;
        kernel_rig_run(&at->k, crn_swiglu_bwd_launch(&args), &args);
    } else {
        args.y = to;
        kernel_rig_run(&at->k, crn_swiglu_launch(&args), &args);
    }
    compare_plain(at, to, op->outputs[0], false);
}

static void rotary(comparison *at, const cairn_op *op, bool inverse) {
    const cairn_tensor *x = tensor_of(at, op->inputs[0]);
    uint32_t heads = (uint32_t)op->attributes.heads, kv_heads = (uint32_t)op->attributes.kv_heads;
    crn_rotary_args args = {.element = at->k.element,
                            .rows = rows_of(x),
                            .tokens = x->shape[1],
                            .rotated = heads + kv_heads,
                            .copied = kv_heads,
                            .half = x->shape[2] / (heads + 2 * kv_heads) / 2,
                            .pitch = x->shape[2],
                            .inverse = inverse,
                            .x = plain(at, op->inputs[0]),
                            .y = result(at, op, 0)};
    for (uint32_t most = args.half > 1 ? args.half / 2 : 1; args.first < args.half;
         args.first += most) { /* in two launches or three */
        args.pairs = CRN_MIN(most, args.half - args.first);
        for (uint32_t i = 0; i < args.pairs; i++)
            args.frequency[i] = crn_rotary_frequency(&op->attributes, args.first + i, args.half);
        kernel_rig_run(&at->k, crn_rotary_launch(&args), &args);
    }
    compare_plain(at, args.y, op->outputs[0], false);
}

/* ---- Tokens ---- */

static void embedding(comparison *at, const cairn_op *op, bool backward) {
    const cairn_tensor *table = tensor_of(at, backward ? op->outputs[0] : op->params[0]);
    crn_embedding_args args = {.element = at->k.element,
                               .rows = (uint32_t)fill_count(tensor_of(at, op->inputs[0])),
                               .words = table->shape[0],
                               .width = table->shape[1],
                               .tokens = floats(at, op->inputs[0])};
    if (!backward) {
        args.table = floats(at, op->params[0]);
        args.y = result(at, op, 0);
        kernel_rig_run(&at->k, crn_embedding_launch(&args), &args);
        compare_plain(at, args.y, op->outputs[0], true);
        return;
    }
    args.gy = plain(at, op->inputs[1]);
    args.starts = kernel_rig_make(&at->k, ((size_t)args.words + 1) * 4);
    args.list = kernel_rig_make(&at->k, (size_t)args.rows * 4);
    args.gradient = float_result(at, op, 0);
    kernel_rig_run(&at->k, crn_token_lists_launch(&args), &args);
    kernel_rig_run(&at->k, crn_embedding_bwd_launch(&args), &args);
    compare_floats(at, args.gradient, op->outputs[0], F32_TOLERANCE);
    /* Added to itself, in place and not. */
    uint64_t count = (uint64_t)args.words * args.width;
    float *wanted = kernel_rig_make(&at->k, count * 4), *made = args.gradient;
    for (uint64_t i = 0; i < count; i++)
        wanted[i] = 2 * made[i];
    args.sum = made;
    args.gradient = kernel_rig_make(&at->k, count * 4);
    kernel_rig_run(&at->k, crn_embedding_bwd_launch(&args), &args);
    CHECK(kernel_rig_equal(args.gradient, wanted, count, F32_TOLERANCE, "a sum"));
    args.gradient = made;
    kernel_rig_run(&at->k, crn_embedding_bwd_launch(&args), &args);
    CHECK(kernel_rig_equal(args.gradient, wanted, count, F32_TOLERANCE, "a sum in place"));
}

static void positions(comparison *at, const cairn_op *op, bool backward) {
    const cairn_tensor *x = tensor_of(at, op->inputs[0]);
    const cairn_tensor *weight = tensor_of(at, backward ? op->outputs[0] : op->params[0]);
    crn_positions_args args = {.element = at->k.element,
                               .batch = x->shape[0],
                               .tokens = x->shape[1],
                               .width = x->shape[2],
                               .weights = weight->shape[0],
                               .same_row = op->attributes.same_row != 0,
                               .x = plain(at, op->inputs[0])};
    if (!backward) {
        args.weight = floats(at, op->params[0]);
        args.y = result(at, op, 0);
        kernel_rig_run(&at->k, crn_positions_launch(&args), &args);
        compare_plain(at, args.y, op->outputs[0], true);
    } else if (!args.same_row) { /* else it is a sum of columns */
        args.gradient = float_result(at, op, 0);
        kernel_rig_run(&at->k, crn_positions_bwd_launch(&args), &args);
        compare_floats(at, args.gradient, op->outputs[0], F32_TOLERANCE);
    }
}

static crn_matrix sequence_at(comparison *at, cairn_id id, void *values, uint32_t first) {
    const cairn_tensor *t = tensor_of(at, id);
    uint32_t width = last_of(t), tokens = t->rank == 3 ? t->shape[1] : 1;
    return (crn_matrix){(char *)values + (size_t)first * width * kernel_rig_element(&at->k), width,
                        1, (uint64_t)tokens * width, at->k.element};
}

static void select_token(comparison *at, const cairn_op *op, bool backward) {
    const cairn_tensor *to = tensor_of(at, op->outputs[0]);
    uint32_t index = (uint32_t)op->attributes.index;
    crn_copy_rows_args args = {.batch = to->shape[0],
                               .rows = backward ? to->shape[1] : 1,
                               .width = last_of(to),
                               .first = backward ? index : 0,
                               .count = 1};
    args.from = sequence_at(at, op->inputs[0], plain(at, op->inputs[0]), backward ? 0 : index);
    args.to = sequence_at(at, op->outputs[0], result(at, op, 0), 0);
    kernel_rig_run(&at->k, crn_copy_rows_launch(&args), &args);
    compare_plain(at, args.to.at, op->outputs[0], true);
}

/* The image is plain, its pixels are rows of another stride. */
static void image_tokens(comparison *at, const cairn_op *op, bool backward) {
    if (!wanted(op, 0))
        return;
    const cairn_tensor *image = tensor_of(at, backward ? op->outputs[0] : op->inputs[0]);
    const cairn_tensor *tokens = tensor_of(at, backward ? op->inputs[0] : op->outputs[0]);
    uint32_t pixels = plane_of(image), first = tokens->shape[1] - pixels;
    crn_matrix plane = {NULL, 1, pixels, (uint64_t)image->shape[1] * pixels, at->k.element};
    crn_copy_rows_args args = {
        .batch = tokens->shape[0], .width = tokens->shape[2], .count = pixels};
    plane.at = backward ? result(at, op, 0) : plain(at, op->inputs[0]);
    args.rows = backward ? pixels : tokens->shape[1];
    args.first = backward ? 0 : first;
    if (!backward && op->param_count > 0)
        args.fill = floats(at, op->params[0]);
    args.from = backward ? sequence_at(at, op->inputs[0], plain(at, op->inputs[0]), first) : plane;
    args.to = backward ? plane : sequence_at(at, op->outputs[0], result(at, op, 0), 0);
    kernel_rig_run(&at->k, crn_copy_rows_launch(&args), &args);
    compare_plain(at, args.to.at, op->outputs[0], true);
}

/* ---- Loss ---- */

static crn_token_loss_args token_loss_of(comparison *at, const cairn_op *op) {
    const cairn_tensor *logits = tensor_of(at, op->inputs[0]);
    crn_token_loss_args args = {.element = at->k.element,
                                .rows = rows_of(logits),
                                .words = last_of(logits),
                                .smoothing = (float)op->attributes.smoothing,
                                .labels = floats(at, op->inputs[1]),
                                .tickets = kernel_rig_tickets(&at->k)};
    args.partial = kernel_rig_make(&at->k, crn_token_loss_workspace(&args));
    return args;
}

/* The gradient from the probabilities of the reference. */
static void gradient_of(const crn_token_loss_args *a, const float *p, float *gradient) {
    float count = 0, spread = a->smoothing / (float)a->words;
    for (uint32_t row = 0; row < a->rows; row++)
        count += a->labels[row] >= 0;
    for (size_t i = 0; i < (size_t)a->rows * a->words; i++) {
        int32_t label = a->labels[i / a->words];
        float target = label == (int64_t)(i % a->words) ? 1 - a->smoothing + spread : spread;
        gradient[i] = label < 0 ? 0 : (p[i] - target) / count;
    }
}

/* In bf16 the loss makes the gradient at once: put it in the place of the reference's
 * probabilities. Returns these, a buffer of the rig. */
static float *expect_gradient(comparison *at, const crn_token_loss_args *args, cairn_id id) {
    float *probabilities = floats(at, id);
    if (at->k.element == CRN_ELEMENT_BF16)
        gradient_of(args, probabilities, at->ref.place[id]);
    return probabilities;
}

static void token_loss(comparison *at, const cairn_op *op) {
    crn_token_loss_args args = token_loss_of(at, op);
    args.logits = plain(at, op->inputs[0]);
    args.probabilities = (void *)args.logits; /* in place */
    args.loss = kernel_rig_make(&at->k, 4);
    args.count = kernel_rig_make(&at->k, 4);
    kernel_rig_run(&at->k, crn_count_labels_launch(&args), &args);
    kernel_rig_run(&at->k, crn_token_loss_launch(&args), &args);
    compare_floats(at, args.loss, op->outputs[0], F32_TOLERANCE);
    const float *kept = expect_gradient(at, &args, op->outputs[1]);
    compare_plain(at, args.probabilities, op->outputs[1], false);
    memcpy(at->ref.place[op->outputs[1]], kept, (size_t)args.rows * args.words * sizeof *kept);
}

static void token_loss_bwd(comparison *at, const cairn_op *op) {
    crn_token_loss_args args = token_loss_of(at, op);
    args.gradient = result(at, op, 0);
    args.count = kernel_rig_make(&at->k, 4);
    kernel_rig_run(&at->k, crn_count_labels_launch(&args), &args);
    (void)expect_gradient(at, &args, op->inputs[0]);
    args.probabilities = plain(at, op->inputs[0]);
    kernel_rig_run(&at->k, crn_token_loss_bwd_launch(&args), &args);
    compare_plain(at, args.gradient, op->outputs[0], false);
}

/* Compare an op on sequences; false: it is none, or its kernels are tested elsewhere. */
static bool compare_sequence(comparison *at, const cairn_op *op) {
    bool by_tanh = op->attributes.tanh != 0;
    switch (op->kind) {
    case CAIRN_OP_EMBEDDING:
    case CAIRN_OP_EMBEDDING_BWD:
        return embedding(at, op, op->kind == CAIRN_OP_EMBEDDING_BWD), true;
    case CAIRN_OP_ADD_POSITIONS:
    case CAIRN_OP_ADD_POSITIONS_BWD:
        return positions(at, op, op->kind == CAIRN_OP_ADD_POSITIONS_BWD), true;
    case CAIRN_OP_IMAGE_TOKENS:
    case CAIRN_OP_IMAGE_TOKENS_BWD:
        return image_tokens(at, op, op->kind == CAIRN_OP_IMAGE_TOKENS_BWD), true;
    case CAIRN_OP_SELECT_TOKEN:
    case CAIRN_OP_SELECT_TOKEN_BWD:
        return select_token(at, op, op->kind == CAIRN_OP_SELECT_TOKEN_BWD), true;
    case CAIRN_OP_LAYER_NORM:
    case CAIRN_OP_RMS_NORM:
        return row_norm(at, op, op->kind == CAIRN_OP_LAYER_NORM), true;
    case CAIRN_OP_LAYER_NORM_BWD:
    case CAIRN_OP_RMS_NORM_BWD:
        return row_norm_bwd(at, op, op->kind == CAIRN_OP_LAYER_NORM_BWD), true;
    case CAIRN_OP_ROTARY:
    case CAIRN_OP_ROTARY_BWD:
        return rotary(at, op, op->kind == CAIRN_OP_ROTARY_BWD), true;
    case CAIRN_OP_GELU:
        return gate(at, op, by_tanh ? CRN_GELU_TANH : CRN_GELU, 0, 1, 0), true;
    case CAIRN_OP_GELU_BWD:
        return gate(at, op, by_tanh ? CRN_GELU_TANH_BWD : CRN_GELU_BWD, 0, 1, 0), true;
    case CAIRN_OP_SILU:
        return gate(at, op, CRN_SILU, 0, 1, 0), true;
    case CAIRN_OP_SILU_BWD:
        return gate(at, op, CRN_SILU_BWD, 0, 1, 0), true;
    case CAIRN_OP_MULTIPLY:
        return gate(at, op, CRN_MULTIPLY, 0, 1, 0), true;
    case CAIRN_OP_MULTIPLY_BWD:
        return gate(at, op, CRN_MULTIPLY, 1, 2, 0), gate(at, op, CRN_MULTIPLY, 0, 2, 1), true;
    case CAIRN_OP_SWIGLU:
    case CAIRN_OP_SWIGLU_BWD:
        return swiglu(at, op, op->kind == CAIRN_OP_SWIGLU_BWD), true;
    case CAIRN_OP_TOKEN_CROSS_ENTROPY:
        return token_loss(at, op), true;
    case CAIRN_OP_TOKEN_CROSS_ENTROPY_BWD:
        return token_loss_bwd(at, op), true;
    default:
        return false;
    }
}

#endif
