/* rng.h: a small random generator whose stream depends on its seed alone (SplitMix64: Steele, Lea
 * and Flood, 2014). For tests, random baselines and tie-free searches; the same on every machine.
 */
#ifndef CRN_RNG_H
#define CRN_RNG_H

#include <stdint.h>

typedef struct crn_rng {
    uint64_t state;
} crn_rng;

static inline uint64_t crn_rng_next(crn_rng *rng) {
    uint64_t z = (rng->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Below `bound`, which is not 0. The bias of the remainder is far below what any use here sees. */
static inline uint64_t crn_rng_below(crn_rng *rng, uint64_t bound) {
    return crn_rng_next(rng) % bound;
}

/* A number that depends only on its arguments: nest it, crn_mix(crn_mix(seed, step), element). */
static inline uint64_t crn_mix(uint64_t a, uint64_t b) {
    uint64_t z = a + 0x9e3779b97f4a7c15u * (b + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
