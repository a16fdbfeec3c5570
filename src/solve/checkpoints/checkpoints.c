/* checkpoints.c: the checkpoint searches on networks. The checkpoints of a search become a
 * schedule.
 *
 *     graph -> vertex-weighted DAG -> checkpoints -> segments of forward ops -> schedule
 *
 * Without the checkpoints the graph falls apart into segments. Each segment is recomputed as a
 * whole just before its backward. The schedule and the lowering improve on what the objective of
 * the search counts: the segment that the backward pass starts with is not recomputed, a checkpoint
 * that nothing reads is not kept, and an op whose result is a checkpoint also keeps its internals
 * (pooling indices, statistics). */
#include "cairn/papers/acg.h"
#include "cairn/papers/views.h"
#include "solve/checkpoints/checkpoints.h"

#include "base/watch.h"

static uint32_t find_root(uint32_t *parent, uint32_t v) {
    while (parent[v] != v) {
        parent[v] = parent[parent[v]];
        v = parent[v];
    }
    return v;
}

/* The segment of each vertex, named by one of its vertices; CAIRN_NONE for checkpoints. */
static cairn_status find_segments(crn_arena *scratch, const cairn_dag *dag,
                                  const cairn_acg_solution *kept, uint32_t **out) {
    uint32_t *parent;
    bool *chosen;
    CRN_TAKE(scratch, parent, dag->vertex_count);
    CRN_TAKE(scratch, chosen, dag->vertex_count);
    for (uint32_t v = 0; v < dag->vertex_count; v++)
        parent[v] = v;
    for (uint32_t i = 0; i < kept->checkpoint_count; i++)
        chosen[kept->checkpoints[i]] = true;
    for (uint32_t e = 0; e < dag->edge_count; e++) {
        uint32_t from = dag->edges[e].from, to = dag->edges[e].to;
        if (!chosen[from] && !chosen[to])
            parent[find_root(parent, to)] = find_root(parent, from);
    }
    CRN_TAKE(scratch, *out, dag->vertex_count);
    for (uint32_t v = 0; v < dag->vertex_count; v++)
        (*out)[v] = chosen[v] ? CAIRN_NONE : find_root(parent, v);
    return CAIRN_OK;
}

/* The segment of each op: that of its output. */
static cairn_status segments_of_ops(const crn_problem *problem, const cairn_dag_view *view,
                                    const uint32_t *segment_of, uint32_t **out) {
    uint32_t ops = cairn_graph_op_count(problem->graph);
    CRN_TAKE(problem->scratch, *out, ops);
    for (cairn_id o = 0; o < ops; o++) {
        const cairn_op *op = cairn_graph_op(problem->graph, o);
        uint32_t vertex = CAIRN_NONE;
        if (op->phase == CAIRN_PHASE_FORWARD && op->output_count > 0 &&
            op->outputs[0] != CAIRN_NONE)
            vertex = view->vertex_of[op->outputs[0]];
        (*out)[o] = vertex == CAIRN_NONE ? CAIRN_NONE : segment_of[vertex];
    }
    return CAIRN_OK;
}

static cairn_status solve_view(const crn_problem *problem, const cairn_dag_view *view,
                               cairn_acg_solution **kept) {
    const char *name = problem->algorithm;
    cairn_allocator allocator = crn_graph_allocator(problem->graph);
    cairn_acg_options options = CAIRN_ACG_OPTIONS_INIT;
    options.seed = problem->seed;
    if (problem->scratch->watch != NULL) {
        options.progress = problem->scratch->watch->progress;
        options.progress_context = problem->scratch->watch->context;
    }
    cairn_status status =
        cairn_acg_solve(&allocator, &view->dag, name, &options, kept, problem->err);
    if (status == CAIRN_EINVAL)
        return crn_fail(problem->err, status,
                        "\"%s\" does not apply to \"%s\", which is not a chain of single tensors; "
                        "try feng or pieces",
                        name, cairn_graph_name(problem->graph));
    return status;
}

static cairn_status make_schedule(const crn_problem *problem, const cairn_dag_view *view,
                                  const cairn_acg_solution *kept, crn_schedule *schedule) {
    uint32_t *segment_of, *segment;
    CRN_TRY(find_segments(problem->scratch, &view->dag, kept, &segment_of));
    CRN_TRY(segments_of_ops(problem, view, segment_of, &segment));
    return crn_schedule_segments(schedule, problem->scratch, problem->graph, segment);
}

cairn_status crn_solve_checkpoints(const crn_problem *problem, crn_schedule *schedule) {
    cairn_dag_view *view;
    CRN_TRY(cairn_dag_view_create(problem->graph, cairn_costs_bytes(problem->costs), &view,
                                  problem->err));
    cairn_acg_solution *kept = NULL;
    cairn_status status = solve_view(problem, view, &kept);
    if (status == CAIRN_OK)
        status = make_schedule(problem, view, kept, schedule);
    cairn_acg_solution_destroy(kept);
    cairn_dag_view_destroy(view);
    return status;
}
