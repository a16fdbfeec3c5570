/* dropout_mask.h: which elements dropout keeps. This depends only on seed, step, op and element.
 *
 * So the mask is not stored: the forward op, the backward op and a recomputation compute it. Every
 * backend uses this function and has the same mask. The hash is the finaliser of SplitMix64
 * (Steele, Lea and Flood, 2014). */
#ifndef CRN_DROPOUT_MASK_H
#define CRN_DROPOUT_MASK_H

#include "backend/backend.h"

typedef struct crn_dropout_mask {
    uint64_t key;       /* of this op in this step */
    uint64_t threshold; /* out of 2^32: elements whose hash is below it are dropped */
    float scale;        /* of elements that are kept: 1 / (1 - p) */
} crn_dropout_mask;

static inline uint64_t crn_dropout_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The mask of a dropout op. A backward op has the mask of its forward op. */
static inline crn_dropout_mask crn_dropout_mask_of(const crn_call *call) {
    cairn_id op = call->op->of != CAIRN_NONE ? call->op->of : call->op_id;
    double p = call->op->attributes.probability;
    uint64_t key = crn_dropout_mix(call->values->seed + 0x9e3779b97f4a7c15u);
    key = crn_dropout_mix(key + call->values->step);
    key = crn_dropout_mix(key + op);
    return (crn_dropout_mask){key, (uint64_t)(p * 4294967296.0), (float)(1.0 / (1.0 - p))};
}

/* The factor of element `index`: 0 or the scale. */
static inline float crn_dropout_factor(const crn_dropout_mask *mask, uint64_t index) {
    uint64_t hash = crn_dropout_mix(mask->key + (index + 1) * 0x9e3779b97f4a7c15u);
    return (hash >> 32) < mask->threshold ? 0.0f : mask->scale;
}

#endif
