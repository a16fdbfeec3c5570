/* conv_errors.c: errors and times of convolutions in fp32 by matrix units, with shapes of
 * ResNet-50.
 *
 *   conv_errors KERNELS.cubin
 *
 * Operands are drawn from -1 to 1. Of each result a few hundred elements are compared with double
 * precision. Printed are the root mean square of the errors, divided by that of the elements, and
 * the same for sums in fp32 in the order of the depth, one fused multiply-add after the other, on
 * the processor. conv_errors.py prints them for cuDNN and cuBLAS. */
#include "backend/cuda/kernels/split_shapes.h"
#include "gpu_driver.h"

#include <math.h>

#define SAMPLES 128
#define RUNS 10

typedef struct shape {
    uint32_t channels, size, filters;
    int32_t kernel, stride;
} shape;

static const shape shapes[] = {
    {4, 224, 64, 7, 2},   {64, 56, 64, 1, 1},   {64, 56, 64, 3, 1},   {64, 56, 256, 1, 1},
    {128, 56, 128, 3, 2}, {128, 28, 512, 1, 1}, {128, 28, 128, 3, 1}, {1024, 14, 256, 1, 1},
    {256, 14, 256, 3, 1}, {2048, 7, 512, 1, 1}, {512, 7, 512, 3, 1},
};

typedef struct problem {
    crn_split_args a; /* with addresses of the host */
    uint32_t pass;
    size_t large, small, weights; /* elements */
} problem;

static uint64_t random_state = 1;

static uint32_t draw(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

static float *draw_values(size_t count) {
    float *at = malloc(count * sizeof *at);
    for (size_t i = 0; i < count; i++)
        at[i] = (float)(draw() % (1u << 24)) / 8388608.0f - 1;
    return at;
}

static problem make_problem(const shape *s, uint32_t pass) {
    uint32_t out = (s->size + (uint32_t)(s->kernel / 2 * 2 - s->kernel)) / (uint32_t)s->stride + 1;
    problem p = {.pass = pass,
                 .a = {.batch = 64,
                       .channels = s->channels,
                       .height = s->size,
                       .width = s->size,
                       .filters = s->filters,
                       .small_height = out,
                       .small_width = out,
                       .large_pitch = s->channels,
                       .small_pitch = s->filters,
                       .kernel = {s->kernel, s->kernel},
                       .stride = {s->stride, s->stride},
                       .pad = {s->kernel / 2, s->kernel / 2},
                       .dilation = {1, 1}}};
    p.large = (size_t)64 * s->size * s->size * s->channels;
    p.small = (size_t)64 * out * out * s->filters;
    p.weights = (size_t)s->filters * (size_t)(s->kernel * s->kernel) * s->channels;
    p.a.large = draw_values(p.large);
    p.a.small = draw_values(p.small);
    p.a.weight = draw_values(p.weights);
    return p;
}

/* ---- On the processor ---- */

typedef struct element {
    double exact;
    float in_order;
} element;

static void add(element *e, float a, float b) {
    e->exact += (double)a * (double)b;
    e->in_order = fmaf(a, b, e->in_order);
}

/* The offset of a pixel of the large image, as the tap of a pixel of the small one; -1: outside. */
static int64_t large_at(const crn_split_args *a, size_t pixel, int32_t tap) {
    size_t line = pixel / a->small_width, image = line / a->small_height;
    int64_t y = (int64_t)(line % a->small_height) * a->stride[0] - a->pad[0] + tap / a->kernel[1];
    int64_t x = (int64_t)(pixel % a->small_width) * a->stride[1] - a->pad[1] + tap % a->kernel[1];
    if (y < 0 || x < 0 || y >= a->height || x >= a->width)
        return -1;
    return (((int64_t)image * a->height + y) * a->width + x) * a->channels;
}

static element gather(const crn_split_args *a, size_t at) {
    element e = {0, 0};
    size_t o = at % a->filters, taps = (size_t)(a->kernel[0] * a->kernel[1]);
    for (size_t tap = 0; tap < taps; tap++) {
        int64_t from = large_at(a, at / a->filters, (int32_t)tap);
        for (uint32_t c = 0; c < a->channels && from >= 0; c++)
            add(&e, a->large[from + c], a->weight[(o * taps + tap) * a->channels + c]);
    }
    return e;
}

static element scatter(const crn_split_args *a, size_t at) {
    element e = {0, 0};
    size_t c = at % a->channels, pixel = at / a->channels, line = pixel / a->width;
    size_t taps = (size_t)(a->kernel[0] * a->kernel[1]), image = line / a->height;
    for (size_t tap = 0; tap < taps; tap++) {
        int32_t down = (int32_t)tap / a->kernel[1], along = (int32_t)tap % a->kernel[1];
        int32_t y = (int32_t)(line % a->height) + a->pad[0] - down;
        int32_t x = (int32_t)(pixel % a->width) + a->pad[1] - along;
        if (y < 0 || x < 0 || y % a->stride[0] != 0 || x % a->stride[1] != 0)
            continue;
        size_t row = (size_t)(y / a->stride[0]), column = (size_t)(x / a->stride[1]);
        if (row >= a->small_height || column >= a->small_width)
            continue;
        size_t from = ((image * a->small_height + row) * a->small_width + column) * a->filters;
        for (uint32_t o = 0; o < a->filters; o++)
            add(&e, a->small[from + o], a->weight[(o * taps + tap) * a->channels + c]);
    }
    return e;
}

static element weigh(const crn_split_args *a, size_t at) {
    element e = {0, 0};
    size_t taps = (size_t)(a->kernel[0] * a->kernel[1]), c = at % a->channels;
    size_t tap = at / a->channels % taps, o = at / a->channels / taps;
    size_t pixels = (size_t)a->batch * a->small_height * a->small_width;
    for (size_t pixel = 0; pixel < pixels; pixel++) {
        int64_t from = large_at(a, pixel, (int32_t)tap);
        if (from >= 0)
            add(&e, a->small[pixel * a->filters + o], a->large[(size_t)from + c]);
    }
    return e;
}

/* ---- On the GPU ---- */

static CUdeviceptr put(const float *from, size_t count) {
    CUdeviceptr to;
    GPU(cuMemAlloc, &to, count * sizeof *from);
    GPU(cuMemcpyHtoD, to, from, count * sizeof *from);
    return to;
}

static void *room(size_t count) {
    CUdeviceptr at;
    GPU(cuMemAlloc, &at, (count + 1) * sizeof(float));
    return (void *)(uintptr_t)at;
}

/* What one implementation launches. */
typedef struct launches {
    crn_launch products, weights, sum;
    crn_split_args a;
    crn_split_weights_args split;
    crn_add_slices_args slices;
} launches;

static launches prepare(const problem *p, const crn_split_args *device, uint32_t tile, float *to) {
    launches l = {.a = *device};
    l.a.tile = tile;
    l.products = crn_split_launch(p->pass, &l.a);
    l.a.to = to;
    if (l.a.slices > 1) {
        l.a.to = room(p->weights * l.a.slices);
        l.slices = (crn_add_slices_args){
            .count = (uint32_t)p->weights, .slices = l.a.slices, .from = l.a.to, .to = to};
        l.sum = crn_add_slices_launch(&l.slices);
    }
    if (tile == CRN_SPLIT_HOPPER && p->pass != CRN_SPLIT_WEIGH) {
        l.split = (crn_split_weights_args){.filters = l.a.filters,
                                           .taps = (uint32_t)(l.a.kernel[0] * l.a.kernel[1]),
                                           .channels = l.a.channels,
                                           .weight = l.a.weight};
        l.weights = p->pass == CRN_SPLIT_SCATTER ? crn_turn_weights_launch(&l.split)
                                                 : crn_split_weights_launch(&l.split);
        l.split.big = room(p->weights * 2);
        l.split.small = room(p->weights * 2);
        l.a.weight_big = (const float *)l.split.big;
        l.a.weight_small = (const float *)l.split.small;
        l.a.weight_pitch = l.split.pitch;
    }
    return l;
}

static void start(launches *l) {
    gpu_start(&l->weights, &l->split);
    gpu_start(&l->products, &l->a);
    gpu_start(&l->sum, &l->slices);
}

static double time_of(launches *l) {
    CUevent from, to;
    float ms;
    GPU(cuEventCreate, &from, CU_EVENT_DEFAULT);
    GPU(cuEventCreate, &to, CU_EVENT_DEFAULT);
    start(l);
    GPU(cuEventRecord, from, gpu.stream);
    for (int i = 0; i < RUNS; i++)
        start(l);
    GPU(cuEventRecord, to, gpu.stream);
    GPU(cuEventSynchronize, to);
    GPU(cuEventElapsedTime, &ms, from, to);
    return ms / RUNS;
}

static double root_of(const double *squares, const double *sizes) {
    return sqrt(*squares / *sizes);
}

static void compare(const problem *p, const shape *s) {
    static element (*const one[])(const crn_split_args *, size_t) = {gather, scatter, weigh};
    static const char *const names[] = {"gather", "scatter", "weigh"};
    size_t count = p->pass == CRN_SPLIT_GATHER    ? p->small
                   : p->pass == CRN_SPLIT_SCATTER ? p->large
                                                  : p->weights;
    size_t at[SAMPLES];
    element exact[SAMPLES];
    double sizes = 0, in_order = 0;
    for (int i = 0; i < SAMPLES; i++) {
        at[i] = ((size_t)draw() << 20 ^ draw()) % count;
        exact[i] = one[p->pass](&p->a, at[i]);
        sizes += exact[i].exact * exact[i].exact;
        in_order += pow((double)exact[i].in_order - exact[i].exact, 2);
    }
    printf("%4u x %3u x %3u to %4u, %dx%d / %d %-8s in order %.1e", s->channels, s->size, s->size,
           s->filters, s->kernel, s->kernel, s->stride, names[p->pass], root_of(&in_order, &sizes));
    crn_split_args device = p->a;
    device.large = (const float *)(uintptr_t)put(p->a.large, p->large);
    device.small = (const float *)(uintptr_t)put(p->a.small, p->small);
    device.weight = (const float *)(uintptr_t)put(p->a.weight, p->weights);
    float *to = room(count), *back = malloc(count * sizeof *back);
    double flops = 2.0 * (double)(p->small / s->filters) * (double)p->weights;
    for (device.tile = 0; device.tile < CRN_SPLIT_TILE_COUNT; device.tile++) {
        if (!crn_split_fits(p->pass, &device))
            continue;
        launches l = prepare(p, &device, device.tile, to);
        double ms = time_of(&l), squares = 0;
        GPU(cuMemcpyDtoH, back, (CUdeviceptr)(uintptr_t)to, count * sizeof *back);
        for (int i = 0; i < SAMPLES; i++)
            squares += pow((double)back[at[i]] - exact[i].exact, 2);
        printf(" | %s %.1e %6.1f us %5.1f TFLOP/s", crn_split_names[device.tile],
               root_of(&squares, &sizes), ms * 1000, flops / ms * 1e-9);
    }
    printf("\n");
    fflush(stdout);
    free(back);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: conv_errors KERNELS.cubin\n");
        return 2;
    }
    gpu_open(argv[1]);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t pass = 0; pass < 3; pass++) {
            problem p = make_problem(&shapes[i], pass);
            compare(&p, &shapes[i]);
            free((void *)(uintptr_t)p.a.large);
            free((void *)(uintptr_t)p.a.small);
            free((void *)(uintptr_t)p.a.weight);
        }
    return 0;
}
