/* graph.c: access to a finished graph. */
#include "graph/graph_internal.h"
#include "graph/crn_graph.h"

void cairn_graph_destroy(cairn_graph *graph) {
    if (graph == NULL)
        return;
    crn_arena_destroy(&graph->arena);
}

const char *cairn_graph_name(const cairn_graph *graph) {
    return graph->name;
}

cairn_allocator crn_graph_allocator(const cairn_graph *graph) {
    return graph->arena.allocator;
}

uint32_t cairn_graph_tensor_count(const cairn_graph *graph) {
    return graph->tensors.length;
}

uint32_t cairn_graph_op_count(const cairn_graph *graph) {
    return graph->ops.length;
}

const cairn_tensor *cairn_graph_tensor(const cairn_graph *graph, cairn_id tensor) {
    return &graph->tensors.data[tensor];
}

const cairn_op *cairn_graph_op(const cairn_graph *graph, cairn_id op) {
    return &graph->ops.data[op];
}

const cairn_id *crn_graph_readers(const cairn_graph *graph, cairn_id tensor, uint32_t *count) {
    *count = graph->reader_first[tensor + 1] - graph->reader_first[tensor];
    return graph->readers + graph->reader_first[tensor];
}

cairn_id cairn_graph_find_tensor(const cairn_graph *graph, const char *name) {
    return crn_names_find(&graph->tensor_names, name);
}

cairn_id crn_graph_find_op(const cairn_graph *graph, const char *name) {
    return crn_names_find(&graph->op_names, name);
}

cairn_id crn_graph_storage(const cairn_graph *graph, cairn_id tensor) {
    cairn_id root = graph->tensors.data[tensor].alias_of;
    return root == CAIRN_NONE ? tensor : root;
}

uint64_t crn_graph_hash(const cairn_graph *graph) {
    return graph->hash;
}

bool crn_graph_is_result(const cairn_graph *graph, cairn_id tensor) {
    const cairn_tensor *t = &graph->tensors.data[tensor];
    return t->role == CAIRN_ROLE_LOSS || t->result ||
           (t->role == CAIRN_ROLE_GRADIENT && t->stationary);
}

bool crn_graph_is_summed(const cairn_graph *graph, cairn_id tensor) {
    uint32_t readers;
    const cairn_id *list = crn_graph_readers(graph, tensor, &readers);
    for (uint32_t r = 0; r < readers; r++) {
        const cairn_op *op = &graph->ops.data[list[r]];
        for (uint32_t i = 0; i < op->inplace_count; i++)
            if (op->inputs[op->inplace[i].input] == tensor)
                return true;
    }
    return false;
}

static uint64_t elements(const cairn_tensor *tensor) {
    return tensor->bytes / crn_dtype_size(tensor->dtype);
}

static void summarize_tensor(const cairn_tensor *tensor, cairn_id id, cairn_graph_summary *out) {
    switch (tensor->role) {
    case CAIRN_ROLE_INPUT:
        if (out->input == CAIRN_NONE)
            out->input = id;
        break;
    case CAIRN_ROLE_PARAMETER:
        out->parameters += elements(tensor);
        out->parameter_bytes += tensor->bytes;
        break;
    case CAIRN_ROLE_STATE:
        out->state_bytes += tensor->bytes;
        break;
    case CAIRN_ROLE_ACTIVATION:
        if (tensor->alias_of == CAIRN_NONE)
            out->activation_bytes += tensor->bytes;
        break;
    case CAIRN_ROLE_LOSS:
        out->loss = id;
        break;
    case CAIRN_ROLE_LABEL:
    case CAIRN_ROLE_INTERNAL:
    case CAIRN_ROLE_GRADIENT:
    case CAIRN_ROLE_SLOT:
        break;
    }
}

static void summarize(const cairn_graph *graph, cairn_graph_summary *out) {
    for (cairn_id t = 0; t < graph->tensors.length; t++)
        summarize_tensor(&graph->tensors.data[t], t, out);
    for (cairn_id o = 0; o < graph->ops.length; o++) {
        const cairn_op *op = &graph->ops.data[o];
        out->forward_ops += op->phase == CAIRN_PHASE_FORWARD;
        out->backward_ops += op->phase == CAIRN_PHASE_BACKWARD;
        if (op->phase == CAIRN_PHASE_FORWARD && op->output_count > 0 &&
            op->outputs[0] != out->loss && op->outputs[0] != CAIRN_NONE)
            out->output = op->outputs[0];
    }
    if (out->loss != CAIRN_NONE) {
        const cairn_op *last = &graph->ops.data[graph->tensors.data[out->loss].producer];
        if (last->input_count > 0)
            out->output = last->inputs[0];
    }
    /* The gradient of a parameter that is used several times is a chain of sums in one storage.
     * Count that storage once. */
    for (cairn_id t = 0; t < graph->tensors.length; t++) {
        const cairn_tensor *tensor = &graph->tensors.data[t];
        if (tensor->role == CAIRN_ROLE_GRADIENT && tensor->stationary &&
            !crn_graph_is_summed(graph, t))
            out->gradient_bytes += tensor->bytes;
    }
}

void cairn_graph_summarize(const cairn_graph *graph, cairn_graph_summary *out) {
    cairn_graph_summary made = {.input = CAIRN_NONE, .output = CAIRN_NONE, .loss = CAIRN_NONE};
    summarize(graph, &made);
    made.has_updates = crn_graph_has_updates(graph);
    made.network_hash = crn_network_hash(graph);
    crn_write_output(out, &made, sizeof made);
}
