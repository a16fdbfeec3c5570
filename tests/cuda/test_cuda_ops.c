/* test_cuda_ops.c: every op of the backend cuda against the reference, within the tolerance of
 * single precision, over the cases of op_cases.json and over random ones; images are stored
 * channels-last, plain, mixed, and mixed with bf16. Also: a second run and a run in place give the
 * same bits, and conversions agree with formats.h. Runs on the processor (fake_driver.h), or with
 * the argument "device" on a GPU; exits with 77 if there is none. */
#include "backend/attention_cases.h"
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
static uint32_t kinds_compared[CAIRN_OP_KINDS], images_last, images_half, permissions_tried,
    sequences_half, by_hopper;

/* ---- How images are stored ---- */

enum { OWN, PLAIN, MIXED, HALF, MODES };

/* Whether a tensor is the input of a linear layer or its gradient; the loss reads what it makes. */
static bool is_of_linear(const cairn_graph *graph, cairn_id t) {
    const cairn_op *op = cairn_graph_op(graph, 0);
    return op->kind == CAIRN_OP_LINEAR &&
           (t == op->inputs[0] || cairn_graph_tensor(graph, t)->gradient_of == op->inputs[0]);
}

static bool is_of_sequences(cairn_op_kind kind) {
    return kind >= CAIRN_OP_EMBEDDING && kind < CAIRN_OP_UPDATE;
}

/* Whether --math bf16 stores the operand of such an op as bf16: all but statistics, losses and
 * weights. */
static bool is_sequence(const cairn_graph *graph, cairn_id t) {
    if (t == CAIRN_NONE)
        return false;
    const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
    cairn_id of = tensor->gradient_of;
    if (tensor->producer != CAIRN_NONE) {
        const cairn_op *op = cairn_graph_op(graph, tensor->producer);
        if ((op->kind == CAIRN_OP_LAYER_NORM || op->kind == CAIRN_OP_RMS_NORM ||
             op->kind == CAIRN_OP_ATTENTION) &&
            op->outputs[1] == t)
            return false;
    }
    return tensor->dtype == CAIRN_DTYPE_F32 && tensor->rank < 4 && !tensor->stationary &&
           tensor->role != CAIRN_ROLE_LOSS &&
           (of == CAIRN_NONE || !cairn_graph_tensor(graph, of)->stationary);
}

static void halve_sequences(rig *r) {
    for (cairn_id o = 0; o < cairn_graph_op_count(r->graph); o++) {
        const cairn_op *op = cairn_graph_op(r->graph, o);
        for (uint32_t i = 0; i < op->input_count + op->output_count; i++) {
            cairn_id t = i < op->input_count ? op->inputs[i] : op->outputs[i - op->input_count];
            if (!is_of_sequences(op->kind) || !is_sequence(r->graph, t))
                continue;
            r->storage[t] = crn_storage_of(cairn_graph_tensor(r->graph, t), CRN_PLAIN, 1, CRN_BF16);
            sequences_half++;
        }
    }
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

/* ---- Against the reference ---- */

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

/* In bf16 the loss of tokens makes the gradient in the place of the probabilities. Whether operand
 * t of an op is that. */
static bool is_gradient(const rig *cuda, const cairn_op *op, cairn_id t) {
    bool made = op->kind == CAIRN_OP_TOKEN_CROSS_ENTROPY && t == op->outputs[1];
    bool read = op->kind == CAIRN_OP_TOKEN_CROSS_ENTROPY_BWD && t == op->inputs[0];
    return (made || read) && cuda->storage[t].type == CRN_BF16;
}

/* The gradient from the probabilities of the reference, for free(). */
static float *gradient_of(const rig *ref, const cairn_op *op, cairn_id t) {
    const cairn_tensor *tensor = cairn_graph_tensor(ref->graph, t);
    const int32_t *labels = ref->place[op->inputs[1]];
    uint64_t words = tensor->shape[tensor->rank - 1], rows = tensor->bytes / 4 / words, count = 0;
    double smoothing = op->attributes.smoothing;
    float *gradient = malloc(tensor->bytes);
    memcpy(gradient, ref->place[t], tensor->bytes);
    for (uint64_t row = 0; row < rows; row++)
        count += labels[row] >= 0;
    for (uint64_t i = 0; i < rows * words; i++) {
        double target = smoothing / (double)words;
        if (labels[i / words] == (int64_t)(i % words))
            target += 1 - smoothing;
        gradient[i] = labels[i / words] < 0 ? 0 : (float)((gradient[i] - target) / (double)count);
    }
    return gradient;
}

static void compare(const rig *cuda, const rig *ref, cairn_id t, const char *what, cairn_id id,
                    uint32_t which, double limit) {
    uint32_t count;
    const cairn_tensor *tensor = cairn_graph_tensor(cuda->graph, t);
    void *plain = rig_block(tensor->bytes);
    rig_get(cuda, t, plain);
    const cairn_op *op = cairn_graph_op(cuda->graph, id);
    float *gradient = is_gradient(cuda, op, t) ? gradient_of(ref, op, t) : NULL;
    bool right = close_enough(tensor, plain, gradient != NULL ? gradient : ref->place[t], limit);
    free(gradient);
    CHECK(right);
    if (!right)
        fprintf(stderr, "  %s: %s by %s differs by %.1e\n", what, tensor->name,
                rig_choices(cuda, id, &count)[which].name, worst_error);
    free(plain);
}

/* Give both the same operands: what is rounded when it is stored, is so for the reference too. */
static void give_operand(rig *cuda, rig *ref, const cairn_op *op, cairn_id t) {
    if (is_gradient(cuda, op, t)) {
        float *gradient = gradient_of(ref, op, t);
        rig_put(cuda, t, gradient);
        free(gradient);
        return;
    }
    rig_put(cuda, t, ref->place[t]);
    if (cuda->storage[t].type == CRN_BF16)
        rig_get(cuda, t, ref->place[t]);
}

/* Compare one op in all its implementations: both get the same operands, then everything that it
 * wrote is compared. */
static void compare_op(rig *cuda, rig *ref, const op_case *c, cairn_id id, double limit) {
    const cairn_op *op = cairn_graph_op(cuda->graph, id);
    void *before[RIG_MOST];
    uint32_t which, count;
    kinds_compared[op->kind]++;
    for (uint32_t i = 0; i < op->input_count; i++)
        give_operand(cuda, ref, op, op->inputs[i]);
    for (uint32_t i = 0; i < op->param_count; i++) {
        uint64_t bytes = cairn_graph_tensor(cuda->graph, op->params[i])->bytes;
        before[i] = rig_block(bytes);
        memcpy(before[i], ref->place[op->params[i]], bytes);
    }
    rig_run(ref, id);
    for (which = 0; which < CRN_MOST_CHOICES; which++) {
        for (uint32_t i = 0; i < op->param_count; i++)
            rig_put(cuda, op->params[i], before[i]);
        if (!rig_run_at(cuda, id, which, NULL, NULL))
            break;
        by_hopper += strcmp(rig_choices(cuda, id, &count)[which].name, "hopper") == 0;
        for (uint32_t i = 0; i < op->output_count; i++)
            if (op->outputs[i] != CAIRN_NONE)
                compare(cuda, ref, op->outputs[i], c->name, id, which, limit);
        for (uint32_t i = 0; i < op->param_count; i++)
            compare(cuda, ref, op->params[i], c->name, id, which, limit);
        permissions_tried += rig_try_again(cuda, id, which);
    }
    CHECK(which > 0);
    for (uint32_t i = 0; i < op->param_count; i++)
        free(before[i]);
}

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
          sequences_half > 100);
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
