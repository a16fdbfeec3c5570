/* test_cuda_kernels.c: the kernels of the backend cuda, run on the processor, against the ops of
 * the reference: over the cases of op_cases.json and random ones, for both element types, and for
 * pitches that allow 16-byte accesses and pitches that do not. */
#include "backend/random_cases.h"
#include "backend/rig.h"
#include "cuda/kernel_rig.h"

#define F32_TOLERANCE 3e-5 /* of the largest element */
#define BF16_TOLERANCE 2e-2

typedef struct comparison {
    rig ref;
    kernel_rig k;
} comparison;

static uint32_t kinds_compared[CAIRN_OP_KINDS];

/* ---- Tensors of the reference ---- */

static const cairn_tensor *tensor_of(const comparison *at, cairn_id id) {
    return cairn_graph_tensor(at->ref.graph, id);
}

static uint32_t dimension(const cairn_tensor *t, uint32_t i) {
    return i < t->rank ? t->shape[i] : 1;
}

static uint32_t plane_of(const cairn_tensor *t) {
    return t->rank > 2 ? (uint32_t)(fill_count(t) / t->shape[0] / t->shape[1]) : 1;
}

static kernel_image load(comparison *at, cairn_id id) {
    const cairn_tensor *t = tensor_of(at, id);
    return kernel_rig_load(&at->k, at->ref.place[id], t->shape[0], dimension(t, 1), plane_of(t));
}

static kernel_image make(comparison *at, cairn_id id) {
    const cairn_tensor *t = tensor_of(at, id);
    return kernel_rig_image(&at->k, t->shape[0], dimension(t, 1), plane_of(t));
}

static void *floats(comparison *at, cairn_id id) {
    return kernel_rig_copy(&at->k, at->ref.place[id], fill_count(tensor_of(at, id)) * 4);
}

/* A plain tensor with the elements under test. */
static void *plain(comparison *at, cairn_id id) {
    uint64_t count = fill_count(tensor_of(at, id));
    void *to = kernel_rig_make(&at->k, count * kernel_rig_element(&at->k));
    crn_convert_args args = {
        .to_element = at->k.element, .count = count, .from = at->ref.place[id], .to = to};
    kernel_rig_run(&at->k, crn_convert_launch(&args), &args);
    return to;
}

static void *empty(comparison *at, cairn_id id, size_t element) {
    return kernel_rig_make(&at->k, fill_count(tensor_of(at, id)) * element);
}

static double tolerance_of(const comparison *at, bool exact) {
    return at->k.element == CRN_ELEMENT_BF16 ? BF16_TOLERANCE : exact ? 0 : F32_TOLERANCE;
}

static void compare_floats(comparison *at, const float *got, cairn_id id, double tolerance) {
    const cairn_tensor *t = tensor_of(at, id);
    CHECK(kernel_rig_equal(got, at->ref.place[id], fill_count(t), tolerance, t->name));
}

static void compare_image(comparison *at, kernel_image image, cairn_id id, bool exact) {
    float *got = malloc(fill_count(tensor_of(at, id)) * sizeof *got);
    kernel_rig_unload(&at->k, image, got);
    compare_floats(at, got, id, tolerance_of(at, exact));
    free(got);
}

static void compare_plain(comparison *at, const void *values, cairn_id id, bool exact) {
    uint64_t count = fill_count(tensor_of(at, id));
    float *got = malloc(count * sizeof *got);
    crn_convert_args args = {
        .from_element = at->k.element, .count = count, .from = values, .to = got};
    kernel_rig_run(&at->k, crn_convert_launch(&args), &args);
    compare_floats(at, got, id, tolerance_of(at, exact));
    free(got);
}

static bool wanted(const cairn_op *op, uint32_t output) {
    return output < op->output_count && op->outputs[output] != CAIRN_NONE;
}

/* ---- Batch-norm ---- */

static void norm(comparison *at, const cairn_op *op, float *running_mean, float *running_var) {
    kernel_image x = load(at, op->inputs[0]), y = make(at, op->outputs[0]);
    float *stats =
        wanted(op, 1) ? empty(at, op->outputs[1], 4) : kernel_rig_make(&at->k, 8 * x.channels);
    crn_norm_args args = {.cut = {.rows = x.batch * x.plane, .channels = x.channels},
                          .element = at->k.element,
                          .flags = at->ref.training ? CRN_NORM_MOVE : CRN_NORM_RUNNING,
                          .x_pitch = x.pitch,
                          .y_pitch = y.pitch,
                          .epsilon = (float)op->attributes.epsilon,
                          .momentum = (float)op->attributes.momentum,
                          .keep = (float)(1 - op->attributes.momentum),
                          .x = x.at,
                          .y = y.at,
                          .gamma = floats(at, op->params[0]),
                          .beta = floats(at, op->params[1]),
                          .running_mean = running_mean,
                          .running_var = running_var,
                          .stats = stats,
                          .tickets = kernel_rig_tickets(&at->k)};
    args.part = kernel_rig_make(&at->k, crn_norm_workspace(&args));
    if (at->ref.training)
        kernel_rig_run(&at->k, crn_norm_statistics_launch(&args), &args);
    else
        kernel_rig_run(&at->k, crn_norm_running_launch(&args), &args);
    kernel_rig_run(&at->k, crn_norm_apply_launch(&args), &args);
    compare_image(at, y, op->outputs[0], false);
    if (wanted(op, 1))
        compare_floats(at, stats, op->outputs[1], F32_TOLERANCE);
    compare_floats(at, running_mean, op->params[2], F32_TOLERANCE);
    compare_floats(at, running_var, op->params[3], F32_TOLERANCE);
}

static void norm_bwd(comparison *at, const cairn_op *op) {
    kernel_image x = load(at, op->inputs[0]), gy = load(at, op->inputs[2]), gx = gy;
    uint32_t channels = x.channels;
    crn_norm_bwd_args args = {.cut = {.rows = x.batch * x.plane, .channels = channels},
                              .element = at->k.element,
                              .fixed = !at->ref.training,
                              .x_pitch = x.pitch,
                              .gy_pitch = gy.pitch,
                              .x = x.at,
                              .gy = gy.at,
                              .gamma = floats(at, op->params[0]),
                              .stats = floats(at, op->inputs[1]),
                              .ggamma = wanted(op, 1) ? empty(at, op->outputs[1], 4) : NULL,
                              .gbeta = wanted(op, 2) ? empty(at, op->outputs[2], 4) : NULL,
                              .sums = kernel_rig_make(&at->k, 8 * channels),
                              .tickets = kernel_rig_tickets(&at->k)};
    args.part = kernel_rig_make(&at->k, crn_norm_bwd_workspace(&args));
    if (wanted(op, 0)) {
        gx = make(at, op->outputs[0]);
        args.gx = gx.at;
        args.gx_pitch = gx.pitch;
    }
    kernel_rig_run(&at->k, crn_norm_reduce_launch(&args), &args);
    if (args.ggamma != NULL)
        compare_floats(at, args.ggamma, op->outputs[1], F32_TOLERANCE);
    if (args.gbeta != NULL)
        compare_floats(at, args.gbeta, op->outputs[2], F32_TOLERANCE);
    if (!wanted(op, 0))
        return;
    kernel_rig_run(&at->k, crn_norm_spread_launch(&args), &args);
    compare_image(at, gx, op->outputs[0], false);
}

/* ---- Element by element ---- */

static void pointwise(comparison *at, const cairn_op *op, crn_pointwise what) {
    kernel_image a = load(at, op->inputs[0]);
    kernel_image b = op->input_count > 1 ? load(at, op->inputs[1]) : a;
    kernel_image to = make(at, op->outputs[0]);
    crn_pointwise_args args = {.op = what,
                               .element = at->k.element,
                               .rows = a.batch * a.plane,
                               .channels = a.channels,
                               .a_pitch = a.pitch,
                               .b_pitch = b.pitch,
                               .to_pitch = to.pitch,
                               .a = a.at,
                               .b = b.at,
                               .to = to.at};
    if (a.pitch == a.channels) {
        args.channels = args.a_pitch = args.b_pitch = args.to_pitch = args.rows * a.channels;
        args.rows = 1;
    }
    kernel_rig_run(&at->k, crn_pointwise_launch(&args), &args);
    compare_image(at, to, op->outputs[0], true);
}

static void dropout(comparison *at, const cairn_op *op, cairn_id id) {
    kernel_image x = load(at, op->inputs[0]), y = make(at, op->outputs[0]);
    crn_step_values *values = kernel_rig_make(&at->k, sizeof *values);
    values->seed = at->ref.seed;
    values->step = at->ref.step;
    double p = op->attributes.probability;
    crn_dropout_args args = {.element = at->k.element,
                             .op = op->of != CAIRN_NONE ? op->of : id,
                             .batch = x.batch,
                             .channels = x.channels,
                             .plane = x.plane,
                             .x_pitch = x.pitch,
                             .y_pitch = y.pitch,
                             .scale = (float)(1.0 / (1.0 - p)),
                             .threshold = (uint64_t)(p * 4294967296.0),
                             .x = x.at,
                             .y = y.at,
                             .values = values};
    if (!at->ref.training)
        args.threshold = 0, args.scale = 1;
    kernel_rig_run(&at->k, crn_dropout_launch(&args), &args);
    compare_image(at, y, op->outputs[0], true);
}

static void concat(comparison *at, const cairn_op *op) {
    kernel_image to = make(at, op->outputs[0]);
    crn_concat_args args = {.element = at->k.element,
                            .rows = to.batch * to.plane,
                            .count = op->input_count,
                            .to_pitch = to.pitch,
                            .to = to.at};
    uint32_t first = 0;
    for (uint32_t i = 0; i < op->input_count; i++) {
        kernel_image from = load(at, op->inputs[i]);
        args.sources[i] = (crn_concat_source){from.at, from.channels, from.pitch, first};
        first += from.channels;
    }
    kernel_rig_run(&at->k, crn_concat_launch(&args), &args);
    compare_image(at, to, op->outputs[0], true);
}

static void concat_bwd(comparison *at, const cairn_op *op) {
    kernel_image from = load(at, op->inputs[0]), to = make(at, op->outputs[0]);
    size_t first = (size_t)op->attributes.index * kernel_rig_element(&at->k);
    crn_pointwise_args args = {.op = CRN_COPY,
                               .element = at->k.element,
                               .rows = to.batch * to.plane,
                               .channels = to.channels,
                               .a_pitch = from.pitch,
                               .to_pitch = to.pitch,
                               .a = (const char *)from.at + first,
                               .to = to.at};
    if (to.channels % 8 != 0) /* the next channels are not padding */
        args.to_pitch = to.pitch = to.channels;
    kernel_rig_run(&at->k, crn_pointwise_launch(&args), &args);
    compare_image(at, to, op->outputs[0], true);
}

static void select_bwd(comparison *at, const cairn_op *op) {
    uint64_t count = fill_count(tensor_of(at, op->inputs[0]));
    crn_place_args args = {.element = at->k.element,
                           .all = fill_count(tensor_of(at, op->outputs[0])),
                           .first = (uint64_t)op->attributes.index * count,
                           .count = count,
                           .from = plain(at, op->inputs[0]),
                           .to = empty(at, op->outputs[0], kernel_rig_element(&at->k))};
    kernel_rig_run(&at->k, crn_place_launch(&args), &args);
    compare_plain(at, args.to, op->outputs[0], true);
}

/* ---- Pooling ---- */

static crn_pool_args pool_between(const comparison *at, const cairn_op *op, cairn_id large,
                                  cairn_id small, bool adaptive) {
    const cairn_tensor *l = tensor_of(at, large), *s = tensor_of(at, small);
    const cairn_attributes *a = &op->attributes;
    return (crn_pool_args){.element = at->k.element,
                           .channels = l->shape[1],
                           .batch = l->shape[0],
                           .height = l->shape[2],
                           .width = l->shape[3],
                           .small_height = s->shape[2],
                           .small_width = s->shape[3],
                           .kernel = {a->kernel[0], a->kernel[1]},
                           .stride = {a->stride[0], a->stride[1]},
                           .pad = {a->pad[0], a->pad[1]},
                           .adaptive = adaptive,
                           .count_padding = !adaptive && a->count_padding != 0};
}

/* The place in an image of element (n, c, i) of a plain tensor. */
static size_t place_at(kernel_image image, size_t n, size_t c, size_t i) {
    return (n * image.plane + i) * image.pitch + c;
}

static void max_pool(comparison *at, const cairn_op *op) {
    kernel_image x = load(at, op->inputs[0]), y = make(at, op->outputs[0]);
    crn_pool_args args = pool_between(at, op, op->inputs[0], op->outputs[0], false);
    args.from = x.at, args.from_pitch = x.pitch;
    args.to = y.at, args.to_pitch = y.pitch;
    args.places_pitch = y.pitch;
    args.place_bytes =
        wanted(op, 1) && tensor_of(at, op->outputs[1])->dtype == CAIRN_DTYPE_U8 ? 1 : 4;
    args.places =
        wanted(op, 1) ? kernel_rig_make(&at->k, (size_t)y.batch * y.plane * y.pitch * 4) : NULL;
    kernel_rig_run(&at->k, crn_max_pool_launch(&args), &args);
    compare_image(at, y, op->outputs[0], true);
    size_t wrong = 0, i = 0;
    for (size_t n = 0; args.places != NULL && n < y.batch; n++)
        for (size_t c = 0; c < y.channels; c++)
            for (size_t pixel = 0; pixel < y.plane; pixel++, i++) {
                size_t place = place_at(y, n, c, pixel);
                if (args.place_bytes == 1)
                    wrong += ((uint8_t *)args.places)[place] !=
                             ((uint8_t *)at->ref.place[op->outputs[1]])[i];
                else
                    wrong += ((int32_t *)args.places)[place] !=
                             ((int32_t *)at->ref.place[op->outputs[1]])[i];
            }
    CHECK_U64(wrong, 0);
}

static void max_pool_bwd(comparison *at, const cairn_op *op) {
    kernel_image gy = load(at, op->inputs[1]), gx = make(at, op->outputs[0]);
    crn_pool_args args = pool_between(at, op, op->outputs[0], op->inputs[1], false);
    bool bytes = tensor_of(at, op->inputs[0])->dtype == CAIRN_DTYPE_U8;
    args.from = gy.at, args.from_pitch = gy.pitch;
    args.to = gx.at, args.to_pitch = gx.pitch;
    args.places_pitch = gy.pitch;
    args.place_bytes = bytes ? 1 : 4;
    args.places = kernel_rig_make(&at->k, (size_t)gy.batch * gy.plane * gy.pitch * 4);
    size_t i = 0;
    for (size_t n = 0; n < gy.batch; n++)
        for (size_t c = 0; c < gy.channels; c++)
            for (size_t pixel = 0; pixel < gy.plane; pixel++, i++) {
                size_t place = place_at(gy, n, c, pixel);
                const void *from = at->ref.place[op->inputs[0]];
                if (bytes)
                    ((uint8_t *)args.places)[place] = ((const uint8_t *)from)[i];
                else
                    ((int32_t *)args.places)[place] = ((const int32_t *)from)[i];
            }
    kernel_rig_run(&at->k, crn_max_pool_bwd_launch(&args), &args);
    compare_image(at, gx, op->outputs[0], true);
}

static void avg_pool(comparison *at, const cairn_op *op, bool adaptive, bool back) {
    kernel_image from = load(at, op->inputs[0]), to = make(at, op->outputs[0]);
    cairn_id large = back ? op->outputs[0] : op->inputs[0];
    cairn_id small = back ? op->inputs[0] : op->outputs[0];
    crn_pool_args args = pool_between(at, op, large, small, adaptive);
    args.from = from.at, args.from_pitch = from.pitch;
    args.to = to.at, args.to_pitch = to.pitch;
    if (back)
        kernel_rig_run(&at->k, crn_avg_pool_bwd_launch(&args), &args);
    else
        kernel_rig_run(&at->k, crn_avg_pool_launch(&args), &args);
    compare_image(at, to, op->outputs[0], !back); /* back: it may divide the sum */
}

/* ---- Convolution ---- */

enum { GATHER, SCATTER, WEIGH };

static crn_conv_args conv_between(const comparison *at, const cairn_op *op, kernel_image large,
                                  kernel_image small, const cairn_tensor *l,
                                  const cairn_tensor *s) {
    const cairn_attributes *a = &op->attributes;
    uint32_t groups = a->groups > 1 ? (uint32_t)a->groups : 1;
    uint32_t taps = (uint32_t)(a->kernel[0] * a->kernel[1]);
    crn_conv_args args = {.element = at->k.element,
                          .groups = groups,
                          .batch = large.batch,
                          .channels = large.channels,
                          .height = l->shape[2],
                          .width = l->shape[3],
                          .filters = small.channels,
                          .small_height = s->shape[2],
                          .small_width = s->shape[3],
                          .large_pitch = large.pitch,
                          .small_pitch = small.pitch,
                          .weight_o = large.channels / groups * taps,
                          .weight_c = taps,
                          .weight_tap = 1,
                          .large = large.at,
                          .small = small.at};
    for (int i = 0; i < 2; i++) {
        args.kernel[i] = a->kernel[i];
        args.stride[i] = a->stride[i];
        args.pad[i] = a->pad[i];
        args.dilation[i] = a->dilation[i] > 1 ? a->dilation[i] : 1;
    }
    return args;
}

static bool is_depthwise(const crn_conv_args *a) {
    return a->groups == a->channels && a->groups == a->filters && a->groups > 1 &&
           a->kernel[1] <= (int32_t)CRN_DEPTHWISE_WIDE &&
           a->kernel[0] * a->kernel[1] <= (int32_t)CRN_DEPTHWISE_TAPS;
}

static void run_depthwise(comparison *at, const crn_conv_args *a, int what) {
    crn_depthwise_args args = {.element = a->element,
                               .channels = a->channels,
                               .batch = a->batch,
                               .height = a->height,
                               .width = a->width,
                               .small_height = a->small_height,
                               .small_width = a->small_width,
                               .large_pitch = a->large_pitch,
                               .small_pitch = a->small_pitch,
                               .large = a->large,
                               .small = a->small,
                               .weight = a->weight,
                               .bias = a->bias,
                               .weight_to = a->weight_to,
                               .tickets = kernel_rig_tickets(&at->k)};
    memcpy(args.kernel, a->kernel, sizeof args.kernel);
    memcpy(args.stride, a->stride, sizeof args.stride);
    memcpy(args.pad, a->pad, sizeof args.pad);
    memcpy(args.dilation, a->dilation, sizeof args.dilation);
    args.part = kernel_rig_make(&at->k, crn_depthwise_weight_workspace(&args));
    if (what == GATHER)
        kernel_rig_run(&at->k, crn_depthwise_launch(&args), &args);
    else if (what == SCATTER)
        kernel_rig_run(&at->k, crn_depthwise_data_launch(&args), &args);
    else
        kernel_rig_run(&at->k, crn_depthwise_weight_launch(&args), &args);
}

static void run_conv(comparison *at, crn_conv_args *args, int what) {
    if (what == GATHER)
        kernel_rig_run(&at->k, crn_conv_gather_launch(args), args);
    else if (what == SCATTER)
        kernel_rig_run(&at->k, crn_conv_scatter_launch(args), args);
    else
        kernel_rig_run(&at->k, crn_conv_weigh_launch(args), args);
}

/* From one image to the other, through the weights. */
static void conv_data(comparison *at, const cairn_op *op, int what) {
    const cairn_tensor *from = tensor_of(at, op->inputs[0]), *to = tensor_of(at, op->outputs[0]);
    for (int depthwise = 0; depthwise < 2; depthwise++) {
        kernel_image in = load(at, op->inputs[0]), out = make(at, op->outputs[0]);
        bool gathers = what == GATHER;
        crn_conv_args args = conv_between(at, op, gathers ? in : out, gathers ? out : in,
                                          gathers ? from : to, gathers ? to : from);
        if (depthwise && !is_depthwise(&args))
            break;
        args.weight = floats(at, op->params[0]);
        args.bias = op->param_count > 1 ? floats(at, op->params[1]) : NULL;
        if (depthwise)
            run_depthwise(at, &args, what);
        else
            run_conv(at, &args, what);
        compare_image(at, out, op->outputs[0], false);
    }
}

static void conv_weight(comparison *at, const cairn_op *op, uint32_t large_input) {
    cairn_id large_id = op->inputs[large_input], small_id = op->inputs[1 - large_input];
    for (int depthwise = 0; depthwise < 2 && wanted(op, 0); depthwise++) {
        kernel_image large = load(at, large_id), small = load(at, small_id);
        crn_conv_args args =
            conv_between(at, op, large, small, tensor_of(at, large_id), tensor_of(at, small_id));
        if (depthwise && !is_depthwise(&args))
            break;
        args.weight_to = empty(at, op->outputs[0], 4);
        if (depthwise)
            run_depthwise(at, &args, WEIGH);
        else
            run_conv(at, &args, WEIGH);
        compare_floats(at, args.weight_to, op->outputs[0], F32_TOLERANCE);
    }
    if (!wanted(op, 1))
        return;
    kernel_image gy = load(at, op->inputs[1]);
    crn_column_sums_args sums = {.cut = {.rows = gy.batch * gy.plane, .channels = gy.channels},
                                 .element = at->k.element,
                                 .gy_pitch = gy.pitch,
                                 .gy = gy.at,
                                 .sums = empty(at, op->outputs[1], 4),
                                 .tickets = kernel_rig_tickets(&at->k)};
    sums.part = kernel_rig_make(&at->k, crn_column_sums_workspace(&sums));
    kernel_rig_run(&at->k, crn_column_sums_launch(&sums), &sums);
    compare_floats(at, sums.sums, op->outputs[1], F32_TOLERANCE);
}

/* ---- Products ---- */

/* z [n, rows] (+)= x [n, features] weight' (+ bias); z, weight and bias are floats */
static void product(comparison *at, float *z, const void *x, const float *weight, uint32_t n,
                    uint32_t rows, uint32_t features, const float *bias, bool add) {
    crn_matmul_args args = {.m = n,
                            .n = rows,
                            .k = features,
                            .batch = 1,
                            .add = add,
                            .a = {(void *)x, features, 1, 0, at->k.element},
                            .b = {(void *)weight, 1, features, 0, CRN_ELEMENT_F32},
                            .c = {z, rows, 1, 0, CRN_ELEMENT_F32},
                            .bias = bias};
    kernel_rig_run(&at->k, crn_matmul_launch(&args), &args);
}

/* gx [n, features] = sum over gates of gradient [g, n, hidden] weight [g*hidden, features] */
static void product_data(comparison *at, const void *gradient, const float *weight, float *gx,
                         uint32_t gates, uint32_t n, uint32_t hidden, uint32_t features) {
    for (uint32_t gate = 0; gate < gates; gate++) {
        size_t first = (size_t)gate * n * hidden * kernel_rig_element(&at->k);
        crn_matmul_args args = {.m = n,
                                .n = features,
                                .k = hidden,
                                .batch = 1,
                                .add = gate > 0,
                                .a = {(char *)gradient + first, hidden, 1, 0, at->k.element},
                                .b = {(void *)(weight + (size_t)gate * hidden * features), features,
                                      1, 0, CRN_ELEMENT_F32},
                                .c = {gx, features, 1, 0, CRN_ELEMENT_F32}};
        kernel_rig_run(&at->k, crn_matmul_launch(&args), &args);
    }
}

/* weight [g*hidden, features] = gradient' [g, n, hidden] x [n, features], all gates at once */
static void product_weight(comparison *at, const void *gradient, const void *x, float *weight,
                           uint32_t gates, uint32_t n, uint32_t hidden, uint32_t features) {
    crn_matmul_args args = {
        .m = hidden,
        .n = features,
        .k = n,
        .batch = gates,
        .a = {(void *)gradient, 1, hidden, (uint64_t)n * hidden, at->k.element},
        .b = {(void *)x, features, 1, 0, at->k.element},
        .c = {weight, features, 1, (uint64_t)hidden * features, CRN_ELEMENT_F32}};
    kernel_rig_run(&at->k, crn_matmul_launch(&args), &args);
}

static void linear(comparison *at, const cairn_op *op) {
    const cairn_tensor *x = tensor_of(at, op->inputs[0]), *w = tensor_of(at, op->params[0]);
    float *y = empty(at, op->outputs[0], 4);
    product(at, y, plain(at, op->inputs[0]), floats(at, op->params[0]), x->shape[0], w->shape[0],
            w->shape[1], op->param_count > 1 ? floats(at, op->params[1]) : NULL, false);
    compare_floats(at, y, op->outputs[0], F32_TOLERANCE);
}

static void linear_bwd_data(comparison *at, const cairn_op *op) {
    const cairn_tensor *gy = tensor_of(at, op->inputs[0]), *w = tensor_of(at, op->params[0]);
    float *gx = empty(at, op->outputs[0], 4);
    product_data(at, plain(at, op->inputs[0]), floats(at, op->params[0]), gx, 1, gy->shape[0],
                 w->shape[0], w->shape[1]);
    compare_floats(at, gx, op->outputs[0], F32_TOLERANCE);
}

static void linear_bwd_weight(comparison *at, const cairn_op *op) {
    const cairn_tensor *x = tensor_of(at, op->inputs[0]), *gy = tensor_of(at, op->inputs[1]);
    if (!wanted(op, 0))
        return;
    float *weight = empty(at, op->outputs[0], 4);
    product_weight(at, plain(at, op->inputs[1]), plain(at, op->inputs[0]), weight, 1, x->shape[0],
                   gy->shape[1], x->shape[1]);
    compare_floats(at, weight, op->outputs[0], F32_TOLERANCE);
}

/* ---- Cells ---- */

static void cell(comparison *at, const cairn_op *op, uint32_t gates) {
    const cairn_tensor *x = tensor_of(at, op->inputs[0]), *w = tensor_of(at, op->params[1]);
    uint32_t batch = x->shape[0], hidden = w->shape[1];
    size_t half = (size_t)batch * hidden * kernel_rig_element(&at->k);
    const void *old = plain(at, op->inputs[1]);
    void *made = empty(at, op->outputs[0], kernel_rig_element(&at->k));
    crn_cell_args args = {.element = at->k.element,
                          .batch = batch,
                          .hidden = hidden,
                          .b_ih = floats(at, op->params[2]),
                          .b_hh = floats(at, op->params[3]),
                          .c = (const char *)old + half,
                          .new_h = made,
                          .new_c = (char *)made + half};
    float *z = kernel_rig_make(&at->k, (size_t)batch * gates * hidden * 4);
    float *z2 = kernel_rig_make(&at->k, (size_t)batch * gates * hidden * 4);
    bool one = at->k.extra % 2 == 0;
    product(at, z, plain(at, op->inputs[0]), floats(at, op->params[0]), batch, gates * hidden,
            x->shape[1], NULL, false);
    product(at, one ? z : z2, old, floats(at, op->params[1]), batch, gates * hidden, hidden, NULL,
            one);
    args.z = z;
    args.z2 = one ? NULL : z2;
    if (gates == 1) {
        kernel_rig_run(&at->k, crn_rnn_cell_launch(&args), &args);
    } else {
        args.values = wanted(op, 1) ? empty(at, op->outputs[1], kernel_rig_element(&at->k)) : NULL;
        kernel_rig_run(&at->k, crn_lstm_cell_launch(&args), &args);
        if (args.values != NULL)
            compare_plain(at, args.values, op->outputs[1], false);
    }
    compare_plain(at, made, op->outputs[0], false);
}

static void cell_bwd(comparison *at, const cairn_op *op, uint32_t gates) {
    const cairn_tensor *w_ih = tensor_of(at, op->params[0]), *w = tensor_of(at, op->params[1]);
    const cairn_tensor *state = tensor_of(at, op->inputs[0]);
    uint32_t batch = state->shape[gates == 1 ? 0 : 1], hidden = w->shape[1];
    size_t half = (size_t)batch * hidden, bytes = half * kernel_rig_element(&at->k);
    crn_cell_args args = {.element = at->k.element, .batch = batch, .hidden = hidden};
    args.before = empty(at, op->outputs[0], kernel_rig_element(&at->k));
    float *gh = kernel_rig_make(&at->k, half * 4);
    void *old_gc = kernel_rig_make(&at->k, bytes);
    if (gates == 1) {
        args.new_h = plain(at, op->inputs[0]);
        args.gh = plain(at, op->inputs[1]);
        kernel_rig_run(&at->k, crn_rnn_cell_bwd_launch(&args), &args);
    } else {
        args.c = (char *)plain(at, op->inputs[0]) + bytes;
        args.new_c = (char *)plain(at, op->inputs[1]) + bytes;
        args.values = plain(at, op->inputs[2]);
        args.gh = plain(at, op->inputs[3]);
        args.gc = (const char *)args.gh + bytes;
        args.old_gc = old_gc;
        kernel_rig_run(&at->k, crn_lstm_cell_bwd_launch(&args), &args);
    }
    compare_plain(at, args.before, op->outputs[0], false);
    product_data(at, args.before, floats(at, op->params[1]), gh, gates, batch, hidden, hidden);
    if (wanted(op, 1))
        CHECK(kernel_rig_equal(gh, at->ref.place[op->outputs[1]], half, tolerance_of(at, false),
                               "gh"));
    if (wanted(op, 1) && gates == 4 && at->k.element == CRN_ELEMENT_F32)
        CHECK(kernel_rig_equal(old_gc, (float *)at->ref.place[op->outputs[1]] + half, half,
                               F32_TOLERANCE, "gc"));
    if (!wanted(op, 2))
        return;
    float *gx = empty(at, op->outputs[2], 4);
    product_data(at, args.before, floats(at, op->params[0]), gx, gates, batch, hidden,
                 w_ih->shape[1]);
    compare_floats(at, gx, op->outputs[2], tolerance_of(at, false));
}

static void cell_bwd_weight(comparison *at, const cairn_op *op) {
    const cairn_tensor *x = tensor_of(at, op->inputs[0]), *before = tensor_of(at, op->inputs[2]);
    uint32_t gates = before->rank == 3 ? before->shape[0] : 1, batch = x->shape[0];
    uint32_t hidden = before->shape[before->rank - 1];
    const void *gradient = plain(at, op->inputs[2]);
    for (uint32_t i = 0; i < 2; i++) {
        if (!wanted(op, i))
            continue;
        float *weight = empty(at, op->outputs[i], 4);
        product_weight(at, gradient, plain(at, op->inputs[i]), weight, gates, batch, hidden,
                       i == 0 ? x->shape[1] : hidden);
        compare_floats(at, weight, op->outputs[i], F32_TOLERANCE);
    }
}

/* ---- Loss ---- */

static crn_loss_args loss_of(comparison *at, const cairn_op *op) {
    const cairn_tensor *logits = tensor_of(at, op->inputs[0]);
    crn_loss_args args = {.element = at->k.element,
                          .batch = logits->shape[0],
                          .classes = logits->shape[1],
                          .pixels = plane_of(logits),
                          .smoothing = (float)op->attributes.smoothing,
                          .labels = floats(at, op->inputs[1]),
                          .tickets = kernel_rig_tickets(&at->k)};
    args.part = kernel_rig_make(&at->k, crn_loss_workspace(&args));
    return args;
}

/* As processor_results.c counts. */
static uint64_t count_by_hand(const crn_loss_args *a, const float *p) {
    uint64_t correct = 0;
    for (size_t i = 0; i < (size_t)a->batch * a->pixels; i++) {
        const float *first = p + i / a->pixels * a->classes * a->pixels + i % a->pixels;
        uint32_t best = 0;
        for (uint32_t c = 1; c < a->classes; c++)
            if (first[c * a->pixels] > first[best * a->pixels])
                best = c;
        correct += a->labels[i] == (int32_t)best;
    }
    return correct;
}

static void cross_entropy(comparison *at, const cairn_op *op) {
    crn_loss_args args = loss_of(at, op);
    args.logits = plain(at, op->inputs[0]);
    args.loss = kernel_rig_make(&at->k, 4);
    args.probabilities = empty(at, op->outputs[1], kernel_rig_element(&at->k));
    kernel_rig_run(&at->k, crn_cross_entropy_launch(&args), &args);
    compare_floats(at, args.loss, op->outputs[0], F32_TOLERANCE);
    compare_plain(at, args.probabilities, op->outputs[1], false);
    uint64_t *correct = kernel_rig_make(&at->k, sizeof *correct);
    *correct = 7;
    args.correct = correct;
    args.probabilities = plain(at, op->outputs[1]);
    kernel_rig_run(&at->k, crn_count_correct_launch(&args), &args);
    if (at->k.element == CRN_ELEMENT_F32)
        CHECK_U64(*correct, 7 + count_by_hand(&args, at->ref.place[op->outputs[1]]));
}

static void cross_entropy_bwd(comparison *at, const cairn_op *op) {
    crn_loss_args args = loss_of(at, op);
    args.probabilities = plain(at, op->inputs[0]);
    args.gradient = empty(at, op->outputs[0], kernel_rig_element(&at->k));
    kernel_rig_run(&at->k, crn_cross_entropy_bwd_launch(&args), &args);
    compare_plain(at, args.gradient, op->outputs[0], false);
}

/* ---- Any op ---- */

static bool compare_kernel(comparison *at, cairn_id id, float *state[2]) {
    const cairn_op *op = cairn_graph_op(at->ref.graph, id);
    switch (op->kind) {
    case CAIRN_OP_BATCH_NORM:
        return norm(at, op, state[0], state[1]), true;
    case CAIRN_OP_BATCH_NORM_BWD:
        return norm_bwd(at, op), true;
    case CAIRN_OP_RELU:
        return pointwise(at, op, CRN_RELU), true;
    case CAIRN_OP_RELU_BWD:
        return pointwise(at, op, CRN_RELU_BWD), true;
    case CAIRN_OP_ADD:
    case CAIRN_OP_ACCUMULATE:
        return pointwise(at, op, CRN_ADD), true;
    case CAIRN_OP_DROPOUT:
    case CAIRN_OP_DROPOUT_BWD:
        return dropout(at, op, id), true;
    case CAIRN_OP_CONCAT:
        return concat(at, op), true;
    case CAIRN_OP_CONCAT_BWD:
        return concat_bwd(at, op), true;
    case CAIRN_OP_SELECT_BWD:
        return select_bwd(at, op), true;
    case CAIRN_OP_MAX_POOL:
        return max_pool(at, op), true;
    case CAIRN_OP_MAX_POOL_BWD:
        return max_pool_bwd(at, op), true;
    case CAIRN_OP_AVG_POOL:
        return avg_pool(at, op, false, false), true;
    case CAIRN_OP_AVG_POOL_BWD:
        return avg_pool(at, op, false, true), true;
    case CAIRN_OP_ADAPTIVE_AVG_POOL:
        return avg_pool(at, op, true, false), true;
    case CAIRN_OP_ADAPTIVE_AVG_POOL_BWD:
        return avg_pool(at, op, true, true), true;
    case CAIRN_OP_CONV2D:
    case CAIRN_OP_CONV_TRANSPOSE2D_BWD_DATA:
        return conv_data(at, op, GATHER), true;
    case CAIRN_OP_CONV_TRANSPOSE2D:
    case CAIRN_OP_CONV2D_BWD_DATA:
        return conv_data(at, op, SCATTER), true;
    case CAIRN_OP_CONV2D_BWD_WEIGHT:
        return conv_weight(at, op, 0), true;
    case CAIRN_OP_CONV_TRANSPOSE2D_BWD_WEIGHT:
        return conv_weight(at, op, 1), true;
    case CAIRN_OP_LINEAR:
        return linear(at, op), true;
    case CAIRN_OP_LINEAR_BWD_DATA:
        return linear_bwd_data(at, op), true;
    case CAIRN_OP_LINEAR_BWD_WEIGHT:
        return linear_bwd_weight(at, op), true;
    case CAIRN_OP_RNN_CELL:
        return cell(at, op, 1), true;
    case CAIRN_OP_LSTM_CELL:
        return cell(at, op, 4), true;
    case CAIRN_OP_RNN_CELL_BWD_DATA:
        return cell_bwd(at, op, 1), true;
    case CAIRN_OP_LSTM_CELL_BWD_DATA:
        return cell_bwd(at, op, 4), true;
    case CAIRN_OP_RNN_CELL_BWD_WEIGHT:
    case CAIRN_OP_LSTM_CELL_BWD_WEIGHT:
        return cell_bwd_weight(at, op), true;
    case CAIRN_OP_CROSS_ENTROPY:
        return cross_entropy(at, op), true;
    case CAIRN_OP_CROSS_ENTROPY_BWD:
        return cross_entropy_bwd(at, op), true;
    default:
        return false;
    }
}

/* Round what an op reads to bf16, so that both compute from the same values. */
static void round_inputs(comparison *at, const cairn_op *op) {
    for (uint32_t i = 0; i < op->input_count && at->k.element == CRN_ELEMENT_BF16; i++) {
        const cairn_tensor *t = tensor_of(at, op->inputs[i]);
        if (t->dtype != CAIRN_DTYPE_F32 || (i == 1 && op->kind == CAIRN_OP_BATCH_NORM_BWD))
            continue;
        uint64_t count = fill_count(t);
        uint16_t *halves = malloc(count * sizeof *halves);
        crn_convert_args args = {.to_element = CRN_ELEMENT_BF16,
                                 .count = count,
                                 .from = at->ref.place[op->inputs[i]],
                                 .to = halves};
        kernel_rig_run(&at->k, crn_convert_launch(&args), &args);
        args = (crn_convert_args){.from_element = CRN_ELEMENT_BF16,
                                  .count = count,
                                  .from = halves,
                                  .to = at->ref.place[op->inputs[i]]};
        kernel_rig_run(&at->k, crn_convert_launch(&args), &args);
        free(halves);
    }
}

static void compare_op(comparison *at, cairn_id id) {
    const cairn_op *op = cairn_graph_op(at->ref.graph, id);
    float *state[2] = {0};
    round_inputs(at, op);
    for (uint32_t i = 0; op->kind == CAIRN_OP_BATCH_NORM && i < 2; i++)
        state[i] = floats(at, op->params[2 + i]); /* before the reference updates them */
    rig_run(&at->ref, id);
    kinds_compared[op->kind] += compare_kernel(at, id, state);
    kernel_rig_clear(&at->k);
}

static void test_case(const json_t *given, kernel_rig *k, bool training) {
    op_case c = case_build(given, true);
    comparison at = {.k = *k};
    rig_open(&at.ref, c.graph, "ref", 1);
    at.ref.training = training;
    case_fill(&c, &at.ref);
    for (cairn_id o = 0; o < cairn_graph_op_count(c.graph); o++) {
        if (o == c.behind)
            case_fill_gradient(&c, &at.ref);
        int failures = check_failures;
        compare_op(&at, o);
        if (check_failures > failures)
            fprintf(stderr, "in case %s, op %s, element %u, pitch %u\n", c.name,
                    cairn_op_kind_name(cairn_graph_op(c.graph, o)->kind), k->element, k->extra);
    }
    rig_close(&at.ref);
    cairn_graph_destroy(c.graph);
    *k = at.k;
}

/* A depthwise convolution, as the searched networks have it, with random sizes and attributes. */
static json_t *depthwise_case(crn_rng *rng) {
    uint32_t channels = draw(rng, 2, 90), kernel = 1 + 2 * draw(rng, 0, 3);
    uint32_t stride = draw(rng, 1, 2), dilation = draw(rng, 1, 3) / 2 + 1;
    uint32_t across = draw(rng, 0, 3) == 0 ? draw(rng, 1, 7) : kernel;
    uint32_t pad = dilation * (kernel - 1) / 2, size = (kernel - 1) * dilation + draw(rng, 1, 9);
    return json_pack("{s:s, s:s, s:[[i,i,i,i]], s:[[i,i,i,i],[i]], s:{s:[i,i], s:[i,i], "
                     "s:[i,i,i,i], s:[i,i], s:i}}",
                     "name", "depthwise", "kind", "conv2d", "inputs", draw(rng, 1, 3), channels,
                     size, size + draw(rng, 0, 3) + across * dilation, "params", channels, 1,
                     kernel, across, channels, "attributes", "kernel", kernel, across, "stride",
                     stride, stride, "pad", pad, pad, pad, pad, "dilation", dilation, dilation,
                     "groups", channels);
}

int main(void) {
    crn_rng rng = {0};
    kernel_rig *k = calloc(1, sizeof *k);
    json_t *cases = case_load(CAIRN_TEST_DATA "/op_cases.json");
    for (uint32_t form = 0; form < 8; form++) {
        k->element = form % 2, k->extra = form / 2;
        for (size_t i = 0; i < json_array_size(cases); i++)
            test_case(json_array_get(cases, i), k, true);
    }
    for (uint32_t i = 0; i < 360; i++) {
        json_t *given = i % 6 == 5 ? depthwise_case(&rng) : random_case(&rng, i);
        k->element = i % 2, k->extra = i / 2 % 4;
        test_case(given, k, i % 5 != 4);
        k->element = 0;
        test_case(given, k, i % 5 != 4);
        json_decref(given);
    }
    json_decref(cases);
    for (cairn_op_kind kind = 0; kind < CAIRN_OP_KINDS; kind++)
        CHECK(kinds_compared[kind] > 0 || kind == CAIRN_OP_OPAQUE || kind == CAIRN_OP_FLATTEN ||
              kind == CAIRN_OP_FLATTEN_BWD || kind == CAIRN_OP_SELECT);
    free(k);
    return check_result();
}
