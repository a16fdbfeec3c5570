/* ref_linear.c: linear layers, and the products with weights that recurrent cells share. */
#include "backend/ref/ref_kernels.h"

/* ---- Products ---- */

/* gradient[n, r] of a [G, N, H] tensor, r = g*H + j */
static float gradient_at(const crn_ref_product *at, size_t n, size_t r) {
    size_t gate = r / at->hidden, j = r % at->hidden;
    return at->gradient[(gate * at->batch + n) * at->hidden + j];
}

/* A block of columns over all rows, so that every weight is read once for the whole batch. */
#define BLOCK 64u

static void data_columns(void *context, uint32_t block) {
    const crn_ref_product *at = context;
    size_t first = (size_t)block * BLOCK, count = CRN_MIN(BLOCK, at->features - first);
    for (size_t n = 0; n < at->batch; n++)
        memset(at->x_gradient + n * at->features + first, 0, count * sizeof(float));
    for (size_t r = 0; r < (size_t)at->gates * at->hidden; r++)
        for (size_t n = 0; n < at->batch; n++)
            crn_ref_add_scaled(at->x_gradient + n * at->features + first,
                               at->weight + r * at->features + first, gradient_at(at, n, r), count);
}

void crn_ref_product_data(crn_team *threads, crn_ref_product *product) {
    if (product->x_gradient != NULL)
        crn_team_for(threads, (product->features + BLOCK - 1) / BLOCK, data_columns, product);
}

static void weight_row(void *context, uint32_t r) {
    const crn_ref_product *at = context;
    float bias = 0;
    for (size_t n = 0; n < at->batch; n++)
        bias += gradient_at(at, n, r);
    if (at->bias_gradient != NULL)
        at->bias_gradient[r] = bias;
    if (at->weight_gradient == NULL)
        return;
    float *row = at->weight_gradient + (size_t)r * at->features;
    if (!at->add)
        memset(row, 0, at->features * sizeof(float));
    for (size_t n = 0; n < at->batch; n++)
        crn_ref_add_scaled(row, at->x + n * at->features, gradient_at(at, n, r), at->features);
}

void crn_ref_product_weight(crn_team *threads, crn_ref_product *product) {
    crn_team_for(threads, product->gates * product->hidden, weight_row, product);
}

/* ---- Linear layers ---- */

typedef struct forward {
    const float *x, *weight, *bias; /* [N, F], [O, F], [O] or NULL */
    float *y;                       /* [N, O] */
    size_t batch, features, outputs;
} forward;

static void output_column(void *context, uint32_t o) {
    const forward *at = context;
    const float *row = at->weight + o * at->features;
    for (size_t n = 0; n < at->batch; n++)
        at->y[n * at->outputs + o] = crn_ref_dot(at->x + n * at->features, row, at->features) +
                                     (at->bias != NULL ? at->bias[o] : 0);
}

/* x [N, F] -> y [N, O] = x W' + b; N is the product of all dimensions but the last */
void crn_ref_linear(const crn_call *call) {
    const cairn_tensor *x = crn_ref_input(call, 0), *y = crn_ref_output(call, 0);
    forward at = {.x = call->inputs[0],
                  .weight = call->params[0],
                  .bias = call->op->param_count > 1 ? call->params[1] : NULL,
                  .y = call->outputs[0],
                  .batch = crn_ref_rows(x),
                  .features = x->shape[x->rank - 1],
                  .outputs = y->shape[y->rank - 1]};
    crn_team_for(call->threads, (uint32_t)at.outputs, output_column, &at);
}

void crn_ref_head_multiply(const crn_head_chunk *chunk) {
    forward at = {.x = chunk->x,
                  .weight = chunk->weight,
                  .y = chunk->logits,
                  .batch = chunk->rows,
                  .features = chunk->features,
                  .outputs = chunk->words};
    crn_team_for(chunk->threads, (uint32_t)at.outputs, output_column, &at);
}

/* gy [N, O] -> gx [N, F] = gy W */
void crn_ref_linear_bwd_data(const crn_call *call) {
    const cairn_tensor *gy = crn_ref_input(call, 0), *weight = crn_ref_param(call, 0);
    crn_ref_product product = {.queue = call->queue,
                               .gates = 1,
                               .batch = (uint32_t)crn_ref_rows(gy),
                               .hidden = gy->shape[gy->rank - 1],
                               .features = weight->shape[1],
                               .gradient = call->inputs[0],
                               .weight = call->params[0],
                               .x_gradient = call->outputs[0]};
    crn_ref_product_data(call->threads, &product);
}

/* x [N, F], gy [N, O] -> gradients of weight [O, F] = gy' x and bias [O] */
void crn_ref_linear_bwd_weight(const crn_call *call) {
    const cairn_tensor *x = crn_ref_input(call, 0), *gy = crn_ref_input(call, 1);
    crn_ref_product product = {.queue = call->queue,
                               .gates = 1,
                               .batch = (uint32_t)crn_ref_rows(gy),
                               .hidden = gy->shape[gy->rank - 1],
                               .features = x->shape[x->rank - 1],
                               .gradient = call->inputs[1],
                               .x = call->inputs[0],
                               .weight_gradient = crn_ref_out(call, 0),
                               .bias_gradient = crn_ref_out(call, 1)};
    crn_ref_product_weight(call->threads, &product);
}
