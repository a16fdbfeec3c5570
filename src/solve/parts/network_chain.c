/* network_chain.c: what the recurrence for chains of pieces (piece_chain.h) must know of a network,
 * measured piece by piece with the lowering itself, so that the two agree.
 *
 *      x_a -> [ forward of piece a ] -> x_a+1        x: the cuts, one tensor each
 *      g_a <- [ backward of piece a ] <- g_a+1       g: their gradients
 *
 * A forward run keeps all that the backward reads, or only results of products (convolutions,
 * linear layers, cells), which are slow to make again, or only its output. What the backward then
 * lacks is run again just before the backward op that reads it, so that a batch-norm and its ReLU,
 * say, are there for a moment only.
 *
 * Tensors that are there all the time (the input, labels, inputs of later steps, the loss) are
 * counted once and for all; in truth they go earlier, as does a cut that nothing reads any more. So
 * the real peak is at most what is promised here; the time is exactly that. */
#include "solve/parts/network_chain.h"

#include <stdlib.h>

#define MOST_WAYS 16u

typedef struct measuring {
    const crn_problem *problem;
    const cairn_chain_view *view;
    crn_arena *arena;
    const cairn_graph *graph;
    uint32_t *epoch_of; /* per tensor: the run of make_backward() that has it available */
    bool *keepable;     /* per tensor: kept from the forward run if the backward needs it */
    uint32_t epoch;
    bool recomputes; /* whether what running pieces again takes is wanted too */
    bool *wanted_op; /* per op, while collecting what to run again */
    uint32_t *first_backward, *backward_ops; /* backward ops by piece */
    cairn_id *constant; /* inputs and labels that the piece being measured reads; all stay */
    uint32_t constant_count;
    uint64_t constant_bytes;
} measuring;

static uint64_t bytes_of(const measuring *m, cairn_id tensor) {
    return crn_align(cairn_costs_bytes(m->problem->costs, tensor));
}

static bool is_product(const cairn_op *op) {
    switch (op->kind) {
    case CAIRN_OP_CONV2D:
    case CAIRN_OP_CONV_TRANSPOSE2D:
    case CAIRN_OP_LINEAR:
    case CAIRN_OP_RNN_CELL:
    case CAIRN_OP_LSTM_CELL:
    case CAIRN_OP_OPAQUE: /* nothing is known of it: assume the worst */
        return true;
    default:
        return false;
    }
}

/* ---- The backward of a piece, with what is run again on demand ---- */

/* Is the tensor made by a forward op of the piece? */
static bool made_in(const measuring *m, cairn_id t, uint32_t piece) {
    cairn_id producer = cairn_graph_tensor(m->graph, t)->producer;
    return producer != CAIRN_NONE && producer < m->view->first_op[m->view->piece_count] &&
           m->view->piece_of[producer] == piece;
}

typedef struct backward_lists {
    CRN_ARRAY(crn_decision) decisions;
    CRN_ARRAY(cairn_id) kept;
    CRN_ARRAY(cairn_id) stack;
} backward_lists;

/* Note that `t` is needed: it is there already, is kept, or the op that makes it must run again. */
static cairn_status need(measuring *m, backward_lists *lists, uint32_t piece, cairn_id t) {
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

/* Run again, in canonical order, what makes the inputs of backward op `b`. */
static cairn_status provide(measuring *m, backward_lists *lists, uint32_t piece, cairn_id b) {
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

/* With what is marked as keepable kept if it is needed. */
static cairn_status make_backward(measuring *m, uint32_t piece, crn_backward *out) {
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

/* ---- Measuring ---- */

/* Lists of tensors for the two ends of a part. */
typedef struct ends {
    CRN_ARRAY(cairn_id) given, wanted;
} ends;

static cairn_status give(measuring *m, ends *e, cairn_id t, bool given, bool wanted) {
    if (given)
        CRN_PUSH(m->arena, e->given, t);
    if (wanted)
        CRN_PUSH(m->arena, e->wanted, t);
    return CAIRN_OK;
}

static cairn_status start_ends(measuring *m, ends *e, uint32_t piece, bool input_stays) {
    *e = (ends){0};
    for (uint32_t i = 0; i < m->constant_count; i++)
        CRN_TRY(give(m, e, m->constant[i], true, true));
    if (piece > 0)
        CRN_TRY(give(m, e, m->view->cuts[piece], true, input_stays));
    return CAIRN_OK;
}

static cairn_status measure(measuring *m, const crn_decision *decisions, uint32_t count,
                            const ends *e, crn_part_cost *out) {
    crn_part part = {decisions,      count,           e->given.data,
                     e->wanted.data, e->given.length, e->wanted.length};
    crn_arena scratch;
    crn_arena_init(&scratch, &m->arena->allocator);
    cairn_status status = crn_measure_part(m->graph, m->problem->costs, &part, &scratch, out);
    crn_arena_release(&scratch);
    return status;
}

/* Gradients that the backward of later pieces hands to this one or to earlier ones: those its ops
 * read but do not make. */
static cairn_status incoming_gradients(measuring *m, uint32_t piece, ends *e) {
    m->epoch++;
    for (uint32_t k = m->first_backward[piece]; k < m->first_backward[piece + 1]; k++) {
        const cairn_op *op = cairn_graph_op(m->graph, m->backward_ops[k]);
        for (uint32_t i = 0; i < op->input_count; i++) {
            const cairn_tensor *t = cairn_graph_tensor(m->graph, op->inputs[i]);
            bool outside = t->role == CAIRN_GRADIENT && !t->stationary &&
                           m->view->piece_of[t->producer] > piece;
            if (outside && m->epoch_of[op->inputs[i]] != m->epoch) {
                m->epoch_of[op->inputs[i]] = m->epoch;
                CRN_TRY(give(m, e, op->inputs[i], true, false));
            }
        }
    }
    return CAIRN_OK;
}

/* Gradients that its backward makes for earlier pieces. */
static cairn_status outgoing_gradients(measuring *m, uint32_t piece, ends *e) {
    for (uint32_t k = m->first_backward[piece]; k < m->first_backward[piece + 1]; k++) {
        const cairn_op *op = cairn_graph_op(m->graph, m->backward_ops[k]);
        for (uint32_t i = 0; i < op->output_count; i++) {
            if (op->outputs[i] == CAIRN_NONE)
                continue;
            uint32_t readers;
            const cairn_id *list = cairn_graph_readers(m->graph, op->outputs[i], &readers);
            bool earlier = false;
            for (uint32_t r = 0; r < readers; r++)
                earlier = earlier || m->view->piece_of[list[r]] < piece;
            if (earlier)
                CRN_TRY(give(m, e, op->outputs[i], false, true));
        }
    }
    return CAIRN_OK;
}

/* The cut that a piece ends in is wanted; the last piece ends in the loss. */
static cairn_status want_output(measuring *m, uint32_t piece, ends *e) {
    if (piece + 1 < m->view->piece_count)
        return give(m, e, m->view->cuts[piece + 1], false, true);
    cairn_graph_summary summary;
    cairn_graph_summarize(m->graph, &summary);
    return summary.loss == CAIRN_NONE ? CAIRN_OK : give(m, e, summary.loss, false, true);
}

static cairn_status forward_decisions(measuring *m, uint32_t piece, crn_decision **out,
                                      uint32_t *count) {
    cairn_id first = m->view->first_op[piece];
    *count = m->view->first_op[piece + 1] - first;
    CRN_TAKE(m->arena, *out, *count);
    for (uint32_t i = 0; i < *count; i++)
        (*out)[i] = (crn_decision){CRN_RUN, first + i};
    return CAIRN_OK;
}

/* What is always there, as this piece sees it: its input and the constants. */
static uint64_t base_bytes(const measuring *m, uint32_t piece) {
    return m->constant_bytes + (piece > 0 ? bytes_of(m, m->view->cuts[piece]) : 0);
}

static uint64_t above(uint64_t bytes, uint64_t base) {
    return bytes > base ? bytes - base : 0;
}

/* The backward of a piece, after keeping `back->kept` or nothing. */
static cairn_status measure_backward(measuring *m, uint32_t piece, const crn_backward *back,
                                     crn_part_cost *out) {
    ends e;
    CRN_TRY(start_ends(m, &e, piece, true));
    for (uint32_t i = 0; i < back->kept_count; i++)
        CRN_TRY(give(m, &e, back->kept[i], true, false));
    CRN_TRY(incoming_gradients(m, piece, &e));
    CRN_TRY(outgoing_gradients(m, piece, &e));
    return measure(m, back->decisions, back->count, &e, out);
}

static cairn_status measure_way(measuring *m, uint32_t piece, const crn_backward *back,
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

static cairn_status measure_discard(measuring *m, uint32_t piece, crn_piece *out) {
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

/* ---- Ways of keeping ---- */

/* The cut that a piece ends in, or CAIRN_NONE. */
static cairn_id output_cut(const measuring *m, uint32_t piece) {
    return piece + 1 < m->view->piece_count ? m->view->cuts[piece + 1] : CAIRN_NONE;
}

static int64_t time_of(const measuring *m, const crn_backward *back) {
    int64_t time = 0;
    for (uint32_t d = 0; d < back->count; d++) {
        uint32_t count;
        const cairn_implementation *list =
            cairn_costs_op(m->problem->costs, back->decisions[d].id, &count);
        time = crn_add_time(time, count > 0 ? list[0].time_ns : 0);
    }
    return time;
}

/* Something that the backward reads: its size, and the time of making it again. */
typedef struct reading {
    cairn_id tensor;
    uint64_t bytes;
    int64_t time;
} reading;

/* Least time for its size first. */
static int compare_readings(const void *a, const void *b) {
    const reading *x = a, *y = b;
    __extension__ typedef unsigned __int128 wide;
    wide left = (wide)(uint64_t)x->time * y->bytes, right = (wide)(uint64_t)y->time * x->bytes;
    if (left != right)
        return left < right ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* What the backward of a piece reads, in the order in which it pays to give it up; not its output,
 * which is there anyway. */
static cairn_status rank_readings(measuring *m, uint32_t piece, const crn_backward *all,
                                  reading **out, uint32_t *count) {
    CRN_TAKE(m->arena, *out, all->kept_count);
    int64_t plain = time_of(m, all);
    *count = 0;
    for (uint32_t i = 0; i < all->kept_count; i++) {
        cairn_id t = all->kept[i];
        if (t == output_cut(m, piece))
            continue;
        crn_backward without;
        m->keepable[t] = false;
        CRN_TRY(make_backward(m, piece, &without));
        m->keepable[t] = true;
        (*out)[(*count)++] = (reading){t, bytes_of(m, t), time_of(m, &without) - plain};
    }
    if (*count > 0)
        qsort(*out, *count, sizeof **out, compare_readings);
    return CAIRN_OK;
}

static cairn_status add_way(measuring *m, uint32_t piece, crn_backward *backs, crn_piece_way *ways,
                            uint32_t *count) {
    crn_backward *back = &backs[*count];
    CRN_TRY(make_backward(m, piece, back));
    CRN_TRY(measure_way(m, piece, back, &ways[*count]));
    ++*count;
    return CAIRN_OK;
}

/* Mark the forward results of the piece that may be kept: all, products with their internals, or
 * none. The output is among the first two. */
typedef enum marking { MARK_NONE, MARK_ALL, MARK_PRODUCTS } marking;

static void mark_keepable(measuring *m, uint32_t piece, marking what) {
    for (cairn_id o = m->view->first_op[piece]; o < m->view->first_op[piece + 1]; o++) {
        const cairn_op *op = cairn_graph_op(m->graph, o);
        for (uint32_t i = 0; i < op->output_count; i++) {
            if (op->outputs[i] == CAIRN_NONE)
                continue;
            bool slow = i > 0 || is_product(op) || op->outputs[i] == output_cut(m, piece);
            m->keepable[op->outputs[i]] = what == MARK_ALL || (what == MARK_PRODUCTS && slow);
        }
    }
}

/* Is way `a` nowhere worse than `b`? */
static bool covers(const crn_piece_way *a, const crn_piece_way *b) {
    return a->kept <= b->kept && a->forward_peak <= b->forward_peak &&
           a->backward_peak <= b->backward_peak &&
           a->forward_time + a->backward_time <= b->forward_time + b->backward_time;
}

/* Drop the ways that another one covers; of equal ones the first stays. */
static uint32_t prune_ways(crn_backward *backs, crn_piece_way *ways, uint32_t count) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool covered = false;
        for (uint32_t j = 0; j < count && !covered; j++)
            covered =
                j != i && covers(&ways[j], &ways[i]) && !(j > i && covers(&ways[i], &ways[j]));
        for (uint32_t j = 0; j < left && !covered; j++)
            covered = covers(&ways[j], &ways[i]);
        if (covered)
            continue;
        backs[left] = backs[i];
        ways[left++] = ways[i];
    }
    return left;
}

/* Less and less of what is read; then products only. */
static cairn_status other_ways(measuring *m, uint32_t piece, crn_backward *backs,
                               crn_piece_way *ways, uint32_t *count) {
    reading *readings;
    uint32_t given_up = 0, total = 0;
    for (uint32_t i = 0; i < backs[0].kept_count; i++)
        m->keepable[backs[0].kept[i]] = true;
    CRN_TRY(rank_readings(m, piece, &backs[0], &readings, &total));
    for (uint32_t k = 1; k <= MOST_WAYS && given_up < total; k++) {
        uint32_t target = total <= MOST_WAYS ? k : (uint32_t)((uint64_t)total * k / MOST_WAYS);
        for (; given_up < target; given_up++)
            m->keepable[readings[given_up].tensor] = false;
        CRN_TRY(add_way(m, piece, backs, ways, count));
    }
    mark_keepable(m, piece, MARK_PRODUCTS);
    CRN_TRY(add_way(m, piece, backs, ways, count));
    mark_keepable(m, piece, MARK_NONE);
    return CAIRN_OK;
}

/* All that is read comes first. */
static cairn_status find_ways(measuring *m, crn_network_chain *network, uint32_t piece,
                              crn_piece *out) {
    crn_backward *backs;
    crn_piece_way *ways;
    uint32_t count = 0;
    CRN_TAKE(m->arena, backs, MOST_WAYS + 2);
    CRN_TAKE(m->arena, ways, MOST_WAYS + 2);
    mark_keepable(m, piece, MARK_ALL);
    CRN_TRY(add_way(m, piece, backs, ways, &count));
    mark_keepable(m, piece, MARK_NONE);
    if (m->recomputes)
        CRN_TRY(other_ways(m, piece, backs, ways, &count));
    network->ways[piece] = backs;
    out->ways = ways;
    out->way_count = prune_ways(backs, ways, count);
    return CAIRN_OK;
}

/* What running the piece again takes. */
static cairn_status measure_again(measuring *m, crn_network_chain *network, uint32_t piece,
                                  crn_piece *out) {
    crn_part_cost cost;
    CRN_TRY(measure_discard(m, piece, out));
    CRN_TRY(make_backward(m, piece, &network->again[piece]));
    CRN_TRY(measure_backward(m, piece, &network->again[piece], &cost));
    /* The leaf's run and backward are one part: its peak is all in the backward's. */
    out->again = (crn_piece_way){.backward_peak = above(cost.peak, base_bytes(m, piece)),
                                 .backward_time = cost.time};
    return CAIRN_OK;
}

static bool is_constant(const measuring *m, cairn_id t) {
    cairn_role role = cairn_graph_tensor(m->graph, t)->role;
    return role == CAIRN_INPUT || role == CAIRN_LABEL;
}

static void note_constants(measuring *m, cairn_id o) {
    const cairn_op *op = cairn_graph_op(m->graph, o);
    for (uint32_t i = 0; i < op->input_count; i++) {
        cairn_id t = op->inputs[i];
        if (!is_constant(m, t) || m->epoch_of[t] == m->epoch)
            continue;
        m->epoch_of[t] = m->epoch;
        m->constant[m->constant_count++] = t;
        m->constant_bytes += bytes_of(m, t);
    }
}

/* Which inputs and labels the piece reads. The others would add to its peaks and to what is
 * subtracted from them alike, and a long chain has many. */
static void find_constants(measuring *m, uint32_t piece) {
    m->constant_count = 0;
    m->constant_bytes = 0;
    m->epoch++;
    for (cairn_id o = m->view->first_op[piece]; o < m->view->first_op[piece + 1]; o++)
        note_constants(m, o);
    for (uint32_t k = m->first_backward[piece]; k < m->first_backward[piece + 1]; k++)
        note_constants(m, m->backward_ops[k]);
}

static cairn_status measure_piece(measuring *m, crn_network_chain *network, uint32_t piece,
                                  crn_piece *out) {
    ends incoming = {0};
    find_constants(m, piece);
    CRN_TRY(find_ways(m, network, piece, out));
    if (m->recomputes)
        CRN_TRY(measure_again(m, network, piece, out));
    out->input_bytes = piece > 0 ? bytes_of(m, m->view->cuts[piece]) : 0;
    /* The gradient at the cut that the piece starts from is what the piece before it is handed. */
    if (piece > 0)
        CRN_TRY(incoming_gradients(m, piece - 1, &incoming));
    for (uint32_t i = 0; i < incoming.given.length; i++)
        out->gradient_bytes += bytes_of(m, incoming.given.data[i]);
    return CAIRN_OK;
}

/* ---- The whole chain ---- */

static cairn_status index_backward(measuring *m) {
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

/* The bytes of all inputs and labels. */
static uint64_t bytes_always(const measuring *m) {
    uint64_t bytes = 0;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(m->graph); t++)
        bytes += is_constant(m, t) ? bytes_of(m, t) : 0;
    return bytes;
}

static cairn_status build(const crn_problem *problem, const cairn_chain_view *view, bool recomputes,
                          crn_network_chain *out) {
    measuring m = {.problem = problem, .view = view, .arena = problem->scratch};
    m.graph = problem->graph;
    m.recomputes = recomputes;
    CRN_TAKE(m.arena, m.epoch_of, cairn_graph_tensor_count(m.graph));
    CRN_TAKE(m.arena, m.keepable, cairn_graph_tensor_count(m.graph));
    CRN_TAKE(m.arena, m.wanted_op, cairn_graph_op_count(m.graph));
    CRN_TRY(index_backward(&m));
    CRN_TAKE(m.arena, m.constant, cairn_graph_tensor_count(m.graph));
    *out = (crn_network_chain){.problem = problem, .view = view};
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

cairn_status crn_network_chain_build(const crn_problem *problem, const cairn_chain_view *view,
                                     crn_network_chain *out) {
    return build(problem, view, true, out);
}

cairn_status crn_network_chain_keep(const crn_problem *problem, const cairn_chain_view *view,
                                    crn_network_chain *out) {
    return build(problem, view, false, out);
}

/* ---- Expanding a schedule ---- */

static cairn_status run_forward(const crn_network_chain *n, uint32_t piece,
                                crn_schedule *schedule) {
    for (cairn_id o = n->view->first_op[piece]; o < n->view->first_op[piece + 1]; o++)
        CRN_TRY(crn_schedule_add(schedule, n->problem->scratch, CRN_RUN, o));
    return CAIRN_OK;
}

static cairn_status run_backward(const crn_network_chain *n, const crn_backward *back,
                                 crn_schedule *schedule) {
    for (uint32_t i = 0; i < back->count; i++)
        CRN_TRY(crn_schedule_add(schedule, n->problem->scratch, CRN_RUN, back->decisions[i].id));
    return CAIRN_OK;
}

/* What is still to do: a node, or the backward of a kept piece after its child. */
typedef struct pending {
    const crn_backward *backward; /* NULL: a node */
} pending;

cairn_status crn_network_chain_expand(const crn_network_chain *n, const crn_piece_nodes *nodes,
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
