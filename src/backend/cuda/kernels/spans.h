/* spans.h: which pixels a window of a pooling covers along one axis, and which windows cover a
 * pixel; the hash of dropout. The same as pooling_window.h and dropout_mask.h, for a GPU. */
#ifndef CRN_SPANS_H
#define CRN_SPANS_H

#include "backend/cuda/kernels/numbers.h"

#define CRN_POINTWISE_PACKS 4u /* of a thread; as in kernel_launch.c */

typedef struct crn_span {
    int32_t first, end;
    int32_t before; /* start of the window before it is clipped */
} crn_span;

CRN_DEVICE int32_t crn_large_size(const crn_pool_args *p, int axis) {
    return (int32_t)(axis == 0 ? p->height : p->width);
}

CRN_DEVICE int32_t crn_small_size(const crn_pool_args *p, int axis) {
    return (int32_t)(axis == 0 ? p->small_height : p->small_width);
}

/* The pixels of window `index`. For adaptive windows the launch makes sure that products do not
 * overflow. */
CRN_DEVICE crn_span crn_window_span(const crn_pool_args *p, int axis, int32_t index) {
    int32_t large = crn_large_size(p, axis), small = crn_small_size(p, axis);
    crn_span span;
    if (p->adaptive) {
        span.before = span.first = index * large / small;
        span.end = ((index + 1) * large + small - 1) / small;
        return span;
    }
    span.before = index * p->stride[axis] - p->pad[axis];
    span.first = span.before > 0 ? span.before : 0;
    span.end = span.before + p->kernel[axis];
    span.end = span.end < large ? span.end : large;
    return span;
}

/* The windows that cover pixel `index`. */
CRN_DEVICE crn_span crn_windows_of(const crn_pool_args *p, int axis, int32_t index) {
    int32_t large = crn_large_size(p, axis), small = crn_small_size(p, axis);
    crn_span span;
    span.before = 0;
    if (p->adaptive) {
        span.first = index * small / large;
        span.end = ((index + 1) * small + large - 1) / large;
        return span;
    }
    int32_t low = index + p->pad[axis] - p->kernel[axis] + 1, step = p->stride[axis];
    span.first = low > 0 ? (low + step - 1) / step : 0;
    span.end = index + p->pad[axis] < 0 ? 0 : (index + p->pad[axis]) / step + 1;
    span.end = span.end < small ? span.end : small;
    return span;
}

/* The divisor of the sum over a window. */
CRN_DEVICE float crn_window_share(const crn_pool_args *p, crn_span y, crn_span x) {
    if (p->count_padding)
        return (float)(p->kernel[0] * p->kernel[1]);
    return (float)((y.end - y.first) * (x.end - x.first));
}

CRN_DEVICE uint64_t crn_dropout_hash(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
