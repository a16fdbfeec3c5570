/* cpu_math.h: functions of one float that compilers vectorise inside a loop: no calls, no branches.
 * A NaN stays a NaN. */
#ifndef CRN_CPU_MATH_H
#define CRN_CPU_MATH_H

#include <stdint.h>

/* So that the function is compiled for the instruction set of the loop that it is in. */
#if defined(__GNUC__)
#define CRN_IN_LOOP static inline __attribute__((always_inline))
#else
#define CRN_IN_LOOP static inline
#endif

/* exp(x) = 2^n exp(r), |r| <= log(2)/2, with the polynomial of the Cephes library (S. Moshier). The
 * relative error is below 2e-7. Arguments are limited to the range of a normal result. */
CRN_IN_LOOP float crn_cpu_exp(float x) {
    x = x < -87.3f ? -87.3f : x;
    x = x > 88.3f ? 88.3f : x;
    const float round = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    union {
        float real;
        int32_t bits;
    } n = {.real = x * 1.44269504088896341f + round}, power;
    float whole = n.real - round;
    float r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    power.bits = (int32_t)((uint32_t)(n.bits - 0x4b400000 + 127) << 23);
    return (p * r * r + r + 1) * power.real;
}

CRN_IN_LOOP float crn_cpu_sigmoid(float x) {
    return 1 / (1 + crn_cpu_exp(-x));
}

CRN_IN_LOOP float crn_cpu_tanh(float x) {
    return 1 - 2 / (crn_cpu_exp(2 * x) + 1);
}

/* The error is below 2e-7 (M. Abramowitz and I. Stegun, 7.1.26). */
CRN_IN_LOOP float crn_cpu_erf(float x) {
    float size = x < 0 ? -x : x, t = 1 / (1 + 0.3275911f * size);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    float value = 1 - p * t * crn_cpu_exp(-size * size);
    return x < 0 ? -value : value;
}

/* ---- Rows: sums in sixteen lanes, which are added up in a fixed order ---- */

#define CRN_CPU_LANES 16u

CRN_IN_LOOP float crn_cpu_total(const float *lane) {
    float sum = 0;
    for (uint32_t l = 0; l < CRN_CPU_LANES; l++)
        sum += lane[l];
    return sum;
}

#endif
