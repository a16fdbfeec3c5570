/* split_numbers.h: products of fp32 numbers by matrix units that read numbers of 11 bits (TF32).
 *
 * A factor x is split into big = x rounded to 11 bits, and small = x - big, of which the matrix
 * unit reads 11 bits too. Three products are added up:
 *
 *     a b  =  small(a) big(b) + big(a) small(b) + big(a) big(b),  off by at most 2^-21 |a b|
 *
 * Most of that is the missing small(a) small(b), whose sign is random. The sums of a matrix unit
 * are not rounded but truncated, so only a few products are added up in it: 8, or 32 where it is
 * faster. The rest is added in fp32. docs/tried.md compares the errors with those of the libraries'
 * fp32. An infinite factor gives NaN. */
#ifndef CRN_SPLIT_NUMBERS_H
#define CRN_SPLIT_NUMBERS_H

#include "backend/cuda/kernels/grid.h"

#ifdef __CUDACC__

/* The matrix unit ignores the low 13 bits of `small`. */
CRN_DEVICE void split_number(float x, uint32_t *big, uint32_t *small) {
    *big = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
    *small = __float_as_uint(x - __uint_as_float(*big));
}

/* Copy 16 bytes to shared memory in the background, or zeros. */
CRN_DEVICE void split_copy(float *to, const float *from, uint32_t there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}

#else

CRN_DEVICE void split_number(float x, uint32_t *big, uint32_t *small) {
    float rest;
    memcpy(big, &x, sizeof x);
    *big = (*big + 0x1000u) & 0xffffe000u;
    memcpy(&rest, big, sizeof rest);
    rest = x - rest;
    memcpy(small, &rest, sizeof rest);
}

CRN_DEVICE void split_copy(float *to, const float *from, uint32_t there) {
    for (uint32_t i = 0; i < 4; i++)
        to[i] = there ? from[i] : 0;
}

/* What a matrix unit reads. */
CRN_DEVICE float split_read(uint32_t bits) {
    float x;
    bits &= 0xffffe000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Eight products, which matrix units add up in an order of their own. */
CRN_DEVICE float split_dot(const uint32_t *a_big, const uint32_t *a_small, const uint32_t *b_big,
                           const uint32_t *b_small) {
    float sums[3] = {0, 0, 0};
    for (uint32_t k = 0; k < 8; k++) {
        sums[0] += split_read(a_small[k]) * split_read(b_big[k]);
        sums[1] += split_read(a_big[k]) * split_read(b_small[k]);
        sums[2] += split_read(a_big[k]) * split_read(b_big[k]);
    }
    return sums[0] + sums[1] + sums[2];
}

#endif

#endif
