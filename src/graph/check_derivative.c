/* check_derivative.c: checks backward ops that were read from a file against the rules. */
#include "graph/derivative_rules.h"

static const crn_rule *find_rule(const cairn_graph *graph, const cairn_op *op) {
    if (op->of == CAIRN_NONE)
        return NULL;
    for (const crn_rule *r = crn_rules; r < crn_rules + crn_rule_count; r++)
        if (r->forward == graph->ops.data[op->of].kind && r->backward == op->kind)
            return r;
    return NULL;
}

/* Whether `tensor` can be the operand that the rule names. */
static bool fits(const cairn_graph *graph, const crn_rule *r, const cairn_op *forward,
                 crn_operand wanted, uint32_t input, cairn_id tensor) {
    const cairn_tensor *given = &graph->tensors.data[tensor];
    cairn_id like;
    switch (wanted.what) {
    case CRN_FORWARD_INPUT:
        return tensor == forward->inputs[wanted.index];
    case CRN_FORWARD_OUTPUT:
        return tensor == forward->outputs[wanted.index];
    case CRN_PARAM:
        return tensor == forward->params[wanted.index];
    case CRN_GRAD_OUTPUT:
        like = forward->outputs[wanted.index];
        break;
    case CRN_HANDED:
        like = r->handed_like.what == CRN_NOTHING ? given->gradient_of
                                                  : (r->handed_like.what == CRN_FORWARD_OUTPUT
                                                         ? forward->outputs
                                                         : forward->inputs)[r->handed_like.index];
        break;
    default:
        like = crn_rule_target(forward, wanted, input);
    }
    return like != CAIRN_NONE && given->role == CAIRN_ROLE_GRADIENT &&
           crn_same_shape(given, &graph->tensors.data[like]);
}

static bool fit_all(const cairn_graph *graph, const crn_rule *r, const cairn_op *forward,
                    const crn_operand *wanted, uint32_t places, uint32_t input,
                    const cairn_id *given, uint32_t count) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < places && wanted[i].what != CRN_NOTHING; i++) {
        bool written = wanted[i].what == CRN_GRAD_PARAM;
        if (written && crn_rule_target(forward, wanted[i], input) == CAIRN_NONE)
            continue; /* a bias that the layer does not have */
        if (used == count && wanted[i].what == CRN_SUM_PARAM)
            break; /* the first term of a gradient */
        if (used == count)
            return false;
        cairn_id tensor = given[used++];
        if (tensor != CAIRN_NONE && !fits(graph, r, forward, wanted[i], input, tensor))
            return false;
    }
    return used == count;
}

/* Whether a slot is that of rows `index` and following of a parameter or gradient. */
static bool is_slot_of(const cairn_tensor *slot, const cairn_tensor *whole, int32_t index) {
    cairn_tensor rows = *whole;
    rows.shape[0] = slot->shape[0];
    return slot->role == CAIRN_ROLE_SLOT && crn_same_shape(slot, &rows) &&
           slot->shape[0] <= whole->shape[0] && (uint32_t)index <= whole->shape[0] - slot->shape[0];
}

/* A sum of squares reads a gradient and the sum before; its slot is that of rows of the gradient.
 */
static cairn_status check_squares(const cairn_graph *graph, const cairn_op *op, cairn_error *err) {
    const cairn_tensor *t = graph->tensors.data, *gradient = &t[op->inputs[0]];
    bool fits = gradient->role == CAIRN_ROLE_GRADIENT &&
                !crn_graph_is_square_sum(graph, op->inputs[0]) && op->attributes.index >= 0 &&
                op->outputs[0] != CAIRN_NONE && t[op->outputs[0]].role == CAIRN_ROLE_GRADIENT &&
                t[op->outputs[0]].rank == 1 && t[op->outputs[0]].shape[0] == 1;
    if (fits && op->input_count > 1)
        fits = crn_graph_is_square_sum(graph, op->inputs[1]);
    if (fits && op->param_count > 0)
        fits = is_slot_of(&t[op->params[0]], gradient, op->attributes.index);
    return fits ? CAIRN_OK
                : crn_fail_at(err, CAIRN_EINVAL, op->name,
                              "op \"%s\" (square_sum) does not add the squares of a gradient to a "
                              "sum, or its slot does not fit",
                              op->name);
}

/* Whether an update reads what it should: the gradient of its parameter, the sum of squares or, in
 * this order, both. Without the gradient the last slot, which has the sum of gradients, replaces
 * it. */
static bool reads_gradient(const cairn_graph *graph, const cairn_op *op) {
    const cairn_tensor *t = graph->tensors.data, *first = &t[op->inputs[0]];
    if (op->input_count == 2 && !crn_graph_is_square_sum(graph, op->inputs[1]))
        return false;
    if (crn_graph_is_square_sum(graph, op->inputs[0]))
        return op->input_count == 1 && op->param_count > 1;
    return first->role == CAIRN_ROLE_GRADIENT && crn_same_shape(first, &t[op->params[0]]);
}

/* The slots of an update, all of one shape, are those of rows `index` and following. */
static cairn_status check_update(const cairn_graph *graph, const cairn_op *op, cairn_error *err) {
    const cairn_tensor *t = graph->tensors.data, *parameter = &t[op->params[0]];
    bool fits = parameter->role == CAIRN_ROLE_PARAMETER && reads_gradient(graph, op) &&
                op->attributes.index >= 0;
    for (uint32_t i = 1; i < op->param_count && fits; i++)
        fits = is_slot_of(&t[op->params[i]], parameter, op->attributes.index) &&
               crn_same_shape(&t[op->params[i]], &t[op->params[1]]);
    return fits ? CAIRN_OK
                : crn_fail_at(err, CAIRN_EINVAL, op->name,
                              "op \"%s\" (update) does not read the gradient of its parameter, or "
                              "its slots do not fit it",
                              op->name);
}

/* x [..., D], labels [...]; weight [V, D] -> loss, gradients of x and of the weight */
static cairn_status check_head(const cairn_graph *graph, const cairn_op *op, cairn_error *err) {
    const cairn_tensor *t = graph->tensors.data, *x = &t[op->inputs[0]];
    const cairn_tensor *labels = &t[op->inputs[1]], *weight = &t[op->params[0]];
    bool fits = op->outputs[0] != CAIRN_NONE && op->outputs[1] != CAIRN_NONE &&
                op->outputs[2] != CAIRN_NONE && x->dtype == CAIRN_DTYPE_F32 && x->rank >= 2 &&
                x->rank <= 3 && labels->dtype == CAIRN_DTYPE_I32 && labels->rank == x->rank - 1 &&
                weight->rank == 2 && weight->shape[1] == x->shape[x->rank - 1] &&
                op->attributes.smoothing >= 0 && op->attributes.smoothing < 1;
    for (uint32_t i = 0; fits && i < labels->rank; i++)
        fits = labels->shape[i] == x->shape[i];
    fits = fits && t[op->outputs[0]].bytes == sizeof(float) &&
           crn_same_shape(&t[op->outputs[1]], x) && crn_same_shape(&t[op->outputs[2]], weight);
    return fits ? CAIRN_OK
                : crn_fail_at(err, CAIRN_EINVAL, op->name,
                              "op \"%s\" (head_loss) does not read sequences, their labels and a "
                              "weight that fits them, or make the loss and both gradients",
                              op->name);
}

/* Kernels rely on a backward op having the attributes of its forward op. The one exception is the
 * place of an input in a concatenation. */
static cairn_status check_attributes(const cairn_op *op, const cairn_op *forward, bool each_input,
                                     cairn_error *err) {
    uint32_t both = crn_op_kinds[op->kind].attributes & crn_op_kinds[forward->kind].attributes;
    for (size_t k = 0; k < crn_attribute_count; k++) {
        const crn_attribute *a = &crn_attribute_list[k];
        size_t size = a->count == 0 ? sizeof(double) : a->count * sizeof(int32_t);
        if ((both & a->bit) == 0 || (each_input && a->bit == A_INDEX))
            continue;
        if (memcmp((const char *)&op->attributes + a->offset,
                   (const char *)&forward->attributes + a->offset, size) != 0)
            return crn_fail_at(err, CAIRN_EINVAL, op->name,
                               "op \"%s\" does not have the %s of \"%s\"", op->name, a->name,
                               forward->name);
    }
    return CAIRN_OK;
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
    if (op->kind == CAIRN_OP_UPDATE)
        return check_update(graph, op, err);
    if (op->kind == CAIRN_OP_SQUARE_SUM)
        return check_squares(graph, op, err);
    if (op->kind == CAIRN_OP_HEAD_LOSS)
        return check_head(graph, op, err);
    const crn_rule *r = find_rule(graph, op);
    if (r == NULL)
        return crn_fail_at(
            err, CAIRN_EINVAL, op->name,
            "op \"%s\" is a %s but does not differentiate an op of the kind that has "
            "one; check its \"of\"",
            op->name, crn_op_kinds[op->kind].name);
    const cairn_op *forward = &graph->ops.data[op->of];
    CRN_TRY(check_attributes(op, forward, r->each_input, err));
    for (uint32_t input = 0; input < (r->each_input ? forward->input_count : 1); input++) {
        if (r->each_input && op->attributes.index != crn_channel_offset(graph, forward, input))
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
