/* rig.h: runs the ops of a graph one by one without a plan. Every tensor has its own memory, except
 * that an alias has that of its storage. */
#ifndef RIG_H
#define RIG_H

#include "backend/backend.h"
#include "check.h"

#define RIG_MOST 64 /* operands of one list */

typedef struct rig {
    const crn_backend *backend; /* a backend whose memory is the host's */
    const cairn_graph *graph;
    cairn_device *device;
    crn_queue *queue;
    void **place; /* per tensor, in the backend's storage format */
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
    memset(block, 0xff, room); /* NaN, so that reading unwritten memory is detected */
    return block;
}

static inline uint64_t rig_bytes(const rig *r, cairn_id tensor) {
    return r->storage[tensor].bytes;
}

/* The best implementation of an op; NULL: there is none. */
static inline const crn_choice *rig_choice(const rig *r, cairn_id op) {
    const crn_choice *choices;
    uint32_t count;
    cairn_error err = {0};
    CHECK_OK(crn_device_choices(r->device, r->graph, op, r->storage, &choices, &count, &err), &err);
    return count > 0 ? &choices[0] : NULL;
}

static inline bool rig_has(const char *backend) {
    const cairn_device_entry *entry;
    for (uint32_t i = 0; (entry = cairn_device_list(i)) != NULL; i++)
        if (strcmp(entry->name, backend) == 0)
            return true;
    return false;
}

/* The graph is borrowed. Storage formats are those of the backend; they may be changed before
 * rig_place(). */
static inline void rig_open_with(rig *r, const cairn_graph *graph, const char *backend,
                                 uint32_t threads) {
    *r = (rig){.graph = graph, .seed = 1, .training = true};
    cairn_error err = {0};
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    options.threads = threads;
    CHECK_OK(cairn_device_open(backend, &options, &r->device, &err), &err);
    r->backend = r->device->backend;
    CHECK_OK(r->backend->queue(r->device->state, &r->queue, &err), &err);
    uint32_t tensors = cairn_graph_tensor_count(graph);
    r->place = calloc(tensors, sizeof *r->place);
    r->storage = calloc(tensors, sizeof *r->storage);
    CHECK_OK(crn_device_store(r->device, graph, r->storage, &err), &err);
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
        const crn_choice *choice = rig_choice(r, o);
        if (choice != NULL)
            most = CRN_MAX(most, choice->workspace);
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
    r->backend->finish_queue(r->queue);
    cairn_device_close(r->device);
}

/* Run an op with its operands at these places; NULL: their own places. */
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
                     .values = r->backend->values(r->queue),
                     .again = r->again,
                     .training = r->training,
                     .queue = r->queue};
    const crn_choice *choice = rig_choice(r, id);
    if (choice == NULL) {
        fprintf(stderr, "no kernel for %s\n", cairn_op_kind_name(op->kind));
        exit(1);
    }
    cairn_error err = {0};
    crn_values values = {.seed = r->seed, .step = r->step};
    call.recipe = choice->recipe;
    CHECK_OK(r->backend->prepare(r->queue, &call, &err), &err);
    r->backend->begin(r->queue, &values);
    r->backend->enqueue(r->queue, &call);
    CHECK_OK(r->backend->join(r->queue, NULL, &err), &err);
    r->backend->finish(r->queue, &call);
}

static inline void rig_run(rig *r, cairn_id id) {
    rig_run_at(r, id, NULL, NULL);
}

/* Run an op again with copies of its operands, with an output in the copy of one of them, and
 * compare with the first results. An output of UINT32_MAX: not in place. */
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

/* Run ops first..end-1. */
static inline void rig_run_range(rig *r, cairn_id first, cairn_id end) {
    for (cairn_id o = first; o < end; o++)
        rig_run(r, o);
}

/* The tensor that holds the whole gradient of `of`; CAIRN_NONE: there is none. */
static inline cairn_id rig_gradient(const cairn_graph *graph, cairn_id of) {
    for (cairn_id t = cairn_graph_tensor_count(graph); t-- > 0;)
        if (cairn_graph_tensor(graph, t)->gradient_of == of)
            if (cairn_graph_tensor(graph, of)->role != CAIRN_ROLE_PARAMETER ||
                cairn_graph_tensor(graph, t)->stationary)
                return t;
    return CAIRN_NONE;
}

#endif
