/* numbers.h: arithmetic that gives the same bits on a GPU and on a processor.
 *
 * Sums, products, quotients and roots of floats are rounded to nearest on both, and no compiler may
 * contract a product and a sum (-fmad=false, -ffp-contract=off). Where only one rounding is
 * intended, the code uses crn_fma. exp, log and tanh are built from these operations. */
#ifndef CRN_NUMBERS_H
#define CRN_NUMBERS_H

#include "backend/cuda/kernels/grid.h"

CRN_DEVICE float crn_fma(float a, float b, float c) {
    return fmaf(a, b, c);
}

CRN_DEVICE float crn_from_bits(uint32_t bits) {
#ifdef __CUDACC__
    return __uint_as_float(bits);
#else
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
#endif
}

CRN_DEVICE uint32_t crn_to_bits(float value) {
#ifdef __CUDACC__
    return __float_as_uint(value);
#else
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
#endif
}

CRN_DEVICE int crn_is_nan(float value) {
    return (crn_to_bits(value) & 0x7fffffffu) > 0x7f800000u;
}

/* Not "x > 0 ? x : 0", so that a NaN stays a NaN. */
CRN_DEVICE float crn_relu(float x) {
    return x <= 0 ? 0 : x;
}

/* ---- bf16: the upper half of a float, rounded to nearest even ---- */

CRN_DEVICE uint16_t crn_to_bf16(float value) {
#ifdef __CUDACC__
    uint16_t half; /* a NaN becomes 7fff */
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
#else
    uint32_t bits = crn_to_bits(value);
    if (crn_is_nan(value))
        return 0x7fff;
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
#endif
}

CRN_DEVICE float crn_from_bf16(uint16_t half) {
    return crn_from_bits((uint32_t)half << 16);
}

/* ---- Functions ---- */

/* e^x = 2^n * e^r, where n is the nearest integer to x / log 2 and |r| <= 0.35. The sum of the
 * series to r^7 is within 1e-9 of e^r. Subnormal powers of two are made in two steps. */
CRN_DEVICE float crn_exp(float x) {
    if (x > 88.8f)
        return crn_from_bits(0x7f800000u); /* infinity */
    if (x < -104.0f)
        return 0;
    if (crn_is_nan(x))
        return x;
    float shifted = crn_fma(x, 1.44269504f, 12582912.0f); /* 1.5 * 2^23: rounds to an integer */
    float n = shifted - 12582912.0f;
    float r = crn_fma(n, -0.693145751953125f, x);
    r = crn_fma(n, -1.42860677e-6f, r);
    float sum = 1.98412698e-4f;
    sum = crn_fma(sum, r, 1.38888889e-3f);
    sum = crn_fma(sum, r, 8.33333333e-3f);
    sum = crn_fma(sum, r, 4.16666667e-2f);
    sum = crn_fma(sum, r, 1.66666667e-1f);
    sum = crn_fma(sum, r, 0.5f);
    sum = crn_fma(sum, r, 1.0f);
    sum = crn_fma(sum, r, 1.0f);
    int32_t power = (int32_t)n, half = power / 2;
    float first = crn_from_bits((uint32_t)(half + 127) << 23);
    float second = crn_from_bits((uint32_t)(power - half + 127) << 23);
    return sum * first * second;
}

/* log x of a normal x > 0: x = 2^n * m with m in [0.70, 1.41), log m = 2 atanh(s) with
 * s = (m - 1) / (m + 1), |s| <= 0.172. */
CRN_DEVICE float crn_log(float x) {
    uint32_t bits = crn_to_bits(x);
    int32_t n = (int32_t)(bits - 0x3f330000u) >> 23; /* 0x3f330000: 0.699 */
    float m = crn_from_bits(bits - ((uint32_t)n << 23));
    float s = (m - 1) / (m + 1), square = s * s;
    float sum = 0.222222222f;
    sum = crn_fma(sum, square, 0.285714286f);
    sum = crn_fma(sum, square, 0.4f);
    sum = crn_fma(sum, square, 0.666666667f);
    float power = (float)n;
    float tail = crn_fma(power, 1.42860677e-6f, s * square * sum);
    return crn_fma(power, 0.693145751953125f, crn_fma(2.0f, s, tail));
}

CRN_DEVICE float crn_sigmoid(float x) {
    return 1 / (1 + crn_exp(-x));
}

/* Near zero the series is used, else e^2|x|, where nothing cancels. */
CRN_DEVICE float crn_tanh(float x) {
    float size = x < 0 ? -x : x;
    if (size < 0.5f) {
        float square = x * x, sum = 3.59212804e-3f;
        sum = crn_fma(sum, square, -8.86323553e-3f);
        sum = crn_fma(sum, square, 2.18694885e-2f);
        sum = crn_fma(sum, square, -5.39682540e-2f);
        sum = crn_fma(sum, square, 1.33333333e-1f);
        sum = crn_fma(sum, square, -3.33333333e-1f);
        return crn_fma(x * square, sum, x);
    }
    float value = 1 - 2 / (crn_exp(2 * size) + 1);
    return x < 0 ? -value : value;
}

#endif
