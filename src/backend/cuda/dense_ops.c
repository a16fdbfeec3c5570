/* dense_ops.c: linear layers and recurrent cells: matrix products and Cairn's own kernels. A cell
 * with G gates has G*H rows of weights; before its activations the gradient is [G, N, H]. */
#include "backend/cuda/cuda_internal.h"
#include "graph/head_chunks.h"

static crn_blas_shape product(const crn_work *work, crn_blas_pass pass, uint32_t rows, uint32_t in,
                              uint32_t out) {
    return (crn_blas_shape){.pass = pass,
                            .rows = rows,
                            .in = in,
                            .out = out,
                            .y_stride = out,
                            .exact = work->device->exact};
}

/* sums[c] = sum of the rows of a matrix, which the call `gate` makes on the way if there is one */
static void sum_rows(crn_work *work, const void *at, uint32_t rows, uint32_t channels,
                     crn_element element, float *sums, const crn_call *gate) {
    crn_view matrix = {.at = crn_cuda_writable(at),
                       .rows = rows,
                       .channels = channels,
                       .pitch = channels,
                       .element = element};
    crn_cuda_column_sums(work, &matrix, sums, gate);
}

/* ---- Linear layers: N is the product of all dimensions but the last ---- */

static uint32_t rows_of(const cairn_tensor *tensor) {
    uint32_t rows = 1;
    for (uint32_t i = 0; i + 1 < tensor->rank; i++)
        rows *= tensor->shape[i];
    return rows;
}

/* With bf16 operands a product has bf16 factors: what is stored as fp32, as weights are, is
 * converted in the workspace. Results have the type of their tensor: gradients of weights are fp32.
 */
static bool is_stored_half(const crn_work *work, cairn_id tensor) {
    return work->call->storage[tensor].type == CRN_BF16;
}

static bool is_half(const crn_work *work) {
    crn_site site = crn_site_of(work->call);
    return crn_cuda_element(&site) == CRN_ELEMENT_BF16;
}

static const void *as_factor(crn_work *work, cairn_id tensor, const void *at, bool half) {
    if (!half || is_stored_half(work, tensor))
        return at;
    if (work->call->storage[tensor].type == CRN_TWICE)
        return crn_copy_of(crn_cuda_tensor(work, tensor), work->call->storage[tensor],
                           crn_cuda_writable(at));
    uint64_t count = crn_cuda_elements(work, tensor);
    void *converted = crn_cuda_library_scratch(work, count * sizeof(uint16_t));
    crn_cuda_to_element(work, at, CRN_ELEMENT_F32, converted, CRN_ELEMENT_BF16, count);
    return converted;
}

static crn_blas_shape linear_product(const crn_work *work, crn_blas_pass pass, uint32_t rows,
                                     uint32_t in, uint32_t out, cairn_id result) {
    crn_blas_shape shape = product(work, pass, rows, in, out);
    shape.half = is_half(work);
    shape.half_result = result != CAIRN_NONE && is_stored_half(work, result);
    return shape;
}

static void add_bias(crn_work *work, uint32_t rows, uint32_t out, void *y, crn_element element) {
    crn_bias_args args = {.tiling = {.rows = rows, .channels = out},
                          .element = element,
                          .x_pitch = out,
                          .y_pitch = out,
                          .x = y,
                          .bias = crn_cuda_param(work, 1),
                          .y = y};
    crn_cuda_launch(work, crn_bias_launch(&args), &args);
}

/* x [N, F] -> y [N, O] = x W' + b. The bias is added in the product if cuBLASLt can do that. */
void crn_cuda_linear(crn_work *work) {
    const cairn_op *op = work->call->op;
    const cairn_tensor *x = crn_cuda_tensor(work, op->inputs[0]);
    const cairn_tensor *weight = crn_cuda_tensor(work, op->params[0]);
    uint32_t rows = rows_of(x), out = weight->shape[0];
    crn_blas_shape shape =
        linear_product(work, CRN_BLAS_Y, rows, weight->shape[1], out, op->outputs[0]);
    const void *from = as_factor(work, op->inputs[0], crn_cuda_in(work, 0), shape.half);
    const void *w = as_factor(work, op->params[0], crn_cuda_param(work, 0), shape.half);
    void *y = crn_cuda_out(work, 0);
    if (op->param_count > 1 && shape.half) {
        crn_blas_shape with_bias = shape;
        with_bias.bias = 1;
        uint64_t used = work->used;
        const void *bias =
            as_factor(work, op->params[1], crn_cuda_param(work, 1), shape.half_result);
        if (crn_cuda_multiply_with_bias(work, &with_bias, from, w, y, bias))
            return;
        work->used = used;
    }
    crn_cuda_multiply(work, &shape, from, w, y, false);
    if (op->param_count > 1 && !work->preparing)
        add_bias(work, rows, out, y, shape.half_result ? CRN_ELEMENT_BF16 : CRN_ELEMENT_F32);
}

/* gy [N, O] -> gx [N, F] = gy W */
void crn_cuda_linear_bwd_data(crn_work *work) {
    const cairn_op *op = work->call->op;
    const cairn_tensor *gy = crn_cuda_tensor(work, op->inputs[0]);
    const cairn_tensor *weight = crn_cuda_tensor(work, op->params[0]);
    crn_blas_shape shape = linear_product(work, CRN_BLAS_GX, rows_of(gy), weight->shape[1],
                                          weight->shape[0], op->outputs[0]);
    const void *from = as_factor(work, op->inputs[0], crn_cuda_in(work, 0), shape.half);
    const void *w = as_factor(work, op->params[0], crn_cuda_param(work, 0), shape.half);
    crn_cuda_multiply(work, &shape, crn_cuda_out(work, 0), w, from, false);
}

/* The same in the order in which the backward of a norm that makes the matrix adds it up. */
static void sum_result_of_norm(crn_work *work, const void *at, uint32_t rows, uint32_t channels,
                               crn_element element, float *sums) {
    crn_row_norm_args args = {.tiling = {.rows = rows, .channels = channels},
                              .element = element,
                              .gy = at,
                              .gsum = sums,
                              .alone = 1};
    args.partial = crn_cuda_scratch(work, crn_row_norm_workspace(&args));
    if (work->preparing)
        return;
    crn_cuda_launch(work, crn_row_norm_bwd_launch(&args), &args);
    crn_cuda_launch(work, crn_row_norm_finish_launch(&args), &args);
}

/* The sums come first if they make gy on the way. */
static void differentiate(crn_work *work, const crn_call *gelu) {
    const cairn_op *op = work->call->op;
    const cairn_tensor *x = crn_cuda_tensor(work, op->inputs[0]);
    const cairn_tensor *gy = crn_cuda_tensor(work, op->inputs[1]);
    uint32_t rows = rows_of(x), in = x->shape[x->rank - 1], out = gy->shape[gy->rank - 1];
    crn_blas_shape shape = linear_product(work, CRN_BLAS_GW, rows, in, out, op->outputs[0]);
    crn_element element = is_stored_half(work, op->inputs[1]) ? CRN_ELEMENT_BF16 : CRN_ELEMENT_F32;
    if (crn_cuda_wants(work, 1) && crn_cuda_bias_behind_norm(work->call->graph, op) &&
        crn_row_norm_can_sum(element, out)) {
        if (!work->bias_made)
            sum_result_of_norm(work, crn_cuda_in(work, 1), rows, out, element,
                               crn_cuda_out(work, 1));
    } else if (crn_cuda_wants(work, 1)) {
        sum_rows(work, crn_cuda_in(work, 1), rows, out, element, crn_cuda_out(work, 1), gelu);
    }
    if (crn_cuda_wants(work, 0)) {
        const void *from = as_factor(work, op->inputs[0], crn_cuda_in(work, 0), shape.half);
        const void *over = as_factor(work, op->inputs[1], crn_cuda_in(work, 1), shape.half);
        crn_cuda_multiply(work, &shape, from, crn_cuda_out(work, 0), over, false);
    }
}

/* x [N, F], gy [N, O] -> gradients of weight [O, F] = gy' x and bias [O] */
void crn_cuda_linear_bwd_weight(crn_work *work) {
    differentiate(work, NULL);
}

void crn_cuda_linear_bwd_weight_with(crn_work *work, const crn_call *gelu) {
    differentiate(work, gelu);
}

/* ---- A head with its loss, in chunks of tokens: see ref_head.c ---- */

typedef struct head {
    uint32_t chunks, rows, words, width; /* rows of a chunk */
    uint32_t size;                       /* of an element of x and of the logits */
    const int32_t *labels;
    void *logits;   /* of a chunk; then their gradient */
    uint64_t *hits; /* the first thing in the workspace */
    crn_token_loss_args loss;
} head;

static head head_of(crn_work *work) {
    const cairn_op *op = work->call->op;
    const cairn_tensor *weight = crn_cuda_tensor(work, op->params[0]);
    bool half = is_stored_half(work, op->inputs[0]);
    head h = {.chunks = CRN_MAX(work->recipe->chunks, 1),
              .words = weight->shape[0],
              .width = weight->shape[1],
              .size = half ? 2 : 4,
              .labels = crn_cuda_in(work, 1)};
    uint32_t rows = rows_of(crn_cuda_tensor(work, op->inputs[0]));
    h.rows = rows / h.chunks;
    h.loss = (crn_token_loss_args){.element = half ? CRN_ELEMENT_BF16 : CRN_ELEMENT_F32,
                                   .rows = rows,
                                   .words = h.words,
                                   .smoothing = (float)op->attributes.smoothing,
                                   .labels = h.labels,
                                   .tickets = crn_cuda_tickets(work)};
    h.hits = crn_cuda_scratch(work, sizeof *h.hits);
    h.loss.count = crn_cuda_scratch(work, sizeof *h.loss.count);
    h.loss.partial = crn_cuda_scratch(work, crn_token_loss_workspace(&h.loss));
    h.logits = crn_cuda_library_scratch(work, (uint64_t)h.rows * h.words * h.size);
    h.loss.logits = h.loss.probabilities = h.loss.gradient = h.logits;
    return h;
}

/* The losses of chunk `c`, its hits, and the gradient in place of its logits. In bf16 the first
 * kernel has made the gradient. */
static void lose_chunk(crn_work *work, const head *h, uint32_t c) {
    crn_token_loss_args loss = h->loss;
    loss.rows = h->rows;
    loss.before = c * h->rows;
    loss.loss = c + 1 == h->chunks ? crn_cuda_out(work, 0) : NULL;
    loss.hits = h->hits;
    crn_cuda_launch(work, crn_token_loss_launch(&loss), &loss);
    if (loss.element != CRN_ELEMENT_BF16)
        crn_cuda_launch(work, crn_token_loss_bwd_launch(&loss), &loss);
}

/* A product whose workspace the next one uses again; `most` is the largest end of all. */
static void multiply_in_turn(crn_work *work, const crn_blas_shape *shape, const void *x,
                             const void *w, const void *y, bool add, uint64_t *most) {
    uint64_t used = work->used;
    crn_cuda_multiply(work, shape, x, w, y, add);
    *most = CRN_MAX(*most, work->used);
    work->used = used;
}

static const void *chunk_at(const void *at, uint64_t bytes) {
    return at == NULL ? NULL : (const char *)at + bytes;
}

/* x [..., D], labels [...]; weight [V, D] -> loss, gradients of x and of the weight */
void crn_cuda_head_loss(crn_work *work) {
    const cairn_op *op = work->call->op;
    head h = head_of(work);
    crn_blas_shape y = linear_product(work, CRN_BLAS_Y, h.rows, h.width, h.words, op->inputs[0]);
    crn_blas_shape gx = linear_product(work, CRN_BLAS_GX, h.rows, h.width, h.words, op->outputs[1]);
    crn_blas_shape gw = linear_product(work, CRN_BLAS_GW, h.rows, h.width, h.words, op->outputs[2]);
    const void *w = as_factor(work, op->params[0], crn_cuda_param(work, 0), y.half);
    uint64_t bytes = (uint64_t)h.rows * h.width * h.size, most = work->used;
    crn_cuda_zero(work, h.hits, sizeof *h.hits);
    if (!work->preparing)
        crn_cuda_launch(work, crn_count_labels_launch(&h.loss), &h.loss);
    for (uint32_t c = 0; c < h.chunks; c++) {
        const void *x = chunk_at(crn_cuda_in(work, 0), c * bytes);
        multiply_in_turn(work, &y, x, w, h.logits, false, &most);
        if (!work->preparing)
            lose_chunk(work, &h, c);
        multiply_in_turn(work, &gw, x, crn_cuda_out(work, 2), h.logits, c > 0, &most);
        multiply_in_turn(work, &gx, chunk_at(crn_cuda_out(work, 1), c * bytes), w, h.logits, false,
                         &most);
    }
    work->used = most;
}

/* ---- Cells, forward ---- */

typedef struct cell {
    uint32_t gates, batch, hidden, features; /* G, N, H, F */
} cell;

static const float *offset(const void *at, uint64_t elements) {
    return at == NULL ? NULL : (const float *)at + elements;
}

/* Both products are made in scratch memory, [N, G*H] each; the kernel adds them and the biases. */
static crn_cell_args before_activations(crn_work *work, const cell *c) {
    uint32_t out = c->gates * c->hidden;
    uint64_t bytes = (uint64_t)c->batch * out * sizeof(float);
    float *z = crn_cuda_scratch(work, bytes), *z2 = crn_cuda_scratch(work, bytes);
    crn_blas_shape of_x = product(work, CRN_BLAS_Y, c->batch, c->features, out);
    crn_blas_shape of_h = product(work, CRN_BLAS_Y, c->batch, c->hidden, out);
    crn_cuda_multiply(work, &of_x, crn_cuda_in(work, 0), crn_cuda_param(work, 0), z, false);
    crn_cuda_multiply(work, &of_h, crn_cuda_in(work, 1), crn_cuda_param(work, 1), z2, false);
    return (crn_cell_args){.batch = c->batch,
                           .hidden = c->hidden,
                           .z = z,
                           .z2 = z2,
                           .b_ih = crn_cuda_param(work, 2),
                           .b_hh = crn_cuda_param(work, 3),
                           .new_h = crn_cuda_out(work, 0)};
}

static cell forward_cell(const crn_work *work, uint32_t gates) {
    const cairn_tensor *x = crn_cuda_tensor(work, work->call->op->inputs[0]);
    const cairn_tensor *weight = crn_cuda_tensor(work, work->call->op->params[1]);
    return (cell){gates, x->shape[0], weight->shape[1], x->shape[1]};
}

/* x [N, F], h [N, H] -> h' [N, H] */
void crn_cuda_rnn_cell(crn_work *work) {
    cell c = forward_cell(work, 1);
    crn_cell_args args = before_activations(work, &c);
    if (!work->preparing)
        crn_cuda_launch(work, crn_rnn_cell_launch(&args), &args);
}

/* x [N, F], state [2, N, H] -> state' [2, N, H], gates [4, N, H] */
void crn_cuda_lstm_cell(crn_work *work) {
    cell c = forward_cell(work, 4);
    crn_cell_args args = before_activations(work, &c);
    if (work->preparing)
        return;
    uint64_t half = (uint64_t)c.batch * c.hidden;
    args.c = offset(crn_cuda_in(work, 1), half);
    args.new_c = (float *)args.new_h + half;
    args.values = crn_cuda_out(work, 1);
    crn_cuda_launch(work, crn_lstm_cell_launch(&args), &args);
}

/* ---- Cells, backward ---- */

/* gradient = sum over gates of before[g] W[g]; W [G*H, in] is parameter `index`. */
static void spread(crn_work *work, const cell *c, uint32_t index, const float *before,
                   float *gradient) {
    uint32_t in = crn_cuda_tensor(work, work->call->op->params[index])->shape[1];
    crn_blas_shape shape = product(work, CRN_BLAS_GX, c->batch, in, c->hidden);
    uint64_t rows = (uint64_t)c->batch * c->hidden, weights = (uint64_t)c->hidden * in;
    for (uint32_t g = 0; g < c->gates; g++) {
        uint64_t used = work->used; /* products run one after the other and share their workspace */
        crn_cuda_multiply(work, &shape, gradient, offset(crn_cuda_param(work, index), g * weights),
                          offset(before, g * rows), g > 0);
        if (g + 1 < c->gates)
            work->used = used;
    }
}

static void spread_both(crn_work *work, const cell *c, const float *before) {
    if (crn_cuda_wants(work, 1))
        spread(work, c, 1, before, crn_cuda_out(work, 1));
    if (crn_cuda_wants(work, 2))
        spread(work, c, 0, before, crn_cuda_out(work, 2));
}

/* h', gh' [N, H] -> gradient before tanh [N, H], gh [N, H], gx [N, F] */
void crn_cuda_rnn_cell_bwd_data(crn_work *work) {
    const cairn_tensor *h = crn_cuda_tensor(work, work->call->op->inputs[0]);
    cell c = {1, h->shape[0], h->shape[1], 0};
    crn_cell_args args = {.batch = c.batch,
                          .hidden = c.hidden,
                          .gh = crn_cuda_in(work, 1),
                          .before = crn_cuda_out(work, 0)};
    if (!work->preparing) {
        union {
            const void *given;
            void *taken;
        } made = {crn_cuda_in(work, 0)};
        args.new_h = made.taken;
        crn_cuda_launch(work, crn_rnn_cell_bwd_launch(&args), &args);
    }
    spread_both(work, &c, args.before);
}

/* state, state', gates [4, N, H], gstate' -> gradient before the activations [4, N, H], gstate, gx
 */
void crn_cuda_lstm_cell_bwd_data(crn_work *work) {
    const cairn_tensor *state = crn_cuda_tensor(work, work->call->op->inputs[0]);
    cell c = {4, state->shape[1], state->shape[2], 0};
    uint64_t half = (uint64_t)c.batch * c.hidden;
    float *gstate = crn_cuda_out(work, 1);
    crn_cell_args args = {.batch = c.batch,
                          .hidden = c.hidden,
                          .c = offset(crn_cuda_in(work, 0), half),
                          .gh = crn_cuda_in(work, 3),
                          .gc = offset(crn_cuda_in(work, 3), half),
                          .before = crn_cuda_out(work, 0),
                          .old_gc = gstate != NULL ? gstate + half : NULL};
    if (!work->preparing) {
        union {
            const void *given;
            void *taken;
        } made = {offset(crn_cuda_in(work, 1), half)}, gates = {crn_cuda_in(work, 2)};
        args.new_c = made.taken;
        args.values = gates.taken;
        crn_cuda_launch(work, crn_lstm_cell_bwd_launch(&args), &args);
    }
    spread_both(work, &c, args.before);
}

/* The gradients of the weights [G*H, in] that multiply operand `index`: gw[g] = before[g]' x. */
static void weigh(crn_work *work, const cell *c, uint32_t index, uint32_t in) {
    crn_blas_shape shape = product(work, CRN_BLAS_GW, c->batch, in, c->hidden);
    uint64_t rows = (uint64_t)c->batch * c->hidden, weights = (uint64_t)c->hidden * in;
    const void *before = crn_cuda_in(work, 2);
    for (uint32_t g = 0; g < c->gates && crn_cuda_wants(work, index); g++) {
        uint64_t used = work->used;
        crn_cuda_multiply(work, &shape, crn_cuda_in(work, index),
                          offset(crn_cuda_out(work, index), g * weights), offset(before, g * rows),
                          false);
        if (g + 1 < c->gates)
            work->used = used;
    }
    float *bias = crn_cuda_out(work, index + 2);
    for (uint32_t g = 0; g < c->gates && crn_cuda_wants(work, index + 2); g++) {
        uint64_t used = work->used;
        sum_rows(work, offset(before, g * rows), c->batch, c->hidden, CRN_ELEMENT_F32,
                 bias != NULL ? bias + g * c->hidden : NULL, NULL);
        if (g + 1 < c->gates)
            work->used = used;
    }
}

/* x [N, F], h [N, H] or state [2, N, H], gradient before the activations [N, H] or [4, N, H] ->
 * gradients of w_ih, w_hh, b_ih, b_hh. Both biases have the same gradient. */
void crn_cuda_cell_bwd_weight(crn_work *work) {
    const cairn_tensor *x = crn_cuda_tensor(work, work->call->op->inputs[0]);
    const cairn_tensor *before = crn_cuda_tensor(work, work->call->op->inputs[2]);
    cell c = {.gates = before->rank == 3 ? before->shape[0] : 1,
              .batch = x->shape[0],
              .hidden = before->shape[before->rank - 1],
              .features = x->shape[1]};
    weigh(work, &c, 0, c.features);
    weigh(work, &c, 1, c.hidden);
}
