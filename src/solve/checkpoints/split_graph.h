/* split_graph.h: the split components of a computation graph with one more edge from target to
 * source. */
#ifndef CRN_SPLIT_GRAPH_H
#define CRN_SPLIT_GRAPH_H

#include "solve/checkpoints/acg_problem.h"

typedef enum crn_split_kind { CRN_SPLIT_BOND, CRN_SPLIT_POLYGON, CRN_SPLIT_RIGID } crn_split_kind;

typedef struct crn_graph_edge {
    uint32_t a, b;
} crn_graph_edge;

/* The graph, split at every pair of vertices that separates it. Each split adds a virtual edge
 * between the two vertices on both sides, so that every component is a graph itself:
 *
 *     kind       what it is
 *     bond       three or more edges between the same two vertices
 *     polygon    a triangle
 *     rigid      no two of its vertices separate it
 *
 * Neighbouring bonds are not merged, and neighbouring polygons are not; after merging they would be
 * unique. */
typedef struct crn_split {
    uint32_t edge_count,
        real_count; /* edges 0 .. real_count - 1 are those of the graph, in its order */
    crn_graph_edge *edges;
    uint32_t component_count;
    crn_split_kind *kinds;    /* per component */
    uint32_t (*component)[2]; /* per edge: its components; a real edge has one, then UINT32_MAX */
} crn_split;

/* Split the graph of `problem`, which must have at least three vertices. One more edge, the
 * reference edge from target to source, is the last one. Directions of edges are ignored, but
 * virtual edges have one: along the paths from source to target. O((n + m) log n) in linear memory,
 * no recursion. */
CAIRN_MUST cairn_status crn_split_graph(crn_arena *arena, const crn_acg *problem, crn_split *out);

#endif
