/* storage_groups.c: see storage_groups.h. Groups are trees whose root is the first tensor. */
#include "backend/storage_groups.h"

static cairn_id find_root(cairn_id *parent, cairn_id t) {
    while (parent[t] != t) {
        parent[t] = parent[parent[t]];
        t = parent[t];
    }
    return t;
}

static void join(cairn_id *parent, cairn_id a, cairn_id b) {
    a = find_root(parent, a);
    b = find_root(parent, b);
    parent[CRN_MAX(a, b)] = CRN_MIN(a, b);
}

static void join_tensors(const cairn_graph *graph, cairn_id *group) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
        join(group, t, crn_graph_storage(graph, t));
        if (tensor->stationary && tensor->gradient_of != CAIRN_NONE)
            join(group, t, tensor->gradient_of);
    }
}

static void join_operands(const cairn_graph *graph, cairn_id *group) {
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        const cairn_op *op = cairn_graph_op(graph, o);
        /* An update that has its own sum of the gradient reads nothing but the sum of squares. */
        for (uint32_t i = 0; i < op->param_count && crn_op_is_of_optimizer(op); i++)
            join(group,
                 crn_graph_is_square_sum(graph, op->inputs[0]) ? op->params[0] : op->inputs[0],
                 op->params[i]);
        for (uint32_t i = 0; i < op->inplace_count; i++)
            if (op->outputs[op->inplace[i].output] != CAIRN_NONE)
                join(group, op->inputs[op->inplace[i].input], op->outputs[op->inplace[i].output]);
    }
}

void crn_storage_groups(const cairn_graph *graph, cairn_id *group) {
    uint32_t tensors = cairn_graph_tensor_count(graph);
    for (cairn_id t = 0; t < tensors; t++)
        group[t] = t;
    join_tensors(graph, group);
    join_operands(graph, group);
    for (cairn_id t = 0; t < tensors; t++)
        group[t] = find_root(group, t);
}
