/* ref_recurrent.c: the tanh cell and the LSTM cell, as PyTorch has them.
 *
 *     rnn    h' = tanh(x W_ih' + b_ih + h W_hh' + b_hh)
 *
 *     lstm   i, f, o = sigmoid(...),  g = tanh(...)    rows of the weights in the order i, f, g, o
 *            c' = f*c + i*g,  h' = o*tanh(c')          state [2, N, H] = (h, c)
 *
 * x is [N, F]; with G gates (1 or 4) the weights are [G*H, F] and [G*H, H], the biases [G*H]. The
 * data backward also makes the gradient before the activations, [G, N, H], which the weight
 * backward reads. It may be in place of the gradient (rnn) or the gates (lstm). */
#include "backend/ref/ref_kernels.h"

#include <math.h>

typedef struct cell {
    size_t gates, batch, hidden, features; /* G, N, H, F */
    const float *x, *h;                    /* [N, F], [N, H] */
    const float *c;                        /* [N, H], lstm */
    const float *w_ih, *w_hh, *b_ih, *b_hh;
    float *new_h, *new_c; /* [N, H] */
    float *values;        /* [4, N, H]: i, f, g, o; or NULL */
} cell;

/* ---- forward ---- */

static cell forward_cell(const crn_call *call, size_t gates) {
    const cairn_tensor *weight = crn_ref_param(call, 1); /* [G*H, H] */
    return (cell){.gates = gates,
                  .batch = crn_ref_input(call, 0)->shape[0],
                  .hidden = weight->shape[1],
                  .features = crn_ref_input(call, 0)->shape[1],
                  .x = call->inputs[0],
                  .h = call->inputs[1],
                  .w_ih = call->params[0],
                  .w_hh = call->params[1],
                  .b_ih = call->params[2],
                  .b_hh = call->params[3],
                  .new_h = call->outputs[0]};
}

/* Row r of gate pre-activations for sample n. */
static float before_activation(const cell *at, size_t n, size_t r) {
    float from_x = crn_ref_dot(at->x + n * at->features, at->w_ih + r * at->features, at->features);
    float from_h = crn_ref_dot(at->h + n * at->hidden, at->w_hh + r * at->hidden, at->hidden);
    return (from_x + at->b_ih[r]) + (from_h + at->b_hh[r]);
}

static void rnn_column(void *context, uint32_t j) {
    const cell *at = context;
    for (size_t n = 0; n < at->batch; n++)
        at->new_h[n * at->hidden + j] = tanhf(before_activation(at, n, j));
}

/* x [N, F], h [N, H] -> h' [N, H] */
void crn_ref_rnn_cell(const crn_call *call) {
    cell at = forward_cell(call, 1);
    crn_team_for(call->threads, (uint32_t)at.hidden, rnn_column, &at);
}

static float sigmoid(float z) {
    return 1 / (1 + expf(-z));
}

static void lstm_column(void *context, uint32_t j) {
    const cell *at = context;
    size_t h = at->hidden, all = at->batch * at->hidden;
    for (size_t n = 0; n < at->batch; n++) {
        size_t k = n * h + j;
        float i = sigmoid(before_activation(at, n, j));
        float f = sigmoid(before_activation(at, n, h + j));
        float g = tanhf(before_activation(at, n, 2 * h + j));
        float o = sigmoid(before_activation(at, n, 3 * h + j));
        at->new_c[k] = f * at->c[k] + i * g;
        at->new_h[k] = o * tanhf(at->new_c[k]);
        if (at->values == NULL)
            continue;
        at->values[k] = i;
        at->values[all + k] = f;
        at->values[2 * all + k] = g;
        at->values[3 * all + k] = o;
    }
}

/* x [N, F], state [2, N, H] -> state' [2, N, H], gates [4, N, H] */
void crn_ref_lstm_cell(const crn_call *call) {
    cell at = forward_cell(call, 4);
    at.c = at.h + at.batch * at.hidden;
    at.new_c = at.new_h + at.batch * at.hidden;
    at.values = crn_ref_out(call, 1);
    crn_team_for(call->threads, (uint32_t)at.hidden, lstm_column, &at);
}

/* ---- backward: data ---- */

typedef struct cell_bwd {
    size_t batch, hidden;
    const float *h;         /* h' [N, H], rnn */
    const float *c, *new_c; /* [N, H], lstm */
    const float *values;    /* gates [4, N, H], lstm; `before` may be the same */
    const float *gh, *gc;   /* gradients of h' and c' [N, H]; rnn: `before` may be gh */
    float *before;          /* out: gradient before the activations [G, N, H] */
    float *old_gc;          /* out: gradient of c [N, H], or NULL */
} cell_bwd;

/* Compute the gradients of x and h, which may be NULL, from the gradient before the activations. */
static void spread(const crn_call *call, crn_product *data, uint32_t gates, const float *before,
                   float *gh, float *gx) {
    const cairn_tensor *w_ih = crn_ref_param(call, 0), *w_hh = crn_ref_param(call, 1);
    crn_ref_product product = {.queue = call->queue,
                               .gates = gates,
                               .batch = crn_ref_input(call, 0)->shape[gates == 1 ? 0 : 1],
                               .hidden = w_hh->shape[1],
                               .features = w_hh->shape[1],
                               .gradient = before,
                               .weight = call->params[1],
                               .x_gradient = gh};
    data(call->threads, &product);
    product.features = w_ih->shape[1];
    product.weight = call->params[0];
    product.x_gradient = gx;
    data(call->threads, &product);
}

static void rnn_bwd_row(void *context, uint32_t n) {
    const cell_bwd *at = context;
    for (size_t k = n * at->hidden; k < (n + 1) * at->hidden; k++)
        at->before[k] = at->gh[k] * (1 - at->h[k] * at->h[k]);
}

/* h', gh' [N, H] -> gradient before tanh [N, H], gh [N, H], gx [N, F] */
void crn_ref_rnn_cell_bwd_data_by(const crn_call *call, crn_product *data) {
    const cairn_tensor *h = crn_ref_input(call, 0);
    cell_bwd at = {.batch = h->shape[0],
                   .hidden = h->shape[1],
                   .h = call->inputs[0],
                   .gh = call->inputs[1],
                   .before = call->outputs[0]};
    crn_team_for(call->threads, h->shape[0], rnn_bwd_row, &at);
    spread(call, data, 1, at.before, crn_ref_out(call, 1), crn_ref_out(call, 2));
}

static void lstm_bwd_row(void *context, uint32_t n) {
    const cell_bwd *at = context;
    size_t all = at->batch * at->hidden;
    for (size_t k = n * at->hidden; k < (n + 1) * at->hidden; k++) {
        float i = at->values[k], f = at->values[all + k];
        float g = at->values[2 * all + k], o = at->values[3 * all + k];
        float squashed = tanhf(at->new_c[k]);
        float gc = at->gc[k] + at->gh[k] * o * (1 - squashed * squashed);
        at->before[k] = gc * g * i * (1 - i);
        at->before[all + k] = gc * at->c[k] * f * (1 - f);
        at->before[2 * all + k] = gc * i * (1 - g * g);
        at->before[3 * all + k] = at->gh[k] * squashed * o * (1 - o);
        if (at->old_gc != NULL)
            at->old_gc[k] = gc * f;
    }
}

/* state, state', gstate' [2, N, H], gates [4, N, H] -> gradient before the activations [4, N, H],
 * gstate [2, N, H], gx [N, F] */
void crn_ref_lstm_cell_bwd_data_by(const crn_call *call, crn_product *data) {
    const cairn_tensor *state = crn_ref_input(call, 0);
    size_t half = crn_ref_size(state, 1, 3); /* h comes first, then c */
    float *gstate = crn_ref_out(call, 1);
    cell_bwd at = {.batch = state->shape[1],
                   .hidden = state->shape[2],
                   .c = (const float *)call->inputs[0] + half,
                   .new_c = (const float *)call->inputs[1] + half,
                   .values = call->inputs[2],
                   .gh = call->inputs[3],
                   .gc = (const float *)call->inputs[3] + half,
                   .before = call->outputs[0],
                   .old_gc = gstate != NULL ? gstate + half : NULL};
    crn_team_for(call->threads, state->shape[1], lstm_bwd_row, &at);
    spread(call, data, 4, at.before, gstate, crn_ref_out(call, 2));
}

/* ---- backward: weights ---- */

/* x [N, F], h [N, H] or state [2, N, H], gradient before the activations [N, H] or [4, N, H] ->
 * gradients of w_ih, w_hh, b_ih, b_hh. Both biases have the same gradient. */
void crn_ref_cell_bwd_weight_by(const crn_call *call, crn_product *weight) {
    const cairn_tensor *x = crn_ref_input(call, 0), *before = crn_ref_input(call, 2);
    crn_ref_product product = {.queue = call->queue,
                               .gates = before->rank == 3 ? before->shape[0] : 1,
                               .batch = x->shape[0],
                               .hidden = before->shape[before->rank - 1],
                               .features = x->shape[1],
                               .gradient = call->inputs[2],
                               .x = call->inputs[0],
                               .weight_gradient = crn_ref_out(call, 0),
                               .bias_gradient = crn_ref_out(call, 2)};
    weight(call->threads, &product);
    product.features = product.hidden;
    product.x = call->inputs[1];
    product.weight_gradient = crn_ref_out(call, 1);
    product.bias_gradient = crn_ref_out(call, 3);
    weight(call->threads, &product);
}

/* ---- with the products of the reference ---- */

void crn_ref_rnn_cell_bwd_data(const crn_call *call) {
    crn_ref_rnn_cell_bwd_data_by(call, crn_ref_product_data);
}

void crn_ref_lstm_cell_bwd_data(const crn_call *call) {
    crn_ref_lstm_cell_bwd_data_by(call, crn_ref_product_data);
}

void crn_ref_cell_bwd_weight(const crn_call *call) {
    crn_ref_cell_bwd_weight_by(call, crn_ref_product_weight);
}
