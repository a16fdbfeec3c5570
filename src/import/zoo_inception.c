/* zoo_inception.c: C. Szegedy et al., "Rethinking the Inception architecture for computer vision"
 * (2015), as torchvision has it, without the auxiliary head.
 *
 * A module is a few branches side by side, concatenated. A branch is a list of convolutions, each
 * with batch-norm and ReLU, after a pooling or none. */
#include "import/zoo_internal.h"

#define EPSILON 1e-3

/* A convolution as the tables write it. Without VALID the padding keeps the size. */
struct row {
    const char *name; /* NULL ends a branch */
    uint32_t channels, height, width, stride;
    bool valid;
};
#define SAME .stride = 1
#define HALVE .stride = 2, .valid = true

static cairn_id convolve(crn_zoo *net, cairn_id x, const struct row *row) {
    int32_t vertical = row->valid ? 0 : (int32_t)(row->height - 1) / 2;
    int32_t horizontal = row->valid ? 0 : (int32_t)(row->width - 1) / 2;
    crn_conv conv = {.channels = row->channels,
                     .kernel = {row->height, row->width},
                     .stride = {row->stride, row->stride},
                     .pad = {vertical, horizontal, vertical, horizontal}};
    size_t outside = crn_zoo_enter(net, "%s", row->name);
    x = crn_zoo_conv_norm_relu(net, (crn_zoo_names){"conv", "bn", "relu"}, x, conv, EPSILON);
    crn_zoo_leave(net, outside);
    return x;
}

static cairn_id branch(crn_zoo *net, cairn_id x, const struct row *rows) {
    for (; rows->name != NULL; rows++)
        x = convolve(net, x, rows);
    return x;
}

/* Average over 3x3, then a 1x1 convolution. */
static cairn_id average_branch(crn_zoo *net, cairn_id x, uint32_t channels) {
    x = crn_build_avg_pool(net->builder, crn_zoo_name(net, "avg_pool"), x, 3, 1, 1, true);
    return convolve(net, x, &(struct row){"branch_pool", channels, 1, 1, SAME});
}

static cairn_id max_branch(crn_zoo *net, cairn_id x) {
    return crn_build_max_pool(net->builder, crn_zoo_name(net, "max_pool"), x, 3, 2, 0);
}

static cairn_id join(crn_zoo *net, const char *name, const cairn_id *branches, uint32_t count) {
    return crn_build_concat(net->builder, crn_zoo_name(net, "%s", name), branches, count);
}

/* ---- the five kinds of module; torchvision calls them InceptionA to InceptionE ---- */

static cairn_id module_a(crn_zoo *net, cairn_id x, uint32_t pool_channels) {
    static const struct row one[] = {{"branch1x1", 64, 1, 1, SAME}, {0}};
    static const struct row five[] = {
        {"branch5x5_1", 48, 1, 1, SAME}, {"branch5x5_2", 64, 5, 5, SAME}, {0}};
    static const struct row three[] = {{"branch3x3dbl_1", 64, 1, 1, SAME},
                                       {"branch3x3dbl_2", 96, 3, 3, SAME},
                                       {"branch3x3dbl_3", 96, 3, 3, SAME},
                                       {0}};
    cairn_id out[4];
    out[0] = branch(net, x, one);
    out[1] = branch(net, x, five);
    out[2] = branch(net, x, three);
    out[3] = average_branch(net, x, pool_channels);
    return join(net, "concat", out, 4);
}

static cairn_id module_b(crn_zoo *net, cairn_id x) {
    static const struct row three[] = {{"branch3x3", 384, 3, 3, HALVE}, {0}};
    static const struct row twice[] = {{"branch3x3dbl_1", 64, 1, 1, SAME},
                                       {"branch3x3dbl_2", 96, 3, 3, SAME},
                                       {"branch3x3dbl_3", 96, 3, 3, HALVE},
                                       {0}};
    cairn_id out[3];
    out[0] = branch(net, x, three);
    out[1] = branch(net, x, twice);
    out[2] = max_branch(net, x);
    return join(net, "concat", out, 3);
}

static cairn_id module_c(crn_zoo *net, cairn_id x, uint32_t width) {
    const struct row one[] = {{"branch1x1", 192, 1, 1, SAME}, {0}};
    const struct row seven[] = {{"branch7x7_1", width, 1, 1, SAME},
                                {"branch7x7_2", width, 1, 7, SAME},
                                {"branch7x7_3", 192, 7, 1, SAME},
                                {0}};
    const struct row twice[] = {
        {"branch7x7dbl_1", width, 1, 1, SAME}, {"branch7x7dbl_2", width, 7, 1, SAME},
        {"branch7x7dbl_3", width, 1, 7, SAME}, {"branch7x7dbl_4", width, 7, 1, SAME},
        {"branch7x7dbl_5", 192, 1, 7, SAME},   {0}};
    cairn_id out[4];
    out[0] = branch(net, x, one);
    out[1] = branch(net, x, seven);
    out[2] = branch(net, x, twice);
    out[3] = average_branch(net, x, 192);
    return join(net, "concat", out, 4);
}

static cairn_id module_d(crn_zoo *net, cairn_id x) {
    static const struct row three[] = {
        {"branch3x3_1", 192, 1, 1, SAME}, {"branch3x3_2", 320, 3, 3, HALVE}, {0}};
    static const struct row seven[] = {{"branch7x7x3_1", 192, 1, 1, SAME},
                                       {"branch7x7x3_2", 192, 1, 7, SAME},
                                       {"branch7x7x3_3", 192, 7, 1, SAME},
                                       {"branch7x7x3_4", 192, 3, 3, HALVE},
                                       {0}};
    cairn_id out[3];
    out[0] = branch(net, x, three);
    out[1] = branch(net, x, seven);
    out[2] = max_branch(net, x);
    return join(net, "concat", out, 3);
}

/* A 1x3 and a 3x1 convolution of the same tensor, side by side. */
static cairn_id flat_and_tall(crn_zoo *net, cairn_id x, const char *flat, const char *tall,
                              const char *name) {
    cairn_id out[2];
    out[0] = convolve(net, x, &(struct row){flat, 384, 1, 3, SAME});
    out[1] = convolve(net, x, &(struct row){tall, 384, 3, 1, SAME});
    return join(net, name, out, 2);
}

static cairn_id module_e(crn_zoo *net, cairn_id x) {
    static const struct row one[] = {{"branch1x1", 320, 1, 1, SAME}, {0}};
    static const struct row three[] = {{"branch3x3_1", 384, 1, 1, SAME}, {0}};
    static const struct row twice[] = {
        {"branch3x3dbl_1", 448, 1, 1, SAME}, {"branch3x3dbl_2", 384, 3, 3, SAME}, {0}};
    cairn_id out[4];
    out[0] = branch(net, x, one);
    out[1] = branch(net, x, three);
    out[1] = flat_and_tall(net, out[1], "branch3x3_2a", "branch3x3_2b", "branch3x3_concat");
    out[2] = branch(net, x, twice);
    out[2] =
        flat_and_tall(net, out[2], "branch3x3dbl_3a", "branch3x3dbl_3b", "branch3x3dbl_concat");
    out[3] = average_branch(net, x, 192);
    return join(net, "concat", out, 4);
}

/* ---- the network ---- */

static cairn_id stem(crn_zoo *net, cairn_id x) {
    static const struct row before[] = {{"Conv2d_1a_3x3", 32, 3, 3, HALVE},
                                        {"Conv2d_2a_3x3", 32, 3, 3, 1, true},
                                        {"Conv2d_2b_3x3", 64, 3, 3, SAME},
                                        {0}};
    static const struct row after[] = {
        {"Conv2d_3b_1x1", 80, 1, 1, SAME}, {"Conv2d_4a_3x3", 192, 3, 3, 1, true}, {0}};
    x = branch(net, x, before);
    x = crn_build_max_pool(net->builder, "maxpool1", x, 3, 2, 0);
    x = branch(net, x, after);
    return crn_build_max_pool(net->builder, "maxpool2", x, 3, 2, 0);
}

/* The eleven modules in order; `width` is what a kind leaves open. */
static const struct module {
    const char *name;
    char kind;
    uint32_t width;
} modules[] = {
    {"Mixed_5b", 'a', 32},  {"Mixed_5c", 'a', 64},  {"Mixed_5d", 'a', 64},  {"Mixed_6a", 'b', 0},
    {"Mixed_6b", 'c', 128}, {"Mixed_6c", 'c', 160}, {"Mixed_6d", 'c', 160}, {"Mixed_6e", 'c', 192},
    {"Mixed_7a", 'd', 0},   {"Mixed_7b", 'e', 0},   {"Mixed_7c", 'e', 0},
};

static cairn_id build_module(crn_zoo *net, cairn_id x, const struct module *module) {
    switch (module->kind) {
    case 'a':
        return module_a(net, x, module->width);
    case 'b':
        return module_b(net, x);
    case 'c':
        return module_c(net, x, module->width);
    case 'd':
        return module_d(net, x);
    default:
        return module_e(net, x);
    }
}

void crn_zoo_inception(crn_zoo *net) {
    cairn_builder *b = net->builder;
    cairn_id x = stem(net, crn_zoo_images(net));
    for (size_t i = 0; i < CRN_LENGTH(modules); i++) {
        size_t outside = crn_zoo_enter(net, "%s", modules[i].name);
        x = build_module(net, x, &modules[i]);
        crn_zoo_leave(net, outside);
    }
    x = crn_build_adaptive_avg_pool(b, "avgpool", x, 1, 1);
    x = crn_build_dropout(b, "dropout", x, 0.5);
    x = crn_build_flatten(b, "flatten", x);
    crn_zoo_loss(net, crn_build_linear(b, "fc", x, net->classes));
}
