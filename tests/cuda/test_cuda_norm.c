/* test_cuda_norm.c: batch-norm of the backend cuda with everything that can be fused with it (ReLU,
 * addition, two gradients, in place), and biases, against plain loops in double precision; small
 * and large shapes, large means and outliers. Runs on the processor. */
#include "base/rng.h"
#include "cuda/kernel_rig.h"

#define EPSILON 1e-5

static crn_rng rng;

static float unit(void) {
    return (float)crn_rng_below(&rng, 1u << 24) / 8388608.0f - 1;
}

/* A matrix as plain floats, which the element type can hold exactly, and as an image. */
typedef struct matrix {
    float *plain;
    kernel_image image;
} matrix;

static uint32_t rows, channels;

static matrix draw_matrix(kernel_rig *r, float offset, float scale) {
    matrix m = {.plain = malloc((size_t)rows * channels * sizeof(float))};
    for (size_t i = 0; i < (size_t)rows * channels; i++)
        m.plain[i] = offset + scale * unit();
    m.image = kernel_rig_image(r, rows, channels, 1);
    kernel_rig_fill(r, m.image, m.plain);
    kernel_rig_read(r, m.image, m.plain);
    return m;
}

static float *draw_floats(kernel_rig *r, float offset, float scale) {
    float *values = kernel_rig_make(r, channels * sizeof *values);
    for (uint32_t c = 0; c < channels; c++)
        values[c] = offset + scale * unit();
    return values;
}

static double tolerance(const kernel_rig *r, double f32) {
    return r->element == CRN_ELEMENT_BF16 ? 1e-2 : f32;
}

static void compare(kernel_rig *r, kernel_image image, const float *wanted, double f32,
                    const char *what) {
    float *got = malloc((size_t)rows * channels * sizeof *got);
    kernel_rig_read(r, image, got);
    bool equal = kernel_rig_equal(got, wanted, (size_t)rows * channels, tolerance(r, f32), what);
    if (!equal)
        fprintf(stderr, "rows %u, channels %u, element %u, pitch %u\n", rows, channels, r->element,
                r->extra);
    CHECK(equal);
    free(got);
}

/* ---- forward ---- */

static void statistics_by_hand(const float *x, uint32_t c, double *mean, double *squares) {
    *mean = *squares = 0;
    for (uint32_t i = 0; i < rows; i++)
        *mean += x[(size_t)i * channels + c] / (double)rows;
    for (uint32_t i = 0; i < rows; i++) {
        double distance = x[(size_t)i * channels + c] - *mean;
        *squares += distance * distance;
    }
}

/* What a separate op would have stored. */
static float as_stored(uint32_t element, float value) {
    return element == CRN_ELEMENT_BF16 ? crn_from_bf16(crn_to_bf16(value)) : value;
}

static crn_norm_args norm_args(kernel_rig *r, matrix x) {
    crn_norm_args args = {.tiling = {.rows = rows, .channels = channels},
                          .element = r->element,
                          .x_pitch = x.image.pitch,
                          .epsilon = (float)EPSILON,
                          .momentum = 0.1f,
                          .keep = (float)(1 - 0.1),
                          .x = x.image.at,
                          .gamma = draw_floats(r, 1, 0.5f),
                          .beta = draw_floats(r, 0, 0.5f),
                          .running_mean = draw_floats(r, 1, 0.5f),
                          .running_var = draw_floats(r, 2, 1),
                          .stats = kernel_rig_make(r, 2 * channels * sizeof(float)),
                          .tickets = kernel_rig_tickets(r)};
    args.partial = kernel_rig_make(r, crn_norm_workspace(&args));
    return args;
}

/* The statistics of x, as the reference computes them; `f32` is the tolerance relative to the
 * largest. */
static void test_statistics(kernel_rig *r, float offset, float scale, bool outlier, double f32) {
    matrix x = draw_matrix(r, offset, scale);
    if (outlier) { /* the very first value of each channel */
        for (uint32_t c = 0; c < channels; c++)
            x.plain[c] = offset + 1000;
        kernel_rig_fill(r, x.image, x.plain);
        kernel_rig_read(r, x.image, x.plain);
    }
    crn_norm_args args = norm_args(r, x);
    float *means = malloc(4 * channels * sizeof *means), *inverses = means + channels;
    float *running_means = means + 2 * channels, *running_vars = means + 3 * channels;
    for (uint32_t c = 0; c < channels; c++) {
        double mean, squares;
        statistics_by_hand(x.plain, c, &mean, &squares);
        means[c] = (float)mean;
        inverses[c] = (float)(1 / sqrt(squares / rows + EPSILON));
        running_means[c] = (float)(0.9 * args.running_mean[c] + 0.1 * mean);
        running_vars[c] =
            (float)(0.9 * args.running_var[c] + 0.1 * squares / (rows > 1 ? rows - 1 : 1));
    }
    kernel_rig_run(r, crn_norm_statistics_launch(&args),
                   &args); /* recomputed: running statistics do not change */
    args.flags = CRN_NORM_MOVE;
    kernel_rig_run(r, crn_norm_statistics_launch(&args), &args);
    CHECK(kernel_rig_equal(args.stats, means, channels, f32, "mean"));
    CHECK(kernel_rig_equal(args.stats + channels, inverses, channels, f32, "1/deviation"));
    CHECK(kernel_rig_equal(args.running_mean, running_means, channels, f32, "running mean"));
    CHECK(kernel_rig_equal(args.running_var, running_vars, channels, f32, "running variance"));
    free(means);
    free(x.plain);
    kernel_rig_clear(r);
}

enum { APART, ON_X, ON_ADDED };

static void test_apply(kernel_rig *r, uint32_t flags, int place) {
    matrix x = draw_matrix(r, 0.3f, 1), added = draw_matrix(r, 0, 1), y = draw_matrix(r, 0, 1);
    crn_norm_args args = norm_args(r, x);
    kernel_image to = place == ON_X ? x.image : place == ON_ADDED ? added.image : y.image;
    args.flags = flags;
    args.added = added.image.at, args.added_pitch = added.image.pitch;
    args.y = to.at, args.y_pitch = to.pitch;
    for (uint32_t c = 0; c < channels; c++) {
        args.stats[c] = unit();
        args.stats[channels + c] = 1 + 0.5f * unit();
    }
    for (size_t i = 0; i < (size_t)rows * channels; i++) {
        uint32_t c = (uint32_t)(i % channels);
        double mean = args.stats[c], inverse = args.stats[channels + c];
        if (flags & CRN_NORM_RUNNING) {
            mean = args.running_mean[c];
            inverse = 1 / sqrt(args.running_var[c] + EPSILON);
        }
        double value = (x.plain[i] - mean) * inverse * args.gamma[c] + args.beta[c];
        if (flags & CRN_NORM_ADD)
            value = as_stored(r->element, (float)value) + added.plain[i];
        y.plain[i] = (float)(flags & CRN_NORM_RELU && value < 0 ? 0 : value);
    }
    kernel_rig_run(r, crn_norm_apply_launch(&args), &args);
    compare(r, to, y.plain, 1e-6, "apply");
    free(x.plain), free(added.plain), free(y.plain);
    kernel_rig_clear(r);
}

/* A recomputation with kept statistics gives the bits of the first run. */
static void test_kept(kernel_rig *r, uint32_t flags) {
    matrix x = draw_matrix(r, 0.3f, 1), added = draw_matrix(r, 0, 1), y = draw_matrix(r, 0, 1);
    crn_norm_args args = norm_args(r, x);
    args.flags = flags;
    args.added = added.image.at, args.added_pitch = added.image.pitch;
    args.y = y.image.at, args.y_pitch = y.image.pitch;
    args.kept = kernel_rig_make(r, 2 * channels * sizeof(float));
    kernel_rig_run(r, crn_norm_statistics_launch(&args), &args);
    CHECK(memcmp(args.kept, args.stats, 2 * channels * sizeof(float)) == 0);
    kernel_rig_run(r, crn_norm_apply_launch(&args), &args);
    char *after = kernel_rig_keep(r);
    kernel_rig_fill(r, y.image, y.plain);
    memset(args.stats, 0, 2 * channels * sizeof(float));
    args.flags = flags | CRN_NORM_KEPT;
    kernel_rig_run(r, crn_norm_apply_launch(&args), &args);
    CHECK(kernel_rig_is(r, after));
    free(after), free(x.plain), free(added.plain), free(y.plain);
    kernel_rig_clear(r);
}

/* One kernel gives the bits that statistics and apply give. */
static void test_whole(kernel_rig *r, uint32_t flags, int place) {
    matrix x = draw_matrix(r, 0.3f, 1), added = draw_matrix(r, 0, 1), y = draw_matrix(r, 0, 1);
    crn_norm_args args = norm_args(r, x);
    kernel_image to = place == ON_X ? x.image : place == ON_ADDED ? added.image : y.image;
    args.flags = flags | CRN_NORM_MOVE;
    args.added = added.image.at, args.added_pitch = added.image.pitch;
    args.y = to.at, args.y_pitch = to.pitch;
    CHECK(crn_norm_is_whole(&args) == (rows <= 4096));
    char *before = kernel_rig_keep(r);
    kernel_rig_run(r, crn_norm_statistics_launch(&args), &args);
    kernel_rig_run(r, crn_norm_apply_launch(&args), &args);
    if (crn_norm_is_whole(&args)) {
        char *after = kernel_rig_keep(r);
        kernel_rig_restore(r, before);
        kernel_rig_run(r, crn_norm_whole_launch(&args), &args);
        CHECK(kernel_rig_is(r, after));
        free(after);
    }
    if (rows > 1) { /* y lies on a part of x: blocks would write what others read */
        args.y = (char *)x.image.at + x.image.pitch * kernel_rig_element(r);
        CHECK(!crn_norm_is_whole(&args));
    }
    free(before), free(x.plain), free(added.plain), free(y.plain);
    kernel_rig_clear(r);
}

/* ---- backward ---- */

typedef struct variant {
    uint32_t mask;
    bool join, other, fixed;
    char masked; /* where reduce writes: 0 nowhere, 'n' separate, 'a' on gy, 'b' on gy2, 'y' on y */
    char gx;     /* 'n' separate, 'a' on gy, 'x' on x, 'm' on masked, 'o' on other */
} variant;

static const variant variants[] = {
    {CRN_MASK_NONE, false, false, false, 0, 'n'}, {CRN_MASK_NONE, false, false, true, 0, 'n'},
    {CRN_MASK_NONE, false, false, false, 0, 'a'}, {CRN_MASK_NONE, false, true, false, 0, 'o'},
    {CRN_MASK_NONE, false, true, false, 0, 'x'},  {CRN_MASK_NONE, true, false, false, 'a', 'm'},
    {CRN_MASK_NONE, true, true, false, 'b', 'n'}, {CRN_MASK_Y, false, false, false, 0, 'n'},
    {CRN_MASK_Y, false, true, false, 0, 'n'},     {CRN_MASK_Y, false, false, false, 'a', 'n'},
    {CRN_MASK_Y, false, false, false, 'y', 'm'},  {CRN_MASK_Y, true, false, false, 'n', 'x'},
    {CRN_MASK_Y, true, true, false, 'b', 'o'},    {CRN_MASK_Y, true, false, false, 'a', 'n'},
    {CRN_MASK_X, false, false, false, 0, 'n'},    {CRN_MASK_X, false, true, false, 0, 'x'},
    {CRN_MASK_X, false, false, false, 0, 'a'},    {CRN_MASK_X, false, false, false, 'n', 'n'},
    {CRN_MASK_X, true, false, false, 'a', 'n'},   {CRN_MASK_X, false, false, true, 0, 'n'},
};

typedef struct backward {
    matrix x, gy, gy2, y, other, apart, result;
    crn_norm_bwd_args args;
} backward;

/* Compute g, both sums and gx with plain loops: g in apart.plain, gx in result.plain. */
static void backward_by_hand(uint32_t element, const variant *v, backward *b, float *gbeta,
                             float *ggamma) {
    const crn_norm_bwd_args *a = &b->args;
    for (uint32_t c = 0; c < channels; c++) {
        double mean = a->stats[c], inverse = a->stats[channels + c], sum = 0, product = 0;
        for (size_t i = c; i < (size_t)rows * channels; i += channels) {
            float y = v->mask == CRN_MASK_Y
                          ? b->y.plain[i]
                          : fmaf(b->x.plain[i] - a->stats[c], a->gamma[c] * a->stats[channels + c],
                                 a->beta[c]);
            float g = b->gy.plain[i] + (v->join ? b->gy2.plain[i] : 0);
            g = as_stored(element, g);
            g = v->mask != CRN_MASK_NONE && y <= 0 ? 0 : g;
            b->apart.plain[i] = g;
            sum += g;
            product += (double)g * (b->x.plain[i] - mean) * inverse;
        }
        gbeta[c] = (float)sum;
        ggamma[c] = (float)product;
        double each = v->fixed ? 0 : 1.0 / rows;
        for (size_t i = c; i < (size_t)rows * channels; i += channels) {
            double rest =
                b->apart.plain[i] - sum * each - (b->x.plain[i] - mean) * inverse * product * each;
            rest *= (double)a->gamma[c] * inverse;
            b->result.plain[i] = (float)(rest + (v->other ? b->other.plain[i] : 0));
        }
    }
}

static backward draw_backward(kernel_rig *r, const variant *v) {
    backward b = {.x = draw_matrix(r, 0.2f, 1),
                  .gy = draw_matrix(r, 0.1f, 1),
                  .gy2 = draw_matrix(r, 0, 1),
                  .y = draw_matrix(r, 0, 1),
                  .other = draw_matrix(r, 0, 1),
                  .apart = draw_matrix(r, 0, 1),
                  .result = draw_matrix(r, 0, 1)};
    float *stats = kernel_rig_make(r, 2 * channels * sizeof *stats);
    for (uint32_t c = 0; c < channels; c++) {
        stats[c] = 0.2f + 0.1f * unit();
        stats[channels + c] = 1.5f + 0.5f * unit();
    }
    uint32_t pitch = b.x.image.pitch;
    b.args = (crn_norm_bwd_args){.tiling = {.rows = rows, .channels = channels},
                                 .element = r->element,
                                 .mask = v->mask,
                                 .fixed = v->fixed,
                                 .x_pitch = pitch,
                                 .gy_pitch = pitch,
                                 .gy2_pitch = pitch,
                                 .y_pitch = pitch,
                                 .masked_pitch = pitch,
                                 .gx_pitch = pitch,
                                 .other_pitch = pitch,
                                 .x = b.x.image.at,
                                 .gy = b.gy.image.at,
                                 .gy2 = v->join ? b.gy2.image.at : NULL,
                                 .y = b.y.image.at,
                                 .other = v->other ? b.other.image.at : NULL,
                                 .gamma = draw_floats(r, 1, 0.5f),
                                 .beta = draw_floats(r, 0, 0.5f),
                                 .stats = stats,
                                 .ggamma = draw_floats(r, 0, 0),
                                 .gbeta = draw_floats(r, 0, 0),
                                 .sums = kernel_rig_make(r, 2 * channels * sizeof(float)),
                                 .tickets = kernel_rig_tickets(r)};
    b.args.partial = kernel_rig_make(r, crn_norm_bwd_workspace(&b.args));
    return b;
}

static kernel_image place_of(const backward *b, char place) {
    switch (place) {
    case 'a':
        return b->gy.image;
    case 'b':
        return b->gy2.image;
    case 'y':
        return b->y.image;
    case 'x':
        return b->x.image;
    case 'o':
        return b->other.image;
    default:
        return b->apart.image;
    }
}

static void test_backward(kernel_rig *r, const variant *v) {
    backward b = draw_backward(r, v);
    kernel_image masked = place_of(&b, v->masked), gx = place_of(&b, v->gx);
    if (v->gx == 'm')
        gx = masked;
    else if (v->gx == 'n')
        gx = b.result.image;
    b.args.masked = v->masked != 0 ? masked.at : NULL;
    b.args.gx = gx.at;
    float *gbeta = malloc(2 * channels * sizeof *gbeta), *ggamma = gbeta + channels;
    backward_by_hand(r->element, v, &b, gbeta, ggamma);
    char *before = kernel_rig_keep(r);
    kernel_rig_run(r, crn_norm_reduce_launch(&b.args), &b.args);
    if (v->masked != 0)
        compare(r, masked, b.apart.plain, 0, "masked gradient");
    double f32 = v->join ? 1e-4 : 1e-5;
    CHECK(kernel_rig_equal(b.args.gbeta, gbeta, channels, f32, "gbeta"));
    CHECK(kernel_rig_equal(b.args.ggamma, ggamma, channels, f32, "ggamma"));
    kernel_rig_run(r, crn_norm_spread_launch(&b.args), &b.args);
    if (rows >= 5 || r->element == CRN_ELEMENT_F32) /* else the result is mostly rounding errors */
        compare(r, gx, b.result.plain, 1e-5, "gx");
    CHECK(crn_norm_bwd_is_whole(&b.args) == (rows <= 1024));
    if (crn_norm_bwd_is_whole(&b.args)) {
        char *after = kernel_rig_keep(r);
        kernel_rig_restore(r, before);
        kernel_rig_run(r, crn_norm_bwd_whole_launch(&b.args), &b.args);
        CHECK(kernel_rig_is(r, after));
        free(after);
    }
    if (rows > 1) {
        b.args.gx = (char *)b.gy.image.at + b.gy.image.pitch * kernel_rig_element(r);
        CHECK(!crn_norm_bwd_is_whole(&b.args));
    }
    free(before);
    free(b.x.plain), free(b.gy.plain), free(b.gy2.plain), free(b.y.plain), free(b.other.plain);
    free(b.apart.plain), free(b.result.plain), free(gbeta);
    kernel_rig_clear(r);
}

/* ---- biases ---- */

static void test_bias(kernel_rig *r, bool relu) {
    matrix x = draw_matrix(r, 0, 1);
    crn_bias_args args = {.tiling = {.rows = rows, .channels = channels},
                          .element = r->element,
                          .relu = relu,
                          .x_pitch = x.image.pitch,
                          .y_pitch = x.image.pitch,
                          .x = x.image.at,
                          .bias = draw_floats(r, 0, 1),
                          .y = x.image.at};
    for (size_t i = 0; i < (size_t)rows * channels; i++) {
        float value = x.plain[i] + args.bias[i % channels];
        x.plain[i] = relu && value <= 0 ? 0 : value;
    }
    kernel_rig_run(r, crn_bias_launch(&args), &args);
    compare(r, x.image, x.plain, 0, "bias");
    free(x.plain);
    kernel_rig_clear(r);
}

static crn_column_sums_args sums_of(kernel_rig *r, const matrix *gy, const matrix *y) {
    crn_column_sums_args args = {.tiling = {.rows = rows, .channels = channels},
                                 .element = r->element,
                                 .gy_pitch = gy->image.pitch,
                                 .y_pitch = y->image.pitch,
                                 .masked_pitch = gy->image.pitch,
                                 .gy = gy->image.at,
                                 .y = y->image.at,
                                 .masked = gy->image.at,
                                 .sums = draw_floats(r, 0, 0),
                                 .tickets = kernel_rig_tickets(r)};
    args.partial = kernel_rig_make(r, crn_column_sums_workspace(&args));
    return args;
}

static void test_bias_gradient(kernel_rig *r, bool mask) {
    matrix gy = draw_matrix(r, 0.1f, 1), y = draw_matrix(r, 0, 1);
    crn_column_sums_args args = sums_of(r, &gy, &y);
    args.gate = mask ? CRN_SUMS_RELU : 0;
    float *sums = calloc(channels, sizeof *sums);
    for (uint32_t c = 0; c < channels; c++) {
        double sum = 0;
        for (size_t i = c; i < (size_t)rows * channels; i += channels) {
            gy.plain[i] = mask && y.plain[i] <= 0 ? 0 : gy.plain[i];
            sum += gy.plain[i];
        }
        sums[c] = (float)sum;
    }
    kernel_rig_run(r, crn_column_sums_launch(&args), &args);
    CHECK(kernel_rig_equal(args.sums, sums, channels, 1e-5, "bias gradient"));
    compare(r, gy.image, gy.plain, 0, "masked gradient");
    free(gy.plain), free(y.plain), free(sums);
    kernel_rig_clear(r);
}

/* With the gradient of a gelu on the way: the bits of its own kernel and of the sums alone. */
static void test_gelu_bias_gradient(kernel_rig *r, uint32_t gate) {
    matrix gy = draw_matrix(r, 0.1f, 1), y = draw_matrix(r, 0, 1);
    kernel_image apart = kernel_rig_image(r, rows, channels, 1);
    crn_pointwise_args gelu = {.op = gate,
                               .element = r->element,
                               .rows = rows,
                               .channels = channels,
                               .a_pitch = y.image.pitch,
                               .b_pitch = gy.image.pitch,
                               .to_pitch = apart.pitch,
                               .a = y.image.at,
                               .b = gy.image.at,
                               .to = apart.at};
    kernel_rig_run(r, crn_gate_launch(&gelu), &gelu);
    crn_column_sums_args alone = sums_of(r, &gy, &y), args = sums_of(r, &gy, &y);
    alone.gy = apart.at;
    args.gate = gate;
    kernel_rig_run(r, crn_column_sums_launch(&alone), &alone);
    kernel_rig_run(r, crn_column_sums_launch(&args), &args);
    CHECK(memcmp(alone.sums, args.sums, channels * sizeof *args.sums) == 0);
    for (uint32_t row = 0; row < rows; row++) {
        size_t at = (size_t)row * apart.pitch * kernel_rig_element(r);
        CHECK(memcmp((char *)apart.at + at, (char *)gy.image.at + at,
                     channels * kernel_rig_element(r)) == 0);
    }
    free(gy.plain), free(y.plain);
    kernel_rig_clear(r);
}

/* ---- */

/* All variants, or every `step`-th of them from `first` on. */
static void test_shape(kernel_rig *r, uint32_t first, uint32_t step) {
    test_statistics(r, 0, 1, false, 2e-6);
    test_statistics(r, 30, 0.5f, false, 2e-5);
    test_statistics(r, 0, 1, true, 2e-5);
    for (uint32_t flags = first % step; flags < 8; flags += step)
        test_apply(r, flags, flags % 2 == 0 ? APART : flags & CRN_NORM_ADD ? ON_ADDED : ON_X);
    for (uint32_t flags = first % step; flags < 4; flags += step) {
        test_whole(r, flags, flags == 1 ? ON_X : flags == 2 ? ON_ADDED : APART);
        test_kept(r, flags);
    }
    for (size_t i = first % step; i < sizeof variants / sizeof *variants; i += step)
        test_backward(r, &variants[i]);
    test_bias(r, first % 2 != 0);
    test_bias_gradient(r, first % 2 == 0);
    test_gelu_bias_gradient(r, first % 2 == 0 ? CRN_GELU_BWD : CRN_GELU_TANH_BWD);
}

int main(void) {
    static const uint32_t shapes[][2] = {{1, 1},    {2, 3},     {5, 4},     {3, 36},    {31, 8},
                                         {50, 64},  {197, 33},  {700, 12},  {300, 130}, {1100, 5},
                                         {5000, 4}, {4200, 37}, {4097, 132}};
    kernel_rig *r = calloc(1, sizeof *r);
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t form = 0; form < 8; form++) {
            rows = shapes[i][0], channels = shapes[i][1];
            r->element = form % 2, r->extra = form / 2;
            test_shape(r, i + form, i < 5 ? 1 : i < 10 ? 3 : 8);
        }
    for (uint32_t kernel = CRN_K_norm_statistics; kernel < CRN_K_norm_running; kernel++)
        CHECK(r->runs[kernel] > 0);
    free(r);
    return check_result();
}
