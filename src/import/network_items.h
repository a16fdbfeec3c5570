/* network_items.h: a network as the lines of its source: shared by what makes them from a graph
 * (network_source.c) and what finds blocks among them (network_blocks.c). */
#ifndef CRN_NETWORK_ITEMS_H
#define CRN_NETWORK_ITEMS_H

#include "base/crn_base.h"

#define CRN_MOST_PAIRS 16

typedef struct crn_item_pair {
    const char *key, *value;
} crn_item_pair;

/* A layer or a tensor. */
typedef struct crn_item {
    const char *name, *kind;
    crn_item_pair pairs[CRN_MOST_PAIRS]; /* without from and params */
    uint32_t pair_count;
    const char **reads; /* full names; those of a layer */
    uint32_t read_count;
    const char *params; /* the value of params=; NULL: the layer's own */
    bool chains;        /* it reads one tensor, and is read by those after it */
} crn_item;

typedef struct crn_items {
    crn_arena *scratch;
    CRN_ARRAY(crn_item) list;
    cairn_text *out;
} crn_items;

/* Write the lines, with blocks where layers repeat. `last` is what the first layer
 * reads if it says nothing. */
CAIRN_MUST cairn_status crn_items_write(crn_items *items, const char *last);

#endif
