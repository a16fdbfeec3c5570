/* rotary_frequency.h: by which angle a rotary embedding turns a pair of elements from one token to
 * the next. */
#ifndef CRN_ROTARY_FREQUENCY_H
#define CRN_ROTARY_FREQUENCY_H

#include "cairn/graph.h"

#include <math.h>

/* Llama 3.1 and later: a pair that turns less than once in 8,192 tokens, for which the network was
 * first trained, turns `scaling` times more slowly; one that turns more than four times is as it
 * was; between these the two are mixed. */
#define CRN_ROTARY_TOKENS 8192.0
#define CRN_ROTARY_FAST 4.0

static inline double crn_scaled_frequency(double frequency, double scaling) {
    double turns = CRN_ROTARY_TOKENS * frequency / 6.28318530717958647693;
    if (turns > CRN_ROTARY_FAST)
        return frequency;
    if (turns < 1)
        return frequency / scaling;
    double share = (turns - 1) / (CRN_ROTARY_FAST - 1);
    return (1 - share) * frequency / scaling + share * frequency;
}

/* Of pair i of `half`: theta^(-i / half), scaled if the op says so. */
static inline double crn_rotary_frequency(const cairn_attributes *a, uint32_t i, uint32_t half) {
    double frequency = pow(a->theta, -(double)i / half);
    return a->scaling > 0 ? crn_scaled_frequency(frequency, a->scaling) : frequency;
}

#endif
