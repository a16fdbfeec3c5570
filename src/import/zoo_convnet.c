/* zoo_convnet.c: a small network for small images and experiments: three
 * stages of two convolutions, each halved by a pooling, and the mean over what is left. */
#include "import/zoo_internal.h"

static const uint32_t widths[] = {8, 16, 32};

static cairn_id stage(crn_zoo *net, cairn_id x, uint32_t channels) {
    crn_conv conv = crn_zoo_square(channels, 3, 1, 1);
    crn_zoo_names first = {"conv1", "bn1", "relu1"}, second = {"conv2", "bn2", "relu2"};
    x = crn_zoo_conv_norm_relu(net, first, x, conv, CRN_ZOO_EPSILON);
    x = crn_zoo_conv_norm_relu(net, second, x, conv, CRN_ZOO_EPSILON);
    return crn_build_max_pool(net->builder, crn_zoo_name(net, "pool"), x, 2, 2, 0);
}

void crn_zoo_convnet(crn_zoo *net) {
    cairn_builder *b = net->builder;
    cairn_id x = crn_zoo_images(net);
    for (uint32_t i = 0; i < CRN_LENGTH(widths); i++) {
        size_t outside = crn_zoo_enter(net, "stage%u", i + 1);
        x = stage(net, x, widths[i]);
        crn_zoo_leave(net, outside);
    }
    x = crn_build_adaptive_avg_pool(b, "avgpool", x, 1, 1);
    x = crn_build_flatten(b, "flatten", x);
    x = crn_build_linear(b, "fc", x, net->classes);
    crn_zoo_loss(net, x);
}
