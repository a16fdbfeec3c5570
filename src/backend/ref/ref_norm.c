/* ref_norm.c: batch normalisation (S. Ioffe and C. Szegedy, 2015), as PyTorch computes it.
 *
 * A channel belongs to one thread, which finishes its sums before it writes. So y may be in place
 * of x, and gx in place of gy. Sums are in double precision. Images are [N, C, H, W]; a channel is
 * N planes of H*W. */
#include "backend/ref/ref_kernels.h"

#include <math.h>

typedef struct norm {
    const float *x, *gy;               /* [N, C, H, W] */
    float *y, *gx;                     /* likewise; gx may be NULL */
    const float *gamma, *beta;         /* [C] */
    float *running_mean, *running_var; /* [C] */
    float *stats;                      /* [2, C]: mean, 1/deviation; NULL: not computed */
    const float *given_stats;          /* the same, in the backward pass */
    float *ggamma, *gbeta;             /* [C] or NULL */
    size_t batch, channels, plane;
    double epsilon, momentum;
    bool training, update;
} norm;

static norm shape_of(const crn_call *call) {
    const cairn_tensor *x = crn_ref_input(call, 0);
    return (norm){.x = call->inputs[0],
                  .gamma = call->params[0],
                  .batch = x->shape[0],
                  .channels = x->shape[1],
                  .plane = crn_ref_size(x, 2, 4),
                  .epsilon = call->op->attributes.epsilon,
                  .momentum = call->op->attributes.momentum,
                  .training = call->training};
}

/* The start of plane n of channel c. */
static size_t plane_at(const norm *at, size_t n, size_t c) {
    return (n * at->channels + c) * at->plane;
}

/* ---- forward ---- */

static double mean_of(const norm *at, size_t c) {
    double sum = 0;
    for (size_t n = 0; n < at->batch; n++)
        sum += crn_ref_sum(at->x + plane_at(at, n, c), at->plane);
    return sum / (double)(at->batch * at->plane);
}

/* The sum of (x - mean)^2. */
static double squares_of(const norm *at, size_t c, double mean) {
    double lane[CRN_REF_LANES] = {0};
    for (size_t n = 0; n < at->batch; n++) {
        const float *x = at->x + plane_at(at, n, c);
        for (size_t i = 0; i < at->plane; i++)
            lane[i % CRN_REF_LANES] += (x[i] - mean) * (x[i] - mean);
    }
    return CRN_REF_LANE_TOTAL(lane);
}

static float blend(float running, double batch, double momentum) {
    return (float)((1 - momentum) * running + momentum * batch);
}

/* Mean and variance of a channel from the batch; updates the running statistics if this is the
 * first run. */
static void batch_statistics(const norm *at, size_t c, double *mean, double *variance) {
    double count = (double)(at->batch * at->plane);
    *mean = mean_of(at, c);
    double squares = squares_of(at, c, *mean);
    *variance = squares / count;
    if (!at->update)
        return;
    double unbiased = squares / (count > 1 ? count - 1 : 1);
    at->running_mean[c] = blend(at->running_mean[c], *mean, at->momentum);
    at->running_var[c] = blend(at->running_var[c], unbiased, at->momentum);
}

static void normalise_channel(void *context, uint32_t c) {
    const norm *at = context;
    double exact_mean = at->running_mean[c], variance = at->running_var[c];
    if (at->training)
        batch_statistics(at, c, &exact_mean, &variance);
    float mean = (float)exact_mean, inverse = (float)(1 / sqrt(variance + at->epsilon));
    if (at->stats != NULL) {
        at->stats[c] = mean;
        at->stats[at->channels + c] = inverse;
    }
    float scale = at->gamma[c] * inverse, beta = at->beta[c];
    for (size_t n = 0; n < at->batch; n++) {
        const float *x = at->x + plane_at(at, n, c);
        float *y = at->y + plane_at(at, n, c);
        for (size_t i = 0; i < at->plane; i++)
            y[i] = (x[i] - mean) * scale + beta;
    }
}

/* x -> y = gamma * (x - mean) / deviation + beta, stats [2, C] */
void crn_ref_batch_norm(const crn_call *call) {
    norm at = shape_of(call);
    at.y = call->outputs[0];
    at.stats = crn_ref_out(call, 1);
    at.beta = call->params[1];
    at.running_mean = call->params[2];
    at.running_var = call->params[3];
    at.update = call->training && !call->again;
    crn_team_for(call->threads, (uint32_t)at.channels, normalise_channel, &at);
}

/* ---- backward ---- */

/* sum of gy, and sum of gy * (x - mean) / deviation: the gradients of beta and gamma. */
static void channel_sums(const norm *at, size_t c, double *sum, double *product) {
    float mean = at->given_stats[c], inverse = at->given_stats[at->channels + c];
    double lane[CRN_REF_LANES] = {0};
    *sum = 0;
    for (size_t n = 0; n < at->batch; n++) {
        const float *x = at->x + plane_at(at, n, c), *gy = at->gy + plane_at(at, n, c);
        *sum += crn_ref_sum(gy, at->plane);
        for (size_t i = 0; i < at->plane; i++)
            lane[i % CRN_REF_LANES] += (double)gy[i] * (x[i] - mean);
    }
    *product = CRN_REF_LANE_TOTAL(lane) * inverse;
}

/* With xhat = (x - mean) / deviation and m elements in the channel:
 *     gx = gamma / deviation * (gy - gbeta / m - xhat * ggamma / m)
 * In evaluation the statistics do not depend on x, and the last two terms vanish. */
static void differentiate_channel(void *context, uint32_t c) {
    const norm *at = context;
    double sum, product;
    channel_sums(at, c, &sum, &product);
    if (at->ggamma != NULL)
        at->ggamma[c] = (float)product;
    if (at->gbeta != NULL)
        at->gbeta[c] = (float)sum;
    if (at->gx == NULL)
        return;
    float mean = at->given_stats[c], inverse = at->given_stats[at->channels + c];
    double count = (double)(at->batch * at->plane);
    float shift = at->training ? (float)(sum / count) : 0;
    float slope = at->training ? (float)(product / count) * inverse : 0;
    float scale = at->gamma[c] * inverse;
    for (size_t n = 0; n < at->batch; n++) {
        const float *x = at->x + plane_at(at, n, c), *gy = at->gy + plane_at(at, n, c);
        float *gx = at->gx + plane_at(at, n, c);
        for (size_t i = 0; i < at->plane; i++)
            gx[i] = scale * (gy[i] - shift - (x[i] - mean) * slope);
    }
}

/* x, stats [2, C], gy -> gx, gradients of gamma and beta [C] */
void crn_ref_batch_norm_bwd(const crn_call *call) {
    norm at = shape_of(call);
    at.given_stats = call->inputs[1];
    at.gy = call->inputs[2];
    at.gx = crn_ref_out(call, 0);
    at.ggamma = crn_ref_out(call, 1);
    at.gbeta = crn_ref_out(call, 2);
    crn_team_for(call->threads, (uint32_t)at.channels, differentiate_channel, &at);
}
