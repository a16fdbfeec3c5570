/* columns.h: the place of a thread in a block that processes a strip of rows, and sums over a
 * block.
 *
 *     lane    0  1  2  3 | 0  1  2  3       `lanes` packs of channels side by side,
 *     thread  0  1  2  3 | 4  5  6  7       `groups` rows at a time: thread = group * lanes + lane
 *             group 0    | group 1
 */
#ifndef CRN_COLUMNS_H
#define CRN_COLUMNS_H

#include "backend/cuda/kernels/numbers.h"

/* As in kernel_launch.c. */
#define CRN_COLUMN_THREADS 512u
#define CRN_DEPTHWISE_LANES 16u /* packs of channels that a block has */

typedef struct crn_place {
    uint32_t group, lane;
    uint32_t column;     /* pack of the row */
    uint32_t first, end; /* rows; first == end: the thread has none */
} crn_place;

CRN_DEVICE crn_place crn_place_of(const crn_tiling *tiling, uint32_t tile, uint32_t strip,
                                  uint32_t t) {
    crn_place at;
    at.group = t / tiling->lanes;
    at.lane = t % tiling->lanes;
    at.column = tile * tiling->lanes + at.lane;
    at.end = crn_min_u32((strip + 1) * tiling->strip, tiling->rows);
    at.first = strip * tiling->strip + at.group;
    if (at.group >= tiling->groups || at.column >= tiling->packs || at.first > at.end)
        at.first = at.end;
    return at;
}

/* The largest power of two below `groups`, where a tree over groups starts; 0 for one group. */
CRN_DEVICE uint32_t crn_tree_top(uint32_t groups) {
    uint32_t half = 1;
    while (half < groups)
        half *= 2;
    return half / 2;
}

#endif
