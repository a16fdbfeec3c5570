/* pieces_order.h: pieces under a changing set of checkpoints, kept up to date locally. */
#ifndef CRN_PIECES_ORDER_H
#define CRN_PIECES_ORDER_H

#include "solve/acg_internal.h"

/* All vertices in a row, such that each strongly connected component (see pieces_value.c) is a
 * range of the row, and edges between components lead to the right. */
typedef struct crn_pieces_order {
    const crn_acg *problem;
    uint8_t *chosen;
    uint64_t kept;   /* sum of the chosen */
    uint64_t work;   /* lengths of all ranges searched so far */
    uint32_t *row;   /* vertex by place */
    uint32_t *place; /* its inverse */
    uint32_t *first; /* per place: where its component starts */
    uint32_t *last;  /* per place where a component starts: where it ends */
    uint64_t *cost;  /* per place where a component starts: of what is not chosen in it */
    /* scratch of the search; `mark` tells the vertices of this search from others */
    uint32_t *index, *low, *stack, *path, *at, *mark, turn;
    uint32_t *new_row, *new_first, *new_last;
    uint64_t *new_cost;
} crn_pieces_order;

/* Start with the set `chosen`, which is copied. O(n + m). */
CAIRN_MUST cairn_status crn_pieces_order_take(crn_arena *arena, const crn_acg *problem,
                                              const uint8_t *chosen, crn_pieces_order *out);
void crn_pieces_order_set(crn_pieces_order *order, const uint8_t *chosen);

/* Change `x` and, unless it is UINT32_MAX, `y`: kept becomes not kept and the other way round. If a
 * piece would then exceed `limit`, nothing is changed and false returned. Time is that of searching
 * the range of the row between the components concerned. */
bool crn_pieces_order_flip(crn_pieces_order *order, uint32_t x, uint32_t y, uint64_t limit);

/* What the piece of `vertex` would cost at least if it were not kept. */
uint64_t crn_pieces_order_merged(const crn_pieces_order *order, uint32_t vertex);

uint64_t crn_pieces_order_largest(const crn_pieces_order *order);

#endif
