/* split_graph.h: the split components of a computation graph closed to a ring. */
#ifndef CRN_SPLIT_GRAPH_H
#define CRN_SPLIT_GRAPH_H

#include "solve/acg_internal.h"

typedef enum crn_split_kind { CRN_SPLIT_BOND, CRN_SPLIT_POLYGON, CRN_SPLIT_RIGID } crn_split_kind;

typedef struct crn_graph_edge {
    uint32_t a, b;
} crn_graph_edge;

/* A graph cut apart at its pairs of separating vertices. Where it was cut, both parts get a new
 * edge, the virtual edge, between the two vertices:
 *
 *       o---o          o---o     o            Bond: at least three parallel edges.
 *      /|   |\   ->    |   | and |\           Polygon: a triangle.
 *     o |   | o        o===o     | o  twice   Rigid: three-connected, at least six edges.
 *      \|   |/                   |/
 *       o---o                    o
 *
 * Bonds are not yet merged with bonds nor polygons with polygons, so the components are not unique;
 * after merging they are. */
typedef struct crn_split {
    uint32_t edge_count, real_count; /* edges 0 .. real_count - 1 are the graph's, in its order */
    crn_graph_edge *edges;
    uint32_t component_count;
    crn_split_kind *kinds;    /* per component */
    uint32_t (*component)[2]; /* per edge: where it is; a real edge is in one, then UINT32_MAX */
} crn_split;

/* Split the graph of `problem`, which must have at least three vertices, with one more edge at the
 * end, the reference edge, from target to source. Directions do not count, but virtual edges have
 * one: along the paths from source to target. O((n + m) log n) in linear memory, no recursion. */
CAIRN_MUST cairn_status crn_split_graph(crn_arena *arena, const crn_acg *problem, crn_split *out);

#endif
