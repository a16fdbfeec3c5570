/* attention_cases.h: attention with random shapes, of several tiles of the kernels. */
#ifndef ATTENTION_CASES_H
#define ATTENTION_CASES_H

#include "backend/random_cases.h"

#define ATTENTION_CASES 8u

/* Heads of 8, 64 and 128 elements are for cuDNN, the others for Cairn's own kernels only. */
static inline json_t *attention_case(crn_rng *rng, uint32_t number) {
    static const uint32_t sizes[ATTENTION_CASES] = {8, 64, 20, 33, 128, 136, 1, 64};
    uint32_t size = sizes[number % ATTENTION_CASES], kv = draw(rng, 1, 2);
    uint32_t heads = kv * draw(rng, 1, 2);
    return json_pack("{s:s, s:s, s:[[i,i,i]], s:{s:i, s:i, s:i}}", "name", "random_attention",
                     "kind", "attention", "inputs", draw(rng, 1, 2), draw(rng, 30, 80),
                     size * (heads + 2 * kv), "attributes", "heads", heads, "kv_heads", kv,
                     "causal", number % 2);
}

#endif
