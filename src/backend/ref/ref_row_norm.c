/* ref_row_norm.c: norms of rows: layer norm and RMS norm.
 *
 * With xhat = (x - mean) / deviation, and a mean of 0 in an RMS norm:
 *
 *     y  = gamma * xhat + beta
 *     gx = (g - mean of g - xhat * mean of g * xhat) / deviation,    g = gamma * gy
 *
 * where an RMS norm has no mean of g. Statistics are sums in double precision. The gradients of
 * gamma and beta are sums over rows in order; they are made before gx, which may be in place of
 * gy. */
#include "backend/ref/row_norm.h"

#include <math.h>

/* ---- forward ---- */

static void normalise_row(void *context, uint32_t r) {
    const crn_row_norm *at = context;
    const float *x = at->x + r * at->width;
    float *y = at->y + r * at->width;
    double count = (double)at->width, squares[CRN_REF_LANES] = {0};
    double exact = at->centred ? crn_ref_sum(x, at->width) / count : 0;
    for (size_t i = 0; i < at->width; i++)
        squares[i % CRN_REF_LANES] += (x[i] - exact) * (x[i] - exact);
    float mean = (float)exact;
    float inverse = (float)(1 / sqrt(CRN_REF_LANE_TOTAL(squares) / count + at->epsilon));
    if (at->mean != NULL)
        at->mean[r] = mean;
    if (at->inverse != NULL)
        at->inverse[r] = inverse;
    for (size_t i = 0; i < at->width; i++)
        y[i] = (x[i] - mean) * inverse * at->gamma[i] + (at->beta != NULL ? at->beta[i] : 0);
}

/* ---- backward ---- */

static void sum_columns(void *context, uint32_t block) {
    const crn_row_norm *at = context;
    size_t first = (size_t)block * CRN_NORM_COLUMNS,
           count = CRN_MIN(CRN_NORM_COLUMNS, at->width - first);
    double gamma[CRN_NORM_COLUMNS] = {0}, beta[CRN_NORM_COLUMNS] = {0};
    for (size_t r = 0; r < at->rows; r++) {
        const float *x = at->x + r * at->width + first, *gy = at->gy + r * at->width + first;
        float mean = crn_row_norm_mean(at, r), inverse = at->given_inverse[r];
        for (size_t i = 0; i < count; i++) {
            gamma[i] += (double)gy[i] * ((x[i] - mean) * inverse);
            beta[i] += gy[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (at->ggamma != NULL)
            at->ggamma[first + i] = (float)gamma[i];
        if (at->gbeta != NULL)
            at->gbeta[first + i] = (float)beta[i];
    }
}

static void differentiate_row(void *context, uint32_t r) {
    const crn_row_norm *at = context;
    const float *x = at->x + r * at->width, *gy = at->gy + r * at->width;
    float *gx = at->gx + r * at->width;
    float mean = crn_row_norm_mean(at, r), inverse = at->given_inverse[r];
    double sum[CRN_REF_LANES] = {0}, product[CRN_REF_LANES] = {0};
    for (size_t i = 0; i < at->width; i++) {
        double g = (double)gy[i] * at->gamma[i];
        sum[i % CRN_REF_LANES] += g;
        product[i % CRN_REF_LANES] += g * ((x[i] - mean) * inverse);
    }
    double count = (double)at->width;
    float shift = at->centred ? (float)(CRN_REF_LANE_TOTAL(sum) / count) : 0;
    float slope = (float)(CRN_REF_LANE_TOTAL(product) / count);
    for (size_t i = 0; i < at->width; i++)
        gx[i] = inverse * (gy[i] * at->gamma[i] - shift - (x[i] - mean) * inverse * slope);
}

/* ---- ops ---- */

static crn_row_norm shape_of(const crn_call *call, bool centred) {
    const cairn_tensor *x = crn_ref_input(call, 0);
    return (crn_row_norm){.x = call->inputs[0],
                          .gamma = call->params[0],
                          .rows = crn_ref_rows(x),
                          .width = x->shape[x->rank - 1],
                          .epsilon = call->op->attributes.epsilon,
                          .centred = centred,
                          .half = call->storage[call->op->inputs[0]].type == CRN_BF16,
                          .rooms = call->workspace};
}

void crn_row_norm_forward(const crn_call *call, bool centred, const crn_row_norm_workers *workers) {
    crn_row_norm at = shape_of(call, centred);
    float *stats = crn_ref_out(call, 1);
    at.y = call->outputs[0];
    at.beta = call->op->param_count > 1 ? call->params[1] : NULL;
    at.mean = centred ? stats : NULL;
    at.inverse = centred && stats != NULL ? stats + at.rows : stats;
    crn_team_for(call->threads, (uint32_t)at.rows, workers->normalise_row, &at);
}

void crn_row_norm_backward(const crn_call *call, bool centred,
                           const crn_row_norm_workers *workers) {
    crn_row_norm at = shape_of(call, centred);
    const float *stats = call->inputs[1];
    at.given_mean = centred ? stats : NULL;
    at.given_inverse = centred ? stats + at.rows : stats;
    at.gy = call->inputs[2];
    at.gx = crn_ref_out(call, 0);
    at.ggamma = crn_ref_out(call, 1);
    at.gbeta = crn_ref_out(call, 2);
    if (at.ggamma != NULL || at.gbeta != NULL)
        crn_team_for(call->threads,
                     (uint32_t)((at.width + CRN_NORM_COLUMNS - 1) / CRN_NORM_COLUMNS),
                     workers->sum_columns, &at);
    if (at.gx != NULL)
        crn_team_for(call->threads, (uint32_t)at.rows, workers->differentiate_row, &at);
}

static const crn_row_norm_workers workers = {normalise_row, sum_columns, differentiate_row};

void crn_ref_layer_norm(const crn_call *call) {
    crn_row_norm_forward(call, true, &workers);
}

void crn_ref_rms_norm(const crn_call *call) {
    crn_row_norm_forward(call, false, &workers);
}

void crn_ref_layer_norm_bwd(const crn_call *call) {
    crn_row_norm_backward(call, true, &workers);
}

void crn_ref_rms_norm_bwd(const crn_call *call) {
    crn_row_norm_backward(call, false, &workers);
}
