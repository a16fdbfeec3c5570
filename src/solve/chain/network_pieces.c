/* network_pieces.c: measures a network piece by piece for the recurrence over chains of pieces
 * (piece_chain.h). It measures with the lowering itself, so that the two agree.
 *
 *      x_a -> [ forward of piece a ] -> x_a+1        x: the cuts, one tensor each
 *      g_a <- [ backward of piece a ] <- g_a+1       g: their gradients
 *
 * A forward run keeps everything that the backward reads, or only results of products
 * (convolutions, linear layers, cells), which are slow to recompute, or only its output. What is
 * missing in the backward is recomputed just before the backward op that reads it.
 *
 * The input, labels, inputs of later steps and the loss are counted as if they were in memory all
 * the time. In a plan they are freed earlier, as is a cut that nothing reads any more. So the peak
 * of a plan is at most the one predicted here; the time is exact. */
#include "solve/chain/measuring.h"

static cairn_status measure_piece(crn_measuring *m, crn_network_pieces *network, uint32_t piece,
                                  crn_piece *out) {
    crn_find_constants(m, piece);
    CRN_TRY(crn_find_ways(m, piece, &network->ways[piece], out));
    if (m->recomputes) {
        CRN_TRY(crn_backward_make(m, piece, &network->again[piece]));
        CRN_TRY(crn_measure_again(m, piece, &network->again[piece], out));
    }
    if (piece == 0)
        return CAIRN_OK;
    out->input_bytes = crn_measured_bytes(m, m->view->cuts[piece]);
    /* The gradient of the cut at the start of this piece is the incoming gradient of the piece
     * before it. */
    return crn_incoming_bytes(m, piece - 1, &out->gradient_bytes);
}

/* The bytes of all inputs and labels. */
static uint64_t bytes_always(const crn_measuring *m) {
    uint64_t bytes = 0;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(m->graph); t++)
        bytes += crn_is_constant(m, t) ? crn_measured_bytes(m, t) : 0;
    return bytes;
}

static cairn_status build(const crn_problem *problem, const cairn_chain_view *view, bool recomputes,
                          crn_network_pieces *out) {
    crn_measuring m = {.problem = problem, .view = view, .arena = problem->scratch};
    m.graph = problem->graph;
    m.recomputes = recomputes;
    CRN_TAKE(m.arena, m.epoch_of, cairn_graph_tensor_count(m.graph));
    CRN_TAKE(m.arena, m.keepable, cairn_graph_tensor_count(m.graph));
    CRN_TAKE(m.arena, m.wanted_op, cairn_graph_op_count(m.graph));
    CRN_TRY(crn_lower_tables_make(m.graph, m.arena, &m.tables));
    CRN_TRY(crn_backward_index(&m));
    CRN_TAKE(m.arena, m.constant, cairn_graph_tensor_count(m.graph));
    *out = (crn_network_pieces){.problem = problem, .view = view};
    CRN_TAKE(m.arena, out->ways, view->piece_count);
    CRN_TAKE(m.arena, out->again, view->piece_count);
    crn_piece *pieces;
    CRN_TAKE(m.arena, pieces, view->piece_count);
    for (uint32_t p = 0; p < view->piece_count; p++)
        CRN_TRY(measure_piece(&m, out, p, &pieces[p]));
    out->chain = (crn_piece_chain){pieces, view->piece_count, 0};
    out->always = bytes_always(&m);
    return CAIRN_OK;
}

cairn_status crn_network_pieces_build(const crn_problem *problem, const cairn_chain_view *view,
                                      crn_network_pieces *out) {
    return build(problem, view, true, out);
}

cairn_status crn_network_pieces_keep(const crn_problem *problem, const cairn_chain_view *view,
                                     crn_network_pieces *out) {
    return build(problem, view, false, out);
}

/* ---- Expanding a schedule ---- */

static cairn_status run_forward(const crn_network_pieces *n, uint32_t piece,
                                crn_schedule *schedule) {
    for (cairn_id o = n->view->first_op[piece]; o < n->view->first_op[piece + 1]; o++)
        CRN_TRY(crn_schedule_add(schedule, n->problem->scratch, CRN_RUN, o));
    return CAIRN_OK;
}

static cairn_status run_backward(const crn_network_pieces *n, const crn_backward *back,
                                 crn_schedule *schedule) {
    for (uint32_t i = 0; i < back->count; i++)
        CRN_TRY(crn_schedule_add(schedule, n->problem->scratch, CRN_RUN, back->decisions[i].id));
    return CAIRN_OK;
}

/* A pending task: a node, or the backward of a kept piece after its child. */
typedef struct pending {
    const crn_backward *backward; /* NULL: a node */
} pending;

cairn_status crn_network_pieces_expand(const crn_network_pieces *n, const crn_piece_nodes *nodes,
                                       crn_schedule *schedule) {
    CRN_ARRAY(pending) stack = {0};
    crn_arena *arena = n->problem->scratch;
    uint32_t next = 0, last_piece = n->view->piece_count - 1;
    pending node = {NULL};
    CRN_PUSH(arena, stack, node);
    while (stack.length > 0) {
        pending at = stack.data[--stack.length];
        if (at.backward != NULL) {
            CRN_TRY(run_backward(n, at.backward, schedule));
            continue;
        }
        if (next >= nodes->length)
            continue;
        const crn_piece_node *here = &nodes->data[next++];
        switch (here->kind) {
        case CRN_PIECE_KEEP: {
            pending later = {&n->ways[here->first][here->choice]};
            CRN_TRY(run_forward(n, here->first, schedule));
            CRN_PUSH(arena, stack, later);
            if (here->first < here->last)
                CRN_PUSH(arena, stack, node);
            break;
        }
        case CRN_PIECE_CHECKPOINT:
            for (uint32_t p = here->first; p < here->choice; p++)
                CRN_TRY(run_forward(n, p, schedule));
            CRN_PUSH(arena, stack, node); /* first .. choice-1, after choice .. last */
            CRN_PUSH(arena, stack, node);
            break;
        case CRN_PIECE_LEAF:
            if (here->first < last_piece) {
                CRN_TRY(run_backward(n, &n->again[here->first], schedule));
                break;
            }
            CRN_TRY(run_forward(n, here->first, schedule));
            CRN_TRY(run_backward(n, &n->ways[here->first][here->choice], schedule));
            break;
        }
    }
    return CAIRN_OK;
}
