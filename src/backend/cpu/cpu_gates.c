/* cpu_gates.c: the nonlinear ops of transformers, element by element. Formulas are those of the
 * reference (ref_gates.c). */
#include "backend/cpu/cpu_elements.h"
#include "backend/cpu/cpu_math.h"

/* ---- gelu ---- */

#define ROOT_HALF 0.70710678118654752440f
#define ROOT_2_PI 0.79788456080286535588f /* sqrt(2 / pi) */
#define CUBE 0.044715f

CRN_IN_LOOP float tanh_gelu(float x) {
    return 0.5f * x * (1 + crn_cpu_tanh(ROOT_2_PI * (x + CUBE * x * x * x)));
}

CRN_IN_LOOP float exact_gelu(float x) {
    return 0.5f * x * (1 + crn_cpu_erf(x * ROOT_HALF));
}

CRN_IN_LOOP float tanh_slope(float x) {
    float t = crn_cpu_tanh(ROOT_2_PI * (x + CUBE * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * ROOT_2_PI * (1 + 3 * CUBE * x * x);
}

CRN_IN_LOOP float exact_slope(float x) {
    return 0.5f * (1 + crn_cpu_erf(x * ROOT_HALF)) +
           x * crn_cpu_exp(-0.5f * x * x) * 0.5f * ROOT_2_PI;
}

CRN_ELEMENTS_CHUNK(tanh_gelu_chunk, tanh_gelu(a[k]))
CRN_ELEMENTS_CHUNK(exact_gelu_chunk, exact_gelu(a[k]))
CRN_ELEMENTS_CHUNK(tanh_gelu_bwd_chunk, tanh_slope(a[k]) * b[k])
CRN_ELEMENTS_CHUNK(exact_gelu_bwd_chunk, exact_slope(a[k]) * b[k])

/* x -> y */
void crn_cpu_gelu(const crn_call *call) {
    crn_run_elements(call, call->op->attributes.tanh ? tanh_gelu_chunk : exact_gelu_chunk);
}

/* x, gy -> gx */
void crn_cpu_gelu_bwd(const crn_call *call) {
    crn_run_elements(call, call->op->attributes.tanh ? tanh_gelu_bwd_chunk : exact_gelu_bwd_chunk);
}

/* ---- silu ---- */

CRN_IN_LOOP float silu_slope(float x) {
    float s = crn_cpu_sigmoid(x);
    return s * (1 + x * (1 - s));
}

CRN_ELEMENTS_CHUNK(silu_chunk, a[k] * crn_cpu_sigmoid(a[k]))
CRN_ELEMENTS_CHUNK(silu_bwd_chunk, silu_slope(a[k]) * b[k])

/* x -> y */
void crn_cpu_silu(const crn_call *call) {
    crn_run_elements(call, silu_chunk);
}

/* x, gy -> gx */
void crn_cpu_silu_bwd(const crn_call *call) {
    crn_run_elements(call, silu_bwd_chunk);
}

/* ---- products ---- */

CRN_ELEMENTS_CHUNK(multiply_chunk, a[k] * b[k])

/* a, b -> a * b */
void crn_cpu_multiply(const crn_call *call) {
    crn_run_elements(call, multiply_chunk);
}

typedef struct product {
    const float *a, *b, *gy;
    float *ga, *gb; /* NULL: not wanted */
    size_t count;
} product;

CRN_VECTORISED static void multiply_bwd_chunk(void *context, uint32_t chunk) {
    const product *at = context;
    CRN_FOR_STEPS(at, chunk, i, length) {
        float first[CRN_STEP], second[CRN_STEP];
        for (size_t k = 0; k < length; k++) {
            first[k] = at->gy[i + k] * at->b[i + k];
            second[k] = at->gy[i + k] * at->a[i + k];
        }
        if (at->ga != NULL)
            memcpy(at->ga + i, first, length * sizeof *first);
        if (at->gb != NULL)
            memcpy(at->gb + i, second, length * sizeof *second);
    }
}

/* a, b, gy -> ga, gb */
void crn_cpu_multiply_bwd(const crn_call *call) {
    crn_elements all = crn_elements_of(call);
    product at = {.a = all.a,
                  .b = all.b,
                  .gy = call->inputs[2],
                  .ga = all.to,
                  .gb = crn_ref_out(call, 1),
                  .count = all.count};
    crn_for_chunks(call, &at, at.count, multiply_bwd_chunk);
}

/* ---- swiglu ---- */

typedef struct halves {
    const float *x, *gy; /* gy: NULL forward */
    float *to;
    size_t rows, width; /* of a half */
} halves;

CRN_VECTORISED static void swiglu_row(void *context, uint32_t r) {
    const halves *at = context;
    const float *restrict a = at->x + 2 * r * at->width, *restrict b = a + at->width;
    float *restrict y = at->to + r * at->width;
    for (size_t i = 0; i < at->width; i++)
        y[i] = a[i] * crn_cpu_sigmoid(a[i]) * b[i];
}

static halves halves_of(const crn_call *call) {
    const cairn_tensor *x = crn_ref_input(call, 0);
    return (halves){.x = call->inputs[0],
                    .gy = call->op->input_count > 1 ? call->inputs[1] : NULL,
                    .to = call->outputs[0],
                    .rows = crn_ref_rows(x),
                    .width = x->shape[x->rank - 1] / 2};
}

/* x [..., 2F] -> y [..., F] */
void crn_cpu_swiglu(const crn_call *call) {
    halves at = halves_of(call);
    crn_team_for(call->threads, (uint32_t)at.rows, swiglu_row, &at);
}

CRN_VECTORISED static void swiglu_bwd_row(void *context, uint32_t r) {
    const halves *at = context;
    const float *a = at->x + 2 * r * at->width, *b = a + at->width, *gy = at->gy + r * at->width;
    float *gx = at->to + 2 * r * at->width;
    for (size_t i = 0; i < at->width; i += CRN_STEP) {
        size_t length = CRN_MIN(CRN_STEP, at->width - i);
        float first[CRN_STEP], second[CRN_STEP];
        for (size_t k = 0; k < length; k++) {
            float x = a[i + k], s = crn_cpu_sigmoid(x);
            first[k] = gy[i + k] * b[i + k] * (s * (1 + x * (1 - s)));
            second[k] = gy[i + k] * (x * s);
        }
        memcpy(gx + i, first, length * sizeof *first);
        memcpy(gx + at->width + i, second, length * sizeof *second);
    }
}

/* x [..., 2F], gy [..., F] -> gx [..., 2F] */
void crn_cpu_swiglu_bwd(const crn_call *call) {
    halves at = halves_of(call);
    crn_team_for(call->threads, (uint32_t)at.rows, swiglu_bwd_row, &at);
}
