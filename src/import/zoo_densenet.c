/* zoo_densenet.c: G. Huang, Z. Liu, L. van der Maaten and K. Weinberger, "Densely connected
 * convolutional networks" (2016), with bottlenecks and compression, as torchvision has it.
 *
 * A layer reads all that its block has made so far. The concatenation grows by one layer at a time
 * (cat_i = concat(cat_{i-1}, new_i)), so each is a tensor that a plan can keep or recompute. */
#include "import/zoo_internal.h"

#define BLOCKS 4

static const struct configuration {
    uint32_t depth, growth, first; /* channels a layer adds; channels of the first convolution */
    uint32_t layers[BLOCKS];
} configurations[] = {
    {121, 32, 64, {6, 12, 24, 16}},
    {161, 48, 96, {6, 12, 36, 24}},
    {169, 32, 64, {6, 12, 32, 32}},
    {201, 32, 64, {6, 12, 48, 32}},
};

static const struct configuration *configuration_of(uint32_t depth) {
    const struct configuration *configuration = configurations;
    while (configuration->depth != depth)
        configuration++;
    return configuration;
}

/* Batch-norm, ReLU, convolution: the order of this network. */
static cairn_id norm_relu_conv(crn_zoo *net, crn_zoo_names names, cairn_id x, crn_conv conv) {
    cairn_builder *b = net->builder;
    x = crn_build_batch_norm(b, crn_zoo_name(net, "%s", names.norm), x, CRN_ZOO_EPSILON);
    x = crn_build_relu(b, crn_zoo_name(net, "%s", names.relu), x);
    return crn_build_conv2d(b, crn_zoo_name(net, "%s", names.conv), x, &conv);
}

static cairn_id dense_block(crn_zoo *net, cairn_id x, uint32_t layers, uint32_t growth) {
    for (uint32_t i = 1; i <= layers; i++) {
        size_t outside = crn_zoo_enter(net, "denselayer%u", i);
        cairn_id added = norm_relu_conv(net, (crn_zoo_names){"conv1", "norm1", "relu1"}, x,
                                        crn_zoo_square(4 * growth, 1, 1, 0));
        added = norm_relu_conv(net, (crn_zoo_names){"conv2", "norm2", "relu2"}, added,
                               crn_zoo_square(growth, 3, 1, 1));
        x = crn_build_concat(net->builder, crn_zoo_name(net, "concat"), (cairn_id[]){x, added}, 2);
        crn_zoo_leave(net, outside);
    }
    return x;
}

static cairn_id transition(crn_zoo *net, cairn_id x) {
    x = norm_relu_conv(net, (crn_zoo_names){"conv", "norm", "relu"}, x,
                       crn_zoo_square(crn_zoo_channels(net, x) / 2, 1, 1, 0));
    return crn_build_avg_pool(net->builder, crn_zoo_name(net, "pool"), x, 2, 2, 0, true);
}

static cairn_id features(crn_zoo *net, cairn_id x) {
    const struct configuration *configuration = configuration_of(net->depth);
    x = crn_zoo_conv_norm_relu(net, (crn_zoo_names){"conv0", "norm0", "relu0"}, x,
                               crn_zoo_square(configuration->first, 7, 2, 3), CRN_ZOO_EPSILON);
    x = crn_build_max_pool(net->builder, crn_zoo_name(net, "pool0"), x, 3, 2, 1);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        size_t outside = crn_zoo_enter(net, "denseblock%u", i + 1);
        x = dense_block(net, x, configuration->layers[i], configuration->growth);
        crn_zoo_leave(net, outside);
        if (i + 1 == BLOCKS)
            break;
        outside = crn_zoo_enter(net, "transition%u", i + 1);
        x = transition(net, x);
        crn_zoo_leave(net, outside);
    }
    return crn_build_batch_norm(net->builder, crn_zoo_name(net, "norm5"), x, CRN_ZOO_EPSILON);
}

void crn_zoo_densenet(crn_zoo *net) {
    cairn_builder *b = net->builder;
    cairn_id x = crn_zoo_images(net);
    size_t outside = crn_zoo_enter(net, "features");
    x = features(net, x);
    crn_zoo_leave(net, outside);
    x = crn_build_relu(b, "relu", x);
    x = crn_build_adaptive_avg_pool(b, "avgpool", x, 1, 1);
    x = crn_build_flatten(b, "flatten", x);
    crn_zoo_loss(net, crn_build_linear(b, "classifier", x, net->classes));
}
