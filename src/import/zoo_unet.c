/* zoo_unet.c: O. Ronneberger, P. Fischer and T. Brox, "U-Net: convolutional networks for biomedical
 * image segmentation" (2015), in the form most used since: padded convolutions with batch-norm, and
 * 2x2 transposed convolutions on the way up.
 *
 *     inc ------------------------------------------> concat, up4 -> outc
 *       down1 ------------------------------> concat, up3
 *         down2 --------------------> concat, up2
 *           down3 ----------> concat, up1
 *             down4 ------------^
 */
#include "import/zoo_internal.h"

#define LEVELS 4
#define WIDTH 64 /* of the first level; each level below is twice as wide */

/* Twice: 3x3 convolution, batch-norm, ReLU. */
static cairn_id double_conv(crn_zoo *net, cairn_id x, uint32_t channels) {
    crn_conv conv = crn_zoo_square(channels, 3, 1, 1);
    size_t outside = crn_zoo_enter(net, "double_conv");
    x = crn_zoo_conv_norm_relu(net, (crn_zoo_names){"0", "1", "2"}, x, conv, CRN_ZOO_EPSILON);
    x = crn_zoo_conv_norm_relu(net, (crn_zoo_names){"3", "4", "5"}, x, conv, CRN_ZOO_EPSILON);
    crn_zoo_leave(net, outside);
    return x;
}

static cairn_id down(crn_zoo *net, uint32_t level, cairn_id x) {
    size_t outside = crn_zoo_enter(net, "down%u.maxpool_conv", level);
    x = crn_build_max_pool(net->builder, crn_zoo_name(net, "0"), x, 2, 2, 0);
    size_t inside = crn_zoo_enter(net, "1");
    x = double_conv(net, x, WIDTH << level);
    crn_zoo_leave(net, inside);
    crn_zoo_leave(net, outside);
    return x;
}

static cairn_id up(crn_zoo *net, uint32_t number, cairn_id x, cairn_id skip, uint32_t channels) {
    size_t outside = crn_zoo_enter(net, "up%u", number);
    x = crn_build_conv_transpose2d(net->builder, crn_zoo_name(net, "up"), x, channels, 2);
    x = crn_build_concat(net->builder, crn_zoo_name(net, "concat"), (cairn_id[]){skip, x}, 2);
    size_t inside = crn_zoo_enter(net, "conv");
    x = double_conv(net, x, channels);
    crn_zoo_leave(net, inside);
    crn_zoo_leave(net, outside);
    return x;
}

static cairn_id first(crn_zoo *net, cairn_id x) {
    size_t outside = crn_zoo_enter(net, "inc");
    x = double_conv(net, x, WIDTH);
    crn_zoo_leave(net, outside);
    return x;
}

void crn_zoo_unet(crn_zoo *net) {
    uint32_t unit = 1u << LEVELS;
    if (net->height % unit != 0 || net->width % unit != 0)
        crn_zoo_fail(net,
                     "unet halves the image %u times, so its height and width must be multiples of "
                     "%u, not %ux%u; crop or pad the images",
                     LEVELS, unit, net->height, net->width);
    cairn_id skips[LEVELS + 1];
    skips[0] = first(net, crn_zoo_images(net));
    for (uint32_t i = 1; i <= LEVELS; i++)
        skips[i] = down(net, i, skips[i - 1]);
    cairn_id x = skips[LEVELS];
    for (uint32_t i = 1; i <= LEVELS; i++)
        x = up(net, i, x, skips[LEVELS - i], (uint32_t)WIDTH << (LEVELS - i));

    crn_conv last = crn_zoo_square(net->classes, 1, 1, 0);
    last.bias = true;
    x = crn_build_conv2d(net->builder, "outc.conv", x, &last);
    uint32_t shape[3] = {net->batch, net->height, net->width};
    cairn_id label = crn_build_label(net->builder, "label", 3, shape);
    crn_build_smoothed_cross_entropy(net->builder, "loss", x, label, net->smoothing);
}
