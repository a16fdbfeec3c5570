/* simulate.c: decides whether a plan is legal, by walking from its first step to its last
 * (sim_walk.h). */
#include "graph/crn_graph.h"
#include "plan/crn_plan.h"
#include "sim/slot_bytes.h"
#include "sim/sim_walk.h"

cairn_status crn_sim_break_rule(crn_sim_walk *w, cairn_rule rule, cairn_id culprit) {
    w->sim->summary.rule = rule;
    w->sim->summary.broken_step = w->step;
    w->sim->summary.culprit = culprit;
    return CAIRN_EINVAL;
}

static cairn_status take_step(crn_sim_walk *w, const cairn_step *step) {
    cairn_sim_step *record = &w->sim->steps[w->step];
    record->start_ns = w->now;
    cairn_status status;
    if (step->kind != CAIRN_STEP_RUN && crn_sim_outside(w, step->id))
        return crn_sim_break_rule(w, CAIRN_RULE_FREE_STATIONARY, step->id);
    switch ((cairn_step_kind)step->kind) {
    case CAIRN_STEP_RUN:
        status = crn_sim_run(w, step);
        break;
    case CAIRN_STEP_FREE:
        status = crn_sim_free(w, step->id);
        break;
    case CAIRN_STEP_WAIT:
        status = crn_sim_wait(w, step->id);
        break;
    case CAIRN_STEP_OFFLOAD:
        return crn_sim_offload(w, step->id);
    default:
        return crn_sim_fetch(w, step->id);
    }
    record->end_ns = w->now;
    return status;
}

/* ---- Before the first step and after the last ---- */

/* A parameter or slot that the plan fetches is at home on the host. */
static cairn_status find_homes(crn_sim_walk *w) {
    cairn_sim_summary *summary = &w->sim->summary;
    const cairn_step *steps = w->plan->steps;
    uint32_t count = w->plan->step_count;
    for (uint32_t i = 0; i < count; i++) {
        if (steps[i].kind != CAIRN_STEP_FETCH)
            continue;
        crn_sim_place *p = &w->places[steps[i].id];
        cairn_role role = cairn_graph_tensor(w->graph, steps[i].id)->role;
        if (p->homed || (role != CAIRN_ROLE_PARAMETER && role != CAIRN_ROLE_SLOT))
            continue;
        *p = (crn_sim_place){
            .storage = NO_STORAGE, .homed = true, .on_host = true, .absence = AT_HOME};
        summary->home_bytes += crn_align(cairn_costs_bytes(w->costs)[steps[i].id]);
        summary->host_bytes = summary->home_bytes;
        if (w->machine != NULL && summary->host_bytes > w->machine->host_memory_bytes)
            return crn_sim_break_rule(w, CAIRN_RULE_HOST_FULL, steps[i].id);
    }
    return CAIRN_OK;
}

/* Inputs are there from the start. Labels are too, if a loss is computed. */
static cairn_status begin(crn_sim_walk *w) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(w->graph); t++) {
        cairn_role role = cairn_graph_tensor(w->graph, t)->role;
        w->places[t].storage = NO_STORAGE;
        if (role == CAIRN_ROLE_INPUT || (role == CAIRN_ROLE_LABEL && w->goal == CAIRN_GOAL_TRAIN))
            CRN_TRY(crn_sim_take_storage(w, t));
    }
    CRN_TRY(find_homes(w));
    return crn_sim_count(w, 0, CAIRN_NONE);
}

/* Whether the tensor must be there at the end: the loss and the gradients of parameters, or the
 * output. */
static bool is_result(const crn_sim_walk *w, cairn_id t, cairn_id output) {
    return w->goal == CAIRN_GOAL_INFER ? t == output : crn_graph_is_result(w->graph, t);
}

/* Whether the tensor is there at the end. A gradient that was overwritten in place is in the
 * sum that replaced it. */
static bool is_kept(const crn_sim_walk *w, cairn_id t) {
    const crn_sim_place *p = &w->places[t];
    return p->resident ||
           (cairn_graph_tensor(w->graph, t)->stationary && p->absence == OVERWRITTEN);
}

static cairn_status end(crn_sim_walk *w) {
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(w->graph, &summary);
    uint32_t tensors = cairn_graph_tensor_count(w->graph);
    for (cairn_id t = 0; t < tensors; t++)
        if (is_result(w, t, summary.output) && !is_kept(w, t))
            return crn_sim_break_rule(w, CAIRN_RULE_NEVER_MADE, t);
    for (cairn_id o = 0; o < cairn_graph_op_count(w->graph) && w->goal == CAIRN_GOAL_TRAIN; o++)
        if ((cairn_graph_op(w->graph, o)->flags & CAIRN_OP_FLAG_ONCE) && w->ran_by[o] == 0)
            return crn_sim_break_rule(w, CAIRN_RULE_EFFECT_MISSING, o);
    for (cairn_id t = 0; t < tensors; t++)
        if (w->places[t].resident && !crn_sim_outside(w, t) && !is_result(w, t, summary.output))
            return crn_sim_break_rule(w, CAIRN_RULE_LEFT_AT_END, t);
    return CAIRN_OK;
}

cairn_status crn_sim_walk_plan(crn_sim_walk *w) {
    const cairn_step *steps = w->plan->steps;
    uint32_t step_count = w->plan->step_count;
    crn_arena_release(&w->scratch);
    w->storages.data = NULL;
    w->storages.length = w->storages.capacity = 0;
    w->free_slots.data = NULL;
    w->free_slots.length = w->free_slots.capacity = 0;
    w->live = 0;
    w->now = w->out_free = w->in_free = 0;
    w->step = 0;
    CRN_TAKE(&w->scratch, w->places, cairn_graph_tensor_count(w->graph));
    CRN_TAKE(&w->scratch, w->ran_by, cairn_graph_op_count(w->graph));
    CRN_TAKE(&w->scratch, w->of_last, cairn_graph_tensor_count(w->graph));
    if (w->gathers)
        crn_graph_mark_last(w->graph, w->of_last);
    bool *changed;
    CRN_TAKE(&w->scratch, changed, cairn_graph_tensor_count(w->graph));
    CRN_TAKE(&w->scratch, w->reads_only, step_count);
    crn_plan_mark_reads(w->graph, w->plan, changed, w->reads_only);
    CRN_TRY(begin(w));
    for (; w->step < step_count; w->step++) {
        CRN_TRY(take_step(w, &steps[w->step]));
        if (w->found)
            return CAIRN_OK;
    }
    w->sim->summary.time_ns = CRN_MAX(w->now, CRN_MAX(w->out_free, w->in_free));
    return end(w);
}

/* The walk is over. */
static cairn_sim *show(crn_sim *sim) {
    sim->seen = (cairn_sim){.summary = &sim->summary,
                            .steps = sim->steps,
                            .step_count = sim->step_count,
                            .lifetimes = sim->lifetimes.data,
                            .lifetime_count = sim->lifetimes.length,
                            .holders = sim->holders.data,
                            .holder_count = sim->holders.length};
    return &sim->seen;
}

/* `keep`: somebody will read what is recorded; `holders`: also what is in memory at the peak. */
static cairn_status judge(crn_sim_walk *w, bool keep, bool holders) {
    CRN_TAKE(&w->sim->arena, w->sim->steps, CRN_MAX(w->sim->step_count, 1));
    if (keep)
        CRN_TRY(crn_sim_keep_operands(w));
    cairn_status status = crn_sim_walk_plan(w);
    if (status == CAIRN_OK && keep && holders)
        status = crn_sim_find_holders(w);
    return status;
}

cairn_status cairn_simulate(const cairn_graph *graph, const cairn_costs *costs,
                            const cairn_plan *plan, const cairn_sim_options *given, cairn_sim **out,
                            cairn_error *err) {
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    cairn_machine machine = CAIRN_MACHINE_INIT;
    if (out != NULL)
        *out = NULL;
    crn_error_clear(err);
    CRN_READ_OPTIONS(cairn_sim_options, options, given, err);
    CRN_READ_LOCAL(cairn_machine, machine, &options.machine, err);
    if (plan->header->graph_hash != crn_graph_hash(graph))
        return crn_fail(err, CAIRN_EINVAL, "the plan was made for another graph than \"%s\"",
                        cairn_graph_name(graph));
    cairn_allocator allocator = crn_graph_allocator(graph);
    crn_sim *sim = CRN_OBJECT(&allocator, crn_sim, arena);
    if (sim == NULL)
        return crn_fail_memory(err);
    sim->summary.culprit = CAIRN_NONE;
    sim->step_count = plan->step_count;
    crn_sim_walk w = {
        .graph = graph, .costs = costs, .plan = plan, .budget = UINT64_MAX, .sim = sim};
    w.goal = plan->header->goal;
    if (options.budget_bytes > 0)
        w.budget = options.budget_bytes;
    w.machine = options.machine;
    w.gathers = options.gathers;
    crn_arena_init(&w.scratch, &allocator);
    cairn_status status = judge(&w, out != NULL, !options.no_holders);
    crn_arena_release(&w.scratch);
    if (status == CAIRN_ENOMEM) {
        cairn_sim_destroy(&sim->seen);
        return crn_fail_memory(err);
    }
    if (status != CAIRN_OK)
        crn_sim_describe(&w, err);
    if (out != NULL)
        *out = show(sim);
    else
        cairn_sim_destroy(&sim->seen);
    return status;
}

void cairn_sim_destroy(cairn_sim *sim) {
    if (sim == NULL)
        return;
    crn_arena_destroy(&((crn_sim *)sim)->arena);
}

uint64_t crn_slot_bytes(const cairn_graph *graph, const cairn_costs *costs, cairn_id parameter) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
        if (tensor->gradient_of == parameter && tensor->stationary)
            return cairn_costs_bytes(costs)[t];
    }
    return cairn_costs_bytes(costs)[parameter];
}

uint64_t cairn_stationary_bytes(const cairn_graph *graph, const cairn_costs *costs,
                                uint32_t optimizer_slots) {
    uint64_t sum = 0, slots = crn_graph_has_updates(graph) ? 0 : optimizer_slots;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
        uint64_t bytes = crn_align(cairn_costs_bytes(costs)[t]);
        if (tensor->role == CAIRN_ROLE_PARAMETER)
            sum += bytes + (slots > 0 ? slots * crn_align(crn_slot_bytes(graph, costs, t)) : 0);
        else if (tensor->role == CAIRN_ROLE_STATE || tensor->role == CAIRN_ROLE_SLOT)
            sum += bytes;
        else if (tensor->stationary && !crn_graph_is_summed(graph, t))
            sum += bytes;
    }
    return sum;
}
