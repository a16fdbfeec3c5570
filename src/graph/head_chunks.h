/* head_chunks.h: into how many chunks of tokens a head_loss may be divided. The logits of one chunk
 * are in its workspace; implementation k has 2^k chunks. */
#ifndef CRN_HEAD_CHUNKS_H
#define CRN_HEAD_CHUNKS_H

#include "base/crn_base.h"
#include "cairn/graph.h"

#define CRN_HEAD_CHOICES 6u /* 1 to 32 chunks */
#define CRN_HEAD_LEAST 16u  /* rows of a chunk */

/* The tokens of a head_loss. */
static inline uint64_t crn_head_rows(const cairn_graph *graph, const cairn_op *op) {
    const cairn_tensor *x = cairn_graph_tensor(graph, op->inputs[0]);
    uint64_t rows = 1;
    for (uint32_t i = 0; i + 1 < x->rank; i++)
        rows *= x->shape[i];
    return rows;
}

/* Chunks have the same number of rows. */
static inline bool crn_head_can_have_chunks(const cairn_graph *graph, const cairn_op *op,
                                            uint32_t chunks) {
    uint64_t rows = crn_head_rows(graph, op);
    return chunks == 1 || (rows % chunks == 0 && rows / chunks >= CRN_HEAD_LEAST);
}

/* The logits of a chunk. */
static inline uint64_t crn_head_logits(const cairn_graph *graph, const cairn_op *op,
                                       uint32_t chunks) {
    return crn_head_rows(graph, op) / chunks * cairn_graph_tensor(graph, op->params[0])->shape[0];
}

#endif
