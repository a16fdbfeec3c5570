/* attention_launch.c: the grids of the kernels of attention: see kernel_launch.c. */
#include "backend/cuda/kernels.h"

#define THREADS 256u
#define TILE 32u       /* rows of a block */
#define SMALL_TILE 16u /* of large heads: a tile has at most 4096 elements */

static uint32_t divide_up(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

static crn_launch tile_launch(crn_kernel_id kernel, crn_attention_args *given, uint32_t heads) {
    given->tile = given->size > CRN_ATTENTION_MOST / 2 ? SMALL_TILE : TILE;
    return (crn_launch){.kernel = (crn_kernel_id)((uint32_t)kernel + given->element),
                        .blocks = {divide_up(given->tokens, given->tile) * heads, given->batch},
                        .threads = THREADS};
}

crn_launch crn_attention_launch(crn_attention_args *given) {
    return tile_launch(CRN_K_attention, given, given->heads);
}

crn_launch crn_attention_along_launch(crn_attention_args *given) {
    uint32_t rows = given->batch * given->tokens * given->heads;
    return (crn_launch){.kernel = (crn_kernel_id)((uint32_t)CRN_K_attention_along + given->element),
                        .blocks = {divide_up(rows, THREADS), 1},
                        .threads = THREADS};
}

crn_launch crn_attention_keys_launch(crn_attention_args *given) {
    return tile_launch(CRN_K_attention_keys, given, given->kv_heads);
}

crn_launch crn_attention_queries_launch(crn_attention_args *given) {
    return tile_launch(CRN_K_attention_queries, given, given->heads);
}
