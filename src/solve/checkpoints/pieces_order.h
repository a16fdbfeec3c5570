/* pieces_order.h: the components of a changing set of checkpoints, with local updates. */
#ifndef CRN_PIECES_ORDER_H
#define CRN_PIECES_ORDER_H

#include "solve/checkpoints/acg_internal.h"

/* A place of the row. */
typedef struct crn_pieces_slot {
    uint64_t cost; /* at the start of a component: the cost of what is not chosen in it */
    uint32_t vertex;
    uint32_t first; /* where its component starts */
    uint32_t last;  /* at the start of a component: where it ends */
} crn_pieces_slot;

/* The state of a vertex in the search. `turn` distinguishes this search from earlier ones. */
typedef struct crn_pieces_visit {
    uint32_t place; /* in the row */
    uint32_t turn, index, low, at;
} crn_pieces_visit;

/* All vertices in a row, such that each strongly connected component (see pieces_value.c) is a
 * range of the row, and edges between components lead to the right. */
typedef struct crn_pieces_order {
    const crn_acg *problem;
    const crn_arena *arena; /* whose watch may end a search */
    uint8_t *chosen;
    uint64_t kept; /* cost of the chosen vertices */
    uint64_t work; /* total length of the ranges searched so far */
    crn_pieces_slot *row, *new_row;
    crn_pieces_visit *visits; /* per vertex */
    uint32_t *stack, *path;
    uint32_t turn;
} crn_pieces_order;

/* Start with the set `chosen`, which is copied. O(n + m). */
CAIRN_MUST cairn_status crn_pieces_order_take(crn_arena *arena, const crn_acg *problem,
                                              const uint8_t *chosen, crn_pieces_order *out);
void crn_pieces_order_set(crn_pieces_order *order, const uint8_t *chosen);

/* Flip `x` and, unless it is UINT32_MAX, `y`: a kept vertex becomes not kept and the other way
 * round. If a component would then exceed `limit`, nothing changes and the result is false. The
 * time is that of searching the range of the row between the affected components. */
bool crn_pieces_order_flip(crn_pieces_order *order, uint32_t x, uint32_t y, uint64_t limit);

/* A lower bound of the cost of the component that `vertex` would be in if it were not kept. */
uint64_t crn_pieces_order_merged(const crn_pieces_order *order, uint32_t vertex);

/* The cost of the component that `vertex` is in. */
uint64_t crn_pieces_order_component(const crn_pieces_order *order, uint32_t vertex);

uint64_t crn_pieces_order_largest(const crn_pieces_order *order);

#endif
