/* arrays_step.c: turns arrays into a graph of opaque ops with its costs.
 *
 * A group of neighbouring ops becomes one op. Tensors that only the ops of the group read become
 * its workspace. All of them are counted at once, because only the kernel knows which of them live
 * at the same time.
 *
 *     a --f--> t --g--> b      if f and g are a group:      a --fg--> b
 *
 * The workspace of fg is the larger one of f and g, plus t. */
#include "base/crn_base.h"
#include "cairn/arrays.h"
#include "cost/crn_cost.h"

#include <stdio.h>

typedef struct arrays_memory {
    cairn_arrays_step step;
    crn_arena arena;
} arrays_memory;

typedef struct reading {
    const cairn_arrays *in;
    crn_arena *arena, *scratch;
    cairn_builder *builder;
    cairn_arrays_step *out;
    cairn_error *err;
    cairn_id *id_of;                  /* per tensor of the arrays: in the graph, or CAIRN_NONE */
    cairn_id *producer, *last_reader; /* per tensor: ops of the arrays */
    cairn_id *tensor_of, *op_of;      /* as in cairn_arrays_step */
    uint32_t tensor_count, op_count;  /* of the graph */
    CRN_ARRAY(uint64_t) workspaces;   /* per op of the graph */
    CRN_ARRAY(int64_t) times;
} reading;

static cairn_status check_list(const reading *r, const char *list, const uint32_t *first,
                               const cairn_id *ids, bool none_allowed) {
    const cairn_arrays *in = r->in;
    for (uint32_t o = 0; o < in->op_count; o++) {
        if (first[0] != 0 || first[o + 1] < first[o])
            return crn_fail(r->err, CAIRN_EINVAL,
                            "the %s of op %u do not begin where those before it end", list, o);
        for (uint32_t i = first[o]; i < first[o + 1]; i++)
            if (ids[i] >= in->tensor_count && !(none_allowed && ids[i] == CAIRN_NONE))
                return crn_fail(r->err, CAIRN_EINVAL,
                                "op %u names tensor %u among its %s, but there are %u tensors", o,
                                ids[i], list, in->tensor_count);
    }
    return CAIRN_OK;
}

static cairn_status check_arrays(const reading *r) {
    const cairn_arrays *in = r->in;
    if (in->alignment & (in->alignment - 1) || in->alignment > (uint64_t)1 << 30)
        return crn_fail(r->err, CAIRN_EINVAL, "an alignment must be a power of two up to 2^30");
    for (uint32_t t = 0; t < in->tensor_count; t++)
        if (in->roles[t] > CAIRN_ROLE_SLOT)
            return crn_fail(r->err, CAIRN_EINVAL, "tensor %u has a role that does not exist", t);
    for (uint32_t o = 0; o < in->op_count; o++)
        if (in->phases[o] > CAIRN_PHASE_UPDATE || in->time_ns[o] < 0 ||
            (in->second_time_ns != NULL && in->second_time_ns[o] < 0) ||
            (in->again_time_ns != NULL && in->again_time_ns[o] < 0))
            return crn_fail(r->err, CAIRN_EINVAL,
                            "op %u has a phase that does not exist or a negative time", o);
        else if (in->again_time_ns != NULL && in->again_time_ns[o] > in->time_ns[o])
            return crn_fail(r->err, CAIRN_EINVAL, "op %u takes longer when it runs again", o);
    CRN_TRY(check_list(r, "inputs", in->first_input, in->inputs, false));
    return check_list(r, "outputs", in->first_output, in->outputs, true);
}

static bool same_group(const cairn_arrays *in, uint32_t a, uint32_t b) {
    return a == b || (in->groups != NULL && in->groups[a] != 0 && in->groups[a] == in->groups[b]);
}

static uint32_t group_end(const cairn_arrays *in, uint32_t first) {
    uint32_t end = first + 1;
    while (end < in->op_count && same_group(in, first, end))
        end++;
    return end;
}

static bool is_result(const cairn_arrays *in, uint32_t t) {
    return in->roles[t] == CAIRN_ROLE_LOSS ||
           (in->tensor_flags != NULL &&
            (in->tensor_flags[t] & (CAIRN_TENSOR_FLAG_RESULT | CAIRN_TENSOR_FLAG_STATIONARY)));
}

/* Find the producer and the last reader of every tensor. */
static cairn_status index_uses(reading *r) {
    const cairn_arrays *in = r->in;
    CRN_TAKE(r->scratch, r->id_of, in->tensor_count);
    CRN_TAKE(r->scratch, r->producer, in->tensor_count);
    CRN_TAKE(r->scratch, r->last_reader, in->tensor_count);
    for (uint32_t t = 0; t < in->tensor_count; t++)
        r->id_of[t] = r->producer[t] = r->last_reader[t] = CAIRN_NONE;
    for (uint32_t o = 0; o < in->op_count; o++) {
        for (uint32_t i = in->first_input[o]; i < in->first_input[o + 1]; i++)
            r->last_reader[in->inputs[i]] = o;
        for (uint32_t i = in->first_output[o]; i < in->first_output[o + 1]; i++)
            if (in->outputs[i] != CAIRN_NONE)
                r->producer[in->outputs[i]] = o;
    }
    return CAIRN_OK;
}

/* Whether a tensor never leaves the group that makes it. */
static bool is_temporary(const reading *r, uint32_t t) {
    return r->producer[t] != CAIRN_NONE && r->last_reader[t] != CAIRN_NONE &&
           r->last_reader[t] > r->producer[t] && !is_result(r->in, t) &&
           r->last_reader[t] < group_end(r->in, r->producer[t]);
}

static uint64_t rounded(const cairn_arrays *in, uint64_t bytes) {
    uint64_t mask = CRN_MAX(in->alignment, CRN_ALIGNMENT) - 1;
    return bytes > INT64_MAX ? bytes : (bytes + mask) & ~mask;
}

static cairn_status add_tensors(reading *r) {
    const cairn_arrays *in = r->in;
    CRN_TAKE(r->arena, r->tensor_of, in->tensor_count);
    for (uint32_t t = 0; t < in->tensor_count; t++) {
        if (is_temporary(r, t))
            continue;
        char name[32];
        snprintf(name, sizeof name, "t%u", t);
        uint8_t flags = in->tensor_flags == NULL ? 0 : in->tensor_flags[t];
        cairn_tensor tensor = CAIRN_TENSOR_INIT;
        tensor.name = in->tensor_names == NULL ? name : in->tensor_names[t];
        tensor.role = (cairn_role)in->roles[t];
        tensor.bytes = rounded(in, in->bytes[t]);
        tensor.stationary = flags & CAIRN_TENSOR_FLAG_STATIONARY;
        tensor.result = flags & CAIRN_TENSOR_FLAG_RESULT;
        r->tensor_of[r->tensor_count++] = t;
        r->id_of[t] = cairn_builder_tensor(r->builder, &tensor);
    }
    return CAIRN_OK;
}

typedef struct drawn {
    CRN_ARRAY(cairn_id) inputs, params, outputs;
    CRN_ARRAY(cairn_inplace) inplace;
} drawn;

static bool is_param(const cairn_arrays *in, cairn_id t) {
    return in->roles[t] == CAIRN_ROLE_PARAMETER || in->roles[t] == CAIRN_ROLE_STATE ||
           in->roles[t] == CAIRN_ROLE_SLOT;
}

/* Collect the inputs and outputs of the group of ops first .. end - 1. `place_of` is the new place
 * of an input, for the in-place permissions. */
static cairn_status draw(reading *r, uint32_t first, uint32_t end, drawn *d, uint32_t *place_of) {
    const cairn_arrays *in = r->in;
    for (uint32_t o = first; o < end; o++)
        for (uint32_t i = in->first_input[o]; i < in->first_input[o + 1]; i++) {
            cairn_id t = in->inputs[i];
            bool inside =
                r->producer[t] != CAIRN_NONE && r->producer[t] >= first && r->producer[t] < o;
            if (end == first + 1)
                place_of[i - in->first_input[o]] = d->inputs.length;
            if (inside)
                continue;
            if (is_param(in, t))
                CRN_PUSH(r->scratch, d->params, r->id_of[t]);
            else
                CRN_PUSH(r->scratch, d->inputs, r->id_of[t]);
        }
    for (uint32_t o = first; o < end; o++)
        for (uint32_t i = in->first_output[o]; i < in->first_output[o + 1]; i++) {
            cairn_id t = in->outputs[i];
            if (t == CAIRN_NONE || !is_temporary(r, t))
                CRN_PUSH(r->scratch, d->outputs, t == CAIRN_NONE ? t : r->id_of[t]);
        }
    return CAIRN_OK;
}

static cairn_status draw_inplace(reading *r, uint32_t o, drawn *d, const uint32_t *place_of) {
    const cairn_arrays *in = r->in;
    for (uint32_t i = in->first_inplace[o]; i < in->first_inplace[o + 1]; i++) {
        cairn_inplace pair = in->inplace[i];
        uint32_t inputs = in->first_input[o + 1] - in->first_input[o];
        if (pair.input >= inputs || is_param(in, in->inputs[in->first_input[o] + pair.input]))
            return crn_fail(r->err, CAIRN_EINVAL,
                            "op %u may work in place on an input that it does not have", o);
        pair.input = place_of[pair.input];
        CRN_PUSH(r->scratch, d->inplace, pair);
    }
    return CAIRN_OK;
}

static cairn_status measure(reading *r, uint32_t first, uint32_t end) {
    const cairn_arrays *in = r->in;
    uint64_t workspace = 0, temporaries = 0;
    int64_t time = 0;
    for (uint32_t o = first; o < end; o++) {
        time = crn_add_time(time, in->time_ns[o]);
        if (in->workspace_bytes != NULL)
            workspace = CRN_MAX(workspace, rounded(in, in->workspace_bytes[o]));
        for (uint32_t i = in->first_output[o]; i < in->first_output[o + 1]; i++)
            if (in->outputs[i] != CAIRN_NONE && is_temporary(r, in->outputs[i]) &&
                !crn_add_u64(temporaries, rounded(in, in->bytes[in->outputs[i]]), &temporaries))
                return crn_fail(r->err, CAIRN_EOVERFLOW, "the temporaries of op %u are too large",
                                first);
    }
    if (!crn_add_u64(workspace, temporaries, &workspace) || workspace > INT64_MAX / 8)
        return crn_fail(r->err, CAIRN_EOVERFLOW, "the workspace of op %u is too large", first);
    CRN_PUSH(r->scratch, r->workspaces, workspace);
    CRN_PUSH(r->scratch, r->times, time);
    return CAIRN_OK;
}

static cairn_status add_op(reading *r, uint32_t first, uint32_t end) {
    const cairn_arrays *in = r->in;
    drawn d = {0};
    uint32_t *place_of;
    CRN_TAKE(r->scratch, place_of, in->first_input[first + 1] - in->first_input[first]);
    CRN_TRY(draw(r, first, end, &d, place_of));
    if (end == first + 1 && in->first_inplace != NULL)
        CRN_TRY(draw_inplace(r, first, &d, place_of));
    char name[32];
    snprintf(name, sizeof name, "op%u", first);
    cairn_op op = {.name = in->op_names == NULL ? name : in->op_names[first],
                   .kind = CAIRN_OP_OPAQUE,
                   .phase = (cairn_phase)in->phases[first],
                   .of = CAIRN_NONE};
    for (uint32_t o = first; o < end; o++) {
        if (in->phases[o] != in->phases[first])
            return crn_fail(r->err, CAIRN_EINVAL, "the group of op %u has ops of two phases",
                            first);
        op.flags |= in->op_flags == NULL ? 0 : in->op_flags[o];
    }
    op.inputs = d.inputs.data;
    op.input_count = d.inputs.length;
    op.outputs = d.outputs.data;
    op.output_count = d.outputs.length;
    op.params = d.params.data;
    op.param_count = d.params.length;
    op.inplace = d.inplace.data;
    op.inplace_count = d.inplace.length;
    r->op_of[r->op_count++] = first;
    cairn_builder_op(r->builder, &op);
    return measure(r, first, end);
}

static cairn_status add_ops(reading *r) {
    CRN_TAKE(r->arena, r->op_of, r->in->op_count);
    for (uint32_t o = 0; o < r->in->op_count;) {
        uint32_t end = group_end(r->in, o);
        CRN_TRY(add_op(r, o, end));
        o = end;
    }
    return CAIRN_OK;
}

/* Whether op `o` of the arrays, alone in its group, has a second implementation. */
static bool has_second(const cairn_arrays *in, uint32_t o) {
    return in->second_time_ns != NULL && in->second_workspace_bytes != NULL &&
           in->workspace_bytes != NULL && group_end(in, o) == o + 1 &&
           in->second_workspace_bytes[o] < in->workspace_bytes[o];
}

static cairn_status set_costs(reading *r, cairn_id o) {
    const cairn_arrays *in = r->in;
    uint32_t given = r->op_of[o], count = 1;
    cairn_implementation list[2] = {{.name = "given"}, {.name = "second"}};
    list[0].time_ns = r->times.data[o];
    list[0].workspace_bytes = r->workspaces.data[o];
    if (has_second(in, given)) {
        list[1].time_ns = in->second_time_ns[given];
        list[1].workspace_bytes = rounded(in, in->second_workspace_bytes[given]);
        count = 2;
    }
    CRN_TRY(cairn_costs_set_op(r->out->costs, o, list, count));
    if (in->again_time_ns != NULL && group_end(in, given) == given + 1)
        crn_costs_set_again(r->out->costs, o, in->time_ns[given] - in->again_time_ns[given]);
    return CAIRN_OK;
}

static cairn_status read_arrays(reading *r) {
    CRN_TRY(check_arrays(r));
    CRN_TRY(index_uses(r));
    CRN_TRY(cairn_builder_create(&r->arena->allocator, r->in->name == NULL ? "step" : r->in->name,
                                 &r->builder));
    CRN_TRY(add_tensors(r));
    CRN_TRY(add_ops(r));
    CRN_TRY(cairn_builder_finish(r->builder, &r->out->graph, r->err));
    CRN_TRY(cairn_costs_create(r->out->graph, &r->out->costs, r->err));
    for (cairn_id o = 0; o < r->op_count; o++)
        CRN_TRY(set_costs(r, o));
    r->out->tensor_of = r->tensor_of;
    r->out->op_of = r->op_of;
    return CAIRN_OK;
}

cairn_status cairn_arrays_step_create(const cairn_allocator *allocator, const cairn_arrays *given,
                                      cairn_arrays_step **out, cairn_error *err) {
    cairn_arrays arrays = CAIRN_ARRAYS_INIT;
    *out = NULL;
    crn_error_clear(err);
    CRN_READ_OPTIONS(cairn_arrays, arrays, given, err);
    crn_arena scratch;
    crn_arena_init(&scratch, allocator);
    arrays_memory *memory = CRN_OBJECT(allocator, arrays_memory, arena);
    if (memory == NULL)
        return crn_fail_memory(err);
    reading r = {.in = &arrays, .arena = &memory->arena, .scratch = &scratch, .err = err};
    r.out = &memory->step;
    cairn_status status = read_arrays(&r);
    cairn_builder_destroy(r.builder);
    crn_arena_release(&scratch);
    memory->step.memory = memory;
    if (status != CAIRN_OK) {
        cairn_arrays_step_destroy(&memory->step);
        return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
    }
    *out = &memory->step;
    return CAIRN_OK;
}

void cairn_arrays_step_destroy(cairn_arrays_step *step) {
    if (step == NULL)
        return;
    cairn_costs_destroy(step->costs);
    cairn_graph_destroy(step->graph);
    crn_arena_destroy(&((arrays_memory *)step->memory)->arena);
}
