/* ref_gates.c: the nonlinear ops of transformers, element by element: gelu, silu, products, swiglu.
 *
 * Each element is read before it is written, so a result may be in place of an operand. */
#include "backend/ref/ref_kernels.h"

#include <math.h>

#define CHUNK 4096u

typedef struct gate {
    const float *a, *b, *gy;
    float *to, *other; /* `other`: the second result of a product's backward */
    size_t count;      /* elements; of swiglu: rows */
    size_t width;      /* of swiglu: F */
    bool tanh;
} gate;

static size_t chunk_end(const gate *at, uint32_t chunk) {
    return CRN_MIN(at->count, ((size_t)chunk + 1) * CHUNK);
}

static void for_chunks(const crn_call *call, gate *at, void (*body)(void *, uint32_t)) {
    crn_team_for(call->threads, (uint32_t)((at->count + CHUNK - 1) / CHUNK), body, at);
}

static gate elements_of(const crn_call *call) {
    return (gate){.a = call->inputs[0],
                  .b = call->op->input_count > 1 ? call->inputs[1] : NULL,
                  .to = call->outputs[0],
                  .count = crn_ref_elements(crn_ref_input(call, 0)),
                  .tanh = call->op->attributes.tanh != 0};
}

/* ---- gelu: x * Phi(x), Phi the distribution of a normal number; or its approximation
 *      x / 2 * (1 + tanh(u)), u = sqrt(2/pi) * (x + 0.044715 x^3) ---- */

#define ROOT_HALF 0.70710678118654752440
#define ROOT_2_PI 0.79788456080286535588 /* sqrt(2 / pi) */
#define CUBE 0.044715

static double gelu(double x, bool by_tanh) {
    if (by_tanh)
        return 0.5 * x * (1 + tanh(ROOT_2_PI * (x + CUBE * x * x * x)));
    return 0.5 * x * (1 + erf(x * ROOT_HALF));
}

static double gelu_slope(double x, bool by_tanh) {
    if (by_tanh) {
        double t = tanh(ROOT_2_PI * (x + CUBE * x * x * x));
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * ROOT_2_PI * (1 + 3 * CUBE * x * x);
    }
    return 0.5 * (1 + erf(x * ROOT_HALF)) + x * exp(-0.5 * x * x) * 0.5 * ROOT_2_PI;
}

static void gelu_chunk(void *context, uint32_t chunk) {
    const gate *at = context;
    for (size_t i = (size_t)chunk * CHUNK; i < chunk_end(at, chunk); i++)
        at->to[i] = (float)gelu(at->a[i], at->tanh);
}

/* x -> y */
void crn_ref_gelu(const crn_call *call) {
    gate at = elements_of(call);
    for_chunks(call, &at, gelu_chunk);
}

static void gelu_bwd_chunk(void *context, uint32_t chunk) {
    const gate *at = context;
    for (size_t i = (size_t)chunk * CHUNK; i < chunk_end(at, chunk); i++)
        at->to[i] = (float)(gelu_slope(at->a[i], at->tanh) * at->b[i]);
}

/* x, gy -> gx */
void crn_ref_gelu_bwd(const crn_call *call) {
    gate at = elements_of(call);
    for_chunks(call, &at, gelu_bwd_chunk);
}

/* ---- silu: x * s, s = 1 / (1 + exp(-x)) ---- */

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double silu_slope(double x) {
    double s = sigmoid(x);
    return s * (1 + x * (1 - s));
}

static void silu_chunk(void *context, uint32_t chunk) {
    const gate *at = context;
    for (size_t i = (size_t)chunk * CHUNK; i < chunk_end(at, chunk); i++)
        at->to[i] = (float)(at->a[i] * sigmoid(at->a[i]));
}

/* x -> y */
void crn_ref_silu(const crn_call *call) {
    gate at = elements_of(call);
    for_chunks(call, &at, silu_chunk);
}

static void silu_bwd_chunk(void *context, uint32_t chunk) {
    const gate *at = context;
    for (size_t i = (size_t)chunk * CHUNK; i < chunk_end(at, chunk); i++)
        at->to[i] = (float)(silu_slope(at->a[i]) * at->b[i]);
}

/* x, gy -> gx */
void crn_ref_silu_bwd(const crn_call *call) {
    gate at = elements_of(call);
    for_chunks(call, &at, silu_bwd_chunk);
}

/* ---- products ---- */

static void multiply_chunk(void *context, uint32_t chunk) {
    const gate *at = context;
    for (size_t i = (size_t)chunk * CHUNK; i < chunk_end(at, chunk); i++)
        at->to[i] = at->a[i] * at->b[i];
}

/* a, b -> a * b */
void crn_ref_multiply(const crn_call *call) {
    gate at = elements_of(call);
    for_chunks(call, &at, multiply_chunk);
}

static void multiply_bwd_chunk(void *context, uint32_t chunk) {
    const gate *at = context;
    for (size_t i = (size_t)chunk * CHUNK; i < chunk_end(at, chunk); i++) {
        float a = at->a[i], b = at->b[i], gy = at->gy[i];
        if (at->to != NULL)
            at->to[i] = gy * b;
        if (at->other != NULL)
            at->other[i] = gy * a;
    }
}

/* a, b, gy -> ga, gb */
void crn_ref_multiply_bwd(const crn_call *call) {
    gate at = elements_of(call);
    at.gy = call->inputs[2];
    at.other = crn_ref_out(call, 1);
    for_chunks(call, &at, multiply_bwd_chunk);
}

/* ---- swiglu: silu of the first half of a row times the second half ---- */

static void swiglu_row(void *context, uint32_t r) {
    const gate *at = context;
    const float *x = at->a + 2 * r * at->width;
    for (size_t i = 0; i < at->width; i++)
        at->to[r * at->width + i] = (float)(x[i] * sigmoid(x[i]) * x[at->width + i]);
}

/* x [..., 2F] -> y [..., F] */
void crn_ref_swiglu(const crn_call *call) {
    const cairn_tensor *x = crn_ref_input(call, 0);
    gate at = elements_of(call);
    at.count = crn_ref_rows(x);
    at.width = x->shape[x->rank - 1] / 2;
    crn_team_for(call->threads, (uint32_t)at.count, swiglu_row, &at);
}

static void swiglu_bwd_row(void *context, uint32_t r) {
    const gate *at = context;
    const float *x = at->a + 2 * r * at->width, *gy = at->b + r * at->width;
    float *gx = at->to + 2 * r * at->width;
    for (size_t i = 0; i < at->width; i++) {
        double a = x[i], b = x[at->width + i];
        gx[i] = (float)(gy[i] * b * silu_slope(a));
        gx[at->width + i] = (float)(gy[i] * a * sigmoid(a));
    }
}

/* x [..., 2F], gy [..., F] -> gx [..., 2F] */
void crn_ref_swiglu_bwd(const crn_call *call) {
    const cairn_tensor *x = crn_ref_input(call, 0);
    gate at = elements_of(call);
    at.count = crn_ref_rows(x);
    at.width = x->shape[x->rank - 1] / 2;
    crn_team_for(call->threads, (uint32_t)at.count, swiglu_bwd_row, &at);
}
