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
static uint16_t implementation(const crn_lowering *l, cairn_id op) {
    return l->implementations == NULL ? crn_usual_implementation(l->costs, op)
                                      : l->implementations[op];
}

static cairn_status emit(crn_lowering *l, cairn_step_kind kind, cairn_id id, uint8_t inplace) {
    cairn_step step = {.kind = (uint8_t)kind, .inplace = inplace, .id = id};
    if (kind == CAIRN_STEP_RUN)
        step.implementation = implementation(l, id);
    if (l->builder == NULL)
        return CAIRN_OK;
    return crn_plan_builder_add(l->builder, step);
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
        CRN_TRY(emit(l, CAIRN_STEP_WAIT, i->tensor, 0));
    i->going = i->coming = false;
    CRN_TRY(emit(l, CAIRN_STEP_FREE, i->tensor, 0));
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

/* The in-place pair that a run can use, counted from 1; 0: none. The operand must die here, be
 * alone in its storage, and the storage must be large enough. */
static uint8_t find_inplace(const crn_lowering *l, const cairn_op *op, uint32_t d) {
    for (uint32_t k = 0; k < op->inplace_count; k++) {
        cairn_inplace pair = op->inplace[k];
        uint32_t read = l->reads.data[l->first_read[d] + pair.input];
        if (read == CRN_NO_INSTANCE)
            continue;
        const crn_instance *operand = &l->instances.data[read];
        bool fits = is_stationary(l, operand->tensor);
        if (operand->storage != CRN_NO_INSTANCE) {
            const crn_plan_storage *s = &l->storages.data[operand->storage];
            uint64_t bytes = crn_align(cairn_costs_bytes(l->costs)[op->outputs[pair.output]]);
            fits = s->users == 1 && bytes <= s->bytes;
        }
        if (operand->last_use == d && fits && !operand->going && !operand->offloaded &&
            !makes_alias(l, op, pair.input))
            return (uint8_t)(k + 1);
    }
    return 0;
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

static uint64_t bytes_needed(const crn_lowering *l, const cairn_op *op, cairn_id id,
                             uint8_t inplace) {
    uint32_t implementations;
    const cairn_implementation *list = cairn_costs_op(l->costs, id, &implementations);
    uint64_t need =
        implementations > 0 ? crn_align(list[implementation(l, id)].workspace_bytes) : 0;
    for (uint32_t i = 0; i < op->output_count; i++)
        if (op->outputs[i] != CAIRN_NONE && !is_stationary(l, op->outputs[i]) &&
            crn_graph_storage(l->graph, op->outputs[i]) == op->outputs[i])
            need += crn_align(cairn_costs_bytes(l->costs)[op->outputs[i]]);
    if (inplace > 0 && !is_stationary(l, op->outputs[op->inplace[inplace - 1].output]))
        need -=
            crn_align(cairn_costs_bytes(l->costs)[op->outputs[op->inplace[inplace - 1].output]]);
    return need;
}

static cairn_status write_run(crn_lowering *l, uint32_t d) {
    cairn_id id = l->decisions[d].id;
    const cairn_op *op = cairn_graph_op(l->graph, id);
    for (uint32_t r = l->first_read[d]; r < l->first_read[d + 1]; r++) {
        if (l->reads.data[r] == CRN_NO_INSTANCE)
            continue;
        crn_instance *i = &l->instances.data[l->reads.data[r]];
        if (i->coming)
            CRN_TRY(emit(l, CAIRN_STEP_WAIT, i->tensor, 0));
        i->coming = false;
    }
    uint8_t inplace = find_inplace(l, op, d);
    CRN_TRY(make_room(l, bytes_needed(l, op, id, inplace), d));
    if (inplace == 0) /* a tensor freed for room may have shared the operand's storage */
        inplace = find_inplace(l, op, d);
    cairn_inplace pair = {UINT32_MAX, UINT32_MAX};
    if (inplace > 0)
        pair = op->inplace[inplace - 1];
    l->peak = CRN_MAX(l->peak, l->live + bytes_needed(l, op, id, inplace));
    CRN_TRY(emit(l, CAIRN_STEP_RUN, id, inplace));
    uint32_t made = l->first_made[d];
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (op->outputs[i] == CAIRN_NONE)
            continue;
        uint32_t share = shared_storage(l, op, d, op->outputs[i]);
        if (i == pair.output) {
            crn_instance *operand =
                &l->instances.data[l->reads.data[l->first_read[d] + pair.input]];
            share = operand->storage;
            operand->resident = false;
        }
        CRN_TRY(settle(l, made, share));
        if (i == pair.output && share != CRN_NO_INSTANCE)
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
    CRN_TRY(emit(l, CAIRN_STEP_FETCH, i->tensor, 0));
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
        CRN_TRY(emit(l, CAIRN_STEP_OFFLOAD, l->decisions[d].id, 0));
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
            CRN_TRY(emit(l, CAIRN_STEP_WAIT, l->instances.data[i].tensor, 0));
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
