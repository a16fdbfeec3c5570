/* lower_steps.c: writes the steps. It frees a tensor as soon as nothing needs it, lets an op work
 * in place where it may, and waits for copies where that is necessary. See lowering.h. */
#include "graph/crn_graph.h"
#include "plan/lowering.h"

uint16_t crn_usual_implementation(const cairn_costs *costs, cairn_id op) {
    uint32_t count, best = 0;
    const cairn_implementation *list = cairn_costs_op(costs, op, &count);
    for (uint32_t k = 1; k < count; k++)
        if (list[k].time_ns < list[best].time_ns &&
            list[k].workspace_bytes <= list[0].workspace_bytes)
            best = k;
    return (uint16_t)best;
}

/* Which implementation runs an op: the solver's choice, or the usual one. */
static uint8_t implementation(const crn_lowering *l, cairn_id op) {
    return (uint8_t)(l->implementations == NULL ? crn_usual_implementation(l->costs, op)
                                                : l->implementations[op]);
}

static cairn_status emit_step(crn_lowering *l, cairn_step step) {
    return l->builder == NULL ? CAIRN_OK : crn_plan_builder_add(l->builder, step);
}

static cairn_status emit(crn_lowering *l, cairn_step_kind kind, cairn_id id) {
    return emit_step(l, (cairn_step){.kind = (uint8_t)kind, .id = id});
}

static bool is_stationary(const crn_lowering *l, cairn_id tensor) {
    return cairn_graph_tensor(l->graph, tensor)->stationary;
}

static cairn_status settle(crn_lowering *l, uint32_t id, uint32_t share) {
    crn_instance *i = &l->instances.data[id];
    i->resident = true;
    if (is_stationary(l, i->tensor))
        return CAIRN_OK;
    if (share != CRN_NO_INSTANCE) {
        i->storage = share;
        l->storages.data[share].users++;
        return CAIRN_OK;
    }
    crn_plan_storage fresh = {crn_align(cairn_costs_bytes(l->costs)[i->tensor]), 1};
    i->storage = l->storages.length;
    l->live += fresh.bytes;
    CRN_PUSH(l->scratch, l->storages, fresh);
    return CAIRN_OK;
}

static void leave(crn_lowering *l, uint32_t id) {
    crn_instance *i = &l->instances.data[id];
    i->resident = false;
    if (i->storage != CRN_NO_INSTANCE && --l->storages.data[i->storage].users == 0)
        l->live -= l->storages.data[i->storage].bytes;
}

/* Free an instance, waiting first for a copy of it that is in flight. */
static cairn_status release(crn_lowering *l, uint32_t id) {
    crn_instance *i = &l->instances.data[id];
    if (!i->resident || is_stationary(l, i->tensor))
        return CAIRN_OK;
    if (i->going || i->coming)
        CRN_TRY(emit(l, CAIRN_STEP_WAIT, i->tensor));
    i->going = i->coming = false;
    CRN_TRY(emit(l, CAIRN_STEP_FREE, i->tensor));
    leave(l, id);
    return CAIRN_OK;
}

/* Free offloaded tensors, oldest first, until `need` more bytes fit. */
static cairn_status make_room(crn_lowering *l, uint64_t need, uint32_t d) {
    for (uint32_t k = l->first_leaving; k < l->leaving.length; k++) {
        if (l->budget == 0 || l->live + need <= l->budget)
            break;
        crn_instance *i = &l->instances.data[l->leaving.data[k]];
        if (i->resident && i->last_use < d)
            CRN_TRY(release(l, l->leaving.data[k]));
        if (!i->resident && k == l->first_leaving)
            l->first_leaving++;
    }
    return CAIRN_OK;
}

/* Whether an output of the op is an alias of this input. */
static bool makes_alias(const crn_lowering *l, const cairn_op *op, uint32_t input) {
    cairn_id root = crn_graph_storage(l->graph, op->inputs[input]);
    for (uint32_t i = 0; i < op->output_count; i++)
        if (op->outputs[i] != CAIRN_NONE && crn_graph_storage(l->graph, op->outputs[i]) == root)
            return true;
    return false;
}

/* Whether a run can use an in-place pair: the operand must die here and be alone in its storage,
 * which must be large enough. */
static bool can_overwrite(const crn_lowering *l, const cairn_op *op, cairn_inplace pair,
                          uint32_t d) {
    uint32_t read = l->reads.data[l->first_read[d] + pair.input];
    if (read == CRN_NO_INSTANCE)
        return false;
    const crn_instance *operand = &l->instances.data[read];
    bool fits = is_stationary(l, operand->tensor);
    if (operand->storage != CRN_NO_INSTANCE) {
        const crn_plan_storage *s = &l->storages.data[operand->storage];
        uint64_t bytes = crn_align(cairn_costs_bytes(l->costs)[op->outputs[pair.output]]);
        fits = s->users == 1 && bytes <= s->bytes;
    }
    return operand->last_use == d && fits && !operand->going && !operand->offloaded &&
           !makes_alias(l, op, pair.input);
}

/* Use the first in-place pair that a run can use, and the next one that goes together with it. */
static void find_inplace(const crn_lowering *l, const cairn_op *op, uint32_t d, cairn_step *step) {
    step->inplace = step->also = 0;
    for (uint32_t k = 0; k < op->inplace_count && step->also == 0; k++) {
        if (!can_overwrite(l, op, op->inplace[k], d))
            continue;
        if (step->inplace == 0)
            step->inplace = (uint8_t)(k + 1);
        else if (crn_pairs_go_together(op, op->inplace[step->inplace - 1], op->inplace[k]))
            step->also = (uint8_t)(k + 1);
    }
}

/* The storage that an output shares because it is an alias, or CRN_NO_INSTANCE. */
static uint32_t shared_storage(const crn_lowering *l, const cairn_op *op, uint32_t d,
                               cairn_id output) {
    cairn_id root = crn_graph_storage(l->graph, output);
    if (root == output)
        return CRN_NO_INSTANCE;
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint32_t read = l->reads.data[l->first_read[d] + i];
        if (read != CRN_NO_INSTANCE && crn_graph_storage(l->graph, op->inputs[i]) == root)
            return l->instances.data[read].storage;
    }
    return CRN_NO_INSTANCE;
}

static uint64_t bytes_needed(const crn_lowering *l, const cairn_op *op, const cairn_step *step) {
    uint32_t implementations;
    const cairn_implementation *list = cairn_costs_op(l->costs, step->id, &implementations);
    uint64_t need = implementations > 0 ? crn_align(list[step->implementation].workspace_bytes) : 0;
    for (uint32_t i = 0; i < op->output_count; i++)
        if (op->outputs[i] != CAIRN_NONE && !is_stationary(l, op->outputs[i]) &&
            crn_graph_storage(l->graph, op->outputs[i]) == op->outputs[i])
            need += crn_align(cairn_costs_bytes(l->costs)[op->outputs[i]]);
    cairn_inplace pairs[2];
    uint32_t count = crn_step_pairs(op, step, pairs);
    for (uint32_t i = 0; i < count; i++)
        if (!is_stationary(l, op->outputs[pairs[i].output]))
            need -= crn_align(cairn_costs_bytes(l->costs)[op->outputs[pairs[i].output]]);
    return need;
}

/* The input whose storage an output takes; UINT32_MAX: none. */
static uint32_t overwritten_by(const cairn_op *op, const cairn_step *step, uint32_t output) {
    cairn_inplace pairs[2];
    uint32_t count = crn_step_pairs(op, step, pairs);
    for (uint32_t i = 0; i < count; i++)
        if (pairs[i].output == output)
            return pairs[i].input;
    return UINT32_MAX;
}

static cairn_status write_run(crn_lowering *l, uint32_t d) {
    cairn_id id = l->decisions[d].id;
    const cairn_op *op = cairn_graph_op(l->graph, id);
    for (uint32_t r = l->first_read[d]; r < l->first_read[d + 1]; r++) {
        if (l->reads.data[r] == CRN_NO_INSTANCE)
            continue;
        crn_instance *i = &l->instances.data[l->reads.data[r]];
        if (i->coming)
            CRN_TRY(emit(l, CAIRN_STEP_WAIT, i->tensor));
        i->coming = false;
    }
    cairn_step step = {.kind = CAIRN_STEP_RUN, .implementation = implementation(l, id), .id = id};
    find_inplace(l, op, d, &step);
    CRN_TRY(make_room(l, bytes_needed(l, op, &step), d));
    if (step.inplace == 0) /* a tensor freed for room may have shared the operand's storage */
        find_inplace(l, op, d, &step);
    l->peak = CRN_MAX(l->peak, l->live + bytes_needed(l, op, &step));
    CRN_TRY(emit_step(l, step));
    uint32_t made = l->first_made[d];
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (op->outputs[i] == CAIRN_NONE)
            continue;
        uint32_t share = shared_storage(l, op, d, op->outputs[i]);
        uint32_t input = overwritten_by(op, &step, i);
        if (input != UINT32_MAX) {
            crn_instance *operand = &l->instances.data[l->reads.data[l->first_read[d] + input]];
            share = operand->storage;
            operand->resident = false;
        }
        CRN_TRY(settle(l, made, share));
        if (input != UINT32_MAX && share != CRN_NO_INSTANCE)
            l->storages.data[share].users--; /* the output replaces the operand in it */
        made++;
    }
    return CAIRN_OK;
}

static cairn_status write_fetch(crn_lowering *l, uint32_t d) {
    uint32_t id = l->first_made[d];
    crn_instance *i = &l->instances.data[id], *source = &l->instances.data[i->source];
    if (source->resident) { /* its memory was never needed, so it is still there */
        i->resident = true;
        i->storage = source->storage;
        i->going = source->going;
        i->coming = source->coming;
        source->resident = false;
        return CAIRN_OK;
    }
    CRN_TRY(make_room(l, crn_align(cairn_costs_bytes(l->costs)[i->tensor]), d));
    CRN_TRY(emit(l, CAIRN_STEP_FETCH, i->tensor));
    CRN_TRY(settle(l, id, CRN_NO_INSTANCE));
    l->instances.data[id].coming = true;
    return CAIRN_OK;
}

static cairn_status write_decision(crn_lowering *l, uint32_t d) {
    uint32_t read = crn_lower_moved(l, d);
    switch (l->decisions[d].kind) {
    case CRN_RUN:
        return write_run(l, d);
    case CRN_FETCH:
        return write_fetch(l, d);
    case CRN_OFFLOAD:
        if (!l->instances.data[read].resident)
            return CAIRN_OK;
        CRN_PUSH(l->scratch, l->leaving, read);
        if (l->tables->on_host[l->decisions[d].id])
            return CAIRN_OK; /* an earlier offload left the same bits on the host */
        l->tables->on_host[l->decisions[d].id] = true;
        CRN_TRY(emit(l, CAIRN_STEP_OFFLOAD, l->decisions[d].id));
        l->instances.data[read].going = true;
        return CAIRN_OK;
    default:
        return release(l, read);
    }
}

/* Lists of instances by the decision after which they die. */
static cairn_status index_deaths(crn_lowering *l) {
    CRN_TAKE(l->scratch, l->dying, l->count + 1);
    CRN_TAKE(l->scratch, l->next_dying, l->instances.length);
    for (uint32_t d = 0; d <= l->count; d++)
        l->dying[d] = CRN_NO_INSTANCE;
    for (uint32_t i = l->instances.length; i-- > 0;) {
        uint32_t last = l->instances.data[i].last_use;
        if (l->instances.data[i].stays)
            continue;
        uint32_t slot = last == CRN_TO_THE_END ? l->count : last; /* slot `count`: never used */
        l->next_dying[i] = l->dying[slot];
        l->dying[slot] = i;
    }
    return CAIRN_OK;
}

static cairn_status bury(crn_lowering *l, uint32_t slot) {
    for (uint32_t i = l->dying[slot]; i != CRN_NO_INSTANCE; i = l->next_dying[i])
        if (!l->instances.data[i].offloaded)
            CRN_TRY(release(l, i));
    return CAIRN_OK;
}

/* Results that were offloaded are in memory again when the step ends. */
static cairn_status await_results(crn_lowering *l) {
    for (uint32_t i = 0; i < l->instances.length; i++)
        if (l->instances.data[i].stays && l->instances.data[i].coming)
            CRN_TRY(emit(l, CAIRN_STEP_WAIT, l->instances.data[i].tensor));
    return CAIRN_OK;
}

cairn_status crn_lower_steps(crn_lowering *l) {
    CRN_TRY(index_deaths(l));
    for (uint32_t i = 0; i < l->first_made[0]; i++)
        CRN_TRY(settle(l, i, CRN_NO_INSTANCE));
    l->peak = l->live;
    CRN_TRY(bury(l, l->count));
    for (uint32_t d = 0; d < l->count; d++) {
        if (l->dropped[d])
            continue;
        CRN_TRY(write_decision(l, d));
        CRN_TRY(bury(l, d));
    }
    for (uint32_t k = l->first_leaving; k < l->leaving.length; k++)
        CRN_TRY(release(l, l->leaving.data[k]));
    return await_results(l);
}
