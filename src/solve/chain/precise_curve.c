/* precise_curve.c: the answer of `precise` for every budget, from one table. */
#include "cairn/budget.h"
#include "cairn/papers/budget_curve.h"
#include "solve/chain/network_pieces.h"

void cairn_budget_curve_destroy(cairn_budget_curve *curve) {
    if (curve != NULL)
        crn_arena_destroy(curve->memory);
}

/* Copy the table's curve, shifted by the memory that is always in use, with a lower bound for every
 * point. */
static cairn_status fill(cairn_budget_curve *out, crn_arena *arena,
                         const crn_network_pieces *network, const crn_piece_table *table,
                         const crn_piece_table *below) {
    crn_curve curve = crn_piece_curve(table);
    cairn_budget_point *points;
    int64_t *bounds;
    CRN_TAKE(arena, points, curve.count);
    CRN_TAKE(arena, bounds, curve.count);
    for (uint32_t i = 0; i < curve.count; i++) {
        points[i] =
            (cairn_budget_point){curve.points[i].memory + network->always, curve.points[i].cost};
        bounds[i] = below == NULL ? curve.points[i].cost
                                  : crn_curve_at(crn_piece_curve(below), curve.points[i].memory);
    }
    out->points = points;
    out->bounds = bounds;
    out->count = curve.count;
    out->piece_count = network->chain.count;
    return CAIRN_OK;
}

static cairn_status solve(const crn_problem *problem, const cairn_chain_view *view,
                          uint32_t most_points, bool bounded, cairn_budget_curve *out,
                          crn_arena *arena) {
    crn_network_pieces network;
    crn_piece_table *table, *below = NULL;
    crn_piece_options options = {.memory = UINT64_MAX, .max_points = most_points, .whole = true};
    CRN_TRY(crn_network_pieces_build(problem, view, &network));
    CRN_TRY(crn_piece_check(&network.chain, problem->err));
    CRN_TRY(crn_piece_solve(&network.chain, &options, problem->scratch, &table));
    out->exact = !crn_piece_thinned(table);
    options.downwards = true;
    if (bounded && !out->exact)
        CRN_TRY(crn_piece_solve(&network.chain, &options, problem->scratch, &below));
    return fill(out, arena, &network, table, below);
}

cairn_status cairn_precise_curve(const cairn_graph *graph, const cairn_costs *costs,
                                 uint32_t most_points, bool bounded, cairn_budget_curve **out,
                                 cairn_error *err) {
    *out = NULL;
    crn_error_clear(err);
    cairn_allocator allocator = crn_graph_allocator(graph);
    cairn_chain_view *view;
    CRN_TRY(cairn_chain_view_create(graph, &view, err));
    crn_arena *arena = crn_arena_create(&allocator), scratch;
    crn_arena_init(&scratch, &allocator);
    cairn_budget_curve *curve = arena == NULL ? NULL : crn_arena_take(arena, 1, sizeof *curve);
    crn_problem problem = {.graph = graph, .costs = costs, .scratch = &scratch, .err = err};
    cairn_status status = CAIRN_ENOMEM;
    if (curve != NULL)
        status = solve(&problem, view, most_points, bounded, curve, arena);
    crn_arena_release(&scratch);
    cairn_chain_view_destroy(view);
    if (status != CAIRN_OK) {
        crn_arena_destroy(arena);
        return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
    }
    curve->memory = arena;
    *out = curve;
    return CAIRN_OK;
}
