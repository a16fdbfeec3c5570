/* lower.c: turns decisions into steps, for a whole plan or for a part that is only measured. */
#include "graph/crn_graph.h"
#include "plan/lowering.h"
#include "plan/crn_plan.h"

cairn_status crn_lower_tables_make(const cairn_graph *graph, crn_arena *arena,
                                   crn_lower_tables *out) {
    uint32_t tensors = cairn_graph_tensor_count(graph);
    CRN_TAKE(arena, out->current, tensors);
    CRN_TAKE(arena, out->on_host, tensors);
    CRN_TAKE(arena, out->has_run, cairn_graph_op_count(graph));
    for (cairn_id t = 0; t < tensors; t++)
        out->current[t] = CRN_NO_INSTANCE;
    return CAIRN_OK;
}

/* Clean what the lowering has marked. */
static void clean_tables(const crn_lowering *l) {
    for (uint32_t i = 0; i < l->instances.length; i++)
        l->tables->current[l->instances.data[i].tensor] = CRN_NO_INSTANCE;
    for (uint32_t d = 0; d < l->count; d++)
        if (l->decisions[d].kind == CRN_RUN)
            l->tables->has_run[l->decisions[d].id] = false;
        else
            l->tables->on_host[l->decisions[d].id] = false;
}

static cairn_status lower(crn_lowering *l) {
    CRN_TRY(crn_lower_lifetimes(l));
    return crn_lower_steps(l);
}

/* The tensors that are there before the first step of a whole plan, and after the last. */
static cairn_status find_ends(crn_lowering *l, cairn_goal goal) {
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(l->graph, &summary);
    uint32_t tensors = cairn_graph_tensor_count(l->graph);
    cairn_id *given, *kept;
    CRN_TAKE(l->scratch, given, tensors);
    CRN_TAKE(l->scratch, kept, tensors);
    for (cairn_id t = 0; t < tensors; t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(l->graph, t);
        if (tensor->role == CAIRN_ROLE_INPUT ||
            (tensor->role == CAIRN_ROLE_LABEL && goal == CAIRN_GOAL_TRAIN))
            given[l->given_count++] = t;
        if (goal == CAIRN_GOAL_TRAIN ? crn_graph_is_result(l->graph, t) && !tensor->stationary
                                     : t == summary.output)
            kept[l->kept_count++] = t;
    }
    l->given = given;
    l->kept = kept;
    return CAIRN_OK;
}

cairn_status crn_lower(const cairn_graph *graph, const cairn_costs *costs,
                       const crn_schedule *schedule, cairn_goal goal, uint64_t budget,
                       cairn_plan **out, cairn_error *err) {
    *out = NULL;
    cairn_allocator allocator = crn_graph_allocator(graph);
    crn_arena scratch;
    crn_lower_tables tables;
    crn_arena_init(&scratch, &allocator);
    crn_lowering l = {.graph = graph, .costs = costs, .budget = budget, .scratch = &scratch};
    l.tables = &tables;
    l.decisions = schedule->decisions.data;
    l.count = schedule->decisions.length;
    l.implementations = schedule->implementations;
    cairn_status status = crn_plan_builder_create(&allocator, &l.builder);
    if (status == CAIRN_OK)
        status = find_ends(&l, goal);
    if (status == CAIRN_OK)
        status = crn_lower_tables_make(graph, &scratch, &tables);
    if (status == CAIRN_OK)
        status = lower(&l);
    if (status == CAIRN_OK) {
        cairn_plan_header header = CAIRN_PLAN_HEADER_INIT;
        header.goal = goal;
        crn_copy_string(header.model, sizeof header.model, cairn_graph_name(graph));
        status = crn_plan_builder_finish(l.builder, graph, &header, out, err);
    }
    crn_plan_builder_destroy(l.builder);
    crn_arena_release(&scratch);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

cairn_status crn_measure_part(const cairn_graph *graph, const cairn_costs *costs,
                              const crn_part *part, crn_lower_tables *tables, crn_arena *scratch,
                              crn_part_cost *out) {
    crn_lowering l = {.graph = graph, .costs = costs, .scratch = scratch, .tables = tables};
    l.decisions = part->decisions;
    l.count = part->count;
    l.given = part->given;
    l.given_count = part->given_count;
    l.kept = part->wanted;
    l.kept_count = part->wanted_count;
    cairn_status status = lower(&l);
    clean_tables(&l);
    CRN_TRY(status);
    *out = (crn_part_cost){.peak = l.peak, .left = l.live};
    for (uint32_t d = 0; d < part->count; d++) {
        uint32_t implementations;
        const cairn_implementation *list =
            cairn_costs_op(costs, part->decisions[d].id, &implementations);
        if (!l.dropped[d] && implementations > 0)
            out->time = crn_add_time(out->time, list[0].time_ns);
    }
    return CAIRN_OK;
}
