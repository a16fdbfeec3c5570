/* views.h: a graph as the papers' algorithms see it, made from its forward phase.
 *
 * Left out of both views: labels, the loss, parameters, internals, and inputs other than the first
 * (the per-step inputs of a recurrent network). */
#ifndef CAIRN_VIEWS_H
#define CAIRN_VIEWS_H

#include "cairn/graph.h"
#include "cairn/papers/acg.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The vertex-weighted DAG. A vertex is a storage: a tensor with its aliases and with what is made
 * in place of it without loss (a batch-norm and the ReLU behind it are one vertex). If there is
 * more than one source or target, a free virtual one joins them. */
typedef struct cairn_dag_view {
    cairn_dag dag;             /* vertices in canonical order, virtual ends last */
    const cairn_id *tensors;   /* per vertex: the last tensor in its storage; CAIRN_NONE: virtual */
    const uint32_t *vertex_of; /* per tensor of the graph: its vertex, or CAIRN_NONE */
    void *memory;              /* the view's own */
} cairn_dag_view;

/* `bytes` per tensor are the vertices' costs; NULL: the graph's own. O(n). */
CAIRN_API CAIRN_MUST cairn_status cairn_dag_view_create(const cairn_graph *graph,
                                                        const uint64_t *bytes, cairn_dag_view **out,
                                                        cairn_error *err);
CAIRN_API void cairn_dag_view_destroy(cairn_dag_view *view);

/* The chain: pieces between consecutive cuts. A cut is a point of the canonical order at which
 * exactly one tensor is alive and some backward op reads it.
 *
 *      cuts[0]        cuts[1]               cuts[n-1]
 *     --o--[ piece 0 ]--o--[ piece 1 ]-- ... --o--[ piece n-1, with the loss ]
 */
typedef struct cairn_chain_view {
    uint32_t piece_count;
    const cairn_id *cuts;     /* per piece: the tensor that it starts from; cuts[0] is the input */
    const cairn_id *first_op; /* per piece, and the number of forward ops: forward ops
                                 first_op[i] .. first_op[i + 1] - 1 belong to piece i */
    const uint32_t *piece_of; /* per op of the graph; a backward op belongs to that of its `of` */
    void *memory;
} cairn_chain_view;

/* Every graph with a forward op has a chain, if only of one piece. O(n). */
CAIRN_API CAIRN_MUST cairn_status cairn_chain_view_create(const cairn_graph *graph,
                                                          cairn_chain_view **out, cairn_error *err);
CAIRN_API void cairn_chain_view_destroy(cairn_chain_view *view);

/* The vertex-weighted DAG of a graph for graphviz, with two sets of checkpoints on it, either of
 * which may be NULL: one in green and one in red; a vertex of both sets has both colours. */
CAIRN_API CAIRN_MUST cairn_status cairn_checkpoints_to_dot(const cairn_graph *graph,
                                                           const cairn_dag_view *view,
                                                           const cairn_acg_solution *green,
                                                           const cairn_acg_solution *red,
                                                           cairn_text *out);

#ifdef __cplusplus
}
#endif
#endif
