/* launch_shapes.h: what launch functions share: forms by alignment, grids, and how a matrix is cut
 * into strips of rows. */
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
static inline void cut_rows(crn_cut *cut, uint32_t pack, uint32_t threads, uint32_t lanes,
                            uint32_t most_blocks) {
    cut->packs = divide_up(cut->channels, pack);
    cut->tiles = larger(divide_up(cut->packs, lanes), 1);
    cut->lanes = larger(divide_up(cut->packs, cut->tiles), 1);
    cut->groups = threads / cut->lanes;
    uint32_t each = 8;
    while (each > 1 && cut->tiles * divide_up(cut->rows, cut->groups * each) < FEW_BLOCKS)
        each /= 2;
    uint32_t strips = divide_up(cut->rows, cut->groups * each);
    strips = larger(smaller(strips, most_blocks / cut->tiles), 1);
    cut->strip = larger(divide_up(divide_up(cut->rows, strips), cut->groups) * cut->groups, 1);
    cut->strips = divide_up(cut->rows, cut->strip);
}

/* The cut for blocks that sum. If there are few rows, there is one strip of narrow tiles, so that
 * no block waits for the sums of others. For a small matrix this is faster than more blocks. Of
 * `operands` images, of which blocks with one read more, or of many channels, only very few rows
 * are. */
static inline void cut_sums(crn_cut *cut, uint32_t pack, uint32_t operands) {
    cut->packs = divide_up(cut->channels, pack);
    bool small = operands == 1 && cut->packs <= FEW_LANES * WHOLE_BLOCKS;
    if (cut->rows > (small ? FEW_ROWS : VERY_FEW_ROWS)) {
        cut_rows(cut, pack, COLUMN_THREADS, LANES, COLUMN_BLOCKS);
        return;
    }
    uint32_t lanes = cut->rows <= VERY_FEW_ROWS ? 2 * FEW_LANES : FEW_LANES;
    while (lanes < 4 * FEW_LANES && divide_up(cut->packs, lanes) > FEW_BLOCKS)
        lanes *= 2;
    cut->lanes = smaller(cut->packs, lanes);
    cut->tiles = divide_up(cut->packs, cut->lanes);
    cut->groups = COLUMN_THREADS / cut->lanes;
    cut->strip = cut->rows;
    cut->strips = 1;
}

static inline crn_launch sums_launch(crn_kernel_id kernel, uint32_t element, uint32_t pack,
                                     uint32_t operands, crn_cut *cut) {
    cut_sums(cut, pack, operands);
    crn_launch launch =
        launch_of(form_of(kernel, element, pack), cut->tiles * cut->strips, 1, COLUMN_THREADS);
    launch.tickets = cut->strips > 1 ? cut->tiles : 0;
    return launch;
}

static inline crn_launch column_launch(crn_kernel_id kernel, uint32_t element, uint32_t pack,
                                       crn_cut *cut) {
    cut_rows(cut, pack, COLUMN_THREADS, LANES, COLUMN_BLOCKS);
    return launch_of(form_of(kernel, element, pack), cut->tiles * cut->strips, 1, COLUMN_THREADS);
}

/* The workspace for `arrays` sums per channel, enough for every form. */
static inline uint64_t column_workspace(crn_cut cut, uint32_t element, uint32_t operands,
                                        uint32_t arrays) {
    uint64_t most = 0;
    for (uint32_t narrow = 0; narrow < 2; narrow++) {
        uint32_t pack = narrow ? 1 : wide_pack(element);
        cut_sums(&cut, pack, operands);
        uint64_t floats = (uint64_t)cut.tiles * cut.strips * arrays * cut.lanes * pack;
        most = floats > most ? floats : most;
    }
    return (most * sizeof(float) + 15) / 16 * 16;
}

#endif
