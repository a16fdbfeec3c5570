/* attention_args.h: the arguments of the kernels of attention; included by kernels.h. */
#ifndef CRN_ATTENTION_ARGS_H
#define CRN_ATTENTION_ARGS_H

/* ---- Attention ----
 *
 *     attention            x -> y, stats
 *     attention_along      y, gy -> along
 *     attention_keys       x, stats, along, gy -> the gradients of keys and values in gx
 *     attention_queries    x, stats, along, gy -> those of queries
 *
 * x and gx are [N, T, (H + 2K) * d]: heads of queries, keys, values; y and gy are [N, T, H * d];
 * stats and along are [N, H, T]: log of the sum of exp of the scores; gy . y. See ref_attention.c.
 */
#define CRN_ATTENTION_MOST 256u /* of d */

typedef struct crn_attention_args {
    uint32_t element;
    uint32_t batch, tokens, heads, kv_heads, size; /* N, T, H, K, d */
    uint32_t causal;
    uint32_t tile; /* filled in: rows of a block */
    float scale;
    const void *x, *gy;
    void *y;  /* backward: read */
    void *gx; /* attention_keys, attention_queries */
    float *stats, *along;
} crn_attention_args;

#endif
