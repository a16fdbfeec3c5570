/* cpu_recurrent.c: recurrent cells: oneDNN's matrix products, our activations. What is computed,
 * and the layouts, are the reference's (ref_recurrent.c): a value per gate is [G, N, H], so that
 * each gate is a matrix of its own. */
#include "backend/cpu/cpu_internal.h"

#include <assert.h>
#include <math.h>
#include <oneapi/dnnl/dnnl.h>

/* ---- Products ---- */

/* c [M, N] = a [M, K] b [K, N] + keep * c; an operand that is transposed lies as [K, M] or [N, K].
 */
static void multiply(const crn_call *call, bool a_transposed, bool b_transposed, size_t m, size_t n,
                     size_t k, const float *a, const float *b, float keep, float *c) {
    int before = crn_cpu_set_threads((int)crn_pool_threads(call->threads));
    dnnl_status_t status =
        dnnl_sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', (dnnl_dim_t)m, (dnnl_dim_t)n,
                   (dnnl_dim_t)k, 1, a, (dnnl_dim_t)(a_transposed ? m : k), b,
                   (dnnl_dim_t)(b_transposed ? k : n), keep, c, (dnnl_dim_t)n);
    assert(status == dnnl_success);
    (void)status;
    crn_cpu_set_threads(before);
}

/* Sizes of a cell's products. */
typedef struct sizes {
    size_t gates, batch, hidden, features; /* G, N, H, F */
} sizes;

/* ---- forward ---- */

typedef struct cell {
    sizes of;
    const float *b_ih, *b_hh;
    const float *c;       /* [N, H], lstm */
    float *new_h, *new_c; /* [N, H] */
    float *values;        /* [G, N, H]: before the activations, and for an lstm after them */
} cell;

static sizes forward_sizes(const crn_call *call, size_t gates) {
    const cairn_tensor *x = crn_ref_input(call, 0);
    return (sizes){gates, x->shape[0], crn_ref_param(call, 1)->shape[1], x->shape[1]};
}

/* values[g, n, j] = x W_ih' + h W_hh', without the biases */
static void multiply_gates(const crn_call *call, const cell *at) {
    const float *w_ih = call->params[0], *w_hh = call->params[1];
    size_t h = at->of.hidden, f = at->of.features, n = at->of.batch;
    for (size_t g = 0; g < at->of.gates; g++) {
        float *to = at->values + g * n * h;
        multiply(call, false, true, n, h, f, call->inputs[0], w_ih + g * h * f, 0, to);
        multiply(call, false, true, n, h, h, call->inputs[1], w_hh + g * h * h, 1, to);
    }
}

static void rnn_row(void *context, uint32_t n) {
    const cell *at = context;
    size_t h = at->of.hidden;
    for (size_t j = 0; j < h; j++)
        at->new_h[n * h + j] = tanhf(at->values[n * h + j] + (at->b_ih[j] + at->b_hh[j]));
}

/* x [N, F], h [N, H] -> h' [N, H] */
void crn_cpu_rnn_cell(const crn_call *call) {
    cell at = {.of = forward_sizes(call, 1),
               .b_ih = call->params[2],
               .b_hh = call->params[3],
               .new_h = call->outputs[0],
               .values = call->outputs[0]};
    multiply_gates(call, &at);
    crn_pool_for(call->threads, (uint32_t)at.of.batch, rnn_row, &at);
}

static float sigmoid(float z) {
    return 1 / (1 + expf(-z));
}

static void lstm_row(void *context, uint32_t n) {
    const cell *at = context;
    size_t h = at->of.hidden, all = at->of.batch * h;
    const float *bi = at->b_ih, *bh = at->b_hh;
    for (size_t j = 0; j < h; j++) {
        float *value = at->values + n * h + j;
        float i = sigmoid(value[0] + (bi[j] + bh[j]));
        float f = sigmoid(value[all] + (bi[h + j] + bh[h + j]));
        float g = tanhf(value[2 * all] + (bi[2 * h + j] + bh[2 * h + j]));
        float o = sigmoid(value[3 * all] + (bi[3 * h + j] + bh[3 * h + j]));
        at->new_c[n * h + j] = f * at->c[n * h + j] + i * g;
        at->new_h[n * h + j] = o * tanhf(at->new_c[n * h + j]);
        value[0] = i;
        value[all] = f;
        value[2 * all] = g;
        value[3 * all] = o;
    }
}

uint64_t crn_cpu_lstm_workspace(const crn_site *site) {
    const cairn_tensor *state = cairn_graph_tensor(site->graph, site->op->inputs[1]);
    return site->op->outputs[1] != CAIRN_NONE ? 0 : 2 * state->bytes; /* [4, N, H] */
}

/* x [N, F], state [2, N, H] -> state' [2, N, H], gates [4, N, H] */
void crn_cpu_lstm_cell(const crn_call *call) {
    cell at = {.of = forward_sizes(call, 4), .b_ih = call->params[2], .b_hh = call->params[3]};
    size_t half = at.of.batch * at.of.hidden; /* h comes first, then c */
    at.c = (const float *)call->inputs[1] + half;
    at.new_h = call->outputs[0];
    at.new_c = at.new_h + half;
    at.values = call->outputs[1] != NULL ? call->outputs[1] : call->workspace;
    multiply_gates(call, &at);
    crn_pool_for(call->threads, (uint32_t)at.of.batch, lstm_row, &at);
}

/* ---- backward: data ---- */

typedef struct cell_bwd {
    sizes of;
    const float *h;         /* h' [N, H], rnn */
    const float *c, *new_c; /* [N, H], lstm */
    const float *values;    /* gates [4, N, H], lstm; `before` may be the same */
    const float *gh, *gc;   /* gradients of h' and c' [N, H]; rnn: `before` may be gh */
    float *before;          /* out: gradient before the activations [G, N, H] */
    float *old_gc;          /* out: gradient of c [N, H], or NULL */
} cell_bwd;

/* gradient [N, K] of what was multiplied with `weight` [G*H, K]; NULL: it is not wanted */
static void spread(const crn_call *call, const cell_bwd *at, const float *weight, size_t k,
                   float *gradient) {
    size_t h = at->of.hidden, n = at->of.batch;
    for (size_t g = 0; gradient != NULL && g < at->of.gates; g++)
        multiply(call, false, false, n, k, h, at->before + g * n * h, weight + g * h * k,
                 g > 0 ? 1 : 0, gradient);
}

static void rnn_bwd_row(void *context, uint32_t n) {
    const cell_bwd *at = context;
    for (size_t k = n * at->of.hidden; k < (n + 1) * at->of.hidden; k++)
        at->before[k] = at->gh[k] * (1 - at->h[k] * at->h[k]);
}

/* h', gh' [N, H] -> gradient before tanh [N, H], gh [N, H], gx [N, F] */
void crn_cpu_rnn_cell_bwd_data(const crn_call *call) {
    const cairn_tensor *h = crn_ref_input(call, 0);
    cell_bwd at = {.of = {1, h->shape[0], h->shape[1], crn_ref_param(call, 0)->shape[1]},
                   .h = call->inputs[0],
                   .gh = call->inputs[1],
                   .before = call->outputs[0]};
    crn_pool_for(call->threads, h->shape[0], rnn_bwd_row, &at);
    spread(call, &at, call->params[1], at.of.hidden, crn_ref_out(call, 1));
    spread(call, &at, call->params[0], at.of.features, crn_ref_out(call, 2));
}

static void lstm_bwd_row(void *context, uint32_t n) {
    const cell_bwd *at = context;
    size_t all = at->of.batch * at->of.hidden;
    for (size_t k = n * at->of.hidden; k < (n + 1) * at->of.hidden; k++) {
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
void crn_cpu_lstm_cell_bwd_data(const crn_call *call) {
    const cairn_tensor *state = crn_ref_input(call, 0);
    size_t half = crn_ref_size(state, 1, 3);
    float *gstate = crn_ref_out(call, 1);
    cell_bwd at = {.of = {4, state->shape[1], state->shape[2], crn_ref_param(call, 0)->shape[1]},
                   .c = (const float *)call->inputs[0] + half,
                   .new_c = (const float *)call->inputs[1] + half,
                   .values = call->inputs[2],
                   .gh = call->inputs[3],
                   .gc = (const float *)call->inputs[3] + half,
                   .before = call->outputs[0],
                   .old_gc = gstate != NULL ? gstate + half : NULL};
    crn_pool_for(call->threads, state->shape[1], lstm_bwd_row, &at);
    spread(call, &at, call->params[1], at.of.hidden, gstate);
    spread(call, &at, call->params[0], at.of.features, crn_ref_out(call, 2));
}

/* ---- backward: weights ---- */

typedef struct bias {
    sizes of;
    const float *before; /* [G, N, H] */
    float *to[2];        /* [G*H] each, or NULL */
} bias;

static void bias_gate(void *context, uint32_t g) {
    const bias *at = context;
    size_t h = at->of.hidden;
    for (int i = 0; i < 2; i++) {
        if (at->to[i] == NULL)
            continue;
        float *to = at->to[i] + g * h;
        memset(to, 0, h * sizeof *to);
        for (size_t n = 0; n < at->of.batch; n++)
            for (size_t j = 0; j < h; j++)
                to[j] += at->before[(g * at->of.batch + n) * h + j];
    }
}

/* gradient [G*H, K] of the weight that x [N, K] was multiplied with; NULL: it is not wanted */
static void collect(const crn_call *call, const bias *at, const float *x, size_t k,
                    float *gradient) {
    size_t h = at->of.hidden, n = at->of.batch;
    for (size_t g = 0; gradient != NULL && g < at->of.gates; g++)
        multiply(call, true, false, h, k, n, at->before + g * n * h, x, 0, gradient + g * h * k);
}

/* x [N, F], h [N, H] or state [2, N, H], gradient before the activations [N, H] or [4, N, H] ->
 * gradients of w_ih, w_hh, b_ih, b_hh */
void crn_cpu_cell_bwd_weight(const crn_call *call) {
    const cairn_tensor *x = crn_ref_input(call, 0), *before = crn_ref_input(call, 2);
    bias at = {.of = {before->rank == 3 ? before->shape[0] : 1, x->shape[0],
                      before->shape[before->rank - 1], x->shape[1]},
               .before = call->inputs[2],
               .to = {crn_ref_out(call, 2), crn_ref_out(call, 3)}};
    collect(call, &at, call->inputs[0], at.of.features, crn_ref_out(call, 0));
    collect(call, &at, call->inputs[1], at.of.hidden, crn_ref_out(call, 1));
    crn_pool_for(call->threads, (uint32_t)at.of.gates, bias_gate, &at);
}
