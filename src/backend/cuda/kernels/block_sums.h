/* block_sums.h: sums over the 256 threads of a block, and access to elements whose type is an
 * argument. */
#ifndef CRN_BLOCK_SUMS_H
#define CRN_BLOCK_SUMS_H

#include "backend/cuda/kernels/numbers.h"

/* s[0] becomes the sum of s[0..threads-1]; threads is a power of two. */
CRN_DEVICE void crn_add_block(crn_grid g, float *s) {
    for (uint32_t half = g.threads / 2; half > 0; half /= 2) {
        CRN_BARRIER();
        CRN_FIRST_THREADS(t, half) {
            s[t] += s[t + half];
        }
    }
    CRN_BARRIER();
}

/* The sum of the 32 entries that the threads of a warp wrote, each its own s[t]; all of them call
 * this. Neighbours are 16, 8, 4, 2, 1 entries apart: both targets add along the same tree. */
CRN_DEVICE float crn_add_warp(const float *s, uint32_t t) {
#ifdef __CUDACC__
    float sum = s[t];
    CRN_UNROLL for (uint32_t half = 16; half > 0; half /= 2) sum +=
        __shfl_xor_sync(0xffffffffu, sum, half);
    return sum;
#else
    float tree[32];
    memcpy(tree, s + t / 32 * 32, sizeof tree);
    for (uint32_t half = 16; half > 0; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            tree[i] += tree[i + half];
    return tree[0];
#endif
}

/* The sums of two numbers over the threads of a warp, along the same tree: threads 0 to 15 get that
 * of pair[0], the others that of pair[1]. A pair is kept by each thread (CRN_KEPT); on a processor
 * those of neighbours are `apart` bytes apart. */
CRN_DEVICE float crn_add_warp_pair(const float *pair, size_t apart, uint32_t t) {
#ifdef __CUDACC__
    (void)apart;
    float sum = t % 32 < 16 ? pair[0] : pair[1], given = t % 32 < 16 ? pair[1] : pair[0];
    sum += __shfl_xor_sync(0xffffffffu, given, 16);
    CRN_UNROLL for (uint32_t half = 8; half > 0; half /= 2) sum +=
        __shfl_xor_sync(0xffffffffu, sum, half);
    return sum;
#else
    const char *first = (const char *)(pair + t % 32 / 16) - t % 32 * apart;
    float all[32];
    for (uint32_t i = 0; i < 32; i++)
        memcpy(&all[i], first + i * apart, sizeof all[i]);
    return crn_add_warp(all, 0);
#endif
}

CRN_DEVICE void crn_count_block(crn_grid g, uint32_t *s) {
    for (uint32_t half = g.threads / 2; half > 0; half /= 2) {
        CRN_BARRIER();
        CRN_FIRST_THREADS(t, half) {
            s[t] += s[t + half];
        }
    }
    CRN_BARRIER();
}

CRN_DEVICE void crn_largest_of_block(crn_grid g, float *s) {
    for (uint32_t half = g.threads / 2; half > 0; half /= 2) {
        CRN_BARRIER();
        CRN_FIRST_THREADS(t, half) {
            s[t] = s[t + half] > s[t] ? s[t + half] : s[t];
        }
    }
    CRN_BARRIER();
}

CRN_DEVICE float crn_get_as(uint32_t element, const void *from, size_t index) {
    return element == CRN_ELEMENT_BF16 ? crn_from_bf16(((const uint16_t *)from)[index])
                                       : ((const float *)from)[index];
}

CRN_DEVICE void crn_put_as(uint32_t element, void *to, size_t index, float value) {
    if (element == CRN_ELEMENT_BF16)
        ((uint16_t *)to)[index] = crn_to_bf16(value);
    else
        ((float *)to)[index] = value;
}

/* log(sum of exp(x - largest)) - (wanted - largest), where wanted is the logit at the label or,
 * with smoothing, that and a little of each logit. */
CRN_DEVICE float crn_pixel_loss(const crn_loss_args *CRN_RESTRICT p, int32_t label, float largest,
                                float sum, float logits, float hit) {
    if (label < 0 || (uint32_t)label >= p->classes)
        return crn_from_bits(0x7fffffffu); /* NaN */
    float wanted = hit;
    if (p->smoothing != 0)
        wanted = (1 - p->smoothing) * hit + p->smoothing * (logits / (float)p->classes);
    return crn_log(sum) - (wanted - largest);
}

#endif
