/* min_cut.h: the least cut between two nodes of a small network, by Dinic's algorithm with integer
 * capacities. The network is made once and its capacities are set for each cut. */
#ifndef CRN_MIN_CUT_H
#define CRN_MIN_CUT_H

#include "base/crn_base.h"

#define CRN_CUT_NEVER ((int64_t)1 << 60) /* the capacity of what must not be cut */

typedef struct crn_cut_edge {
    uint32_t to;
    int64_t capacity; /* what is left of it */
} crn_cut_edge;

typedef struct crn_cut_network {
    uint32_t node_count, source, sink;
    crn_arena *arena;
    CRN_ARRAY(crn_cut_edge) edges; /* in pairs: an edge and its reverse */
    CRN_ARRAY(uint32_t) tails;
    uint32_t *first, *order; /* edges by tail: order[first[node] .. first[node + 1]) */
    uint32_t order_room;
    uint32_t *level, *next, *queue, *path;
} crn_cut_network;

/* A network of so many nodes; room for edges grows in `arena`. */
CAIRN_MUST cairn_status crn_cut_create(crn_arena *arena, uint32_t most_nodes,
                                       crn_cut_network **out);
/* Empty, with `nodes` nodes, at most as many as it was made for. */
void crn_cut_reset(crn_cut_network *network, uint32_t nodes, uint32_t source, uint32_t sink);
/* `*index` (may be NULL) is what crn_cut_set_capacity() takes. */
CAIRN_MUST cairn_status crn_cut_add(crn_cut_network *network, uint32_t from, uint32_t to,
                                    int64_t capacity, uint32_t *index);
/* After all edges were added. */
CAIRN_MUST cairn_status crn_cut_freeze(crn_cut_network *network);
void crn_cut_set_capacity(crn_cut_network *network, uint32_t index, int64_t capacity);

/* The value of the least cut; crn_cut_reached() then says which nodes are on the side of the
 * source. O(V^2 E) at worst, far less on the networks of training steps. */
int64_t crn_cut_solve(crn_cut_network *network);
static inline bool crn_cut_reached(const crn_cut_network *network, uint32_t node) {
    return network->level[node] != UINT32_MAX;
}

#endif
