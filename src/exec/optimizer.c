/* optimizer.c: what the executor does for an update: which optimiser, and the scalars that change
 * from one update to the next. The scalars are computed in double precision and rounded once, as in
 * PyTorch. The device does the rest. */
#include "backend/formats.h"
#include "exec/exec_internal.h"

#include <math.h>

/* Slots of the optimiser itself. */
static uint32_t own_slots(const cairn_exec_options *options) {
    if (options->optimizer == CAIRN_OPTIMIZER_SGD)
        return options->momentum != 0 ? 1 : 0;
    return 2;
}

uint32_t cairn_optimizer_slots(const cairn_exec_options *options) {
    return own_slots(options) + (options->micro_batches > 1 ? 1 : 0);
}

const char *crn_exec_slot_name(const cairn_exec *exec, uint32_t slot) {
    static const char *const of_adam[] = {"exp_avg", "exp_avg_sq"};
    if (slot >= own_slots(&exec->options))
        return NULL;
    return exec->options.optimizer == CAIRN_OPTIMIZER_SGD ? "momentum_buffer" : of_adam[slot];
}

/* Whether an update or an addition of squares has a sum over micro-batches in place of the
 * gradient.
 */
static bool gathers(const cairn_op *op) {
    return op->kind == CAIRN_OP_SQUARE_SUM && op->param_count > 0;
}

/* Gradients are clipped if the graph has their norm, and its sums are those of micro-batches. */
static cairn_status check_clipping(const cairn_exec *exec, cairn_error *err) {
    bool clips = exec->options.clip_norm > 0, measured = false, sums = false;
    for (cairn_id o = 0; o < cairn_graph_op_count(exec->graph); o++) {
        const cairn_op *op = cairn_graph_op(exec->graph, o);
        measured = measured || op->kind == CAIRN_OP_SQUARE_SUM;
        sums = sums || gathers(op);
    }
    if (clips != measured)
        return crn_fail(
            err, CAIRN_EINVAL,
            clips ? "clipping needs the updates of cairn_graph_add_updates() with `clip`, "
                    "which graph \"%s\" does not have"
                  : "the updates of graph \"%s\" need clip_norm",
            cairn_graph_name(exec->graph));
    if (measured && sums != (exec->options.micro_batches > 1))
        return crn_fail(err, CAIRN_EINVAL,
                        "graph \"%s\" is %sfor sums of gradients of several micro-batches",
                        cairn_graph_name(exec->graph), sums ? "" : "not ");
    return CAIRN_OK;
}

/* A graph with updates has as many slots as the optimiser. */
static cairn_status check_slots(const cairn_exec *exec, cairn_error *err) {
    uint32_t wanted = cairn_optimizer_slots(&exec->options);
    for (cairn_id o = 0; o < cairn_graph_op_count(exec->graph); o++) {
        const cairn_op *op = cairn_graph_op(exec->graph, o);
        if (op->kind == CAIRN_OP_UPDATE && op->param_count != 1 + wanted)
            return crn_fail_at(err, CAIRN_EINVAL, op->name,
                               "the updates of graph \"%s\" have %u slots, and the optimiser needs "
                               "%u",
                               cairn_graph_name(exec->graph), op->param_count - 1, wanted);
    }
    return CAIRN_OK;
}

cairn_status crn_optimizer_init(cairn_exec *exec, cairn_error *err) {
    const cairn_exec_options *o = &exec->options;
    const crn_stationary *s = &exec->stationary;
    if (!exec->training)
        return CAIRN_OK;
    CRN_TRY(check_slots(exec, err));
    CRN_TRY(check_clipping(exec, err));
    exec->rate = (double)o->learning_rate;
    exec->update = (crn_update){.parameters = s->parameters,
                                .count = s->parameter_count,
                                .slot_count = s->slot_count,
                                .kind = o->optimizer,
                                .nesterov = o->nesterov,
                                .has_momentum = own_slots(o) > 0,
                                .has_sum = o->micro_batches > 1,
                                .momentum = o->momentum,
                                .decay = (float)o->weight_decay,
                                .beta1_rest = (float)(1 - o->beta1),
                                .beta2 = (float)o->beta2,
                                .beta2_rest = (float)(1 - o->beta2),
                                .epsilon = (float)o->epsilon,
                                .clip = (float)o->clip_norm};
    return CAIRN_OK;
}

static cairn_status prepare(cairn_exec *exec, crn_update *update, cairn_error *err) {
    return exec->backend->prepare_update == NULL
               ? CAIRN_OK
               : exec->backend->prepare_update(exec->queue, update, err);
}

cairn_status crn_optimizer_prepare(cairn_exec *exec, cairn_error *err) {
    return !exec->training || exec->whole ? CAIRN_OK : prepare(exec, &exec->update, err);
}

/* The address of row `index` of a tensor, in its stored form. */
static void *row_of(const crn_call *call, cairn_id tensor, const void *stored, int32_t index) {
    const cairn_tensor *t = cairn_graph_tensor(call->graph, tensor);
    uint64_t row = crn_storage_once(t, call->storage[tensor]).bytes / crn_tensor_rows(t);
    return (char *)(uintptr_t)stored + (uint64_t)index * row;
}

/* The same in the copy of the parameter; NULL: it has none. */
static void *copy_of_row(const crn_call *call, int32_t index) {
    const cairn_tensor *t = cairn_graph_tensor(call->graph, call->op->params[0]);
    char *copy = crn_copy_of(t, call->storage[call->op->params[0]], call->params[0]);
    uint64_t row = t->bytes / sizeof(float) / crn_tensor_rows(t) * sizeof(uint16_t);
    return copy == NULL ? NULL : copy + (uint64_t)index * row;
}

/* An addition of squares has a gradient and, over micro-batches, its sum. */
static void describe_squares(const crn_call *call, crn_update *update, crn_parameter *parameter) {
    const cairn_op *op = call->op;
    update->squares = op->input_count > 1 ? call->inputs[1] : NULL;
    update->squares_out = call->outputs[0];
    update->slot_count = op->param_count;
    parameter->tensor = op->inputs[0];
    parameter->gradient = row_of(call, op->inputs[0], call->inputs[0], op->attributes.index);
    if (op->param_count > 0)
        parameter->slots[0] = call->params[0];
}

/* If the gradients of micro-batches are added up before all updates, the sum replaces the gradient.
 */
static void describe_update(const crn_call *call, crn_update *update, crn_parameter *parameter) {
    const cairn_op *op = call->op;
    update->slot_count = op->param_count - 1;
    update->squares = update->clip > 0 ? call->inputs[op->input_count - 1] : NULL;
    parameter->tensor = op->params[0];
    parameter->value = row_of(call, op->params[0], call->params[0], op->attributes.index);
    parameter->copy = copy_of_row(call, op->attributes.index);
    for (uint32_t slot = 1; slot < op->param_count; slot++)
        parameter->slots[slot - 1] = call->params[slot];
    parameter->gradient = update->clip > 0 && update->has_sum
                              ? call->params[op->param_count - 1]
                              : row_of(call, op->inputs[0], call->inputs[0], op->attributes.index);
}

cairn_status crn_optimizer_describe_call(cairn_exec *exec, const crn_call *call, crn_update **out) {
    const cairn_op *op = call->op;
    /* without slots it is the parameter, or the gradient */
    cairn_id last = op->param_count > 0 ? op->params[op->param_count - 1] : op->inputs[0];
    crn_update *update;
    crn_parameter *parameter;
    CRN_TAKE(&exec->memory, update, 1);
    CRN_TAKE(&exec->memory, parameter, 1);
    *update = exec->update;
    (op->kind == CAIRN_OP_UPDATE ? describe_update : describe_squares)(call, update, parameter);
    parameter->elements =
        crn_stored_elements(cairn_graph_tensor(call->graph, last), call->storage[last]);
    parameter->no_decay = exec->stationary.no_decay[parameter->tensor];
    update->parameters = parameter;
    update->count = 1;
    *out = update;
    return CAIRN_OK;
}

/* ---- Updates that follow each other are one ---- */

/* The next action that is an update and has only frees before it; NULL: there is none. */
static crn_action *update_after(const crn_program *program, uint32_t *at) {
    for (++*at; *at < program->count; ++*at) {
        crn_action *action = &program->actions[*at];
        if (action->kind != CAIRN_STEP_FREE)
            return action->update != NULL && action->update->squares_out == NULL ? action : NULL;
    }
    return NULL;
}

/* Let the first of several updates do the work of all. Many small updates take longer. */
static cairn_status join_updates(cairn_exec *exec, uint32_t first) {
    const crn_program *program = &exec->program;
    crn_update *update = program->actions[first].update;
    crn_parameter *list;
    uint32_t count = 1, at = first;
    while (update_after(program, &at) != NULL)
        count++;
    if (count == 1)
        return CAIRN_OK;
    CRN_TAKE(&exec->memory, list, count);
    list[0] = update->parameters[0];
    at = first;
    for (uint32_t i = 1; i < count; i++) {
        crn_action *joined = update_after(program, &at);
        list[i] = joined->update->parameters[0];
        joined->update->count = 0;
    }
    update->parameters = list;
    update->count = count;
    return CAIRN_OK;
}

cairn_status crn_optimizer_prepare_calls(cairn_exec *exec, cairn_error *err) {
    const crn_program *program = &exec->program;
    for (uint32_t i = 0; i < program->count; i++) {
        crn_update *update = program->actions[i].update;
        if (update == NULL || update->count == 0)
            continue;
        if (update->squares_out == NULL && !exec->timed)
            CRN_TRY(join_updates(exec, i));
        CRN_TRY(prepare(exec, update, err));
    }
    return CAIRN_OK;
}

static void finish(cairn_exec *exec, crn_update *update) {
    if (exec->backend->finish_update != NULL)
        exec->backend->finish_update(exec->queue, update);
}

void crn_optimizer_release(cairn_exec *exec) {
    finish(exec, &exec->update);
    for (uint32_t i = 0; exec->program.actions != NULL && i < exec->program.count; i++)
        if (exec->program.actions[i].update != NULL)
            finish(exec, exec->program.actions[i].update);
}

void cairn_exec_set_rate(cairn_exec *exec, double rate) {
    exec->rate = rate;
}

/* ---- An update that the caller asks for ---- */

/* What an update reads, by the mean of `gathered` micro-batches. */
static void set_update(const cairn_exec *exec, uint32_t gathered, crn_values *values) {
    const cairn_exec_options *o = &exec->options;
    uint64_t n = exec->updates + 1;
    values->rate = (float)exec->rate;
    values->keep = (float)(1 - exec->rate * o->weight_decay);
    values->step_size = (float)(exec->rate / (1 - crn_power(o->beta1, n)));
    values->root_correction = (float)sqrt(1 - crn_power(o->beta2, n));
    values->gathered = (float)gathered;
}

static void count_update(cairn_exec *exec) {
    exec->updates++;
    exec->gathered = 0;
}

static bool is_in_run(const cairn_exec *exec) {
    return exec->training && (exec->options.update_in_run || exec->whole);
}

/* Add the gradients of the last run to the sum. */
static void accumulate(cairn_exec *exec) {
    exec->backend->begin(exec->queue, &(crn_values){.first = exec->gathered == 0});
    exec->backend->accumulate(exec->queue, &exec->update);
    exec->gathered++;
}

void cairn_exec_update(cairn_exec *exec) {
    crn_values values = {0};
    if (!exec->training || is_in_run(exec))
        return;
    if (exec->update.has_sum) {
        accumulate(exec);
        if (exec->gathered < exec->options.micro_batches)
            return;
    }
    set_update(exec, exec->gathered, &values);
    exec->backend->begin(exec->queue, &values);
    exec->backend->update(exec->queue, &exec->update);
    count_update(exec);
}

/* ---- An update inside a run ---- */

void crn_optimizer_set_values(const cairn_exec *exec, crn_values *values) {
    if (!is_in_run(exec))
        return;
    set_update(exec, exec->update.has_sum ? exec->gathered + 1 : 0, values);
    values->first = exec->gathered == 0;
}

bool crn_optimizer_is_last(const cairn_exec *exec) {
    return !exec->whole || exec->gathered + 1 >= exec->options.micro_batches;
}

void crn_optimizer_act(cairn_exec *exec, const crn_update *update) {
    bool adds = update->squares_out != NULL;
    if (update->count == 0)
        return;
    if (update->has_sum && (adds || update->clip == 0))
        exec->backend->accumulate(exec->queue, update);
    if (exec->enqueues_last)
        (adds ? exec->backend->add_squares : exec->backend->update)(exec->queue, update);
}

void crn_optimizer_end_run(cairn_exec *exec) {
    if (!is_in_run(exec) || exec->whole)
        return;
    if (exec->update.has_sum)
        exec->backend->accumulate(exec->queue, &exec->update);
    else
        exec->backend->update(exec->queue, &exec->update);
}

void crn_optimizer_after_run(cairn_exec *exec) {
    if (!is_in_run(exec) || ++exec->gathered < exec->options.micro_batches)
        return;
    if (exec->update.has_sum && !exec->whole)
        exec->backend->update(exec->queue, &exec->update);
    count_update(exec);
}

/* ---- How many there were ---- */

uint64_t crn_exec_updates(const cairn_exec *exec) {
    return exec->updates;
}

void crn_exec_set_updates(cairn_exec *exec, uint64_t updates) {
    exec->updates = updates;
}
