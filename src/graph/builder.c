/* builder.c: building a graph, tensor by tensor and op by op. */
#include "graph/graph_internal.h"
#include "graph/crn_graph.h"

cairn_status cairn_builder_create(const cairn_allocator *allocator, const char *name,
                                  cairn_builder **out) {
    *out = NULL;
    cairn_allocator from = crn_allocator_or_default(allocator);
    cairn_builder *builder = crn_resize(&from, NULL, 0, sizeof *builder);
    if (builder == NULL)
        return CAIRN_ENOMEM;
    *builder = (cairn_builder){.allocator = from};

    cairn_graph *graph = CRN_OBJECT(&from, cairn_graph, arena);
    char *copy = graph == NULL ? NULL : crn_arena_string(&graph->arena, name);
    if (copy == NULL) {
        cairn_graph_destroy(graph);
        crn_resize(&from, builder, sizeof *builder, 0);
        return CAIRN_ENOMEM;
    }
    graph->name = copy;
    builder->graph = graph;
    *out = builder;
    return CAIRN_OK;
}

void cairn_builder_destroy(cairn_builder *builder) {
    if (builder == NULL)
        return;
    cairn_graph_destroy(builder->graph);
    cairn_allocator from = builder->allocator;
    crn_resize(&from, builder, sizeof *builder, 0);
}

/* Pass the id on. On failure keep the error, if it is the first, and return CAIRN_NONE. */
static cairn_id settle(cairn_builder *builder, cairn_status status, cairn_id id) {
    if (status == CAIRN_OK)
        return id;
    if (builder->status == CAIRN_OK) {
        builder->status = status;
        if (builder->err.status != status)
            crn_fail(&builder->err, status, "%s", cairn_status_message(status));
    }
    return CAIRN_NONE;
}

/* The size of a tensor of this shape and dtype; false on overflow. */
static bool shape_bytes(const cairn_tensor *tensor, uint64_t *out) {
    uint64_t bytes = crn_dtype_size(tensor->dtype);
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (!crn_mul_u64(bytes, tensor->shape[i], &bytes))
            return false;
    *out = bytes;
    return bytes <= INT64_MAX;
}

static cairn_status check_shape(const cairn_tensor *tensor, cairn_error *err) {
    if (tensor->rank > CAIRN_MAX_RANK)
        return crn_fail_at(err, CAIRN_EINVAL, tensor->name,
                           "tensor \"%s\" has more than %d dimensions", tensor->name,
                           CAIRN_MAX_RANK);
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] == 0)
            return crn_fail_at(err, CAIRN_EINVAL, tensor->name,
                               "tensor \"%s\" has a dimension of size 0", tensor->name);
    return CAIRN_OK;
}

cairn_status crn_builder_add_tensor(cairn_builder *builder, const cairn_tensor *tensor,
                                    cairn_id *out) {
    cairn_graph *graph = builder->graph;
    cairn_tensor copy = *tensor;
    CRN_TRY(check_shape(tensor, &builder->err));
    uint64_t bytes = tensor->bytes;
    if (tensor->rank > 0 && !shape_bytes(tensor, &bytes))
        return crn_fail_at(&builder->err, CAIRN_EOVERFLOW, tensor->name,
                           "tensor \"%s\" is too large: its size does not fit in 63 bits",
                           tensor->name);
    if (tensor->bytes != 0 && tensor->bytes < bytes)
        return crn_fail_at(&builder->err, CAIRN_EINVAL, tensor->name,
                           "tensor \"%s\" has fewer bytes than its shape needs", tensor->name);
    copy.bytes = CRN_MAX(bytes, tensor->bytes);
    copy.producer = CAIRN_NONE;
    copy.stationary = tensor->stationary || crn_role_stays(tensor->role);
    copy.name = crn_arena_string(&graph->arena, tensor->name);
    if (copy.name == NULL)
        return CAIRN_ENOMEM;
    *out = graph->tensors.length;
    CRN_PUSH(&graph->arena, graph->tensors, copy);
    return CAIRN_OK;
}

/* A copy of `count` elements in the arena. */
static cairn_status copy_array(crn_arena *arena, const void *from, uint32_t count, size_t size,
                               const void **out) {
    void *copy = crn_arena_take(arena, count, size);
    if (copy == NULL)
        return CAIRN_ENOMEM;
    if (count > 0)
        memcpy(copy, from, count * size);
    *out = copy;
    return CAIRN_OK;
}

/* Read an op that the caller's version of the header defines. Attributes that the caller does not
 * know become 0. */
static cairn_status read_op(const cairn_op *given, cairn_op *out, cairn_error *err) {
    *out = (cairn_op){0};
    memcpy(out, given, offsetof(cairn_op, attributes));
    if (crn_op_kinds[given->kind].attributes != 0)
        CRN_READ_OPTIONS(cairn_attributes, out->attributes, &given->attributes, err);
    out->attributes.struct_size = sizeof out->attributes;
    return CAIRN_OK;
}

cairn_status crn_builder_add_op(cairn_builder *builder, const cairn_op *op, cairn_id *out) {
    cairn_graph *graph = builder->graph;
    cairn_op copy;
    const void *array = NULL;
    CRN_TRY(read_op(op, &copy, &builder->err));
    copy.flags |= crn_op_kinds[op->kind].flags;
    copy.name = crn_arena_string(&graph->arena, op->name);
    if (copy.name == NULL)
        return CAIRN_ENOMEM;
    CRN_TRY(copy_array(&graph->arena, op->inputs, op->input_count, sizeof *op->inputs, &array));
    copy.inputs = array;
    CRN_TRY(copy_array(&graph->arena, op->outputs, op->output_count, sizeof *op->outputs, &array));
    copy.outputs = array;
    CRN_TRY(copy_array(&graph->arena, op->params, op->param_count, sizeof *op->params, &array));
    copy.params = array;
    CRN_TRY(copy_array(&graph->arena, op->inplace, op->inplace_count, sizeof *op->inplace, &array));
    copy.inplace = array;
    *out = graph->ops.length;
    CRN_PUSH(&graph->arena, graph->ops, copy);
    return CAIRN_OK;
}

cairn_id cairn_builder_tensor(cairn_builder *builder, const cairn_tensor *tensor) {
    cairn_id id = CAIRN_NONE;
    if (builder->status != CAIRN_OK)
        return CAIRN_NONE;
    cairn_status status = crn_builder_add_tensor(builder, tensor, &id);
    return settle(builder, status, id);
}

cairn_id cairn_builder_op(cairn_builder *builder, const cairn_op *op) {
    cairn_id id = CAIRN_NONE;
    if (builder->status != CAIRN_OK)
        return CAIRN_NONE;
    cairn_status status = crn_builder_add_op(builder, op, &id);
    return settle(builder, status, id);
}

cairn_tensor crn_builder_peek(const cairn_builder *builder, cairn_id tensor) {
    if (builder->status != CAIRN_OK || tensor >= builder->graph->tensors.length)
        return (cairn_tensor)CAIRN_TENSOR_INIT;
    return builder->graph->tensors.data[tensor];
}

void crn_builder_fail(cairn_builder *builder, const char *sentence) {
    if (builder->status == CAIRN_OK)
        builder->status = crn_fail(&builder->err, CAIRN_EINVAL, "%s", sentence);
}

const cairn_error *crn_builder_error(const cairn_builder *builder) {
    return &builder->err;
}

cairn_status cairn_builder_finish(cairn_builder *builder, cairn_graph **out, cairn_error *err) {
    *out = NULL;
    crn_error_clear(err);
    if (builder->graph == NULL)
        return crn_fail(err, CAIRN_EINVAL, "the builder has been finished already");
    if (builder->status != CAIRN_OK) {
        if (err != NULL)
            *err = builder->err;
        return builder->status;
    }
    cairn_status status = crn_validate(builder->graph, err);
    if (status == CAIRN_ENOMEM)
        return crn_fail_memory(err);
    if (status != CAIRN_OK)
        return status;
    *out = builder->graph;
    builder->graph = NULL;
    return CAIRN_OK;
}
