/* test_cpu_ops.c: every op of the fast backend against the reference, within the tolerance of
 * single precision, for plain tensors, tensors in blocks of channels, and mixed ones; over the
 * cases of op_cases.json and over random shapes, strides, groups, dilations and paddings. Also:
 * channels that fill up a block are zero, and a second run and a run in place give the same
 * bits. */
#include "backend/formats.h"
#include "backend/random_cases.h"
#include "backend/rig.h"
#include "base/rng.h"

#define TOLERANCE 3e-5 /* of the largest element */

static uint32_t kinds_compared[CAIRN_OP_KINDS], images_blocked, permissions_tried;

/* ---- How tensors are stored ---- */

enum { PLAIN, BLOCKED, NARROW, MIXED, MODES };

static void store(rig *r, int mode, crn_rng *rng) {
    uint32_t block = mode == NARROW ? 8 : 16;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(r->graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(r->graph, t);
        r->storage[t] = crn_storage_of(tensor, CRN_PLAIN, 1, CRN_AS_GRAPH);
        if (tensor->rank != 4 || tensor->stationary || mode == PLAIN ||
            (mode == MIXED && crn_rng_below(rng, 2) == 0))
            continue;
        r->storage[t] = crn_storage_of(tensor, CRN_BLOCKS, block, CRN_AS_GRAPH);
        images_blocked++;
    }
}

/* Calls visit(context, plain, stored) with both indices of every element; plain is UINT64_MAX for
 * padding of a block. */
static void visit_elements(const cairn_tensor *t, crn_storage storage,
                           void (*visit)(void *, uint64_t plain, uint64_t stored), void *context) {
    uint64_t count = fill_count(t), block = storage.block;
    if (block == 1) {
        for (uint64_t i = 0; i < count; i++)
            visit(context, i, i);
        return;
    }
    uint64_t plane = (uint64_t)t->shape[2] * t->shape[3], channels = t->shape[1];
    uint64_t blocks = (channels + block - 1) / block, stored = 0;
    for (uint64_t n = 0; n < t->shape[0]; n++)
        for (uint64_t b = 0; b < blocks; b++)
            for (uint64_t i = 0; i < plane; i++)
                for (uint64_t l = 0; l < block; l++, stored++) {
                    uint64_t c = b * block + l;
                    visit(context, c < channels ? (n * channels + c) * plane + i : UINT64_MAX,
                          stored);
                }
}

typedef struct transfer {
    const char *from;
    char *to;
    size_t size;
    bool filled_with_zeros;
} transfer;

static void to_stored(void *context, uint64_t plain, uint64_t stored) {
    const transfer *at = context;
    static const char zero[8];
    memcpy(at->to + stored * at->size, plain == UINT64_MAX ? zero : at->from + plain * at->size,
           at->size);
}

static void to_plain(void *context, uint64_t plain, uint64_t stored) {
    transfer *at = context;
    static const char zero[8];
    if (plain != UINT64_MAX)
        memcpy(at->to + plain * at->size, at->from + stored * at->size, at->size);
    else if (memcmp(at->from + stored * at->size, zero, at->size) != 0)
        at->filled_with_zeros = false;
}

static size_t element_size(const cairn_tensor *t) {
    return t->bytes / fill_count(t);
}

/* ---- Comparing ---- */

static bool close_enough(const cairn_tensor *t, const void *ours, const void *theirs) {
    uint64_t count = fill_count(t);
    if (t->dtype != CAIRN_DTYPE_F32)
        return memcmp(ours, theirs, t->bytes) == 0;
    const float *a = ours, *b = theirs;
    double largest = 0, worst = 0;
    for (uint64_t i = 0; i < count; i++)
        largest = isfinite(b[i]) ? fmax(largest, fabs(b[i])) : largest;
    for (uint64_t i = 0; i < count; i++) {
        double off = a[i] == b[i] || (isnan(a[i]) && isnan(b[i])) ? 0 : fabs((double)a[i] - b[i]);
        worst = off <= worst ? worst : off; /* a NaN counts as the worst */
    }
    return worst <= TOLERANCE * fmax(largest, 0.1); /* sums of numbers near 1 may cancel */
}

typedef struct comparison {
    const op_case *c;
    rig ref, cpu;
} comparison;

/* Convert a tensor of the reference to the storage of the fast backend. */
static void give(comparison *at, cairn_id t) {
    const cairn_tensor *tensor = cairn_graph_tensor(at->c->graph, t);
    transfer move = {
        .from = at->ref.place[t], .to = at->cpu.place[t], .size = element_size(tensor)};
    visit_elements(tensor, at->cpu.storage[t], to_stored, &move);
}

static void compare(comparison *at, cairn_id t, const char *op) {
    const cairn_tensor *tensor = cairn_graph_tensor(at->c->graph, t);
    void *plain = rig_block(tensor->bytes);
    transfer move = {.from = at->cpu.place[t],
                     .to = plain,
                     .size = element_size(tensor),
                     .filled_with_zeros = true};
    visit_elements(tensor, at->cpu.storage[t], to_plain, &move);
    bool right = close_enough(tensor, plain, at->ref.place[t]);
    move.filled_with_zeros |=
        tensor->dtype != CAIRN_DTYPE_F32; /* nothing reads the padding of indices */
    CHECK(right && move.filled_with_zeros);
    if (!right || !move.filled_with_zeros)
        fprintf(stderr, "  %s: %s of %s (block %u) %s\n", at->c->name, tensor->name, op,
                at->cpu.storage[t].block, right ? "is not filled up with zeros" : "differs");
    free(plain);
}

/* Compare one op: both get the same operands, then everything that it wrote is compared. */
static void compare_op(comparison *at, cairn_id id) {
    const cairn_op *op = cairn_graph_op(at->c->graph, id);
    kinds_compared[op->kind]++;
    for (uint32_t i = 0; i < op->input_count; i++)
        give(at, op->inputs[i]);
    for (uint32_t i = 0; i < op->param_count; i++)
        give(at, op->params[i]);
    rig_run(&at->ref, id);
    rig_run(&at->cpu, id);
    for (uint32_t i = 0; i < op->output_count; i++)
        if (op->outputs[i] != CAIRN_NONE)
            compare(at, op->outputs[i], op->name);
    for (uint32_t i = 0; i < op->param_count; i++)
        compare(at, op->params[i], op->name);
}

/* ---- A case ---- */

static bool is_alias_op(const cairn_op *op) {
    return op->kind == CAIRN_OP_FLATTEN || op->kind == CAIRN_OP_FLATTEN_BWD;
}

static void test_case(const json_t *given, int mode, uint32_t threads, bool training,
                      crn_rng *rng) {
    op_case c = case_build(given, true);
    comparison at = {.c = &c};
    rig_open(&at.ref, c.graph, "ref", 1);
    rig_open_with(&at.cpu, c.graph, "cpu", threads);
    store(&at.cpu, mode, rng);
    rig_place(&at.cpu);
    at.ref.training = at.cpu.training = training;
    case_fill(&c, &at.ref);
    for (cairn_id o = 0; o < cairn_graph_op_count(c.graph); o++) {
        if (o == c.behind)
            case_fill_gradient(&c, &at.ref);
        if (is_alias_op(cairn_graph_op(c.graph, o))) {
            rig_run(&at.ref, o);
            continue;
        }
        compare_op(&at, o);
        permissions_tried += rig_try_again(&at.cpu, o, 0);
    }
    rig_close(&at.ref);
    rig_close(&at.cpu);
    cairn_graph_destroy(c.graph);
}

int main(void) {
    crn_rng rng = {0};
    if (!rig_has("cpu")) {
        printf("there is no backend cpu in this build\n");
        return 77;
    }
    json_t *cases = case_load(CAIRN_TEST_DATA "/op_cases.json");
    for (size_t i = 0; i < json_array_size(cases); i++)
        for (int mode = 0; mode < MODES; mode++)
            for (uint32_t threads = 1; threads <= 3; threads += 2)
                test_case(json_array_get(cases, i), mode, threads, true, &rng);
    for (uint32_t i = 0; i < 480; i++) {
        json_t *given = random_case(&rng, i);
        for (int mode = 0; mode < MODES; mode++)
            test_case(given, mode, 2, i % 5 != 4, &rng);
        json_decref(given);
    }
    CHECK(images_blocked > 1000 && permissions_tried > 500);
    for (cairn_op_kind kind = 0; kind < CAIRN_OP_KINDS; kind++)
        CHECK(kinds_compared[kind] > 0 || kind == CAIRN_OP_OPAQUE || kind >= CAIRN_OP_UPDATE ||
              kind == CAIRN_OP_FLATTEN || kind == CAIRN_OP_FLATTEN_BWD);
    json_decref(cases);
    return check_result();
}
