/* sim_run.c: runs an op: are its operands there, where do its outputs go, how much memory and time
 * does it take. */
#include "cost/crn_cost.h"
#include "sim/crn_sim.h"
#include "sim/sim_walk.h"

#include "graph/crn_graph.h"
#include "plan/crn_plan.h"

static cairn_status check_inputs(crn_sim_walk *w, const cairn_op *op) {
    static const cairn_rule why[] = {CAIRN_RULE_INPUT_NEVER_MADE, CAIRN_RULE_READ_AFTER_FREE,
                                     CAIRN_RULE_READ_OVERWRITTEN};
    for (uint32_t i = 0; i < op->input_count; i++) {
        const crn_sim_place *p = &w->places[op->inputs[i]];
        if (!p->resident)
            return crn_sim_break_rule(w, why[p->absence], op->inputs[i]);
        if (p->flight == COMING_IN)
            return crn_sim_break_rule(w, CAIRN_RULE_READ_BEFORE_WAIT, op->inputs[i]);
    }
    return CAIRN_OK;
}

static bool changes_params(const cairn_op *op) {
    return crn_op_updates(op) || op->phase == CAIRN_PHASE_UPDATE;
}

/* The parameters must be as they were before the step, unless it is their update; and those whose
 * home is the host must have been fetched. */
static cairn_status check_params(crn_sim_walk *w, const cairn_op *op) {
    for (uint32_t i = 0; i < op->param_count; i++) {
        const crn_sim_place *p = &w->places[op->params[i]];
        if (p->changed && !crn_op_updates(op))
            return crn_sim_break_rule(w, CAIRN_RULE_READ_UPDATED, op->params[i]);
        if (p->homed && !p->resident)
            return crn_sim_break_rule(
                w, p->absence == FREED ? CAIRN_RULE_READ_AFTER_FREE : CAIRN_RULE_READ_BEFORE_FETCH,
                op->params[i]);
        if (p->flight == COMING_IN)
            return crn_sim_break_rule(w, CAIRN_RULE_READ_BEFORE_WAIT, op->params[i]);
        if (p->flight == GOING_OUT && changes_params(op))
            return crn_sim_break_rule(w, CAIRN_RULE_WRITE_IN_FLIGHT, op->params[i]);
    }
    return CAIRN_OK;
}

/* An update changes its parameter and its slots: copies on the host are out of date. */
static void change_params(crn_sim_walk *w, const cairn_op *op) {
    for (uint32_t i = 0; i < op->param_count && changes_params(op); i++) {
        w->places[op->params[i]].changed = crn_op_updates(op);
        w->places[op->params[i]].on_host = false;
    }
}

static cairn_status check_again(crn_sim_walk *w, cairn_id id, const cairn_op *op) {
    if (w->goal == CAIRN_GOAL_INFER && op->phase != CAIRN_PHASE_FORWARD)
        return crn_sim_break_rule(w, CAIRN_RULE_NOT_OF_GOAL, id);
    if (w->ran_by[id] == 0)
        return CAIRN_OK;
    if (op->flags & CAIRN_OP_FLAG_NEVER_AGAIN)
        return crn_sim_break_rule(w, CAIRN_RULE_NEVER_AGAIN, id);
    /* A recomputed op leaves out its `once` effect. An op that does nothing else cannot be
     * recomputed. */
    if ((op->flags & CAIRN_OP_FLAG_ONCE) &&
        (op->output_count == 0 || op->phase == CAIRN_PHASE_UPDATE))
        return crn_sim_break_rule(w, CAIRN_RULE_ONCE_TWICE, id);
    return CAIRN_OK;
}

/* The storage of an alias is that of the input it is an alias of. */
static uint32_t aliased_storage(const crn_sim_walk *w, const cairn_op *op, cairn_id output) {
    cairn_id root = crn_graph_storage(w->graph, output);
    for (uint32_t i = 0; i < op->input_count; i++)
        if (crn_graph_storage(w->graph, op->inputs[i]) == root)
            return w->places[op->inputs[i]].storage;
    return NO_STORAGE;
}

static bool is_alias(const crn_sim_walk *w, cairn_id tensor) {
    return cairn_graph_tensor(w->graph, tensor)->alias_of != CAIRN_NONE;
}

/* Make one output that is not made in place. If it is resident, it and its aliases are overwritten
 * with the same bits. Making an alias writes nothing. */
static cairn_status make_output(crn_sim_walk *w, const cairn_op *op, cairn_id output) {
    crn_sim_place *p = &w->places[output];
    if (p->resident) {
        bool copied = p->flight != AT_REST;
        if (p->storage != NO_STORAGE && !is_alias(w, output))
            copied = w->storages.data[p->storage].copied > 0;
        return copied ? crn_sim_break_rule(w, CAIRN_RULE_WRITE_IN_FLIGHT, output) : CAIRN_OK;
    }
    if (!is_alias(w, output))
        return crn_sim_take_storage(w, output);
    p->resident = true;
    p->storage = aliased_storage(w, op, output);
    if (p->storage != NO_STORAGE)
        w->storages.data[p->storage].users++;
    return CAIRN_OK;
}

static bool both_stationary(const crn_sim_walk *w, const cairn_op *op, cairn_inplace pair) {
    return cairn_graph_tensor(w->graph, op->inputs[pair.input])->stationary &&
           cairn_graph_tensor(w->graph, op->outputs[pair.output])->stationary;
}

/* Check that the output may take over the operand's storage. */
static cairn_status check_pair(crn_sim_walk *w, const cairn_op *op, cairn_inplace pair) {
    cairn_id input = op->inputs[pair.input], output = op->outputs[pair.output];
    uint32_t s = w->places[input].storage; /* backends may store them with different sizes */
    bool fits = s == NO_STORAGE ||
                crn_align(cairn_costs_bytes(w->costs)[output]) <= w->storages.data[s].bytes;
    if (w->places[output].resident || !fits)
        return crn_sim_break_rule(w, CAIRN_RULE_INPLACE_FORBIDDEN, output);
    if (w->places[input].flight != AT_REST)
        return crn_sim_break_rule(w, CAIRN_RULE_WRITE_IN_FLIGHT, input);
    if (s != NO_STORAGE && w->storages.data[s].users > 1)
        return crn_sim_break_rule(w, CAIRN_RULE_INPLACE_SHARED, input);
    cairn_id root = crn_graph_storage(w->graph, input);
    for (uint32_t i = 0; i < op->output_count; i++) /* the op makes an alias of the operand */
        if (op->outputs[i] != CAIRN_NONE && crn_graph_storage(w->graph, op->outputs[i]) == root)
            return crn_sim_break_rule(w, CAIRN_RULE_INPLACE_SHARED, input);
    return CAIRN_OK;
}

static cairn_status check_inplace(crn_sim_walk *w, const cairn_op *op, const cairn_step *step) {
    for (uint32_t i = 0; i < op->inplace_count && step->inplace == 0; i++)
        if (both_stationary(w, op, op->inplace[i]))
            return crn_sim_break_rule(w, CAIRN_RULE_INPLACE_MISSING,
                                      op->outputs[op->inplace[i].output]);
    cairn_inplace pairs[2];
    uint32_t count = crn_step_pairs(op, step, pairs);
    for (uint32_t i = 0; i < count; i++)
        CRN_TRY(check_pair(w, op, pairs[i]));
    return CAIRN_OK;
}

/* The output takes over the operand's storage. The operand is no longer resident. */
static void take_over(crn_sim_walk *w, const cairn_op *op, cairn_inplace pair) {
    crn_sim_place *from = &w->places[op->inputs[pair.input]];
    crn_sim_place *to = &w->places[op->outputs[pair.output]];
    to->resident = true;
    to->storage = from->storage;
    from->resident = false;
    from->absence = OVERWRITTEN;
    from->storage = NO_STORAGE;
}

/* Before the last micro-batch an update only adds the gradient to its last slot: it reads both and
 * writes one, where the whole update reads and writes its params too. Where the norm of the sums is
 * needed first, it does nothing. */
static int64_t gather_time(const cairn_graph *graph, const cairn_op *op, int64_t time) {
    if (op->kind != CAIRN_OP_UPDATE)
        return time;
    if (cairn_graph_tensor(graph, op->inputs[0])->gradient_of == CAIRN_NONE)
        return 0;
    return time / (1 + 2 * (int64_t)op->param_count) * 3;
}

int64_t crn_sim_gather_saves(const cairn_graph *graph, const cairn_costs *costs) {
    int64_t saved = 0;
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        uint32_t count;
        const cairn_implementation *how = cairn_costs_op(costs, o, &count);
        if (count > 0)
            saved = crn_add_time(
                saved, how->time_ns - gather_time(graph, cairn_graph_op(graph, o), how->time_ns));
    }
    return saved;
}

cairn_status crn_sim_run(crn_sim_walk *w, const cairn_step *step) {
    const cairn_op *op = cairn_graph_op(w->graph, step->id);
    CRN_TRY(check_again(w, step->id, op));
    CRN_TRY(check_inputs(w, op));
    CRN_TRY(check_params(w, op));
    CRN_TRY(check_inplace(w, op, step));

    crn_sim_note_tensors(w, 0, op->inputs, op->input_count);
    cairn_inplace pairs[2] = {{UINT32_MAX, 0}, {UINT32_MAX, 0}};
    uint32_t overwritten = crn_step_pairs(op, step, pairs);
    cairn_id first_made = op->output_count > 0 ? op->outputs[0] : CAIRN_NONE;
    for (uint32_t i = 0; i < op->output_count; i++)
        if (op->outputs[i] != CAIRN_NONE && i != pairs[0].output && i != pairs[1].output)
            CRN_TRY(make_output(w, op, op->outputs[i]));
    for (uint32_t i = 0; i < overwritten; i++)
        take_over(w, op, pairs[i]);
    crn_sim_note_tensors(w, op->input_count, op->outputs, op->output_count);

    uint32_t implementations;
    const cairn_implementation *list = cairn_costs_op(w->costs, step->id, &implementations);
    if (step->implementation >= implementations)
        return crn_sim_break_rule(w, CAIRN_RULE_NO_IMPLEMENTATION, step->id);
    if (w->ran_by[step->id] != 0 && w->ran_by[step->id] != 1 + (uint32_t)step->implementation)
        return crn_sim_break_rule(w, CAIRN_RULE_OTHER_IMPLEMENTATION, step->id);
    const cairn_implementation *chosen = &list[step->implementation];
    uint64_t workspace = crn_align(chosen->workspace_bytes);
    uint32_t lifetime = CAIRN_NONE;
    if (workspace > 0)
        CRN_TRY(crn_sim_record_lifetime(w, CAIRN_NONE, workspace, w->step, &lifetime));
    crn_sim_note_lifetime(w, op->input_count + op->output_count, lifetime);
    crn_sim_note_tensors(w, op->input_count + op->output_count + 1, op->params, op->param_count);
    change_params(w, op);
    CRN_TRY(crn_sim_count(w, workspace, first_made));

    bool again = w->ran_by[step->id] != 0;
    int64_t time =
        again ? crn_costs_again_ns(w->costs, step->id, step->implementation) : chosen->time_ns;
    cairn_sim_summary *summary = &w->sim->summary;
    if (w->gathers)
        time = gather_time(w->graph, op, time);
    w->now = crn_add_time(w->now, time);
    summary->compute_ns = crn_add_time(summary->compute_ns, time);
    summary->runs++;
    if (again) {
        summary->reruns++;
        summary->rerun_ns = crn_add_time(summary->rerun_ns, time);
    }
    w->ran_by[step->id] = 1 + (uint32_t)step->implementation;
    return CAIRN_OK;
}
