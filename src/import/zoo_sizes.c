/* zoo_sizes.c: the sizes of transformers, and what their builders share.
 *
 * The name of a network may end in a colon and a list: the name of a published size, then any of
 * layers, width, heads, kv_heads and ffn as KEY=NUMBER. */
#include "graph/crn_graph.h"
#include "import/zoo_internal.h"

#include <stdio.h>
#include <stdlib.h>

static const struct preset {
    const char *family, *name;
    crn_zoo_sizes sizes;
} presets[] = {
#define X(family, name, layers, width, heads, kv_heads, ffn, vocabulary, positions, theta,         \
          scaling, epsilon, tied, biased)                                                          \
    {#family,                                                                                      \
     name,                                                                                         \
     {layers, width, heads, kv_heads, ffn, vocabulary, positions, theta, scaling, epsilon, tied,   \
      biased}},
#include "import/transformer_sizes.def"
#undef X
};

/* ---- Reading a list ---- */

static const struct key {
    const char *name;
    size_t offset;
} keys[] = {
    {"layers", offsetof(crn_zoo_sizes, layers)},     {"width", offsetof(crn_zoo_sizes, width)},
    {"heads", offsetof(crn_zoo_sizes, heads)},       {"ffn", offsetof(crn_zoo_sizes, ffn)},
    {"kv_heads", offsetof(crn_zoo_sizes, kv_heads)},
};

#define MOST 1000000ul /* a larger number is probably a typing error */

/* "KEY=NUMBER", `length` bytes of it. */
static bool read_number(const char *item, size_t length, crn_zoo_sizes *out) {
    for (size_t i = 0; i < CRN_LENGTH(keys); i++) {
        size_t name = strlen(keys[i].name);
        if (length <= name + 1 || strncmp(item, keys[i].name, name) != 0 || item[name] != '=')
            continue;
        char *end;
        unsigned long value = strtoul(item + name + 1, &end, 10);
        bool good = item[name + 1] >= '1' && item[name + 1] <= '9';
        if (!good || end != item + length || value > MOST)
            return false;
        uint32_t narrow = (uint32_t)value;
        memcpy((char *)out + keys[i].offset, &narrow, sizeof narrow);
        return true;
    }
    return false;
}

static bool is_named(const struct preset *preset, const char *item, size_t length) {
    return strlen(preset->name) == length && strncmp(preset->name, item, length) == 0;
}

/* The published size of that name; of no name (NULL), the family's default. */
static bool read_preset(const char *family, const char *item, size_t length, crn_zoo_sizes *out) {
    for (size_t i = 0; i < CRN_LENGTH(presets); i++)
        if (strcmp(presets[i].family, family) == 0 &&
            (item == NULL || is_named(&presets[i], item, length))) {
            *out = presets[i].sizes;
            return true;
        }
    return false;
}

uint32_t crn_zoo_vocabulary(const char *sizes) {
    for (size_t i = 0; i < CRN_LENGTH(presets); i++)
        if (is_named(&presets[i], sizes, strcspn(sizes, ",")))
            return presets[i].sizes.vocabulary;
    return 0;
}

static void refuse(crn_zoo *net, const char *family, const char *item, size_t length) {
    char known[200] = "";
    for (size_t i = 0; i < CRN_LENGTH(presets); i++)
        if (strcmp(presets[i].family, family) == 0) {
            size_t used = strlen(known);
            snprintf(known + used, sizeof known - used, "%s, ", presets[i].name);
        }
    crn_zoo_fail(
        net, "\"%.*s\" is not a size; the sizes are %slayers=, width=, heads=, kv_heads= and ffn=",
        (int)CRN_MIN(length, 60), item, known);
}

static bool fit(crn_zoo *net, const crn_zoo_sizes *s) {
    bool fits = s->width % s->heads == 0 && s->heads % s->kv_heads == 0;
    if (!fits)
        crn_zoo_fail(net,
                     "a width of %u, %u heads and %u key and value heads do not fit: each must be "
                     "a multiple of the next",
                     s->width, s->heads, s->kv_heads);
    return fits;
}

bool crn_zoo_read_sizes(crn_zoo *net, const char *family, crn_zoo_sizes *out) {
    bool known = read_preset(family, NULL, 0, out), first = true, given = false;
    for (const char *item = net->sizes; known && *item != '\0'; first = false) {
        size_t length = strcspn(item, ",");
        known = (first && read_preset(family, item, length, out)) || read_number(item, length, out);
        if (!known)
            refuse(net, family, item, length);
        given = given || strncmp(item, "kv_heads", 8) == 0;
        if (strncmp(item, "heads", 5) == 0 && !given)
            out->kv_heads = out->heads;
        item += length + (item[length] == ',');
    }
    return known && fit(net, out);
}

/* ---- Blocks that several networks have ---- */

cairn_id crn_zoo_linear(crn_zoo *net, const char *name, cairn_id x, uint32_t features, bool bias,
                        double deviation) {
    cairn_tensor input = crn_builder_peek(net->builder, x);
    uint32_t shape[] = {features, input.rank == 0 ? 1 : input.shape[input.rank - 1]};
    cairn_id weight =
        crn_build_parameter(net->builder, crn_zoo_name(net, "%s.weight", name), 2, shape);
    cairn_id offset = CAIRN_NONE;
    if (bias)
        offset = crn_build_parameter(net->builder, crn_zoo_name(net, "%s.bias", name), 1, shape);
    return crn_build_linear_with(net->builder, crn_zoo_name(net, "%s", name), x, weight, offset,
                                 deviation);
}

cairn_id crn_zoo_embedding(crn_zoo *net, const char *name, uint32_t width, cairn_id *table) {
    uint32_t tokens[] = {net->batch, net->steps}, shape[] = {net->classes, width};
    cairn_id input = crn_build_tokens(net->builder, "input", 2, tokens);
    *table = crn_build_parameter(net->builder, crn_zoo_name(net, "%s.weight", name), 2, shape);
    return crn_build_embedding(net->builder, crn_zoo_name(net, "%s", name), input, *table,
                               CRN_ZOO_DEVIATION);
}

void crn_zoo_token_loss(crn_zoo *net, cairn_id logits) {
    uint32_t shape[] = {net->batch, net->steps};
    cairn_id label = crn_build_label(net->builder, "label", 2, shape);
    crn_build_token_cross_entropy(net->builder, "loss", logits, label, net->smoothing);
}
