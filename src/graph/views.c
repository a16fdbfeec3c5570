/* views.c: the vertex-weighted DAG and the chain of a graph. */
#include "cairn/papers/views.h"
#include "graph/graph_internal.h"

#include <stdlib.h>

/* ---- The memory of a view ---- */

typedef struct view_memory {
    crn_arena *arena, scratch; /* of the view; of what is needed to make it */
} view_memory;

/* The view, or NULL when memory is out. */
static void *open_view(view_memory *m, const cairn_graph *graph, size_t size) {
    m->arena = crn_arena_create(&graph->arena.allocator);
    crn_arena_init(&m->scratch, &graph->arena.allocator);
    return m->arena == NULL ? NULL : crn_arena_take(m->arena, 1, size);
}

/* After the view was made or not; then the view is released too. */
static cairn_status close_view(view_memory *m, cairn_status status, cairn_error *err) {
    crn_arena_release(&m->scratch);
    if (status == CAIRN_OK)
        return CAIRN_OK;
    crn_arena_destroy(m->arena);
    return crn_fail_memory(err);
}

/* ---- Tensors that both views leave out ---- */

static cairn_id first_input(const cairn_graph *g) {
    for (cairn_id t = 0; t < g->tensors.length; t++)
        if (g->tensors.data[t].role == CAIRN_ROLE_INPUT)
            return t;
    return CAIRN_NONE;
}

static bool is_seen(const cairn_graph *g, cairn_id t, cairn_id input) {
    return t != CAIRN_NONE && (g->tensors.data[t].role == CAIRN_ROLE_ACTIVATION || t == input);
}

static uint32_t forward_op_count(const cairn_graph *g) {
    uint32_t count = 0;
    while (count < g->ops.length && g->ops.data[count].phase == CAIRN_PHASE_FORWARD)
        count++;
    return count;
}

/* Whether a backward op reads the tensor. */
static bool backward_reads(const cairn_graph *g, cairn_id t) {
    uint32_t count;
    const cairn_id *readers = crn_graph_readers(g, t, &count);
    return count > 0 && g->ops.data[readers[count - 1]].phase != CAIRN_PHASE_FORWARD;
}

/* ---- The vertex-weighted DAG ---- */

typedef struct dag_work {
    const cairn_graph *graph;
    const uint64_t *bytes;
    crn_arena *arena, *scratch;
    cairn_id input;
    uint32_t *vertex_of;
    CRN_ARRAY(cairn_id) tensors;
    CRN_ARRAY(uint64_t) costs;
    CRN_ARRAY(cairn_dag_edge) edges;
} dag_work;

static bool makes_loss(const cairn_graph *g, const cairn_op *op) {
    return op->output_count > 0 && op->outputs[0] != CAIRN_NONE &&
           g->tensors.data[op->outputs[0]].role == CAIRN_ROLE_LOSS;
}

/* The input whose storage an output can always share, or CAIRN_NONE. An alias shares the storage of
 * its input. Another output shares that of the only input, if the op may work in place on it and no
 * other op reads it. */
static cairn_id shares_with(const cairn_graph *g, const cairn_op *op, uint32_t output) {
    cairn_id made = op->outputs[output];
    for (uint32_t i = 0; i < op->input_count; i++)
        if (g->tensors.data[made].alias_of != CAIRN_NONE &&
            crn_graph_storage(g, op->inputs[i]) == g->tensors.data[made].alias_of)
            return op->inputs[i];
    uint32_t readers = 0;
    for (uint32_t i = 0; i < op->inplace_count; i++) {
        cairn_id input = op->inputs[op->inplace[i].input];
        crn_graph_readers(g, input, &readers);
        if (op->inplace[i].output == output && op->input_count == 1 && readers == 1 &&
            g->tensors.data[input].role == CAIRN_ROLE_ACTIVATION)
            return input;
    }
    return CAIRN_NONE;
}

static cairn_status add_vertex(dag_work *at, cairn_id tensor, uint64_t cost) {
    if (tensor != CAIRN_NONE)
        at->vertex_of[tensor] = at->tensors.length;
    CRN_PUSH(at->arena, at->tensors, tensor);
    CRN_PUSH(at->arena, at->costs, cost);
    return CAIRN_OK;
}

static cairn_status add_output(dag_work *at, const cairn_op *op, uint32_t output) {
    cairn_id made = op->outputs[output];
    cairn_id shared = shares_with(at->graph, op, output);
    uint32_t vertex = shared == CAIRN_NONE ? CAIRN_NONE : at->vertex_of[shared];
    if (vertex == CAIRN_NONE) {
        CRN_TRY(add_vertex(
            at, made, at->bytes == NULL ? at->graph->tensors.data[made].bytes : at->bytes[made]));
        vertex = at->vertex_of[made];
    } else {
        at->vertex_of[made] = vertex;
        at->tensors.data[vertex] = made;
    }
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint32_t from = at->vertex_of[op->inputs[i]];
        cairn_dag_edge edge = {from, vertex};
        if (from != CAIRN_NONE && from != vertex)
            CRN_PUSH(at->scratch, at->edges, edge);
    }
    return CAIRN_OK;
}

static int compare_edges(const void *a, const void *b) {
    const cairn_dag_edge *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/* Join several sources (or targets, if `at_target`) by a vertex that costs nothing. */
static cairn_status join_ends(dag_work *at, bool at_target, uint32_t *end) {
    uint32_t count = at->tensors.length, edges = at->edges.length, ends = 0;
    bool *inner;
    CRN_TAKE(at->scratch, inner, count + 1);
    for (uint32_t e = 0; e < edges; e++)
        inner[at_target ? at->edges.data[e].from : at->edges.data[e].to] = true;
    for (uint32_t v = 0; v < count; v++)
        if (!inner[v]) {
            ends++;
            *end = v;
        }
    if (ends == 1)
        return CAIRN_OK;
    *end = count;
    CRN_TRY(add_vertex(at, CAIRN_NONE, 0));
    for (uint32_t v = 0; v < count; v++)
        if (!inner[v]) {
            cairn_dag_edge edge =
                at_target ? (cairn_dag_edge){v, count} : (cairn_dag_edge){count, v};
            CRN_PUSH(at->scratch, at->edges, edge);
        }
    return CAIRN_OK;
}

static cairn_status build_dag(dag_work *at, cairn_dag_view *view) {
    const cairn_graph *g = at->graph;
    CRN_TAKE(at->arena, at->vertex_of, g->tensors.length);
    for (cairn_id t = 0; t < g->tensors.length; t++)
        at->vertex_of[t] = CAIRN_NONE;
    at->input = first_input(g);
    if (at->input != CAIRN_NONE)
        CRN_TRY(add_vertex(at, at->input,
                           at->bytes == NULL ? g->tensors.data[at->input].bytes
                                             : at->bytes[at->input]));
    uint32_t forward = forward_op_count(g);
    for (cairn_id o = 0; o < forward; o++)
        for (uint32_t i = 0; i < g->ops.data[o].output_count; i++)
            if (is_seen(g, g->ops.data[o].outputs[i], at->input) && !makes_loss(g, &g->ops.data[o]))
                CRN_TRY(add_output(at, &g->ops.data[o], i));

    uint32_t source = 0, target = 0;
    CRN_TRY(join_ends(at, false, &source));
    CRN_TRY(join_ends(at, true, &target));
    if (at->edges.length > 0)
        qsort(at->edges.data, at->edges.length, sizeof *at->edges.data, compare_edges);
    cairn_dag_edge *edges;
    uint32_t unique = 0;
    CRN_TAKE(at->arena, edges, at->edges.length);
    for (uint32_t e = 0; e < at->edges.length; e++)
        if (e == 0 || compare_edges(&at->edges.data[e], &at->edges.data[e - 1]) != 0)
            edges[unique++] = at->edges.data[e];
    view->dag = (cairn_dag){.vertex_count = at->tensors.length,
                            .edge_count = unique,
                            .source = source,
                            .target = target,
                            .costs = at->costs.data,
                            .edges = edges};
    view->tensors = at->tensors.data;
    view->vertex_of = at->vertex_of;
    return CAIRN_OK;
}

cairn_status cairn_dag_view_create(const cairn_graph *graph, const uint64_t *bytes,
                                   cairn_dag_view **out, cairn_error *err) {
    view_memory m;
    *out = NULL;
    crn_error_clear(err);
    cairn_dag_view *view = open_view(&m, graph, sizeof *view);
    dag_work work = {.graph = graph, .bytes = bytes, .arena = m.arena, .scratch = &m.scratch};
    CRN_TRY(close_view(&m, view == NULL ? CAIRN_ENOMEM : build_dag(&work, view), err));
    view->memory = m.arena;
    *out = view;
    return CAIRN_OK;
}

void cairn_dag_view_destroy(cairn_dag_view *view) {
    if (view != NULL)
        crn_arena_destroy(view->memory);
}

/* ---- The chain ---- */

/* Per storage: the last forward op that reads it or one of its aliases, and whether a backward op
 * does. */
typedef struct storage_use {
    cairn_id last_forward; /* CAIRN_NONE: no forward op reads it */
    bool backward;
} storage_use;

static void find_uses(const cairn_graph *g, cairn_id input, storage_use *uses) {
    for (cairn_id t = 0; t < g->tensors.length; t++)
        uses[t].last_forward = CAIRN_NONE;
    for (cairn_id t = 0; t < g->tensors.length; t++) {
        if (!is_seen(g, t, input))
            continue;
        storage_use *use = &uses[crn_graph_storage(g, t)];
        use->backward = use->backward || backward_reads(g, t);
        uint32_t count;
        const cairn_id *readers = crn_graph_readers(g, t, &count);
        for (uint32_t i = 0; i < count; i++)
            if (g->ops.data[readers[i]].phase == CAIRN_PHASE_FORWARD &&
                (use->last_forward == CAIRN_NONE || use->last_forward < readers[i]))
                use->last_forward = readers[i];
    }
}

/* Sweep over the forward ops, with the number of live storages and the sum of their ids: when one
 * storage is alive, the sum is its id. */
static cairn_status find_cuts(const cairn_graph *g, crn_arena *arena, crn_arena *scratch,
                              cairn_chain_view *view) {
    CRN_ARRAY(cairn_id) cuts = {0}, first = {0};
    storage_use *uses;
    uint32_t forward = forward_op_count(g), alive = 0;
    uint64_t sum = 0;
    cairn_id input = first_input(g);
    CRN_TAKE(scratch, uses, g->tensors.length);
    find_uses(g, input, uses);
    CRN_PUSH(arena, cuts, input);
    CRN_PUSH(arena, first, 0);
    bool *live, *done;
    CRN_TAKE(scratch, live, g->tensors.length);
    CRN_TAKE(scratch, done, g->tensors.length);
    if (input != CAIRN_NONE && uses[input].last_forward != CAIRN_NONE) {
        live[input] = true;
        alive = 1;
        sum = input;
    }
    for (cairn_id o = 0; o < forward; o++) {
        const cairn_op *op = &g->ops.data[o];
        for (uint32_t i = 0; i < op->output_count; i++) {
            if (!is_seen(g, op->outputs[i], input))
                continue;
            cairn_id s = crn_graph_storage(g, op->outputs[i]);
            if (live[s] || done[s] || uses[s].last_forward == CAIRN_NONE)
                continue;
            live[s] = true;
            alive++;
            sum += s;
        }
        for (uint32_t i = 0; i < op->input_count; i++) {
            cairn_id s = crn_graph_storage(g, op->inputs[i]);
            if (!live[s] || uses[s].last_forward != o)
                continue;
            live[s] = false;
            done[s] = true;
            alive--;
            sum -= s;
        }
        cairn_id only = (cairn_id)sum;
        if (alive == 1 && only != cuts.data[cuts.length - 1] && uses[only].backward &&
            o + 1 < forward) {
            CRN_PUSH(arena, cuts, only);
            CRN_PUSH(arena, first, o + 1);
        }
    }
    view->piece_count = cuts.length;
    CRN_PUSH(arena, first, forward);
    view->cuts = cuts.data;
    view->first_op = first.data;
    return CAIRN_OK;
}

static cairn_status assign_pieces(const cairn_graph *g, crn_arena *arena, cairn_chain_view *view) {
    uint32_t *piece_of;
    CRN_TAKE(arena, piece_of, g->ops.length);
    for (uint32_t p = 0; p < view->piece_count; p++)
        for (cairn_id o = view->first_op[p]; o < view->first_op[p + 1]; o++)
            piece_of[o] = p;
    /* An op without an `of` belongs to the piece of the op before it. */
    for (cairn_id o = view->first_op[view->piece_count]; o < g->ops.length; o++) {
        cairn_id of = g->ops.data[o].of;
        piece_of[o] = of != CAIRN_NONE ? piece_of[of] : o > 0 ? piece_of[o - 1] : 0;
    }
    view->piece_of = piece_of;
    return CAIRN_OK;
}

static cairn_status build_chain(const cairn_graph *graph, view_memory *m, cairn_chain_view *view) {
    CRN_TRY(find_cuts(graph, m->arena, &m->scratch, view));
    return assign_pieces(graph, m->arena, view);
}

cairn_status cairn_chain_view_create(const cairn_graph *graph, cairn_chain_view **out,
                                     cairn_error *err) {
    view_memory m;
    *out = NULL;
    crn_error_clear(err);
    cairn_chain_view *view = open_view(&m, graph, sizeof *view);
    CRN_TRY(close_view(&m, view == NULL ? CAIRN_ENOMEM : build_chain(graph, &m, view), err));
    view->memory = m.arena;
    *out = view;
    return CAIRN_OK;
}

void cairn_chain_view_destroy(cairn_chain_view *view) {
    if (view != NULL)
        crn_arena_destroy(view->memory);
}
