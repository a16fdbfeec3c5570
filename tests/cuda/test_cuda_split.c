/* test_cuda_split.c: convolutions in fp32 by matrix units, run on the processor: all passes and
 * tiles against double precision, for shapes with and without rests of tiles, with strides,
 * dilations, padding that is also negative, and pitches. Whole numbers, of which the split loses
 * nothing, give exact results. */
#include "backend/cuda/kernels/split_shapes.h"
#include "cuda/kernel_rig.h"

#include "base/rng.h"

#define TOLERANCE 1e-6 /* of the sum of the sizes of all products of an element */

typedef struct shape {
    uint32_t batch, channels, height, width, filters;
    int32_t kernel[2], stride[2], pad[2], dilation[2];
    uint32_t extra; /* of the pitch of the large image */
} shape;

static const shape shapes[] = {
    {2, 4, 9, 9, 8, {7, 7}, {2, 2}, {3, 3}, {1, 1}, 0},
    {2, 20, 7, 6, 36, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0},
    {1, 16, 8, 8, 132, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 4},
    {3, 12, 9, 7, 16, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 0},
    {2, 8, 8, 9, 12, {1, 1}, {2, 3}, {0, 0}, {1, 1}, 0},
    {1, 132, 5, 5, 68, {3, 2}, {1, 1}, {1, 0}, {2, 1}, 0},
    {2, 8, 10, 10, 8, {3, 3}, {3, 2}, {2, 2}, {2, 3}, 8},
    {1, 4, 12, 11, 4, {2, 3}, {2, 1}, {-1, -2}, {1, 2}, 0},
    {40, 4, 7, 7, 4, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 0},
    {2, 68, 9, 8, 48, {3, 3}, {2, 1}, {1, 1}, {1, 1}, 0},
};

static uint32_t slices_summed; /* gradients of weights that are sums of slices */

enum { FRACTIONS, WHOLE_LEFT, WHOLE_RIGHT, KINDS };

/* 13 bits for one factor, whose small term is then not zero, and 2 for the other one. */
static float draw_number(crn_rng *rng, bool large) {
    int64_t most = large ? 4096 : 1;
    return (float)((int64_t)crn_rng_below(rng, (uint64_t)(2 * most + 1)) - most);
}

static float *draw_values(kernel_rig *k, uint64_t count, crn_rng *rng, uint32_t kind, bool left) {
    float *to = kernel_rig_make(k, count * sizeof *to);
    for (uint64_t i = 0; i < count; i++)
        to[i] = kind == FRACTIONS ? (float)crn_rng_below(rng, 1 << 24) / (1 << 23) - 1
                                  : draw_number(rng, left == (kind == WHOLE_LEFT));
    return to;
}

static uint32_t small_size(const shape *s, uint32_t axis) {
    int32_t size = (int32_t)(axis == 0 ? s->height : s->width);
    return (uint32_t)((size + 2 * s->pad[axis] - s->dilation[axis] * (s->kernel[axis] - 1) - 1) /
                          s->stride[axis] +
                      1);
}

static crn_split_args args_of(const shape *s, uint32_t pass) {
    crn_split_args a = {.batch = s->batch,
                        .channels = s->channels,
                        .height = s->height,
                        .width = s->width,
                        .filters = s->filters,
                        .small_height = small_size(s, 0),
                        .small_width = small_size(s, 1),
                        .large_pitch = s->channels + (pass == CRN_SPLIT_SCATTER ? 0 : s->extra),
                        .small_pitch = s->filters};
    memcpy(a.kernel, s->kernel, sizeof a.kernel);
    memcpy(a.stride, s->stride, sizeof a.stride);
    memcpy(a.pad, s->pad, sizeof a.pad);
    memcpy(a.dilation, s->dilation, sizeof a.dilation);
    return a;
}

/* ---- In double ---- */

typedef struct sums {
    double *sum, *size; /* of the products of an element, and of their absolute values */
} sums;

/* One pixel of the small image with one tap. */
static void add_tap(const crn_split_args *a, uint32_t pass, size_t pixel, int32_t tap, sums to) {
    size_t line = pixel / a->small_width;
    int32_t row = (int32_t)(line % a->small_height), column = (int32_t)(pixel % a->small_width);
    int32_t y = row * a->stride[0] - a->pad[0] + tap / a->kernel[1] * a->dilation[0];
    int32_t x = column * a->stride[1] - a->pad[1] + tap % a->kernel[1] * a->dilation[1];
    if (y < 0 || x < 0 || y >= (int32_t)a->height || x >= (int32_t)a->width)
        return;
    size_t image = line / a->small_height;
    size_t large = ((image * a->height + (size_t)y) * a->width + (size_t)x) * a->large_pitch;
    size_t taps = (size_t)(a->kernel[0] * a->kernel[1]);
    for (uint32_t o = 0; o < a->filters; o++)
        for (uint32_t c = 0; c < a->channels; c++) {
            size_t small = pixel * a->filters + o;
            size_t weight = ((size_t)o * taps + (size_t)tap) * a->channels + c;
            double product =
                pass == CRN_SPLIT_GATHER ? (double)a->large[large + c] * (double)a->weight[weight]
                : pass == CRN_SPLIT_SCATTER ? (double)a->small[small] * (double)a->weight[weight]
                                            : (double)a->large[large + c] * (double)a->small[small];
            size_t at = pass == CRN_SPLIT_GATHER    ? small
                        : pass == CRN_SPLIT_SCATTER ? large + c
                                                    : weight;
            to.sum[at] += product;
            to.size[at] += fabs(product);
        }
}

static sums reference(const crn_split_args *a, uint32_t pass, size_t count) {
    sums to = {calloc(count, sizeof *to.sum), calloc(count, sizeof *to.size)};
    size_t pixels = (size_t)a->batch * a->small_height * a->small_width;
    for (size_t pixel = 0; pixel < pixels; pixel++)
        for (int32_t tap = 0; tap < a->kernel[0] * a->kernel[1]; tap++)
            add_tap(a, pass, pixel, tap, to);
    return to;
}

/* ---- Comparisons ---- */

static void compare(const crn_split_args *a, sums want, size_t count, uint32_t kind) {
    for (size_t i = 0; i < count; i++) {
        float got = 0;
        for (uint32_t slice = 0; slice < a->slices; slice++)
            got += a->to[slice * count + i];
        double off = fabs((double)got - want.sum[i]);
        CHECK(kind == FRACTIONS ? off <= TOLERANCE * want.size[i] : off == 0);
    }
}

/* The terms of the weights, for the kernels that read those. */
static void split_weights(kernel_rig *k, uint32_t pass, crn_split_args *a) {
    crn_split_weights_args split = {.filters = a->filters,
                                    .taps = (uint32_t)(a->kernel[0] * a->kernel[1]),
                                    .channels = a->channels,
                                    .weight = a->weight};
    bool turned = pass == CRN_SPLIT_SCATTER;
    crn_launch launch = turned ? crn_turn_weights_launch(&split) : crn_split_weights_launch(&split);
    size_t bytes = (size_t)(turned ? a->channels : a->filters) * split.pitch * sizeof(float);
    a->weight_big = (const float *)(split.big = kernel_rig_make(k, bytes));
    a->weight_small = (const float *)(split.small = kernel_rig_make(k, bytes));
    a->weight_pitch = split.pitch;
    kernel_rig_run(k, launch, &split);
}

/* Whether the kernels with this tile can do the pass. */
static bool test_pass(kernel_rig *k, const shape *s, uint32_t pass, uint32_t tile, uint32_t kind,
                      crn_rng *rng) {
    crn_split_args a = args_of(s, pass);
    size_t pixels = (size_t)a.batch * a.small_height * a.small_width;
    size_t weights = (size_t)a.filters * (uint32_t)(a.kernel[0] * a.kernel[1]) * a.channels;
    size_t large = (size_t)a.batch * a.height * a.width * a.large_pitch;
    size_t count = pass == CRN_SPLIT_GATHER    ? pixels * a.filters
                   : pass == CRN_SPLIT_SCATTER ? large
                                               : weights;
    a.tile = tile;
    if (!crn_split_fits(pass, &a))
        return false;
    crn_launch launch = crn_split_launch(pass, &a);
    a.large = draw_values(k, large, rng, kind, true);
    a.small = draw_values(k, pixels * a.filters, rng, kind, pass == CRN_SPLIT_SCATTER);
    a.weight = draw_values(k, weights, rng, kind, false);
    a.to = kernel_rig_make(k, count * a.slices * sizeof *a.to);
    if (tile == CRN_SPLIT_HOPPER && pass != CRN_SPLIT_WEIGH)
        split_weights(k, pass, &a);
    kernel_rig_run(k, launch, &a);
    sums want = reference(&a, pass, count);
    int failures = check_failures;
    compare(&a, want, count, kind);
    if (check_failures > failures)
        fprintf(stderr, "in shape %td, pass %u, %s, kind %u\n", s - shapes, pass,
                crn_split_names[tile], kind);
    free(want.sum);
    free(want.size);
    slices_summed += a.slices > 1;
    kernel_rig_clear(k);
    return true;
}

int main(void) {
    crn_rng rng = {0};
    kernel_rig k = {0};
    uint32_t passes = sizeof shapes / sizeof *shapes * 3, tested[CRN_SPLIT_TILE_COUNT] = {0};
    for (uint32_t i = 0; i < passes; i++)
        for (uint32_t tile = 0; tile < CRN_SPLIT_TILE_COUNT; tile++)
            tested[tile] += test_pass(&k, &shapes[i / 3], i % 3, tile, (i + tile) % KINDS, &rng);
    CHECK(slices_summed > 0);
    CHECK_U64(tested[CRN_SPLIT_64x64], passes);
    CHECK_U64(tested[CRN_SPLIT_64x128], passes);
    CHECK(tested[CRN_SPLIT_HOPPER] > passes / 3);
    return check_result();
}
