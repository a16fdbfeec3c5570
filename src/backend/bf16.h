/* bf16.h: the upper half of a float, rounded to nearest, ties to even. A NaN stays a NaN. */
#ifndef CRN_BF16_H
#define CRN_BF16_H

#include <stdint.h>
#include <string.h>

static inline uint16_t crn_to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)(value != value ? bits >> 16 | 0x40 : rounded);
}

static inline float crn_from_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
