/* random_cases.h: cases for op_cases.h with random shapes, strides, groups, dilations and paddings.
 */
#ifndef RANDOM_CASES_H
#define RANDOM_CASES_H

#include "backend/op_cases.h"
#include "base/rng.h"

static inline uint32_t draw(crn_rng *rng, uint32_t least, uint32_t most) {
    return least + (uint32_t)crn_rng_below(rng, most - least + 1);
}

static inline uint32_t draw_channels(crn_rng *rng) {
    static const uint32_t some[] = {1, 2, 3, 8, 15, 16, 17, 24, 31, 32, 33, 48};
    return some[crn_rng_below(rng, (uint32_t)CRN_LENGTH(some))];
}

static inline json_t *random_conv(crn_rng *rng) {
    uint32_t groups = crn_rng_below(rng, 3) == 0 ? draw_channels(rng) : 1;
    uint32_t in = groups * draw(rng, 1, groups > 1 ? 3 : 1), out = groups * draw(rng, 1, 2);
    if (groups == 1) {
        in = draw_channels(rng);
        out = draw_channels(rng);
    }
    uint32_t kh = draw(rng, 1, 5), kw = draw(rng, 1, 4), dh = draw(rng, 1, 2), dw = draw(rng, 1, 3);
    uint32_t h = (kh - 1) * dh + draw(rng, 1, 9), w = (kw - 1) * dw + draw(rng, 1, 9);
    json_t *params = json_pack("[[i,i,i,i]]", out, in / groups, kh, kw);
    if (crn_rng_below(rng, 2) == 0)
        json_array_append_new(params, json_pack("[i]", out));
    return json_pack("{s:s, s:s, s:[[i,i,i,i]], s:o, s:{s:[i,i], s:[i,i], s:[i,i,i,i], s:[i,i], "
                     "s:i}}",
                     "name", "random_conv", "kind", "conv2d", "inputs", draw(rng, 1, 3), in, h, w,
                     "params", params, "attributes", "kernel", kh, kw, "stride", draw(rng, 1, 3),
                     draw(rng, 1, 3), "pad", draw(rng, 0, 2), draw(rng, 0, 2), draw(rng, 0, 2),
                     draw(rng, 0, 2), "dilation", dh, dw, "groups", groups);
}

static inline json_t *random_transpose(crn_rng *rng) {
    uint32_t in = draw_channels(rng), out = draw_channels(rng);
    uint32_t kh = draw(rng, 1, 4), kw = draw(rng, 1, 4);
    json_t *params = json_pack("[[i,i,i,i]]", in, out, kh, kw);
    if (crn_rng_below(rng, 2) == 0)
        json_array_append_new(params, json_pack("[i]", out));
    return json_pack("{s:s, s:s, s:[[i,i,i,i]], s:o, s:{s:[i,i], s:[i,i]}}", "name",
                     "random_transpose", "kind", "conv_transpose2d", "inputs", draw(rng, 1, 3), in,
                     draw(rng, 1, 7), draw(rng, 1, 7), "params", params, "attributes", "kernel", kh,
                     kw, "stride", draw(rng, 1, 3), draw(rng, 1, 3));
}

static inline json_t *random_norm(crn_rng *rng) {
    uint32_t channels = draw_channels(rng);
    return json_pack("{s:s, s:s, s:[[i,i,i,i]], s:[[i],[i],[i],[i]], s:{s:f, s:f}}", "name",
                     "random_norm", "kind", "batch_norm", "inputs", draw(rng, 2, 4), channels,
                     draw(rng, 2, 20), draw(rng, 2, 9), "params", channels, channels, channels,
                     channels, "attributes", "epsilon", 1e-5, "momentum", 0.1);
}

static inline json_t *random_pool(crn_rng *rng, const char *kind) {
    uint32_t kh = draw(rng, 1, 4), kw = draw(rng, 1, 4);
    return json_pack("{s:s, s:s, s:[[i,i,i,i]], s:{s:[i,i], s:[i,i], s:[i,i,i,i], s:i}}", "name",
                     "random_pool", "kind", kind, "inputs", draw(rng, 1, 3), draw_channels(rng),
                     kh + draw(rng, 0, 9), kw + draw(rng, 0, 9), "attributes", "kernel", kh, kw,
                     "stride", draw(rng, 1, 3), draw(rng, 1, 3), "pad", draw(rng, 0, kh / 2),
                     draw(rng, 0, kw / 2), draw(rng, 0, kh / 2), draw(rng, 0, kw / 2),
                     "count_padding", draw(rng, 0, 1));
}

static inline json_t *random_adaptive(crn_rng *rng) {
    uint32_t h = draw(rng, 1, 12), w = draw(rng, 1, 12);
    return json_pack("{s:s, s:s, s:[[i,i,i,i]], s:{s:[i,i]}}", "name", "random_adaptive", "kind",
                     "adaptive_avg_pool", "inputs", draw(rng, 1, 3), draw_channels(rng), h, w,
                     "attributes", "size", draw(rng, 1, h), draw(rng, 1, w));
}

static inline json_t *random_concat(crn_rng *rng) {
    uint32_t n = draw(rng, 1, 3), h = draw(rng, 1, 5), w = draw(rng, 1, 5);
    return json_pack("{s:s, s:s, s:[[i,i,i,i],[i,i,i,i],[i,i,i,i]]}", "name", "random_concat",
                     "kind", "concat", "inputs", n, draw_channels(rng), h, w, n, draw_channels(rng),
                     h, w, n, draw_channels(rng), h, w);
}

static inline json_t *random_pointwise(crn_rng *rng, const char *kind) {
    json_t *shape = json_pack("[i,i,i,i]", draw(rng, 1, 3), draw_channels(rng), draw(rng, 1, 20),
                              draw(rng, 1, 20));
    json_t *inputs = json_array();
    json_array_append(inputs, shape);
    if (strcmp(kind, "add") == 0)
        json_array_append(inputs, shape);
    json_decref(shape);
    return json_pack("{s:s, s:s, s:o, s:{s:f}}", "name", "random_pointwise", "kind", kind, "inputs",
                     inputs, "attributes", "probability", 0.3);
}

static inline json_t *random_case(crn_rng *rng, uint32_t number) {
    static const char *const pools[] = {"max_pool", "avg_pool"};
    static const char *const pointwise[] = {"relu", "dropout", "add"};
    switch (number % 12) {
    case 0:
        return random_norm(rng);
    case 1:
    case 2:
        return random_pool(rng, pools[number % 12 - 1]);
    case 3:
        return random_adaptive(rng);
    case 4:
        return random_concat(rng);
    case 5:
        return random_transpose(rng);
    case 6:
        return random_pointwise(rng, pointwise[number / 12 % 3]);
    default:
        return random_conv(rng);
    }
}

/* ---- Ops on sequences of tokens ---- */

#define RANDOM_SEQUENCES 12 /* kinds */

static inline uint32_t draw_width(crn_rng *rng) {
    static const uint32_t some[] = {8, 16, 24, 40, 64, 136, 264, 7, 33, 130};
    return some[crn_rng_below(rng, (uint32_t)CRN_LENGTH(some))];
}

static inline json_t *random_embedding(crn_rng *rng) {
    return json_pack("{s:s, s:s, s:[[i,i]], s:[[i,i]]}", "name", "random_embedding", "kind",
                     "embedding", "inputs", draw(rng, 1, 6), draw(rng, 1, 120), "params",
                     draw(rng, 5, 200), draw_width(rng));
}

static inline json_t *random_positions(crn_rng *rng) {
    uint32_t tokens = draw(rng, 1, 30), width = draw_width(rng);
    return json_pack("{s:s, s:s, s:[[i,i,i]], s:[[i,i]], s:{s:i}}", "name", "random_positions",
                     "kind", "add_positions", "inputs", draw(rng, 1, 5), tokens, width, "params",
                     tokens + draw(rng, 0, 3), width, "attributes", "same_row", draw(rng, 0, 1));
}

static inline json_t *random_image_tokens(crn_rng *rng) {
    uint32_t channels = draw_channels(rng);
    json_t *params = draw(rng, 0, 1) == 1 ? json_pack("[[i]]", channels) : json_array();
    return json_pack("{s:s, s:s, s:[[i,i,i,i]], s:o}", "name", "random_image_tokens", "kind",
                     "image_tokens", "inputs", draw(rng, 1, 4), channels, draw(rng, 1, 6),
                     draw(rng, 2, 6), "params", params);
}

static inline json_t *random_select_token(crn_rng *rng) {
    uint32_t tokens = draw(rng, 1, 9);
    return json_pack("{s:s, s:s, s:[[i,i,i]], s:{s:i}}", "name", "random_select_token", "kind",
                     "select_token", "inputs", draw(rng, 1, 4), tokens, draw_width(rng),
                     "attributes", "index", draw(rng, 0, tokens - 1));
}

/* Long rows too: backends treat them in other ways. */
static inline json_t *random_row_norm(crn_rng *rng, bool centred) {
    static const uint32_t long_rows[] = {600, 1032, 1600, 2056, 4104, 8216};
    uint32_t width = draw_width(rng), rows = draw(rng, 1, 400);
    if (draw(rng, 0, 2) == 0) {
        width = long_rows[crn_rng_below(rng, (uint32_t)CRN_LENGTH(long_rows))];
        rows = draw(rng, 1, 8);
    }
    json_t *params = json_pack("[[i]]", width);
    if (centred && draw(rng, 0, 2) > 0)
        json_array_append_new(params, json_pack("[i]", width));
    return json_pack("{s:s, s:s, s:[[i,i,i]], s:o, s:{s:f}}", "name", "random_row_norm", "kind",
                     centred ? "layer_norm" : "rms_norm", "inputs", draw(rng, 1, 5), rows, width,
                     "params", params, "attributes", "epsilon", 1e-5);
}

static inline json_t *random_rotary(crn_rng *rng) {
    static const uint32_t sizes[] = {2, 6, 16, 32, 64, 144};
    uint32_t kv_heads = draw(rng, 1, 3), heads = kv_heads * draw(rng, 1, 3);
    uint32_t size = sizes[crn_rng_below(rng, (uint32_t)CRN_LENGTH(sizes))];
    return json_pack("{s:s, s:s, s:[[i,i,i]], s:{s:i, s:i, s:f}}", "name", "random_rotary", "kind",
                     "rotary", "inputs", draw(rng, 1, 3), draw(rng, 1, 40),
                     (heads + 2 * kv_heads) * size, "attributes", "heads", heads, "kv_heads",
                     kv_heads, "theta", 10000.0);
}

static inline json_t *random_gate(crn_rng *rng, const char *kind) {
    bool halves = strcmp(kind, "swiglu") == 0;
    json_t *shape =
        json_pack("[i,i,i]", draw(rng, 1, 4), draw(rng, 1, 30), draw_width(rng) * (halves ? 2 : 1));
    json_t *inputs = json_pack("[O]", shape);
    if (strcmp(kind, "multiply") == 0)
        json_array_append(inputs, shape);
    json_decref(shape);
    return json_pack("{s:s, s:s, s:o, s:{s:i}}", "name", "random_gate", "kind", kind, "inputs",
                     inputs, "attributes", "tanh", draw(rng, 0, 1));
}

static inline json_t *random_token_loss(crn_rng *rng) {
    static const uint32_t words[] = {5, 8, 40, 264, 1000, 5000, 9001};
    return json_pack("{s:s, s:s, s:[[i,i,i]], s:{s:f}}", "name", "random_token_loss", "kind",
                     "token_cross_entropy", "inputs", draw(rng, 1, 3), draw(rng, 2, 5),
                     words[crn_rng_below(rng, (uint32_t)CRN_LENGTH(words))], "attributes",
                     "smoothing", draw(rng, 0, 1) == 1 ? 0.1 : 0.0);
}

static inline json_t *random_sequence(crn_rng *rng, uint32_t number) {
    static const char *const gates[] = {"gelu", "silu", "multiply", "swiglu"};
    switch (number % RANDOM_SEQUENCES) {
    case 0:
        return random_embedding(rng);
    case 1:
        return random_positions(rng);
    case 2:
        return random_image_tokens(rng);
    case 3:
        return random_select_token(rng);
    case 4:
    case 5:
        return random_row_norm(rng, number % RANDOM_SEQUENCES == 4);
    case 6:
        return random_rotary(rng);
    case 7:
        return random_token_loss(rng);
    default:
        return random_gate(rng, gates[number % RANDOM_SEQUENCES - 8]);
    }
}

#endif
