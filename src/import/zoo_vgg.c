/* zoo_vgg.c: K. Simonyan and A. Zisserman, "Very deep convolutional networks for large-scale image
 * recognition" (2014): configurations A, B, D and E, without batch-norm, as torchvision has them.
 */
#include "import/zoo_internal.h"

#define STAGES 5

static const uint32_t widths[STAGES] = {64, 128, 256, 512, 512};

/* Convolutions before each of the five poolings. */
static const struct configuration {
    uint32_t depth, convolutions[STAGES];
} configurations[] = {
    {11, {1, 1, 2, 2, 2}},
    {13, {2, 2, 2, 2, 2}},
    {16, {2, 2, 3, 3, 3}},
    {19, {2, 2, 4, 4, 4}},
};

static const struct configuration *configuration_of(uint32_t depth) {
    const struct configuration *configuration = configurations;
    while (configuration->depth != depth)
        configuration++;
    return configuration;
}

static cairn_id features(crn_zoo *net, cairn_id x) {
    const struct configuration *configuration = configuration_of(net->depth);
    size_t outside = crn_zoo_enter(net, "features");
    uint32_t at = 0;
    for (int stage = 0; stage < STAGES; stage++) {
        crn_conv conv = crn_zoo_square(widths[stage], 3, 1, 1);
        conv.bias = true;
        for (uint32_t i = 0; i < configuration->convolutions[stage]; i++) {
            x = crn_build_conv2d(net->builder, crn_zoo_name(net, "%u", at++), x, &conv);
            x = crn_build_relu(net->builder, crn_zoo_name(net, "%u", at++), x);
        }
        x = crn_build_max_pool(net->builder, crn_zoo_name(net, "%u", at++), x, 2, 2, 0);
    }
    crn_zoo_leave(net, outside);
    return x;
}

void crn_zoo_vgg(crn_zoo *net) {
    cairn_builder *b = net->builder;
    cairn_id x = features(net, crn_zoo_images(net));
    x = crn_build_adaptive_avg_pool(b, "avgpool", x, 7, 7);
    x = crn_build_flatten(b, "flatten", x);
    x = crn_build_linear(b, "classifier.0", x, 4096);
    x = crn_build_relu(b, "classifier.1", x);
    x = crn_build_dropout(b, "classifier.2", x, 0.5);
    x = crn_build_linear(b, "classifier.3", x, 4096);
    x = crn_build_relu(b, "classifier.4", x);
    x = crn_build_dropout(b, "classifier.5", x, 0.5);
    x = crn_build_linear(b, "classifier.6", x, net->classes);
    crn_zoo_loss(net, x);
}
