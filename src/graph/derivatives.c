/* derivatives.c: makes the backward ops, by the rules of derivative_rules.c.
 *
 * Forward ops keep their ids; backward ops follow in reverse order. The gradient of a tensor with
 * several readers is a chain of sums, each computed as soon as there is something to add. */
#include "graph/derivative_rules.h"

#include <stdio.h>

typedef struct work {
    cairn_builder *builder;
    const cairn_graph *forward;
    bool *wanted;       /* per forward tensor: whether its gradient is computed */
    cairn_id *gradient; /* per forward tensor: the sum so far, in the new graph */
    uint32_t *summed;   /* per forward tensor: contributions so far */
    bool joins;         /* the last two ops become a head_loss */
} work;

/* Gradients are computed for parameters, and for every tensor that depends on one. */
static void find_wanted(work *at, bool inputs) {
    const cairn_graph *g = at->forward;
    for (cairn_id t = 0; t < g->tensors.length; t++) {
        const cairn_tensor *tensor = &g->tensors.data[t];
        bool input = tensor->role == CAIRN_ROLE_INPUT && tensor->dtype == CAIRN_DTYPE_F32;
        at->wanted[t] = tensor->role == CAIRN_ROLE_PARAMETER || (inputs && input);
        at->gradient[t] = CAIRN_NONE;
    }
    for (cairn_id o = 0; o < g->ops.length; o++) {
        const cairn_op *op = &g->ops.data[o];
        bool downstream = false;
        for (uint32_t i = 0; i < op->input_count; i++)
            downstream = downstream || at->wanted[op->inputs[i]];
        for (uint32_t i = 0; i < op->param_count; i++)
            downstream = downstream || at->wanted[op->params[i]];
        for (uint32_t i = 0; i < op->output_count; i++)
            at->wanted[op->outputs[i]] = downstream;
    }
}

/* A new tensor for a gradient of forward tensor `of`: "x.grad", then "x.grad.2" and so on. */
static cairn_status add_gradient(work *at, cairn_id of, const char *suffix, bool stationary,
                                 cairn_id alias_of, cairn_id *out) {
    const cairn_tensor *source = &at->forward->tensors.data[of];
    char name[256];
    snprintf(name, sizeof name, "%s.%s", source->name, suffix);
    cairn_tensor tensor = *source;
    tensor.name = name;
    tensor.role = CAIRN_ROLE_GRADIENT;
    tensor.gradient_of = of;
    tensor.alias_of = alias_of;
    tensor.stationary = stationary;
    return crn_builder_add_tensor(at->builder, &tensor, out);
}

/* Add `term` to the gradient of forward tensor `of`; it comes from the backward op of `through`.
 * The first contribution is the gradient itself. A separate accumulate op adds each later one at
 * once. */
static cairn_status contribute(work *at, cairn_id through, cairn_id of, cairn_id term) {
    if (at->summed[of]++ == 0) {
        at->gradient[of] = term;
        return CAIRN_OK;
    }
    char suffix[32], name[256];
    snprintf(suffix, sizeof suffix, "grad.sum%u", at->summed[of]);
    const cairn_graph *built = at->builder->graph;
    bool stationary = built->tensors.data[at->gradient[of]].stationary;
    cairn_id sum;
    CRN_TRY(add_gradient(at, of, suffix, stationary, CAIRN_NONE, &sum));
    snprintf(name, sizeof name, "%s.%s", at->forward->tensors.data[of].name, suffix);
    cairn_op op = {.name = name,
                   .kind = CAIRN_OP_ACCUMULATE,
                   .phase = CAIRN_PHASE_BACKWARD,
                   .of = through,
                   .flags = stationary ? CAIRN_OP_FLAG_NEVER_AGAIN : 0,
                   .input_count = 2,
                   .inputs = (cairn_id[]){at->gradient[of], term},
                   .output_count = 1,
                   .outputs = &sum};
    op.inplace = crn_op_kinds[op.kind].inplace;
    op.inplace_count =
        stationary ? 1 : crn_op_kinds[op.kind].inplace_count; /* into the first input */
    at->gradient[of] = sum;
    return crn_builder_add_op(at->builder, &op, &(cairn_id){0});
}

/* The tensor of the new graph that a rule reads, or CAIRN_NONE. Forward tensors keep their ids. */
static cairn_id resolve(const work *at, const cairn_op *op, crn_operand read, cairn_id handed) {
    switch (read.what) {
    case CRN_FORWARD_INPUT:
        return op->inputs[read.index];
    case CRN_FORWARD_OUTPUT:
        return op->outputs[read.index];
    case CRN_PARAM:
        return op->params[read.index];
    case CRN_GRAD_OUTPUT:
        return at->gradient[op->outputs[read.index]];
    case CRN_SUM_PARAM:
        return at->gradient[op->params[read.index]];
    default:
        return handed;
    }
}

static bool writes_something_wanted(const work *at, const crn_rule *r, const cairn_op *op,
                                    uint32_t input) {
    for (uint32_t i = 0; i < CRN_LENGTH(r->writes) && r->writes[i].what != CRN_NOTHING; i++) {
        if (r->writes[i].what == CRN_HANDED)
            return true;
        cairn_id target = crn_rule_target(op, r->writes[i], input);
        if (target != CAIRN_NONE && at->wanted[target])
            return true;
    }
    return false;
}

/* Whether the backward op adds to the gradient of parameter `target` so far. */
static bool adds_to(const work *at, const crn_rule *r, const cairn_op *forward, cairn_id target) {
    for (uint32_t i = 0; i < CRN_LENGTH(r->reads); i++)
        if (r->reads[i].what == CRN_SUM_PARAM && forward->params[r->reads[i].index] == target)
            return at->summed[target] > 0;
    return false;
}

/* Make the tensors that a backward op writes. */
static cairn_status make_outputs(work *at, const crn_rule *r, const cairn_op *forward,
                                 uint32_t input, cairn_op *op, cairn_id *outputs,
                                 cairn_id *handed) {
    for (uint32_t i = 0; i < CRN_LENGTH(r->writes) && r->writes[i].what != CRN_NOTHING; i++) {
        if (r->writes[i].what == CRN_HANDED) {
            cairn_id like = resolve(at, forward, r->handed_like, CAIRN_NONE);
            CRN_TRY(add_gradient(at, like, "pregrad", false, CAIRN_NONE, handed));
            outputs[op->output_count++] = *handed;
            continue;
        }
        cairn_id target = crn_rule_target(forward, r->writes[i], input);
        if (target == CAIRN_NONE)
            continue;
        cairn_id made = CAIRN_NONE;
        if (at->wanted[target]) {
            uint32_t before = at->summed[target];
            bool stationary = r->writes[i].what == CRN_GRAD_PARAM && before == 0;
            bool adds = adds_to(at, r, forward, target);
            char suffix[32] = "grad";
            if (before > 0)
                snprintf(suffix, sizeof suffix, adds ? "grad.sum%u" : "grad.%u", before + 1);
            if (adds)
                stationary = at->builder->graph->tensors.data[at->gradient[target]].stationary;
            cairn_id root = CAIRN_NONE;
            if (r->alias)
                root = crn_graph_storage(at->builder->graph, op->inputs[0]);
            CRN_TRY(add_gradient(at, target, suffix, stationary, root, &made));
            if (stationary)
                op->flags |= CAIRN_OP_FLAG_NEVER_AGAIN;
        }
        outputs[op->output_count++] = made;
    }
    return CAIRN_OK;
}

/* Add each output of the backward op just made to the gradient of its forward tensor. */
static cairn_status spread(work *at, const crn_rule *r, cairn_id forward_id, uint32_t input,
                           const cairn_id *outputs) {
    const cairn_op *forward = &at->forward->ops.data[forward_id];
    uint32_t made = 0;
    for (uint32_t i = 0; i < CRN_LENGTH(r->writes) && r->writes[i].what != CRN_NOTHING; i++) {
        cairn_id target = r->writes[i].what == CRN_HANDED
                              ? CAIRN_NONE
                              : crn_rule_target(forward, r->writes[i], input);
        if (r->writes[i].what == CRN_HANDED) {
            made++;
        } else if (target != CAIRN_NONE) {
            if (outputs[made] != CAIRN_NONE && adds_to(at, r, forward, target)) {
                at->gradient[target] = outputs[made];
                at->summed[target]++;
            } else if (outputs[made] != CAIRN_NONE) {
                CRN_TRY(contribute(at, forward_id, target, outputs[made]));
            }
            made++;
        }
    }
    return CAIRN_OK;
}

static cairn_status apply(work *at, const crn_rule *r, cairn_id forward_id, uint32_t input,
                          cairn_id *handed) {
    const cairn_op *forward = &at->forward->ops.data[forward_id];
    if (!writes_something_wanted(at, r, forward, input))
        return CAIRN_OK;
    cairn_id inputs[CRN_LENGTH(r->reads)], params[CRN_LENGTH(r->params)];
    cairn_id outputs[CRN_LENGTH(r->writes)];
    char name[256];
    const char *suffix = strstr(crn_op_kinds[r->backward].name, "bwd");
    snprintf(name, sizeof name, "%s.%s", forward->name, suffix);
    if (r->each_input)
        snprintf(name, sizeof name, "%s.bwd.%u", forward->name, input);
    cairn_op op = {.name = name,
                   .kind = r->backward,
                   .phase = CAIRN_PHASE_BACKWARD,
                   .of = forward_id,
                   .inputs = inputs,
                   .params = params,
                   .outputs = outputs,
                   .inplace = crn_op_kinds[r->backward].inplace,
                   .inplace_count = crn_op_kinds[r->backward].inplace_count,
                   .attributes = forward->attributes};
    for (uint32_t i = 0; i < CRN_LENGTH(r->reads) && r->reads[i].what != CRN_NOTHING; i++) {
        inputs[op.input_count] = resolve(at, forward, r->reads[i], *handed);
        op.input_count += inputs[op.input_count] != CAIRN_NONE;
    }
    for (uint32_t i = 0; i < CRN_LENGTH(r->params) && r->params[i].what != CRN_NOTHING; i++)
        params[op.param_count++] = resolve(at, forward, r->params[i], *handed);
    if (r->each_input)
        op.attributes.index = crn_channel_offset(at->forward, forward, input);
    CRN_TRY(make_outputs(at, r, forward, input, &op, outputs, handed));
    /* The op cannot work in place on a result that it does not compute, or on an operand that is
     * not there. */
    if (op.inplace_count > 0 &&
        (outputs[op.inplace[0].output] == CAIRN_NONE || op.inplace[0].input >= op.input_count))
        op.inplace_count = 0;
    CRN_TRY(crn_builder_add_op(at->builder, &op, &(cairn_id){0}));
    return spread(at, r, forward_id, input, outputs);
}

static cairn_status differentiate_op(work *at, cairn_id id, cairn_error *err) {
    const cairn_op *op = &at->forward->ops.data[id];
    bool is_loss = at->forward->tensors.data[op->outputs[0]].role == CAIRN_ROLE_LOSS;
    if (!at->wanted[op->outputs[0]] || (!is_loss && at->gradient[op->outputs[0]] == CAIRN_NONE))
        return CAIRN_OK; /* no gradient is computed upstream, or the loss does not depend on it */
    cairn_id handed = CAIRN_NONE;
    bool any = crn_op_kinds[op->kind].passes;
    for (const crn_rule *r = crn_rules; r < crn_rules + crn_rule_count; r++) {
        if (r->forward != op->kind)
            continue;
        any = true;
        uint32_t times = r->each_input ? op->input_count : 1;
        for (uint32_t input = 0; input < times; input++)
            CRN_TRY(apply(at, r, id, input, &handed));
    }
    for (uint32_t i = 0; i < op->input_count && crn_op_kinds[op->kind].passes; i++)
        if (at->wanted[op->inputs[i]])
            CRN_TRY(contribute(at, id, op->inputs[i], at->gradient[op->outputs[0]]));
    if (!any)
        return crn_fail_at(
            err, CAIRN_EINVAL, op->name,
            "op \"%s\" (%s) cannot be differentiated; give its backward ops yourself", op->name,
            crn_op_kinds[op->kind].name);
    return CAIRN_OK;
}

static cairn_status want_one_loss(const cairn_graph *forward, cairn_error *err) {
    uint32_t losses = 0;
    for (cairn_id t = 0; t < forward->tensors.length; t++)
        losses += forward->tensors.data[t].role == CAIRN_ROLE_LOSS;
    if (losses != 1)
        return crn_fail(err, CAIRN_EINVAL,
                        losses == 0 ? "graph \"%s\" has no loss to differentiate"
                                    : "graph \"%s\" has several losses; sum them into one",
                        forward->name);
    for (cairn_id o = 0; o < forward->ops.length; o++)
        if (forward->ops.data[o].phase != CAIRN_PHASE_FORWARD)
            return crn_fail(err, CAIRN_EINVAL, "graph \"%s\" has backward ops already",
                            forward->name);
    return CAIRN_OK;
}

/* ---- A joined head ----
 *
 *     x -> linear -> logits -> token_cross_entropy -> loss, probabilities
 *     x -> head_loss -> loss, gradient of x, gradient of the weight
 *
 * The gradients take the ids of the logits and of the probabilities, so that all other tensors keep
 * theirs. */

/* Whether the network ends so, with a layer without bias whose logits only the loss reads. */
static bool ends_in_head(const work *at) {
    const cairn_graph *g = at->forward;
    if (g->ops.length < 3)
        return false;
    const cairn_op *loss = &g->ops.data[g->ops.length - 1], *layer = loss - 1;
    if (loss->kind != CAIRN_OP_TOKEN_CROSS_ENTROPY || layer->kind != CAIRN_OP_LINEAR ||
        layer->param_count != 1 || layer->outputs[0] != loss->inputs[0] ||
        g->tensors.data[layer->inputs[0]].rank > 3)
        return false;
    uint32_t readers, others;
    crn_graph_readers(g, loss->inputs[0], &readers);
    crn_graph_readers(g, loss->outputs[1], &others);
    return readers == 1 && others == 0 && !g->tensors.data[loss->outputs[1]].result &&
           g->tensors.data[layer->inputs[0]].role == CAIRN_ROLE_ACTIVATION &&
           at->wanted[layer->inputs[0]] && at->wanted[layer->params[0]];
}

/* The first contribution to the gradient of `of`, instead of forward tensor `instead`. */
static cairn_status begin_gradient(work *at, cairn_id of, cairn_id instead) {
    bool stationary = at->forward->tensors.data[of].stationary;
    CRN_TRY(add_gradient(at, of, "grad", stationary, CAIRN_NONE, &at->gradient[of]));
    at->summed[of] = 1;
    return at->gradient[of] == instead ? CAIRN_OK : CAIRN_EINVAL;
}

static cairn_status copy_tensors(work *at) {
    const cairn_graph *g = at->forward;
    const cairn_op *loss = &g->ops.data[g->ops.length - 1], *layer = loss - 1;
    for (cairn_id t = 0; t < g->tensors.length; t++) {
        if (at->joins && t == loss->inputs[0])
            CRN_TRY(begin_gradient(at, layer->inputs[0], t));
        else if (at->joins && t == loss->outputs[1])
            CRN_TRY(begin_gradient(at, layer->params[0], t));
        else
            CRN_TRY(crn_builder_add_tensor(at->builder, &g->tensors.data[t], &(cairn_id){0}));
    }
    return CAIRN_OK;
}

static cairn_status add_head(work *at) {
    const cairn_graph *g = at->forward;
    const cairn_op *loss = &g->ops.data[g->ops.length - 1], *layer = loss - 1;
    cairn_op op = {.name = layer->name,
                   .kind = CAIRN_OP_HEAD_LOSS,
                   .phase = CAIRN_PHASE_BACKWARD,
                   .of = CAIRN_NONE,
                   .flags = CAIRN_OP_FLAG_NEVER_AGAIN,
                   .input_count = 2,
                   .inputs = (cairn_id[]){layer->inputs[0], loss->inputs[1]},
                   .param_count = 1,
                   .params = layer->params,
                   .output_count = 3,
                   .outputs = (cairn_id[]){loss->outputs[0], loss->inputs[0], loss->outputs[1]},
                   .attributes = loss->attributes};
    op.attributes.deviation = layer->attributes.deviation;
    return crn_builder_add_op(at->builder, &op, &(cairn_id){0});
}

static cairn_status differentiate(work *at, crn_arena *scratch,
                                  const cairn_differentiate_options *options, cairn_error *err) {
    const cairn_graph *g = at->forward;
    CRN_TAKE(scratch, at->wanted, g->tensors.length);
    CRN_TAKE(scratch, at->gradient, g->tensors.length);
    CRN_TAKE(scratch, at->summed, g->tensors.length);
    find_wanted(at, options->input_gradients);
    at->joins = options->join_head && ends_in_head(at);
    uint32_t ops = g->ops.length - (at->joins ? 2 : 0);
    CRN_TRY(copy_tensors(at));
    for (cairn_id o = 0; o < ops; o++)
        CRN_TRY(crn_builder_add_op(at->builder, &g->ops.data[o], &(cairn_id){0}));
    if (at->joins)
        CRN_TRY(add_head(at));
    for (cairn_id o = ops; o-- > 0;)
        if (g->ops.data[o].output_count > 0)
            CRN_TRY(differentiate_op(at, o, err));
    return CAIRN_OK;
}

cairn_status cairn_graph_differentiate(const cairn_graph *forward,
                                       const cairn_differentiate_options *given, cairn_graph **out,
                                       cairn_error *err) {
    cairn_differentiate_options options = CAIRN_DIFFERENTIATE_OPTIONS_INIT;
    *out = NULL;
    crn_error_clear(err);
    CRN_READ_OPTIONS(cairn_differentiate_options, options, given, err);
    CRN_TRY(want_one_loss(forward, err));
    work at = {.forward = forward};
    cairn_status status =
        cairn_builder_create(&forward->arena.allocator, forward->name, &at.builder);
    if (status != CAIRN_OK)
        return crn_fail_memory(err);
    crn_arena scratch;
    crn_arena_init(&scratch, &forward->arena.allocator);
    status = differentiate(&at, &scratch, &options, err);
    if (status == CAIRN_OK)
        status = cairn_builder_finish(at.builder, out, err);
    else if (at.builder->err.status == status && err != NULL)
        *err = at.builder->err;
    crn_arena_release(&scratch);
    cairn_builder_destroy(at.builder);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}
