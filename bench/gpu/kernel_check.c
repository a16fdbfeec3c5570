/* kernel_check.c: runs every kernel of the backend cuda on a GPU and on the processor; the results
 * must be bitwise equal.
 *
 *   kernel_check KERNELS.cubin
 *
 * All operands are in one block; host and device each have a copy of it. Addresses in the arguments
 * are translated from the host's copy to the device's. After each kernel the two blocks must be
 * equal; a NaN is equal to a NaN. Kernels that use functions of the GPU (numbers.h: `quick`) may
 * differ by a digit of bf16. Each case runs twice on the GPU. */
#include "backend/cuda/kernels/processor_grid.h"
#include "backend/cuda/kernels/split_shapes.h"
#include "gpu_driver.h"

#include <math.h>

#define BLOCK ((size_t)96 << 20)

static char *block, *back;      /* the copy of the host, and the copy read back from the device */
static CUdeviceptr device;      /* the copy of the device */
static size_t used;             /* of the block */
static char *table, *table_end; /* where in the block addresses are */
static uint32_t runs[CRN_KERNELS], failures;
static uint64_t random_state = 1;

/* ---- Operands ---- */

static uint32_t draw(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

static float unit(void) {
    return (float)(draw() % (1u << 24)) / 8388608.0f - 1;
}

static void *take(size_t bytes) {
    void *at = block + used;
    used += (bytes + 255) / 256 * 256;
    if (used > BLOCK) {
        fprintf(stderr, "a case is larger than the block\n");
        exit(1);
    }
    memset(at, 0xff, bytes);
    return at;
}

static void begin(void) {
    used = 0;
    table = table_end = NULL;
}

static float *floats(size_t count, float offset, float scale) {
    float *at = take(count * sizeof *at);
    for (size_t i = 0; i < count; i++)
        at[i] = offset + scale * unit();
    return at;
}

/* Random elements of a type. */
static void *elements(uint32_t element, size_t count) {
    if (element == CRN_ELEMENT_F32)
        return floats(count, 0.1f, 1);
    uint16_t *at = take(count * sizeof *at);
    for (size_t i = 0; i < count; i++) {
        float value = 0.1f + unit();
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        at[i] = (uint16_t)(bits >> 16);
    }
    return at;
}

static uint32_t *tickets(void) {
    uint32_t *at = take(4096 * sizeof *at);
    memset(at, 0, 4096 * sizeof *at);
    return at;
}

/* ---- Both ---- */

static void translate(void *at, size_t bytes) {
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t word;
        memcpy(&word, (char *)at + i, 8);
        if (word < (uintptr_t)block || word >= (uintptr_t)block + BLOCK)
            continue;
        word = device + (word - (uintptr_t)block);
        memcpy((char *)at + i, &word, 8);
    }
}

static bool is_nan(uint32_t bits) {
    return (bits & 0x7fffffff) > 0x7f800000;
}

/* Whether a kernel may use functions that the processor computes in another way. */
static bool is_quick(crn_kernel_id kernel) {
    return kernel == CRN_K_gate_bf16 || kernel == CRN_K_gate_bf16_narrow ||
           kernel == CRN_K_swiglu_bf16 || kernel == CRN_K_swiglu_bf16_narrow ||
           kernel == CRN_K_swiglu_bwd_bf16 || kernel == CRN_K_swiglu_bwd_bf16_narrow ||
           kernel == CRN_K_column_sums_bf16 || kernel == CRN_K_column_sums_bf16_narrow ||
           kernel == CRN_K_token_loss_bf16 || kernel == CRN_K_token_loss_bf16_narrow;
}

static bool is_close(float a, float b) {
    return fabsf(a - b) <= 1e-6f + 0.008f * fabsf(a);
}

/* Whether two words are close as floats, or as pairs of bf16. */
static bool are_close(uint32_t a, uint32_t b) {
    uint32_t halves[] = {a, b, a << 16, b << 16, a & 0xffff0000u, b & 0xffff0000u};
    float values[6];
    memcpy(values, halves, sizeof values);
    return is_close(values[0], values[1]) ||
           (is_close(values[2], values[3]) && is_close(values[4], values[5]));
}

static void compare(crn_kernel_id kernel, const char *what) {
    for (size_t i = 0; i < used; i += 4) {
        uint32_t host, other;
        if (block + i >= table && block + i < table_end)
            continue;
        memcpy(&host, block + i, 4);
        memcpy(&other, back + i, 4);
        if (host == other || (is_nan(host) && is_nan(other)) ||
            (is_quick(kernel) && are_close(host, other)))
            continue;
        printf("DIFFERS: %s, %s: byte %zu: processor %08x, GPU %08x\n",
               crn_kernel_list[kernel].name, what, i, host, other);
        failures++;
        return;
    }
}

/* Copy the block to the device, with the addresses in the table of chunks translated. */
static void upload(void) {
    memcpy(back, block, used);
    if (table != NULL)
        translate(back + (table - block), (size_t)(table_end - table));
    GPU(cuMemcpyHtoD, device, back, used);
}

static void both(crn_launch launch, const void *args, const char *what) {
    uint64_t given[512];
    size_t bytes = crn_kernel_list[launch.kernel].args_bytes;
    char *before = malloc(used);
    memcpy(before, block, used);
    memcpy(given, args, bytes);
    translate(given, bytes);
    crn_kernel_run(&launch, args, CRN_GRID_FORWARDS);
    char *after = malloc(used);
    memcpy(after, block, used);
    for (int repetition = 0; repetition < 2; repetition++) {
        memcpy(block, before, used);
        upload();
        gpu_start(&launch, given);
        GPU(cuStreamSynchronize, gpu.stream);
        GPU(cuMemcpyDtoH, back, device, used);
        memcpy(block, after, used);
        compare(launch.kernel, what);
    }
    runs[launch.kernel]++;
    free(before);
    free(after);
}

/* ---- Cases ---- */

typedef struct form {
    uint32_t element, extra; /* extra: pitch minus channels; odd: no vector accesses */
} form;

static uint32_t pitch_of(form f, uint32_t channels) {
    return f.extra == 1 ? channels + 1 : (channels + 7) / 8 * 8 + f.extra;
}

static void check_norm(form f, uint32_t rows, uint32_t channels) {
    begin();
    uint32_t pitch = pitch_of(f, channels);
    size_t all = (size_t)rows * pitch;
    crn_norm_args args = {.tiling = {.rows = rows, .channels = channels},
                          .element = f.element,
                          .flags = CRN_NORM_MOVE,
                          .x_pitch = pitch,
                          .y_pitch = pitch,
                          .added_pitch = pitch,
                          .epsilon = 1e-5f,
                          .momentum = 0.1f,
                          .keep = 0.9f,
                          .x = elements(f.element, all),
                          .added = elements(f.element, all),
                          .y = elements(f.element, all),
                          .gamma = floats(channels, 1, 0.5f),
                          .beta = floats(channels, 0, 0.5f),
                          .running_mean = floats(channels, 0, 1),
                          .running_var = floats(channels, 2, 1),
                          .stats = floats(2 * channels, 0, 0),
                          .tickets = tickets()};
    args.partial = take(crn_norm_workspace(&args));
    both(crn_norm_statistics_launch(&args), &args, "statistics");
    for (args.flags = 0; args.flags < 8; args.flags++)
        both(crn_norm_apply_launch(&args), &args, "apply");
    for (args.flags = 0; args.flags < 4 && crn_norm_is_whole(&args); args.flags++)
        both(crn_norm_whole_launch(&args), &args, "statistics and apply");
    both(crn_norm_running_launch(&args), &args, "running");
}

static void check_norm_bwd(form f, uint32_t rows, uint32_t channels) {
    begin();
    uint32_t pitch = pitch_of(f, channels);
    size_t all = (size_t)rows * pitch;
    crn_norm_bwd_args args = {.tiling = {.rows = rows, .channels = channels},
                              .element = f.element,
                              .x_pitch = pitch,
                              .gy_pitch = pitch,
                              .gy2_pitch = pitch,
                              .y_pitch = pitch,
                              .masked_pitch = pitch,
                              .gx_pitch = pitch,
                              .other_pitch = pitch,
                              .x = elements(f.element, all),
                              .gy = elements(f.element, all),
                              .y = elements(f.element, all),
                              .gx = elements(f.element, all),
                              .gamma = floats(channels, 1, 0.5f),
                              .beta = floats(channels, 0, 0.5f),
                              .stats = floats(2 * channels, 1, 0.5f),
                              .ggamma = floats(channels, 0, 0),
                              .gbeta = floats(channels, 0, 0),
                              .sums = floats(2 * channels, 0, 0),
                              .tickets = tickets()};
    args.partial = take(crn_norm_bwd_workspace(&args));
    void *gy2 = elements(f.element, all), *masked = elements(f.element, all);
    void *other = elements(f.element, all);
    for (uint32_t i = 0; i < 24; i++) {
        args.mask = i % 3;
        args.gy2 = i / 3 % 2 ? gy2 : NULL;
        args.masked = i / 3 % 2 || i / 6 % 2 ? masked : NULL;
        args.other = i / 12 ? other : NULL;
        both(crn_norm_reduce_launch(&args), &args, "reduce");
        both(crn_norm_spread_launch(&args), &args, "spread");
        if (crn_norm_bwd_is_whole(&args))
            both(crn_norm_bwd_whole_launch(&args), &args, "reduce and spread");
    }
}

static void check_columns(form f, uint32_t rows, uint32_t channels) {
    begin();
    uint32_t pitch = pitch_of(f, channels);
    size_t all = (size_t)rows * pitch;
    crn_bias_args bias = {.tiling = {.rows = rows, .channels = channels},
                          .element = f.element,
                          .x_pitch = pitch,
                          .y_pitch = pitch,
                          .x = elements(f.element, all),
                          .bias = floats(channels, 0, 1),
                          .y = elements(f.element, all)};
    crn_column_sums_args sums = {.tiling = bias.tiling,
                                 .element = f.element,
                                 .gy_pitch = pitch,
                                 .y_pitch = pitch,
                                 .masked_pitch = pitch,
                                 .gy = bias.x,
                                 .masked = bias.y,
                                 .sums = floats(channels, 0, 0),
                                 .tickets = tickets()};
    sums.partial = take(crn_column_sums_workspace(&sums));
    void *y = elements(f.element, all);
    for (uint32_t i = 0; i < 2; i++) {
        bias.relu = i;
        sums.gate = i ? CRN_SUMS_RELU : 0;
        sums.y = y;
        both(crn_bias_launch(&bias), &bias, "bias");
        both(crn_column_sums_launch(&sums), &sums, "column sums");
    }
}

static void check_pointwise(form f, uint32_t rows, uint32_t channels) {
    begin();
    uint32_t pitch = pitch_of(f, channels);
    size_t all = (size_t)rows * pitch;
    crn_pointwise_args args = {.element = f.element,
                               .rows = rows,
                               .channels = channels,
                               .a_pitch = pitch,
                               .b_pitch = pitch,
                               .c_pitch = pitch,
                               .to_pitch = pitch,
                               .a = elements(f.element, all),
                               .b = elements(f.element, all),
                               .c = elements(f.element, all),
                               .to = elements(f.element, all)};
    for (args.op = CRN_COPY; args.op <= CRN_RELU_BWD_ADD; args.op++)
        both(crn_pointwise_launch(&args), &args, "pointwise");
    crn_step_values *values = take(sizeof *values);
    memset(values, 0, sizeof *values);
    values->seed = 7, values->step = 3;
    crn_dropout_args dropout = {.element = f.element,
                                .op = 11,
                                .batch = 1,
                                .channels = channels,
                                .plane = rows,
                                .x_pitch = pitch,
                                .y_pitch = pitch,
                                .scale = 1.25f,
                                .threshold = 858993459,
                                .x = args.a,
                                .y = args.to,
                                .values = values};
    both(crn_dropout_launch(&dropout), &dropout, "dropout");
    crn_concat_args concat = {
        .element = f.element, .rows = rows, .count = 3, .to_pitch = 3 * pitch};
    concat.to = elements(f.element, 3 * all);
    for (uint32_t i = 0; i < 3; i++)
        concat.sources[i] = (crn_concat_source){i == 0   ? args.a
                                                : i == 1 ? args.b
                                                         : args.c,
                                                channels, pitch, i * channels};
    both(crn_concat_launch(&concat), &concat, "concat");
    crn_place_args place = {.element = f.element,
                            .all = all,
                            .first = 5,
                            .count = all / 2,
                            .from = args.a,
                            .to = args.to};
    both(crn_place_launch(&place), &place, "place");
}

static void check_pool(form f, uint32_t channels, int32_t kernel, int32_t stride, int32_t pad,
                       uint32_t adaptive) {
    begin();
    uint32_t pitch = pitch_of(f, channels), large = 13;
    uint32_t small = adaptive ? 4 : (uint32_t)(((int32_t)large + 2 * pad - kernel) / stride + 1);
    crn_pool_args args = {.element = f.element,
                          .place_bytes = 1,
                          .channels = channels,
                          .from_pitch = pitch,
                          .to_pitch = pitch,
                          .places_pitch = pitch,
                          .batch = 2,
                          .height = large,
                          .width = large,
                          .small_height = small,
                          .small_width = small,
                          .kernel = {kernel, kernel},
                          .stride = {stride, stride},
                          .pad = {pad, pad},
                          .adaptive = adaptive};
    void *x = elements(f.element, (size_t)2 * large * large * pitch);
    void *y = elements(f.element, (size_t)2 * small * small * pitch);
    void *places = take((size_t)2 * small * small * pitch * 4);
    args.from = x, args.to = y;
    both(crn_avg_pool_launch(&args), &args, "average");
    args.from = y, args.to = x;
    both(crn_avg_pool_bwd_launch(&args), &args, "average, backward");
    args.places = places;
    for (uint32_t bytes = 1; !adaptive && bytes <= 4; bytes += 3) {
        args.place_bytes = bytes;
        args.from = x, args.to = y;
        both(crn_max_pool_launch(&args), &args, "maximum");
        args.from = y, args.to = x;
        both(crn_max_pool_bwd_launch(&args), &args, "maximum, backward");
    }
}

static void check_depthwise(form f, uint32_t channels, int32_t kernel, int32_t stride,
                            int32_t dilation) {
    begin();
    uint32_t pitch = pitch_of(f, channels), large = 17;
    int32_t pad = dilation * (kernel - 1) / 2;
    uint32_t small = (large - 1) / (uint32_t)stride + 1;
    crn_depthwise_args args = {.element = f.element,
                               .channels = channels,
                               .batch = 3,
                               .height = large,
                               .width = large,
                               .small_height = small,
                               .small_width = small,
                               .large_pitch = pitch,
                               .small_pitch = pitch,
                               .kernel = {kernel, kernel},
                               .stride = {stride, stride},
                               .pad = {pad, pad},
                               .dilation = {dilation, dilation},
                               .large = elements(f.element, (size_t)3 * large * large * pitch),
                               .small = elements(f.element, (size_t)3 * small * small * pitch),
                               .weight = floats((size_t)channels * kernel * kernel, 0, 1),
                               .bias = floats(channels, 0, 1),
                               .weight_to = floats((size_t)channels * kernel * kernel, 0, 1),
                               .tickets = tickets()};
    args.partial = take(crn_depthwise_weight_workspace(&args));
    both(crn_depthwise_launch(&args), &args, "depthwise");
    both(crn_depthwise_data_launch(&args), &args, "depthwise, data");
    both(crn_depthwise_weight_launch(&args), &args, "depthwise, weights");
}

static void check_conv(uint32_t element, uint32_t groups) {
    begin();
    crn_conv_args args = {.element = element,
                          .groups = groups,
                          .batch = 2,
                          .channels = 6,
                          .height = 9,
                          .width = 8,
                          .filters = 4,
                          .small_height = 5,
                          .small_width = 4,
                          .large_pitch = 8,
                          .small_pitch = 5,
                          .kernel = {3, 3},
                          .stride = {2, 2},
                          .pad = {1, 1},
                          .dilation = {1, 1},
                          .weight_o = 6 / groups * 9,
                          .weight_c = 9,
                          .weight_tap = 1,
                          .large = elements(element, 2 * 9 * 8 * 8),
                          .small = elements(element, 2 * 5 * 4 * 5),
                          .weight = floats(4 * 6 * 9, 0, 1),
                          .bias = floats(6, 0, 1),
                          .weight_to = floats(4 * 6 * 9, 0, 1)};
    both(crn_conv_gather_launch(&args), &args, "gather");
    both(crn_conv_scatter_launch(&args), &args, "scatter");
    both(crn_conv_weigh_launch(&args), &args, "weigh");
}

/* Whole numbers from -most to most. */
static float *whole_numbers(size_t count, uint32_t most) {
    float *at = take(count * sizeof *at);
    for (size_t i = 0; i < count; i++)
        at[i] = (float)(draw() % (2 * most + 1)) - (float)most;
    return at;
}

static void check_weights(uint32_t pass, crn_split_args *a) {
    crn_split_weights_args split = {
        .filters = a->filters, .taps = 9, .channels = a->channels, .weight = a->weight};
    crn_launch launch = pass == CRN_SPLIT_SCATTER ? crn_turn_weights_launch(&split)
                                                  : crn_split_weights_launch(&split);
    size_t bytes = (size_t)a->filters * (split.pitch + 32) * sizeof(float);
    a->weight_big = take(bytes), a->weight_small = take(bytes);
    memcpy(&split.big, &a->weight_big, sizeof split.big);
    memcpy(&split.small, &a->weight_small, sizeof split.small);
    a->weight_pitch = split.pitch;
    both(launch, &split, "weights");
}

/* Matrix units do not round sums as a processor does. With whole numbers, of which one factor has
 * more than 11 bits and the other fewer, both are exact. */
static void check_split(uint32_t tile, int32_t stride, uint32_t large, uint32_t small) {
    begin();
    crn_split_args args = {.tile = tile,
                           .batch = 3,
                           .channels = 36,
                           .height = 19,
                           .width = 16,
                           .filters = 80,
                           .small_height = (uint32_t)(19 - 1) / (uint32_t)stride + 1,
                           .small_width = (uint32_t)(16 - 1) / (uint32_t)stride + 1,
                           .large_pitch = 36,
                           .small_pitch = 80,
                           .kernel = {3, 3},
                           .stride = {stride, stride},
                           .pad = {1, 1},
                           .dilation = {1, 1},
                           .large = whole_numbers(3 * 19 * 16 * 36, large),
                           .small = whole_numbers(3 * 19 * 16 * 80, small),
                           .weight = whole_numbers(80 * 9 * 36, 1)};
    for (uint32_t pass = 0; pass < 3; pass++) {
        if (!crn_split_fits(pass, &args))
            continue;
        crn_launch launch = crn_split_launch(pass, &args);
        if (tile == CRN_SPLIT_HOPPER && pass != CRN_SPLIT_WEIGH)
            check_weights(pass, &args);
        args.to = take((size_t)(80 * 9 * 36 * args.slices + 3 * 19 * 16 * 80) * sizeof(float));
        both(launch, &args, "split");
    }
}

static void check_plain(uint32_t element) {
    begin();
    enum { M = 37, N = 50, K = 29, BATCH = 3 };
    crn_matmul_args product = {
        .m = M,
        .n = N,
        .k = K,
        .batch = BATCH,
        .add = element,
        .a = {elements(element, BATCH * M * K), K, 1, M * K, element},
        .b = {elements(element, BATCH * N * K), 1, K, N * K, element},
        .c = {elements(CRN_ELEMENT_F32, BATCH * M * N), N, 1, M * N, CRN_ELEMENT_F32},
        .bias = floats(N, 0, 1)};
    both(crn_matmul_launch(&product), &product, "matmul");
    crn_layout_args layout = {.element = element,
                              .batch = 3,
                              .channels = 35,
                              .plane = 70,
                              .pitch = 40,
                              .plain = floats(3 * 35 * 70, 0, 1),
                              .image = elements(element, 3 * 40 * 70)};
    both(crn_to_plain_launch(&layout), &layout, "to plain");
    both(crn_to_image_launch(&layout), &layout, "to image");
    crn_convert_args convert = {.from_element = CRN_ELEMENT_F32,
                                .to_element = element,
                                .count = 5000,
                                .from = floats(5000, 0, 100),
                                .to = take(20000)};
    both(crn_convert_launch(&convert), &convert, "convert");
    crn_fill_args fill = {.element = element,
                          .pattern = 0x7fc01234,
                          .count = 3000,
                          .at = take(12000),
                          .found = take(4)};
    both(crn_fill_launch(&fill), &fill, "fill");
    both(crn_count_changed_launch(&fill), &fill, "count changed");
    fill.count = element == CRN_ELEMENT_BF16 ? 6000 : 3000;
    both(crn_count_nan_launch(&fill), &fill, "count NaNs");
}

static void check_loss(uint32_t element, uint32_t classes, uint32_t pixels) {
    begin();
    size_t all = (size_t)5 * classes * pixels;
    int32_t *labels = take(5 * pixels * sizeof *labels);
    for (uint32_t i = 0; i < 5 * pixels; i++)
        labels[i] = (int32_t)(draw() % classes);
    crn_loss_args args = {.element = element,
                          .batch = 5,
                          .classes = classes,
                          .pixels = pixels,
                          .smoothing = 0.1f,
                          .logits = elements(element, all),
                          .probabilities = elements(element, all),
                          .labels = labels,
                          .loss = take(4),
                          .gradient = elements(element, all),
                          .correct = take(8),
                          .tickets = tickets()};
    args.partial = take(crn_loss_workspace(&args));
    *args.correct = 0;
    both(crn_cross_entropy_launch(&args), &args, "cross-entropy");
    both(crn_cross_entropy_bwd_launch(&args), &args, "cross-entropy, backward");
    both(crn_count_correct_launch(&args), &args, "correct");
}

static void check_cells(uint32_t element) {
    begin();
    enum { BATCH = 7, HIDDEN = 33, ALL = BATCH * HIDDEN };
    crn_cell_args args = {.element = element,
                          .batch = BATCH,
                          .hidden = HIDDEN,
                          .z = floats(4 * ALL, 0, 4),
                          .z2 = floats(4 * ALL, 0, 4),
                          .b_ih = floats(4 * HIDDEN, 0, 1),
                          .b_hh = floats(4 * HIDDEN, 0, 1),
                          .c = elements(element, ALL),
                          .new_h = elements(element, ALL),
                          .new_c = elements(element, ALL),
                          .values = elements(element, 4 * ALL),
                          .gh = elements(element, ALL),
                          .gc = elements(element, ALL),
                          .before = elements(element, 4 * ALL),
                          .old_gc = elements(element, ALL)};
    both(crn_rnn_cell_launch(&args), &args, "rnn");
    both(crn_rnn_cell_bwd_launch(&args), &args, "rnn, backward");
    both(crn_lstm_cell_launch(&args), &args, "lstm");
    both(crn_lstm_cell_bwd_launch(&args), &args, "lstm, backward");
}

static void check_update(uint32_t variant) {
    begin();
    enum { COUNT = 10000 };
    crn_step_values *values = take(sizeof *values);
    memset(values, 0, sizeof *values);
    values->rate = 0.1f, values->keep = 0.999f, values->step_size = 0.3f;
    values->root_correction = 0.2f;
    values->gathered = variant & 1 ? 3 : 0;
    values->first = variant & 2;
    float *of[5];
    for (int i = 0; i < 5; i++)
        of[i] = floats(COUNT, 1, 0.9f);
    crn_update_args args = {.count = (COUNT + CRN_CHUNK - 1) / CRN_CHUNK,
                            .nesterov = variant & 2,
                            .decoupled = variant & 2,
                            .momentum = 0.9f,
                            .decay = variant & 4 ? 0.01f : 0,
                            .beta1_rest = 0.1f,
                            .beta2 = 0.999f,
                            .beta2_rest = 0.001f,
                            .epsilon = 1e-8f,
                            .values = values};
    crn_chunk_addresses *chunks = take(args.count * sizeof *chunks);
    table = (char *)chunks, table_end = (char *)(chunks + args.count);
    for (uint32_t i = 0, first = 0; i < args.count; i++, first += CRN_CHUNK) {
        uint32_t count = COUNT - first < CRN_CHUNK ? COUNT - first : CRN_CHUNK;
        chunks[i] = (crn_chunk_addresses){
            of[0] + first, of[1] + first, {of[2] + first, of[3] + first}, of[4] + first, count, 0,
            NULL};
    }
    args.chunks = chunks;
    both(crn_gather_gradients_launch(&args), &args, "gather");
    both(crn_sgd_launch(&args), &args, "sgd");
    both(crn_adam_launch(&args), &args, "adam");
    args.squares = floats(1, 0, 0);
    args.squares_out = floats(1, 0, 0);
    args.chunk_squares = take(args.count * sizeof(double));
    both(crn_square_chunks_launch(&args), &args, "squares");
    both(crn_add_squares_launch(&args), &args, "sum of squares");
}

#include "sequence_checks.h"

static void check_form(form f) {
    static const uint32_t shapes[][2] = {{1, 3},      {33, 16},   {700, 36},
                                         {3000, 132}, {5000, 40}, {20000, 8}};
    for (int i = 0; i < 6; i++) {
        check_norm(f, shapes[i][0], shapes[i][1]);
        check_norm_bwd(f, shapes[i][0], shapes[i][1]);
        check_columns(f, shapes[i][0], shapes[i][1]);
        check_pointwise(f, shapes[i][0], shapes[i][1]);
    }
    for (uint32_t channels = 5; channels < 90; channels += 27) {
        check_pool(f, channels, 3, 2, 1, 0);
        check_pool(f, channels, 2, 2, 0, 0);
        check_pool(f, channels, 3, 1, 1, 0);
        check_pool(f, channels, 1, 1, 0, 1);
        for (int32_t kernel = 1; kernel <= 7; kernel += 2) {
            check_depthwise(f, channels, kernel, 1, 1);
            check_depthwise(f, channels, kernel, 2, 1);
            check_depthwise(f, channels, kernel, 1, 2);
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: kernel_check KERNELS.cubin\n");
        return 2;
    }
    gpu_open(argv[1]);
    block = aligned_alloc(256, BLOCK);
    back = malloc(BLOCK);
    GPU(cuMemAlloc, &device, BLOCK);
    for (uint32_t i = 0; i < 6; i++)
        check_form((form){i % 2, (uint32_t[]){0, 1, 8}[i / 2]});
    for (uint32_t element = 0; element < 2; element++) {
        check_conv(element, 1);
        check_conv(element, 2);
        check_plain(element);
        check_loss(element, 10, 1);
        check_loss(element, 1000, 1);
        check_loss(element, 3, 400);
        check_cells(element);
        check_sequences(element);
    }
    for (uint32_t i = 0; i < 4 * CRN_SPLIT_TILE_COUNT; i++)
        check_split(i / 4, 1 + (int32_t)(i % 2), i % 4 < 2 ? 4096 : 1, i % 4 < 2 ? 1 : 4096);
    for (uint32_t variant = 0; variant < 8; variant++)
        check_update(variant);
    uint32_t all = 0;
    for (uint32_t i = 0; i < CRN_KERNELS; i++) {
        all += runs[i];
        if (runs[i] > 0)
            continue;
        printf("NOT RUN: %s\n", crn_kernel_list[i].name);
        failures++;
    }
    printf("%u kernels, %u cases, %u failures\n", (uint32_t)CRN_KERNELS, all, failures);
    return failures > 0;
}
