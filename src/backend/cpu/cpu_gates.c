/* cpu_gates.c: the nonlinear ops of transformers, element by element. Formulas are those of the
 * reference (ref_gates.c). A few elements are computed at a time, because a result may have the
 * address of an operand. */
#include "backend/cpu/cpu_internal.h"
#include "backend/cpu/cpu_math.h"

#define CHUNK 8192u
#define STEP 64u

typedef struct gate {
    const float *a, *b, *gy;
    float *to, *other;
    size_t count, width;
    bool tanh;
} gate;

static gate elements_of(const crn_call *call) {
    return (gate){.a = call->inputs[0],
                  .b = call->op->input_count > 1 ? call->inputs[1] : NULL,
                  .to = call->outputs[0],
                  .count = call->storage[call->op->inputs[0]].bytes / sizeof(float),
                  .tanh = call->op->attributes.tanh != 0};
}

static void for_chunks(const crn_call *call, gate *at, void (*body)(void *, uint32_t)) {
    crn_team_for(call->threads, (uint32_t)((at->count + CHUNK - 1) / CHUNK), body, at);
}

#define FOR_STEPS(at, chunk, i, length)                                                            \
    for (size_t i = (size_t)(chunk)*CHUNK,                                                         \
                end_ = CRN_MIN((at)->count, ((size_t)(chunk) + 1) * CHUNK), length;                \
         i < end_ && (length = CRN_MIN(STEP, end_ - i)) > 0; i += STEP)

/* ---- gelu ---- */

#define ROOT_HALF 0.70710678118654752440f
#define ROOT_2_PI 0.79788456080286535588f /* sqrt(2 / pi) */
#define CUBE 0.044715f

CRN_VECTORISED static void gelu_chunk(void *context, uint32_t chunk) {
    const gate *at = context;
    FOR_STEPS(at, chunk, i, length) {
        const float *x = at->a + i;
        float value[STEP];
        if (at->tanh)
            for (size_t k = 0; k < length; k++)
                value[k] = 0.5f * x[k] *
                           (1 + crn_cpu_tanh(ROOT_2_PI * (x[k] + CUBE * x[k] * x[k] * x[k])));
        else
            for (size_t k = 0; k < length; k++)
                value[k] = 0.5f * x[k] * (1 + crn_cpu_erf(x[k] * ROOT_HALF));
        memcpy(at->to + i, value, length * sizeof *value);
    }
}

/* x -> y */
void crn_cpu_gelu(const crn_call *call) {
    gate at = elements_of(call);
    for_chunks(call, &at, gelu_chunk);
}

CRN_IN_LOOP float tanh_slope(float x) {
    float t = crn_cpu_tanh(ROOT_2_PI * (x + CUBE * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * ROOT_2_PI * (1 + 3 * CUBE * x * x);
}

CRN_IN_LOOP float exact_slope(float x) {
    return 0.5f * (1 + crn_cpu_erf(x * ROOT_HALF)) +
           x * crn_cpu_exp(-0.5f * x * x) * 0.5f * ROOT_2_PI;
}

CRN_VECTORISED static void gelu_bwd_chunk(void *context, uint32_t chunk) {
    const gate *at = context;
    FOR_STEPS(at, chunk, i, length) {
        const float *x = at->a + i, *gy = at->b + i;
        float value[STEP];
        if (at->tanh)
            for (size_t k = 0; k < length; k++)
                value[k] = tanh_slope(x[k]) * gy[k];
        else
            for (size_t k = 0; k < length; k++)
                value[k] = exact_slope(x[k]) * gy[k];
        memcpy(at->to + i, value, length * sizeof *value);
    }
}

/* x, gy -> gx */
void crn_cpu_gelu_bwd(const crn_call *call) {
    gate at = elements_of(call);
    for_chunks(call, &at, gelu_bwd_chunk);
}

/* ---- silu ---- */

CRN_VECTORISED static void silu_chunk(void *context, uint32_t chunk) {
    const gate *at = context;
    FOR_STEPS(at, chunk, i, length) {
        float value[STEP];
        for (size_t k = 0; k < length; k++)
            value[k] = at->a[i + k] * crn_cpu_sigmoid(at->a[i + k]);
        memcpy(at->to + i, value, length * sizeof *value);
    }
}

/* x -> y */
void crn_cpu_silu(const crn_call *call) {
    gate at = elements_of(call);
    for_chunks(call, &at, silu_chunk);
}

CRN_IN_LOOP float silu_slope(float x) {
    float s = crn_cpu_sigmoid(x);
    return s * (1 + x * (1 - s));
}

CRN_VECTORISED static void silu_bwd_chunk(void *context, uint32_t chunk) {
    const gate *at = context;
    FOR_STEPS(at, chunk, i, length) {
        float value[STEP];
        for (size_t k = 0; k < length; k++)
            value[k] = silu_slope(at->a[i + k]) * at->b[i + k];
        memcpy(at->to + i, value, length * sizeof *value);
    }
}

/* x, gy -> gx */
void crn_cpu_silu_bwd(const crn_call *call) {
    gate at = elements_of(call);
    for_chunks(call, &at, silu_bwd_chunk);
}

/* ---- products ---- */

CRN_VECTORISED static void multiply_chunk(void *context, uint32_t chunk) {
    const gate *at = context;
    FOR_STEPS(at, chunk, i, length) {
        float value[STEP];
        for (size_t k = 0; k < length; k++)
            value[k] = at->a[i + k] * at->b[i + k];
        memcpy(at->to + i, value, length * sizeof *value);
    }
}

/* a, b -> a * b */
void crn_cpu_multiply(const crn_call *call) {
    gate at = elements_of(call);
    for_chunks(call, &at, multiply_chunk);
}

CRN_VECTORISED static void multiply_bwd_chunk(void *context, uint32_t chunk) {
    const gate *at = context;
    FOR_STEPS(at, chunk, i, length) {
        float first[STEP], second[STEP];
        for (size_t k = 0; k < length; k++) {
            first[k] = at->gy[i + k] * at->b[i + k];
            second[k] = at->gy[i + k] * at->a[i + k];
        }
        if (at->to != NULL)
            memcpy(at->to + i, first, length * sizeof *first);
        if (at->other != NULL)
            memcpy(at->other + i, second, length * sizeof *second);
    }
}

/* a, b, gy -> ga, gb */
void crn_cpu_multiply_bwd(const crn_call *call) {
    gate at = elements_of(call);
    at.gy = call->inputs[2];
    at.other = crn_ref_out(call, 1);
    for_chunks(call, &at, multiply_bwd_chunk);
}

/* ---- swiglu ---- */

CRN_VECTORISED static void swiglu_row(void *context, uint32_t r) {
    const gate *at = context;
    const float *restrict a = at->a + 2 * r * at->width, *restrict b = a + at->width;
    float *restrict y = at->to + r * at->width;
    for (size_t i = 0; i < at->width; i++)
        y[i] = a[i] * crn_cpu_sigmoid(a[i]) * b[i];
}

static gate rows_of(const crn_call *call) {
    const cairn_tensor *x = crn_ref_input(call, 0);
    gate at = elements_of(call);
    at.count = crn_ref_rows(x);
    at.width = x->shape[x->rank - 1] / 2;
    return at;
}

/* x [..., 2F] -> y [..., F] */
void crn_cpu_swiglu(const crn_call *call) {
    gate at = rows_of(call);
    crn_team_for(call->threads, (uint32_t)at.count, swiglu_row, &at);
}

CRN_VECTORISED static void swiglu_bwd_row(void *context, uint32_t r) {
    const gate *at = context;
    const float *a = at->a + 2 * r * at->width, *b = a + at->width, *gy = at->b + r * at->width;
    float *gx = at->to + 2 * r * at->width;
    for (size_t i = 0; i < at->width; i += STEP) {
        size_t length = CRN_MIN(STEP, at->width - i);
        float first[STEP], second[STEP];
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
    gate at = rows_of(call);
    crn_team_for(call->threads, (uint32_t)at.count, swiglu_bwd_row, &at);
}
