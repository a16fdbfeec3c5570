/* rig.h: runs the ops of a graph one by one without a plan: every tensor has a place of its own,
 * except that an alias has that of its storage. */
#ifndef RIG_H
#define RIG_H

#include "backend/backend.h"
#include "check.h"

#define RIG_MOST 64 /* operands of one list */

typedef struct rig {
    const crn_backend *backend;
    const cairn_graph *graph;
    crn_device *device;
    void **place; /* per tensor, stored as the backend wants it */
    crn_storage *storage;
    void *workspace;
    uint64_t seed, step;
    bool training, again;
} rig;

static inline void *rig_block(uint64_t bytes) {
    uint64_t room = crn_align(bytes > 0 ? bytes : 1);
    void *block = aligned_alloc(CRN_ALIGNMENT, room);
    if (block == NULL)
        abort();
    memset(block, 0xff, room); /* NaN: what is read must have been written */
    return block;
}

static inline uint64_t rig_bytes(const rig *r, cairn_id tensor) {
    return r->storage[tensor].bytes;
}

static inline crn_site rig_site(const rig *r, cairn_id op) {
    return (crn_site){r->graph, cairn_graph_op(r->graph, op), r->storage,
                      crn_pool_threads(r->backend->threads(r->device))};
}

static inline const crn_kernel *rig_kernel(const rig *r, cairn_id op) {
    const crn_kernel *kernel;
    crn_site site = rig_site(r, op);
    return crn_backend_choices(r->backend, &site, &kernel, 1) > 0 ? kernel : NULL;
}

/* The graph is borrowed. Storage is the backend's and may be changed before rig_place(). */
static inline void rig_open_with(rig *r, const cairn_graph *graph, const char *backend,
                                 uint32_t threads) {
    *r = (rig){.backend = crn_backend_find(backend), .graph = graph, .seed = 1, .training = true};
    cairn_error err;
    crn_device_options options = {.threads = threads};
    CHECK_OK(r->backend->open(&options, &r->device, &err), &err);
    uint32_t tensors = cairn_graph_tensor_count(graph);
    r->place = calloc(tensors, sizeof *r->place);
    r->storage = calloc(tensors, sizeof *r->storage);
    CHECK(crn_backend_store(r->backend, graph, r->storage) == CAIRN_OK);
}

static inline void rig_place(rig *r) {
    uint32_t tensors = cairn_graph_tensor_count(r->graph);
    uint64_t most = 0;
    for (cairn_id t = 0; t < tensors; t++) {
        uint64_t bytes = rig_bytes(r, t);
        for (cairn_id other = 0; other < tensors; other++)
            if (cairn_graph_storage(r->graph, other) == t)
                bytes = CRN_MAX(bytes, rig_bytes(r, other));
        if (cairn_graph_storage(r->graph, t) == t)
            r->place[t] = rig_block(bytes);
    }
    for (cairn_id t = 0; t < tensors; t++)
        r->place[t] = r->place[cairn_graph_storage(r->graph, t)];
    for (cairn_id o = 0; o < cairn_graph_op_count(r->graph); o++) {
        const crn_kernel *kernel = rig_kernel(r, o);
        crn_site site = rig_site(r, o);
        if (kernel != NULL)
            most = CRN_MAX(most, crn_kernel_workspace(kernel, &site));
    }
    r->workspace = rig_block(most);
}

static inline void rig_open(rig *r, const cairn_graph *graph, const char *backend,
                            uint32_t threads) {
    rig_open_with(r, graph, backend, threads);
    rig_place(r);
}

static inline void rig_close(rig *r) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(r->graph); t++)
        if (cairn_graph_storage(r->graph, t) == t)
            free(r->place[t]);
    free(r->place);
    free(r->storage);
    free(r->workspace);
    r->backend->close(r->device);
}

/* Run an op with these places for its operands; NULL: their own. */
static inline void rig_run_at(rig *r, cairn_id id, const void **inputs, void **outputs) {
    const cairn_op *op = cairn_graph_op(r->graph, id);
    const void *in[RIG_MOST];
    void *out[RIG_MOST], *params[RIG_MOST];
    for (uint32_t i = 0; i < op->input_count; i++)
        in[i] = inputs != NULL ? inputs[i] : r->place[op->inputs[i]];
    for (uint32_t i = 0; i < op->output_count; i++)
        out[i] = op->outputs[i] == CAIRN_NONE ? NULL
                 : outputs != NULL            ? outputs[i]
                                              : r->place[op->outputs[i]];
    for (uint32_t i = 0; i < op->param_count; i++)
        params[i] = r->place[op->params[i]];
    crn_call call = {.graph = r->graph,
                     .op = op,
                     .op_id = id,
                     .storage = r->storage,
                     .inputs = in,
                     .outputs = out,
                     .params = params,
                     .workspace = r->workspace,
                     .threads = r->backend->threads(r->device),
                     .seed = r->seed,
                     .step = r->step,
                     .again = r->again,
                     .training = r->training};
    const crn_kernel *kernel = rig_kernel(r, id);
    if (kernel == NULL) {
        fprintf(stderr, "no kernel for %s\n", cairn_op_kind_name(op->kind));
        exit(1);
    }
    cairn_allocator allocator = crn_allocator_or_default(NULL);
    cairn_error err;
    CHECK_OK(crn_kernel_prepare(kernel, &call, &allocator, &err), &err);
    kernel->run(&call);
    crn_kernel_finish(kernel, &call, &allocator);
}

static inline void rig_run(rig *r, cairn_id id) {
    rig_run_at(r, id, NULL, NULL);
}

/* Runs an op again with an output on a copy of an operand, beside copies of the others, and
 * compares with what it made before; no such output (UINT32_MAX): only again. */
static inline void rig_check_permission(rig *r, cairn_id id, cairn_inplace permission) {
    const cairn_op *op = cairn_graph_op(r->graph, id);
    void *inputs[RIG_MOST], *outputs[RIG_MOST];
    for (uint32_t i = 0; i < op->input_count; i++) {
        inputs[i] = rig_block(rig_bytes(r, op->inputs[i]));
        memcpy(inputs[i], r->place[op->inputs[i]], rig_bytes(r, op->inputs[i]));
    }
    for (uint32_t i = 0; i < op->output_count; i++)
        outputs[i] = i == permission.output         ? inputs[permission.input]
                     : op->outputs[i] == CAIRN_NONE ? NULL
                                                    : rig_block(rig_bytes(r, op->outputs[i]));
    rig_run_at(r, id, (const void **)inputs, outputs);
    for (uint32_t i = 0; i < op->output_count; i++)
        if (op->outputs[i] != CAIRN_NONE)
            CHECK(memcmp(outputs[i], r->place[op->outputs[i]], rig_bytes(r, op->outputs[i])) == 0);
    for (uint32_t i = 0; i < op->input_count; i++)
        free(inputs[i]);
    for (uint32_t i = 0; i < op->output_count; i++)
        if (i != permission.output)
            free(outputs[i]);
}

/* Ops first..end-1. */
static inline void rig_run_range(rig *r, cairn_id first, cairn_id end) {
    for (cairn_id o = first; o < end; o++)
        rig_run(r, o);
}

/* The tensor that holds the whole gradient of `of`; CAIRN_NONE: none of its own. */
static inline cairn_id rig_gradient(const cairn_graph *graph, cairn_id of) {
    for (cairn_id t = cairn_graph_tensor_count(graph); t-- > 0;)
        if (cairn_graph_tensor(graph, t)->gradient_of == of)
            if (cairn_graph_tensor(graph, of)->role != CAIRN_PARAMETER ||
                cairn_graph_tensor(graph, t)->stationary)
                return t;
    return CAIRN_NONE;
}

#endif
