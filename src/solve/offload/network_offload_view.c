/* network_offload_view.c: a network as a problem of Beaumont et al., for callers who solve it
 * themselves. */
#include "cairn/papers/offload_view.h"
#include "solve/offload/trips_by_chain.h"

static cairn_status fill_ops(const crn_problem *problem, cairn_offload_view *out) {
    crn_trips trips;
    crn_ops_problem ops;
    CRN_TRY(crn_trips_build(problem, &trips));
    CRN_TRY(crn_ops_problem_build(&trips, &ops));
    out->problem = ops.problem;
    return CAIRN_OK;
}

static cairn_status fill_pieces(const crn_problem *problem, cairn_offload_view *out) {
    cairn_chain_view *view;
    crn_pieces_problem chain;
    CRN_TRY(cairn_chain_view_create(problem->graph, &view, problem->err));
    cairn_status status = crn_pieces_problem_build(problem, view, &chain);
    cairn_chain_view_destroy(view);
    if (status != CAIRN_OK)
        return status;
    out->problem = chain.problem;
    out->constant_bytes = chain.constant;
    return CAIRN_OK;
}

cairn_status cairn_offload_view_create(const cairn_graph *graph, const cairn_costs *costs,
                                       const cairn_machine *given, cairn_offload_layers layers,
                                       cairn_offload_view **out, cairn_error *err) {
    cairn_machine machine = CAIRN_MACHINE_INIT;
    *out = NULL;
    crn_error_clear(err);
    CRN_READ_LOCAL(cairn_machine, machine, &given, err);
    cairn_allocator allocator = crn_graph_allocator(graph);
    crn_arena *arena = crn_arena_create(&allocator);
    cairn_offload_view *view = arena == NULL ? NULL : crn_arena_take(arena, 1, sizeof *view);
    crn_problem problem = {.graph = graph,
                           .costs = costs,
                           .machine = given,
                           .budget = UINT64_MAX,
                           .scratch = arena,
                           .err = err};
    cairn_status status = CAIRN_ENOMEM;
    if (view != NULL)
        status = layers == CAIRN_OFFLOAD_LAYERS_OPS ? fill_ops(&problem, view)
                                                    : fill_pieces(&problem, view);
    if (status != CAIRN_OK) {
        crn_arena_destroy(arena);
        return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
    }
    view->memory = arena;
    *out = view;
    return CAIRN_OK;
}

void cairn_offload_view_destroy(cairn_offload_view *view) {
    if (view != NULL)
        crn_arena_destroy(view->memory);
}
