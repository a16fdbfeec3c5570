/* kernel_times.c: measures the speed of the kernels of the backend cuda on a GPU, with shapes of
 * real networks; kernel_timing.h says how.
 *
 *   kernel_times KERNELS.cubin [sequences]
 *
 * With the word only the kernels of transformers. */
#include "kernel_timing.h"
#include "sequence_times.h"

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
    n.forward = (crn_norm_args){.tiling = {.rows = rows, .channels = channels},
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
    n.backward = (crn_norm_bwd_args){.tiling = n.forward.tiling,
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
    n.forward.partial = n.backward.partial = small_operand(crn_norm_workspace(&n.forward));
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
    c.bias = (crn_bias_args){.tiling = {.rows = rows, .channels = channels},
                             .element = element,
                             .relu = 1,
                             .x_pitch = channels,
                             .y_pitch = channels,
                             .x = operand(bytes),
                             .bias = per_channel,
                             .y = operand(bytes)};
    c.sums = (crn_column_sums_args){.tiling = c.bias.tiling,
                                    .element = element,
                                    .gy_pitch = channels,
                                    .y_pitch = channels,
                                    .masked_pitch = channels,
                                    .gy = c.bias.x,
                                    .masked = (void *)c.bias.x,
                                    .sums = per_channel + channels,
                                    .tickets = tickets};
    c.sums.partial = small_operand(crn_column_sums_workspace(&c.sums));
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
    c.args.partial = small_operand(crn_depthwise_weight_workspace(&c.args));
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
    args.partial = small_operand(crn_loss_workspace(&args));
    GPU(cuMemsetD32, memory, 0, next / 4);
    time_case(run_loss, &args, 5 * bytes, "loss, accuracy and gradient, %ux%u", batch, classes);
}

int main(int argc, char **argv) {
    if (argc != 2 && !(argc == 3 && strcmp(argv[2], "sequences") == 0)) {
        fprintf(stderr, "usage: kernel_times KERNELS.cubin [sequences]\n");
        return 2;
    }
    gpu_open(argv[1]);
    GPU(cuMemAlloc, &memory, MEMORY);
    GPU(cuMemsetD32, memory, 0x3e4ccccd, MEMORY / 4); /* 0.2, and bf16 of about that */
    static const uint32_t norms_of_resnet[][2] = {{802816, 64}, {200704, 64},  {200704, 256},
                                                  {50176, 512}, {12544, 1024}, {12544, 256},
                                                  {3136, 2048}, {3136, 512},   {784, 2048}};
    time_copy();
    if (argc == 3) {
        time_sequences();
        return 0;
    }
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
