/* numbers.h: arithmetic that gives the same bits on a GPU and on a processor.
 *
 * Sums, products, quotients and roots of floats are rounded to nearest on both, and no compiler may
 * contract a product and a sum (-fmad=false, -ffp-contract=off). Where only one rounding is
 * intended, the code uses crn_fma. exp, log and tanh are built from these operations.
 *
 * Functions called `quick` are the exception: a GPU computes them in a unit of its own, within
 * 4e-7. They are used only where results become bf16 and arithmetic would take longer than memory.
 */
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

/* Two of them, as they lie in a word. */
CRN_DEVICE uint32_t crn_to_bf16_pair(float low, float high) {
#ifdef __CUDACC__
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return crn_to_bf16(low) | (uint32_t)crn_to_bf16(high) << 16;
#endif
}

#ifdef __CUDACC__
/* The sums of two pairs. Rounding the exact sum to bf16 gives the same as rounding it to float
 * before, since a float has more than twice the digits. */
CRN_DEVICE uint32_t crn_add_bf16_pair(uint32_t a, uint32_t b) {
    uint32_t sum; /* a * 1 + b */
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(0x3f803f80u), "r"(b));
    return sum;
}
#endif

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

/* The larger of both; a NaN stays a NaN. */
CRN_DEVICE float crn_at_least(float x, float least) {
#ifdef __CUDACC__
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(x), "f"(least));
    return larger;
#else
    return x < least ? least : x;
#endif
}

/* e^x for x <= 0: with less work, without a branch, within 4e-7; below -87 it is e^-87. The
 * polynomial is the best of its degree. The lowest bits of `shifted` are n, of which 2^n is made.
 */
CRN_DEVICE float crn_exp_down(float x) {
    x = crn_at_least(x, -87.0f);
    float shifted = crn_fma(x, 1.44269504f, 12582912.0f), n = shifted - 12582912.0f;
    float r = crn_fma(n, -0.693147182f, x);
    float sum = 8.31250194e-3f;
    sum = crn_fma(sum, r, 4.18903343e-2f);
    sum = crn_fma(sum, r, 1.66671157e-1f);
    sum = crn_fma(sum, r, 0.499992311f);
    sum = crn_fma(sum, r, 1.0f);
    sum = crn_fma(sum, r, 1.0f);
    return sum * crn_from_bits((crn_to_bits(shifted) << 23) + 0x3f800000u);
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

/* 1 / x for x in [1, 2], within 2e-7: the best parabola, and two steps of Newton's method. A
 * division takes as long as all of this, and more where it branches. */
CRN_DEVICE float crn_inverse(float x) {
    float y = crn_fma(crn_fma(0.323227316f, x, -1.45452416f), x, 2.12119150f);
    y = crn_fma(y, crn_fma(-x, y, 1.0f), y);
    return crn_fma(y, crn_fma(-x, y, 1.0f), y);
}

/* 1 / (1 + e^-x), from e^-|x|, which cannot overflow */
CRN_DEVICE float crn_sigmoid(float x) {
    float e = crn_exp_down(x < 0 ? x : -x), share = crn_inverse(1 + e);
    return x < 0 ? e * share : share;
}

/* 2^x; what is below 2^-126 is zero. */
CRN_DEVICE float crn_exp2_quick(float x) {
#ifdef __CUDACC__
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
#else
    return x < -126 ? 0 : exp2f(x);
#endif
}

CRN_DEVICE float crn_exp_quick(float x) {
    return crn_exp2_quick(x * 1.44269504f);
}

/* 1 / (1 + 2^-x) */
CRN_DEVICE float crn_sigmoid_quick(float x) {
    float both = 1 + crn_exp2_quick(-x);
#ifdef __CUDACC__
    float share;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(share) : "f"(both));
    return share;
#else
    return 1 / both;
#endif
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

/* The distribution of a normal number, and its density. With t = 1 / (1 + 0.3275911 |x| / sqrt 2)
 * the tail is density * polynomial in t, within 8e-8 (Abramowitz and Stegun, 7.1.26). */
CRN_DEVICE float crn_normal(float x, float *density) {
    float size = x < 0 ? -x : x, e = crn_exp_down(-0.5f * x * x);
    float t = 1 / crn_fma(0.231641888f, size, 1.0f);
    float sum = 1.061405429f;
    sum = crn_fma(sum, t, -1.453152027f);
    sum = crn_fma(sum, t, 1.421413741f);
    sum = crn_fma(sum, t, -0.284496736f);
    sum = crn_fma(sum, t, 0.254829592f);
    float tail = 0.5f * sum * t * e;
    *density = 0.398942280f * e;
    return x < 0 ? tail : 1 - tail;
}

/* cos and sin of an angle in radians, rounded once: |r| <= pi / 4, and k quarter turns. */
CRN_DEVICE void crn_turn(double angle, float *cosine, float *sine) {
    double k = angle * 0.63661977236758134308 + 6755399441055744.0; /* 1.5 * 2^52 rounds it */
    k = k - 6755399441055744.0;
    double r = fma(k, -1.57079632679489655800, angle);
    r = fma(k, -6.12323399573676603587e-17, r);
    double q = r * r, s = -2.50521083854417187751e-8, c = -2.75573192239858906526e-7;
    s = fma(s, q, 2.75573192239858906526e-6);
    s = fma(s, q, -1.98412698412698412698e-4);
    s = fma(s, q, 8.33333333333333333333e-3);
    s = fma(s, q, -1.66666666666666666667e-1);
    s = fma(s * q, r, r);
    c = fma(c, q, 2.48015873015873015873e-5);
    c = fma(c, q, -1.38888888888888888889e-3);
    c = fma(c, q, 4.16666666666666666667e-2);
    c = fma(c, q, -0.5);
    c = fma(c, q, 1.0);
    int64_t quarter = (int64_t)k & 3;
    double first = quarter & 1 ? s : c, second = quarter & 1 ? c : s;
    *cosine = (float)(quarter == 1 || quarter == 2 ? -first : first);
    *sine = (float)(quarter >= 2 ? -second : second);
}

#endif
