/* dag.h: the vertex-weighted DAG of Feng and Huang: a vertex is a tensor and costs memory, an edge
 * says that the op making `to` reads `from`. One source, one target, every vertex on a path between
 * them. It is the input of the checkpoint searches, made from a graph (views.h) or read from a file
 * (acg.h). */
#ifndef CAIRN_DAG_H
#define CAIRN_DAG_H

#include "cairn/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cairn_dag_edge {
    uint32_t from, to;
} cairn_dag_edge;

/* Plain data; the function that makes it says who owns the arrays. Vertex numbers need not be
 * topological; no edge occurs twice. */
typedef struct cairn_dag {
    uint32_t vertex_count, edge_count;
    uint32_t source, target;
    const uint64_t *costs;       /* per vertex; their sum fits in 63 bits */
    const cairn_dag_edge *edges; /* sorted by from, then to */
} cairn_dag;

#ifdef __cplusplus
}
#endif
#endif
