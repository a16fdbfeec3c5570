/* division.h: the division tree of a computation graph. */
#ifndef CRN_DIVISION_H
#define CRN_DIVISION_H

#include "solve/checkpoints/acg_problem.h"

/* The kinds of independent segment. An edge is the smallest segment: it has no vertex inside. */
typedef enum crn_division_kind {
    CRN_DIVISION_EDGE,
    CRN_DIVISION_LINEAR,     /* a row of segments with splitting vertices between them */
    CRN_DIVISION_BRANCH,     /* several segments side by side between the same two vertices */
    CRN_DIVISION_COMPLICATED /* neither: its children are the largest segments strictly inside */
} crn_division_kind;

/* A segment lies between vertices `from` and `to`, which are not inside. Inside are its own
 * vertices, where its children meet, and everything inside its children. Every vertex but source
 * and target is the own vertex of exactly one segment. */
typedef struct crn_division_node {
    crn_division_kind kind;
    uint32_t from, to;
    uint32_t parent; /* UINT32_MAX at the root */
    uint32_t first_child, child_count;
    uint32_t first_vertex,
        vertex_count; /* its own vertices; those of a linear segment are in order */
    uint64_t cost;    /* of everything inside */
} crn_division_node;

/* Node 0 is the root, children of a node are consecutive and come after it. The children of a
 * linear segment are in order: child i lies between own vertices i - 1 and i. */
typedef struct crn_division {
    uint32_t node_count;
    crn_division_node *nodes;
    uint32_t *vertices;
} crn_division;

/* Build the tree in `arena`. It is unique. The graph must have at least two vertices. O((n + m) log
 * n). */
CAIRN_MUST cairn_status crn_division_build(crn_arena *arena, const crn_acg *problem,
                                           crn_division *out);

#endif
