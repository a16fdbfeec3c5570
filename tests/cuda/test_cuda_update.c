/* test_cuda_update.c: the other kernels of the backend cuda, on the processor: optimisers, bitwise
 * equal to the formulas of optimizer.c; patterns and checks; copies of elements; and the arithmetic
 * of numbers.h against the C library. */
#include "backend/cuda/kernels/numbers.h"
#include "base/rng.h"
#include "cuda/kernel_rig.h"

#include <math.h>

static crn_rng rng;

static float unit(void) {
    return (float)crn_rng_below(&rng, 1u << 24) / 8388608.0f - 1;
}

/* ---- functions ---- */

static double worst;

static void near(float got, double wanted, double least) {
    double size = fabs(wanted) > least ? fabs(wanted) : least;
    double error = fabs((double)got - wanted) / size;
    worst = error > worst ? error : worst;
}

static void test_functions(void) {
    worst = 0;
    for (float x = -87; x < 88; x += 0.00371f)
        near(crn_exp(x), exp((double)x), 0);
    for (float x = -104; x < -87;
         x += 0.0137f) /* subnormal results: correct to half of the last bit */
        CHECK(fabs((double)crn_exp(x) - exp((double)x)) < 1.5e-45);
    CHECK(worst < 2e-7);
    worst = 0;
    for (float x = -87; x < 0; x += 0.00371f)
        near(crn_exp_down(x), exp((double)x), 0);
    near(crn_exp_down(-3e38f), exp(-87.0), 0);
    CHECK(worst < 4e-7 && crn_exp_down(0) == 1 && isnan(crn_exp_down(NAN)));
    CHECK(crn_exp(0) == 1 && crn_exp(-200) == 0 && isinf(crn_exp(89)) && isnan(crn_exp(NAN)));
    worst = 0;
    for (float x = 1e-30f; x < 1e30f; x *= 1.00737f)
        near(crn_log(x), log((double)x), 1e-3);
    for (float x = 0.5f; x < 2; x += 0.000731f)
        near(crn_log(x), log((double)x), 1e-3);
    CHECK(worst < 3e-7);
    CHECK(crn_log(1) == 0);
    worst = 0;
    for (float x = -12; x < 12; x += 0.000531f)
        near(crn_tanh(x), tanh((double)x), 1e-30);
    CHECK(worst < 4e-7);
    CHECK(crn_tanh(0) == 0 && crn_tanh(90) == 1 && crn_tanh(-90) == -1 && isnan(crn_tanh(NAN)));
    worst = 0;
    for (float x = -80; x < 80; x += 0.00911f)
        near(crn_sigmoid(x), 1 / (1 + exp(-(double)x)), 0);
    CHECK(worst < 4e-7);
}

static void test_bf16(void) {
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float value = crn_from_bf16((uint16_t)bits);
        CHECK(isnan(value) ? crn_to_bf16(value) == 0x7fff : crn_to_bf16(value) == bits);
    }
    CHECK_U64(crn_to_bf16(1.00390625f), 0x3f80); /* halfway: to even */
    CHECK_U64(crn_to_bf16(1.01171875f), 0x3f82); /* halfway: to even */
    CHECK_U64(crn_to_bf16(1.00390637f), 0x3f81); /* just above */
    CHECK_U64(crn_to_bf16(3.4e38f), 0x7f80);     /* larger than the largest */
}

/* ---- optimisers ---- */

#define ELEMENTS 9001 /* three chunks */

typedef struct problem {
    float *value, *gradient, *first, *second, *sum;
    uint16_t *copy;
    crn_chunk_addresses *chunks;
    crn_step_values *values;
    crn_update_args args;
} problem;

static float *draw_many(kernel_rig *r) {
    float *values = kernel_rig_make(r, ELEMENTS * sizeof *values);
    for (uint32_t i = 0; i < ELEMENTS; i++)
        values[i] = unit();
    return values;
}

static problem draw_problem(kernel_rig *r, float gathered) {
    problem p = {.value = draw_many(r),
                 .gradient = draw_many(r),
                 .first = draw_many(r),
                 .second = draw_many(r),
                 .sum = draw_many(r),
                 .copy = kernel_rig_make(r, ELEMENTS * sizeof *p.copy)};
    p.args.count = (ELEMENTS + CRN_CHUNK - 1) / CRN_CHUNK;
    p.chunks = kernel_rig_make(r, p.args.count * sizeof *p.chunks);
    p.values = kernel_rig_make(r, sizeof *p.values);
    for (uint32_t i = 0, first = 0; i < p.args.count; i++, first += CRN_CHUNK) {
        uint32_t count = ELEMENTS - first < CRN_CHUNK ? ELEMENTS - first : CRN_CHUNK;
        p.chunks[i] = (crn_chunk_addresses){p.value + first,
                                            p.gradient + first,
                                            {p.first + first, p.second + first},
                                            p.sum + first,
                                            count,
                                            i == 1,
                                            p.copy + first};
    }
    for (uint32_t i = 0; i < ELEMENTS; i++)
        p.second[i] = p.second[i] * p.second[i];
    *p.values = (crn_step_values){.rate = 0.1f,
                                  .keep = 0.999f,
                                  .step_size = 0.37f,
                                  .root_correction = 0.21f,
                                  .gathered = gathered};
    p.args.chunks = p.chunks;
    p.args.values = p.values;
    p.args.momentum = 0.9f;
    p.args.beta1_rest = 0.1f;
    p.args.beta2 = 0.999f;
    p.args.beta2_rest = 0.001f;
    p.args.epsilon = 1e-8f;
    return p;
}

static float decay_of(const problem *p, uint32_t i) {
    return p->chunks[i / CRN_CHUNK].no_decay ? 0 : p->args.decay;
}

/* The copy of the values is their rounded form. */
static void check_copy(kernel_rig *r, const problem *p) {
    uint16_t *halves = kernel_rig_make(r, ELEMENTS * sizeof *halves);
    crn_convert_args args = {
        .to_element = CRN_ELEMENT_BF16, .count = ELEMENTS, .from = p->value, .to = halves};
    kernel_rig_run(r, crn_convert_launch(&args), &args);
    CHECK(memcmp(halves, p->copy, ELEMENTS * sizeof *halves) == 0);
}

/* The gradient that an update uses: the mean of the gathered ones, clipped. */
static float gradient_by_hand(const problem *p, uint32_t i) {
    float d = p->values->gathered > 0 ? p->sum[i] / p->values->gathered : p->gradient[i];
    if (p->args.squares == NULL)
        return d;
    float scale = p->args.clip / (sqrtf(*p->args.squares) + 1e-6f);
    return d * (scale > 1 ? 1 : scale);
}

static void sgd_by_hand(const problem *p, bool slots, uint32_t i, float *value, float *slot) {
    float d = gradient_by_hand(p, i);
    float decayed = decay_of(p, i) * p->value[i];
    d = decay_of(p, i) != 0 ? d + decayed : d;
    if (slots) {
        float kept = p->args.momentum * p->first[i];
        *slot = kept + d;
        float ahead = p->args.momentum * *slot;
        d = p->args.nesterov ? d + ahead : *slot;
    }
    float step = p->values->rate * d;
    *value = p->value[i] - step;
}

static void test_sgd(kernel_rig *r, bool slots, bool nesterov, float decay, float gathered) {
    problem p = draw_problem(r, gathered);
    p.args.nesterov = nesterov;
    p.args.decay = decay;
    float *value = malloc(2 * ELEMENTS * sizeof *value), *slot = value + ELEMENTS;
    memcpy(slot, p.first, ELEMENTS * sizeof *slot);
    for (uint32_t i = 0; i < p.args.count && !slots; i++)
        p.chunks[i].slots[0] = NULL;
    for (uint32_t i = 0; i < ELEMENTS; i++)
        sgd_by_hand(&p, slots, i, &value[i], &slot[i]);
    kernel_rig_run(r, crn_sgd_launch(&p.args), &p.args);
    CHECK(memcmp(value, p.value, ELEMENTS * sizeof *value) == 0);
    CHECK(memcmp(slot, p.first, ELEMENTS * sizeof *slot) == 0);
    check_copy(r, &p);
    free(value);
    kernel_rig_clear(r);
}

static void adam_by_hand(const problem *p, uint32_t i, float *value, float *first, float *second) {
    const crn_update_args *a = &p->args;
    bool kept_whole = !a->decoupled || p->chunks[i / CRN_CHUNK].no_decay;
    float before = kept_whole ? p->value[i] : p->value[i] * p->values->keep;
    float d = gradient_by_hand(p, i);
    float decayed = decay_of(p, i) * before;
    d = !a->decoupled && decay_of(p, i) != 0 ? d + decayed : d;
    float distance = d - p->first[i], added = a->beta1_rest * distance;
    *first = p->first[i] + added;
    float kept = a->beta2 * p->second[i], square = a->beta2_rest * d * d;
    *second = kept + square;
    float spread = sqrtf(*second) / p->values->root_correction + a->epsilon;
    float step = p->values->step_size * (*first / spread);
    *value = before - step;
}

static void test_adam(kernel_rig *r, bool decoupled, float decay, float gathered) {
    problem p = draw_problem(r, gathered);
    p.args.decoupled = decoupled;
    p.args.decay = decay;
    float *value = malloc(3 * ELEMENTS * sizeof *value);
    float *first = value + ELEMENTS, *second = value + 2 * ELEMENTS;
    for (uint32_t i = 0; i < ELEMENTS; i++)
        adam_by_hand(&p, i, &value[i], &first[i], &second[i]);
    kernel_rig_run(r, crn_adam_launch(&p.args), &p.args);
    CHECK(memcmp(value, p.value, ELEMENTS * sizeof *value) == 0);
    CHECK(memcmp(first, p.first, ELEMENTS * sizeof *first) == 0);
    CHECK(memcmp(second, p.second, ELEMENTS * sizeof *second) == 0);
    check_copy(r, &p);
    free(value);
    kernel_rig_clear(r);
}

static void clip(kernel_rig *r, problem *p, float largest) {
    float *squares = kernel_rig_make(r, sizeof *squares);
    *squares = 16;
    p->args.squares = squares;
    p->args.clip = largest;
}

/* The norm is 4. */
static void test_clipped(kernel_rig *r, float largest, float gathered) {
    problem p = draw_problem(r, gathered);
    clip(r, &p, largest);
    p.args.decoupled = true;
    float *value = malloc(3 * ELEMENTS * sizeof *value);
    for (uint32_t i = 0; i < ELEMENTS; i++)
        adam_by_hand(&p, i, &value[i], &value[ELEMENTS + i], &value[2 * ELEMENTS + i]);
    kernel_rig_run(r, crn_adam_launch(&p.args), &p.args);
    CHECK(memcmp(value, p.value, ELEMENTS * sizeof *value) == 0);
    for (uint32_t i = 0; i < ELEMENTS; i++)
        sgd_by_hand(&p, true, i, &value[i], &value[ELEMENTS + i]);
    kernel_rig_run(r, crn_sgd_launch(&p.args), &p.args);
    CHECK(memcmp(value, p.value, ELEMENTS * sizeof *value) == 0);
    free(value);
    kernel_rig_clear(r);
}

static void test_squares(kernel_rig *r, bool first, float gathered) {
    problem p = draw_problem(r, gathered);
    double expected = first ? 0 : 16;
    clip(r, &p, 1);
    p.args.squares = first ? NULL : p.args.squares;
    p.args.squares_out = kernel_rig_make(r, sizeof *p.args.squares_out);
    p.args.chunk_squares = kernel_rig_make(r, p.args.count * sizeof *p.args.chunk_squares);
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        float d = gathered > 0 ? p.sum[i] / gathered : p.gradient[i];
        expected += (double)d * (double)d;
    }
    kernel_rig_run(r, crn_square_chunks_launch(&p.args), &p.args);
    kernel_rig_run(r, crn_add_squares_launch(&p.args), &p.args);
    CHECK(expected > 1 && fabs((double)*p.args.squares_out - expected) <= 1e-7 * expected);
    kernel_rig_clear(r);
}

static void test_gather(kernel_rig *r, uint32_t first) {
    problem p = draw_problem(r, 0);
    float *sum = malloc(ELEMENTS * sizeof *sum);
    p.values->first = first;
    for (uint32_t i = 0; i < ELEMENTS; i++)
        sum[i] = first ? p.gradient[i] : p.sum[i] + p.gradient[i];
    kernel_rig_run(r, crn_gather_gradients_launch(&p.args), &p.args);
    CHECK(memcmp(sum, p.sum, ELEMENTS * sizeof *sum) == 0);
    free(sum);
    kernel_rig_clear(r);
}

/* ---- patterns and checks ---- */

static void test_checks(kernel_rig *r) {
    enum { WORDS = 700001 }; /* more than one round of the grid */
    uint32_t *words = kernel_rig_make(r, WORDS * sizeof *words);
    uint32_t *found = kernel_rig_make(r, sizeof *found);
    crn_fill_args args = {.pattern = 0xdeadbeef, .count = WORDS, .at = words, .found = found};
    kernel_rig_run(r, crn_fill_launch(&args), &args);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < WORDS; i++)
        wrong += words[i] != 0xdeadbeef;
    CHECK_U64(wrong, 0);
    words[0] = words[4711] = words[WORDS - 1] = 1;
    *found = 0;
    kernel_rig_run(r, crn_count_changed_launch(&args), &args);
    CHECK_U64(*found, 3);
    words[5] = 0x7fc00000, words[6] = 0xffffffff, words[7] = 0x7f800000, words[8] = 0x7f800001;
    *found = 0;
    kernel_rig_run(r, crn_count_nan_launch(&args), &args);
    CHECK_U64(*found, 3);
    args.element = CRN_ELEMENT_BF16; /* upper halves: 7fc0, ffff (and its lower), 7f80, 7f80 */
    args.count = 2 * WORDS;
    *found = 0;
    kernel_rig_run(r, crn_count_nan_launch(&args), &args);
    CHECK_U64(*found, 3);
    kernel_rig_clear(r);
}

/* ---- elements that are only copied ---- */

/* Sixteen sources of 1 to 16 channels, or of multiples of 8. */
static void test_concat(kernel_rig *r, bool wide) {
    enum { ROWS = 37 };
    crn_concat_args args = {.element = r->element, .rows = ROWS, .count = CRN_CONCAT_MOST};
    uint32_t all = 0;
    kernel_image sources[CRN_CONCAT_MOST];
    float *plain = malloc(ROWS * 16 * 16 * sizeof *plain), next = 0;
    for (uint32_t i = 0; i < CRN_CONCAT_MOST; i++) {
        uint32_t channels = wide ? 8 * (1 + i % 2) : 1 + i;
        for (uint32_t k = 0; k < ROWS * channels; k++)
            plain[k] = (float)((int)(next += 1) % 251);
        sources[i] = kernel_rig_load(r, plain, ROWS, channels, 1);
        args.sources[i] = (crn_concat_source){sources[i].at, channels, sources[i].pitch, all};
        all += channels;
    }
    kernel_image to = kernel_rig_image(r, ROWS, all, 1);
    args.to = to.at;
    args.to_pitch = to.pitch;
    kernel_rig_run(r, crn_concat_launch(&args), &args);
    float *got = malloc(ROWS * all * sizeof *got);
    kernel_rig_unload(r, to, got);
    for (uint32_t i = 0; i < CRN_CONCAT_MOST; i++) {
        const crn_concat_source *source = &args.sources[i];
        kernel_rig_unload(r, sources[i], plain);
        uint32_t wrong = 0;
        for (uint32_t row = 0; row < ROWS; row++)
            wrong += memcmp(plain + row * source->channels, got + row * all + source->first,
                            source->channels * sizeof *got) != 0;
        CHECK_U64(wrong, 0);
    }
    free(plain), free(got);
    kernel_rig_clear(r);
}

/* Cases of pointwise that no op uses, and NaNs. */
static void test_pointwise(kernel_rig *r) {
    enum { ROWS = 5, CHANNELS = 12, COUNT = ROWS * CHANNELS };
    float a[COUNT], b[COUNT], c[COUNT], got[COUNT], wanted[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        a[i] = i == 7 ? NAN : (float)((int)i % 5 - 2);
        b[i] = (float)((int)i % 7 - 3);
        c[i] = (float)((int)i % 11);
    }
    for (uint32_t op = CRN_COPY; op <= CRN_RELU_BWD_ADD; op++) {
        kernel_image x = kernel_rig_load(r, a, ROWS, CHANNELS, 1);
        kernel_image y = kernel_rig_load(r, b, ROWS, CHANNELS, 1);
        kernel_image z = kernel_rig_load(r, c, ROWS, CHANNELS, 1);
        crn_pointwise_args args = {.op = op,
                                   .element = r->element,
                                   .rows = ROWS,
                                   .channels = CHANNELS,
                                   .a_pitch = x.pitch,
                                   .b_pitch = y.pitch,
                                   .c_pitch = z.pitch,
                                   .to_pitch = x.pitch,
                                   .a = x.at,
                                   .b = y.at,
                                   .c = z.at,
                                   .to = op % 2 ? x.at : y.at};
        for (uint32_t i = 0; i < COUNT; i++) {
            float sum = op == CRN_ADD || op == CRN_ADD_RELU ? a[i] + b[i] : a[i];
            bool dead = a[i] <= 0;
            wanted[i] = sum;
            if (op == CRN_RELU || op == CRN_ADD_RELU)
                wanted[i] = sum <= 0 ? 0 : sum;
            if (op == CRN_RELU_BWD || op == CRN_RELU_BWD_ADD)
                wanted[i] = dead ? 0 : op == CRN_RELU_BWD ? b[i] : b[i] + c[i];
        }
        kernel_rig_run(r, crn_pointwise_launch(&args), &args);
        kernel_rig_unload(r, op % 2 ? x : y, got);
        CHECK(kernel_rig_equal(got, wanted, COUNT, 0, "pointwise"));
        kernel_rig_clear(r);
    }
}

/* A label outside the classes makes the loss NaN and never counts as right. */
static void test_no_class(kernel_rig *r, uint32_t classes) {
    float *logits = kernel_rig_make(r, 2 * classes * sizeof *logits);
    int32_t *labels = kernel_rig_make(r, 2 * sizeof *labels);
    for (uint32_t i = 0; i < 2 * classes; i++)
        logits[i] = (float)(i % classes) / 16;
    crn_loss_args args = {.batch = 2, .classes = classes, .pixels = 1, .logits = logits};
    labels[0] = (int32_t)classes - 1;
    args.labels = labels;
    args.loss = kernel_rig_make(r, sizeof *args.loss);
    args.probabilities = logits; /* in place */
    args.partial = kernel_rig_make(r, crn_loss_workspace(&args));
    args.tickets = kernel_rig_tickets(r);
    uint64_t *correct = kernel_rig_make(r, sizeof *correct);
    args.correct = correct;
    for (int32_t no_class = -1; no_class <= (int32_t)classes; no_class += (int32_t)classes + 1) {
        labels[1] = no_class;
        *correct = 0;
        kernel_rig_run(r, crn_cross_entropy_launch(&args), &args);
        kernel_rig_run(r, crn_count_correct_launch(&args), &args);
        CHECK(isnan(*args.loss));
        CHECK_U64(*correct, 1);
    }
    kernel_rig_clear(r);
}

/* A label counts if its logit is the first of the largest; with a NaN none does. `words` may be
 * more than a block keeps of a row. */
static void test_token_hits(kernel_rig *r, uint32_t words) {
    enum { ROWS = 7 };
    bool half = r->element == CRN_ELEMENT_BF16;
    uint32_t last = words - 1, size = half ? 2 : 4;
    int32_t wanted[ROWS] = {0, (int32_t)last, 3, (int32_t)last, 5, -1, (int32_t)words};
    char *logits = kernel_rig_make(r, (size_t)ROWS * words * size);
    crn_token_loss_args args = {.element = r->element,
                                .rows = ROWS,
                                .words = words,
                                .logits = logits,
                                .probabilities = logits, /* in place */
                                .labels = kernel_rig_copy(r, wanted, sizeof wanted),
                                .loss = kernel_rig_make(r, sizeof *args.loss),
                                .count = kernel_rig_make(r, sizeof *args.count),
                                .hits = kernel_rig_make(r, sizeof *args.hits),
                                .tickets = kernel_rig_tickets(r)};
    for (uint32_t i = 0; i < ROWS * words; i++) {
        uint32_t row = i / words, c = i % words;
        float x = (float)(c % 13) / 8;
        if (c == (row == 0 ? 0 : last) || (row == 3 && c == last / 2) || (row == 2 && c == 3))
            x = 4; /* row 2: the first of two; row 3: the second of two */
        if (row == 4 && c == 5)
            x = 8;
        if (row == 4 && c == last)
            x = NAN;
        uint16_t rounded = crn_to_bf16(x);
        memcpy(logits + (size_t)i * size, half ? (const void *)&rounded : (const void *)&x, size);
    }
    *args.hits = 0;
    args.partial = kernel_rig_make(r, crn_token_loss_workspace(&args));
    kernel_rig_run(r, crn_count_labels_launch(&args), &args);
    kernel_rig_run(r, crn_token_loss_launch(&args), &args);
    CHECK_U64(*args.hits, 3);
    kernel_rig_clear(r);
}

static void test_list(void) {
    CHECK_STRING(crn_kernel_list[CRN_K_norm_statistics].name, "crn_norm_statistics_f32");
    CHECK_STRING(crn_kernel_list[CRN_K_norm_apply_bf16_narrow].name, "crn_norm_apply_bf16_narrow");
    CHECK_STRING(crn_kernel_list[CRN_K_lstm_cell_bwd_bf16].name, "crn_lstm_cell_bwd_bf16");
    CHECK_STRING(crn_kernel_list[CRN_K_count_nan].name, "crn_count_nan");
    for (uint32_t i = 0; i < CRN_KERNELS; i++) /* the limit on the arguments of a launch */
        CHECK(crn_kernel_list[i].args_bytes > 0 && crn_kernel_list[i].args_bytes <= 4096);
}

int main(void) {
    kernel_rig *r = calloc(1, sizeof *r);
    test_functions();
    test_bf16();
    test_list();
    for (int i = 0; i < 16; i++)
        test_sgd(r, i & 1, i & 1 && i & 2, i & 4 ? 1e-2f : 0, i & 8 ? 3.0f : 0);
    for (int i = 0; i < 8; i++)
        test_adam(r, i & 1, i & 2 ? 1e-2f : 0, i & 4 ? 3.0f : 0);
    test_gather(r, 0);
    test_gather(r, 1);
    test_clipped(r, 1, 0);
    test_clipped(r, 5, 3);
    test_squares(r, true, 0);
    test_squares(r, false, 3);
    test_checks(r);
    test_no_class(r, 5);
    test_no_class(r, 300);
    for (uint32_t form = 0; form < 8; form++) {
        r->element = form % 2, r->extra = form / 2;
        test_concat(r, false);
        test_concat(r, true);
        test_pointwise(r);
        test_token_hits(r, 24);
        test_token_hits(r, 1003);
        test_token_hits(r, 50304);
    }
    free(r);
    return check_result();
}
