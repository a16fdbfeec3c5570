/* cpu_norm.c: batch normalisation of images in blocks of channels.
 *
 *     per image and block    sums over its plane        (parallel)
 *     per channel            sums over images -> statistics, in double
 *     per image and block    y or gx, place by place    (parallel)
 *
 * The usual two passes (mean, then variance) are one pass here: it sums x minus the first value of
 * the channel, which is close enough to the mean that no precision is lost. The channels that fill
 * up the last block have factors of zero, so they stay zero. */
#include "backend/cpu/cpu_internal.h"

#include <math.h>

#define RUN 64u /* places that are summed in float before they are added to the double */

/* Arrays with a value per channel, padded to whole blocks. */
typedef struct channel_arrays {
    float *shift, *scale, *offset; /* y = (x - shift) * scale + offset, and similar */
    float *slope;
    double *first, *second; /* [N, C]: sums of each image */
} channel_arrays;

typedef struct norm {
    crn_image image;
    const float *x, *gy;
    float *y, *gx;
    channel_arrays per;
} norm;

static size_t padded_channels(const crn_image *image) {
    return image->blocks * image->block;
}

uint64_t crn_cpu_norm_workspace(const crn_site *site) {
    const cairn_tensor *x = cairn_graph_tensor(site->graph, site->op->inputs[0]);
    uint64_t block = site->storage[site->op->inputs[0]].block;
    uint64_t channels = (x->shape[1] + block - 1) / block * block;
    return channels * (4 * sizeof(float) + 2 * x->shape[0] * sizeof(double));
}

static norm open_norm(const crn_call *call) {
    norm at = {.image = crn_image_of(call, call->op->inputs[0]), .x = call->inputs[0]};
    size_t channels = padded_channels(&at.image);
    at.per.first = call->workspace;
    at.per.second = at.per.first + channels * at.image.batch;
    at.per.shift = (float *)(at.per.second + channels * at.image.batch);
    at.per.scale = at.per.shift + channels;
    at.per.offset = at.per.scale + channels;
    at.per.slope = at.per.offset + channels;
    memset(at.per.shift, 0, 4 * channels * sizeof(float));
    return at;
}

/* The start of block `index` of all images in its tensor, and in an array of channels. */
static size_t block_at(const crn_image *image, uint32_t index) {
    return index * image->plane * image->block;
}

static size_t channel_at(const crn_image *image, uint32_t index) {
    return index % image->blocks * image->block;
}

/* ---- Sums over a plane ---- */

/* first: sum of x - shift, second: of its square, over `count` places of `block` channels */
static inline void sum_squares(const float *restrict x, const float *restrict shift, size_t count,
                               size_t block, double *restrict first, double *restrict second) {
    for (size_t l = 0; l < block; l++)
        first[l] = second[l] = 0;
    for (size_t from = 0; from < count; from += RUN) {
        float sum[CRN_CPU_MOST_BLOCK] = {0}, squares[CRN_CPU_MOST_BLOCK] = {0};
        size_t end = CRN_MIN(count, from + RUN);
        for (size_t i = from; i < end; i++)
            for (size_t l = 0; l < block; l++) {
                float value = x[i * block + l] - shift[l];
                sum[l] += value;
                squares[l] += value * value;
            }
        for (size_t l = 0; l < block; l++) {
            first[l] += sum[l];
            second[l] += squares[l];
        }
    }
}

/* first: sum of gy, second: of gy * (x - shift) */
static inline void sum_products(const float *restrict gy, const float *restrict x,
                                const float *restrict shift, size_t count, size_t block,
                                double *restrict first, double *restrict second) {
    for (size_t l = 0; l < block; l++)
        first[l] = second[l] = 0;
    for (size_t from = 0; from < count; from += RUN) {
        float sum[CRN_CPU_MOST_BLOCK] = {0}, products[CRN_CPU_MOST_BLOCK] = {0};
        size_t end = CRN_MIN(count, from + RUN);
        for (size_t i = from; i < end; i++)
            for (size_t l = 0; l < block; l++) {
                sum[l] += gy[i * block + l];
                products[l] += gy[i * block + l] * (x[i * block + l] - shift[l]);
            }
        for (size_t l = 0; l < block; l++) {
            first[l] += sum[l];
            second[l] += products[l];
        }
    }
}

CRN_VECTORISED static void sum_block(void *context, uint32_t index) {
    const norm *at = context;
    const crn_image *image = &at->image;
    size_t channel = channel_at(image, index), sums = index * image->block;
    const float *x = at->x + block_at(image, index), *shift = at->per.shift + channel;
    double *first = at->per.first + sums, *second = at->per.second + sums;
    if (at->gy == NULL) {
        if (image->block == 16)
            sum_squares(x, shift, image->plane, 16, first, second);
        else
            sum_squares(x, shift, image->plane, 8, first, second);
        return;
    }
    const float *gy = at->gy + block_at(image, index);
    if (image->block == 16)
        sum_products(gy, x, shift, image->plane, 16, first, second);
    else
        sum_products(gy, x, shift, image->plane, 8, first, second);
}

/* The sums of one channel over all images. */
static void add_up(const norm *at, size_t channel, double *first, double *second) {
    size_t channels = padded_channels(&at->image);
    *first = *second = 0;
    for (size_t n = 0; n < at->image.batch; n++) {
        *first += at->per.first[n * channels + channel];
        *second += at->per.second[n * channels + channel];
    }
}

/* ---- forward ---- */

static inline void normalise(const float *x, float *y, const float *restrict shift,
                             const float *restrict scale, const float *restrict offset,
                             size_t count, size_t block) {
    for (size_t i = 0; i < count * block; i += block) {
        float value[CRN_CPU_MOST_BLOCK]; /* y may be x */
        for (size_t l = 0; l < block; l++)
            value[l] = (x[i + l] - shift[l]) * scale[l] + offset[l];
        memcpy(y + i, value, block * sizeof *value);
    }
}

CRN_VECTORISED static void normalise_block(void *context, uint32_t index) {
    const norm *at = context;
    const crn_image *image = &at->image;
    size_t channel = channel_at(image, index);
    const float *x = at->x + block_at(image, index);
    float *y = at->y + block_at(image, index);
    float shift[CRN_CPU_MOST_BLOCK], scale[CRN_CPU_MOST_BLOCK], offset[CRN_CPU_MOST_BLOCK];
    memcpy(shift, at->per.shift + channel, image->block * sizeof(float));
    memcpy(scale, at->per.scale + channel, image->block * sizeof(float));
    memcpy(offset, at->per.offset + channel, image->block * sizeof(float));
    if (image->block == 16)
        normalise(x, y, shift, scale, offset, image->plane, 16);
    else
        normalise(x, y, shift, scale, offset, image->plane, 8);
}

static float blend(float running, double batch, double momentum) {
    return (float)((1 - momentum) * running + momentum * batch);
}

/* Mean and variance of a channel from the sums; updates the running statistics if this is the first
 * run. */
static void channel_statistics(const crn_call *call, const norm *at, size_t c, double *mean,
                               double *variance) {
    float *running_mean = call->params[2], *running_var = call->params[3];
    double first, second, count = (double)(at->image.batch * at->image.plane);
    add_up(at, c, &first, &second);
    *mean = at->per.shift[c] + first / count;
    double squares = second - first * first / count;
    squares = squares > 0 ? squares : 0;
    *variance = squares / count;
    if (call->again)
        return;
    double momentum = call->op->attributes.momentum;
    running_mean[c] = blend(running_mean[c], *mean, momentum);
    running_var[c] = blend(running_var[c], squares / (count > 1 ? count - 1 : 1), momentum);
}

static void find_statistics(const crn_call *call, norm *at) {
    const float *gamma = call->params[0], *beta = call->params[1];
    const float *running_mean = call->params[2], *running_var = call->params[3];
    float *stats = crn_ref_out(call, 1);
    for (size_t c = 0; c < at->image.channels; c++) {
        double mean = running_mean[c], variance = running_var[c];
        if (call->training)
            channel_statistics(call, at, c, &mean, &variance);
        float inverse = (float)(1 / sqrt(variance + call->op->attributes.epsilon));
        at->per.shift[c] = (float)mean;
        at->per.scale[c] = gamma[c] * inverse;
        at->per.offset[c] = beta[c];
        if (stats == NULL)
            continue;
        stats[c] = (float)mean;
        stats[at->image.channels + c] = inverse;
    }
}

/* The first value of each channel, which is subtracted before summing. */
static void guess_means(norm *at) {
    const crn_image *image = &at->image;
    for (size_t c = 0; c < image->channels; c++)
        at->per.shift[c] = at->x[c / image->block * image->plane * image->block + c % image->block];
}

/* x -> y = gamma * (x - mean) / deviation + beta, stats [2, C] */
void crn_cpu_batch_norm(const crn_call *call) {
    norm at = open_norm(call);
    at.y = call->outputs[0];
    if (call->training) {
        guess_means(&at);
        crn_team_for(call->threads, crn_image_blocks(&at.image), sum_block, &at);
    }
    find_statistics(call, &at);
    crn_team_for(call->threads, crn_image_blocks(&at.image), normalise_block, &at);
}

/* ---- backward ---- */

/* With xhat = (x - mean) / deviation and m elements in the channel:
 *     gx = gamma / deviation * (gy - gbeta / m - xhat * ggamma / m) */
static inline void differentiate(const float *gy, const float *x, float *gx,
                                 const float *restrict shift, const float *restrict scale,
                                 const float *restrict offset, const float *restrict slope,
                                 size_t count, size_t block) {
    for (size_t i = 0; i < count * block; i += block) {
        float value[CRN_CPU_MOST_BLOCK]; /* gx may be gy or x */
        for (size_t l = 0; l < block; l++)
            value[l] = scale[l] * (gy[i + l] - offset[l] - (x[i + l] - shift[l]) * slope[l]);
        memcpy(gx + i, value, block * sizeof *value);
    }
}

CRN_VECTORISED static void differentiate_block(void *context, uint32_t index) {
    const norm *at = context;
    const crn_image *image = &at->image;
    size_t channel = channel_at(image, index), begin = block_at(image, index);
    float shift[CRN_CPU_MOST_BLOCK], scale[CRN_CPU_MOST_BLOCK], offset[CRN_CPU_MOST_BLOCK],
        slope[CRN_CPU_MOST_BLOCK];
    memcpy(shift, at->per.shift + channel, image->block * sizeof(float));
    memcpy(scale, at->per.scale + channel, image->block * sizeof(float));
    memcpy(offset, at->per.offset + channel, image->block * sizeof(float));
    memcpy(slope, at->per.slope + channel, image->block * sizeof(float));
    if (image->block == 16)
        differentiate(at->gy + begin, at->x + begin, at->gx + begin, shift, scale, offset, slope,
                      image->plane, 16);
    else
        differentiate(at->gy + begin, at->x + begin, at->gx + begin, shift, scale, offset, slope,
                      image->plane, 8);
}

/* Compute the gradients of gamma and beta, and the factors of gx, from the sums. */
static void find_gradients(const crn_call *call, norm *at, const float *stats) {
    const float *gamma = call->params[0];
    float *ggamma = crn_ref_out(call, 1), *gbeta = crn_ref_out(call, 2);
    double count = (double)(at->image.batch * at->image.plane);
    for (size_t c = 0; c < at->image.channels; c++) {
        float inverse = stats[at->image.channels + c];
        double sum, product;
        add_up(at, c, &sum, &product);
        product *= inverse;
        if (ggamma != NULL)
            ggamma[c] = (float)product;
        if (gbeta != NULL)
            gbeta[c] = (float)sum;
        at->per.scale[c] = gamma[c] * inverse;
        at->per.offset[c] = call->training ? (float)(sum / count) : 0;
        at->per.slope[c] = call->training ? (float)(product / count) * inverse : 0;
    }
}

/* x, stats [2, C], gy -> gx, gradients of gamma and beta [C] */
void crn_cpu_batch_norm_bwd(const crn_call *call) {
    norm at = open_norm(call);
    at.gy = call->inputs[2];
    at.gx = crn_ref_out(call, 0);
    memcpy(at.per.shift, call->inputs[1], at.image.channels * sizeof(float));
    crn_team_for(call->threads, crn_image_blocks(&at.image), sum_block, &at);
    find_gradients(call, &at, call->inputs[1]);
    if (at.gx != NULL)
        crn_team_for(call->threads, crn_image_blocks(&at.image), differentiate_block, &at);
}
