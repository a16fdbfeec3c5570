/* cpu_recurrent.c: recurrent cells: matrix products of oneDNN, with Cairn's own activations.
 * Formulas and layouts are those of the reference (ref_recurrent.c): values per gate are [G, N, H],
 * so that each gate is a separate matrix. */
#include "backend/cpu/cpu_internal.h"

#include <math.h>
#include <oneapi/dnnl/dnnl.h>

/* ---- Products ---- */

void crn_cpu_product(crn_queue *queue, crn_team *threads, bool a_transposed, bool b_transposed,
                     size_t m, size_t n, size_t k, const float *a, const float *b, float keep,
                     float *c) {
    crn_cpu_region before = crn_cpu_enter((int)crn_team_threads(threads));
    dnnl_status_t status =
        dnnl_sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', (dnnl_dim_t)m, (dnnl_dim_t)n,
                   (dnnl_dim_t)k, 1, a, (dnnl_dim_t)(a_transposed ? m : k), b,
                   (dnnl_dim_t)(b_transposed ? k : n), keep, c, (dnnl_dim_t)n);
    crn_cpu_leave(before);
    if (status != dnnl_success)
        crn_queue_fail(queue, CAIRN_ESYSTEM, "oneDNN cannot multiply matrices: status %d",
                       (int)status);
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
        crn_cpu_product(call->queue, call->threads, false, true, n, h, f, call->inputs[0],
                        w_ih + g * h * f, 0, to);
        crn_cpu_product(call->queue, call->threads, false, true, n, h, h, call->inputs[1],
                        w_hh + g * h * h, 1, to);
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
    crn_team_for(call->threads, (uint32_t)at.of.batch, rnn_row, &at);
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
    crn_team_for(call->threads, (uint32_t)at.of.batch, lstm_row, &at);
}

/* ---- backward: that of the reference, with these products ---- */

/* x_gradient [N, F] = sum over gates of gradient [N, H] * weight [H, F] */
static void product_data(crn_team *threads, crn_ref_product *p) {
    size_t h = p->hidden, f = p->features, n = p->batch;
    for (size_t g = 0; p->x_gradient != NULL && g < p->gates; g++)
        crn_cpu_product(p->queue, threads, false, false, n, f, h, p->gradient + g * n * h,
                        p->weight + g * h * f, g > 0 ? 1 : 0, p->x_gradient);
}

static void bias_gate(void *context, uint32_t g) {
    const crn_ref_product *p = context;
    float *to = p->bias_gradient + (size_t)g * p->hidden;
    memset(to, 0, p->hidden * sizeof *to);
    for (size_t n = 0; n < p->batch; n++)
        for (size_t j = 0; j < p->hidden; j++)
            to[j] += p->gradient[((size_t)g * p->batch + n) * p->hidden + j];
}

/* weight_gradient [H, F] of each gate = gradient' [H, N] * x [N, F] */
static void product_weight(crn_team *threads, crn_ref_product *p) {
    size_t h = p->hidden, f = p->features, n = p->batch;
    for (size_t g = 0; p->weight_gradient != NULL && g < p->gates; g++)
        crn_cpu_product(p->queue, threads, true, false, h, f, n, p->gradient + g * n * h, p->x, 0,
                        p->weight_gradient + g * h * f);
    if (p->bias_gradient != NULL)
        crn_team_for(threads, p->gates, bias_gate, p);
}

void crn_cpu_rnn_cell_bwd_data(const crn_call *call) {
    crn_ref_rnn_cell_bwd_data_by(call, product_data);
}

void crn_cpu_lstm_cell_bwd_data(const crn_call *call) {
    crn_ref_lstm_cell_bwd_data_by(call, product_data);
}

void crn_cpu_cell_bwd_weight(const crn_call *call) {
    crn_ref_cell_bwd_weight_by(call, product_weight);
}
