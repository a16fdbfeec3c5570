/* head_network.c: the network of a step whose head was joined with its loss (derivatives.c): its
 * forward ops, the linear layer and the loss. */
#include "graph/graph_internal.h"

#include <stdio.h>

static const cairn_op *find_head(const cairn_graph *step, cairn_id *at) {
    for (*at = 0; *at < step->ops.length; ++*at)
        if (step->ops.data[*at].kind == CAIRN_OP_HEAD_LOSS)
            return &step->ops.data[*at];
    return NULL;
}

/* Logits and probabilities are again where the gradients took their places. */
static cairn_status add_tensors(cairn_builder *b, const cairn_graph *step, const cairn_op *head) {
    const cairn_tensor *t = step->tensors.data, *x = &t[head->inputs[0]];
    char probabilities[256];
    snprintf(probabilities, sizeof probabilities, "%s.probabilities", t[head->outputs[0]].name);
    cairn_tensor made = CAIRN_TENSOR_INIT;
    made.rank = x->rank;
    memcpy(made.shape, x->shape, sizeof made.shape);
    made.shape[x->rank - 1] = t[head->params[0]].shape[0];
    cairn_id end = 0;
    for (uint32_t i = 0; i < 3; i++)
        end = CRN_MAX(end, head->outputs[i] + 1);
    for (cairn_id i = 0; i < end; i++) {
        bool first = i == head->outputs[1];
        made.name = first ? head->name : probabilities;
        made.role = first ? CAIRN_ROLE_ACTIVATION : CAIRN_ROLE_INTERNAL;
        const cairn_tensor *tensor = first || i == head->outputs[2] ? &made : &t[i];
        CRN_TRY(crn_builder_add_tensor(b, tensor, &(cairn_id){0}));
    }
    return CAIRN_OK;
}

static cairn_status add_ops(cairn_builder *b, const cairn_graph *step, cairn_id count) {
    const cairn_op *head = &step->ops.data[count];
    for (cairn_id o = 0; o < count; o++)
        CRN_TRY(crn_builder_add_op(b, &step->ops.data[o], &(cairn_id){0}));
    cairn_op layer = {.name = head->name,
                      .kind = CAIRN_OP_LINEAR,
                      .of = CAIRN_NONE,
                      .input_count = 1,
                      .inputs = head->inputs,
                      .param_count = 1,
                      .params = head->params,
                      .output_count = 1,
                      .outputs = &head->outputs[1],
                      .attributes = head->attributes};
    layer.attributes.smoothing = 0;
    CRN_TRY(crn_builder_add_op(b, &layer, &(cairn_id){0}));
    cairn_op loss = {.name = step->tensors.data[head->outputs[0]].name,
                     .kind = CAIRN_OP_TOKEN_CROSS_ENTROPY,
                     .of = CAIRN_NONE,
                     .input_count = 2,
                     .inputs = (cairn_id[]){head->outputs[1], head->inputs[1]},
                     .output_count = 2,
                     .outputs = (cairn_id[]){head->outputs[0], head->outputs[2]},
                     .inplace = crn_op_kinds[CAIRN_OP_TOKEN_CROSS_ENTROPY].inplace,
                     .inplace_count = crn_op_kinds[CAIRN_OP_TOKEN_CROSS_ENTROPY].inplace_count,
                     .attributes = head->attributes};
    loss.attributes.deviation = 0;
    return crn_builder_add_op(b, &loss, &(cairn_id){0});
}

cairn_status cairn_graph_network(const cairn_graph *step, cairn_graph **out, cairn_error *err) {
    cairn_id at;
    cairn_builder *builder;
    *out = NULL;
    crn_error_clear(err);
    const cairn_op *head = find_head(step, &at);
    if (head == NULL)
        return CAIRN_OK;
    if (cairn_builder_create(&step->arena.allocator, step->name, &builder) != CAIRN_OK)
        return crn_fail_memory(err);
    cairn_status status = add_tensors(builder, step, head);
    if (status == CAIRN_OK)
        status = add_ops(builder, step, at);
    if (status == CAIRN_OK)
        status = cairn_builder_finish(builder, out, err);
    else if (builder->err.status == status && err != NULL)
        *err = builder->err;
    cairn_builder_destroy(builder);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}
