/* division.c: independent segments, their three kinds, and the division tree (definitions 1 to 6
 * and algorithms 2 to 4 of Feng and Huang), in near-linear time.
 *
 * The paper lists all pairs of vertices and tests each. This file uses that independence does not
 * depend on the directions of edges. Add one more edge from the target to the source, the reference
 * edge. The graph is then biconnected, because every vertex lies on a path from source to target.
 * Take a set of vertices that touches only two others, {i, j}. It is entered from one of them and
 * left to the other (if it were entered from both there would be a cycle), so it is independent.
 * Hence pairs of separating vertices split off the segments, and the tree of three-connected
 * components, rooted at the reference edge, is the division tree:
 *
 *     polygon    o--o--o--o            linear: the path without the edge that leads to the parent
 *     bond       o======o              branch: the edges without the one to the parent
 *     rigid      three-connected       complicated: one segment for each other edge
 *
 * This also corrects the paper's algorithms: a direct edge is a branch too, and segments
 * that consist of only some of the branches between two vertices are found. Those are unions of
 * children of one branch segment. They are never needed, because breaking a branch segment costs
 * nothing. The tree is unique because the tree of three-connected components is. */
#include "solve/checkpoints/division.h"
#include "solve/checkpoints/split_graph.h"

#include <stdlib.h>

#define NONE UINT32_MAX

typedef struct builder {
    crn_arena *arena;
    const crn_acg *problem;
    crn_split split;
    uint32_t *leader; /* per component: union-find */
    /* the edges of each merged component, by leader */
    uint32_t *start, *edges;
    crn_division *out;
    uint32_t *parent_edge; /* per node: the split edge between it and its parent */
    uint32_t *node_leader; /* per node: its merged component */
    uint32_t vertices_used;
    uint32_t (*around)[2]; /* per vertex: its two edges in the polygon at hand */
    uint8_t *marked;       /* per vertex: it is an own vertex of a segment */
} builder;

/* ---- Merging bonds with bonds and polygons with polygons ---- */

static uint32_t find(uint32_t *leader, uint32_t c) {
    while (leader[c] != c)
        c = leader[c] = leader[leader[c]];
    return c;
}

/* Whether a virtual edge joins two bonds or two polygons; then they are merged. */
static bool is_merged(const builder *b, uint32_t edge) {
    const uint32_t *c = b->split.component[edge];
    if (c[1] == NONE)
        return false;
    crn_split_kind kind = b->split.kinds[c[0]];
    return kind != CRN_SPLIT_RIGID && kind == b->split.kinds[c[1]];
}

static void merge_components(builder *b) {
    for (uint32_t c = 0; c < b->split.component_count; c++)
        b->leader[c] = c;
    for (uint32_t e = 0; e < b->split.edge_count; e++) {
        if (!is_merged(b, e))
            continue;
        uint32_t x = find(b->leader, b->split.component[e][0]);
        uint32_t y = find(b->leader, b->split.component[e][1]);
        b->leader[CRN_MAX(x, y)] = CRN_MIN(x, y);
    }
}

static cairn_status list_edges(builder *b) {
    uint32_t count = b->split.component_count;
    CRN_TAKE(b->arena, b->start, (size_t)count + 2);
    CRN_TAKE(b->arena, b->edges, 2 * (size_t)b->split.edge_count);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t e = 0; e < b->split.edge_count; e++) {
            for (int side = 0; side < 2 && !is_merged(b, e); side++) {
                if (b->split.component[e][side] == NONE)
                    continue;
                uint32_t leader = find(b->leader, b->split.component[e][side]);
                if (pass == 0)
                    b->start[leader + 2]++;
                else
                    b->edges[b->start[leader + 1]++] = e;
            }
        }
        for (uint32_t c = 0; c < count && pass == 0; c++)
            b->start[c + 2] += b->start[c + 1];
    }
    return CAIRN_OK;
}

/* ---- Nodes ---- */

static uint32_t add_node(builder *b, uint32_t parent, uint32_t edge, uint32_t leader) {
    static const crn_division_kind kinds[] = {[CRN_SPLIT_BOND] = CRN_DIVISION_BRANCH,
                                              [CRN_SPLIT_POLYGON] = CRN_DIVISION_LINEAR,
                                              [CRN_SPLIT_RIGID] = CRN_DIVISION_COMPLICATED};
    crn_graph_edge ends = b->split.edges[edge];
    const uint32_t *rank = b->problem->rank;
    bool along = rank[ends.a] < rank[ends.b];
    uint32_t id = b->out->node_count++;
    b->parent_edge[id] = edge;
    b->node_leader[id] = leader;
    b->out->nodes[id] = (crn_division_node){
        .kind = leader == NONE ? CRN_DIVISION_EDGE : kinds[b->split.kinds[leader]],
        .from = along ? ends.a : ends.b,
        .to = along ? ends.b : ends.a,
        .parent = parent,
    };
    return id;
}

/* Add the segment of an edge: what lies on its other side. */
static void add_child(builder *b, uint32_t parent, uint32_t edge) {
    uint32_t leader = b->node_leader[parent], other = NONE;
    const uint32_t *c = b->split.component[edge];
    if (c[1] != NONE) {
        uint32_t first = find(b->leader, c[0]);
        other = first == leader ? find(b->leader, c[1]) : first;
    }
    add_node(b, parent, edge, other);
    b->out->nodes[parent].child_count++;
}

static void add_vertex(builder *b, crn_division_node *node, uint32_t vertex) {
    b->out->vertices[b->vertices_used++] = vertex;
    b->marked[vertex] = 1;
    node->vertex_count++;
}

/* Walk around the polygon from `from` to `to`, the long way. */
static void divide_linear(builder *b, uint32_t id) {
    crn_division_node *node = &b->out->nodes[id];
    uint32_t leader = b->node_leader[id], first = b->start[leader], end = b->start[leader + 1];
    for (uint32_t i = first; i < end; i++) {
        crn_graph_edge ends = b->split.edges[b->edges[i]];
        b->around[ends.a][0] = b->around[ends.a][1] = NONE;
        b->around[ends.b][0] = b->around[ends.b][1] = NONE;
    }
    for (uint32_t i = first; i < end; i++) {
        crn_graph_edge ends = b->split.edges[b->edges[i]];
        b->around[ends.a][b->around[ends.a][0] != NONE] = b->edges[i];
        b->around[ends.b][b->around[ends.b][0] != NONE] = b->edges[i];
    }
    uint32_t at = node->from, edge = b->parent_edge[id];
    while (at != node->to) {
        edge = b->around[at][b->around[at][0] == edge];
        crn_graph_edge ends = b->split.edges[edge];
        at = ends.a == at ? ends.b : ends.a;
        add_child(b, id, edge);
        if (at != node->to)
            add_vertex(b, node, at);
    }
}

typedef struct ranked_edge {
    uint64_t key; /* ranks of its two ends */
    uint32_t edge;
} ranked_edge;

static int compare_ranked(const void *x, const void *y) {
    const ranked_edge *a = x, *b = y;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->edge > b->edge) - (a->edge < b->edge);
}

static uint64_t rank_key(const builder *b, uint32_t edge) {
    uint64_t x = b->problem->rank[b->split.edges[edge].a];
    uint64_t y = b->problem->rank[b->split.edges[edge].b];
    return x < y ? x << 32 | y : y << 32 | x;
}

/* Add a child for every edge except the one to the parent, in topological order. */
static cairn_status divide_other(builder *b, uint32_t id) {
    crn_division_node *node = &b->out->nodes[id];
    uint32_t leader = b->node_leader[id], count = 0;
    ranked_edge *sorted;
    CRN_TAKE(b->arena, sorted, b->start[leader + 1] - b->start[leader]);
    for (uint32_t i = b->start[leader]; i < b->start[leader + 1]; i++)
        if (b->edges[i] != b->parent_edge[id])
            sorted[count++] = (ranked_edge){rank_key(b, b->edges[i]), b->edges[i]};
    qsort(sorted, count, sizeof *sorted, compare_ranked);
    b->marked[node->from] = b->marked[node->to] = 1;
    for (uint32_t i = 0; i < count; i++) {
        crn_graph_edge ends = b->split.edges[sorted[i].edge];
        add_child(b, id, sorted[i].edge);
        if (!b->marked[ends.a])
            add_vertex(b, node, ends.a);
        if (!b->marked[ends.b])
            add_vertex(b, node, ends.b);
    }
    return CAIRN_OK;
}

/* Create the nodes in breadth-first order, so that children are consecutive. */
static cairn_status divide_all(builder *b) {
    for (uint32_t id = 0; id < b->out->node_count; id++) {
        crn_division_node *node = &b->out->nodes[id];
        node->first_child = b->out->node_count;
        node->first_vertex = b->vertices_used;
        if (node->kind == CRN_DIVISION_LINEAR)
            divide_linear(b, id);
        else if (node->kind != CRN_DIVISION_EDGE)
            CRN_TRY(divide_other(b, id));
    }
    return CAIRN_OK;
}

static void sum_costs(const crn_acg *problem, crn_division *tree) {
    for (uint32_t id = tree->node_count; id-- > 0;) {
        crn_division_node *node = &tree->nodes[id];
        for (uint32_t i = 0; i < node->vertex_count; i++)
            node->cost += problem->dag->costs[tree->vertices[node->first_vertex + i]];
        if (node->parent != NONE)
            tree->nodes[node->parent].cost += node->cost;
    }
}

/* ---- The tree ---- */

static cairn_status build_single_edge(crn_arena *arena, const crn_acg *problem, crn_division *out) {
    CRN_TAKE(arena, out->nodes, 1);
    CRN_TAKE(arena, out->vertices, 1);
    out->node_count = 1;
    out->nodes[0] = (crn_division_node){.kind = CRN_DIVISION_EDGE,
                                        .from = problem->dag->source,
                                        .to = problem->dag->target,
                                        .parent = NONE};
    return CAIRN_OK;
}

cairn_status crn_division_build(crn_arena *arena, const crn_acg *problem, crn_division *out) {
    builder b = {.arena = arena, .problem = problem, .out = out};
    size_t n = problem->dag->vertex_count;
    *out = (crn_division){0};
    if (n == 2)
        return build_single_edge(arena, problem, out);
    CRN_TRY(crn_split_graph(arena, problem, &b.split));
    CRN_TAKE(arena, b.leader, b.split.component_count);
    merge_components(&b);
    CRN_TRY(list_edges(&b));
    CRN_TAKE(arena, out->nodes, b.split.edge_count);
    CRN_TAKE(arena, out->vertices, n);
    CRN_TAKE(arena, b.parent_edge, b.split.edge_count);
    CRN_TAKE(arena, b.node_leader, b.split.edge_count);
    CRN_TAKE(arena, b.around, n);
    CRN_TAKE(arena, b.marked, n);
    uint32_t reference = problem->dag->edge_count;
    add_node(&b, NONE, reference, find(b.leader, b.split.component[reference][0]));
    CRN_TRY(divide_all(&b));
    sum_costs(problem, out);
    return CAIRN_OK;
}
