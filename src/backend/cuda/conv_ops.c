/* conv_ops.c: convolutions and transposed convolutions.
 *
 * As in the reference, all six ops are three passes between a large and a small image with the same
 * weights; a transposed convolution goes the other way:
 *
 *     gather   large, weight -> small    conv2d,             conv_transpose2d_bwd_data
 *     scatter  small, weight -> large    conv2d_bwd_data,    conv_transpose2d
 *     weigh    large, small -> weight    conv2d_bwd_weight,  conv_transpose2d_bwd_weight
 *
 * Depthwise convolutions use Cairn's own kernels. In full fp32 the first implementations are
 * Cairn's own kernels for matrix units, which need multiples of four channels. Another one for
 * gradients of weights in fp32, and the one for patches that do not overlap, is a product over
 * unfolded images; in fp32 the other passes of pointwise convolutions are plain products. Others
 * use cuDNN if it has a plan, else Cairn's direct convolution. Weights are stored as
 * [filter][tap][channel]. */
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/kernels/split_shapes.h"

/* Which operands are the images: the index of an input, or OUT plus the index of an output. */
enum { OUT = 16 };

static const struct roles {
    cairn_op_kind kind;
    uint8_t pass, large, small;
} roles[] = {
    {CAIRN_OP_CONV2D, CRN_DNN_Y, 0, OUT},
    {CAIRN_OP_CONV2D_BWD_DATA, CRN_DNN_GX, OUT, 0},
    {CAIRN_OP_CONV2D_BWD_WEIGHT, CRN_DNN_GW, 0, 1},
    {CAIRN_OP_CONV_TRANSPOSE2D, CRN_DNN_GX, OUT, 0},
    {CAIRN_OP_CONV_TRANSPOSE2D_BWD_DATA, CRN_DNN_Y, 0, OUT},
    {CAIRN_OP_CONV_TRANSPOSE2D_BWD_WEIGHT, CRN_DNN_GW, 1, 0},
};

static const struct roles *roles_of(cairn_op_kind kind) {
    for (size_t i = 0; i < CRN_LENGTH(roles); i++)
        if (roles[i].kind == kind)
            return &roles[i];
    return NULL;
}

static cairn_id operand(const cairn_op *op, uint8_t index) {
    return index < OUT ? op->inputs[index] : op->outputs[index - OUT];
}

/* The weights, or their gradient; CAIRN_NONE: it is not computed. */
static cairn_id weights_of(const cairn_op *op, uint8_t pass) {
    return pass == CRN_DNN_GW ? op->outputs[0] : op->params[0];
}

static uint32_t pitch_of(const crn_site *site, cairn_id weight) {
    uint32_t channels = cairn_graph_tensor(site->graph, weight)->shape[1];
    uint32_t block = CRN_MAX(site->storage[weight].block, 1);
    return (channels + block - 1) / block * block;
}

/* ---- cuDNN ---- */

static void set_axis(crn_dnn_shape *s, const cairn_attributes *a, int axis, int64_t large,
                     int64_t small, int64_t *crop) {
    int64_t before = a->pad[axis], after = a->pad[axis + 2];
    s->kernel[axis] = a->kernel[axis];
    s->stride[axis] = a->stride[axis];
    s->dilation[axis] = CRN_MAX(a->dilation[axis], 1);
    s->before[axis] = CRN_MAX(before, 0);
    s->after[axis] = CRN_MAX(after, 0);
    *crop = before < 0 ? -before : 0;
    s->x[axis] = large - *crop - (after < 0 ? -after : 0);
    s->y[axis] = small;
}

bool crn_cuda_conv_shape(const crn_site *site, bool exact, crn_dnn_shape *out, uint64_t *offset) {
    const cairn_op *op = site->op;
    const struct roles *r = roles_of(op->kind);
    if (r == NULL || weights_of(op, r->pass) == CAIRN_NONE)
        return false;
    crn_view large = crn_cuda_view(site, operand(op, r->large));
    crn_view small = crn_cuda_view(site, operand(op, r->small));
    int64_t groups = CRN_MAX(op->attributes.groups, 1), crop[2];
    *out = (crn_dnn_shape){.pass = r->pass,
                           .batch = large.batch,
                           .channels = pitch_of(site, weights_of(op, r->pass)) * groups,
                           .filters = small.channels,
                           .groups = groups,
                           .exact = exact,
                           .half = large.element == CRN_ELEMENT_BF16};
    set_axis(out, &op->attributes, 0, large.height, small.height, &crop[0]);
    set_axis(out, &op->attributes, 1, large.width, small.width, &crop[1]);
    out->x_strides[2] = large.pitch;
    out->x_strides[1] = (int64_t)large.pitch * large.width;
    out->x_strides[0] = (int64_t)large.pitch * large.plane;
    *offset = (uint64_t)(crop[0] * out->x_strides[1] + crop[1] * out->x_strides[2]);
    uint32_t size = crn_cuda_size(large.element);
    out->alignment = *offset * size % 16 == 0 ? 16 : size;
    if (*offset > 0 && (uint64_t)large.rows * large.pitch * size % 4 != 0)
        return false; /* crn_cuda_zero() makes whole words zero */
    return out->x[0] > 0 && out->x[1] > 0 && out->channels <= large.pitch &&
           small.pitch == small.channels;
}

/* The convolution of bf16 images has bf16 weights, and so has their gradient. They are made from
 * the fp32 weights, or the fp32 gradient from them, in the workspace. */
static void run_dnn(crn_work *work, const crn_view *large, const crn_view *small, void *weight) {
    crn_dnn_shape shape;
    uint64_t offset;
    crn_site site = crn_site_of(work->call);
    crn_device *device = work->device;
    if (!crn_cuda_conv_shape(&site, device->exact, &shape, &offset))
        return;
    uint64_t weights = (uint64_t)(shape.filters * shape.kernel[0] * shape.kernel[1] *
                                  (shape.channels / shape.groups));
    void *space = crn_cuda_library_scratch(work, work->recipe->plan.workspace), *used = weight;
    if (shape.half)
        used = crn_cuda_library_scratch(work, weights * sizeof(uint16_t));
    if (work->preparing)
        return;
    if (shape.half && shape.pass != CRN_DNN_GW)
        crn_cuda_to_element(work, weight, CRN_ELEMENT_F32, used, CRN_ELEMENT_BF16, weights);
    if (shape.pass == CRN_DNN_GX && (shape.x[0] < large->height || shape.x[1] < large->width))
        crn_cuda_zero(work, large->at,
                      (uint64_t)large->rows * large->pitch * crn_cuda_size(large->element));
    char *x = (char *)large->at + offset * crn_cuda_size(large->element);
    (void)crn_cuda_dnn_ok(device,
                          crn_dnn_run(&device->dnn, &work->recipe->plan, x, used, small->at, space),
                          work->call->op->name);
    if (shape.half && shape.pass == CRN_DNN_GW)
        crn_cuda_to_element(work, used, CRN_ELEMENT_BF16, weight, CRN_ELEMENT_F32, weights);
}

/* ---- Cairn's own kernels ---- */

bool crn_cuda_is_depthwise(const crn_site *site) {
    const cairn_op *op = site->op;
    const cairn_attributes *a = &op->attributes;
    const struct roles *r = roles_of(op->kind);
    if (r == NULL)
        return false;
    uint32_t channels = cairn_graph_tensor(site->graph, operand(op, r->large))->shape[1];
    uint32_t filters = cairn_graph_tensor(site->graph, operand(op, r->small))->shape[1];
    return channels > 1 && channels == filters && a->groups == (int32_t)channels &&
           a->kernel[1] <= (int32_t)CRN_DEPTHWISE_WIDE &&
           (int64_t)a->kernel[0] * a->kernel[1] <= (int64_t)CRN_DEPTHWISE_TAPS;
}

static void run_depthwise(crn_work *work, uint8_t pass, const crn_view *large,
                          const crn_view *small, void *weight) {
    const cairn_attributes *a = &work->call->op->attributes;
    crn_depthwise_args args = {
        CRN_WINDOW_OF(large, small, a),
        .large_pitch = large->pitch,
        .small_pitch = small->pitch,
        .dilation = {CRN_MAX(a->dilation[0], 1), CRN_MAX(a->dilation[1], 1)},
        .large = large->at,
        .small = small->at,
        .weight = weight,
        .weight_to = weight,
        .tickets = crn_cuda_tickets(work),
    };
    if (pass == CRN_DNN_GW)
        args.partial = crn_cuda_scratch(work, crn_depthwise_weight_workspace(&args));
    if (work->preparing)
        return;
    crn_launch launch = pass == CRN_DNN_Y    ? crn_depthwise_launch(&args)
                        : pass == CRN_DNN_GX ? crn_depthwise_data_launch(&args)
                                             : crn_depthwise_weight_launch(&args);
    crn_cuda_launch(work, launch, &args);
}

static void run_direct(crn_work *work, uint8_t pass, const crn_view *large, const crn_view *small,
                       void *weight) {
    const cairn_attributes *a = &work->call->op->attributes;
    crn_site site = crn_site_of(work->call);
    uint32_t pitch = pitch_of(&site, weights_of(work->call->op, pass));
    uint32_t taps = (uint32_t)(a->kernel[0] * a->kernel[1]);
    crn_conv_args args = {
        CRN_WINDOW_OF(large, small, a),
        .groups = (uint32_t)CRN_MAX(a->groups, 1),
        .filters = small->channels,
        .large_pitch = large->pitch,
        .small_pitch = small->pitch,
        .dilation = {CRN_MAX(a->dilation[0], 1), CRN_MAX(a->dilation[1], 1)},
        .weight_o = taps * pitch,
        .weight_c = 1,
        .weight_tap = pitch,
        .large = large->at,
        .small = small->at,
        .weight = weight,
        .weight_to = weight,
    };
    if (work->preparing)
        return;
    if (pass == CRN_DNN_GW && pitch > (uint32_t)large->channels / args.groups)
        crn_cuda_zero(work, weight, (uint64_t)args.filters * args.weight_o * sizeof(float));
    crn_launch launch = pass == CRN_DNN_Y    ? crn_conv_gather_launch(&args)
                        : pass == CRN_DNN_GX ? crn_conv_scatter_launch(&args)
                                             : crn_conv_weigh_launch(&args);
    crn_cuda_launch(work, launch, &args);
}

/* ---- Matrix units in full fp32: kernels/split_tiles.h ---- */

static const uint8_t split_passes[] = {[CRN_DNN_Y] = CRN_SPLIT_GATHER,
                                       [CRN_DNN_GX] = CRN_SPLIT_SCATTER,
                                       [CRN_DNN_GW] = CRN_SPLIT_WEIGH};

/* The shape of a pass without addresses; false: the kernels cannot do it. */
static bool split_shape(const crn_site *site, uint8_t pass, const crn_view *large,
                        const crn_view *small, crn_split_args *out) {
    const cairn_attributes *a = &site->op->attributes;
    *out = (crn_split_args){
        CRN_WINDOW_OF(large, small, a),
        .filters = small->channels,
        .large_pitch = large->pitch,
        .small_pitch = small->pitch,
        .dilation = {CRN_MAX(a->dilation[0], 1), CRN_MAX(a->dilation[1], 1)},
    };
    out->channels = pitch_of(site, weights_of(site->op, pass));
    return a->groups <= 1 && out->element == CRN_ELEMENT_F32 && small->element == out->element &&
           out->channels % 4 == 0 && out->filters % 4 == 0 && out->large_pitch % 4 == 0 &&
           out->small_pitch == out->filters && out->channels <= out->large_pitch &&
           (pass != CRN_DNN_GX || out->channels == out->large_pitch);
}

bool crn_cuda_splits(const crn_device *device, const crn_site *site, uint32_t tile) {
    const struct roles *r = roles_of(site->op->kind);
    crn_split_args args;
    if (r == NULL || !device->exact || weights_of(site->op, r->pass) == CAIRN_NONE ||
        crn_cuda_is_depthwise(site) || (tile == CRN_SPLIT_HOPPER && device->hopper.library == NULL))
        return false;
    crn_view large = crn_cuda_view(site, operand(site->op, r->large));
    crn_view small = crn_cuda_view(site, operand(site->op, r->small));
    if (!split_shape(site, r->pass, &large, &small, &args))
        return false;
    args.tile = tile;
    return crn_split_fits(split_passes[r->pass], &args);
}

/* Split the weights for the kernels of compute capability 9.0. */
static void split_weights(crn_work *work, uint8_t pass, crn_split_args *args) {
    crn_split_weights_args split = {.filters = args->filters,
                                    .taps = (uint32_t)(args->kernel[0] * args->kernel[1]),
                                    .channels = args->channels,
                                    .weight = args->weight};
    bool turned = pass == CRN_DNN_GX;
    crn_launch launch = turned ? crn_turn_weights_launch(&split) : crn_split_weights_launch(&split);
    uint64_t bytes =
        (uint64_t)(turned ? args->channels : args->filters) * split.pitch * sizeof(float);
    args->weight_big = crn_cuda_scratch(work, bytes);
    args->weight_small = crn_cuda_scratch(work, bytes);
    args->weight_pitch = split.pitch;
    split.big = crn_cuda_writable(args->weight_big);
    split.small = crn_cuda_writable(args->weight_small);
    if (!work->preparing)
        crn_cuda_launch(work, launch, &split);
}

static void run_split(crn_work *work, uint8_t pass, const crn_view *large, const crn_view *small,
                      float *weight) {
    crn_site site = crn_site_of(work->call);
    crn_split_args args;
    if (!split_shape(&site, pass, large, small, &args))
        return; /* never: it was not offered for such a shape */
    args.tile = work->recipe->split - 1;
    args.large = large->at;
    args.small = small->at;
    args.weight = weight;
    args.to = pass == CRN_DNN_Y ? small->at : pass == CRN_DNN_GX ? large->at : weight;
    crn_launch launch = crn_split_launch(split_passes[pass], &args);
    crn_add_slices_args sum = {.count = args.filters * (uint32_t)(args.kernel[0] * args.kernel[1]) *
                                        args.channels,
                               .slices = args.slices,
                               .to = weight};
    if (args.slices > 1)
        sum.from = args.to =
            crn_cuda_scratch(work, (uint64_t)sum.count * sum.slices * sizeof(float));
    if (args.tile == CRN_SPLIT_HOPPER && pass != CRN_DNN_GW)
        split_weights(work, pass, &args);
    if (work->preparing)
        return;
    crn_cuda_launch(work, launch, &args);
    if (args.slices > 1)
        crn_cuda_launch(work, crn_add_slices_launch(&sum), &sum);
}

/* ---- Products, where cuDNN has no fast and repeatable plan ----
 *
 * A pointwise convolution (one tap, no stride) is a product of matrices in all three passes. On an
 * H200 cuDNN's fp32 plans for them reach 10 to 30 TFLOP/s; cuBLASLt reaches about 45 for gradients
 * of weights of the same shapes.
 *
 * Other gradients of weights, and in any precision those of the patches of a vision transformer
 * (119 ms of its step by cuDNN): a product of matrices over unfolded images, a few at a time:
 *
 *     unfolded [pixels of small, taps * channels]    gradient [filters, taps * channels]
 *     small    [pixels of small, filters]                = small' unfolded
 *
 * The gradient is small and the sum over the pixels is long. So the pixels are divided into slices,
 * each with a gradient, to use the whole GPU; the gradients are added up in the end. */

#ifndef CRN_MOST_UNFOLDED             /* the tests unfold one image at a time, with small slices */
#define CRN_MOST_UNFOLDED (64u << 20) /* bytes, unless one image has more */
#define CRN_LEAST_ROWS 128            /* of a slice */
#endif
#define MOST_SLICE_BYTES (32u << 20)
#define BLOCKS 264 /* of a product; not of the device, see kernel_launch.c */

/* How many images are unfolded at once: a divisor of the batch, so that all products have one
 * shape; 0: the kernel cannot count the elements of one image. */
static uint32_t images_at_once(uint64_t elements, uint32_t size, uint32_t batch) {
    uint32_t images = batch;
    while (images > 1 && (batch % images != 0 || elements * images * size > CRN_MOST_UNFOLDED))
        images--;
    return elements > INT32_MAX / 2 ? 0 : images;
}

/* The number of slices of the rows of a product, a divisor of them. A block of a product has
 * 128 x 64 elements. */
static int64_t count_slices(const crn_blas_shape *s) {
    int64_t tiles = ((s->in + 127) / 128) * ((s->out + 63) / 64);
    int64_t slices = CRN_MIN((BLOCKS + tiles - 1) / tiles, s->rows / CRN_LEAST_ROWS);
    slices = CRN_MIN(slices, (int64_t)MOST_SLICE_BYTES / (s->in * s->out * (int64_t)sizeof(float)));
    while (slices > 1 && s->rows % slices != 0)
        slices--;
    return CRN_MAX(slices, 1);
}

/* Whether the large image is divided into large patches that do not overlap. */
static bool is_patches(const cairn_attributes *a) {
    return a->kernel[0] * a->kernel[1] >= 64 && a->kernel[0] == a->stride[0] &&
           a->kernel[1] == a->stride[1] && a->pad[0] == 0 && a->pad[1] == 0 && a->pad[2] == 0 &&
           a->pad[3] == 0;
}

/* Whether the large image is its own unfolded form. */
static bool is_unfolded(const cairn_attributes *a, const crn_view *large, uint64_t in) {
    return a->kernel[0] * a->kernel[1] == 1 && a->stride[0] * a->stride[1] == 1 && a->pad[0] == 0 &&
           a->pad[1] == 0 && a->pad[2] == 0 && a->pad[3] == 0 && large->pitch == in &&
           large->channels == in;
}

static crn_unfold_args unfold_args(const cairn_attributes *a, const crn_view *large,
                                   const crn_view *small, uint32_t pitch) {
    return (crn_unfold_args){
        .element = large->element,
        .height = large->height,
        .width = large->width,
        .small_height = small->height,
        .small_width = small->width,
        .channels = large->channels,
        .large_pitch = large->pitch,
        .pitch = pitch,
        .kernel = {a->kernel[0], a->kernel[1]},
        .stride = {a->stride[0], a->stride[1]},
        .pad = {a->pad[0], a->pad[1]},
        .dilation = {CRN_MAX(a->dilation[0], 1), CRN_MAX(a->dilation[1], 1)},
    };
}

/* Images from number `first` on. While a plan is prepared there are no addresses. */
static const void *from_image(const crn_view *view, uint32_t first) {
    return first == 0 ? view->at
                      : (const char *)view->at + (size_t)first * view->plane * view->pitch *
                                                     crn_cuda_size(view->element);
}

/* The large or the small image of a pointwise convolution. */
static void run_pointwise(crn_work *work, uint8_t pass, const crn_view *large,
                          const crn_view *small, void *weight) {
    crn_blas_shape shape = {.pass = pass == CRN_DNN_Y ? CRN_BLAS_Y : CRN_BLAS_GX,
                            .rows = (int64_t)large->batch * large->plane,
                            .in = large->channels,
                            .out = small->channels,
                            .y_stride = small->pitch,
                            .exact = work->device->exact};
    crn_cuda_multiply(work, &shape, large->at, weight, small->at, false);
}

static void run_unfolded(crn_work *work, uint8_t pass, const crn_view *large, const crn_view *small,
                         void *weight) {
    const cairn_attributes *a = &work->call->op->attributes;
    crn_site site = crn_site_of(work->call);
    uint32_t pitch = pitch_of(&site, weights_of(work->call->op, pass));
    uint32_t in = (uint32_t)(a->kernel[0] * a->kernel[1]) * pitch;
    bool itself = is_unfolded(a, large, in);
    uint32_t size = crn_cuda_size(large->element);
    uint32_t images =
        itself ? large->batch : images_at_once((uint64_t)small->plane * in, size, large->batch);
    crn_blas_shape shape = {.pass = CRN_BLAS_GW,
                            .rows = (int64_t)images * small->plane,
                            .in = in,
                            .out = small->channels,
                            .y_stride = small->pitch,
                            .exact = work->device->exact,
                            .half = large->element == CRN_ELEMENT_BF16};
    shape.slices = count_slices(&shape);
    shape.rows /= shape.slices;
    crn_unfold_args args = unfold_args(a, large, small, pitch);
    crn_add_slices_args sum = {
        .count = in * small->channels, .slices = (uint32_t)shape.slices, .to = weight};
    args.count = images * small->plane * in;
    if (!itself)
        args.to = crn_cuda_scratch(work, (uint64_t)args.count * size);
    float *gradients = weight;
    if (shape.slices > 1)
        sum.from = gradients =
            crn_cuda_scratch(work, (uint64_t)sum.count * sum.slices * sizeof(float));
    uint64_t used = work->used; /* products run one after the other and share their workspace */
    for (uint32_t first = 0; first < (work->preparing ? 1 : large->batch); first += images) {
        args.large = from_image(large, first);
        if (!itself && !work->preparing)
            crn_cuda_launch(work, crn_unfold_launch(&args), &args);
        work->used = used;
        crn_cuda_multiply(work, &shape, itself ? args.large : args.to, gradients,
                          from_image(small, first), first > 0);
    }
    if (shape.slices > 1 && !work->preparing)
        crn_cuda_launch(work, crn_add_slices_launch(&sum), &sum);
}

bool crn_cuda_multiplies(const crn_device *device, const crn_site *site) {
    const cairn_op *op = site->op;
    const cairn_attributes *a = &op->attributes;
    const struct roles *r = roles_of(op->kind);
    if (r == NULL || a->groups > 1 || weights_of(op, r->pass) == CAIRN_NONE ||
        crn_cuda_is_depthwise(site))
        return false;
    crn_view large = crn_cuda_view(site, operand(op, r->large));
    crn_view small = crn_cuda_view(site, operand(op, r->small));
    if (large.element != small.element)
        return false;
    if (!device->exact && (r->pass != CRN_DNN_GW || !is_patches(a)))
        return false;
    uint64_t taps = (uint64_t)a->kernel[0] * (uint64_t)a->kernel[1];
    uint64_t in = taps * pitch_of(site, weights_of(op, r->pass));
    if (r->pass != CRN_DNN_GW)
        return is_unfolded(a, &large, in) && small.pitch == small.channels;
    return images_at_once(small.plane * in, crn_cuda_size(large.element), large.batch) > 0;
}

/* ---- The ops ---- */

static void run_pass(crn_work *work, const crn_view *large, const crn_view *small, void *weight) {
    crn_site site = crn_site_of(work->call);
    const struct roles *r = roles_of(work->call->op->kind);
    if (crn_cuda_is_depthwise(&site))
        run_depthwise(work, r->pass, large, small, weight);
    else if (work->recipe->split > 0)
        run_split(work, r->pass, large, small, weight);
    else if (crn_cuda_multiplies(work->device, &site))
        (r->pass == CRN_DNN_GW ? run_unfolded : run_pointwise)(work, r->pass, large, small, weight);
    else if (work->recipe->plan.plan != NULL)
        run_dnn(work, large, small, weight);
    else
        run_direct(work, r->pass, large, small, weight);
}

static void add_bias(crn_work *work, const crn_view *to, bool relu) {
    const float *bias = crn_cuda_param(work, 1);
    if (bias == NULL)
        return;
    crn_bias_args args = {.tiling = {.rows = to->rows, .channels = to->channels},
                          .element = to->element,
                          .relu = relu,
                          .x_pitch = to->pitch,
                          .y_pitch = to->pitch,
                          .x = to->at,
                          .bias = bias,
                          .y = to->at};
    crn_cuda_launch(work, crn_bias_launch(&args), &args);
}

/* A pass from an image to an image. `relu`: apply a ReLU to the result, whose address is the op's
 * output. */
static void transform(crn_work *work, bool relu) {
    const struct roles *r = roles_of(work->call->op->kind);
    crn_view in = crn_cuda_view_in(work, 0), out = crn_cuda_view_out(work, 0);
    run_pass(work, r->large == 0 ? &in : &out, r->large == 0 ? &out : &in, crn_cuda_param(work, 0));
    add_bias(work, &out, relu);
    crn_cuda_view_done(work, 0, &out);
}

/* The gradients of weight and bias; the bias belongs to the layer's output. With `relu`, the
 * backward of a ReLU that makes gy is fused with the sums of the bias. */
static void differentiate(crn_work *work, const crn_call *relu) {
    const struct roles *r = roles_of(work->call->op->kind);
    crn_view x = crn_cuda_view_in(work, 0), gy = crn_cuda_view_in(work, 1);
    if (relu != NULL)
        crn_cuda_column_sums(work, &gy, crn_cuda_out(work, 1), relu);
    if (crn_cuda_wants(work, 0))
        run_pass(work, r->large == 0 ? &x : &gy, r->large == 0 ? &gy : &x, crn_cuda_out(work, 0));
    if (relu == NULL && crn_cuda_wants(work, 1))
        crn_cuda_column_sums(work, &gy, crn_cuda_out(work, 1), NULL);
}

void crn_cuda_conv(crn_work *work) {
    transform(work, false);
}

void crn_cuda_conv_with(crn_work *work, const crn_call *relu) {
    transform(work, relu != NULL);
}

void crn_cuda_conv_bwd_data(crn_work *work) {
    transform(work, false);
}

void crn_cuda_conv_transpose(crn_work *work) {
    transform(work, false);
}

void crn_cuda_conv_transpose_bwd_data(crn_work *work) {
    transform(work, false);
}

void crn_cuda_conv_bwd_weight(crn_work *work) {
    differentiate(work, NULL);
}

void crn_cuda_conv_bwd_weight_with(crn_work *work, const crn_call *relu) {
    differentiate(work, relu);
}

void crn_cuda_conv_transpose_bwd_weight(crn_work *work) {
    differentiate(work, NULL);
}
