/* test_cuda_ops.c: every op of the backend cuda against the reference, within the tolerance of
 * single precision, over the cases of op_cases.json and over random ones; images are stored
 * channels-last, plain, mixed, and mixed with bf16 ones. Also: a second run and a run in place give the same bits, and
 * conversions agree with formats.h. Runs on the processor (fake_driver.h), or with the argument
 * "device" on a GPU; exits with 77 if there is none. */
#include "backend/formats.h"
#include "backend/random_cases.h"
#include "backend/rig.h"
#include "base/rng.h"
#include "fake_driver.h"
#include "fake_libraries.h"

extern const crn_backend crn_backend_cuda;

static const crn_backend *subject = &fake_backend_cuda_host;
static double tolerance = 3e-5; /* of the largest element */
#define HALF_TOLERANCE 1e-2     /* if images are bf16 */
static uint32_t kinds_compared[CAIRN_OP_KINDS], images_last, images_half, permissions_tried;

/* ---- A device with a place for every tensor ---- */

typedef struct bench {
    const cairn_graph *graph;
    cairn_device *device;
    const crn_backend *backend;
    crn_queue *queue;
    crn_storage *storage;
    void **place, *workspace;
    uint64_t workspace_bytes;
    bool training, again;
    double tolerance;
} bench;

static void *take(const bench *b, uint64_t bytes) {
    void *region;
    cairn_error err = {0};
    CHECK_OK(b->backend->reserve(b->device->state, CRN_DEVICE, bytes, &region, &err), &err);
    return region;
}

static void drop(const bench *b, void *region, uint64_t bytes) {
    b->backend->release(b->device->state, CRN_DEVICE, region, bytes);
}

/* Copy bytes without conversion. */
static void carry(const bench *b, void *stored, void *host, uint64_t bytes, bool to_host) {
    cairn_tensor raw = {.bytes = bytes};
    cairn_error err = {0};
    crn_conversion c = {.tensor = &raw,
                        .storage = {.bytes = bytes, .block = 1},
                        .stored = stored,
                        .host = host,
                        .rows = 1,
                        .to_host = to_host};
    b->backend->convert(b->queue, &c);
    CHECK_OK(b->backend->join(b->queue, NULL, &err), &err);
}

enum { OWN, PLAIN, MIXED, HALF, MODES };

static void choose_storage(bench *b, int mode, crn_rng *rng) {
    cairn_error err = {0};
    CHECK_OK(crn_device_store(b->device, b->graph, b->storage, &err), &err);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(b->graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(b->graph, t);
        bool image = tensor->rank == 4 && !tensor->stationary && tensor->dtype == CAIRN_DTYPE_F32;
        bool drawn = mode >= MIXED && crn_rng_below(rng, mode == MIXED ? 2 : 4) == 0;
        if (image && (mode == PLAIN || drawn))
            b->storage[t] = crn_storage_of(tensor, CRN_PLAIN, 1, CRN_AS_GRAPH);
        images_last += b->storage[t].format == CRN_CHANNELS_LAST;
        images_half += b->storage[t].type == CRN_BF16;
    }
}

static bench open_bench(const cairn_graph *graph, int mode, crn_rng *rng) {
    bench b = {.graph = graph};
    cairn_error err = {0};
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    uint32_t tensors = cairn_graph_tensor_count(graph);
    options.math = mode == HALF ? CAIRN_MATH_BF16 : CAIRN_MATH_FP32;
    b.tolerance = mode == HALF ? HALF_TOLERANCE : tolerance;
    CHECK_OK(crn_device_open(subject, &options, &b.device, &err), &err);
    b.backend = subject;
    CHECK_OK(subject->queue(b.device->state, &b.queue, &err), &err);
    b.storage = calloc(tensors, sizeof *b.storage);
    b.place = calloc(tensors, sizeof *b.place);
    choose_storage(&b, mode, rng);
    for (cairn_id t = 0; t < tensors; t++)
        b.place[t] = take(&b, b.storage[t].bytes);
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        const crn_choice *choices;
        uint32_t count;
        CHECK_OK(crn_device_choices(b.device, graph, o, b.storage, &choices, &count, &err), &err);
        for (uint32_t i = 0; i < count; i++)
            b.workspace_bytes = CRN_MAX(b.workspace_bytes, choices[i].workspace);
    }
    b.workspace = take(&b, b.workspace_bytes);
    return b;
}

static void close_bench(bench *b) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(b->graph); t++)
        drop(b, b->place[t], b->storage[t].bytes);
    drop(b, b->workspace, b->workspace_bytes);
    free(b->place);
    free(b->storage);
    b->backend->finish_queue(b->queue);
    cairn_device_close(b->device);
}

/* Run implementation `which` of an op with these places; false: it does not have that many. */
static bool run_op(bench *b, cairn_id id, uint32_t which, void **inputs, void **outputs) {
    const cairn_op *op = cairn_graph_op(b->graph, id);
    const crn_choice *choices;
    uint32_t count;
    cairn_error err = {0};
    void *params[RIG_MOST];
    CHECK_OK(crn_device_choices(b->device, b->graph, id, b->storage, &choices, &count, &err), &err);
    CHECK(count > 0);
    if (which >= count)
        return false;
    for (uint32_t i = 0; i < op->param_count; i++)
        params[i] = b->place[op->params[i]];
    crn_call call = {.graph = b->graph,
                     .op = op,
                     .op_id = id,
                     .storage = b->storage,
                     .recipe = choices[which].recipe,
                     .inputs = (const void *const *)inputs,
                     .outputs = outputs,
                     .params = params,
                     .workspace = b->workspace,
                     .workspace_bytes = choices[which].workspace,
                     .values = b->backend->values(b->queue),
                     .again = b->again,
                     .training = b->training,
                     .queue = b->queue};
    b->backend->fill(b->queue, b->workspace, 0xff, b->workspace_bytes);
    b->backend->begin(b->queue, &(crn_values){.seed = 1});
    b->backend->enqueue(b->queue, &call);
    CHECK_OK(b->backend->join(b->queue, NULL, &err), &err);
    return true;
}

/* ---- Against the reference ---- */

static void convert(const bench *b, cairn_id t, void *stored, void *plain, bool to_host) {
    const cairn_tensor *tensor = cairn_graph_tensor(b->graph, t);
    crn_convert_rows(&(crn_conversion){.tensor = tensor,
                                       .storage = b->storage[t],
                                       .stored = stored,
                                       .host = plain,
                                       .rows = crn_tensor_rows(tensor),
                                       .to_host = to_host});
}

/* If it is rounded when it is stored, the reference gets the rounded values too. */
static void give(const bench *b, cairn_id t, void *plain) {
    void *stored = rig_block(b->storage[t].bytes);
    convert(b, t, stored, plain, false);
    if (b->storage[t].type == CRN_BF16)
        convert(b, t, stored, plain, true);
    carry(b, b->place[t], stored, b->storage[t].bytes, false);
    free(stored);
}

static double worst_error; /* of the last comparison, relative to the largest element */

static bool close_enough(const cairn_tensor *t, const void *ours, const void *theirs,
                         double limit) {
    worst_error = 0;
    if (t->dtype != CAIRN_DTYPE_F32)
        return memcmp(ours, theirs, t->bytes) == 0;
    const float *a = ours, *b = theirs;
    double largest = 0, worst = 0;
    for (uint64_t i = 0; i < t->bytes / sizeof(float); i++) {
        largest = isfinite(b[i]) ? fmax(largest, fabs((double)b[i])) : largest;
        double off =
            a[i] == b[i] || (isnan(a[i]) && isnan(b[i])) ? 0 : fabs((double)a[i] - (double)b[i]);
        worst = off <= worst ? worst : off; /* a NaN counts as the worst */
    }
    worst_error = worst / fmax(largest, 1e-3);
    return worst_error <= limit;
}

static void compare(const bench *b, const rig *ref, cairn_id t, const char *what, cairn_id id,
                    uint32_t which) {
    const crn_choice *choices;
    uint32_t count;
    cairn_error err = {0};
    const cairn_tensor *tensor = cairn_graph_tensor(b->graph, t);
    void *stored = rig_block(b->storage[t].bytes), *plain = rig_block(tensor->bytes);
    carry(b, b->place[t], stored, b->storage[t].bytes, true);
    convert(b, t, stored, plain, true);
    bool right = close_enough(tensor, plain, ref->place[t], b->tolerance);
    CHECK(right);
    CHECK_OK(crn_device_choices(b->device, b->graph, id, b->storage, &choices, &count, &err), &err);
    if (!right)
        fprintf(stderr, "  %s: %s by %s differs by %.1e\n", what, tensor->name, choices[which].name,
                worst_error);
    free(stored);
    free(plain);
}

/* The same bits in a second run, and with an output in place of an operand. */
static void try_again(bench *b, cairn_id id, uint32_t which, cairn_inplace permission) {
    const cairn_op *op = cairn_graph_op(b->graph, id);
    void *inputs[RIG_MOST], *outputs[RIG_MOST];
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint64_t bytes = b->storage[op->inputs[i]].bytes;
        void *host = rig_block(bytes);
        inputs[i] = take(b, bytes);
        carry(b, b->place[op->inputs[i]], host, bytes, true);
        carry(b, inputs[i], host, bytes, false);
        free(host);
    }
    for (uint32_t i = 0; i < op->output_count; i++)
        outputs[i] = op->outputs[i] == CAIRN_NONE ? NULL
                     : i == permission.output     ? inputs[permission.input]
                                                  : take(b, b->storage[op->outputs[i]].bytes);
    b->again = true;
    run_op(b, id, which, inputs, outputs);
    b->again = false;
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (op->outputs[i] == CAIRN_NONE)
            continue;
        uint64_t bytes = b->storage[op->outputs[i]].bytes;
        void *first = rig_block(bytes), *second = rig_block(bytes);
        carry(b, b->place[op->outputs[i]], first, bytes, true);
        carry(b, outputs[i], second, bytes, true);
        CHECK(memcmp(first, second, bytes) == 0);
        free(first);
        free(second);
        if (i != permission.output)
            drop(b, outputs[i], bytes);
    }
    for (uint32_t i = 0; i < op->input_count; i++)
        drop(b, inputs[i], b->storage[op->inputs[i]].bytes);
}

static void try_permissions(bench *b, cairn_id id, uint32_t which) {
    const cairn_op *op = cairn_graph_op(b->graph, id);
    try_again(b, id, which, (cairn_inplace){.output = UINT32_MAX});
    for (uint32_t i = 0; i < op->inplace_count; i++) {
        cairn_id input = op->inputs[op->inplace[i].input];
        cairn_id output = op->outputs[op->inplace[i].output];
        if (output == CAIRN_NONE ||
            memcmp(&b->storage[input], &b->storage[output], sizeof(crn_storage)) != 0)
            continue;
        try_again(b, id, which, op->inplace[i]);
        permissions_tried++;
    }
}

/* Compare one op in all its implementations: both get the same operands, then everything that it
 * wrote is compared. */
static void compare_op(bench *b, rig *ref, const op_case *c, cairn_id id) {
    const cairn_op *op = cairn_graph_op(b->graph, id);
    void *inputs[RIG_MOST], *outputs[RIG_MOST], *before[RIG_MOST];
    kinds_compared[op->kind]++;
    for (uint32_t i = 0; i < op->input_count; i++) {
        inputs[i] = b->place[op->inputs[i]];
        give(b, op->inputs[i], ref->place[op->inputs[i]]);
    }
    for (uint32_t i = 0; i < op->output_count; i++)
        outputs[i] = op->outputs[i] == CAIRN_NONE ? NULL : b->place[op->outputs[i]];
    for (uint32_t i = 0; i < op->param_count; i++) {
        uint64_t bytes = cairn_graph_tensor(b->graph, op->params[i])->bytes;
        before[i] = rig_block(bytes);
        memcpy(before[i], ref->place[op->params[i]], bytes);
    }
    rig_run(ref, id);
    for (uint32_t which = 0; which < CRN_MOST_CHOICES; which++) {
        for (uint32_t i = 0; i < op->param_count; i++)
            give(b, op->params[i], before[i]);
        if (!run_op(b, id, which, inputs, outputs))
            break;
        for (uint32_t i = 0; i < op->output_count; i++)
            if (op->outputs[i] != CAIRN_NONE)
                compare(b, ref, op->outputs[i], c->name, id, which);
        for (uint32_t i = 0; i < op->param_count; i++)
            compare(b, ref, op->params[i], c->name, id, which);
        try_permissions(b, id, which);
    }
    for (uint32_t i = 0; i < op->param_count; i++)
        free(before[i]);
}

static void test_case(const json_t *given, int mode, bool training, crn_rng *rng) {
    op_case c = case_build(given, true);
    rig ref;
    rig_open(&ref, c.graph, "ref", 1);
    bench b = open_bench(c.graph, mode, rng);
    ref.training = b.training = training;
    case_fill(&c, ref.place);
    for (cairn_id o = 0; o < cairn_graph_op_count(c.graph); o++) {
        const cairn_op *op = cairn_graph_op(c.graph, o);
        if (o == c.behind &&
            c.gy != CAIRN_NONE) /* the gradient under test replaces that of the loss */
            fill_values(ref.place[c.gy], fill_count(cairn_graph_tensor(c.graph, c.gy)), "gy", 0, 1);
        if (op->kind == CAIRN_OP_FLATTEN || op->kind == CAIRN_OP_FLATTEN_BWD)
            rig_run(&ref, o);
        else
            compare_op(&b, &ref, &c, o);
    }
    rig_close(&ref);
    close_bench(&b);
    cairn_graph_destroy(c.graph);
}

/* ---- Conversions ---- */

static void test_conversion(crn_rng *rng, bool half) {
    cairn_tensor t = {
        .rank = 4,
        .shape = {draw(rng, 1, 4), draw_channels(rng), draw(rng, 1, 9), draw(rng, 1, 9)}};
    t.bytes = (uint64_t)t.shape[0] * t.shape[1] * t.shape[2] * t.shape[3] * sizeof(float);
    crn_storage storage = crn_storage_of(&t, CRN_CHANNELS_LAST, draw(rng, 0, 1) * 3 + 1,
                                         half ? CRN_BF16 : CRN_AS_GRAPH);
    bench b = {.backend = subject};
    cairn_error err = {0};
    CHECK_OK(crn_device_open(subject, NULL, &b.device, &err), &err);
    CHECK_OK(subject->queue(b.device->state, &b.queue, &err), &err);
    float *plain = rig_block(t.bytes), *back = rig_block(t.bytes);
    void *ours = rig_block(storage.bytes), *theirs = rig_block(storage.bytes);
    void *stored = take(&b, storage.bytes);
    for (uint64_t i = 0; i < t.bytes / sizeof(float); i++)
        plain[i] = (float)crn_rng_below(rng, 256); /* bf16 has all of these */
    crn_conversion c = {
        .tensor = &t, .storage = storage, .stored = theirs, .host = plain, .rows = t.shape[0]};
    crn_convert_rows(&c);
    c.stored = stored;
    subject->convert(b.queue, &c);
    carry(&b, stored, ours, storage.bytes, true);
    CHECK(memcmp(ours, theirs, storage.bytes) == 0);
    c.to_host = true;
    c.first = t.shape[0] / 2; /* only some rows */
    c.rows = t.shape[0] - c.first;
    uint64_t row = t.bytes / t.shape[0];
    c.host = (char *)back + c.first * row;
    subject->convert(b.queue, &c);
    CHECK_OK(subject->join(b.queue, NULL, &err), &err);
    CHECK(memcmp(c.host, (char *)plain + c.first * row, c.rows * row) == 0);
    drop(&b, stored, storage.bytes);
    subject->finish_queue(b.queue);
    cairn_device_close(b.device);
    free(plain);
    free(back);
    free(ours);
    free(theirs);
}

int main(int argc, char **argv) {
    crn_rng rng = {0};
    uint32_t random_cases = 144;
    if (argc > 1 && strcmp(argv[1], "device") == 0) {
        subject = &crn_backend_cuda;
        tolerance = 1e-4;
        random_cases = 48;
        if (subject->devices() == 0)
            return 77;
    }
    bool libraries = argc > 1 && strcmp(argv[1], "libraries") == 0;
    if (libraries) {
        subject = &fake_backend_cuda_libraries;
        random_cases = 72;
    }
    json_t *cases = case_load(CAIRN_TEST_DATA "/op_cases.json");
    for (size_t i = 0; i < json_array_size(cases); i++)
        for (int mode = 0; mode < MODES; mode++)
            test_case(json_array_get(cases, i), mode, true, &rng);
    for (uint32_t i = 0; i < random_cases; i++) {
        json_t *given = random_case(&rng, i);
        for (int mode = 0; mode < MODES; mode++)
            test_case(given, mode, i % 5 != 4, &rng);
        json_decref(given);
    }
    for (int i = 0; i < 10; i++)
        test_conversion(&rng, i % 2 == 1);
    CHECK(images_last > 300 && images_half > 100 && permissions_tried > 100);
    for (cairn_op_kind kind = 0; kind < CAIRN_OP_KINDS; kind++)
        CHECK(kinds_compared[kind] > 0 || kind == CAIRN_OP_OPAQUE || kind == CAIRN_OP_FLATTEN ||
              kind == CAIRN_OP_FLATTEN_BWD);
    json_decref(cases);
    if (libraries)
        CHECK(fake_convolutions_run() > 1000 && fake_products_run() > 100);
    CHECK_U64(fake_libraries_objects(), 0);
    return check_result();
}
