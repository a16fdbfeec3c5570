/* zoo_vit.c: the vision transformer of A. Dosovitskiy and others, "An image is worth 16x16 words"
 * (2021), with patches of 16 x 16 pixels and torchvision's names; without dropout.
 *
 *     image -> conv_proj -> class token, patches -> + positions -> layer x layers -> ln -> token 0
 *           -> head -> loss
 *     layer:  x + out_proj(attention(in_proj(ln_1(x)))),  then x + mlp.3(gelu(mlp.0(ln_2(x)))) */
#include "import/zoo_internal.h"
#include "graph/crn_graph.h"

#define PATCH 16

/* The projections to queries, keys and values, whose parameters are in_proj_weight and _bias. */
static cairn_id project(crn_zoo *net, const crn_zoo_sizes *s, cairn_id x) {
    cairn_builder *b = net->builder;
    uint32_t shape[] = {3 * s->width, s->width};
    cairn_id weight = crn_build_parameter(b, crn_zoo_name(net, "in_proj_weight"), 2, shape);
    cairn_id bias = crn_build_parameter(b, crn_zoo_name(net, "in_proj_bias"), 1, shape);
    return crn_build_linear_with(b, crn_zoo_name(net, "in_proj"), x, weight, bias,
                                 CRN_ZOO_DEVIATION);
}

static cairn_id layer(crn_zoo *net, const crn_zoo_sizes *s, cairn_id x) {
    cairn_builder *b = net->builder;
    cairn_id y = crn_build_layer_norm(b, crn_zoo_name(net, "ln_1"), x, s->epsilon);
    size_t outside = crn_zoo_enter(net, "self_attention");
    y = project(net, s, y);
    y = crn_build_attention(b, crn_zoo_name(net, "attention"), y, s->heads, s->heads, false);
    y = crn_zoo_linear(net, "out_proj", y, s->width, true, CRN_ZOO_DEVIATION);
    x = crn_build_add(b, crn_zoo_name(net, "sum"), x, y);
    crn_zoo_leave(net, outside);
    y = crn_build_layer_norm(b, crn_zoo_name(net, "ln_2"), x, s->epsilon);
    y = crn_zoo_linear(net, "mlp.0", y, s->ffn, true, CRN_ZOO_DEVIATION);
    y = crn_build_gelu(b, crn_zoo_name(net, "mlp.1"), y, false);
    y = crn_zoo_linear(net, "mlp.3", y, s->width, true, CRN_ZOO_DEVIATION);
    return crn_build_add(b, crn_zoo_name(net, "mlp.sum"), x, y);
}

static cairn_id patches(crn_zoo *net, const crn_zoo_sizes *s) {
    cairn_builder *b = net->builder;
    crn_conv conv = crn_zoo_square(s->width, PATCH, PATCH, 0);
    conv.bias = true;
    cairn_id x = crn_build_conv2d(b, "conv_proj", crn_zoo_images(net), &conv);
    cairn_id token = crn_build_parameter(b, "class_token", 1, &s->width);
    x = crn_build_image_tokens(b, "tokens", x, token);
    uint32_t shape[] = {crn_builder_peek(b, x).shape[1], s->width};
    cairn_id positions = crn_build_parameter(b, "encoder.pos_embedding", 2, shape);
    return crn_build_add_positions(b, "encoder.positions", x, positions, false, CRN_ZOO_DEVIATION);
}

static void build(crn_zoo *net, const char *family) {
    crn_zoo_sizes s;
    cairn_builder *b = net->builder;
    if (!crn_zoo_read_sizes(net, family, &s))
        return;
    cairn_id x = patches(net, &s);
    for (uint32_t i = 0; i < s.layers && x != CAIRN_NONE; i++) {
        size_t outside = crn_zoo_enter(net, "encoder.layers.encoder_layer_%u", i);
        x = layer(net, &s, x);
        crn_zoo_leave(net, outside);
    }
    x = crn_build_layer_norm(b, "encoder.ln", x, s.epsilon);
    x = crn_build_select_token(b, "class", x, 0);
    crn_zoo_loss(net, crn_build_linear(b, "heads.head", x, net->classes));
}

void crn_zoo_vit_b(crn_zoo *net) {
    build(net, "vit_b");
}

void crn_zoo_vit_l(crn_zoo *net) {
    build(net, "vit_l");
}
