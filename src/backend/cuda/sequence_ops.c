/* sequence_ops.c: ops on sequences of tokens, besides attention and products: embeddings and
 * positions, norms of rows, gates, the rotary embedding, single tokens, and the loss of tokens.
 *
 * Sequences are stored plain, and all operands of an op have the same element type; an operand that
 * is stored channels-last is staged as plain fp32, and then all are fp32. */
#include "backend/cuda/cuda_internal.h"
#include "backend/rotary_frequency.h"

/* A tensor as a matrix: its last dimension is a row. */
typedef struct matrix {
    void *at;
    uint32_t rows, width;
    crn_element element;
} matrix;

static matrix matrix_of(const crn_work *work, cairn_id id, void *at) {
    const cairn_tensor *t = crn_cuda_tensor(work, id);
    const crn_storage *s = &work->call->storage[id];
    bool half = s->format != CRN_CHANNELS_LAST && s->type == CRN_BF16;
    matrix m = {.at = at,
                .rows = 1,
                .width = t->shape[t->rank - 1],
                .element = half ? CRN_ELEMENT_BF16 : CRN_ELEMENT_F32};
    for (uint32_t i = 0; i + 1 < t->rank; i++)
        m.rows *= t->shape[i];
    return m;
}

static matrix matrix_in(crn_work *work, uint32_t index) {
    return matrix_of(work, work->call->op->inputs[index], crn_cuda_plain_in(work, index));
}

/* An output; one that is not wanted is NULL. */
static matrix matrix_out(crn_work *work, uint32_t index) {
    if (!crn_cuda_wants(work, index))
        return (matrix){0};
    return matrix_of(work, work->call->op->outputs[index], crn_cuda_plain_out(work, index));
}

static void matrix_done(crn_work *work, uint32_t index, const matrix *m) {
    if (crn_cuda_wants(work, index))
        crn_cuda_plain_done(work, index, m->at);
}

/* ---- Norms of rows ---- */

static crn_row_norm_args norm_args(const crn_work *work, const matrix *x, bool centred,
                                   float *stats) {
    return (crn_row_norm_args){.tiling = {.rows = x->rows, .channels = x->width},
                               .element = x->element,
                               .centred = centred,
                               .epsilon = (float)work->call->op->attributes.epsilon,
                               .x = x->at,
                               .gamma = crn_cuda_param(work, 0),
                               .mean = centred ? stats : NULL,
                               .inverse = stats != NULL && centred ? stats + x->rows : stats};
}

/* With `add` the norm is that of the sum which that call makes. */
static void normalise(crn_work *work, bool centred, const crn_call *add) {
    matrix x = matrix_in(work, 0), y = matrix_out(work, 0);
    crn_row_norm_args args = norm_args(work, &x, centred, crn_cuda_out(work, 1));
    args.beta = crn_cuda_param(work, 1);
    args.y = y.at;
    if (add != NULL) {
        args.x = add->inputs[0];
        args.added = add->inputs[1];
        args.sum = add->outputs[0] != y.at ? add->outputs[0] : NULL;
    }
    if (!work->preparing)
        crn_cuda_launch(work, crn_row_norm_launch(&args), &args);
    matrix_done(work, 0, &y);
}

/* x [..., D] -> y, stats [2, R]: mean, 1 / deviation */
void crn_cuda_layer_norm(crn_work *work) {
    normalise(work, true, NULL);
}

/* x [..., D] -> y, stats [R]: 1 / root mean square */
void crn_cuda_rms_norm(crn_work *work) {
    normalise(work, false, NULL);
}

void crn_cuda_row_norm_with(crn_work *work, const crn_call *add) {
    normalise(work, work->call->op->kind == CAIRN_OP_LAYER_NORM, add);
}

/* With `sum` gx is only an operand of that call, whose result is made. */
static void differentiate(crn_work *work, bool centred, const crn_call *sum) {
    matrix x = matrix_in(work, 0), gy = matrix_in(work, 2), gx = matrix_out(work, 0);
    float *stats = crn_cuda_writable(crn_cuda_in(work, 1));
    crn_row_norm_args args = norm_args(work, &x, centred, stats);
    args.gy = gy.at;
    args.gx = gx.at;
    args.ggamma = crn_cuda_out(work, 1);
    args.gbeta = crn_cuda_out(work, 2);
    if (sum != NULL) {
        args.gx = sum->outputs[0];
        args.other = sum->inputs[sum->inputs[0] == gx.at ? 1 : 0];
    }
    args.gsum = work->column_sums;
    if (crn_cuda_wants(work, 1) || crn_cuda_wants(work, 2))
        args.partial = crn_cuda_scratch(work, crn_row_norm_workspace(&args));
    if (!work->preparing) {
        crn_cuda_launch(work, crn_row_norm_bwd_launch(&args), &args);
        if (args.partial != NULL)
            crn_cuda_launch(work, crn_row_norm_finish_launch(&args), &args);
    }
    matrix_done(work, 0, &gx);
}

/* x, stats [2, R], gy -> gx, gradients of gamma and beta [D] */
void crn_cuda_layer_norm_bwd(crn_work *work) {
    differentiate(work, true, NULL);
}

/* x, stats [R], gy -> gx, gradient of gamma [D] */
void crn_cuda_rms_norm_bwd(crn_work *work) {
    differentiate(work, false, NULL);
}

void crn_cuda_row_norm_bwd_with(crn_work *work, const crn_call *sum) {
    differentiate(work, work->call->op->kind == CAIRN_OP_LAYER_NORM_BWD, sum);
}

/* ---- swiglu ---- */

/* x [..., 2F] -> y [..., F] */
void crn_cuda_swiglu(crn_work *work) {
    matrix x = matrix_in(work, 0), y = matrix_out(work, 0);
    crn_swiglu_args args = {
        .element = x.element, .rows = x.rows, .width = x.width / 2, .x = x.at, .y = y.at};
    if (!work->preparing)
        crn_cuda_launch(work, crn_swiglu_launch(&args), &args);
    matrix_done(work, 0, &y);
}

/* x [..., 2F], gy [..., F] -> gx [..., 2F] */
void crn_cuda_swiglu_bwd(crn_work *work) {
    matrix x = matrix_in(work, 0), gy = matrix_in(work, 1), gx = matrix_out(work, 0);
    crn_swiglu_args args = {.element = x.element,
                            .rows = x.rows,
                            .width = x.width / 2,
                            .x = x.at,
                            .gy = gy.at,
                            .gx = gx.at};
    if (!work->preparing)
        crn_cuda_launch(work, crn_swiglu_bwd_launch(&args), &args);
    matrix_done(work, 0, &gx);
}

/* ---- Rotary embedding ---- */

static void rotate(crn_work *work, bool inverse) {
    const cairn_attributes *a = &work->call->op->attributes;
    const cairn_tensor *t = crn_cuda_tensor(work, work->call->op->inputs[0]);
    matrix x = matrix_in(work, 0), y = matrix_out(work, 0);
    uint32_t heads = (uint32_t)a->heads, kv_heads = (uint32_t)a->kv_heads;
    crn_rotary_args args = {.element = x.element,
                            .rows = x.rows,
                            .tokens = t->shape[t->rank - 2],
                            .rotated = heads + kv_heads,
                            .copied = x.at != y.at ? kv_heads : 0,
                            .half = x.width / (heads + 2 * kv_heads) / 2,
                            .pitch = x.width,
                            .inverse = inverse,
                            .x = x.at,
                            .y = y.at};
    for (; args.first < args.half && !work->preparing; args.first += CRN_ROTARY_PAIRS) {
        args.pairs = CRN_MIN(args.half - args.first, CRN_ROTARY_PAIRS);
        for (uint32_t i = 0; i < args.pairs; i++)
            args.frequency[i] = crn_rotary_frequency(a, args.first + i, args.half);
        crn_cuda_launch(work, crn_rotary_launch(&args), &args);
    }
    matrix_done(work, 0, &y);
}

/* x [N, T, (H + 2K) * d] -> y */
void crn_cuda_rotary(crn_work *work) {
    rotate(work, false);
}

/* gy -> gx */
void crn_cuda_rotary_bwd(crn_work *work) {
    rotate(work, true);
}

/* ---- Embedding ---- */

/* tokens [...] -> y [..., D], rows of the table [V, D] */
void crn_cuda_embedding(crn_work *work) {
    const cairn_tensor *table = crn_cuda_tensor(work, work->call->op->params[0]);
    matrix y = matrix_out(work, 0);
    crn_embedding_args args = {.element = y.element,
                               .rows = y.rows,
                               .words = table->shape[0],
                               .width = table->shape[1],
                               .tokens = crn_cuda_in(work, 0),
                               .table = crn_cuda_param(work, 0),
                               .y = y.at};
    if (!work->preparing)
        crn_cuda_launch(work, crn_embedding_launch(&args), &args);
    matrix_done(work, 0, &y);
}

/* tokens [...], gy [..., D], the gradient so far -> gradient of the table [V, D] */
void crn_cuda_embedding_bwd(crn_work *work) {
    const cairn_tensor *table = crn_cuda_tensor(work, work->call->op->outputs[0]);
    matrix gy = matrix_in(work, 1);
    crn_embedding_args args = {.element = gy.element,
                               .rows = gy.rows,
                               .words = table->shape[0],
                               .width = table->shape[1],
                               .tokens = crn_cuda_in(work, 0),
                               .gy = gy.at,
                               .gradient = crn_cuda_out(work, 0)};
    if (work->call->op->input_count > 2)
        args.sum = crn_cuda_in(work, 2);
    args.starts = crn_cuda_scratch(work, ((uint64_t)args.words + 1) * sizeof *args.starts);
    args.list = crn_cuda_scratch(work, (uint64_t)args.rows * sizeof *args.list);
    if (work->preparing)
        return;
    crn_cuda_launch(work, crn_token_lists_launch(&args), &args);
    crn_cuda_launch(work, crn_embedding_bwd_launch(&args), &args);
}

/* ---- Positions ---- */

static crn_positions_args positions_of(const crn_work *work, const matrix *x) {
    const cairn_tensor *t = crn_cuda_tensor(work, work->call->op->inputs[0]);
    return (crn_positions_args){.element = x->element,
                                .batch = t->shape[0],
                                .tokens = t->shape[1],
                                .width = t->shape[2],
                                .same_row = work->call->op->attributes.same_row != 0,
                                .x = x->at};
}

/* x [N, T, D] -> y = x + weight[t], or x + weight[0] */
void crn_cuda_add_positions(crn_work *work) {
    matrix x = matrix_in(work, 0), y = matrix_out(work, 0);
    crn_positions_args args = positions_of(work, &x);
    args.weight = crn_cuda_param(work, 0);
    args.y = y.at;
    if (!work->preparing)
        crn_cuda_launch(work, crn_positions_launch(&args), &args);
    matrix_done(work, 0, &y);
}

/* gy [N, T, D] -> gradient of the weight; if all tokens have row 0, the sum over all of them */
void crn_cuda_add_positions_bwd(crn_work *work) {
    const cairn_tensor *weight = crn_cuda_tensor(work, work->call->op->outputs[0]);
    matrix gy = matrix_in(work, 0);
    crn_positions_args args = positions_of(work, &gy);
    args.weights = weight->shape[0];
    args.gradient = crn_cuda_out(work, 0);
    if (!args.same_row) {
        if (!work->preparing)
            crn_cuda_launch(work, crn_positions_bwd_launch(&args), &args);
        return;
    }
    crn_view rows = {.at = gy.at,
                     .rows = gy.rows,
                     .channels = gy.width,
                     .pitch = gy.width,
                     .element = gy.element};
    crn_cuda_column_sums(work, &rows, args.gradient, NULL);
    if (!work->preparing && args.weights > 1)
        crn_cuda_zero(work, args.gradient + args.width,
                      (uint64_t)(args.weights - 1) * args.width * sizeof(float));
}

/* ---- Images as sequences, and single tokens: copies of rows ---- */

/* A sequence [N, T, D] from token `first` on, or [N, D]. */
static crn_matrix tokens_at(const crn_work *work, cairn_id id, void *at, uint32_t first) {
    const cairn_tensor *t = crn_cuda_tensor(work, id);
    bool half = work->call->storage[id].type == CRN_BF16;
    uint32_t width = t->shape[t->rank - 1], tokens = t->rank == 3 ? t->shape[1] : 1;
    uint64_t skipped = (uint64_t)first * width * (half ? 2 : 4);
    return (crn_matrix){.at = at != NULL ? (char *)at + skipped : NULL,
                        .row = width,
                        .column = 1,
                        .next = (uint64_t)tokens * width,
                        .element = half ? CRN_ELEMENT_BF16 : CRN_ELEMENT_F32};
}

/* The pixels of images [N, C, H, W] as rows, in either format. */
static crn_matrix pixels_at(const crn_work *work, cairn_id id, void *at) {
    const cairn_tensor *t = crn_cuda_tensor(work, id);
    const crn_storage *s = &work->call->storage[id];
    uint32_t plane = t->shape[2] * t->shape[3], channels = t->shape[1];
    bool half = s->type == CRN_BF16, last = s->format == CRN_CHANNELS_LAST;
    uint32_t pitch = last ? (channels + s->block - 1) / s->block * s->block : channels;
    return (crn_matrix){.at = at,
                        .row = last ? pitch : 1,
                        .column = last ? 1 : plane,
                        .next = (uint64_t)pitch * plane,
                        .element = half ? CRN_ELEMENT_BF16 : CRN_ELEMENT_F32};
}

/* x [N, C, H, W] -> y [N, H*W, C], with the class token [C] before them */
void crn_cuda_image_tokens(crn_work *work) {
    const cairn_op *op = work->call->op;
    const cairn_tensor *x = crn_cuda_tensor(work, op->inputs[0]);
    const cairn_tensor *y = crn_cuda_tensor(work, op->outputs[0]);
    uint32_t pixels = x->shape[2] * x->shape[3];
    crn_copy_rows_args args = {
        .batch = y->shape[0],
        .rows = y->shape[1],
        .width = y->shape[2],
        .first = y->shape[1] - pixels,
        .count = pixels,
        .from = pixels_at(work, op->inputs[0], crn_cuda_writable(crn_cuda_in(work, 0))),
        .to = tokens_at(work, op->outputs[0], crn_cuda_out(work, 0), 0),
        .fill = crn_cuda_param(work, 0)};
    if (!work->preparing)
        crn_cuda_launch(work, crn_copy_rows_launch(&args), &args);
}

/* gy [N, T, C] -> gx [N, C, H, W], gradient of the class token */
void crn_cuda_image_tokens_bwd(crn_work *work) {
    const cairn_op *op = work->call->op;
    cairn_id image = cairn_graph_op(work->call->graph, op->of)->inputs[0];
    const cairn_tensor *gy = crn_cuda_tensor(work, op->inputs[0]);
    const cairn_tensor *x = crn_cuda_tensor(work, image);
    uint32_t pixels = x->shape[2] * x->shape[3], first = gy->shape[1] - pixels;
    void *from = crn_cuda_writable(crn_cuda_in(work, 0));
    if (crn_cuda_wants(work, 0)) {
        crn_copy_rows_args args = {.batch = gy->shape[0],
                                   .rows = pixels,
                                   .width = gy->shape[2],
                                   .count = pixels,
                                   .from = tokens_at(work, op->inputs[0], from, first),
                                   .to = pixels_at(work, op->outputs[0], crn_cuda_out(work, 0))};
        if (!work->preparing)
            crn_cuda_launch(work, crn_copy_rows_launch(&args), &args);
    }
    if (!crn_cuda_wants(work, 1))
        return;
    crn_matrix tokens = tokens_at(work, op->inputs[0], from, 0);
    crn_view first_tokens = {.at = from,
                             .rows = gy->shape[0],
                             .channels = gy->shape[2],
                             .pitch = gy->shape[1] * gy->shape[2],
                             .element = (crn_element)tokens.element};
    crn_cuda_column_sums(work, &first_tokens, crn_cuda_out(work, 1), NULL);
}

/* x [N, T, D] -> y [N, D] = x[:, index] */
void crn_cuda_select_token(crn_work *work) {
    const cairn_op *op = work->call->op;
    const cairn_tensor *x = crn_cuda_tensor(work, op->inputs[0]);
    crn_copy_rows_args args = {.batch = x->shape[0],
                               .rows = 1,
                               .width = x->shape[2],
                               .count = 1,
                               .from = tokens_at(work, op->inputs[0],
                                                 crn_cuda_writable(crn_cuda_in(work, 0)),
                                                 (uint32_t)op->attributes.index),
                               .to = tokens_at(work, op->outputs[0], crn_cuda_out(work, 0), 0)};
    if (!work->preparing)
        crn_cuda_launch(work, crn_copy_rows_launch(&args), &args);
}

/* gy [N, D] -> gx [N, T, D], zero outside gx[:, index] */
void crn_cuda_select_token_bwd(crn_work *work) {
    const cairn_op *op = work->call->op;
    const cairn_tensor *gx = crn_cuda_tensor(work, op->outputs[0]);
    crn_copy_rows_args args = {
        .batch = gx->shape[0],
        .rows = gx->shape[1],
        .width = gx->shape[2],
        .first = (uint32_t)op->attributes.index,
        .count = 1,
        .from = tokens_at(work, op->inputs[0], crn_cuda_writable(crn_cuda_in(work, 0)), 0),
        .to = tokens_at(work, op->outputs[0], crn_cuda_out(work, 0), 0)};
    if (!work->preparing)
        crn_cuda_launch(work, crn_copy_rows_launch(&args), &args);
}

/* ---- Loss ---- */

static crn_token_loss_args loss_of(const crn_work *work, const matrix *m) {
    return (crn_token_loss_args){.element = m->element,
                                 .rows = m->rows,
                                 .words = m->width,
                                 .smoothing = (float)work->call->op->attributes.smoothing,
                                 .labels = crn_cuda_in(work, 1),
                                 .tickets = crn_cuda_tickets(work)};
}

/* In bf16 the loss makes the gradient at once, in the place of the probabilities. */
static bool makes_gradient(const matrix *logits) {
    return logits->element == CRN_ELEMENT_BF16;
}

/* logits [..., V], labels [...] -> loss [1], probabilities [..., V] */
void crn_cuda_token_cross_entropy(crn_work *work) {
    matrix logits = matrix_in(work, 0), probabilities = matrix_out(work, 1);
    crn_token_loss_args args = loss_of(work, &logits);
    args.logits = logits.at;
    args.probabilities = probabilities.at;
    args.loss = crn_cuda_out(work, 0);
    args.partial = crn_cuda_scratch(work, crn_token_loss_workspace(&args));
    if (makes_gradient(&logits)) {
        args.count = crn_cuda_scratch(work, sizeof *args.count);
        if (!work->preparing)
            crn_cuda_launch(work, crn_count_labels_launch(&args), &args);
    }
    if (!work->preparing)
        crn_cuda_launch(work, crn_token_loss_launch(&args), &args);
    matrix_done(work, 1, &probabilities);
}

/* probabilities [..., V], labels [...] -> gradient of the logits */
void crn_cuda_token_cross_entropy_bwd(crn_work *work) {
    matrix probabilities = matrix_in(work, 0), gradient = matrix_out(work, 0);
    crn_token_loss_args args = loss_of(work, &probabilities);
    args.probabilities = probabilities.at;
    args.gradient = gradient.at;
    bool made = makes_gradient(&probabilities);
    if (!made)
        args.count = crn_cuda_scratch(work, sizeof *args.count);
    if (!work->preparing && !made)
        crn_cuda_launch(work, crn_count_labels_launch(&args), &args);
    if (!work->preparing && !(made && gradient.at == probabilities.at))
        crn_cuda_launch(work, crn_token_loss_bwd_launch(&args), &args);
    matrix_done(work, 0, &gradient);
}

void crn_cuda_count_token_hits(crn_work *work, uint64_t *correct) {
    const cairn_op *op = work->call->op;
    bool made = crn_cuda_wants(work, 1);
    cairn_id id = made ? op->outputs[1] : op->inputs[0];
    matrix m =
        matrix_of(work, id, made ? crn_cuda_out(work, 1) : crn_cuda_writable(crn_cuda_in(work, 0)));
    crn_loss_args args = {.element = m.element,
                          .batch = m.rows,
                          .classes = m.width,
                          .pixels = 1,
                          .labels = crn_cuda_in(work, 1),
                          .probabilities = m.at,
                          .correct = correct};
    if (made && makes_gradient(&m)) {
        crn_token_loss_args labels = loss_of(work, &m);
        labels.count = crn_cuda_scratch(work, sizeof *labels.count);
        crn_cuda_launch(work, crn_count_labels_launch(&labels), &labels);
        args.label_share = 1 - labels.smoothing;
        args.label_count = labels.count;
    }
    crn_cuda_launch(work, crn_count_correct_launch(&args), &args);
}
