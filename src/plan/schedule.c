/* schedule.c: the schedules that many solvers share. */
#include "graph/crn_graph.h"
#include "plan/lower.h"

cairn_status crn_schedule_add(crn_schedule *schedule, crn_arena *arena, crn_decision_kind kind,
                              cairn_id id) {
    crn_decision decision = {(uint8_t)kind, id};
    CRN_PUSH(arena, schedule->decisions, decision);
    return CAIRN_OK;
}

cairn_status crn_schedule_all(crn_schedule *schedule, crn_arena *arena, const cairn_graph *graph) {
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++)
        CRN_TRY(crn_schedule_add(schedule, arena, CRN_RUN, o));
    return CAIRN_OK;
}

cairn_status crn_schedule_infer(crn_schedule *schedule, crn_arena *arena,
                                const cairn_graph *graph) {
    uint32_t ops = cairn_graph_op_count(graph);
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(graph, &summary);
    bool *needed;
    CRN_TAKE(arena, needed, cairn_graph_tensor_count(graph));
    bool *runs;
    CRN_TAKE(arena, runs, ops);
    if (summary.output != CAIRN_NONE)
        needed[summary.output] = true;
    for (cairn_id o = ops; o-- > 0;) {
        const cairn_op *op = cairn_graph_op(graph, o);
        for (uint32_t i = 0; i < op->output_count && op->phase == CAIRN_PHASE_FORWARD; i++)
            runs[o] = runs[o] || (op->outputs[i] != CAIRN_NONE && needed[op->outputs[i]]);
        for (uint32_t i = 0; i < op->input_count && runs[o]; i++)
            needed[op->inputs[i]] = true;
    }
    for (cairn_id o = 0; o < ops; o++)
        if (runs[o])
            CRN_TRY(crn_schedule_add(schedule, arena, CRN_RUN, o));
    return CAIRN_OK;
}

/* ---- Keep-sets ---- */

typedef struct backward_work {
    const cairn_graph *graph;
    const uint32_t *segment;
    uint32_t *missing; /* per op: how many results of other backward ops it still waits for */
    CRN_ARRAY(cairn_id) ready; /* backward ops that could run next */
} backward_work;

static uint32_t segment_of(const backward_work *at, cairn_id o) {
    cairn_id of = cairn_graph_op(at->graph, o)->of;
    return of == CAIRN_NONE ? CAIRN_NONE : at->segment[of];
}

static bool is_forward(const cairn_graph *graph, cairn_id op) {
    return cairn_graph_op(graph, op)->phase == CAIRN_PHASE_FORWARD;
}

static cairn_status find_ready(backward_work *at, crn_arena *arena) {
    for (cairn_id o = 0; o < cairn_graph_op_count(at->graph); o++) {
        const cairn_op *op = cairn_graph_op(at->graph, o);
        if (op->phase == CAIRN_PHASE_FORWARD)
            continue;
        for (uint32_t i = 0; i < op->input_count; i++) {
            cairn_id producer = cairn_graph_tensor(at->graph, op->inputs[i])->producer;
            at->missing[o] += producer != CAIRN_NONE && !is_forward(at->graph, producer);
        }
        if (at->missing[o] == 0)
            CRN_PUSH(arena, at->ready, o);
    }
    return CAIRN_OK;
}

/* Take the first ready op of the current segment, or else the first ready op. */
static cairn_id take_next(backward_work *at, uint32_t current) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < at->ready.length; i++) {
        bool here = segment_of(at, at->ready.data[i]) == current;
        bool best_here = segment_of(at, at->ready.data[best]) == current;
        if (here != best_here ? here : at->ready.data[i] < at->ready.data[best])
            best = i;
    }
    cairn_id op = at->ready.data[best];
    at->ready.data[best] = at->ready.data[--at->ready.length];
    return op;
}

static cairn_status release_readers(backward_work *at, crn_arena *arena, cairn_id o) {
    const cairn_op *op = cairn_graph_op(at->graph, o);
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == CAIRN_NONE)
            continue;
        uint32_t count;
        const cairn_id *readers = crn_graph_readers(at->graph, op->outputs[k], &count);
        for (uint32_t r = 0; r < count; r++) {
            const cairn_op *reader = cairn_graph_op(at->graph, readers[r]);
            for (uint32_t i = 0; i < reader->input_count; i++)
                at->missing[readers[r]] -= reader->inputs[i] == op->outputs[k];
            if (at->missing[readers[r]] == 0)
                CRN_PUSH(arena, at->ready, readers[r]);
        }
    }
    return CAIRN_OK;
}

static cairn_status run_again(crn_schedule *schedule, crn_arena *arena, const cairn_graph *graph,
                              const uint32_t *segment, uint32_t which) {
    for (cairn_id o = 0; o < cairn_graph_op_count(graph) && is_forward(graph, o); o++)
        if (segment[o] == which)
            CRN_TRY(crn_schedule_add(schedule, arena, CRN_RUN, o));
    return CAIRN_OK;
}

cairn_status crn_schedule_segments(crn_schedule *schedule, crn_arena *arena,
                                   const cairn_graph *graph, const uint32_t *segment) {
    uint32_t ops = cairn_graph_op_count(graph), last = 0;
    bool *visited, first = true;
    backward_work at = {.graph = graph, .segment = segment};
    cairn_id o = 0;
    for (; o < ops && is_forward(graph, o); o++) {
        CRN_TRY(crn_schedule_add(schedule, arena, CRN_RUN, o));
        if (segment[o] != CAIRN_NONE)
            last = CRN_MAX(last, segment[o] + 1);
    }
    CRN_TAKE(arena, visited, last + 1);
    CRN_TAKE(arena, at.missing, ops);
    CRN_TRY(find_ready(&at, arena));
    uint32_t current = CAIRN_NONE;
    while (at.ready.length > 0) {
        cairn_id op = take_next(&at, current);
        current = segment_of(&at, op);
        if (current != CAIRN_NONE && !visited[current]) {
            visited[current] = true;
            if (!first)
                CRN_TRY(run_again(schedule, arena, graph, segment, current));
            first = false;
        }
        CRN_TRY(crn_schedule_add(schedule, arena, CRN_RUN, op));
        CRN_TRY(release_readers(&at, arena, op));
    }
    return CAIRN_OK;
}
