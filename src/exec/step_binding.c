/* step_binding.c: turns the steps of a plan into actions with all addresses.
 *
 * The simulator has recorded the lifetime of every operand, and the layout has the address of every
 * lifetime. A lifetime is allocated before its first step and freed after its last. Nothing is left
 * to decide when the step runs. */
#include "exec/exec_internal.h"
#include "graph/crn_graph.h"
#include "plan/crn_plan.h"
#include "sim/crn_sim.h"

typedef struct binder {
    cairn_exec *exec;
    const cairn_graph *graph;
    const crn_binding_input *in;
    cairn_error *err;
    const cairn_lifetime *lifetimes;
    uint32_t lifetime_count;
    const uint64_t *offsets;
    uint64_t *host_offset; /* per tensor, plus 1: the place of its copy; 0: it has none yet */
    uint64_t host_bytes;
    crn_event *flight; /* per tensor: 0, or 1 + the event of its copy in flight */
    bool *has_run;     /* per op */
    bool *of_last;     /* per tensor: only runs that end with updates use it */
    bool *waits_last;  /* per tensor: only those runs copy it home, and must wait for it */
    bool *reads_only;  /* per step: it fetches a tensor that is only read */
    uint32_t step;
} binder;

/* The address of an operand of this step: in the arena, or that of a stationary tensor. */
static void *address_of(const binder *b, uint32_t operand, cairn_id tensor) {
    uint64_t offset = cairn_layout_address(b->in->layout, b->in->sim, b->step, operand);
    if (offset != CAIRN_NO_ADDRESS)
        return (char *)b->exec->arena.base + offset;
    return tensor == CAIRN_NONE ? NULL : b->exec->stationary.at[tensor];
}

/* Whether the lifetime of an operand of this step lasts to the end. */
static bool stays(const binder *b, uint32_t operand) {
    uint32_t lifetime = crn_sim_operand(b->in->sim, b->step, operand);
    return lifetime != CAIRN_NONE && b->lifetimes[lifetime].last == UINT32_MAX;
}

/* ---- Ranges ---- */

static crn_range range_of(const binder *b, uint32_t lifetime) {
    return (crn_range){b->offsets[lifetime], b->lifetimes[lifetime].bytes};
}

static bool is_input(const binder *b, cairn_id tensor) {
    cairn_role role = cairn_graph_tensor(b->graph, tensor)->role;
    return role == CAIRN_ROLE_INPUT || role == CAIRN_ROLE_LABEL;
}

/* Lifetimes are ordered by their first step. Inputs, which are in use from the start, come
 * first. */
static cairn_status list_taken(binder *b) {
    crn_program *program = &b->exec->program;
    uint32_t next = 0;
    CRN_TAKE(&b->exec->memory, program->ranges, b->lifetime_count);
    for (uint32_t i = 0; i < b->lifetime_count; i++)
        program->ranges[i] = range_of(b, i);
    for (; next < b->lifetime_count && b->lifetimes[next].first == 0; next++) {
        cairn_id t = b->lifetimes[next].tensor;
        if (t == CAIRN_NONE || !is_input(b, t))
            break;
        program->input_at[t] = (char *)b->exec->arena.base + b->offsets[next];
    }
    program->input_count = next;
    for (uint32_t i = 0; i < program->count; i++) {
        crn_action *action = &program->actions[i];
        action->takes = &program->ranges[next];
        while (next < b->lifetime_count && b->lifetimes[next].first == i) {
            action->take_count++;
            next++;
        }
    }
    return CAIRN_OK;
}

/* Place inputs that the plan does not control. */
static void place_kept_inputs(binder *b) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(b->graph); t++) {
        cairn_role role = cairn_graph_tensor(b->graph, t)->role;
        if (is_input(b, t) && (role == CAIRN_ROLE_INPUT || b->exec->training))
            if (b->exec->stationary.at[t] != NULL)
                b->exec->program.input_at[t] = b->exec->stationary.at[t];
    }
}

/* Order the ranges by their last step, then as in the list. Lifetimes that last to the end are not
 * freed. */
static cairn_status list_given(binder *b) {
    crn_program *program = &b->exec->program;
    uint32_t given = 0;
    CRN_TAKE(&b->exec->memory, program->given, b->lifetime_count);
    for (uint32_t i = 0; i < b->lifetime_count; i++)
        if (b->lifetimes[i].last < program->count)
            program->actions[b->lifetimes[i].last].give_count++;
    for (uint32_t i = 0; i < program->count; i++) {
        program->actions[i].gives = &program->given[given];
        given += program->actions[i].give_count;
        program->actions[i].give_count = 0;
    }
    for (uint32_t i = 0; i < b->lifetime_count; i++) {
        if (b->lifetimes[i].last >= program->count)
            continue;
        crn_action *action = &program->actions[b->lifetimes[i].last];
        program->given[action->gives - program->given + action->give_count++] = range_of(b, i);
    }
    return CAIRN_OK;
}

/* ---- Runs ---- */

/* Find the implementation that the plan chose, and check its workspace against the costs. */
static cairn_status choose(binder *b, const cairn_step *step, crn_call *call) {
    const cairn_exec *exec = b->exec;
    const cairn_op *op = call->op;
    const crn_choice *choices;
    uint32_t count, known;
    CRN_TRY(crn_device_choices(exec->device, b->graph, step->id, exec->storage, &choices, &count,
                               b->err));
    const cairn_implementation *list = cairn_costs_op(b->in->costs, step->id, &known);
    if (step->implementation >= count || step->implementation >= known)
        return crn_fail_at(b->err, CAIRN_EINVAL, op->name,
                           "backend \"%s\" has no implementation %u of op \"%s\" (%s)",
                           exec->backend->name, step->implementation, op->name,
                           cairn_op_kind_name(op->kind));
    const crn_choice *chosen = &choices[step->implementation];
    uint64_t room = crn_align(list[step->implementation].workspace_bytes);
    if (chosen->workspace > room)
        return crn_fail_at(b->err, CAIRN_EINVAL, op->name,
                           "op \"%s\" needs a workspace of %llu bytes on backend \"%s\", and the "
                           "costs say %llu; they were not bound for this backend and its threads",
                           op->name, (unsigned long long)chosen->workspace, exec->backend->name,
                           (unsigned long long)room);
    call->recipe = chosen->recipe;
    call->workspace_bytes = room;
    return CAIRN_OK;
}

/* A plan for evaluation must know what is at home on the host: it fetches that and nothing else. */
static cairn_status check_home(const binder *b, cairn_id tensor, bool on_host) {
    const char *name = cairn_graph_tensor(b->graph, tensor)->name;
    if (b->exec->stationary.on_host[tensor] == on_host)
        return CAIRN_OK;
    return crn_fail_at(b->err, CAIRN_EINVAL, name,
                       "\"%s\" is at home on the %s, and the plan has it on the %s", name,
                       on_host ? "device" : "host", on_host ? "host" : "device");
}

/* What the op reads and writes. */
static cairn_status place_operands(binder *b, crn_call *call) {
    const cairn_op *op = call->op;
    crn_arena *memory = &b->exec->memory;
    const void **inputs;
    void **outputs, **params;
    CRN_TAKE(memory, inputs, op->input_count);
    CRN_TAKE(memory, outputs, op->output_count);
    CRN_TAKE(memory, params, op->param_count);
    for (uint32_t i = 0; i < op->input_count; i++)
        inputs[i] = address_of(b, i, op->inputs[i]);
    for (uint32_t i = 0; i < op->output_count; i++)
        outputs[i] = address_of(b, op->input_count + i, op->outputs[i]);
    for (uint32_t i = 0; i < op->param_count; i++) {
        params[i] = address_of(b, op->input_count + op->output_count + 1 + i, op->params[i]);
        if (params[i] == b->exec->stationary.at[op->params[i]])
            CRN_TRY(check_home(b, op->params[i], false));
    }
    call->workspace = address_of(b, op->input_count + op->output_count, CAIRN_NONE);
    call->inputs = inputs;
    call->outputs = outputs;
    call->params = params;
    return CAIRN_OK;
}

/* An output that is made in place has the address of its operand, which is no longer valid. */
static cairn_status overwrite(binder *b, const crn_call *call, cairn_inplace pair) {
    const cairn_op *op = call->op;
    if (call->inputs[pair.input] != call->outputs[pair.output])
        return crn_fail_at(b->err, CAIRN_EINVAL, op->name,
                           "op \"%s\" is made in place of a tensor that stays where it is",
                           op->name);
    b->exec->program.final_at[op->inputs[pair.input]] = NULL;
    return CAIRN_OK;
}

static cairn_status bind_run(binder *b, const cairn_step *step, crn_action *action) {
    cairn_exec *exec = b->exec;
    crn_call *call = &action->call;
    const cairn_op *op = cairn_graph_op(b->graph, step->id);
    *call = (crn_call){.graph = b->graph,
                       .op = op,
                       .op_id = step->id,
                       .storage = exec->storage,
                       .values = exec->backend->values(exec->queue),
                       .again = b->has_run[step->id],
                       .training = exec->training,
                       .queue = exec->queue};
    CRN_TRY(choose(b, step, call));
    CRN_TRY(place_operands(b, call));
    cairn_inplace pairs[2];
    uint32_t overwritten = crn_step_pairs(op, step, pairs);
    for (uint32_t i = 0; i < overwritten; i++)
        CRN_TRY(overwrite(b, call, pairs[i]));
    for (uint32_t i = 0; i < op->output_count; i++)
        if (op->outputs[i] != CAIRN_NONE && stays(b, op->input_count + i))
            exec->program.final_at[op->outputs[i]] = call->outputs[i];
    bool predicts = op->kind == CAIRN_OP_CROSS_ENTROPY ||
                    op->kind == CAIRN_OP_TOKEN_CROSS_ENTROPY || op->kind == CAIRN_OP_HEAD_LOSS;
    action->counts = predicts && !call->again;
    b->has_run[step->id] = true;
    exec->program.run_count++;
    if (crn_op_is_of_optimizer(op))
        return crn_optimizer_describe_call(exec, call, &action->update);
    return exec->backend->prepare == NULL ? CAIRN_OK
                                          : exec->backend->prepare(exec->queue, call, b->err);
}

/* ---- Moves ---- */

/* The place of a tensor on the host: its home, or a copy to the end of the step. */
static cairn_status place_on_host(binder *b, cairn_id tensor, uint64_t bytes, void **out) {
    if (b->exec->stationary.at[tensor] != NULL) {
        *out = b->exec->stationary.at[tensor];
        return check_home(b, tensor, true);
    }
    if (b->host_offset[tensor] == 0) {
        b->host_offset[tensor] = b->host_bytes + 1;
        b->host_bytes += crn_align(bytes);
    }
    if (b->exec->host.base != NULL) /* NULL: all copies are empty */
        *out = (char *)b->exec->host.base + (b->host_offset[tensor] - 1);
    return CAIRN_OK;
}

static cairn_status bind_copy(binder *b, cairn_id tensor, crn_action *action) {
    uint64_t bytes = cairn_costs_bytes(b->in->costs)[tensor];
    CRN_TRY(place_on_host(b, tensor, bytes, &action->host));
    action->device = address_of(b, 0, tensor);
    action->bytes = bytes;
    action->ready = b->exec->program.event_count++;
    action->done = b->exec->program.event_count++;
    b->flight[tensor] = action->done + 1;
    uint64_t unread = b->reads_only[b->step] ? b->exec->storage[tensor].unread : 0;
    if (unread > 0) { /* else an empty copy has no address on the host */
        action->host = (char *)action->host + unread;
        action->device = (char *)action->device + unread;
        action->bytes -= unread;
    }
    return CAIRN_OK;
}

/* Whether only the last micro-batch copies a tensor home, or waits for that: the others change no
 * parameter. */
static bool goes_home_last(binder *b, const cairn_step *step) {
    bool *waits = &b->waits_last[step->id];
    bool is = *waits && step->kind == CAIRN_STEP_WAIT;
    if (step->kind == CAIRN_STEP_OFFLOAD)
        is = b->exec->update.has_sum &&
             cairn_graph_tensor(b->graph, step->id)->role == CAIRN_ROLE_PARAMETER;
    *waits = is && step->kind == CAIRN_STEP_OFFLOAD;
    return is;
}

static cairn_status bind_step(binder *b, const cairn_step *step, crn_action *action) {
    void **final_at = b->exec->program.final_at;
    action->kind = step->kind;
    action->of_last =
        step->kind != CAIRN_STEP_RUN && (b->of_last[step->id] || goes_home_last(b, step));
    switch ((cairn_step_kind)step->kind) {
    case CAIRN_STEP_RUN:
        return bind_run(b, step, action);
    case CAIRN_STEP_FREE:
        final_at[step->id] = NULL;
        break;
    case CAIRN_STEP_FETCH:
        final_at[step->id] = stays(b, 0) ? address_of(b, 0, step->id) : NULL;
        return bind_copy(b, step->id, action);
    case CAIRN_STEP_OFFLOAD:
        return bind_copy(b, step->id, action);
    case CAIRN_STEP_WAIT:
        action->done = b->flight[step->id] - 1;
        b->flight[step->id] = 0;
        break;
    }
    return CAIRN_OK;
}

/* ---- The whole plan ---- */

static cairn_status bind_end(binder *b) {
    crn_program *program = &b->exec->program;
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(b->graph, &summary);
    if (b->exec->training && summary.loss != CAIRN_NONE)
        program->loss = program->final_at[summary.loss];
    uint32_t tensors = cairn_graph_tensor_count(b->graph);
    CRN_TAKE(&b->exec->memory, program->unwaited, tensors);
    for (cairn_id t = 0; t < tensors; t++)
        if (b->flight[t] != 0)
            program->unwaited[program->unwaited_count++] = b->flight[t] - 1;
    return CAIRN_OK;
}

static cairn_status bind_all(binder *b, crn_arena *scratch) {
    uint32_t tensors = cairn_graph_tensor_count(b->graph), count;
    crn_program *program = &b->exec->program;
    crn_arena *memory = &b->exec->memory;
    const cairn_step *steps = b->in->plan->steps;
    count = b->in->plan->step_count;
    CRN_TAKE(scratch, b->host_offset, tensors);
    CRN_TAKE(scratch, b->flight, tensors);
    CRN_TAKE(scratch, b->has_run, cairn_graph_op_count(b->graph));
    CRN_TAKE(scratch, b->of_last, tensors);
    CRN_TAKE(scratch, b->waits_last, tensors);
    bool *changed;
    CRN_TAKE(scratch, changed, tensors);
    CRN_TAKE(scratch, b->reads_only, count);
    crn_plan_mark_reads(b->graph, b->in->plan, changed, b->reads_only);
    if (b->exec->update.has_sum)
        crn_graph_mark_last(b->graph, b->of_last);
    CRN_TAKE(memory, program->input_at, tensors);
    CRN_TAKE(memory, program->final_at, tensors);
    CRN_TAKE(memory, program->actions, count);
    program->count = count;
    CRN_TRY(list_taken(b));
    CRN_TRY(list_given(b));
    place_kept_inputs(b);
    for (; b->step < count; b->step++)
        CRN_TRY(bind_step(b, &steps[b->step], &program->actions[b->step]));
    CRN_TRY(crn_optimizer_prepare_calls(b->exec, b->err));
    return bind_end(b);
}

cairn_status crn_bind_steps(cairn_exec *exec, const crn_binding_input *input, cairn_error *err) {
    crn_arena scratch;
    crn_arena_init(&scratch, &exec->memory.allocator);
    binder b = {.exec = exec, .graph = exec->graph, .in = input, .err = err};
    b.lifetimes = input->sim->lifetimes;
    b.lifetime_count = input->sim->lifetime_count;
    b.offsets = input->layout->offsets;
    cairn_status status = bind_all(&b, &scratch);
    crn_arena_release(&scratch);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

void crn_unbind_steps(cairn_exec *exec) {
    const crn_program *program = &exec->program;
    if (program->actions == NULL || exec->backend->finish == NULL)
        return;
    for (uint32_t i = 0; i < program->count; i++)
        if (program->actions[i].call.recipe != NULL)
            exec->backend->finish(exec->queue, &program->actions[i].call);
}
