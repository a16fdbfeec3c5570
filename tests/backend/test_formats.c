/* test_formats.c: storage formats of tensors: the place of every element, the padding of blocks,
 * stored types; which tensors share a format; what memory a call accesses. */
#include "backend/formats.h"
#include "backend/storage_groups.h"
#include "cairn.h"
#include "check.h"
#include "exec/toy_network.h"
#include "graph/crn_graph.h"

#include <math.h>

static cairn_tensor image(uint32_t n, uint32_t c, uint32_t h, uint32_t w) {
    cairn_tensor t = CAIRN_TENSOR_INIT;
    t.name = "image";
    t.rank = 4;
    memcpy(t.shape, (uint32_t[]){n, c, h, w}, 4 * sizeof *t.shape);
    t.bytes = (uint64_t)n * c * h * w * sizeof(float);
    return t;
}

/* ---- Formats ---- */

/* The place of element (n, c, i), written from the picture of the format. */
static uint64_t place(const cairn_tensor *t, crn_storage s, uint64_t n, uint64_t c, uint64_t i) {
    uint64_t plane = (uint64_t)t->shape[2] * t->shape[3], channels = t->shape[1];
    uint64_t padded = (channels + s.block - 1) / s.block * s.block;
    if (s.format == CRN_BLOCKS)
        return ((n * (padded / s.block) + c / s.block) * plane + i) * s.block + c % s.block;
    return s.format == CRN_CHANNELS_LAST ? (n * plane + i) * padded + c
                                         : (n * channels + c) * plane + i;
}

static void check_format(crn_format format, uint32_t block) {
    cairn_tensor t = image(3, 5, 2, 4);
    crn_storage s = crn_storage_of(&t, format, block, CRN_AS_GRAPH);
    uint64_t elements = t.bytes / sizeof(float), plane = 8, zeros = 0;
    CHECK_U64(crn_stored_elements(&t, s), s.bytes / sizeof(float));
    float *host = malloc(t.bytes), *stored = malloc(s.bytes), *back = calloc(1, t.bytes);
    memset(stored, 0xff, s.bytes);
    for (uint64_t i = 0; i < elements; i++)
        host[i] = (float)i + 1;
    crn_conversion all = {.tensor = &t, .storage = s, .stored = stored, .host = host, .rows = 3};
    crn_convert_rows(&all);
    for (uint64_t n = 0; n < 3; n++)
        for (uint64_t c = 0; c < 5; c++)
            for (uint64_t i = 0; i < plane; i++)
                CHECK(stored[place(&t, s, n, c, i)] == host[(n * 5 + c) * plane + i]);
    for (uint64_t i = 0; i < s.bytes / sizeof(float); i++)
        zeros += stored[i] == 0; /* a NaN means that it was not written */
    CHECK_U64(zeros, s.bytes / sizeof(float) - elements);
    /* back, row by row */
    for (uint64_t n = 0; n < 3; n++) {
        crn_conversion row = {.tensor = &t, .storage = s, .stored = stored, .to_host = true};
        row.first = n;
        row.rows = 1;
        row.host = back + n * 5 * plane;
        crn_convert_rows(&row);
    }
    CHECK(memcmp(host, back, t.bytes) == 0);
    free(host);
    free(stored);
    free(back);
}

/* ---- Types ---- */

static uint16_t stored_half(float value, crn_type type) {
    cairn_tensor t = CAIRN_TENSOR_INIT;
    t.rank = 1;
    t.shape[0] = 1;
    t.bytes = sizeof value;
    uint16_t half = 0;
    crn_conversion c = {.tensor = &t,
                        .storage = crn_storage_of(&t, CRN_PLAIN, 1, type),
                        .stored = &half,
                        .host = &value,
                        .rows = 1};
    CHECK_U64(c.storage.bytes, 2);
    crn_convert_rows(&c);
    float back;
    c.host = &back;
    c.to_host = true;
    crn_convert_rows(&c);
    c.host = &back;
    c.to_host = false;
    uint16_t first = half; /* a value that the type can hold does not change */
    crn_convert_rows(&c);
    CHECK(first == half);
    return half;
}

/* A tensor that is stored twice, two of three rows at a time: its elements, then the same as bf16.
 */
static void test_twice(void) {
    cairn_tensor t = CAIRN_TENSOR_INIT;
    t.rank = 2;
    t.shape[0] = 3;
    t.shape[1] = 2;
    t.bytes = 6 * sizeof(float);
    float values[6] = {1, 2, 3, 4, 5.001f, 6}, back[6] = {0};
    _Alignas(CRN_ALIGNMENT) char stored[CRN_ALIGNMENT + 6 * sizeof(uint16_t)] = {0};
    crn_conversion c = {.tensor = &t,
                        .storage = crn_storage_of(&t, CRN_PLAIN, 1, CRN_TWICE),
                        .stored = stored,
                        .host = values + 2,
                        .first = 1,
                        .rows = 2};
    CHECK_U64(c.storage.bytes, sizeof stored);
    CHECK_U64(crn_stored_elements(&t, c.storage), 6);
    CHECK_U64(crn_storage_once(&t, c.storage).bytes, t.bytes);
    crn_convert_rows(&c);
    const uint16_t *copy = crn_copy_of(&t, c.storage, stored);
    CHECK((const char *)copy == stored + CRN_ALIGNMENT);
    CHECK(memcmp(stored + 2 * sizeof(float), values + 2, 4 * sizeof(float)) == 0);
    CHECK(copy[0] == 0 && copy[1] == 0 && copy[2] == 0x4040 && copy[4] == 0x40a0);
    c.host = back;
    c.to_host = true;
    crn_convert_rows(&c);
    CHECK(memcmp(back, values + 2, 4 * sizeof(float)) == 0);
    CHECK(crn_copy_of(&t, crn_storage_once(&t, c.storage), stored) == NULL);
}

static void test_types(void) {
    static const struct {
        float value;
        uint16_t bf16, f16;
    } cases[] = {{0.0f, 0, 0},
                 {-0.0f, 0x8000, 0x8000},
                 {1.0f, 0x3f80, 0x3c00},
                 {-2.5f, 0xc020, 0xc100},
                 {1.00390625f, 0x3f80, 0x3c04}, /* half way: to even */
                 {1.01171875f, 0x3f82, 0x3c0c}, /* half way: up, to even */
                 {65504.0f, 0x4780, 0x7bff},    /* the largest */
                 {65519.0f, 0x4780, 0x7bff},    /* rounds down to it */
                 {65520.0f, 0x4780, 0x7c00}, /* half way to a value that does not exist: infinity */
                 {6.103515625e-5f, 0x3880, 0x0400}, /* the smallest normal one */
                 {5.9604645e-8f, 0x3380, 0x0001},   /* the smallest subnormal one */
                 {2.9802322e-8f, 0x3300, 0x0000},   /* half of it: to even, which is 0 */
                 {8.9406967e-8f, 0x33c0, 0x0002},
                 {INFINITY, 0x7f80, 0x7c00},
                 {-INFINITY, 0xff80, 0xfc00},
                 {3.4e38f, 0x7f80, 0x7c00}};
    for (size_t i = 0; i < CRN_LENGTH(cases); i++) {
        CHECK_U64(stored_half(cases[i].value, CRN_BF16), cases[i].bf16);
        CHECK_U64(stored_half(cases[i].value, CRN_F16), cases[i].f16);
    }
    CHECK((stored_half(NAN, CRN_BF16) & 0x7fff) > 0x7f80);
    CHECK((stored_half(NAN, CRN_F16) & 0x7fff) > 0x7c00);
}

/* ---- Groups ---- */

static void test_groups(void) {
    cairn_graph *graph = toy_network(NULL, 2, 16);
    uint32_t tensors = cairn_graph_tensor_count(graph), alike = 0;
    cairn_id *group = calloc(tensors, sizeof *group);
    crn_storage_groups(graph, group);
    for (cairn_id t = 0; t < tensors; t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
        CHECK(group[t] <= t && group[group[t]] == group[t]);
        CHECK_U64(group[t], group[crn_graph_storage(graph, t)]);
        if (tensor->stationary && tensor->gradient_of != CAIRN_NONE)
            CHECK_U64(group[t], group[tensor->gradient_of]);
        alike += group[t] != t;
    }
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        const cairn_op *op = cairn_graph_op(graph, o);
        for (uint32_t i = 0; i < op->inplace_count; i++)
            if (op->outputs[op->inplace[i].output] != CAIRN_NONE)
                CHECK_U64(group[op->inputs[op->inplace[i].input]],
                          group[op->outputs[op->inplace[i].output]]);
    }
    CHECK(alike > 10 && alike < tensors);
    CHECK(group[cairn_graph_find_tensor(graph, "conv1.weight")] !=
          group[cairn_graph_find_tensor(graph, "conv2.weight")]);
    free(group);
    cairn_graph_destroy(graph);
}

/* ---- Accesses ---- */

static void test_accesses(void) {
    cairn_graph *graph = toy_network(NULL, 2, 16);
    const cairn_op *op = cairn_graph_op(graph, crn_graph_find_op(graph, "bn1"));
    uint32_t tensors = cairn_graph_tensor_count(graph);
    crn_storage *storage = calloc(tensors, sizeof *storage);
    for (cairn_id t = 0; t < tensors; t++)
        storage[t] = crn_storage_of(cairn_graph_tensor(graph, t), CRN_PLAIN, 1, CRN_AS_GRAPH);
    static char memory[16];
    const void *inputs[] = {&memory[0]};
    void *outputs[] = {&memory[1], &memory[2]};
    void *params[] = {&memory[3], &memory[4], &memory[5], &memory[6]};
    crn_call call = {.graph = graph,
                     .op = op,
                     .storage = storage,
                     .inputs = inputs,
                     .outputs = outputs,
                     .params = params,
                     .workspace = &memory[7],
                     .workspace_bytes = 640,
                     .training = true};
    crn_access found[16];
    uint32_t count = crn_call_accesses(&call, found, 16), written = 0;
    CHECK_U64(count, 1 + 2 + 4 + 1);
    for (uint32_t i = 0; i < count; i++)
        written += found[i].writes;
    CHECK_U64(written, 2 + 2 + 1); /* outputs, running statistics, workspace */
    CHECK(found[0].at == &memory[0] && !found[0].writes);
    CHECK_U64(found[0].bytes, storage[op->inputs[0]].bytes);
    CHECK(found[7].at == &memory[7] && found[7].writes && found[7].bytes == 640);
    call.again = true; /* running statistics are read now */
    outputs[1] = NULL; /* and the other output is not computed */
    count = crn_call_accesses(&call, found, 3);
    CHECK_U64(count, 1 + 1 + 4 + 1); /* the count, even if there is room for only three */
    written = 0;
    for (uint32_t i = 0; i < 3; i++)
        written += found[i].writes;
    CHECK_U64(written, 1);
    free(storage);
    cairn_graph_destroy(graph);
}

int main(void) {
    static const uint32_t blocks[] = {1, 2, 4, 5, 8, 16};
    check_format(CRN_PLAIN, 1);
    for (size_t i = 0; i < CRN_LENGTH(blocks); i++) {
        check_format(CRN_BLOCKS, blocks[i]);
        check_format(CRN_CHANNELS_LAST, blocks[i]);
    }
    test_types();
    test_twice();
    test_groups();
    test_accesses();
    return check_result();
}
