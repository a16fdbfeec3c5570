/* cpu_pool.c: pooling of images in blocks of channels. An index is a block of an image. A window is
 * processed place by place, with all channels of the block at once. The results are those of the
 * reference (ref_pool.c), element by element. */
#include "backend/cpu/cpu_internal.h"
#include "backend/pooling_window.h"

#include <math.h>

typedef struct pooling {
    crn_image large, small; /* before and after pooling */
    const cairn_attributes *attributes;
    bool adaptive, bytes; /* bytes: indices are u8, else i32 */
    const float *from;
    float *to;
    void *places;
    const void *given_places;
} pooling;

static crn_window window_at(const pooling *at, int64_t p, int64_t q) {
    const int64_t large[] = {(int64_t)at->large.height, (int64_t)at->large.width};
    const int64_t small[] = {(int64_t)at->small.height, (int64_t)at->small.width};
    return crn_window_at(at->adaptive ? NULL : at->attributes, large, small, p, q);
}

static pooling between(const crn_call *call, cairn_id large, cairn_id small) {
    return (pooling){.large = crn_image_of(call, large),
                     .small = crn_image_of(call, small),
                     .attributes = &call->op->attributes};
}

/* The start of the block with this index. */
static size_t large_at(const pooling *at, uint32_t index) {
    return index * at->large.plane * at->large.block;
}

static size_t small_at(const pooling *at, uint32_t index) {
    return index * at->small.plane * at->small.block;
}

/* Loop over every window b of a block; i is the first element of its result. */
#define FOR_WINDOWS(at, index, b, i)                                                               \
    for (size_t p_ = 0, i = small_at(at, index); p_ < (at)->small.height; p_++)                    \
        for (size_t q_ = 0; q_ < (at)->small.width; q_++, i += (at)->small.block)                  \
            for (crn_window b = window_at(at, (int64_t)p_, (int64_t)q_), *once_ = &b;              \
                 once_ != NULL; once_ = NULL)

/* ---- maximum ---- */

/* Compilers do not vectorise "if larger, take value and place", so eight channels are an explicit
 * vector here. A comparison of two vectors sets all bits or none in each channel. */
#define EIGHT 8u
typedef float eight_values __attribute__((vector_size(EIGHT * sizeof(float))));
typedef int32_t eight_places __attribute__((vector_size(EIGHT * sizeof(int32_t))));

#define CHOOSE(which, yes, no) (((which) & (yes)) | (~(which) & (no)))

/* The maxima of eight channels. The first maximum in row-major order wins; NaN is a maximum. */
static inline void find_maximum(const pooling *at, const float *image, crn_window b, size_t block,
                                float *best, int32_t *place) {
    int64_t wide = at->attributes->kernel[1], width = (int64_t)at->large.width;
    int32_t first = (int32_t)((b.top - b.first_row) * wide + b.left - b.first_column);
    eight_values most = (eight_values){0} - INFINITY;
    eight_places where = (eight_places){0} + first;
    for (int64_t i = b.top; i < b.bottom; i++)
        for (int64_t j = b.left; j < b.right; j++) {
            eight_places here =
                (eight_places){0} + (int32_t)((i - b.first_row) * wide + j - b.first_column);
            eight_values value;
            memcpy(&value, image + (size_t)(i * width + j) * block, sizeof value);
            eight_places larger = (value > most) | (value != value);
            where = CHOOSE(larger, here, where);
            most = (eight_values)CHOOSE(larger, (eight_places)value, (eight_places)most);
        }
    memcpy(best, &most, sizeof most);
    memcpy(place, &where, sizeof where);
}

static inline void set_places(const pooling *at, size_t i, const int32_t *place) {
    if (!at->bytes)
        memcpy((int32_t *)at->places + i, place, EIGHT * sizeof *place);
    else
        for (size_t l = 0; l < EIGHT; l++)
            ((uint8_t *)at->places)[i + l] = (uint8_t)place[l];
}

static inline void max_windows(const pooling *at, uint32_t index, size_t block) {
    const float *image = at->from + large_at(at, index);
    FOR_WINDOWS(at, index, b, i) {
        for (size_t l = 0; l < block; l += EIGHT) {
            int32_t place[EIGHT];
            find_maximum(at, image + l, b, block, at->to + i + l, place);
            if (at->places != NULL)
                set_places(at, i + l, place);
        }
    }
}

CRN_VECTORISED static void max_block(void *context, uint32_t index) {
    const pooling *at = context;
    if (at->large.block == 16)
        max_windows(at, index, 16);
    else
        max_windows(at, index, 8);
}

/* x [N, C, H, W] -> y, indices [N, C, P, Q]; an index is row * KW + column within the window */
void crn_cpu_max_pool(const crn_call *call) {
    pooling at = between(call, call->op->inputs[0], call->op->outputs[0]);
    at.from = call->inputs[0];
    at.to = call->outputs[0];
    at.places = call->outputs[1];
    at.bytes = at.places != NULL && crn_ref_output(call, 1)->dtype == CAIRN_DTYPE_U8;
    crn_team_for(call->threads, crn_image_blocks(&at.large), max_block, &at);
}

static inline void read_places(const pooling *at, size_t i, eight_places *out) {
    int32_t place[EIGHT];
    if (!at->bytes)
        memcpy(place, (const int32_t *)at->given_places + i, sizeof place);
    else
        for (size_t l = 0; l < EIGHT; l++)
            place[l] = ((const uint8_t *)at->given_places)[i + l];
    memcpy(out, place, sizeof place);
}

/* Add the gradients of eight channels to the places of their maxima in a window. */
static inline void scatter(const pooling *at, float *image, crn_window b, size_t k, size_t block) {
    int64_t wide = at->attributes->kernel[1], width = (int64_t)at->large.width;
    eight_places where;
    eight_values gradient;
    read_places(at, k, &where);
    memcpy(&gradient, at->from + k, sizeof gradient);
    for (int64_t i = b.top; i < b.bottom; i++)
        for (int64_t j = b.left; j < b.right; j++) {
            eight_places here =
                (eight_places){0} + (int32_t)((i - b.first_row) * wide + j - b.first_column);
            float *to = image + (size_t)(i * width + j) * block;
            eight_values sum;
            memcpy(&sum, to, sizeof sum);
            sum += (eight_values)((where == here) & (eight_places)gradient);
            memcpy(to, &sum, sizeof sum);
        }
}

static inline void scatter_windows(const pooling *at, uint32_t index, size_t block) {
    float *image = at->to + large_at(at, index);
    memset(image, 0, at->large.plane * block * sizeof *image);
    FOR_WINDOWS(at, index, b, k) {
        for (size_t l = 0; l < block; l += EIGHT)
            scatter(at, image + l, b, k + l, block);
    }
}

CRN_VECTORISED static void scatter_block(void *context, uint32_t index) {
    const pooling *at = context;
    if (at->large.block == 16)
        scatter_windows(at, index, 16);
    else
        scatter_windows(at, index, 8);
}

/* indices, gy [N, C, P, Q] -> gx [N, C, H, W] */
void crn_cpu_max_pool_bwd(const crn_call *call) {
    pooling at = between(call, call->op->outputs[0], call->op->inputs[1]);
    at.given_places = call->inputs[0];
    at.bytes = crn_ref_input(call, 0)->dtype == CAIRN_DTYPE_U8;
    at.from = call->inputs[1];
    at.to = call->outputs[0];
    crn_team_for(call->threads, crn_image_blocks(&at.large), scatter_block, &at);
}

/* ---- average ---- */

static float share_of(const pooling *at, crn_window b) {
    int64_t count = (b.bottom - b.top) * (b.right - b.left);
    if (!at->adaptive && at->attributes->count_padding)
        count = (int64_t)at->attributes->kernel[0] * at->attributes->kernel[1];
    return (float)count;
}

static inline void average_windows(const pooling *at, uint32_t index, size_t block) {
    const float *image = at->from + large_at(at, index);
    int64_t width = (int64_t)at->large.width;
    FOR_WINDOWS(at, index, b, k) {
        float sum[CRN_CPU_MOST_BLOCK] = {0}, share = share_of(at, b);
        for (int64_t i = b.top; i < b.bottom; i++)
            for (int64_t j = b.left; j < b.right; j++) {
                const float *value = image + (size_t)(i * width + j) * block;
                for (size_t l = 0; l < block; l++)
                    sum[l] += value[l];
            }
        for (size_t l = 0; l < block; l++)
            at->to[k + l] = sum[l] / share;
    }
}

CRN_VECTORISED static void average_block(void *context, uint32_t index) {
    const pooling *at = context;
    if (at->large.block == 16)
        average_windows(at, index, 16);
    else
        average_windows(at, index, 8);
}

static inline void spread_windows(const pooling *at, uint32_t index, size_t block) {
    float *restrict image = at->to + large_at(at, index);
    int64_t width = (int64_t)at->large.width;
    memset(image, 0, at->large.plane * block * sizeof *image);
    FOR_WINDOWS(at, index, b, k) {
        float each[CRN_CPU_MOST_BLOCK], share = share_of(at, b);
        for (size_t l = 0; l < block; l++)
            each[l] = at->from[k + l] / share;
        for (int64_t i = b.top; i < b.bottom; i++)
            for (int64_t j = b.left; j < b.right; j++) {
                float *to = image + (size_t)(i * width + j) * block;
                for (size_t l = 0; l < block; l++)
                    to[l] += each[l];
            }
    }
}

CRN_VECTORISED static void spread_block(void *context, uint32_t index) {
    const pooling *at = context;
    if (at->large.block == 16)
        spread_windows(at, index, 16);
    else
        spread_windows(at, index, 8);
}

/* x [N, C, H, W] -> y [N, C, P, Q] */
static void average(const crn_call *call, bool adaptive) {
    pooling at = between(call, call->op->inputs[0], call->op->outputs[0]);
    at.adaptive = adaptive;
    at.from = call->inputs[0];
    at.to = call->outputs[0];
    crn_team_for(call->threads, crn_image_blocks(&at.large), average_block, &at);
}

/* gy [N, C, P, Q] -> gx [N, C, H, W] */
static void average_bwd(const crn_call *call, bool adaptive) {
    pooling at = between(call, call->op->outputs[0], call->op->inputs[0]);
    at.adaptive = adaptive;
    at.from = call->inputs[0];
    at.to = call->outputs[0];
    crn_team_for(call->threads, crn_image_blocks(&at.large), spread_block, &at);
}

void crn_cpu_avg_pool(const crn_call *call) {
    average(call, false);
}

void crn_cpu_avg_pool_bwd(const crn_call *call) {
    average_bwd(call, false);
}

void crn_cpu_adaptive_avg_pool(const crn_call *call) {
    average(call, true);
}

void crn_cpu_adaptive_avg_pool_bwd(const crn_call *call) {
    average_bwd(call, true);
}
