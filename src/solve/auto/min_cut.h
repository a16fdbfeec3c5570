/* min_cut.h: the minimum cut between two nodes of a small network, by Dinic's algorithm with
 * integer capacities. The network is built once, and its capacities are set for each cut. */
#ifndef CRN_MIN_CUT_H
#define CRN_MIN_CUT_H

#include "base/crn_base.h"

#define CRN_MIN_CUT_NEVER ((int64_t)1 << 60) /* the capacity of an edge that must not be cut */

typedef struct crn_min_cut_edge {
    uint32_t to;
    int64_t capacity; /* the capacity that is left */
} crn_min_cut_edge;

typedef struct crn_min_cut_network {
    uint32_t node_count, source, sink;
    crn_arena *arena;
    CRN_ARRAY(crn_min_cut_edge) edges; /* in pairs: an edge and its reverse */
    CRN_ARRAY(uint32_t) tails;
    uint32_t *first, *order; /* edges by tail: order[first[node] .. first[node + 1]) */
    uint32_t order_room;
    uint32_t *level, *next, *queue, *path;
} crn_min_cut_network;

/* Create a network for up to `most_nodes` nodes; edges are allocated in `arena`. */
CAIRN_MUST cairn_status crn_min_cut_create(crn_arena *arena, uint32_t most_nodes,
                                           crn_min_cut_network **out);
/* Make the network empty, with `nodes` nodes. */
void crn_min_cut_reset(crn_min_cut_network *network, uint32_t nodes, uint32_t source,
                       uint32_t sink);
/* `*index` (may be NULL) is what crn_min_cut_set_capacity() takes. */
CAIRN_MUST cairn_status crn_min_cut_add(crn_min_cut_network *network, uint32_t from, uint32_t to,
                                        int64_t capacity, uint32_t *index);
/* Call this after all edges were added. */
CAIRN_MUST cairn_status crn_min_cut_freeze(crn_min_cut_network *network);
void crn_min_cut_set_capacity(crn_min_cut_network *network, uint32_t index, int64_t capacity);

/* The value of the minimum cut; then crn_min_cut_reached() says which nodes are on the side of the
 * source. O(V^2 E) at worst, far less on the networks of training steps. */
int64_t crn_min_cut_solve(crn_min_cut_network *network);
static inline bool crn_min_cut_reached(const crn_min_cut_network *network, uint32_t node) {
    return network->level[node] != UINT32_MAX;
}

#endif
