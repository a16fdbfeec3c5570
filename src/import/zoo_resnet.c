/* zoo_resnet.c: K. He, X. Zhang, S. Ren and J. Sun, "Deep residual learning for image recognition"
 * (2015), as torchvision has it: in a bottleneck the 3x3 convolution has the stride ("v1.5").
 *
 *     basic:       x -> 3x3 -> 3x3 ---------> + -> ReLU
 *     bottleneck:  x -> 1x1 -> 3x3 -> 1x1 --> + -> ReLU
 *                  x -> (1x1 where the shape changes) -> +
 */
#include "import/zoo_internal.h"

#define STAGES 4

static const struct configuration {
    uint32_t depth, expansion; /* a bottleneck's output is four times as wide as its inside */
    uint32_t blocks[STAGES];
} configurations[] = {
    {18, 1, {2, 2, 2, 2}},   {34, 1, {3, 4, 6, 3}},   {50, 4, {3, 4, 6, 3}},
    {101, 4, {3, 4, 23, 3}}, {152, 4, {3, 8, 36, 3}},
};

static const struct configuration *configuration_of(uint32_t depth) {
    const struct configuration *configuration = configurations;
    while (configuration->depth != depth)
        configuration++;
    return configuration;
}

static cairn_id layer(crn_zoo *net, crn_zoo_names names, cairn_id x, crn_conv conv) {
    return crn_zoo_conv_norm_relu(net, names, x, conv, CRN_ZOO_EPSILON);
}

static cairn_id basic(crn_zoo *net, cairn_id x, uint32_t width, uint32_t stride) {
    x = layer(net, (crn_zoo_names){"conv1", "bn1", "relu1"}, x,
              crn_zoo_square(width, 3, stride, 1));
    return layer(net, (crn_zoo_names){"conv2", "bn2", NULL}, x, crn_zoo_square(width, 3, 1, 1));
}

static cairn_id bottleneck(crn_zoo *net, cairn_id x, uint32_t width, uint32_t stride,
                           uint32_t expansion) {
    x = layer(net, (crn_zoo_names){"conv1", "bn1", "relu1"}, x, crn_zoo_square(width, 1, 1, 0));
    x = layer(net, (crn_zoo_names){"conv2", "bn2", "relu2"}, x,
              crn_zoo_square(width, 3, stride, 1));
    return layer(net, (crn_zoo_names){"conv3", "bn3", NULL}, x,
                 crn_zoo_square(width * expansion, 1, 1, 0));
}

static cairn_id block(crn_zoo *net, cairn_id x, uint32_t width, uint32_t stride,
                      uint32_t expansion) {
    uint32_t channels = width * expansion;
    cairn_id shortcut = x;
    cairn_id inside = expansion == 1 ? basic(net, x, width, stride)
                                     : bottleneck(net, x, width, stride, expansion);
    if (stride != 1 || crn_zoo_channels(net, x) != channels)
        shortcut = layer(net, (crn_zoo_names){"downsample.0", "downsample.1", NULL}, x,
                         crn_zoo_square(channels, 1, stride, 0));
    x = crn_build_add(net->builder, crn_zoo_name(net, "add"), inside, shortcut);
    return crn_build_relu(net->builder, crn_zoo_name(net, "relu"), x);
}

void crn_zoo_resnet(crn_zoo *net) {
    const struct configuration *configuration = configuration_of(net->depth);
    cairn_builder *b = net->builder;
    cairn_id x = crn_zoo_images(net);
    x = layer(net, (crn_zoo_names){"conv1", "bn1", "relu"}, x, crn_zoo_square(64, 7, 2, 3));
    x = crn_build_max_pool(b, "maxpool", x, 3, 2, 1);
    for (uint32_t stage = 0; stage < STAGES; stage++)
        for (uint32_t i = 0; i < configuration->blocks[stage]; i++) {
            size_t outside = crn_zoo_enter(net, "layer%u.%u", stage + 1, i);
            x = block(net, x, 64u << stage, stage > 0 && i == 0 ? 2 : 1, configuration->expansion);
            crn_zoo_leave(net, outside);
        }
    x = crn_build_adaptive_avg_pool(b, "avgpool", x, 1, 1);
    x = crn_build_flatten(b, "flatten", x);
    crn_zoo_loss(net, crn_build_linear(b, "fc", x, net->classes));
}
