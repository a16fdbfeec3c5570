/* test_cuda_ops.c: every op of the backend cuda against the reference, within the tolerance of
 * single precision, over the cases of op_cases.json and over random ones; images are stored
 * channels-last, plain, mixed, and mixed with bf16. Also: a second run and a run in place give the
 * same bits, and conversions agree with formats.h. Runs on the processor (fake_driver.h), or with
 * the argument "device" on a GPU; exits with 77 if there is none. */
#include "backend/attention_cases.h"
#include "backend/compare_ops.h"
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
static uint32_t images_last, images_half;

/* ---- How images are stored ---- */

enum { OWN, PLAIN, MIXED, HALF, MODES };

/* Whether a tensor is the input of a linear layer or its gradient; the loss reads what it makes. */
static bool is_of_linear(const cairn_graph *graph, cairn_id t) {
    const cairn_op *op = cairn_graph_op(graph, 0);
    return op->kind == CAIRN_OP_LINEAR &&
           (t == op->inputs[0] || cairn_graph_tensor(graph, t)->gradient_of == op->inputs[0]);
}

static void choose_storage(rig *r, int mode, crn_rng *rng) {
    if (mode == HALF && crn_rng_below(rng, 4) > 0)
        halve_sequences(r);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(r->graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(r->graph, t);
        bool image = tensor->rank == 4 && !tensor->stationary && tensor->dtype == CAIRN_DTYPE_F32;
        bool drawn = mode >= MIXED && crn_rng_below(rng, mode == MIXED ? 2 : 4) == 0;
        if (image && (mode == PLAIN || drawn))
            r->storage[t] = crn_storage_of(tensor, CRN_PLAIN, 1, CRN_AS_GRAPH);
        if (mode == HALF && !drawn && is_of_linear(r->graph, t))
            r->storage[t] = crn_storage_of(tensor, CRN_PLAIN, 1, CRN_BF16);
        images_last += r->storage[t].format == CRN_CHANNELS_LAST;
        images_half += r->storage[t].type == CRN_BF16;
    }
}

static cairn_device *open_device(cairn_math math) {
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    cairn_device *device;
    cairn_error err = {0};
    options.math = math;
    CHECK_OK(crn_device_open(subject, &options, &device, &err), &err);
    return device;
}

/* ---- A case ---- */

static void test_case(const json_t *given, int mode, bool training, crn_rng *rng) {
    op_case c = case_build(given, true);
    rig ref, cuda;
    rig_open(&ref, c.graph, "ref", 1);
    rig_open_on(&cuda, c.graph, open_device(mode == HALF ? CAIRN_MATH_BF16 : CAIRN_MATH_FP32));
    choose_storage(&cuda, mode, rng);
    rig_place(&cuda);
    ref.training = cuda.training = training;
    case_fill(&c, &ref);
    for (cairn_id o = 0; o < cairn_graph_op_count(c.graph); o++) {
        const cairn_op *op = cairn_graph_op(c.graph, o);
        if (o == c.behind)
            case_fill_gradient(&c, &ref);
        /* the loss behind an op on sequences is no part of the case */
        bool aside =
            (op->kind == CAIRN_OP_CROSS_ENTROPY || op->kind == CAIRN_OP_CROSS_ENTROPY_BWD) &&
            is_of_sequences(c.kind);
        if (op->kind == CAIRN_OP_FLATTEN || op->kind == CAIRN_OP_FLATTEN_BWD || aside)
            rig_run(&ref, o);
        else
            compare_op(&cuda, &ref, &c, o, mode == HALF ? HALF_TOLERANCE : tolerance);
    }
    rig_close(&ref);
    rig_close(&cuda);
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
    rig r = {.backend = subject, .device = open_device(CAIRN_MATH_FP32)};
    cairn_error err = {0};
    CHECK_OK(subject->queue(r.device->state, &r.queue, &err), &err);
    float *plain = rig_block(t.bytes), *back = rig_block(t.bytes);
    void *ours = rig_block(storage.bytes), *theirs = rig_block(storage.bytes);
    void *stored = rig_take(&r, storage.bytes);
    for (uint64_t i = 0; i < t.bytes / sizeof(float); i++)
        plain[i] = (float)crn_rng_below(rng, 256); /* bf16 has all of these */
    crn_conversion c = {
        .tensor = &t, .storage = storage, .stored = theirs, .host = plain, .rows = t.shape[0]};
    crn_convert_rows(&c);
    c.stored = stored;
    rig_convert(&r, &c);
    rig_copy(&r, stored, ours, storage.bytes, true);
    CHECK(memcmp(ours, theirs, storage.bytes) == 0);
    c.to_host = true;
    c.first = t.shape[0] / 2; /* only some rows */
    c.rows = t.shape[0] - c.first;
    uint64_t row = t.bytes / t.shape[0];
    c.host = (char *)back + c.first * row;
    rig_convert(&r, &c);
    CHECK(memcmp(c.host, (char *)plain + c.first * row, c.rows * row) == 0);
    rig_drop(&r, stored, storage.bytes);
    subject->finish_queue(r.queue);
    cairn_device_close(r.device);
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
    for (uint32_t i = 0; i < random_cases; i++) {
        json_t *given = random_sequence(&rng, i);
        for (int mode = OWN; mode < MODES; mode += HALF - OWN)
            test_case(given, mode, true, &rng);
        json_decref(given);
    }
    for (uint32_t i = 0; i < ATTENTION_CASES; i++) {
        json_t *given = attention_case(&rng, i);
        test_case(given, OWN, true, &rng);
        test_case(given, HALF, true, &rng);
        json_decref(given);
    }
    for (int i = 0; i < 10; i++)
        test_conversion(&rng, i % 2 == 1);
    CHECK(images_last > 300 && images_half > 100 && permissions_tried > 100 &&
          sequences_half > 100 && by_split > 30);
    for (cairn_op_kind kind = 0; kind < CAIRN_OP_KINDS; kind++)
        CHECK(kinds_compared[kind] > 0 || kind == CAIRN_OP_OPAQUE || kind >= CAIRN_OP_UPDATE ||
              kind == CAIRN_OP_FLATTEN || kind == CAIRN_OP_FLATTEN_BWD);
    json_decref(cases);
    CHECK(by_hopper > 0 || subject == &crn_backend_cuda); /* where GPUs of any kind are */
    if (libraries)
        CHECK(fake_convolutions_run() > 1000 && fake_products_run() > 100);
    CHECK_U64(fake_libraries_objects(), 0);
    return check_result();
}
