/* network_layers.c: see network_layers.h. */
#include "import/network_layers.h"

#define SIZE CRN_EXTENT_SIZE
#define ROWS CRN_EXTENT_ROWS
#define CHANNELS CRN_EXTENT_CHANNELS
#define LAST CRN_EXTENT_LAST
#define PARAMETER CAIRN_ROLE_PARAMETER
#define STATE CAIRN_ROLE_STATE

static const crn_layer layers[] = {
    {.kind = "conv2d",
     .size = "channels",
     .optional = true,
     .count = 2,
     .params = {{"weight",
                 PARAMETER,
                 4,
                 {SIZE, CRN_EXTENT_PER_GROUP, CRN_EXTENT_HEIGHT, CRN_EXTENT_WIDTH}},
                {"bias", PARAMETER, 1, {SIZE}}}},
    {.kind = "conv_transpose2d",
     .size = "channels",
     .optional = true,
     .count = 2,
     .params = {{"weight", PARAMETER, 4, {CHANNELS, SIZE, CRN_EXTENT_HEIGHT, CRN_EXTENT_WIDTH}},
                {"bias", PARAMETER, 1, {SIZE}}}},
    {.kind = "linear",
     .size = "features",
     .optional = true,
     .count = 2,
     .params = {{"weight", PARAMETER, 2, {SIZE, LAST}}, {"bias", PARAMETER, 1, {SIZE}}}},
    {.kind = "batch_norm",
     .count = 4,
     .params = {{"weight", PARAMETER, 1, {CHANNELS}},
                {"bias", PARAMETER, 1, {CHANNELS}},
                {"running_mean", STATE, 1, {CHANNELS}},
                {"running_var", STATE, 1, {CHANNELS}}}},
    {.kind = "layer_norm",
     .optional = true,
     .count = 2,
     .params = {{"weight", PARAMETER, 1, {LAST}}, {"bias", PARAMETER, 1, {LAST}}}},
    {.kind = "rms_norm", .count = 1, .params = {{"weight", PARAMETER, 1, {LAST}}}},
    {.kind = "embedding",
     .size = "features",
     .rows = true,
     .count = 1,
     .params = {{"weight", PARAMETER, 2, {ROWS, SIZE}}}},
    {.kind = "add_positions",
     .rows = true,
     .count = 1,
     .params = {{"weight", PARAMETER, 2, {ROWS, LAST}}}},
    {.kind = "cross_entropy", .label = 1},
    {.kind = "token_cross_entropy", .label = -1},
};

const crn_layer *crn_layer_of(const char *kind) {
    static const crn_layer plain = {0};
    for (size_t i = 0; i < CRN_LENGTH(layers); i++)
        if (strcmp(layers[i].kind, kind) == 0)
            return &layers[i];
    return &plain;
}

bool crn_layer_shape(const crn_layer_param *param, const cairn_tensor *x,
                     const cairn_attributes *attributes, uint32_t size, uint32_t rows,
                     uint32_t *shape) {
    uint32_t groups = (uint32_t)CRN_MAX(attributes->groups, 1);
    for (uint32_t i = 0; i < param->rank; i++) {
        crn_extent extent = param->shape[i];
        if ((extent == CHANNELS || extent == CRN_EXTENT_PER_GROUP) && x->rank < 2)
            return false;
        switch (extent) {
        case CRN_EXTENT_SIZE:
            shape[i] = size;
            break;
        case CRN_EXTENT_ROWS:
            shape[i] = rows;
            break;
        case CRN_EXTENT_CHANNELS:
            shape[i] = x->shape[1];
            break;
        case CRN_EXTENT_PER_GROUP:
            shape[i] = x->shape[1] / groups;
            break;
        case CRN_EXTENT_LAST:
            shape[i] = x->rank > 0 ? x->shape[x->rank - 1] : 0;
            break;
        default:
            shape[i] = (uint32_t)attributes->kernel[extent - CRN_EXTENT_HEIGHT];
        }
        if (shape[i] == 0)
            return false;
    }
    return true;
}

static const crn_attribute *attribute_called(const char *name) {
    for (size_t i = 0; i < crn_attribute_count; i++)
        if (strcmp(crn_attribute_list[i].name, name) == 0)
            return &crn_attribute_list[i];
    return NULL;
}

bool crn_layer_default(const char *kind, const crn_attribute *attribute,
                       cairn_attributes *attributes) {
    static const struct {
        const char *name;
        double value;
    } defaults[] = {
        {"dilation", 1},      {"groups", 1},     {"pad", 0},
        {"index", 0},         {"theta", 10000},  {"count_padding", 1},
        {"probability", 0.5}, {"epsilon", 1e-5}, {"momentum", 0.1},
    };
    static const struct {
        const char *name, *of; /* the same as another attribute */
    } equal[] = {{"stride", "kernel"}, {"kv_heads", "heads"}};
    char *field = (char *)attributes + attribute->offset;
    bool plain_stride = strcmp(kind, "conv2d") == 0 && strcmp(attribute->name, "stride") == 0;
    for (size_t i = 0; i < CRN_LENGTH(equal) && !plain_stride; i++)
        if (strcmp(equal[i].name, attribute->name) == 0) {
            const crn_attribute *of = attribute_called(equal[i].of);
            memcpy(field, (const char *)attributes + of->offset, of->count * sizeof(int32_t));
            return true;
        }
    double value = 0;
    bool known = plain_stride || (attribute->bit & A_OPTIONAL) != 0;
    for (size_t i = 0; i < CRN_LENGTH(defaults); i++)
        if (strcmp(defaults[i].name, attribute->name) == 0) {
            known = true;
            value = defaults[i].value;
        }
    if (plain_stride)
        value = 1;
    int32_t whole = (int32_t)value;
    for (uint32_t i = 0; i < attribute->count; i++)
        memcpy(field + i * sizeof whole, &whole, sizeof whole);
    if (attribute->count == 0)
        memcpy(field, &value, sizeof value);
    return known;
}
