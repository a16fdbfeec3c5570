/* ref_conv.c: convolutions and transposed convolutions, computed directly.
 *
 * All six kernels are three loops over the same pairs of pixels. A convolution reads a large image
 * and makes a small one; a transposed convolution goes the other way with the same weights:
 *
 *     large [N, C, H, W]    weight [O, C/groups, KH, KW]    small [N, O, P, Q]
 *
 *     small(n, o, p, q)  meets  large(n, c, p*stride + kh*dilation - pad, ...)  through
 *     weight(o, c, kh, kw)
 *
 *     gather   small += weight * large    conv2d,             conv_transpose2d_bwd_data
 *     scatter  large += weight * small    conv2d_bwd_data,    conv_transpose2d
 *     weigh    weight = small . large     conv2d_bwd_weight,  conv_transpose2d_bwd_weight
 *
 * The innermost loop runs along a row. The range of a row inside the image is computed once per tap
 * of the kernel. So padding needs no test per pixel, and negative padding (a crop) needs no extra
 * code. */
#include "backend/ref/ref_kernels.h"

typedef struct window {
    int64_t batch, channels, height, width;     /* of the large image: N, C, H, W */
    int64_t filters, small_height, small_width; /* of the small one: O, P, Q */
    int64_t kernel[2], stride[2], dilation[2], pad[2], groups;
    const float *from;  /* the image that is read; for `weigh` the large one */
    const float *other; /* for `weigh` the small image */
    const float *weight;
    const float *bias; /* of the output image, or NULL */
    float *to;         /* the output: an image or weights */
} window;

/* ---- One row of pixels that meet through one tap: small[i] and large[i * stride] ---- */

static void gather_row(float *small, const float *large, float weight, int64_t count,
                       int64_t stride) {
    if (stride == 1)
        crn_ref_add_scaled(small, large, weight, (size_t)count);
    else
        for (int64_t i = 0; i < count; i++)
            small[i] += weight * large[i * stride];
}

static void scatter_row(float *large, const float *small, float weight, int64_t count,
                        int64_t stride) {
    if (stride == 1)
        crn_ref_add_scaled(large, small, weight, (size_t)count);
    else
        for (int64_t i = 0; i < count; i++)
            large[i * stride] += weight * small[i];
}

static void dot_row(float lane[CRN_REF_LANES], const float *small, const float *large,
                    int64_t count, int64_t stride) {
    if (stride == 1)
        crn_ref_dot_lanes(lane, small, large, (size_t)count);
    else
        for (int64_t i = 0; i < count; i++)
            lane[i % CRN_REF_LANES] += small[i] * large[i * stride];
}

/* ---- Which pixels meet ---- */

/* Small pixels first..end-1 meet pixels inside the large image, of `length`, along one axis. */
typedef struct span {
    int64_t first, end, offset; /* pixel p meets p * stride + offset */
} span;

static int64_t divide_up(int64_t a, int64_t b) { /* b > 0 */
    return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

static span meet(const window *at, int axis, int64_t tap, int64_t small_length, int64_t length) {
    int64_t offset = tap * at->dilation[axis] - at->pad[axis];
    int64_t first = CRN_MAX(0, divide_up(-offset, at->stride[axis]));
    int64_t end = CRN_MIN(small_length, divide_up(length - offset, at->stride[axis]));
    return (span){first, end, offset};
}

/* The rows that meet through tap kh * KW + kw: `rows` rows of `count` pixels each, from these
 * places in the planes. */
typedef struct meeting {
    int64_t rows, count;
    int64_t small, large;           /* places of the first pixels in their planes */
    int64_t small_step, large_step; /* from one row to the next */
} meeting;

static meeting meet_tap(const window *at, int64_t tap) {
    span y = meet(at, 0, tap / at->kernel[1], at->small_height, at->height);
    span x = meet(at, 1, tap % at->kernel[1], at->small_width, at->width);
    return (meeting){
        .rows = x.end > x.first ? y.end - y.first : 0,
        .count = x.end - x.first,
        .small = y.first * at->small_width + x.first,
        .large =
            (y.first * at->stride[0] + y.offset) * at->width + x.first * at->stride[1] + x.offset,
        .small_step = at->small_width,
        .large_step = at->stride[0] * at->width,
    };
}

static void fill(float *to, int64_t count, float value) {
    for (int64_t i = 0; i < count; i++)
        to[i] = value;
}

/* ---- The three loops: tap by tap, and within a tap over the channels that meet ---- */

/* One plane of the small image: n, o = index. */
static void gather_plane(void *context, uint32_t index) {
    const window *at = context;
    int64_t n = index / at->filters, o = index % at->filters;
    int64_t inside = at->channels / at->groups; /* channels of a group */
    int64_t first =
        o / (at->filters / at->groups) * inside; /* first channel of this filter's group */
    int64_t plane = at->height * at->width, taps = at->kernel[0] * at->kernel[1];
    const float *large = at->from + (n * at->channels + first) * plane;
    const float *weight = at->weight + o * inside * taps;
    float *small = at->to + index * (at->small_height * at->small_width);
    fill(small, at->small_height * at->small_width, at->bias != NULL ? at->bias[o] : 0);
    for (int64_t tap = 0; tap < taps; tap++) {
        meeting m = meet_tap(at, tap);
        for (int64_t c = 0; c < inside; c++)
            for (int64_t row = 0; row < m.rows; row++)
                gather_row(small + m.small + row * m.small_step,
                           large + c * plane + m.large + row * m.large_step, weight[c * taps + tap],
                           m.count, at->stride[1]);
    }
}

/* One plane of the large image: n, c = index. */
static void scatter_plane(void *context, uint32_t index) {
    const window *at = context;
    int64_t n = index / at->channels, c = index % at->channels;
    int64_t inside = at->channels / at->groups, filters = at->filters / at->groups;
    int64_t first = c / inside * filters; /* the first filter of this channel's group */
    int64_t plane = at->small_height * at->small_width, taps = at->kernel[0] * at->kernel[1];
    const float *small = at->from + (n * at->filters + first) * plane;
    const float *weight = at->weight + (first * inside + c % inside) * taps;
    float *large = at->to + index * (at->height * at->width);
    fill(large, at->height * at->width, at->bias != NULL ? at->bias[c] : 0);
    for (int64_t tap = 0; tap < taps; tap++) {
        meeting m = meet_tap(at, tap);
        for (int64_t o = 0; o < filters; o++)
            for (int64_t row = 0; row < m.rows; row++)
                scatter_row(large + m.large + row * m.large_step,
                            small + o * plane + m.small + row * m.small_step,
                            weight[o * inside * taps + tap], m.count, at->stride[1]);
    }
}

/* The sum over the images and rows of filter o and channel c. */
static float weigh_tap(const window *at, const meeting *m, int64_t o, int64_t c) {
    int64_t large_plane = at->height * at->width;
    int64_t small_plane = at->small_height * at->small_width;
    float lane[CRN_REF_LANES] = {0};
    for (int64_t n = 0; n < at->batch; n++) {
        const float *large = at->from + (n * at->channels + c) * large_plane + m->large;
        const float *small = at->other + (n * at->filters + o) * small_plane + m->small;
        for (int64_t row = 0; row < m->rows; row++)
            dot_row(lane, small + row * m->small_step, large + row * m->large_step, m->count,
                    at->stride[1]);
    }
    return CRN_REF_LANE_TOTAL(lane);
}

/* The weights of one filter, [C/groups, KH, KW]. */
static void weigh_filter(void *context, uint32_t o) {
    const window *at = context;
    int64_t inside = at->channels / at->groups, taps = at->kernel[0] * at->kernel[1];
    int64_t first = o / (at->filters / at->groups) * inside;
    float *weight = at->to + o * inside * taps;
    for (int64_t tap = 0; tap < taps; tap++) {
        meeting m = meet_tap(at, tap);
        for (int64_t c = 0; c < inside; c++)
            weight[c * taps + tap] = weigh_tap(at, &m, o, first + c);
    }
}

static void gather(const crn_call *call, window *at) {
    crn_team_for(call->threads, (uint32_t)(at->batch * at->filters), gather_plane, at);
}

static void scatter(const crn_call *call, window *at) {
    crn_team_for(call->threads, (uint32_t)(at->batch * at->channels), scatter_plane, at);
}

static void weigh(const crn_call *call, window *at) {
    crn_team_for(call->threads, (uint32_t)at->filters, weigh_filter, at);
}

/* ---- The gradient of a bias: the sum over its channel ---- */

typedef struct bias_sum {
    const float *image; /* [N, C, plane] */
    float *bias;        /* [C] */
    size_t batch, channels, plane;
} bias_sum;

static void sum_channel(void *context, uint32_t c) {
    const bias_sum *at = context;
    double sum = 0;
    for (size_t n = 0; n < at->batch; n++)
        sum += crn_ref_sum(at->image + (n * at->channels + c) * at->plane, at->plane);
    at->bias[c] = (float)sum;
}

static void sum_bias(const crn_call *call, const cairn_tensor *shape, const float *image,
                     float *bias) {
    bias_sum at = {image, bias, shape->shape[0], shape->shape[1], crn_ref_size(shape, 2, 4)};
    if (bias != NULL)
        crn_team_for(call->threads, shape->shape[1], sum_channel, &at);
}

/* ---- The kernels ---- */

/* The window of an op between these two images. */
static window between(const crn_call *call, const cairn_tensor *large, const cairn_tensor *small) {
    const cairn_attributes *a = &call->op->attributes;
    window at = {.batch = large->shape[0],
                 .channels = large->shape[1],
                 .height = large->shape[2],
                 .width = large->shape[3],
                 .filters = small->shape[1],
                 .small_height = small->shape[2],
                 .small_width = small->shape[3],
                 .groups = CRN_MAX(a->groups, 1)};
    for (int axis = 0; axis < 2; axis++) {
        at.kernel[axis] = a->kernel[axis];
        at.stride[axis] = a->stride[axis];
        at.dilation[axis] = CRN_MAX(a->dilation[axis], 1);
        at.pad[axis] = a->pad[axis];
    }
    /* If every pixel meets only itself, the whole plane is one row. */
    bool one_to_one = at.kernel[0] * at.kernel[1] == 1 && at.stride[0] * at.stride[1] == 1 &&
                      at.pad[0] == 0 && at.pad[1] == 0 && at.height == at.small_height &&
                      at.width == at.small_width;
    if (one_to_one) {
        at.width = at.small_width = at.height * at.width;
        at.height = at.small_height = 1;
    }
    return at;
}

static const float *bias_of(const crn_call *call) {
    return call->op->param_count > 1 ? call->params[1] : NULL;
}

/* Data from the one image to the other, by gather() or scatter(). */
static void move(const crn_call *call, const cairn_tensor *large, const cairn_tensor *small,
                 void (*by)(const crn_call *call, window *at), const float *bias) {
    window at = between(call, large, small);
    at.from = call->inputs[0];
    at.weight = call->params[0];
    at.bias = bias;
    at.to = call->outputs[0];
    by(call, &at);
}

/* Gradients of weight and bias; inputs `large` and `small` are the two images. */
static void learn(const crn_call *call, uint32_t large, uint32_t small) {
    window at = between(call, crn_ref_input(call, large), crn_ref_input(call, small));
    at.from = call->inputs[large];
    at.other = call->inputs[small];
    at.to = crn_ref_out(call, 0);
    if (at.to != NULL)
        weigh(call, &at);
    sum_bias(call, crn_ref_input(call, 1), call->inputs[1], crn_ref_out(call, 1));
}

/* x [N, C, H, W] -> y [N, O, P, Q] */
void crn_ref_conv2d(const crn_call *call) {
    move(call, crn_ref_input(call, 0), crn_ref_output(call, 0), gather, bias_of(call));
}

/* gy [N, O, P, Q] -> gx [N, C, H, W] */
void crn_ref_conv2d_bwd_data(const crn_call *call) {
    move(call, crn_ref_output(call, 0), crn_ref_input(call, 0), scatter, NULL);
}

/* x [N, C, H, W], gy [N, O, P, Q] -> gradients of weight [O, C/groups, KH, KW] and bias [O] */
void crn_ref_conv2d_bwd_weight(const crn_call *call) {
    learn(call, 0, 1);
}

/* x [N, C, H, W] -> y [N, O, (H-1)*stride + KH, ...]; weight [C, O, KH, KW]: x is the small image,
 * and the input channels are the filters of the convolution in the other direction. */
void crn_ref_conv_transpose2d(const crn_call *call) {
    move(call, crn_ref_output(call, 0), crn_ref_input(call, 0), scatter, bias_of(call));
}

/* gy as y above -> gx [N, C, H, W] */
void crn_ref_conv_transpose2d_bwd_data(const crn_call *call) {
    move(call, crn_ref_input(call, 0), crn_ref_output(call, 0), gather, NULL);
}

/* x [N, C, H, W], gy as y above -> gradients of weight [C, O, KH, KW] and bias [O] */
void crn_ref_conv_transpose2d_bwd_weight(const crn_call *call) {
    learn(call, 1, 0);
}
