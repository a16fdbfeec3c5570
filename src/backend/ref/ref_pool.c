/* ref_pool.c: pooling of images. Each plane of [N, C, H, W] is pooled by itself into [P, Q]
 * windows.
 *
 * A window is clipped to the image. Padding counts as minus infinity for a maximum. For an average
 * it counts as zeros, or not at all. Adaptive pooling is an average over windows that depend only
 * on the sizes. */
#include "backend/pooling_window.h"
#include "backend/ref/ref_kernels.h"

#include <math.h>

typedef struct pooling {
    int64_t height, width, small_height, small_width; /* H, W, P, Q */
    const cairn_attributes *attributes;
    bool adaptive, count_padding, bytes; /* bytes: indices are u8, else i32 */
    const float *from;
    float *to;
    void *places;             /* [N, C, P, Q]: the place of each maximum in its window */
    const void *given_places; /* likewise, in the backward pass */
} pooling;

static crn_window window_at(const pooling *at, int64_t p, int64_t q) {
    const int64_t large[] = {at->height, at->width}, small[] = {at->small_height, at->small_width};
    return crn_window_at(at->adaptive ? NULL : at->attributes, large, small, p, q);
}

static pooling between(const crn_call *call, const cairn_tensor *large, const cairn_tensor *small) {
    return (pooling){.height = large->shape[2],
                     .width = large->shape[3],
                     .small_height = small->shape[2],
                     .small_width = small->shape[3],
                     .attributes = &call->op->attributes,
                     .count_padding = call->op->attributes.count_padding != 0};
}

static uint32_t planes(const cairn_tensor *image) {
    return image->shape[0] * image->shape[1];
}

/* ---- maximum ---- */

static void set_place(const pooling *at, size_t i, int64_t place) {
    if (at->bytes)
        ((uint8_t *)at->places)[i] = (uint8_t)place;
    else
        ((int32_t *)at->places)[i] = (int32_t)place;
}

static int64_t place_at(const pooling *at, size_t i) {
    return at->bytes ? ((const uint8_t *)at->given_places)[i]
                     : ((const int32_t *)at->given_places)[i];
}

/* The first maximum in row-major order wins; NaN is a maximum. */
static float maximum(const pooling *at, const float *image, crn_window b, int64_t *place) {
    float best = -INFINITY;
    int64_t row = b.top, column = b.left;
    for (int64_t i = b.top; i < b.bottom; i++)
        for (int64_t j = b.left; j < b.right; j++) {
            float value = image[i * at->width + j];
            if (value > best || isnan(value)) {
                best = value;
                row = i;
                column = j;
            }
        }
    *place = (row - b.first_row) * at->attributes->kernel[1] + column - b.first_column;
    return best;
}

static void max_plane(void *context, uint32_t plane) {
    const pooling *at = context;
    const float *image = at->from + plane * (at->height * at->width);
    size_t i = (size_t)plane * (size_t)(at->small_height * at->small_width);
    for (int64_t p = 0; p < at->small_height; p++)
        for (int64_t q = 0; q < at->small_width; q++, i++) {
            int64_t place;
            at->to[i] = maximum(at, image, window_at(at, p, q), &place);
            if (at->places != NULL)
                set_place(at, i, place);
        }
}

/* x [N, C, H, W] -> y, indices [N, C, P, Q]; an index is row * KW + column within the window */
void crn_ref_max_pool(const crn_call *call) {
    pooling at = between(call, crn_ref_input(call, 0), crn_ref_output(call, 0));
    at.from = call->inputs[0];
    at.to = call->outputs[0];
    at.places = call->outputs[1];
    at.bytes = at.places != NULL && crn_ref_output(call, 1)->dtype == CAIRN_DTYPE_U8;
    crn_team_for(call->threads, planes(crn_ref_input(call, 0)), max_plane, &at);
}

static void max_bwd_plane(void *context, uint32_t plane) {
    const pooling *at = context;
    float *image = at->to + plane * (at->height * at->width);
    memset(image, 0, (size_t)(at->height * at->width) * sizeof *image);
    size_t i = (size_t)plane * (size_t)(at->small_height * at->small_width);
    for (int64_t p = 0; p < at->small_height; p++)
        for (int64_t q = 0; q < at->small_width; q++, i++) {
            crn_window b = window_at(at, p, q);
            int64_t place = place_at(at, i), wide = at->attributes->kernel[1];
            int64_t row = b.first_row + place / wide, column = b.first_column + place % wide;
            image[row * at->width + column] += at->from[i];
        }
}

/* indices, gy [N, C, P, Q] -> gx [N, C, H, W] */
void crn_ref_max_pool_bwd(const crn_call *call) {
    pooling at = between(call, crn_ref_output(call, 0), crn_ref_input(call, 1));
    at.given_places = call->inputs[0];
    at.bytes = crn_ref_input(call, 0)->dtype == CAIRN_DTYPE_U8;
    at.from = call->inputs[1];
    at.to = call->outputs[0];
    crn_team_for(call->threads, planes(crn_ref_output(call, 0)), max_bwd_plane, &at);
}

/* ---- average ---- */

static float share_of(const pooling *at, crn_window b) {
    int64_t count = (b.bottom - b.top) * (b.right - b.left);
    if (at->count_padding)
        count = (int64_t)at->attributes->kernel[0] * at->attributes->kernel[1];
    return (float)count;
}

static void avg_plane(void *context, uint32_t plane) {
    const pooling *at = context;
    const float *image = at->from + plane * (at->height * at->width);
    float *to = at->to + plane * (at->small_height * at->small_width);
    for (int64_t p = 0; p < at->small_height; p++)
        for (int64_t q = 0; q < at->small_width; q++) {
            crn_window b = window_at(at, p, q);
            float sum = 0;
            for (int64_t i = b.top; i < b.bottom; i++)
                for (int64_t j = b.left; j < b.right; j++)
                    sum += image[i * at->width + j];
            *to++ = sum / share_of(at, b);
        }
}

static void avg_bwd_plane(void *context, uint32_t plane) {
    const pooling *at = context;
    float *image = at->to + plane * (at->height * at->width);
    const float *from = at->from + plane * (at->small_height * at->small_width);
    memset(image, 0, (size_t)(at->height * at->width) * sizeof *image);
    for (int64_t p = 0; p < at->small_height; p++)
        for (int64_t q = 0; q < at->small_width; q++) {
            crn_window b = window_at(at, p, q);
            float each = *from++ / share_of(at, b);
            for (int64_t i = b.top; i < b.bottom; i++)
                for (int64_t j = b.left; j < b.right; j++)
                    image[i * at->width + j] += each;
        }
}

/* x [N, C, H, W] -> y [N, C, P, Q] */
static void average(const crn_call *call, bool adaptive) {
    pooling at = between(call, crn_ref_input(call, 0), crn_ref_output(call, 0));
    at.adaptive = adaptive;
    at.from = call->inputs[0];
    at.to = call->outputs[0];
    crn_team_for(call->threads, planes(crn_ref_input(call, 0)), avg_plane, &at);
}

/* gy [N, C, P, Q] -> gx [N, C, H, W] */
static void average_bwd(const crn_call *call, bool adaptive) {
    pooling at = between(call, crn_ref_output(call, 0), crn_ref_input(call, 0));
    at.adaptive = adaptive;
    at.from = call->inputs[0];
    at.to = call->outputs[0];
    crn_team_for(call->threads, planes(crn_ref_output(call, 0)), avg_bwd_plane, &at);
}

void crn_ref_avg_pool(const crn_call *call) {
    average(call, false);
}

void crn_ref_avg_pool_bwd(const crn_call *call) {
    average_bwd(call, false);
}

void crn_ref_adaptive_avg_pool(const crn_call *call) {
    average(call, true);
}

void crn_ref_adaptive_avg_pool_bwd(const crn_call *call) {
    average_bwd(call, true);
}
