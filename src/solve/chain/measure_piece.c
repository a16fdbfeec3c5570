/* measure_piece.c: memory and time of one piece by itself. They are measured with the lowering, so
 * that they agree with the plan.
 *
 * A part starts with the tensors that are given to it and ends with those that are wanted from it:
 *
 *     forward    constants, the cut before it -> what is kept, the cut after it
 *     backward   constants, what was kept, gradients of later pieces -> gradients of earlier ones
 */
#include "solve/chain/measuring.h"

/* ---- Constants ---- */

bool crn_is_constant(const crn_measuring *m, cairn_id t) {
    cairn_role role = cairn_graph_tensor(m->graph, t)->role;
    return role == CAIRN_ROLE_INPUT || role == CAIRN_ROLE_LABEL;
}

static void note_constants(crn_measuring *m, cairn_id o) {
    const cairn_op *op = cairn_graph_op(m->graph, o);
    for (uint32_t i = 0; i < op->input_count; i++) {
        cairn_id t = op->inputs[i];
        if (!crn_is_constant(m, t) || m->epoch_of[t] == m->epoch)
            continue;
        m->epoch_of[t] = m->epoch;
        m->constant[m->constant_count++] = t;
        m->constant_bytes += crn_measured_bytes(m, t);
    }
}

void crn_find_constants(crn_measuring *m, uint32_t piece) {
    m->constant_count = 0;
    m->constant_bytes = 0;
    m->epoch++;
    for (cairn_id o = m->view->first_op[piece]; o < m->view->first_op[piece + 1]; o++)
        note_constants(m, o);
    for (uint32_t k = m->first_backward[piece]; k < m->first_backward[piece + 1]; k++)
        note_constants(m, m->backward_ops[k]);
}

/* ---- The ends of a part ---- */

/* Lists of tensors for the two ends of a part. */
typedef struct ends {
    CRN_ARRAY(cairn_id) given, wanted;
} ends;

static cairn_status give(crn_measuring *m, ends *e, cairn_id t, bool given, bool wanted) {
    if (given)
        CRN_PUSH(m->arena, e->given, t);
    if (wanted)
        CRN_PUSH(m->arena, e->wanted, t);
    return CAIRN_OK;
}

static cairn_status start_ends(crn_measuring *m, ends *e, uint32_t piece, bool input_stays) {
    *e = (ends){0};
    for (uint32_t i = 0; i < m->constant_count; i++)
        CRN_TRY(give(m, e, m->constant[i], true, true));
    if (piece > 0)
        CRN_TRY(give(m, e, m->view->cuts[piece], true, input_stays));
    return CAIRN_OK;
}

static cairn_status measure(crn_measuring *m, const crn_decision *decisions, uint32_t count,
                            const ends *e, crn_part_cost *out) {
    crn_part part = {decisions,      count,           e->given.data,
                     e->wanted.data, e->given.length, e->wanted.length};
    crn_arena scratch;
    crn_arena_init(&scratch, &m->arena->allocator);
    cairn_status status =
        crn_measure_part(m->graph, m->problem->costs, &part, &m->tables, &scratch, out);
    crn_arena_release(&scratch);
    return status;
}

/* Gradients that later pieces pass to this piece: those that its ops read but do not make. */
static cairn_status incoming_gradients(crn_measuring *m, uint32_t piece, ends *e) {
    m->epoch++;
    for (uint32_t k = m->first_backward[piece]; k < m->first_backward[piece + 1]; k++) {
        const cairn_op *op = cairn_graph_op(m->graph, m->backward_ops[k]);
        for (uint32_t i = 0; i < op->input_count; i++) {
            const cairn_tensor *t = cairn_graph_tensor(m->graph, op->inputs[i]);
            bool outside = t->role == CAIRN_ROLE_GRADIENT && !t->stationary &&
                           m->view->piece_of[t->producer] > piece;
            if (outside && m->epoch_of[op->inputs[i]] != m->epoch) {
                m->epoch_of[op->inputs[i]] = m->epoch;
                CRN_TRY(give(m, e, op->inputs[i], true, false));
            }
        }
    }
    return CAIRN_OK;
}

/* Gradients that the backward of the piece makes for earlier pieces. */
static cairn_status outgoing_gradients(crn_measuring *m, uint32_t piece, ends *e) {
    for (uint32_t k = m->first_backward[piece]; k < m->first_backward[piece + 1]; k++) {
        const cairn_op *op = cairn_graph_op(m->graph, m->backward_ops[k]);
        for (uint32_t i = 0; i < op->output_count; i++) {
            if (op->outputs[i] == CAIRN_NONE)
                continue;
            uint32_t readers;
            const cairn_id *list = crn_graph_readers(m->graph, op->outputs[i], &readers);
            bool earlier = false;
            for (uint32_t r = 0; r < readers; r++)
                earlier = earlier || m->view->piece_of[list[r]] < piece;
            if (earlier)
                CRN_TRY(give(m, e, op->outputs[i], false, true));
        }
    }
    return CAIRN_OK;
}

/* The cut at the end of a piece is wanted; the last piece ends in the loss. */
static cairn_status want_output(crn_measuring *m, uint32_t piece, ends *e) {
    if (piece + 1 < m->view->piece_count)
        return give(m, e, m->view->cuts[piece + 1], false, true);
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(m->graph, &summary);
    return summary.loss == CAIRN_NONE ? CAIRN_OK : give(m, e, summary.loss, false, true);
}

static cairn_status forward_decisions(crn_measuring *m, uint32_t piece, crn_decision **out,
                                      uint32_t *count) {
    cairn_id first = m->view->first_op[piece];
    *count = m->view->first_op[piece + 1] - first;
    CRN_TAKE(m->arena, *out, *count);
    for (uint32_t i = 0; i < *count; i++)
        (*out)[i] = (crn_decision){CRN_RUN, first + i};
    return CAIRN_OK;
}

/* The memory that is in use while this piece is measured: its input and the constants. */
static uint64_t base_bytes(const crn_measuring *m, uint32_t piece) {
    return m->constant_bytes + (piece > 0 ? crn_measured_bytes(m, m->view->cuts[piece]) : 0);
}

static uint64_t above(uint64_t bytes, uint64_t base) {
    return bytes > base ? bytes - base : 0;
}

/* The backward of a piece, after keeping `back->kept` or nothing. */
static cairn_status measure_backward(crn_measuring *m, uint32_t piece, const crn_backward *back,
                                     crn_part_cost *out) {
    ends e;
    CRN_TRY(start_ends(m, &e, piece, true));
    for (uint32_t i = 0; i < back->kept_count; i++)
        CRN_TRY(give(m, &e, back->kept[i], true, false));
    CRN_TRY(incoming_gradients(m, piece, &e));
    CRN_TRY(outgoing_gradients(m, piece, &e));
    return measure(m, back->decisions, back->count, &e, out);
}

cairn_status crn_measure_way(crn_measuring *m, uint32_t piece, const crn_backward *back,
                             crn_piece_way *out) {
    crn_decision *forward;
    uint32_t count;
    ends e;
    crn_part_cost cost;
    CRN_TRY(forward_decisions(m, piece, &forward, &count));
    CRN_TRY(start_ends(m, &e, piece, true));
    for (uint32_t i = 0; i < back->kept_count; i++)
        CRN_TRY(give(m, &e, back->kept[i], false, true));
    CRN_TRY(want_output(m, piece, &e));
    CRN_TRY(measure(m, forward, count, &e, &cost));
    uint64_t base = base_bytes(m, piece);
    out->forward_peak = above(cost.peak, base);
    out->kept = above(cost.left, base);
    out->forward_time = cost.time;
    CRN_TRY(measure_backward(m, piece, back, &cost));
    out->backward_peak = above(cost.peak, base);
    out->backward_time = cost.time;
    return CAIRN_OK;
}

static cairn_status measure_discard(crn_measuring *m, uint32_t piece, crn_piece *out) {
    crn_decision *forward;
    uint32_t count;
    ends e;
    crn_part_cost cost;
    CRN_TRY(forward_decisions(m, piece, &forward, &count));
    CRN_TRY(start_ends(m, &e, piece, true));
    CRN_TRY(want_output(m, piece, &e));
    CRN_TRY(measure(m, forward, count, &e, &cost));
    out->discard_peak = above(cost.peak, base_bytes(m, piece));
    out->forward_time = cost.time;
    CRN_TRY(start_ends(m, &e, piece, false));
    CRN_TRY(want_output(m, piece, &e));
    CRN_TRY(measure(m, forward, count, &e, &cost));
    out->pass_peak = above(cost.peak, m->constant_bytes);
    return CAIRN_OK;
}

cairn_status crn_measure_again(crn_measuring *m, uint32_t piece, const crn_backward *back,
                               crn_piece *out) {
    crn_part_cost cost;
    CRN_TRY(measure_discard(m, piece, out));
    CRN_TRY(measure_backward(m, piece, back, &cost));
    /* The recomputation and the backward of a leaf are one part; its peak is counted as the
     * backward's. */
    out->again = (crn_piece_way){.backward_peak = above(cost.peak, base_bytes(m, piece)),
                                 .backward_time = cost.time};
    return CAIRN_OK;
}

cairn_status crn_incoming_bytes(crn_measuring *m, uint32_t piece, uint64_t *out) {
    ends incoming = {0};
    *out = 0;
    CRN_TRY(incoming_gradients(m, piece, &incoming));
    for (uint32_t i = 0; i < incoming.given.length; i++)
        *out += crn_measured_bytes(m, incoming.given.data[i]);
    return CAIRN_OK;
}
