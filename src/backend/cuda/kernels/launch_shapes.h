/* launch_shapes.h: what launch functions share: forms by alignment, grids, and how a matrix is
 * divided into strips of rows. */
#ifndef CRN_LAUNCH_SHAPES_H
#define CRN_LAUNCH_SHAPES_H

#include "backend/cuda/kernels.h"

#include <assert.h>
#include <stdbool.h>

#define THREADS 256u        /* of most blocks; blocks that sum rely on it */
#define COLUMN_THREADS 512u /* of blocks that process strips of rows */
#define COLUMN_BLOCKS 264u  /* the most of these blocks, unless one row of tiles has more */
#define FEW_BLOCKS 132u
#define LANES 32u /* the most packs of channels of such a block */
#define FEW_ROWS 4096u
#define VERY_FEW_ROWS 1024u
#define FEW_LANES 2u     /* of a block that has all rows: 32 bytes of each row */
#define WHOLE_BLOCKS 64u /* beyond that the whole GPU reads faster than blocks with few lanes */
#define DEPTHWISE_LANES 16u
#define POINTWISE_PACKS 4u /* of a thread */
#define MOST_BLOCKS 2112u  /* if threads loop until everything is done */

static inline uint32_t divide_up(uint64_t a, uint64_t b) {
    uint64_t result = (a + b - 1) / b;
    assert(result <= UINT32_MAX);
    return (uint32_t)result;
}

static inline uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static inline uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* ---- Forms ---- */

static inline uint32_t wide_pack(uint32_t element) {
    return element == CRN_ELEMENT_BF16 ? 8 : 4;
}

/* An image that a kernel reads or writes; NULL fits any form. */
typedef struct operand {
    const void *at;
    uint32_t pitch;
} operand;

/* The elements of a pack: 16 bytes if every operand allows it, else one element. */
static inline uint32_t pack_of(uint32_t element, uint32_t channels, const operand *operands,
                               uint32_t count) {
    uint32_t pack = wide_pack(element);
    for (uint32_t i = 0; i < count; i++) {
        const operand *o = &operands[i];
        if (o->at == NULL)
            continue;
        if ((uintptr_t)o->at % 16 != 0 || o->pitch % pack != 0 || o->pitch < channels)
            return 1;
    }
    return pack;
}

/* The form of an image kernel whose first is `kernel`. */
static inline crn_kernel_id form_of(crn_kernel_id kernel, uint32_t element, uint32_t pack) {
    return (crn_kernel_id)((uint32_t)kernel + element + (pack == 1 ? 2u : 0u));
}

static inline crn_launch launch_of(crn_kernel_id kernel, uint32_t x, uint32_t y, uint32_t threads) {
    return (crn_launch){.kernel = kernel, .blocks = {x, y}, .threads = threads};
}

/* As many blocks as `count` threads need, up to MOST_BLOCKS, whose threads loop. */
static inline crn_launch flat_launch(crn_kernel_id kernel, uint64_t count) {
    uint64_t blocks = (count + THREADS - 1) / THREADS;
    return launch_of(kernel, (uint32_t)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), 1, THREADS);
}

static inline crn_kernel_id typed(crn_kernel_id kernel, uint32_t element) {
    return (crn_kernel_id)((uint32_t)kernel + element);
}

/* ---- Strips of rows ---- */

/* A thread should have 8 rows, so that 8 loads are in flight; fewer if there would be few
 * blocks. */
static inline void tile_rows(crn_tiling *tiling, uint32_t pack, uint32_t threads, uint32_t lanes,
                             uint32_t most_blocks) {
    tiling->packs = divide_up(tiling->channels, pack);
    tiling->tiles = larger(divide_up(tiling->packs, lanes), 1);
    tiling->lanes = larger(divide_up(tiling->packs, tiling->tiles), 1);
    tiling->groups = threads / tiling->lanes;
    uint32_t each = 8;
    while (each > 1 && tiling->tiles * divide_up(tiling->rows, tiling->groups * each) < FEW_BLOCKS)
        each /= 2;
    uint32_t strips = divide_up(tiling->rows, tiling->groups * each);
    strips = larger(smaller(strips, most_blocks / tiling->tiles), 1);
    tiling->strip =
        larger(divide_up(divide_up(tiling->rows, strips), tiling->groups) * tiling->groups, 1);
    tiling->strips = divide_up(tiling->rows, tiling->strip);
}

/* The tiling for blocks that sum. If there are few rows, there is one strip of narrow tiles, so
 * that no block waits for the sums of others. For a small matrix this is faster than more blocks.
 * Of `operands` images, of which blocks with one read more, or of many channels, only very few rows
 * are. */
static inline void tile_sums(crn_tiling *tiling, uint32_t pack, uint32_t operands) {
    tiling->packs = divide_up(tiling->channels, pack);
    bool small = operands == 1 && tiling->packs <= FEW_LANES * WHOLE_BLOCKS;
    if (tiling->rows > (small ? FEW_ROWS : VERY_FEW_ROWS)) {
        tile_rows(tiling, pack, COLUMN_THREADS, LANES, COLUMN_BLOCKS);
        return;
    }
    uint32_t lanes = tiling->rows <= VERY_FEW_ROWS ? 2 * FEW_LANES : FEW_LANES;
    while (lanes < 4 * FEW_LANES && divide_up(tiling->packs, lanes) > FEW_BLOCKS)
        lanes *= 2;
    tiling->lanes = smaller(tiling->packs, lanes);
    tiling->tiles = divide_up(tiling->packs, tiling->lanes);
    tiling->groups = COLUMN_THREADS / tiling->lanes;
    tiling->strip = tiling->rows;
    tiling->strips = 1;
}

static inline crn_launch sums_launch(crn_kernel_id kernel, uint32_t element, uint32_t pack,
                                     uint32_t operands, crn_tiling *tiling) {
    tile_sums(tiling, pack, operands);
    crn_launch launch = launch_of(form_of(kernel, element, pack), tiling->tiles * tiling->strips, 1,
                                  COLUMN_THREADS);
    launch.tickets = tiling->strips > 1 ? tiling->tiles : 0;
    return launch;
}

static inline crn_launch column_launch(crn_kernel_id kernel, uint32_t element, uint32_t pack,
                                       crn_tiling *tiling) {
    tile_rows(tiling, pack, COLUMN_THREADS, LANES, COLUMN_BLOCKS);
    return launch_of(form_of(kernel, element, pack), tiling->tiles * tiling->strips, 1,
                     COLUMN_THREADS);
}

/* The workspace for `arrays` sums per channel, enough for every form. */
static inline uint64_t column_workspace(crn_tiling tiling, uint32_t element, uint32_t operands,
                                        uint32_t arrays) {
    uint64_t most = 0;
    for (uint32_t narrow = 0; narrow < 2; narrow++) {
        uint32_t pack = narrow ? 1 : wide_pack(element);
        tile_sums(&tiling, pack, operands);
        uint64_t floats = (uint64_t)tiling.tiles * tiling.strips * arrays * tiling.lanes * pack;
        most = floats > most ? floats : most;
    }
    return (most * sizeof(float) + 15) / 16 * 16;
}

#endif
