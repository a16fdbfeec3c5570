/* backward_of_piece.c: the backward ops of a piece, with recomputations. A tensor is recomputed
 * just before the op that reads it, so that for example a batch-norm and its ReLU are in memory
 * only for a short time. */
#include "solve/chain/measuring.h"

cairn_status crn_backward_index(crn_measuring *m) {
    uint32_t pieces = m->view->piece_count, ops = cairn_graph_op_count(m->graph);
    cairn_id forward = m->view->first_op[pieces];
    CRN_TAKE(m->arena, m->first_backward, pieces + 1);
    CRN_TAKE(m->arena, m->backward_ops, ops - forward);
    for (cairn_id o = forward; o < ops; o++)
        m->first_backward[m->view->piece_of[o] + 1]++;
    for (uint32_t p = 0; p < pieces; p++)
        m->first_backward[p + 1] += m->first_backward[p];
    uint32_t *fill;
    CRN_TAKE(m->arena, fill, pieces);
    for (cairn_id o = forward; o < ops; o++) {
        uint32_t p = m->view->piece_of[o];
        m->backward_ops[m->first_backward[p] + fill[p]++] = o;
    }
    return CAIRN_OK;
}

/* Whether a forward op of the piece makes the tensor. */
static bool made_in(const crn_measuring *m, cairn_id t, uint32_t piece) {
    cairn_id producer = cairn_graph_tensor(m->graph, t)->producer;
    return producer != CAIRN_NONE && producer < m->view->first_op[m->view->piece_count] &&
           m->view->piece_of[producer] == piece;
}

typedef struct backward_lists {
    CRN_ARRAY(crn_decision) decisions;
    CRN_ARRAY(cairn_id) kept;
    CRN_ARRAY(cairn_id) stack;
} backward_lists;

/* Record that `t` is needed: it is there already, it is kept, or the op that makes it must be
 * recomputed. */
static cairn_status need(crn_measuring *m, backward_lists *lists, uint32_t piece, cairn_id t) {
    if (!made_in(m, t, piece) || m->epoch_of[t] == m->epoch)
        return CAIRN_OK;
    if (m->keepable[t]) {
        m->epoch_of[t] = m->epoch;
        CRN_PUSH(m->arena, lists->kept, t);
        return CAIRN_OK;
    }
    cairn_id producer = cairn_graph_tensor(m->graph, t)->producer;
    if (!m->wanted_op[producer]) {
        m->wanted_op[producer] = true;
        CRN_PUSH(m->arena, lists->stack, producer);
    }
    return CAIRN_OK;
}

/* Recompute, in canonical order, the inputs of backward op `b`. */
static cairn_status provide(crn_measuring *m, backward_lists *lists, uint32_t piece, cairn_id b) {
    const cairn_op *op = cairn_graph_op(m->graph, b);
    for (uint32_t i = 0; i < op->input_count; i++)
        CRN_TRY(need(m, lists, piece, op->inputs[i]));
    if (lists->stack.length == 0)
        return CAIRN_OK;
    while (lists->stack.length > 0) {
        const cairn_op *again = cairn_graph_op(m->graph, lists->stack.data[--lists->stack.length]);
        for (uint32_t i = 0; i < again->input_count; i++)
            CRN_TRY(need(m, lists, piece, again->inputs[i]));
    }
    for (cairn_id o = m->view->first_op[piece]; o < m->view->first_op[piece + 1]; o++) {
        if (!m->wanted_op[o])
            continue;
        m->wanted_op[o] = false;
        crn_decision run = {CRN_RUN, o};
        CRN_PUSH(m->arena, lists->decisions, run);
        const cairn_op *made = cairn_graph_op(m->graph, o);
        for (uint32_t i = 0; i < made->output_count; i++)
            if (made->outputs[i] != CAIRN_NONE)
                m->epoch_of[made->outputs[i]] = m->epoch;
    }
    return CAIRN_OK;
}

cairn_status crn_backward_make(crn_measuring *m, uint32_t piece, crn_backward *out) {
    backward_lists lists = {0};
    m->epoch++;
    for (uint32_t k = m->first_backward[piece]; k < m->first_backward[piece + 1]; k++) {
        crn_decision run = {CRN_RUN, m->backward_ops[k]};
        CRN_TRY(provide(m, &lists, piece, run.id));
        CRN_PUSH(m->arena, lists.decisions, run);
    }
    *out = (crn_backward){lists.decisions.data, lists.decisions.length, lists.kept.data,
                          lists.kept.length};
    return CAIRN_OK;
}
