/* cpu_gates.c: the nonlinear ops of transformers, element by element. Formulas are those of the
 * reference (ref_gates.c). */
#include "backend/cpu/cpu_elements.h"

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
    crn_reals a, b, gy, ga, gb;
    size_t count;
} product;

CRN_VECTORISED static void multiply_bwd_chunk(void *context, uint32_t chunk) {
    const product *at = context;
    CRN_FOR_STEPS(at, chunk, i, length) {
        float rooms[3][CRN_STEP], first[CRN_STEP], second[CRN_STEP];
        const float *a = crn_reals_load(at->a, i, length, rooms[0]),
                    *b = crn_reals_load(at->b, i, length, rooms[1]),
                    *gy = crn_reals_load(at->gy, i, length, rooms[2]);
        for (size_t k = 0; k < length; k++) {
            first[k] = gy[k] * b[k];
            second[k] = gy[k] * a[k];
        }
        if (at->ga.at != NULL)
            crn_reals_store(at->ga, i, length, first);
        if (at->gb.at != NULL)
            crn_reals_store(at->gb, i, length, second);
    }
}

/* a, b, gy -> ga, gb; a gradient that is not wanted has no address */
void crn_cpu_multiply_bwd(const crn_call *call) {
    crn_elements all = crn_elements_of(call);
    product at = {.a = all.a,
                  .b = all.b,
                  .gy = crn_reals_input(call, 2),
                  .ga = all.to,
                  .gb = crn_reals_output(call, 1),
                  .count = all.count};
    crn_for_chunks(call, &at, at.count, multiply_bwd_chunk);
}

/* ---- swiglu ---- */

typedef struct halves {
    crn_reals x, gy, to; /* gy: backward only */
    size_t rows, width;  /* of a half */
} halves;

CRN_VECTORISED static void swiglu_row(void *context, uint32_t r) {
    const halves *at = context;
    for (size_t i = 0; i < at->width; i += CRN_STEP) {
        size_t length = CRN_MIN(CRN_STEP, at->width - i), place = 2 * r * at->width + i;
        float rooms[2][CRN_STEP], y[CRN_STEP];
        const float *a = crn_reals_load(at->x, place, length, rooms[0]),
                    *b = crn_reals_load(at->x, place + at->width, length, rooms[1]);
        for (size_t k = 0; k < length; k++)
            y[k] = a[k] * crn_cpu_sigmoid(a[k]) * b[k];
        crn_reals_store(at->to, r * at->width + i, length, y);
    }
}

static halves halves_of(const crn_call *call) {
    const cairn_tensor *x = crn_ref_input(call, 0);
    return (halves){.x = crn_reals_input(call, 0),
                    .gy = crn_reals_input(call, call->op->input_count > 1 ? 1 : 0),
                    .to = crn_reals_output(call, 0),
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
    for (size_t i = 0; i < at->width; i += CRN_STEP) {
        size_t length = CRN_MIN(CRN_STEP, at->width - i), place = 2 * r * at->width + i;
        float rooms[3][CRN_STEP], first[CRN_STEP], second[CRN_STEP];
        const float *a = crn_reals_load(at->x, place, length, rooms[0]),
                    *b = crn_reals_load(at->x, place + at->width, length, rooms[1]),
                    *gy = crn_reals_load(at->gy, r * at->width + i, length, rooms[2]);
        for (size_t k = 0; k < length; k++) {
            float x = a[k], s = crn_cpu_sigmoid(x);
            first[k] = gy[k] * b[k] * (s * (1 + x * (1 - s)));
            second[k] = gy[k] * (x * s);
        }
        crn_reals_store(at->to, place, length, first);
        crn_reals_store(at->to, place + at->width, length, second);
    }
}

/* x [..., 2F], gy [..., F] -> gx [..., 2F] */
void crn_cpu_swiglu_bwd(const crn_call *call) {
    halves at = halves_of(call);
    crn_team_for(call->threads, (uint32_t)at.rows, swiglu_bwd_row, &at);
}
