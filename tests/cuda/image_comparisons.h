/* image_comparisons.h: the kernels for images against `ref`: batch-norm, ops element by element,
 * pooling, convolution. */
#ifndef IMAGE_COMPARISONS_H
#define IMAGE_COMPARISONS_H

#include "cuda/kernel_comparison.h"

/* ---- Batch-norm ---- */

static void norm(comparison *at, const cairn_op *op, float *running_mean, float *running_var) {
    kernel_image x = load(at, op->inputs[0]), y = make(at, op->outputs[0]);
    float *stats =
        wanted(op, 1) ? empty(at, op->outputs[1], 4) : kernel_rig_make(&at->k, 8 * x.channels);
    crn_norm_args args = {.tiling = {.rows = x.batch * x.plane, .channels = x.channels},
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
    args.partial = kernel_rig_make(&at->k, crn_norm_workspace(&args));
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
    crn_norm_bwd_args args = {.tiling = {.rows = x.batch * x.plane, .channels = channels},
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
    args.partial = kernel_rig_make(&at->k, crn_norm_bwd_workspace(&args));
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
    args.partial = kernel_rig_make(&at->k, crn_depthwise_weight_workspace(&args));
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
    crn_column_sums_args sums = {.tiling = {.rows = gy.batch * gy.plane, .channels = gy.channels},
                                 .element = at->k.element,
                                 .gy_pitch = gy.pitch,
                                 .gy = gy.at,
                                 .sums = empty(at, op->outputs[1], 4),
                                 .tickets = kernel_rig_tickets(&at->k)};
    sums.partial = kernel_rig_make(&at->k, crn_column_sums_workspace(&sums));
    kernel_rig_run(&at->k, crn_column_sums_launch(&sums), &sums);
    compare_floats(at, sums.sums, op->outputs[1], F32_TOLERANCE);
}

#endif
