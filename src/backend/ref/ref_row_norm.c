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
#include "backend/ref/ref_internal.h"

#include <math.h>

#define COLUMNS 64u /* that one index owns */

typedef struct norm {
    const float *x, *gy, *gamma, *beta;
    const float *given_mean, *given_inverse; /* [R]; the mean of an RMS norm is NULL */
    float *y, *mean, *inverse, *gx, *ggamma, *gbeta;
    size_t rows, width;
    double epsilon;
    bool centred; /* a layer norm */
} norm;

static norm shape_of(const crn_call *call, bool centred) {
    const cairn_tensor *x = crn_ref_input(call, 0);
    return (norm){.x = call->inputs[0],
                  .gamma = call->params[0],
                  .rows = crn_ref_rows(x),
                  .width = x->shape[x->rank - 1],
                  .epsilon = call->op->attributes.epsilon,
                  .centred = centred};
}

/* ---- forward ---- */

static void normalise_row(void *context, uint32_t r) {
    const norm *at = context;
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

/* x [..., D] -> y, stats [2, R]: mean, 1 / deviation */
void crn_ref_layer_norm(const crn_call *call) {
    norm at = shape_of(call, true);
    float *stats = crn_ref_out(call, 1);
    at.y = call->outputs[0];
    at.beta = call->op->param_count > 1 ? call->params[1] : NULL;
    at.mean = stats;
    at.inverse = stats != NULL ? stats + at.rows : NULL;
    crn_team_for(call->threads, (uint32_t)at.rows, normalise_row, &at);
}

/* x [..., D] -> y, stats [R]: 1 / root mean square */
void crn_ref_rms_norm(const crn_call *call) {
    norm at = shape_of(call, false);
    at.y = call->outputs[0];
    at.inverse = crn_ref_out(call, 1);
    crn_team_for(call->threads, (uint32_t)at.rows, normalise_row, &at);
}

/* ---- backward ---- */

static float mean_of(const norm *at, size_t r) {
    return at->given_mean != NULL ? at->given_mean[r] : 0;
}

static void sum_columns(void *context, uint32_t block) {
    const norm *at = context;
    size_t first = (size_t)block * COLUMNS, count = CRN_MIN(COLUMNS, at->width - first);
    double gamma[COLUMNS] = {0}, beta[COLUMNS] = {0};
    for (size_t r = 0; r < at->rows; r++) {
        const float *x = at->x + r * at->width + first, *gy = at->gy + r * at->width + first;
        float mean = mean_of(at, r), inverse = at->given_inverse[r];
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
    const norm *at = context;
    const float *x = at->x + r * at->width, *gy = at->gy + r * at->width;
    float *gx = at->gx + r * at->width;
    float mean = mean_of(at, r), inverse = at->given_inverse[r];
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

static void differentiate(const crn_call *call, norm *at) {
    at->gy = call->inputs[2];
    at->gx = crn_ref_out(call, 0);
    at->ggamma = crn_ref_out(call, 1);
    at->gbeta = crn_ref_out(call, 2);
    if (at->ggamma != NULL || at->gbeta != NULL)
        crn_team_for(call->threads, (uint32_t)((at->width + COLUMNS - 1) / COLUMNS), sum_columns,
                     at);
    if (at->gx != NULL)
        crn_team_for(call->threads, (uint32_t)at->rows, differentiate_row, at);
}

/* x, stats [2, R], gy -> gx, gradients of gamma and beta [D] */
void crn_ref_layer_norm_bwd(const crn_call *call) {
    norm at = shape_of(call, true);
    at.given_mean = call->inputs[1];
    at.given_inverse = at.given_mean + at.rows;
    differentiate(call, &at);
}

/* x, stats [R], gy -> gx, gradient of gamma [D] */
void crn_ref_rms_norm_bwd(const crn_call *call) {
    norm at = shape_of(call, false);
    at.given_inverse = call->inputs[1];
    differentiate(call, &at);
}
