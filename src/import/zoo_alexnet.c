/* zoo_alexnet.c: AlexNet in the single-column form of A. Krizhevsky, "One weird trick for
 * parallelizing convolutional neural networks" (2014), as torchvision has it. */
#include "import/zoo_internal.h"

/* Each followed by a ReLU; `pool` by a max pooling of three pixels as well. */
static const struct layer {
    uint32_t channels, kernel, stride, pad;
    bool pool;
} layers[] = {
    {64, 11, 4, 2, true},  {192, 5, 1, 2, true}, {384, 3, 1, 1, false},
    {256, 3, 1, 1, false}, {256, 3, 1, 1, true},
};

static cairn_id features(crn_zoo *net, cairn_id x) {
    size_t outside = crn_zoo_enter(net, "features");
    uint32_t at = 0;
    for (size_t i = 0; i < CRN_LENGTH(layers); i++) {
        const struct layer *layer = &layers[i];
        crn_conv conv = crn_zoo_square(layer->channels, layer->kernel, layer->stride, layer->pad);
        conv.bias = true;
        x = crn_build_conv2d(net->builder, crn_zoo_name(net, "%u", at++), x, &conv);
        x = crn_build_relu(net->builder, crn_zoo_name(net, "%u", at++), x);
        if (layer->pool)
            x = crn_build_max_pool(net->builder, crn_zoo_name(net, "%u", at++), x, 3, 2, 0);
    }
    crn_zoo_leave(net, outside);
    return x;
}

void crn_zoo_alexnet(crn_zoo *net) {
    cairn_builder *b = net->builder;
    cairn_id x = features(net, crn_zoo_images(net));
    x = crn_build_adaptive_avg_pool(b, "avgpool", x, 6, 6);
    x = crn_build_flatten(b, "flatten", x);
    x = crn_build_dropout(b, "classifier.0", x, 0.5);
    x = crn_build_linear(b, "classifier.1", x, 4096);
    x = crn_build_relu(b, "classifier.2", x);
    x = crn_build_dropout(b, "classifier.3", x, 0.5);
    x = crn_build_linear(b, "classifier.4", x, 4096);
    x = crn_build_relu(b, "classifier.5", x);
    x = crn_build_linear(b, "classifier.6", x, net->classes);
    crn_zoo_loss(net, x);
}
