/* dominators.c: the dominator tree of a graph without cycles.
 *
 * Vertices are added in topological order. The parent of a vertex is the nearest common ancestor of
 * its predecessors, which are already in the tree. To find it without walking up a deep tree step
 * by step, every vertex has, besides its parent, one link to a far ancestor. The lengths of these
 * links follow the digits of the depth in skew binary numbers, 1, 3, 7, 15, ..., so that
 *
 *     - vertices of equal depth have links of equal length: two vertices can climb side by side;
 *     - going up, at most about 2 log n links and parents lead to any ancestor. */
#include "solve/checkpoints/dominators.h"

typedef struct tree {
    uint32_t *parent, *depth;
    uint32_t *far; /* the link to a far ancestor; that of the source is itself */
} tree;

static void add_vertex(tree *t, uint32_t vertex, uint32_t parent) {
    uint32_t far = t->far[parent], farther = t->far[far];
    bool equal = t->depth[parent] - t->depth[far] == t->depth[far] - t->depth[farther];
    t->parent[vertex] = parent;
    t->depth[vertex] = t->depth[parent] + 1;
    t->far[vertex] = equal ? farther : parent;
}

static uint32_t ancestor_at(const tree *t, uint32_t vertex, uint32_t depth) {
    while (t->depth[vertex] > depth)
        vertex = t->depth[t->far[vertex]] >= depth ? t->far[vertex] : t->parent[vertex];
    return vertex;
}

static uint32_t common_ancestor(const tree *t, uint32_t x, uint32_t y) {
    x = ancestor_at(t, x, t->depth[y]);
    y = ancestor_at(t, y, t->depth[x]);
    while (x != y) {
        bool apart = t->far[x] != t->far[y];
        x = apart ? t->far[x] : t->parent[x];
        y = apart ? t->far[y] : t->parent[y];
    }
    return x;
}

cairn_status crn_dominators_build(crn_arena *arena, const crn_acg *problem, crn_dominators *out) {
    uint32_t n = problem->dag->vertex_count, source = problem->dag->source;
    const crn_neighbours *previous = &problem->previous;
    tree t;
    CRN_TAKE(arena, t.parent, n);
    CRN_TAKE(arena, t.depth, n);
    CRN_TAKE(arena, t.far, n);
    t.parent[source] = UINT32_MAX;
    t.depth[source] = 1;
    t.far[source] = source;
    for (uint32_t at = 1; at < n; at++) {
        uint32_t v = problem->order[at], first = previous->start[v];
        uint32_t parent = previous->items[first];
        for (uint32_t i = first + 1; i < previous->start[v + 1]; i++)
            parent = common_ancestor(&t, parent, previous->items[i]);
        add_vertex(&t, v, parent);
    }
    *out = (crn_dominators){t.parent, t.depth};
    return CAIRN_OK;
}
