/* op_kinds.c: the tables of op kinds, roles, phases and attributes. */
#include "graph/graph_internal.h"

#define MANY UINT32_MAX
#define F_ONCE CAIRN_OP_FLAG_ONCE
#define F_RANDOM CAIRN_OP_FLAG_RANDOM

/* Properties of the kind, not flags of its ops. */
#define F_PRODUCT 0x100u
#define F_PASSES 0x200u
#define FLAGS_OF_OPS 0xffu
#define WINDOW 0

#define PAIRS(...)                                                                                 \
    (const cairn_inplace[]) {                                                                      \
        __VA_ARGS__                                                                                \
    }
#define I_NONE NULL, 0
#define I_00 PAIRS({0, 0}), 1
#define I_01 PAIRS({0, 1}), 1
#define I_02 PAIRS({0, 2}), 1
#define I_10 PAIRS({1, 0}), 1
#define I_00_01 PAIRS({0, 0}, {0, 1}), 2
#define I_01_00 PAIRS({0, 1}, {0, 0}), 2

const crn_op_kind crn_op_kinds[CAIRN_OP_KINDS] = {
#define X(name, number, text, il, im, ol, om, pl, pm, attributes, flags, work, inplace, start, in) \
    [CAIRN_OP_##name] = {#text,                                                                    \
                         il,                                                                       \
                         im,                                                                       \
                         ol,                                                                       \
                         om,                                                                       \
                         pl,                                                                       \
                         pm,                                                                       \
                         attributes,                                                               \
                         (flags)&FLAGS_OF_OPS,                                                     \
                         ((flags)&F_PRODUCT) != 0,                                                 \
                         ((flags)&F_PASSES) != 0,                                                  \
                         work,                                                                     \
                         inplace,                                                                  \
                         start,                                                                    \
                         in},
#include "cairn/op_kinds.def"
#undef X
};

#define FIELD(name) offsetof(cairn_attributes, name)
const crn_attribute crn_attribute_list[] = {
    {A_KERNEL, "kernel", FIELD(kernel), 2},
    {A_STRIDE, "stride", FIELD(stride), 2},
    {A_PAD, "pad", FIELD(pad), 4},
    {A_DILATION, "dilation", FIELD(dilation), 2},
    {A_GROUPS, "groups", FIELD(groups), 1},
    {A_SIZE, "size", FIELD(size), 2},
    {A_INDEX, "index", FIELD(index), 1},
    {A_COUNT_PADDING, "count_padding", FIELD(count_padding), 1},
    {A_PROBABILITY, "probability", FIELD(probability), 0},
    {A_EPSILON, "epsilon", FIELD(epsilon), 0},
    {A_MOMENTUM, "momentum", FIELD(momentum), 0},
    {A_SMOOTHING, "smoothing", FIELD(smoothing), 0},
    {A_HEADS, "heads", FIELD(heads), 1},
    {A_KV_HEADS, "kv_heads", FIELD(kv_heads), 1},
    {A_CAUSAL, "causal", FIELD(causal), 1},
    {A_TANH, "tanh", FIELD(tanh), 1},
    {A_SAME_ROW, "same_row", FIELD(same_row), 1},
    {A_THETA, "theta", FIELD(theta), 0},
    {A_DEVIATION, "deviation", FIELD(deviation), 0},
    {A_SCALING, "scaling", FIELD(scaling), 0},
};
const size_t crn_attribute_count = CRN_LENGTH(crn_attribute_list);

const char *const crn_role_names[] = {"input",    "label",    "parameter", "state", "activation",
                                      "internal", "gradient", "loss",      "slot"};
const char *const crn_dtype_names[] = {"f32",  "i32", "u8",  "f64", "f16",
                                       "bf16", "i64", "i16", "i8",  "bool"};
const char *const crn_phase_names[] = {"forward", "backward", "update"};

uint32_t crn_dtype_size(cairn_dtype dtype) {
    static const uint8_t sizes[] = {4, 4, 1, 8, 2, 2, 8, 2, 1, 1};
    return sizes[dtype];
}

const char *crn_role_name(cairn_role role) {
    return (unsigned)role <= CAIRN_ROLE_SLOT ? crn_role_names[role] : NULL;
}

const char *crn_phase_name(cairn_phase phase) {
    return (unsigned)phase <= CAIRN_PHASE_UPDATE ? crn_phase_names[phase] : NULL;
}

const char *cairn_op_kind_name(cairn_op_kind kind) {
    return (unsigned)kind < CAIRN_OP_KINDS ? crn_op_kinds[kind].name : NULL;
}
