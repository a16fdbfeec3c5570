/* validate.c: checks everything that must hold for a graph, once. The error names the op or tensor.
 *
 * Later stages rely on these checks and do not repeat them: ids are in range, every tensor has one
 * producer, the order is topological, shapes agree with the kinds of the ops, sums of sizes do not
 * overflow. */
#include "graph/graph_internal.h"

#define LONGEST_NAME 120

static bool good_name(const char *name) {
    size_t length = strlen(name);
    if (length == 0 || length > LONGEST_NAME)
        return false;
    for (const char *c = name; *c != '\0'; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return false;
    return true;
}

/* The name of tensor or op `id`, which `sort` says, is good and new. */
static cairn_status check_name(crn_names *names, const char *sort, const char *name, cairn_id id,
                               cairn_error *err) {
    if (!good_name(name))
        return crn_fail_at(err, CAIRN_EINVAL, name,
                           "%s %u needs a name of 1 to %d bytes, without white space and control "
                           "characters",
                           sort, id, LONGEST_NAME);
    if (crn_names_add(names, name, id) != CRN_NO_NAME)
        return crn_fail_at(err, CAIRN_EINVAL, name, "two %ss are called \"%s\"", sort, name);
    return CAIRN_OK;
}

static cairn_status check_names(cairn_graph *g, cairn_error *err) {
    CRN_TRY(crn_names_init(&g->tensor_names, &g->arena, g->tensors.length));
    CRN_TRY(crn_names_init(&g->op_names, &g->arena, g->ops.length));
    if (strlen(g->name) > LONGEST_NAME)
        return crn_fail(err, CAIRN_EINVAL, "the graph's name is longer than %d bytes",
                        LONGEST_NAME);
    for (cairn_id t = 0; t < g->tensors.length; t++)
        CRN_TRY(check_name(&g->tensor_names, "tensor", g->tensors.data[t].name, t, err));
    for (cairn_id o = 0; o < g->ops.length; o++)
        CRN_TRY(check_name(&g->op_names, "op", g->ops.data[o].name, o, err));
    return CAIRN_OK;
}

/* ---- Ops ---- */

static cairn_status check_ids(const cairn_graph *g, const cairn_op *op, const char *list,
                              const cairn_id *ids, uint32_t count, bool none_allowed,
                              cairn_error *err) {
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] >= g->tensors.length && !(none_allowed && ids[i] == CAIRN_NONE))
            return crn_fail_at(err, CAIRN_EINVAL, op->name,
                               "op \"%s\" names tensor %u in its %s, but there is no such tensor",
                               op->name, ids[i], list);
    return CAIRN_OK;
}

static bool within(uint32_t count, uint32_t least, uint32_t most) {
    return count >= least && count <= most;
}

static cairn_status check_operands(const cairn_graph *g, const cairn_op *op, cairn_error *err) {
    const crn_op_kind *kind = &crn_op_kinds[op->kind];
    CRN_TRY(check_ids(g, op, "inputs", op->inputs, op->input_count, false, err));
    bool none_allowed = op->phase != CAIRN_PHASE_FORWARD || op->kind == CAIRN_OP_OPAQUE;
    CRN_TRY(check_ids(g, op, "outputs", op->outputs, op->output_count, none_allowed, err));
    CRN_TRY(check_ids(g, op, "params", op->params, op->param_count, false, err));
    if (!within(op->input_count, kind->least_inputs, kind->most_inputs) ||
        !within(op->output_count, kind->least_outputs, kind->most_outputs) ||
        !within(op->param_count, kind->least_params, kind->most_params))
        return crn_fail_at(
            err, CAIRN_EINVAL, op->name,
            "op \"%s\" has %u inputs, %u outputs and %u params, which a %s cannot have", op->name,
            op->input_count, op->output_count, op->param_count, kind->name);
    for (uint32_t i = 0; i < op->param_count; i++) {
        const cairn_tensor *param = &g->tensors.data[op->params[i]];
        if (!crn_role_stays(param->role))
            return crn_fail_at(err, CAIRN_EINVAL, op->name,
                               "op \"%s\" lists tensor \"%s\" as a parameter, but its role is %s",
                               op->name, param->name, crn_role_names[param->role]);
    }
    for (uint32_t i = 0; i < op->input_count; i++) {
        const cairn_tensor *input = &g->tensors.data[op->inputs[i]];
        if (crn_role_stays(input->role))
            return crn_fail_at(err, CAIRN_EINVAL, op->name,
                               "op \"%s\" reads the %s \"%s\" as an input; list it in params",
                               op->name, crn_role_names[input->role], input->name);
    }
    return CAIRN_OK;
}

static cairn_status check_inplace(const cairn_graph *g, const cairn_op *op, cairn_error *err) {
    for (uint32_t i = 0; i < op->inplace_count; i++) {
        cairn_inplace pair = op->inplace[i];
        if (pair.output >= op->output_count || pair.input >= op->input_count ||
            op->outputs[pair.output] == CAIRN_NONE)
            return crn_fail_at(err, CAIRN_EINVAL, op->name,
                               "op \"%s\" may work in place on operands that it does not have",
                               op->name);
        const cairn_tensor *output = &g->tensors.data[op->outputs[pair.output]];
        const cairn_tensor *input = &g->tensors.data[op->inputs[pair.input]];
        bool fits = op->kind == CAIRN_OP_OPAQUE ? output->bytes <= input->bytes
                                                : output->bytes == input->bytes;
        if (!fits || output->alias_of != CAIRN_NONE || output->stationary != input->stationary)
            return crn_fail_at(
                err, CAIRN_EINVAL, op->name,
                "op \"%s\" cannot make \"%s\" in place of \"%s\": they differ in size "
                "or in kind of storage",
                op->name, output->name, input->name);
    }
    return CAIRN_OK;
}

static cairn_status check_phase(const cairn_graph *g, cairn_id o, cairn_error *err) {
    const cairn_op *op = &g->ops.data[o];
    if (o > 0 && op->phase < g->ops.data[o - 1].phase)
        return crn_fail_at(err, CAIRN_EINVAL, op->name,
                           "op \"%s\" of the %s phase stands after one of the %s phase", op->name,
                           crn_phase_names[op->phase], crn_phase_names[g->ops.data[o - 1].phase]);
    if (op->of != CAIRN_NONE && (op->of >= g->ops.length || op->phase == CAIRN_PHASE_FORWARD ||
                                 g->ops.data[op->of].phase != CAIRN_PHASE_FORWARD))
        return crn_fail_at(err, CAIRN_EINVAL, op->name,
                           "op \"%s\" says it differentiates op %u, which is not a forward op",
                           op->name, op->of);
    return CAIRN_OK;
}

/* ---- Producers and order ---- */

/* No op makes such a tensor. */
static bool is_given(cairn_role role) {
    return role == CAIRN_ROLE_INPUT || role == CAIRN_ROLE_LABEL || crn_role_stays(role);
}

static cairn_status set_producers(cairn_graph *g, cairn_error *err) {
    for (cairn_id o = 0; o < g->ops.length; o++) {
        const cairn_op *op = &g->ops.data[o];
        for (uint32_t i = 0; i < op->output_count; i++) {
            if (op->outputs[i] == CAIRN_NONE)
                continue;
            cairn_tensor *tensor = &g->tensors.data[op->outputs[i]];
            if (tensor->producer != CAIRN_NONE)
                return crn_fail_at(err, CAIRN_EINVAL, tensor->name,
                                   "tensor \"%s\" has two producers, ops \"%s\" and \"%s\"",
                                   tensor->name, g->ops.data[tensor->producer].name, op->name);
            tensor->producer = o;
        }
    }
    for (cairn_id t = 0; t < g->tensors.length; t++) {
        const cairn_tensor *tensor = &g->tensors.data[t];
        bool given = is_given(tensor->role);
        if (given && tensor->producer != CAIRN_NONE)
            return crn_fail_at(err, CAIRN_EINVAL, tensor->name,
                               "the %s \"%s\" cannot be produced by an op, as \"%s\" does",
                               crn_role_names[tensor->role], tensor->name,
                               g->ops.data[tensor->producer].name);
        if (!given && tensor->producer == CAIRN_NONE)
            return crn_fail_at(err, CAIRN_EINVAL, tensor->name, "no op produces the %s \"%s\"",
                               crn_role_names[tensor->role], tensor->name);
    }
    return CAIRN_OK;
}

/* Whether op `late` depends on op `early`, directly or through other ops. */
static cairn_status depends_on(cairn_graph *g, cairn_id late, cairn_id early, bool *out) {
    bool *seen;
    CRN_ARRAY(cairn_id) stack = {0};
    CRN_TAKE(&g->arena, seen, g->ops.length);
    CRN_PUSH(&g->arena, stack, late);
    *out = false;
    while (stack.length > 0 && !*out) {
        cairn_id o = stack.data[--stack.length];
        *out = o == early;
        if (seen[o])
            continue;
        seen[o] = true;
        for (uint32_t i = 0; i < g->ops.data[o].input_count; i++) {
            cairn_id producer = g->tensors.data[g->ops.data[o].inputs[i]].producer;
            if (producer != CAIRN_NONE)
                CRN_PUSH(&g->arena, stack, producer);
        }
    }
    return CAIRN_OK;
}

static cairn_status check_order(cairn_graph *g, cairn_error *err) {
    for (cairn_id o = 0; o < g->ops.length; o++) {
        const cairn_op *op = &g->ops.data[o];
        for (uint32_t i = 0; i < op->input_count; i++) {
            const cairn_tensor *input = &g->tensors.data[op->inputs[i]];
            if (input->producer == CAIRN_NONE || input->producer < o)
                continue;
            const char *maker = g->ops.data[input->producer].name;
            bool cycle = false;
            CRN_TRY(depends_on(g, input->producer, o, &cycle));
            if (cycle)
                return crn_fail_at(err, CAIRN_EINVAL, op->name,
                                   "the graph has a cycle: op \"%s\" reads \"%s\", which op \"%s\" "
                                   "makes out of its result",
                                   op->name, input->name, maker);
            return crn_fail_at(err, CAIRN_EINVAL, op->name,
                               "op \"%s\" reads \"%s\" before op \"%s\" makes it; put the ops in "
                               "topological order",
                               op->name, input->name, maker);
        }
    }
    return CAIRN_OK;
}

/* ---- Tensors ---- */

static cairn_status check_alias(const cairn_graph *g, cairn_id t, cairn_error *err) {
    const cairn_tensor *tensor = &g->tensors.data[t];
    if (tensor->alias_of == CAIRN_NONE)
        return CAIRN_OK;
    if (tensor->alias_of >= g->tensors.length || tensor->alias_of == t)
        return crn_fail_at(err, CAIRN_EINVAL, tensor->name,
                           "tensor \"%s\" is an alias of a tensor that does not exist",
                           tensor->name);
    const cairn_tensor *root = &g->tensors.data[tensor->alias_of];
    if (root->alias_of != CAIRN_NONE)
        return crn_fail_at(
            err, CAIRN_EINVAL, tensor->name,
            "tensor \"%s\" is an alias of \"%s\", which is an alias itself; name the "
            "tensor that holds the storage",
            tensor->name, root->name);
    if (root->bytes != tensor->bytes || root->stationary != tensor->stationary)
        return crn_fail_at(
            err, CAIRN_EINVAL, tensor->name,
            "tensor \"%s\" is an alias of \"%s\" but not of the same size or storage", tensor->name,
            root->name);
    bool reads = false;
    if (tensor->producer != CAIRN_NONE) {
        const cairn_op *op = &g->ops.data[tensor->producer];
        for (uint32_t i = 0; i < op->input_count; i++)
            reads = reads || crn_graph_storage(g, op->inputs[i]) == tensor->alias_of;
    }
    return reads ? CAIRN_OK
                 : crn_fail_at(
                       err, CAIRN_EINVAL, tensor->name,
                       "tensor \"%s\" is an alias of \"%s\", which its producer does not read",
                       tensor->name, root->name);
}

static cairn_status check_tensor(const cairn_graph *g, cairn_id t, uint64_t *total,
                                 cairn_error *err) {
    const cairn_tensor *tensor = &g->tensors.data[t];
    CRN_TRY(check_alias(g, t, err));
    bool made = !is_given(tensor->role);
    if (tensor->stationary && made && tensor->role != CAIRN_ROLE_GRADIENT)
        return crn_fail_at(err, CAIRN_EINVAL, tensor->name, "the %s \"%s\" cannot be stationary",
                           crn_role_names[tensor->role], tensor->name);
    if (tensor->result && (!made || tensor->stationary))
        return crn_fail_at(err, CAIRN_EINVAL, tensor->name,
                           "the %s \"%s\" cannot be a result: no op makes it, or it is stationary",
                           crn_role_names[tensor->role], tensor->name);
    if (tensor->gradient_of != CAIRN_NONE) {
        if (tensor->gradient_of >= g->tensors.length || tensor->role != CAIRN_ROLE_GRADIENT ||
            !crn_same_shape(tensor, &g->tensors.data[tensor->gradient_of]))
            return crn_fail_at(err, CAIRN_EINVAL, tensor->name,
                               "tensor \"%s\" is said to be a gradient of a tensor that does not "
                               "exist or has another shape",
                               tensor->name);
    }
    /* The limit leaves room for rounding up and for four copies of everything, so that later sums
     * cannot overflow. */
    uint64_t limit = (uint64_t)INT64_MAX / 4;
    if (tensor->bytes > limit || !crn_add_u64(*total, crn_align(tensor->bytes), total) ||
        *total > limit)
        return crn_fail_at(err, CAIRN_EOVERFLOW, tensor->name,
                           "the graph is too large: with tensor \"%s\" its sizes sum to more than "
                           "2^61 bytes",
                           tensor->name);
    return CAIRN_OK;
}

/* ---- Shapes ---- */

static cairn_status check_shapes(const cairn_graph *g, const cairn_op *op, cairn_error *err) {
    if (op->kind == CAIRN_OP_OPAQUE)
        return CAIRN_OK;
    bool is_backward = !crn_is_forward_kind(op->kind);
    if (is_backward != (op->phase != CAIRN_PHASE_FORWARD))
        return crn_fail_at(err, CAIRN_EINVAL, op->name, "op \"%s\" (%s) is not of the %s phase",
                           op->name, crn_op_kinds[op->kind].name, crn_phase_names[op->phase]);
    if (is_backward)
        return crn_check_derivative(g, op, err);
    cairn_tensor made[CRN_MAX_FORWARD_OUTPUTS];
    CRN_TRY(crn_infer_outputs(g, op, made, err));
    for (uint32_t i = 0; i < op->output_count; i++) {
        const cairn_tensor *output = &g->tensors.data[op->outputs[i]];
        if (!crn_same_shape(output, &made[i]) || output->role != made[i].role ||
            output->alias_of != made[i].alias_of)
            return crn_fail_at(
                err, CAIRN_EINVAL, op->name,
                "op \"%s\" (%s) does not make \"%s\" with the shape, role and storage "
                "that it is said to have",
                op->name, crn_op_kinds[op->kind].name, output->name);
    }
    return CAIRN_OK;
}

/* ---- Readers and hash ---- */

static bool read_before(const cairn_op *op, uint32_t i) {
    for (uint32_t j = 0; j < i; j++)
        if (op->inputs[j] == op->inputs[i])
            return true;
    return false;
}

static cairn_status index_readers(cairn_graph *g) {
    CRN_TAKE(&g->arena, g->reader_first, g->tensors.length + 1);
    for (cairn_id o = 0; o < g->ops.length; o++)
        for (uint32_t i = 0; i < g->ops.data[o].input_count; i++)
            if (!read_before(&g->ops.data[o], i))
                g->reader_first[g->ops.data[o].inputs[i] + 1]++;
    for (cairn_id t = 0; t < g->tensors.length; t++)
        g->reader_first[t + 1] += g->reader_first[t];
    CRN_TAKE(&g->arena, g->readers, g->reader_first[g->tensors.length]);
    uint32_t *fill;
    CRN_TAKE(&g->arena, fill, g->tensors.length);
    for (cairn_id o = 0; o < g->ops.length; o++)
        for (uint32_t i = 0; i < g->ops.data[o].input_count; i++) {
            cairn_id t = g->ops.data[o].inputs[i];
            if (!read_before(&g->ops.data[o], i))
                g->readers[g->reader_first[t] + fill[t]++] = o;
        }
    return CAIRN_OK;
}

static uint64_t hash_ids(uint64_t hash, const uint32_t *ids, uint32_t count) {
    for (uint32_t i = 0; i <= count; i++) {
        uint32_t id = i == 0 ? count : ids[i - 1];
        unsigned char bytes[4] = {(unsigned char)id, (unsigned char)(id >> 8),
                                  (unsigned char)(id >> 16), (unsigned char)(id >> 24)};
        hash = crn_hash_bytes(hash, bytes, sizeof bytes);
    }
    return hash;
}

static uint64_t hash_structure(const cairn_graph *g) {
    uint64_t hash = CRN_HASH_START;
    for (cairn_id t = 0; t < g->tensors.length; t++) {
        const cairn_tensor *tensor = &g->tensors.data[t];
        uint32_t stays = tensor->stationary | (uint32_t)tensor->result << 1;
        hash = hash_ids(hash, (uint32_t[]){tensor->role, tensor->alias_of, stays}, 3);
    }
    for (cairn_id o = 0; o < g->ops.length; o++) {
        const cairn_op *op = &g->ops.data[o];
        const char *kind =
            crn_op_kinds[op->kind].name; /* the name, because the number may change */
        hash = crn_hash_bytes(hash, kind, strlen(kind));
        hash = hash_ids(hash, (uint32_t[]){op->phase, op->of, op->flags}, 3);
        hash = hash_ids(hash, op->inputs, op->input_count);
        hash = hash_ids(hash, op->outputs, op->output_count);
        hash = hash_ids(hash, op->params, op->param_count);
        for (uint32_t i = 0; i < op->inplace_count; i++)
            hash = hash_ids(hash, (uint32_t[]){op->inplace[i].output, op->inplace[i].input}, 2);
    }
    return hash;
}

cairn_status crn_validate(cairn_graph *g, cairn_error *err) {
    if (!crn_printable(g->name))
        return crn_fail(err, CAIRN_EINVAL, "the graph's name has a control character");
    if (g->ops.length == 0)
        return crn_fail(err, CAIRN_EINVAL, "graph \"%s\" has no ops", g->name);
    CRN_TRY(check_names(g, err));
    for (cairn_id o = 0; o < g->ops.length; o++) {
        CRN_TRY(check_operands(g, &g->ops.data[o], err));
        CRN_TRY(check_inplace(g, &g->ops.data[o], err));
        CRN_TRY(check_phase(g, o, err));
    }
    CRN_TRY(set_producers(g, err));
    CRN_TRY(check_order(g, err));
    uint64_t total = 0;
    for (cairn_id t = 0; t < g->tensors.length; t++)
        CRN_TRY(check_tensor(g, t, &total, err));
    for (cairn_id o = 0; o < g->ops.length; o++)
        CRN_TRY(check_shapes(g, &g->ops.data[o], err));
    CRN_TRY(index_readers(g));
    g->hash = hash_structure(g);
    return CAIRN_OK;
}
