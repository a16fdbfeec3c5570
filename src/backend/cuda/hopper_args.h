/* hopper_args.h: the kernels for compute capability 9.0 only: the interface of
 * kernels/hopper_attention.cu for the host (hopper_ops.c). nvcc reads it too. */
#ifndef CRN_HOPPER_ARGS_H
#define CRN_HOPPER_ARGS_H

#include "backend/cuda/tensor_map.h"

/* ---- The gradient of attention in bf16, for heads of 64 and 128 elements ----
 *
 *     rows       stats, y, gy -> rows
 *     keys       x, gy, rows -> the gradients of keys and values in gx
 *     queries    x, gy, rows -> those of queries
 *
 * The tensors are those of attention_args.h. Blocks of the last two take items in turns, so any
 * number of blocks will do. */
typedef struct crn_hopper_args {
    crn_tensor_map x_map, gy_map; /* boxes of 64 elements of 64 tokens of a head */
    const void *y, *gy;
    const float *stats;
    float *rows; /* [N, H, padded / 64][2][64]: logarithm of base 2, along */
    void *gx;
    uint32_t batch, tokens, heads, kv_heads; /* N, T, H, K */
    uint32_t padded;                         /* T as a multiple of CRN_HOPPER_PAD */
    uint32_t causal;
    float scale;
} crn_hopper_args;

#define CRN_HOPPER_PAD 128u
#define CRN_HOPPER_ROWS_THREADS 256 /* of rows, where a block has 64 tokens of one head */

/* Passes: name, elements of a head; warpgroups of 64 rows that compute; rows of the other side in a
 * stage, stages; buffers for the rows of a block. These were the fastest of those measured. */
#define CRN_HOPPER_PASSES(PASS)                                                                    \
    PASS(keys, 64, 2, 128, 3, 2)                                                                   \
    PASS(keys, 128, 2, 64, 3, 2)                                                                   \
    PASS(queries, 64, 3, 64, 4, 2)                                                                 \
    PASS(queries, 128, 2, 64, 4, 1)

/* Of a block: threads, and bytes of shared memory: both operands of the rows and of each stage, 8
 * bytes for each row of a stage, barriers. */
#define CRN_HOPPER_THREADS(groups) ((groups)*128 + 128)
#define CRN_HOPPER_BYTES(size, groups, met, stages, own)                                           \
    (4 * (size) * (64 * (groups) * (own) + (met) * (stages)) + 8 * (met) * (stages) +              \
     16 * ((stages) + (own)))

#endif
