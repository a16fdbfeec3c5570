/* kernel_times.c: measures the speed of the kernels of the backend cuda on a GPU, with shapes of
 * real networks.
 *
 *   kernel_times KERNELS.cubin
 *
 * Each case is recorded REPEATS times into a graph, with operands that are together larger than the
 * cache, and the graph is replayed. Printed are the microseconds of one run (the median of several
 * replays), and the bytes that the case must read and write divided by that time. */
#include "gpu_driver.h"

#include <stdarg.h>

#define REPEATS 20
#define REPLAYS 9
#define CACHE ((size_t)256 << 20) /* the operands of a case are together at least this large */
#define MEMORY ((size_t)24 << 30)

static CUdeviceptr memory;
static size_t next; /* free from here */
static size_t rotation, turns;

/* ---- Operands: each turn has its own ---- */

static void *take(size_t bytes) {
    void *at = (void *)(uintptr_t)(memory + next);
    next += (bytes + 255) / 256 * 256;
    if (next > MEMORY) {
        fprintf(stderr, "a case is larger than the memory\n");
        exit(1);
    }
    return at;
}

/* An operand of turn `rotation`; the turns follow each other in memory. */
static char *turn(void *first, size_t bytes) {
    return (char *)first + (rotation % turns) * ((bytes + 255) / 256 * 256);
}

static void begin(size_t bytes) { /* `bytes` is what a run accesses */
    next = 0;
    rotation = 0;
    turns = CACHE / (bytes + 1) + 1;
    turns = turns > REPEATS ? REPEATS : turns;
}

static void *operand(size_t bytes) {
    void *at = take(turns * ((bytes + 255) / 256 * 256));
    return at;
}

static void *small_operand(size_t bytes) {
    return take(bytes);
}

/* ---- Timing ---- */

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

typedef void run_case(void *context);

/* `run` starts the kernels of one run on the stream; `bytes` is what one run must move. */
static void time_case(run_case *run, void *context, size_t bytes, const char *format, ...) {
    CUgraph graph;
    CUgraphExec exec;
    CUevent from, to;
    float ms[REPLAYS];
    char name[120];
    va_list list;
    va_start(list, format);
    vsnprintf(name, sizeof name, format, list);
    va_end(list);
    GPU(cuStreamBeginCapture, gpu.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    for (rotation = 0; rotation < REPEATS; rotation++)
        run(context);
    GPU(cuStreamEndCapture, gpu.stream, &graph);
    GPU(cuGraphInstantiate, &exec, graph, 0);
    GPU(cuEventCreate, &from, CU_EVENT_DEFAULT);
    GPU(cuEventCreate, &to, CU_EVENT_DEFAULT);
    for (int i = -2; i < REPLAYS; i++) {
        float passed;
        GPU(cuEventRecord, from, gpu.stream);
        GPU(cuGraphLaunch, exec, gpu.stream);
        GPU(cuEventRecord, to, gpu.stream);
        GPU(cuEventSynchronize, to);
        GPU(cuEventElapsedTime, &passed, from, to);
        if (i >= 0)
            ms[i] = passed;
    }
    qsort(ms, REPLAYS, sizeof *ms, by_size);
    double microseconds = 1000.0 * ms[REPLAYS / 2] / REPEATS;
    printf("%-58s %9.2f us %8.0f GB/s\n", name, microseconds, (double)bytes / microseconds / 1000);
    fflush(stdout);
    GPU(cuGraphExecDestroy, exec);
    GPU(cuGraphDestroy, graph);
}

static const char *type_name(uint32_t element) {
    return element == CRN_ELEMENT_BF16 ? "bf16" : "f32";
}

/* ---- The ceiling ---- */

typedef struct copying {
    void *from, *to;
    size_t bytes;
} copying;

static void run_copy(void *context) {
    copying *c = context;
    GPU(cuMemcpyDtoDAsync, (CUdeviceptr)(uintptr_t)turn(c->to, c->bytes),
        (CUdeviceptr)(uintptr_t)turn(c->from, c->bytes), c->bytes, gpu.stream);
}

static void time_copy(void) {
    copying c = {.bytes = (size_t)512 << 20};
    begin(2 * c.bytes);
    c.from = operand(c.bytes);
    c.to = operand(c.bytes);
    time_case(run_copy, &c, 2 * c.bytes, "device copy, 512 MiB");
}

/* ---- Batch-norm ---- */

typedef struct norms {
    crn_norm_args forward;
    crn_norm_bwd_args backward;
    size_t bytes; /* of an image */
} norms;

static void run_norm(void *context) {
    norms *n = context;
    crn_norm_args a = n->forward;
    a.x = turn((void *)a.x, n->bytes);
    a.y = turn(a.y, n->bytes);
    a.added = turn((void *)a.added, n->bytes);
    crn_launch launch = crn_norm_statistics_launch(&a);
    gpu_start(&launch, &a);
    launch = crn_norm_apply_launch(&a);
    gpu_start(&launch, &a);
}

static void run_norm_again(void *context) {
    norms *n = context;
    crn_norm_args a = n->forward;
    a.x = turn((void *)a.x, n->bytes);
    a.y = turn(a.y, n->bytes);
    a.added = turn((void *)a.added, n->bytes);
    crn_launch launch = crn_norm_apply_launch(&a);
    gpu_start(&launch, &a);
}

static void run_norm_bwd(void *context) {
    norms *n = context;
    crn_norm_bwd_args a = n->backward;
    a.x = turn((void *)a.x, n->bytes);
    a.gy = turn((void *)a.gy, n->bytes);
    a.gx = turn(a.gx, n->bytes);
    a.y = turn((void *)a.y, n->bytes);
    a.gy2 = a.gy2 != NULL ? turn((void *)a.gy2, n->bytes) : NULL;
    a.masked = a.masked != NULL ? turn(a.masked, n->bytes) : NULL;
    crn_launch launch = crn_norm_reduce_launch(&a);
    gpu_start(&launch, &a);
    launch = crn_norm_spread_launch(&a);
    gpu_start(&launch, &a);
}

static void time_norm(uint32_t element, uint32_t rows, uint32_t channels) {
    size_t bytes = (size_t)rows * channels * (element == CRN_ELEMENT_BF16 ? 2 : 4);
    norms n = {.bytes = bytes};
    begin(3 * bytes);
    void *x = operand(bytes), *y = operand(bytes), *added = operand(bytes);
    void *second = operand(bytes), *third = operand(bytes);
    float *per_channel = small_operand((size_t)channels * 12 * sizeof(float));
    uint32_t *tickets = small_operand(16384);
    GPU(cuMemsetD32, (CUdeviceptr)(uintptr_t)tickets, 0, 4096);
    n.forward = (crn_norm_args){.cut = {.rows = rows, .channels = channels},
                                .element = element,
                                .flags = CRN_NORM_MOVE | CRN_NORM_RELU,
                                .x_pitch = channels,
                                .y_pitch = channels,
                                .added_pitch = channels,
                                .epsilon = 1e-5f,
                                .momentum = 0.1f,
                                .keep = 0.9f,
                                .x = x,
                                .added = added,
                                .y = y,
                                .gamma = per_channel,
                                .beta = per_channel + channels,
                                .running_mean = per_channel + 2 * channels,
                                .running_var = per_channel + 3 * channels,
                                .stats = per_channel + 4 * channels,
                                .tickets = tickets};
    n.backward = (crn_norm_bwd_args){.cut = n.forward.cut,
                                     .element = element,
                                     .x_pitch = channels,
                                     .gy_pitch = channels,
                                     .gy2_pitch = channels,
                                     .y_pitch = channels,
                                     .masked_pitch = channels,
                                     .gx_pitch = channels,
                                     .other_pitch = channels,
                                     .x = x,
                                     .gy = y,
                                     .gx = second,
                                     .y = added,
                                     .gamma = per_channel,
                                     .beta = per_channel + channels,
                                     .stats = per_channel + 4 * channels,
                                     .ggamma = per_channel + 6 * channels,
                                     .gbeta = per_channel + 7 * channels,
                                     .sums = per_channel + 8 * channels,
                                     .tickets = tickets};
    n.forward.part = n.backward.part = small_operand(crn_norm_workspace(&n.forward));
    const char *type = type_name(element);
    time_case(run_norm, &n, 3 * bytes, "%s %ux%u norm+relu", type, rows, channels);
    time_case(run_norm_again, &n, 2 * bytes, "%s %ux%u norm+relu run again", type, rows, channels);
    n.forward.flags |= CRN_NORM_ADD;
    time_case(run_norm, &n, 4 * bytes, "%s %ux%u norm+add+relu", type, rows, channels);
    time_case(run_norm_bwd, &n, 5 * bytes, "%s %ux%u norm backward", type, rows, channels);
    n.backward.mask = CRN_MASK_X;
    time_case(run_norm_bwd, &n, 5 * bytes, "%s %ux%u norm+relu backward, mask by x", type, rows,
              channels);
    n.backward.mask = CRN_MASK_Y;
    n.backward.gy2 = third;
    n.backward.masked = y;
    time_case(run_norm_bwd, &n, 8 * bytes, "%s %ux%u norm+add+relu backward, two gradients", type,
              rows, channels);
}

/* ---- Element by element ---- */

typedef struct pointwise_case {
    crn_pointwise_args args;
    size_t bytes;
} pointwise_case;

static void run_pointwise(void *context) {
    pointwise_case *c = context;
    crn_pointwise_args a = c->args;
    a.a = turn((void *)a.a, c->bytes);
    a.b = turn((void *)a.b, c->bytes);
    a.to = turn(a.to, c->bytes);
    crn_launch launch = crn_pointwise_launch(&a);
    gpu_start(&launch, &a);
}

static void time_pointwise(uint32_t element, uint32_t count) {
    size_t bytes = (size_t)count * (element == CRN_ELEMENT_BF16 ? 2 : 4);
    pointwise_case c = {.bytes = bytes};
    begin(3 * bytes);
    c.args = (crn_pointwise_args){.op = CRN_ADD,
                                  .element = element,
                                  .rows = 1,
                                  .channels = count,
                                  .a_pitch = count,
                                  .b_pitch = count,
                                  .to_pitch = count,
                                  .a = operand(bytes),
                                  .b = operand(bytes),
                                  .to = operand(bytes)};
    time_case(run_pointwise, &c, 3 * bytes, "%s add, %u", type_name(element), count);
    c.args.op = CRN_RELU;
    time_case(run_pointwise, &c, 2 * bytes, "%s relu, %u", type_name(element), count);
}

/* ---- Biases ---- */

typedef struct bias_case {
    crn_bias_args bias;
    crn_column_sums_args sums;
    size_t bytes;
} bias_case;

static void run_bias(void *context) {
    bias_case *c = context;
    crn_bias_args a = c->bias;
    a.x = turn((void *)a.x, c->bytes);
    a.y = turn(a.y, c->bytes);
    crn_launch launch = crn_bias_launch(&a);
    gpu_start(&launch, &a);
}

static void run_column_sums(void *context) {
    bias_case *c = context;
    crn_column_sums_args a = c->sums;
    a.gy = turn((void *)a.gy, c->bytes);
    a.y = a.y != NULL ? turn((void *)a.y, c->bytes) : NULL;
    a.masked = turn(a.masked, c->bytes);
    crn_launch launch = crn_column_sums_launch(&a);
    gpu_start(&launch, &a);
}

static void time_bias(uint32_t element, uint32_t rows, uint32_t channels) {
    size_t bytes = (size_t)rows * channels * (element == CRN_ELEMENT_BF16 ? 2 : 4);
    bias_case c = {.bytes = bytes};
    begin(2 * bytes);
    float *per_channel = small_operand((size_t)channels * 2 * sizeof(float));
    uint32_t *tickets = small_operand(16384);
    GPU(cuMemsetD32, (CUdeviceptr)(uintptr_t)tickets, 0, 4096);
    c.bias = (crn_bias_args){.cut = {.rows = rows, .channels = channels},
                             .element = element,
                             .relu = 1,
                             .x_pitch = channels,
                             .y_pitch = channels,
                             .x = operand(bytes),
                             .bias = per_channel,
                             .y = operand(bytes)};
    c.sums = (crn_column_sums_args){.cut = c.bias.cut,
                                    .element = element,
                                    .gy_pitch = channels,
                                    .y_pitch = channels,
                                    .masked_pitch = channels,
                                    .gy = c.bias.x,
                                    .masked = (void *)c.bias.x,
                                    .sums = per_channel + channels,
                                    .tickets = tickets};
    c.sums.part = small_operand(crn_column_sums_workspace(&c.sums));
    const char *type = type_name(element);
    time_case(run_bias, &c, 2 * bytes, "%s %ux%u bias+relu", type, rows, channels);
    time_case(run_column_sums, &c, bytes, "%s %ux%u bias gradient", type, rows, channels);
    c.sums.gate = CRN_SUMS_RELU;
    c.sums.y = c.bias.y;
    time_case(run_column_sums, &c, 3 * bytes, "%s %ux%u relu backward + bias gradient", type, rows,
              channels);
}

/* ---- Pooling ---- */

typedef struct pool_case {
    crn_pool_args args;
    size_t large, small, places;
    crn_launch (*launch)(crn_pool_args *);
    bool back;
} pool_case;

static void run_pool(void *context) {
    pool_case *c = context;
    crn_pool_args a = c->args;
    a.from = turn((void *)a.from, c->back ? c->small : c->large);
    a.to = turn(a.to, c->back ? c->large : c->small);
    a.places = a.places != NULL ? turn(a.places, c->places) : NULL;
    crn_launch launch = c->launch(&a);
    gpu_start(&launch, &a);
}

static void time_pool(uint32_t element, uint32_t batch, uint32_t size, uint32_t channels,
                      int32_t kernel, int32_t stride, int32_t pad, const char *what) {
    bool global = kernel == 0, maximum = what[0] == 'm';
    uint32_t small = global ? 1 : (uint32_t)(((int32_t)size + 2 * pad - kernel) / stride + 1);
    size_t each = element == CRN_ELEMENT_BF16 ? 2 : 4;
    size_t places = (size_t)batch * small * small * channels;
    pool_case c = {.large = (size_t)batch * size * size * channels * each,
                   .small = places * each,
                   .places = places};
    begin(c.large + c.small);
    void *x = operand(c.large), *y = operand(c.small);
    c.args = (crn_pool_args){.element = element,
                             .place_bytes = 1,
                             .channels = channels,
                             .from_pitch = channels,
                             .to_pitch = channels,
                             .places_pitch = channels,
                             .batch = batch,
                             .height = size,
                             .width = size,
                             .small_height = small,
                             .small_width = small,
                             .kernel = {kernel, kernel},
                             .stride = {stride, stride},
                             .pad = {pad, pad},
                             .adaptive = global,
                             .from = x,
                             .to = y,
                             .places = maximum ? operand(places) : NULL};
    size_t bytes = c.large + c.small + (maximum ? places : 0);
    c.launch = maximum ? crn_max_pool_launch : crn_avg_pool_launch;
    time_case(run_pool, &c, bytes, "%s %s pool %ux%ux%ux%u, %d by %d", type_name(element), what,
              batch, size, size, channels, kernel, stride);
    c.back = true;
    c.args.from = y, c.args.to = x;
    c.launch = maximum ? crn_max_pool_bwd_launch : crn_avg_pool_bwd_launch;
    time_case(run_pool, &c, bytes, "%s %s pool %ux%ux%ux%u, %d by %d, backward", type_name(element),
              what, batch, size, size, channels, kernel, stride);
}

/* ---- Depthwise convolution ---- */

typedef struct depthwise_case {
    crn_depthwise_args args;
    size_t large, small;
    crn_launch (*launch)(crn_depthwise_args *);
} depthwise_case;

static void run_depthwise(void *context) {
    depthwise_case *c = context;
    crn_depthwise_args a = c->args;
    a.large = turn(a.large, c->large);
    a.small = turn(a.small, c->small);
    crn_launch launch = c->launch(&a);
    gpu_start(&launch, &a);
}

static void time_depthwise(uint32_t element, uint32_t batch, uint32_t size, uint32_t channels,
                           int32_t kernel, int32_t stride) {
    size_t each = element == CRN_ELEMENT_BF16 ? 2 : 4;
    uint32_t small = (size - 1) / (uint32_t)stride + 1, pitch = (channels + 7) / 8 * 8;
    int32_t pad = (kernel - 1) / 2;
    pitch = element == CRN_ELEMENT_BF16 ? pitch : (channels + 3) / 4 * 4;
    depthwise_case c = {.large = (size_t)batch * size * size * pitch * each,
                        .small = (size_t)batch * small * small * pitch * each};
    begin(c.large + c.small);
    float *weight = small_operand((size_t)channels * kernel * kernel * sizeof *weight);
    uint32_t *tickets = small_operand(16384);
    GPU(cuMemsetD32, (CUdeviceptr)(uintptr_t)tickets, 0, 4096);
    c.args = (crn_depthwise_args){.element = element,
                                  .channels = channels,
                                  .batch = batch,
                                  .height = size,
                                  .width = size,
                                  .small_height = small,
                                  .small_width = small,
                                  .large_pitch = pitch,
                                  .small_pitch = pitch,
                                  .kernel = {kernel, kernel},
                                  .stride = {stride, stride},
                                  .pad = {pad, pad},
                                  .dilation = {1, 1},
                                  .large = operand(c.large),
                                  .small = operand(c.small),
                                  .weight = weight,
                                  .weight_to = weight,
                                  .tickets = tickets};
    c.args.part = small_operand(crn_depthwise_weight_workspace(&c.args));
    static crn_launch (*const launches[])(crn_depthwise_args *) = {
        crn_depthwise_launch, crn_depthwise_data_launch, crn_depthwise_weight_launch};
    static const char *const names[] = {"", ", data", ", weights"};
    for (int i = 0; i < 3; i++) {
        c.launch = launches[i];
        time_case(run_depthwise, &c, c.large + c.small, "%s depthwise %ux%ux%ux%u, %dx%d by %d%s",
                  type_name(element), batch, size, size, channels, kernel, kernel, stride,
                  names[i]);
    }
}

/* ---- The rest ---- */

typedef struct layout_case {
    crn_layout_args args;
    size_t plain, image;
} layout_case;

static void run_to_image(void *context) {
    layout_case *c = context;
    crn_layout_args a = c->args;
    a.plain = turn(a.plain, c->plain);
    a.image = turn(a.image, c->image);
    crn_launch launch = crn_to_image_launch(&a);
    gpu_start(&launch, &a);
}

static void run_to_plain(void *context) {
    layout_case *c = context;
    crn_layout_args a = c->args;
    a.plain = turn(a.plain, c->plain);
    a.image = turn(a.image, c->image);
    crn_launch launch = crn_to_plain_launch(&a);
    gpu_start(&launch, &a);
}

static void time_layout(uint32_t batch, uint32_t channels, uint32_t plane, uint32_t pitch) {
    layout_case c = {.plain = (size_t)batch * channels * plane * 4,
                     .image = (size_t)batch * pitch * plane * 4};
    begin(c.plain + c.image);
    c.args = (crn_layout_args){.batch = batch,
                               .channels = channels,
                               .plane = plane,
                               .pitch = pitch,
                               .plain = operand(c.plain),
                               .image = operand(c.image)};
    time_case(run_to_image, &c, c.plain + c.image, "f32 to image, %ux%ux%u", batch, channels,
              plane);
    time_case(run_to_plain, &c, c.plain + c.image, "f32 to plain, %ux%ux%u", batch, channels,
              plane);
}

static void run_sgd(void *context) {
    crn_launch launch = crn_sgd_launch(context);
    gpu_start(&launch, context);
}

static void run_adam(void *context) {
    crn_launch launch = crn_adam_launch(context);
    gpu_start(&launch, context);
}

static void time_update(uint32_t count) {
    size_t bytes = (size_t)count * sizeof(float);
    begin(CACHE);
    char *of[4];
    for (int i = 0; i < 4; i++)
        of[i] = small_operand(bytes);
    crn_update_args args = {.count = (count + CRN_CHUNK - 1) / CRN_CHUNK,
                            .momentum = 0.9f,
                            .decay = 1e-4f,
                            .beta1_rest = 0.1f,
                            .beta2 = 0.999f,
                            .beta2_rest = 0.001f,
                            .epsilon = 1e-8f,
                            .values = small_operand(sizeof(crn_step_values))};
    GPU(cuMemsetD32, (CUdeviceptr)(uintptr_t)args.values, 0, sizeof(crn_step_values) / 4);
    crn_chunk_addresses *chunks = calloc(args.count, sizeof *chunks);
    for (uint32_t i = 0; i < args.count; i++) {
        size_t at = (size_t)i * CRN_CHUNK;
        uint32_t rest = count - i * CRN_CHUNK;
        chunks[i] = (crn_chunk_addresses){(float *)of[0] + at,
                                          (float *)of[1] + at,
                                          {(float *)of[2] + at, (float *)of[3] + at},
                                          NULL,
                                          rest < CRN_CHUNK ? rest : CRN_CHUNK,
                                          0,
                                          NULL};
    }
    args.chunks = small_operand(args.count * sizeof *chunks);
    GPU(cuMemcpyHtoD, (CUdeviceptr)(uintptr_t)args.chunks, chunks, args.count * sizeof *chunks);
    time_case(run_sgd, &args, 5 * bytes, "sgd with momentum, %u", count);
    time_case(run_adam, &args, 7 * bytes, "adam, %u", count);
    free(chunks);
}

static void run_loss(void *context) {
    crn_loss_args a = *(crn_loss_args *)context;
    crn_launch launch = crn_cross_entropy_launch(&a);
    gpu_start(&launch, &a);
    launch = crn_count_correct_launch(&a);
    gpu_start(&launch, &a);
    launch = crn_cross_entropy_bwd_launch(&a);
    gpu_start(&launch, &a);
}

static void time_loss(uint32_t batch, uint32_t classes) {
    size_t bytes = (size_t)batch * classes * sizeof(float);
    begin(CACHE);
    crn_loss_args args = {.batch = batch,
                          .classes = classes,
                          .pixels = 1,
                          .logits = small_operand(bytes),
                          .probabilities = small_operand(bytes),
                          .labels = small_operand(batch * sizeof(int32_t)),
                          .loss = small_operand(4),
                          .gradient = small_operand(bytes),
                          .correct = small_operand(8),
                          .tickets = small_operand(64)};
    args.part = small_operand(crn_loss_workspace(&args));
    GPU(cuMemsetD32, memory, 0, next / 4);
    time_case(run_loss, &args, 5 * bytes, "loss, accuracy and gradient, %ux%u", batch, classes);
}

/* ---- Sequences: matrices in bf16, as transformers have them ---- */

typedef struct sequences {
    crn_row_norm_args norm;
    crn_pointwise_args gate;
    crn_swiglu_args swiglu;
    crn_rotary_args rotary;
    crn_token_loss_args loss;
    crn_column_sums_args sums;
    size_t bytes; /* of one matrix; of a swiglu: of its output */
} sequences;

static void run_row_norm(void *context) {
    sequences *s = context;
    crn_row_norm_args a = s->norm;
    a.x = turn((void *)a.x, s->bytes);
    a.y = turn(a.y, s->bytes);
    if (a.added != NULL) {
        a.added = turn((void *)a.added, s->bytes);
        a.sum = turn(a.sum, s->bytes);
    }
    crn_launch launch = crn_row_norm_launch(&a);
    gpu_start(&launch, &a);
}

static void run_row_norm_bwd(void *context) {
    sequences *s = context;
    crn_row_norm_args a = s->norm;
    a.x = turn((void *)a.x, s->bytes);
    a.gy = turn((void *)a.gy, s->bytes);
    a.gx = turn(a.gx, s->bytes);
    if (a.other != NULL)
        a.other = turn((void *)a.other, s->bytes);
    crn_launch launch = crn_row_norm_bwd_launch(&a);
    gpu_start(&launch, &a);
    if (a.part == NULL)
        return;
    launch = crn_row_norm_finish_launch(&a);
    gpu_start(&launch, &a);
}

static void time_row_norm(uint32_t rows, uint32_t width, uint32_t centred) {
    sequences s = {.bytes = (size_t)rows * width * 2};
    begin(3 * s.bytes);
    s.norm = (crn_row_norm_args){.cut = {.rows = rows, .channels = width},
                                 .element = CRN_ELEMENT_BF16,
                                 .centred = centred,
                                 .epsilon = 1e-5f,
                                 .x = operand(s.bytes),
                                 .gy = operand(s.bytes),
                                 .y = operand(s.bytes),
                                 .gamma = small_operand(width * 4),
                                 .beta = centred ? small_operand(width * 4) : NULL,
                                 .mean = centred ? small_operand(rows * 4) : NULL,
                                 .inverse = small_operand(rows * 4),
                                 .ggamma = small_operand(width * 4),
                                 .gbeta = centred ? small_operand(width * 4) : NULL};
    s.norm.gx = s.norm.y;
    s.norm.part = small_operand(crn_row_norm_workspace(&s.norm));
    const char *name = centred ? "layer norm" : "rms norm";
    time_case(run_row_norm, &s, 2 * s.bytes, "bf16 %s %ux%u", name, rows, width);
    s.norm.added = s.norm.gy;
    s.norm.sum = operand(s.bytes);
    time_case(run_row_norm, &s, 4 * s.bytes, "bf16 %s %ux%u of a sum", name, rows, width);
    s.norm.added = NULL;
    time_case(run_row_norm_bwd, &s, 3 * s.bytes, "bf16 %s %ux%u, backward", name, rows, width);
    s.norm.other = s.norm.sum;
    time_case(run_row_norm_bwd, &s, 4 * s.bytes, "bf16 %s %ux%u, backward and addition", name, rows,
              width);
    s.norm.other = NULL;
    s.norm.part = NULL;
    time_case(run_row_norm_bwd, &s, 3 * s.bytes, "bf16 %s %ux%u, gx only", name, rows, width);
}

static void run_gate(void *context) {
    sequences *s = context;
    crn_pointwise_args a = s->gate;
    a.a = turn((void *)a.a, s->bytes);
    a.b = turn((void *)a.b, s->bytes);
    a.to = turn(a.to, s->bytes);
    crn_launch launch = crn_gate_launch(&a);
    gpu_start(&launch, &a);
}

static void time_gates(uint32_t count) {
    static const char *const names[] = {"gelu",     "gelu tanh",     "silu",    "multiply",
                                        "gelu bwd", "gelu tanh bwd", "silu bwd"};
    sequences s = {.bytes = (size_t)count * 2};
    begin(3 * s.bytes);
    s.gate = (crn_pointwise_args){.element = CRN_ELEMENT_BF16,
                                  .rows = 1,
                                  .channels = count,
                                  .a_pitch = count,
                                  .b_pitch = count,
                                  .to_pitch = count,
                                  .a = operand(s.bytes),
                                  .b = operand(s.bytes),
                                  .to = operand(s.bytes)};
    for (s.gate.op = 0; s.gate.op < CRN_GATES; s.gate.op++)
        time_case(run_gate, &s, (s.gate.op >= CRN_MULTIPLY ? 3 : 2) * s.bytes, "bf16 %s, %u",
                  names[s.gate.op], count);
}

static void run_swiglu(void *context) {
    sequences *s = context;
    crn_swiglu_args a = s->swiglu;
    a.x = turn((void *)a.x, 2 * s->bytes);
    a.y = turn(a.y, s->bytes);
    crn_launch launch = crn_swiglu_launch(&a);
    gpu_start(&launch, &a);
}

static void run_swiglu_bwd(void *context) {
    sequences *s = context;
    crn_swiglu_args a = s->swiglu;
    a.x = turn((void *)a.x, 2 * s->bytes);
    a.gy = turn((void *)a.gy, s->bytes);
    a.gx = turn(a.gx, 2 * s->bytes);
    crn_launch launch = crn_swiglu_bwd_launch(&a);
    gpu_start(&launch, &a);
}

static void time_swiglu(uint32_t rows, uint32_t width) {
    sequences s = {.bytes = (size_t)rows * width * 2};
    begin(5 * s.bytes);
    s.swiglu = (crn_swiglu_args){.element = CRN_ELEMENT_BF16,
                                 .rows = rows,
                                 .width = width,
                                 .x = operand(2 * s.bytes),
                                 .gy = operand(s.bytes),
                                 .y = operand(s.bytes),
                                 .gx = operand(2 * s.bytes)};
    time_case(run_swiglu, &s, 3 * s.bytes, "bf16 swiglu %ux%u", rows, width);
    time_case(run_swiglu_bwd, &s, 5 * s.bytes, "bf16 swiglu %ux%u, gradient", rows, width);
}

static void run_rotary(void *context) {
    sequences *s = context;
    crn_rotary_args a = s->rotary;
    a.x = turn((void *)a.x, s->bytes);
    a.y = turn(a.y, s->bytes);
    crn_launch launch = crn_rotary_launch(&a);
    gpu_start(&launch, &a);
}

static void time_rotary(uint32_t rows, uint32_t heads, uint32_t kv_heads, uint32_t half) {
    sequences s = {.bytes = (size_t)rows * (heads + 2 * kv_heads) * 2 * half * 2};
    begin(2 * s.bytes);
    s.rotary = (crn_rotary_args){.element = CRN_ELEMENT_BF16,
                                 .rows = rows,
                                 .tokens = 2048,
                                 .rotated = heads + kv_heads,
                                 .copied = kv_heads,
                                 .half = half,
                                 .pitch = (heads + 2 * kv_heads) * 2 * half,
                                 .pairs = half,
                                 .x = operand(s.bytes),
                                 .y = operand(s.bytes)};
    for (uint32_t i = 0; i < half; i++)
        s.rotary.frequency[i] = 1.0 / (1 + i);
    time_case(run_rotary, &s, 2 * s.bytes, "bf16 rotary of %u rows, %u + %u heads of %u", rows,
              heads, kv_heads, 2 * half);
}

static void run_token_loss(void *context) {
    crn_token_loss_args a = ((sequences *)context)->loss;
    crn_launch launch = crn_token_loss_launch(&a);
    gpu_start(&launch, &a);
}

static void time_token_loss(uint32_t rows, uint32_t words) {
    sequences s = {.bytes = (size_t)rows * words * 2};
    begin(CACHE);
    void *logits = operand(s.bytes);
    s.loss = (crn_token_loss_args){.element = CRN_ELEMENT_BF16,
                                   .rows = rows,
                                   .words = words,
                                   .logits = logits,
                                   .probabilities = logits,
                                   .labels = small_operand(rows * 4),
                                   .loss = small_operand(4),
                                   .count = small_operand(4),
                                   .tickets = small_operand(64)};
    s.loss.part = small_operand(crn_token_loss_workspace(&s.loss));
    GPU(cuMemsetD32, (CUdeviceptr)(uintptr_t)s.loss.labels, 5, rows);
    GPU(cuMemsetD32, (CUdeviceptr)(uintptr_t)s.loss.tickets, 0, 16);
    time_case(run_token_loss, &s, 2 * s.bytes, "bf16 token loss %ux%u", rows, words);
}

static void run_sums(void *context) {
    sequences *s = context;
    crn_column_sums_args a = s->sums;
    a.gy = turn((void *)a.gy, s->bytes);
    if (a.gate != 0) {
        a.y = turn((void *)a.y, s->bytes);
        a.masked = turn(a.masked, s->bytes);
    }
    crn_launch launch = crn_column_sums_launch(&a);
    gpu_start(&launch, &a);
}

static void time_sums(uint32_t rows, uint32_t width) {
    sequences s = {.bytes = (size_t)rows * width * 2};
    begin(3 * s.bytes);
    s.sums = (crn_column_sums_args){.cut = {.rows = rows, .channels = width},
                                    .element = CRN_ELEMENT_BF16,
                                    .gy_pitch = width,
                                    .y_pitch = width,
                                    .masked_pitch = width,
                                    .gy = operand(s.bytes),
                                    .y = operand(s.bytes),
                                    .masked = operand(s.bytes),
                                    .sums = small_operand(width * 4),
                                    .tickets = small_operand(4096)};
    s.sums.part = small_operand(crn_column_sums_workspace(&s.sums));
    GPU(cuMemsetD32, (CUdeviceptr)(uintptr_t)s.sums.tickets, 0, 1024);
    time_case(run_sums, &s, s.bytes, "bf16 column sums %ux%u", rows, width);
    s.sums.gate = CRN_GELU_TANH_BWD;
    time_case(run_sums, &s, 3 * s.bytes, "bf16 gelu tanh bwd and column sums %ux%u", rows, width);
}

static void time_sequences(void) {
    time_row_norm(8192, 1024, 1);
    time_row_norm(8192, 2048, 0);
    time_gates(8192 * 4096);
    time_swiglu(8192, 5632);
    time_rotary(8192, 32, 8, 32);
    time_token_loss(8192, 50304);
    time_token_loss(8192, 32000);
    time_sums(8192, 1024);
    time_sums(8192, 3072);
    time_sums(8192, 4096);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: kernel_times KERNELS.cubin\n");
        return 2;
    }
    gpu_open(argv[1]);
    GPU(cuMemAlloc, &memory, MEMORY);
    GPU(cuMemsetD32, memory, 0x3e4ccccd, MEMORY / 4); /* 0.2, and bf16 of about that */
    static const uint32_t norms_of_resnet[][2] = {{802816, 64}, {200704, 64},  {200704, 256},
                                                  {50176, 512}, {12544, 1024}, {12544, 256},
                                                  {3136, 2048}, {3136, 512},   {784, 2048}};
    time_copy();
    for (uint32_t element = 0; element < 2; element++) {
        for (int i = 0; i < 9; i++)
            time_norm(element, norms_of_resnet[i][0], norms_of_resnet[i][1]);
        time_pointwise(element, 200704 * 256);
        time_pointwise(element, 3136 * 512);
        time_bias(element, 64 * 224 * 224, 64);
        time_bias(element, 64 * 28 * 28, 512);
        time_pool(element, 64, 112, 64, 3, 2, 1, "max");
        time_pool(element, 64, 224, 64, 2, 2, 0, "max");
        time_pool(element, 64, 32, 108, 3, 1, 1, "average");
        time_pool(element, 64, 7, 2048, 0, 1, 0, "average");
        for (int32_t kernel = 3; kernel <= 7; kernel += 2) {
            time_depthwise(element, 64, 32, 36, kernel, 1);
            time_depthwise(element, 64, 8, 144, kernel, 1);
        }
        time_depthwise(element, 64, 32, 36, 5, 2);
    }
    time_layout(64, 3, 224 * 224, 4);
    time_layout(64, 512, 49, 512);
    time_layout(512, 512, 9, 512);
    time_sequences();
    time_update(25557032);
    time_loss(64, 1000);
    return 0;
}
