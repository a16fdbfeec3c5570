/* derivatives.c: backward ops from one table of rules, one or two rules per forward kind.
 *
 * A rule says what a backward op reads of the forward pass (its needs), what it writes, and where
 * it may work in place. Everything else follows:
 *
 *     forward op   y = f(x; w)              X(i) inputs, Y(i) outputs, W(i) parameters
 *     backward op  gx, gw = f'(x?, y?, gy)  GY(i), GX(i), GW(i) their gradients
 *
 * T(0) is a tensor that one rule of an op hands to the next (the gradient before a cell's
 * activation). Rules of an op are applied in order; weight gradients come before data gradients so
 * that an input that only the weight gradient reads is gone before the data gradient is made. */
#include "graph/graph_internal.h"

#include <stdio.h>

typedef enum what {
    NOTHING,
    FORWARD_INPUT,
    FORWARD_OUTPUT,
    PARAM,
    GRAD_OUTPUT,
    GRAD_INPUT,
    GRAD_PARAM,
    HANDED
} what;

typedef struct operand {
    uint8_t what, index;
} operand;

#define X(i)                                                                                       \
    { FORWARD_INPUT, i }
#define Y(i)                                                                                       \
    { FORWARD_OUTPUT, i }
#define W(i)                                                                                       \
    { PARAM, i }
#define GY(i)                                                                                      \
    { GRAD_OUTPUT, i }
#define GX(i)                                                                                      \
    { GRAD_INPUT, i }
#define GW(i)                                                                                      \
    { GRAD_PARAM, i }
#define T(i)                                                                                       \
    { HANDED, i }

typedef struct rule {
    cairn_op_kind forward, backward;
    operand reads[4], params[2], writes[4];
    cairn_inplace inplace[2];
    uint8_t inplace_count;
    operand handed_like; /* T(0) has the shape of this */
    bool each_input;     /* one op per input, which is GX(0) */
    bool alias;          /* the gradient is an alias of what is read */
} rule;

static const rule rules[] = {
    {CAIRN_OP_CONV2D, CAIRN_OP_CONV2D_BWD_WEIGHT, .reads = {X(0), GY(0)}, .writes = {GW(0), GW(1)}},
    {CAIRN_OP_CONV2D, CAIRN_OP_CONV2D_BWD_DATA, .reads = {GY(0)}, .params = {W(0)},
     .writes = {GX(0)}},
    {CAIRN_OP_CONV_TRANSPOSE2D, CAIRN_OP_CONV_TRANSPOSE2D_BWD_WEIGHT, .reads = {X(0), GY(0)},
     .writes = {GW(0), GW(1)}},
    {CAIRN_OP_CONV_TRANSPOSE2D, CAIRN_OP_CONV_TRANSPOSE2D_BWD_DATA, .reads = {GY(0)},
     .params = {W(0)}, .writes = {GX(0)}},
    {CAIRN_OP_LINEAR, CAIRN_OP_LINEAR_BWD_WEIGHT, .reads = {X(0), GY(0)}, .writes = {GW(0), GW(1)}},
    {CAIRN_OP_LINEAR, CAIRN_OP_LINEAR_BWD_DATA, .reads = {GY(0)}, .params = {W(0)},
     .writes = {GX(0)}},
    {CAIRN_OP_BATCH_NORM, CAIRN_OP_BATCH_NORM_BWD, .reads = {X(0), Y(1), GY(0)}, .params = {W(0)},
     .writes = {GX(0), GW(0), GW(1)}, .inplace = {{0, 2}}, .inplace_count = 1},
    {CAIRN_OP_RELU, CAIRN_OP_RELU_BWD, .reads = {Y(0), GY(0)}, .writes = {GX(0)},
     .inplace = {{0, 1}, {0, 0}}, .inplace_count = 2},
    {CAIRN_OP_DROPOUT, CAIRN_OP_DROPOUT_BWD, .reads = {GY(0)}, .writes = {GX(0)},
     .inplace = {{0, 0}}, .inplace_count = 1},
    {CAIRN_OP_MAX_POOL, CAIRN_OP_MAX_POOL_BWD, .reads = {Y(1), GY(0)}, .writes = {GX(0)}},
    {CAIRN_OP_AVG_POOL, CAIRN_OP_AVG_POOL_BWD, .reads = {GY(0)}, .writes = {GX(0)}},
    {CAIRN_OP_ADAPTIVE_AVG_POOL, CAIRN_OP_ADAPTIVE_AVG_POOL_BWD, .reads = {GY(0)},
     .writes = {GX(0)}},
    {CAIRN_OP_CONCAT, CAIRN_OP_CONCAT_BWD, .reads = {GY(0)}, .writes = {GX(0)}, .each_input = true},
    {CAIRN_OP_FLATTEN, CAIRN_OP_FLATTEN_BWD, .reads = {GY(0)}, .writes = {GX(0)}, .alias = true},
    {CAIRN_OP_SELECT, CAIRN_OP_SELECT_BWD, .reads = {GY(0)}, .writes = {GX(0)}},
    {CAIRN_OP_RNN_CELL, CAIRN_OP_RNN_CELL_BWD_DATA, .reads = {Y(0), GY(0)}, .params = {W(0), W(1)},
     .writes = {T(0), GX(1), GX(0)}, .inplace = {{0, 1}}, .inplace_count = 1, .handed_like = Y(0)},
    {CAIRN_OP_RNN_CELL, CAIRN_OP_RNN_CELL_BWD_WEIGHT, .reads = {X(0), X(1), T(0)},
     .writes = {GW(0), GW(1), GW(2), GW(3)}},
    {CAIRN_OP_LSTM_CELL, CAIRN_OP_LSTM_CELL_BWD_DATA, .reads = {X(1), Y(0), Y(1), GY(0)},
     .params = {W(0), W(1)}, .writes = {T(0), GX(1), GX(0)}, .inplace = {{0, 2}},
     .inplace_count = 1, .handed_like = Y(1)},
    {CAIRN_OP_LSTM_CELL, CAIRN_OP_LSTM_CELL_BWD_WEIGHT, .reads = {X(0), X(1), T(0)},
     .writes = {GW(0), GW(1), GW(2), GW(3)}},
    {CAIRN_OP_CROSS_ENTROPY, CAIRN_OP_CROSS_ENTROPY_BWD, .reads = {Y(1), X(1)}, .writes = {GX(0)},
     .inplace = {{0, 0}}, .inplace_count = 1},
};
/* An addition has no backward op: its gradient is the gradient of both inputs. */

#undef X
#undef Y
#undef W
#undef GY
#undef GX
#undef GW
#undef T

uint32_t crn_forward_inplace(cairn_op_kind kind, const cairn_inplace **out) {
    static const cairn_inplace first[] = {{0, 0}}, either[] = {{0, 0}, {0, 1}};
    static const cairn_inplace probabilities[] = {{1, 0}};
    *out = first;
    switch (kind) {
    case CAIRN_OP_RELU:
    case CAIRN_OP_DROPOUT:
    case CAIRN_OP_BATCH_NORM:
        return 1;
    case CAIRN_OP_ADD:
    case CAIRN_OP_ACCUMULATE:
        *out = either;
        return 2;
    case CAIRN_OP_CROSS_ENTROPY:
        *out = probabilities;
        return 1;
    default:
        *out = NULL;
        return 0;
    }
}

/* ---- Differentiation ---- */

typedef struct work {
    cairn_builder *builder;
    const cairn_graph *forward;
    bool *wanted;       /* per forward tensor: its gradient is */
    cairn_id *gradient; /* per forward tensor: the sum so far, in the new graph */
    uint32_t *summed;   /* per forward tensor: contributions so far */
} work;

/* Gradients are wanted of parameters and of whatever lies downstream of one. */
static void find_wanted(work *at, bool inputs) {
    const cairn_graph *g = at->forward;
    for (cairn_id t = 0; t < g->tensors.length; t++) {
        cairn_role role = g->tensors.data[t].role;
        at->wanted[t] = role == CAIRN_PARAMETER || (inputs && role == CAIRN_INPUT);
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
    tensor.role = CAIRN_GRADIENT;
    tensor.gradient_of = of;
    tensor.alias_of = alias_of;
    tensor.stationary = stationary;
    return crn_builder_add_tensor(at->builder, &tensor, out);
}

/* A new contribution to the gradient of forward tensor `of` arrives as `part`, through the forward
 * op `through`: the first is the gradient, later ones are added to it at once by an op of their
 * own. */
static cairn_status contribute(work *at, cairn_id through, cairn_id of, cairn_id part) {
    if (at->summed[of]++ == 0) {
        at->gradient[of] = part;
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
                   .phase = CAIRN_BACKWARD,
                   .of = through,
                   .flags = stationary ? CAIRN_OP_NEVER_AGAIN : 0,
                   .input_count = 2,
                   .inputs = (cairn_id[]){at->gradient[of], part},
                   .output_count = 1,
                   .outputs = &sum};
    op.inplace_count = crn_forward_inplace(op.kind, &op.inplace);
    if (stationary)
        op.inplace_count = 1; /* into the sum so far, which is the first */
    at->gradient[of] = sum;
    return crn_builder_add_op(at->builder, &op, &(cairn_id){0});
}

/* The forward tensor whose gradient a written operand is; CAIRN_NONE: the op has no such parameter.
 */
static cairn_id target_of(const cairn_op *op, operand written, uint32_t input) {
    if (written.what == GRAD_INPUT)
        return op->inputs[written.index + input];
    return written.index < op->param_count ? op->params[written.index] : CAIRN_NONE;
}

/* An operand that a rule reads, as a tensor of the new graph; forward tensors keep their ids. */
static cairn_id resolve(const work *at, const cairn_op *op, operand read, cairn_id handed) {
    switch (read.what) {
    case FORWARD_INPUT:
        return op->inputs[read.index];
    case FORWARD_OUTPUT:
        return op->outputs[read.index];
    case PARAM:
        return op->params[read.index];
    case GRAD_OUTPUT:
        return at->gradient[op->outputs[read.index]];
    default:
        return handed;
    }
}

static bool writes_something_wanted(const work *at, const rule *r, const cairn_op *op,
                                    uint32_t input) {
    for (uint32_t i = 0; i < CRN_LENGTH(r->writes) && r->writes[i].what != NOTHING; i++) {
        if (r->writes[i].what == HANDED)
            return true;
        cairn_id target = target_of(op, r->writes[i], input);
        if (target != CAIRN_NONE && at->wanted[target])
            return true;
    }
    return false;
}

/* Make the tensors that a backward op writes. */
static cairn_status make_outputs(work *at, const rule *r, const cairn_op *forward, uint32_t input,
                                 cairn_op *op, cairn_id *outputs, cairn_id *handed) {
    for (uint32_t i = 0; i < CRN_LENGTH(r->writes) && r->writes[i].what != NOTHING; i++) {
        if (r->writes[i].what == HANDED) {
            cairn_id like = resolve(at, forward, r->handed_like, CAIRN_NONE);
            CRN_TRY(add_gradient(at, like, "pregrad", false, CAIRN_NONE, handed));
            outputs[op->output_count++] = *handed;
            continue;
        }
        cairn_id target = target_of(forward, r->writes[i], input);
        if (target == CAIRN_NONE)
            continue;
        cairn_id made = CAIRN_NONE;
        if (at->wanted[target]) {
            uint32_t before = at->summed[target];
            bool stationary = r->writes[i].what == GRAD_PARAM && before == 0;
            char suffix[32] = "grad";
            if (before > 0)
                snprintf(suffix, sizeof suffix, "grad.%u", before + 1);
            cairn_id root = CAIRN_NONE;
            if (r->alias)
                root = cairn_graph_storage(at->builder->graph, op->inputs[0]);
            CRN_TRY(add_gradient(at, target, suffix, stationary, root, &made));
            if (stationary)
                op->flags |= CAIRN_OP_NEVER_AGAIN;
        }
        outputs[op->output_count++] = made;
    }
    return CAIRN_OK;
}

/* Which forward tensor each output of the op just made contributes to. */
static cairn_status spread(work *at, const rule *r, cairn_id forward_id, uint32_t input,
                           const cairn_id *outputs) {
    const cairn_op *forward = &at->forward->ops.data[forward_id];
    uint32_t made = 0;
    for (uint32_t i = 0; i < CRN_LENGTH(r->writes) && r->writes[i].what != NOTHING; i++) {
        cairn_id target =
            r->writes[i].what == HANDED ? CAIRN_NONE : target_of(forward, r->writes[i], input);
        if (r->writes[i].what == HANDED) {
            made++;
        } else if (target != CAIRN_NONE) {
            if (outputs[made] != CAIRN_NONE)
                CRN_TRY(contribute(at, forward_id, target, outputs[made]));
            made++;
        }
    }
    return CAIRN_OK;
}

/* The first channel of input `input` in a concatenation. */
static int32_t channel_offset(const cairn_graph *graph, const cairn_op *concat, uint32_t input) {
    uint32_t offset = 0;
    for (uint32_t i = 0; i < input; i++)
        offset += graph->tensors.data[concat->inputs[i]].shape[1];
    return (int32_t)offset;
}

static cairn_status apply(work *at, const rule *r, cairn_id forward_id, uint32_t input,
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
                   .phase = CAIRN_BACKWARD,
                   .of = forward_id,
                   .inputs = inputs,
                   .params = params,
                   .outputs = outputs,
                   .inplace = r->inplace,
                   .inplace_count = r->inplace_count,
                   .attributes = forward->attributes};
    for (uint32_t i = 0; i < CRN_LENGTH(r->reads) && r->reads[i].what != NOTHING; i++)
        inputs[op.input_count++] = resolve(at, forward, r->reads[i], *handed);
    for (uint32_t i = 0; i < CRN_LENGTH(r->params) && r->params[i].what != NOTHING; i++)
        params[op.param_count++] = resolve(at, forward, r->params[i], *handed);
    if (r->each_input)
        op.attributes.index = channel_offset(at->forward, forward, input);
    CRN_TRY(make_outputs(at, r, forward, input, &op, outputs, handed));
    /* A permission for a result that is not wanted is no permission. */
    if (op.inplace_count > 0 && outputs[op.inplace[0].output] == CAIRN_NONE)
        op.inplace_count = 0;
    CRN_TRY(crn_builder_add_op(at->builder, &op, &(cairn_id){0}));
    return spread(at, r, forward_id, input, outputs);
}

static cairn_status differentiate_op(work *at, cairn_id id, cairn_error *err) {
    const cairn_op *op = &at->forward->ops.data[id];
    bool is_loss = at->forward->tensors.data[op->outputs[0]].role == CAIRN_LOSS;
    if (!at->wanted[op->outputs[0]] || (!is_loss && at->gradient[op->outputs[0]] == CAIRN_NONE))
        return CAIRN_OK; /* nothing wanted upstream, or the loss does not depend on it */
    if (op->kind == CAIRN_OP_ADD) {
        for (uint32_t i = 0; i < 2; i++)
            if (at->wanted[op->inputs[i]])
                CRN_TRY(contribute(at, id, op->inputs[i], at->gradient[op->outputs[0]]));
        return CAIRN_OK;
    }
    cairn_id handed = CAIRN_NONE;
    bool any = false;
    for (const rule *r = rules; r < rules + CRN_LENGTH(rules); r++) {
        if (r->forward != op->kind)
            continue;
        any = true;
        uint32_t times = r->each_input ? op->input_count : 1;
        for (uint32_t input = 0; input < times; input++)
            CRN_TRY(apply(at, r, id, input, &handed));
    }
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
        losses += forward->tensors.data[t].role == CAIRN_LOSS;
    if (losses != 1)
        return crn_fail(err, CAIRN_EINVAL,
                        losses == 0 ? "graph \"%s\" has no loss to differentiate"
                                    : "graph \"%s\" has several losses; sum them into one",
                        forward->name);
    for (cairn_id o = 0; o < forward->ops.length; o++)
        if (forward->ops.data[o].phase != CAIRN_FORWARD)
            return crn_fail(err, CAIRN_EINVAL, "graph \"%s\" has backward ops already",
                            forward->name);
    return CAIRN_OK;
}

static cairn_status differentiate(work *at, crn_arena *scratch, bool inputs, cairn_error *err) {
    const cairn_graph *g = at->forward;
    CRN_TAKE(scratch, at->wanted, g->tensors.length);
    CRN_TAKE(scratch, at->gradient, g->tensors.length);
    CRN_TAKE(scratch, at->summed, g->tensors.length);
    find_wanted(at, inputs);
    cairn_id same;
    for (cairn_id t = 0; t < g->tensors.length; t++)
        CRN_TRY(crn_builder_add_tensor(at->builder, &g->tensors.data[t], &same));
    for (cairn_id o = 0; o < g->ops.length; o++)
        CRN_TRY(crn_builder_add_op(at->builder, &g->ops.data[o], &same));
    for (cairn_id o = g->ops.length; o-- > 0;)
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
    status = differentiate(&at, &scratch, options.input_gradients, err);
    if (status == CAIRN_OK)
        status = cairn_builder_finish(at.builder, out, err);
    else if (at.builder->err.status == status && err != NULL)
        *err = at.builder->err;
    crn_arena_release(&scratch);
    cairn_builder_destroy(at.builder);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

/* ---- Checking backward ops that were read from a file ---- */

static const rule *find_rule(const cairn_graph *graph, const cairn_op *op) {
    if (op->of == CAIRN_NONE)
        return NULL;
    for (const rule *r = rules; r < rules + CRN_LENGTH(rules); r++)
        if (r->forward == graph->ops.data[op->of].kind && r->backward == op->kind)
            return r;
    return NULL;
}

/* Whether `tensor` can be what the rule wants in that place. */
static bool fits(const cairn_graph *graph, const rule *r, const cairn_op *forward, operand wanted,
                 uint32_t input, cairn_id tensor) {
    const cairn_tensor *given = &graph->tensors.data[tensor];
    cairn_id like;
    switch (wanted.what) {
    case FORWARD_INPUT:
        return tensor == forward->inputs[wanted.index];
    case FORWARD_OUTPUT:
        return tensor == forward->outputs[wanted.index];
    case PARAM:
        return tensor == forward->params[wanted.index];
    case GRAD_OUTPUT:
        like = forward->outputs[wanted.index];
        break;
    case HANDED:
        like = r->handed_like.what == NOTHING ? given->gradient_of
                                              : (r->handed_like.what == FORWARD_OUTPUT
                                                     ? forward->outputs
                                                     : forward->inputs)[r->handed_like.index];
        break;
    default:
        like = target_of(forward, wanted, input);
    }
    return like != CAIRN_NONE && given->role == CAIRN_GRADIENT &&
           crn_same_shape(given, &graph->tensors.data[like]);
}

static bool fit_all(const cairn_graph *graph, const rule *r, const cairn_op *forward,
                    const operand *wanted, uint32_t places, uint32_t input, const cairn_id *given,
                    uint32_t count) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < places && wanted[i].what != NOTHING; i++) {
        bool written = wanted[i].what == GRAD_PARAM;
        if (written && target_of(forward, wanted[i], input) == CAIRN_NONE)
            continue; /* a bias that the layer does not have */
        if (used == count)
            return false;
        cairn_id tensor = given[used++];
        if (tensor != CAIRN_NONE && !fits(graph, r, forward, wanted[i], input, tensor))
            return false;
    }
    return used == count;
}

cairn_status crn_check_derivative(const cairn_graph *graph, const cairn_op *op, cairn_error *err) {
    if (op->kind == CAIRN_OP_ACCUMULATE) {
        const cairn_tensor *t = graph->tensors.data;
        if (op->outputs[0] != CAIRN_NONE && crn_same_shape(&t[op->inputs[0]], &t[op->outputs[0]]) &&
            crn_same_shape(&t[op->inputs[1]], &t[op->outputs[0]]))
            return CAIRN_OK;
        return crn_fail_at(err, CAIRN_EINVAL, op->name,
                           "op \"%s\" (accumulate) adds tensors of different shapes", op->name);
    }
    const rule *r = find_rule(graph, op);
    if (r == NULL)
        return crn_fail_at(
            err, CAIRN_EINVAL, op->name,
            "op \"%s\" is a %s but does not differentiate an op of the kind that has "
            "one; check its \"of\"",
            op->name, crn_op_kinds[op->kind].name);
    const cairn_op *forward = &graph->ops.data[op->of];
    if (op->kind == CAIRN_OP_CROSS_ENTROPY_BWD &&
        op->attributes.smoothing != forward->attributes.smoothing)
        return crn_fail_at(err, CAIRN_EINVAL, op->name,
                           "op \"%s\" does not have the smoothing of \"%s\"", op->name,
                           forward->name);
    for (uint32_t input = 0; input < (r->each_input ? forward->input_count : 1); input++) {
        if (r->each_input && op->attributes.index != channel_offset(graph, forward, input))
            continue;
        if (fit_all(graph, r, forward, r->reads, CRN_LENGTH(r->reads), input, op->inputs,
                    op->input_count) &&
            fit_all(graph, r, forward, r->params, CRN_LENGTH(r->params), input, op->params,
                    op->param_count) &&
            fit_all(graph, r, forward, r->writes, CRN_LENGTH(r->writes), input, op->outputs,
                    op->output_count))
            return CAIRN_OK;
    }
    return crn_fail_at(err, CAIRN_EINVAL, op->name,
                       "op \"%s\" (%s) does not read and write what the derivative of \"%s\" does",
                       op->name, crn_op_kinds[op->kind].name, forward->name);
}

cairn_status cairn_graph_complete(cairn_graph **graph, cairn_error *err) {
    cairn_graph_summary summary;
    cairn_graph *step;
    crn_error_clear(err);
    cairn_graph_summarize(*graph, &summary);
    if (summary.backward_ops > 0 || summary.loss == CAIRN_NONE)
        return CAIRN_OK;
    CRN_TRY(cairn_graph_differentiate(*graph, NULL, &step, err));
    cairn_graph_destroy(*graph);
    *graph = step;
    return CAIRN_OK;
}
