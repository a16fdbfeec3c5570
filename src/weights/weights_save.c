/* weights_save.c: the parameters and state of an executor as a safetensors file. */
#include "graph/crn_graph.h"
#include "weights/weights_internal.h"

#define RUNNING_MEAN ".running_mean"
#define TRACKED ".num_batches_tracked"

cairn_named_tensor crn_weight_described(const cairn_tensor *tensor) {
    static const cairn_element elements[] = {[CAIRN_DTYPE_F32] = CAIRN_ELEMENT_F32,
                                             [CAIRN_DTYPE_I32] = CAIRN_ELEMENT_I32,
                                             [CAIRN_DTYPE_U8] = CAIRN_ELEMENT_U8};
    cairn_named_tensor weight = {.name = tensor->name,
                                 .element = elements[tensor->dtype],
                                 .rank = tensor->rank,
                                 .bytes = tensor->bytes};
    for (uint32_t i = 0; i < tensor->rank; i++)
        weight.shape[i] = tensor->shape[i];
    if (tensor->rank == 0) { /* of unknown shape: a row */
        weight.rank = 1;
        weight.shape[0] = tensor->bytes / crn_element_bytes(weight.element);
    }
    return weight;
}

typedef struct collection {
    crn_arena scratch;
    CRN_ARRAY(crn_saved_tensor) tensors;
    CRN_ARRAY(cairn_pair) metadata;
    int64_t steps; /* the value of every num_batches_tracked */
} collection;

/* PyTorch counts the batches that each batch-norm has seen; here all have seen the same. */
static cairn_status add_tracked(collection *c, const char *mean) {
    size_t stem = strlen(mean) - strlen(RUNNING_MEAN);
    char *name;
    CRN_TAKE(&c->scratch, name, stem + sizeof TRACKED);
    memcpy(name, mean, stem);
    memcpy(name + stem, TRACKED, sizeof TRACKED);
    crn_saved_tensor tracked = {.as = {.name = name,
                                       .element = CAIRN_ELEMENT_I64,
                                       .data = &c->steps,
                                       .bytes = sizeof c->steps},
                                .from = CAIRN_NONE};
    CRN_PUSH(&c->scratch, c->tensors, tracked);
    return CAIRN_OK;
}

static cairn_status add_weights(collection *c, const cairn_graph *graph) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
        if (!crn_is_weight(tensor))
            continue;
        crn_form form;
        crn_saved_tensor weight = {.as = crn_weight_described(tensor), .from = t};
        bool other = crn_form_of(graph, t, &form);
        for (uint32_t i = 0; i < (other ? form.count : 1); i++) {
            if (other)
                CRN_TRY(crn_form_saved(graph, t, &form, i, &c->scratch, &weight));
            CRN_PUSH(&c->scratch, c->tensors, weight);
        }
        if (tensor->role == CAIRN_ROLE_STATE && crn_ends(tensor->name, RUNNING_MEAN))
            CRN_TRY(add_tracked(c, tensor->name));
    }
    return CAIRN_OK;
}

static cairn_status add_default(collection *c, const char *key, const char *value) {
    for (uint32_t i = 0; i < c->metadata.length; i++)
        if (strcmp(c->metadata.data[i].key, key) == 0)
            return CAIRN_OK;
    cairn_pair pair = {key, value};
    CRN_PUSH(&c->scratch, c->metadata, pair);
    return CAIRN_OK;
}

static cairn_status collect(collection *c, const cairn_graph *graph,
                            const cairn_weights_save_options *options, const crn_saved_tensor *more,
                            uint32_t count) {
    c->steps = (int64_t)CRN_MIN(options->steps, (uint64_t)INT64_MAX);
    CRN_TRY(add_weights(c, graph));
    for (uint32_t i = 0; i < options->extra_count; i++) {
        crn_saved_tensor extra = {.as = options->extra[i], .from = CAIRN_NONE};
        CRN_PUSH(&c->scratch, c->tensors, extra);
    }
    for (uint32_t i = 0; i < count; i++)
        CRN_PUSH(&c->scratch, c->tensors, more[i]);
    for (uint32_t i = 0; i < options->metadata_count; i++)
        CRN_PUSH(&c->scratch, c->metadata, options->metadata[i]);
    CRN_TRY(add_default(c, "format", "pt")); /* that the layout is PyTorch's: some readers ask */
    return add_default(c, "network", cairn_graph_name(graph));
}

cairn_status crn_weights_save(cairn_exec *exec, const cairn_graph *graph, const char *path,
                              const cairn_weights_save_options *options,
                              const crn_saved_tensor *more, uint32_t count, cairn_error *err) {
    cairn_weights_save_options given = CAIRN_WEIGHTS_SAVE_OPTIONS_INIT;
    cairn_allocator allocator = crn_graph_allocator(graph);
    collection c = {0};
    crn_error_clear(err);
    CRN_READ_OPTIONS(cairn_weights_save_options, given, options, err);
    crn_arena_init(&c.scratch, &allocator);
    cairn_status status = collect(&c, graph, &given, more, count);
    if (status == CAIRN_OK)
        status = crn_safetensors_save(&allocator, path, exec, c.tensors.data, c.tensors.length,
                                      c.metadata.data, c.metadata.length, err);
    crn_arena_release(&c.scratch);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

cairn_status cairn_weights_save(cairn_exec *exec, const cairn_graph *graph, const char *path,
                                const cairn_weights_save_options *options, cairn_error *err) {
    return crn_weights_save(exec, graph, path, options, NULL, 0, err);
}
