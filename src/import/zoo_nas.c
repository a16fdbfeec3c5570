/* zoo_nas.c: three networks found by search, for small images, in the frame of the DARTS code:
 *
 *   NASNet-A      B. Zoph, V. Vasudevan, J. Shlens, Q. Le, "Learning transferable architectures for
 *                 scalable image recognition" (2017)
 *   AmoebaNet-A   E. Real, A. Aggarwal, Y. Huang, Q. Le, "Regularized evolution for image
 *                 classifier architecture search" (2018)
 *   DARTS         H. Liu, K. Simonyan, Y. Yang, "DARTS: differentiable architecture search" (2018),
 *                 the cells of the second-order search
 *
 *     stem -> cell 0 -> ... -> cell 19 -> average pool -> linear
 *
 * A cell reads the outputs of the two before it, brought to its width: its states 0 and 1. Each
 * step applies two ops to two states and appends the sum as a new state; the cell's output is the
 * concatenation of some of them. Cells 6 and 13 halve the image and double the width. */
#include "import/zoo_internal.h"
#include "graph/crn_graph.h"

#define CELLS 20
#define WIDTH 36 /* of the first cells; the stem is three times as wide */
#define MAX_STEPS 5

/* What an op of a cell can be. */
enum kind { SEP3, SEP5, SEP7, DIL3, C7X1, AVG3, MAX3, SKIP };

struct choice {
    enum kind kind;
    uint32_t state;
};

struct cell {
    uint32_t steps;
    struct choice choices[2 * MAX_STEPS];
    uint32_t output_count, outputs[MAX_STEPS]; /* the states that are concatenated */
};

struct architecture {
    struct cell normal, reduction;
};

/* clang-format off */
static const struct architecture nasnet = {
    .normal = {5, {{SEP5, 1}, {SEP3, 0},
                   {SEP5, 0}, {SEP3, 0},
                   {AVG3, 1}, {SKIP, 0},
                   {AVG3, 0}, {AVG3, 0},
                   {SEP3, 1}, {SKIP, 1}}, 5, {2, 3, 4, 5, 6}},
    .reduction = {5, {{SEP5, 1}, {SEP7, 0},
                      {MAX3, 1}, {SEP7, 0},
                      {AVG3, 1}, {SEP5, 0},
                      {SKIP, 3}, {AVG3, 2},
                      {SEP3, 2}, {MAX3, 1}}, 3, {4, 5, 6}},
};

static const struct architecture amoebanet = {
    .normal = {5, {{AVG3, 0}, {MAX3, 1},
                   {SEP3, 0}, {SEP5, 2},
                   {SEP3, 0}, {AVG3, 3},
                   {SEP3, 1}, {SKIP, 1},
                   {SKIP, 0}, {AVG3, 1}}, 3, {4, 5, 6}},
    .reduction = {5, {{AVG3, 0}, {SEP3, 1},
                      {MAX3, 0}, {SEP7, 2},
                      {SEP7, 0}, {AVG3, 1},
                      {MAX3, 0}, {MAX3, 1},
                      {C7X1, 0}, {SEP3, 5}}, 3, {3, 4, 6}},
};

static const struct architecture darts = {
    .normal = {4, {{SEP3, 0}, {SEP3, 1},
                   {SEP3, 0}, {SEP3, 1},
                   {SEP3, 1}, {SKIP, 0},
                   {SKIP, 0}, {DIL3, 2}}, 4, {2, 3, 4, 5}},
    .reduction = {4, {{MAX3, 0}, {MAX3, 1},
                      {SKIP, 2}, {MAX3, 1},
                      {MAX3, 0}, {SKIP, 2},
                      {SKIP, 2}, {MAX3, 1}}, 4, {2, 3, 4, 5}},
};
/* clang-format on */

/* ---- layers by their number in a module: op.0, op.1, ... ---- */

static cairn_id relu(crn_zoo *net, uint32_t number, cairn_id x) {
    return crn_build_relu(net->builder, crn_zoo_name(net, "op.%u", number), x);
}

static cairn_id convolution(crn_zoo *net, uint32_t number, cairn_id x, crn_conv conv) {
    return crn_build_conv2d(net->builder, crn_zoo_name(net, "op.%u", number), x, &conv);
}

static cairn_id norm(crn_zoo *net, uint32_t number, cairn_id x) {
    return crn_build_batch_norm(net->builder, crn_zoo_name(net, "op.%u", number), x,
                                CRN_ZOO_EPSILON);
}

/* ReLU, depthwise, 1x1, batch-norm, numbered from `first`. Padding keeps the size. */
static cairn_id depthwise(crn_zoo *net, uint32_t first, cairn_id x, uint32_t kernel,
                          uint32_t stride, uint32_t dilation) {
    uint32_t channels = crn_zoo_channels(net, x);
    crn_conv conv = crn_zoo_square(channels, kernel, stride, dilation * (kernel - 1) / 2);
    conv.dilation[0] = conv.dilation[1] = dilation;
    conv.groups = channels;
    x = relu(net, first, x);
    x = convolution(net, first + 1, x, conv);
    x = convolution(net, first + 2, x, crn_zoo_square(channels, 1, 1, 0));
    return norm(net, first + 3, x);
}

static cairn_id separable(crn_zoo *net, cairn_id x, uint32_t kernel, uint32_t stride) {
    x = depthwise(net, 0, x, kernel, stride, 1);
    return depthwise(net, 4, x, kernel, 1, 1);
}

/* 1x7 with the stride across, then 7x1 with the stride down. */
static cairn_id seven(crn_zoo *net, cairn_id x, uint32_t stride) {
    uint32_t channels = crn_zoo_channels(net, x);
    x = relu(net, 0, x);
    x = convolution(
        net, 1, x,
        (crn_conv){
            .channels = channels, .kernel = {1, 7}, .stride = {1, stride}, .pad = {0, 3, 0, 3}});
    x = convolution(
        net, 2, x,
        (crn_conv){
            .channels = channels, .kernel = {7, 1}, .stride = {stride, 1}, .pad = {3, 0, 3, 0}});
    return norm(net, 3, x);
}

static cairn_id relu_conv_norm(crn_zoo *net, cairn_id x, uint32_t channels) {
    x = relu(net, 0, x);
    x = convolution(net, 1, x, crn_zoo_square(channels, 1, 1, 0));
    return norm(net, 2, x);
}

/* Halve without losing pixels: half of the channels see the even ones, half the odd ones, from a
 * crop of one pixel at the top and left. An image of odd size lacks the last odd pixel: zero, as in
 * the code of NASNet. */
static cairn_id factorised_reduction(crn_zoo *net, cairn_id x, uint32_t channels) {
    cairn_builder *b = net->builder;
    cairn_tensor image = crn_builder_peek(b, x);
    crn_conv even = crn_zoo_square(channels / 2, 1, 2, 0), odd = even;
    odd.pad[0] = odd.pad[1] = -1;
    odd.pad[2] = (int32_t)(image.shape[2] % 2);
    odd.pad[3] = (int32_t)(image.shape[3] % 2);
    if (image.rank == 4 && (image.shape[2] < 2 || image.shape[3] < 2))
        crn_zoo_fail(net, "%s halves an image of %ux%u, which is too small; give a larger input",
                     crn_zoo_name(net, "conv_2"), image.shape[2], image.shape[3]);
    x = crn_build_relu(b, crn_zoo_name(net, "relu"), x);
    cairn_id halves[2];
    halves[0] = crn_build_conv2d(b, crn_zoo_name(net, "conv_1"), x, &even);
    halves[1] = crn_build_conv2d(b, crn_zoo_name(net, "conv_2"), x, &odd);
    x = crn_build_concat(b, crn_zoo_name(net, "concat"), halves, 2);
    return crn_build_batch_norm(b, crn_zoo_name(net, "bn"), x, CRN_ZOO_EPSILON);
}

/* ---- cells ---- */

static cairn_id apply(crn_zoo *net, enum kind kind, cairn_id x, uint32_t stride) {
    switch (kind) {
    case SEP3:
        return separable(net, x, 3, stride);
    case SEP5:
        return separable(net, x, 5, stride);
    case SEP7:
        return separable(net, x, 7, stride);
    case DIL3:
        return depthwise(net, 0, x, 3, stride, 2);
    case C7X1:
        return seven(net, x, stride);
    case AVG3:
        return crn_build_avg_pool(net->builder, crn_zoo_name(net, "pool"), x, 3, stride, 1, false);
    case MAX3:
        return crn_build_max_pool(net->builder, crn_zoo_name(net, "pool"), x, 3, stride, 1);
    case SKIP:
        break;
    }
    return stride == 1 ? x : factorised_reduction(net, x, crn_zoo_channels(net, x));
}

/* Bring an input of a cell to its width, and to half the size where `halve`. */
static cairn_id preprocess(crn_zoo *net, uint32_t number, cairn_id x, uint32_t channels,
                           bool halve) {
    size_t outside = crn_zoo_enter(net, "preprocess%u", number);
    x = halve ? factorised_reduction(net, x, channels) : relu_conv_norm(net, x, channels);
    crn_zoo_leave(net, outside);
    return x;
}

/* Run the steps over states 0 and 1 and concatenate. */
static cairn_id steps(crn_zoo *net, const struct cell *cell, cairn_id *states, bool reduction) {
    for (uint32_t step = 0; step < cell->steps; step++) {
        cairn_id terms[2];
        for (uint32_t i = 0; i < 2; i++) {
            const struct choice *choice = &cell->choices[2 * step + i];
            size_t outside = crn_zoo_enter(net, "_ops.%u", 2 * step + i);
            terms[i] = apply(net, choice->kind, states[choice->state],
                             reduction && choice->state < 2 ? 2 : 1);
            crn_zoo_leave(net, outside);
        }
        states[2 + step] = crn_build_add(net->builder, crn_zoo_name(net, "states.%u", 2 + step),
                                         terms[0], terms[1]);
    }
    cairn_id outputs[MAX_STEPS];
    for (uint32_t i = 0; i < cell->output_count; i++)
        outputs[i] = states[cell->outputs[i]];
    return crn_build_concat(net->builder, crn_zoo_name(net, "concat"), outputs, cell->output_count);
}

static cairn_id cells(crn_zoo *net, const struct architecture *architecture, cairn_id x) {
    cairn_id older = x, newer = x;
    uint32_t channels = WIDTH;
    bool after_reduction = false;
    for (uint32_t i = 0; i < CELLS; i++) {
        bool reduction = i == CELLS / 3 || i == 2 * CELLS / 3;
        channels = reduction ? 2 * channels : channels;
        size_t outside = crn_zoo_enter(net, "cells.%u", i);
        cairn_id states[2 + MAX_STEPS];
        states[0] = preprocess(net, 0, older, channels, after_reduction);
        states[1] = preprocess(net, 1, newer, channels, false);
        older = newer;
        newer = steps(net, reduction ? &architecture->reduction : &architecture->normal, states,
                      reduction);
        after_reduction = reduction;
        crn_zoo_leave(net, outside);
    }
    return newer;
}

static void build(crn_zoo *net, const struct architecture *architecture) {
    cairn_builder *b = net->builder;
    cairn_id x = crn_zoo_images(net);
    x = crn_zoo_conv_norm_relu(net, (crn_zoo_names){"stem.0", "stem.1", NULL}, x,
                               crn_zoo_square(3 * WIDTH, 3, 1, 1), CRN_ZOO_EPSILON);
    x = cells(net, architecture, x);
    x = crn_build_adaptive_avg_pool(b, "global_pooling", x, 1, 1);
    x = crn_build_flatten(b, "flatten", x);
    crn_zoo_loss(net, crn_build_linear(b, "classifier", x, net->classes));
}

void crn_zoo_nasnet(crn_zoo *net) {
    build(net, &nasnet);
}

void crn_zoo_amoebanet(crn_zoo *net) {
    build(net, &amoebanet);
}

void crn_zoo_darts(crn_zoo *net) {
    build(net, &darts);
}
