/* step_binding.c: from a plan's steps to actions whose addresses are all known.
 *
 * The walk repeats what the simulator did, which has found the plan legal: a tensor that is taken
 * starts a lifetime of the simulator's list, and the layout says where that lies. Nothing is left
 * to decide when the step runs.
 *
 *     per tensor    which lifetime it is in (or its stationary address), its place on the host
 *     per lifetime  how many tensors (aliases) use it; the last one to go gives it back */
#include "exec/exec_internal.h"

#define NOWHERE UINT32_MAX

typedef struct place {
    uint32_t lifetime; /* NOWHERE: not resident, or stationary */
    bool resident, on_host, in_flight;
    uint64_t host_offset;
} place;

typedef struct walker {
    cairn_exec *exec;
    const cairn_graph *graph;
    const crn_binding_input *in;
    cairn_error *err;
    place *places;
    uint32_t *users;     /* per lifetime */
    bool *has_run;       /* per op */
    uint32_t step, next; /* no lifetime before `next` starts at this step or later */
    uint64_t host_bytes;
} walker;

static const cairn_tensor *tensor_of(const walker *w, cairn_id t) {
    return cairn_graph_tensor(w->graph, t);
}

static crn_range range_of(const walker *w, uint32_t lifetime) {
    return (crn_range){w->in->offsets[lifetime], w->in->lifetimes[lifetime].bytes};
}

static void *lifetime_address(const walker *w, uint32_t lifetime) {
    return (char *)w->exec->arena.base + w->in->offsets[lifetime];
}

static void *address_of(const walker *w, cairn_id t) {
    if (w->exec->stationary.at[t] != NULL)
        return w->exec->stationary.at[t];
    return w->places[t].lifetime == NOWHERE ? NULL : lifetime_address(w, w->places[t].lifetime);
}

/* The lifetime that `tensor` (CAIRN_NONE: workspace) starts at this step. */
static cairn_status find_lifetime(walker *w, cairn_id tensor, uint32_t *out) {
    const cairn_lifetime *list = w->in->lifetimes;
    while (w->next < w->in->lifetime_count && list[w->next].first < w->step)
        w->next++;
    for (uint32_t i = w->next; i < w->in->lifetime_count && list[i].first == w->step; i++)
        if (list[i].tensor == tensor && w->users[i] == 0) {
            w->users[i] = 1;
            w->next += i == w->next; /* as a rule they are asked for in the list's order */
            *out = i;
            return CAIRN_OK;
        }
    return crn_fail(w->err, CAIRN_EINVAL, "step %u has no lifetime for what it takes", w->step);
}

/* A tensor gets a storage of its own; its range goes to `range`. */
static cairn_status take(walker *w, cairn_id tensor, crn_range *range) {
    CRN_TRY(find_lifetime(w, tensor, &w->places[tensor].lifetime));
    w->places[tensor].resident = true;
    *range = range_of(w, w->places[tensor].lifetime);
    return CAIRN_OK;
}

/* A tensor goes; if it was the last in its storage, `*range` is given back. */
static bool leave(walker *w, cairn_id tensor, crn_range *range) {
    place *p = &w->places[tensor];
    uint32_t lifetime = p->lifetime;
    p->resident = false;
    p->lifetime = NOWHERE;
    if (lifetime == NOWHERE || --w->users[lifetime] > 0)
        return false;
    *range = range_of(w, lifetime);
    return true;
}

/* ---- Runs ---- */

static uint32_t aliased_lifetime(const walker *w, const cairn_op *op, cairn_id output) {
    cairn_id root = cairn_graph_storage(w->graph, output);
    for (uint32_t i = 0; i < op->input_count; i++)
        if (cairn_graph_storage(w->graph, op->inputs[i]) == root)
            return w->places[op->inputs[i]].lifetime;
    return NOWHERE;
}

/* An output that is not made in place: still there, an alias, stationary or new. */
static cairn_status bind_output(walker *w, const cairn_op *op, cairn_id output, crn_range *takes,
                                uint32_t *take_count) {
    place *p = &w->places[output];
    if (p->resident)
        return CAIRN_OK;
    p->resident = true;
    if (w->exec->stationary.at[output] != NULL)
        return CAIRN_OK;
    if (tensor_of(w, output)->alias_of == CAIRN_NONE)
        return take(w, output, &takes[(*take_count)++]);
    p->lifetime = aliased_lifetime(w, op, output);
    if (p->lifetime != NOWHERE)
        w->users[p->lifetime]++;
    return CAIRN_OK;
}

/* The output takes over the operand's storage. */
static cairn_status bind_inplace(walker *w, const cairn_op *op, cairn_inplace pair) {
    cairn_id input = op->inputs[pair.input], output = op->outputs[pair.output];
    place *from = &w->places[input], *to = &w->places[output];
    void *const *fixed = w->exec->stationary.at;
    if (fixed[input] != fixed[output])
        return crn_fail_at(w->err, CAIRN_EINVAL, op->name,
                           "op \"%s\" is made in place of a tensor that stays where it is",
                           op->name);
    to->resident = true;
    to->lifetime = from->lifetime;
    from->resident = false;
    from->lifetime = NOWHERE;
    return CAIRN_OK;
}

/* The kernel that the plan chose, and whether it keeps to what the costs say. */
static cairn_status choose_kernel(walker *w, const cairn_step *step, crn_action *action,
                                  uint64_t *workspace) {
    const cairn_exec *exec = w->exec;
    const cairn_op *op = cairn_graph_op(w->graph, step->id);
    const crn_kernel *choices[CRN_MOST_CHOICES];
    crn_site site = {w->graph, op, exec->storage,
                     crn_pool_threads(exec->backend->threads(exec->device))};
    uint32_t count = crn_backend_choices(exec->backend, &site, choices, CRN_MOST_CHOICES);
    uint32_t known;
    const cairn_implementation *list = cairn_costs_op(w->in->costs, step->id, &known);
    if (step->implementation >= count || step->implementation >= known)
        return crn_fail_at(w->err, CAIRN_EINVAL, op->name,
                           "backend \"%s\" has no implementation %u of op \"%s\" (%s)",
                           exec->backend->name, step->implementation, op->name,
                           cairn_op_kind_name(op->kind));
    action->kernel = choices[step->implementation];
    *workspace = crn_align(list[step->implementation].workspace_bytes);
    uint64_t needed = crn_kernel_workspace(action->kernel, &site);
    if (needed > *workspace)
        return crn_fail_at(w->err, CAIRN_EINVAL, op->name,
                           "op \"%s\" needs a workspace of %llu bytes on backend \"%s\", and the "
                           "costs say %llu; they were not bound for this backend and its threads",
                           op->name, (unsigned long long)needed, exec->backend->name,
                           (unsigned long long)*workspace);
    return CAIRN_OK;
}

static cairn_status bind_workspace(walker *w, uint64_t bytes, crn_action *action,
                                   crn_range *range) {
    if (bytes == 0)
        return CAIRN_OK;
    uint32_t lifetime;
    CRN_TRY(find_lifetime(w, CAIRN_NONE, &lifetime));
    w->users[lifetime] = 0;
    action->call.workspace = lifetime_address(w, lifetime);
    *range = range_of(w, lifetime);
    action->gives = range;
    action->give_count = 1;
    action->take_count++;
    return CAIRN_OK;
}

static cairn_status bind_run(walker *w, const cairn_step *step, crn_action *action) {
    const cairn_op *op = cairn_graph_op(w->graph, step->id);
    crn_arena *memory = &w->exec->memory;
    const void **inputs;
    void **outputs, **params;
    crn_range *takes;
    uint64_t workspace = 0;
    CRN_TAKE(memory, inputs, op->input_count);
    CRN_TAKE(memory, outputs, op->output_count);
    CRN_TAKE(memory, params, op->param_count);
    CRN_TAKE(memory, takes, op->output_count + 1);
    CRN_TRY(choose_kernel(w, step, action, &workspace));
    for (uint32_t i = 0; i < op->input_count; i++)
        inputs[i] = address_of(w, op->inputs[i]);
    for (uint32_t i = 0; i < op->param_count; i++)
        params[i] = w->exec->stationary.at[op->params[i]];

    uint32_t made_in_place = UINT32_MAX;
    if (step->inplace > 0)
        made_in_place = op->inplace[step->inplace - 1].output;
    for (uint32_t i = 0; i < op->output_count; i++)
        if (op->outputs[i] != CAIRN_NONE && i != made_in_place)
            CRN_TRY(bind_output(w, op, op->outputs[i], takes, &action->take_count));
    if (step->inplace > 0)
        CRN_TRY(bind_inplace(w, op, op->inplace[step->inplace - 1]));
    for (uint32_t i = 0; i < op->output_count; i++)
        outputs[i] = op->outputs[i] == CAIRN_NONE ? NULL : address_of(w, op->outputs[i]);
    action->takes = takes;
    CRN_TRY(bind_workspace(w, workspace, action, &takes[action->take_count]));

    crn_call *call = &action->call;
    call->graph = w->graph;
    call->op = op;
    call->op_id = step->id;
    call->storage = w->exec->storage;
    call->inputs = inputs;
    call->outputs = outputs;
    call->params = params;
    call->threads = w->exec->backend->threads(w->exec->device);
    call->seed = w->exec->options.seed;
    call->again = w->has_run[step->id];
    call->training = w->exec->training;
    w->has_run[step->id] = true;
    return crn_kernel_prepare(action->kernel, call, &memory->allocator, w->err);
}

/* ---- Moves ---- */

static cairn_status bind_free(walker *w, cairn_id tensor, crn_action *action) {
    crn_range *range;
    CRN_TAKE(&w->exec->memory, range, 1);
    action->gives = range;
    action->give_count = leave(w, tensor, range) ? 1 : 0;
    return CAIRN_OK;
}

static void bind_copy(walker *w, cairn_id tensor, crn_action *action) {
    place *p = &w->places[tensor];
    if (!p->on_host) {
        p->on_host = true;
        p->host_offset = w->host_bytes;
        w->host_bytes += crn_align(cairn_costs_bytes(w->in->costs, tensor));
    }
    p->in_flight = true;
    action->device = address_of(w, tensor);
    if (w->exec->host.base != NULL) /* none: all that is copied has no bytes */
        action->host = (char *)w->exec->host.base + p->host_offset;
    action->bytes = cairn_costs_bytes(w->in->costs, tensor);
}

static cairn_status bind_fetch(walker *w, cairn_id tensor, crn_action *action) {
    crn_range *range;
    CRN_TAKE(&w->exec->memory, range, 1);
    CRN_TRY(take(w, tensor, range));
    action->takes = range;
    action->take_count = 1;
    bind_copy(w, tensor, action);
    return CAIRN_OK;
}

static cairn_status bind_step(walker *w, const cairn_step *step, crn_action *action) {
    action->kind = step->kind;
    if (step->kind == CAIRN_RUN)
        return bind_run(w, step, action);
    action->tensor = step->id;
    switch ((cairn_step_kind)step->kind) {
    case CAIRN_FREE:
        return bind_free(w, step->id, action);
    case CAIRN_FETCH:
        return bind_fetch(w, step->id, action);
    case CAIRN_OFFLOAD:
        bind_copy(w, step->id, action);
        return CAIRN_OK;
    default:
        w->places[step->id].in_flight = false;
        return CAIRN_OK;
    }
}

/* ---- The two ends ---- */

static cairn_status bind_inputs(walker *w) {
    crn_program *program = &w->exec->program;
    uint32_t tensors = cairn_graph_tensor_count(w->graph);
    CRN_TAKE(&w->exec->memory, program->inputs, tensors);
    for (cairn_id t = 0; t < tensors; t++) {
        cairn_role role = tensor_of(w, t)->role;
        w->places[t].lifetime = NOWHERE;
        if (role != CAIRN_INPUT && (role != CAIRN_LABEL || !w->exec->training))
            continue;
        CRN_TRY(take(w, t, &program->inputs[program->input_count++]));
        program->input_at[t] = address_of(w, t);
    }
    return CAIRN_OK;
}

static cairn_status bind_end(walker *w) {
    crn_program *program = &w->exec->program;
    cairn_graph_summary summary;
    cairn_graph_summarize(w->graph, &summary);
    program->output_id = summary.output;
    if (w->exec->training && summary.loss != CAIRN_NONE)
        program->loss = address_of(w, summary.loss);
    if (!w->exec->training && summary.output != CAIRN_NONE)
        program->output = address_of(w, summary.output);
    uint32_t tensors = cairn_graph_tensor_count(w->graph);
    CRN_TAKE(&w->exec->memory, program->unwaited, tensors);
    for (cairn_id t = 0; t < tensors; t++)
        if (w->places[t].in_flight)
            program->unwaited[program->unwaited_count++] = t;
    return CAIRN_OK;
}

static cairn_status walk(walker *w, crn_arena *scratch) {
    uint32_t tensors = cairn_graph_tensor_count(w->graph);
    crn_program *program = &w->exec->program;
    const cairn_step *steps = cairn_plan_steps(w->in->plan, &program->count);
    CRN_TAKE(scratch, w->places, tensors);
    CRN_TAKE(scratch, w->users, w->in->lifetime_count);
    CRN_TAKE(scratch, w->has_run, cairn_graph_op_count(w->graph));
    CRN_TAKE(&w->exec->memory, program->input_at, tensors);
    CRN_TAKE(&w->exec->memory, program->actions, program->count);
    CRN_TRY(bind_inputs(w));
    for (; w->step < program->count; w->step++)
        CRN_TRY(bind_step(w, &steps[w->step], &program->actions[w->step]));
    return bind_end(w);
}

cairn_status crn_bind_steps(cairn_exec *exec, const crn_binding_input *input, cairn_error *err) {
    crn_arena scratch;
    crn_arena_init(&scratch, &exec->memory.allocator);
    walker w = {.exec = exec, .graph = exec->graph, .in = input, .err = err};
    cairn_status status = walk(&w, &scratch);
    crn_arena_release(&scratch);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}
