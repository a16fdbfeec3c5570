/* rig.h: runs the ops of a graph one by one without a plan, on any device. Every tensor has its own
 * memory, except that an alias has that of its storage.
 *
 * rig_put() and rig_get() write and read a tensor in the plain layout of the graph. If the memory
 * of the device is that of the host, a test may also access r->place, where tensors are as stored.
 */
#ifndef RIG_H
#define RIG_H

#include "backend/backend.h"
#include "backend/formats.h"
#include "check.h"
#include "graph/crn_graph.h"

#define RIG_MOST 64 /* operands of one list */

typedef struct rig {
    const crn_backend *backend; /* the device's */
    const cairn_graph *graph;
    cairn_device *device;
    crn_queue *queue;
    void **place; /* per tensor, in device memory */
    crn_storage *storage;
    void *workspace;
    uint64_t workspace_bytes;
    uint64_t seed, step;
    bool training, again;
} rig;

/* ---- Memory ---- */

static inline void *rig_block(uint64_t bytes) {
    uint64_t room = crn_align(bytes > 0 ? bytes : 1);
    void *block = aligned_alloc(CRN_ALIGNMENT, room);
    if (block == NULL)
        abort();
    memset(block, 0xff, room); /* NaN, so that reading unwritten memory is detected */
    return block;
}

static inline void rig_join(const rig *r) {
    cairn_error err = {0};
    CHECK_OK(r->backend->join(r->queue, NULL, &err), &err);
}

/* Device memory, filled like a block. Where it is that of the host it is a block, because
 * sanitizers know the ends of blocks but not those of regions. */
static inline void *rig_take(const rig *r, uint64_t bytes) {
    void *region;
    cairn_error err = {0};
    if (!r->device->facts.separate_memory)
        return rig_block(bytes);
    CHECK_OK(r->backend->reserve(r->device->state, CRN_SPACE_DEVICE, bytes, &region, &err), &err);
    r->backend->fill(r->queue, region, 0xff, bytes);
    rig_join(r);
    return region;
}

static inline void rig_drop(const rig *r, void *region, uint64_t bytes) {
    if (r->device->facts.separate_memory)
        r->backend->release(r->device->state, CRN_SPACE_DEVICE, region, bytes);
    else
        free(region);
}

static inline uint64_t rig_bytes(const rig *r, cairn_id tensor) {
    return r->storage[tensor].bytes;
}

/* The memory of a storage: that of its largest alias. */
static inline uint64_t rig_room(const rig *r, cairn_id storage) {
    uint64_t bytes = rig_bytes(r, storage);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(r->graph); t++)
        if (crn_graph_storage(r->graph, t) == storage)
            bytes = CRN_MAX(bytes, rig_bytes(r, t));
    return bytes;
}

static inline void rig_convert(const rig *r, const crn_conversion *conversion) {
    r->backend->convert(r->queue, conversion);
    rig_join(r);
}

/* Copy bytes between device and host as they are. */
static inline void rig_copy(const rig *r, void *stored, void *host, uint64_t bytes, bool to_host) {
    cairn_tensor raw = {.bytes = bytes};
    rig_convert(r, &(crn_conversion){.tensor = &raw,
                                     .storage = {.bytes = bytes, .block = 1},
                                     .stored = stored,
                                     .host = host,
                                     .rows = 1,
                                     .to_host = to_host});
}

/* Between a stored form in host memory and the plain layout. A device converts only what the host
 * transfers in training, not the integers that an op makes for its backward. */
static inline void rig_reform(const rig *r, cairn_id t, void *stored, void *plain, bool to_plain) {
    const cairn_tensor *tensor = cairn_graph_tensor(r->graph, t);
    crn_convert_rows(&(crn_conversion){.tensor = tensor,
                                       .storage = r->storage[t],
                                       .stored = stored,
                                       .host = plain,
                                       .rows = crn_tensor_rows(tensor),
                                       .to_host = to_plain});
}

static inline void rig_put(const rig *r, cairn_id t, void *plain) {
    void *stored = rig_block(rig_bytes(r, t));
    rig_reform(r, t, stored, plain, false);
    rig_copy(r, r->place[t], stored, rig_bytes(r, t), false);
    free(stored);
}

static inline void rig_get(const rig *r, cairn_id t, void *plain) {
    void *stored = rig_block(rig_bytes(r, t));
    rig_copy(r, r->place[t], stored, rig_bytes(r, t), true);
    rig_reform(r, t, stored, plain, true);
    free(stored);
}

/* ---- Opening and closing ---- */

/* The implementations of an op, best first. */
static inline const crn_choice *rig_choices(const rig *r, cairn_id op, uint32_t *count) {
    const crn_choice *choices;
    cairn_error err = {0};
    CHECK_OK(crn_device_choices(r->device, r->graph, op, r->storage, &choices, count, &err), &err);
    return choices;
}

static inline bool rig_has(const char *backend) {
    const cairn_device_entry *entry;
    for (uint32_t i = 0; (entry = cairn_device_list(i)) != NULL; i++)
        if (strcmp(entry->name, backend) == 0)
            return true;
    return false;
}

/* The graph is borrowed; the device becomes the rig's. Storage formats are those of the device;
 * they may be changed before rig_place(). */
static inline void rig_open_on(rig *r, const cairn_graph *graph, cairn_device *device) {
    *r = (rig){
        .graph = graph, .device = device, .backend = device->backend, .seed = 1, .training = true};
    cairn_error err = {0};
    CHECK_OK(r->backend->queue(r->device->state, &r->queue, &err), &err);
    uint32_t tensors = cairn_graph_tensor_count(graph);
    r->place = calloc(tensors, sizeof *r->place);
    r->storage = calloc(tensors, sizeof *r->storage);
    CHECK_OK(crn_device_store(r->device, graph, r->storage, &err), &err);
}

static inline void rig_open_with(rig *r, const cairn_graph *graph, const char *backend,
                                 uint32_t threads) {
    cairn_error err = {0};
    cairn_device *device;
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    options.threads = threads;
    CHECK_OK(cairn_device_open(backend, &options, &device, &err), &err);
    rig_open_on(r, graph, device);
}

static inline void rig_place(rig *r) {
    uint32_t tensors = cairn_graph_tensor_count(r->graph), count;
    for (cairn_id t = 0; t < tensors; t++)
        if (crn_graph_storage(r->graph, t) == t)
            r->place[t] = rig_take(r, rig_room(r, t));
    for (cairn_id t = 0; t < tensors; t++)
        r->place[t] = r->place[crn_graph_storage(r->graph, t)];
    for (cairn_id o = 0; o < cairn_graph_op_count(r->graph); o++) {
        const crn_choice *choices = rig_choices(r, o, &count);
        for (uint32_t i = 0; i < count; i++)
            r->workspace_bytes = CRN_MAX(r->workspace_bytes, choices[i].workspace);
    }
    r->workspace = rig_take(r, r->workspace_bytes);
}

static inline void rig_open(rig *r, const cairn_graph *graph, const char *backend,
                            uint32_t threads) {
    rig_open_with(r, graph, backend, threads);
    rig_place(r);
}

static inline void rig_close(rig *r) {
    for (cairn_id t = 0; t < cairn_graph_tensor_count(r->graph); t++)
        if (crn_graph_storage(r->graph, t) == t)
            rig_drop(r, r->place[t], rig_room(r, t));
    rig_drop(r, r->workspace, r->workspace_bytes);
    free(r->place);
    free(r->storage);
    r->backend->finish_queue(r->queue);
    cairn_device_close(r->device);
}

/* ---- Running ---- */

/* Run implementation `which` of an op with its operands at these places; NULL: their own places.
 * False: it has no such implementation. */
static inline bool rig_run_at(rig *r, cairn_id id, uint32_t which, void **inputs, void **outputs) {
    const cairn_op *op = cairn_graph_op(r->graph, id);
    const void *in[RIG_MOST];
    void *out[RIG_MOST], *params[RIG_MOST];
    uint32_t count;
    const crn_choice *choices = rig_choices(r, id, &count);
    if (which >= count)
        return false;
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
                     .recipe = choices[which].recipe,
                     .inputs = in,
                     .outputs = out,
                     .params = params,
                     .workspace = r->workspace,
                     .workspace_bytes = choices[which].workspace,
                     .values = r->backend->values(r->queue),
                     .again = r->again,
                     .training = r->training,
                     .queue = r->queue};
    cairn_error err = {0};
    crn_values values = {.seed = r->seed, .step = r->step};
    if (r->backend->prepare != NULL)
        CHECK_OK(r->backend->prepare(r->queue, &call, &err), &err);
    if (r->workspace_bytes > 0)
        r->backend->fill(r->queue, r->workspace, 0xff, r->workspace_bytes);
    r->backend->begin(r->queue, &values);
    r->backend->enqueue(r->queue, &call);
    rig_join(r);
    if (r->backend->finish != NULL)
        r->backend->finish(r->queue, &call);
    return true;
}

/* Run the best implementation, or end the test. */
static inline void rig_run(rig *r, cairn_id id) {
    if (!rig_run_at(r, id, 0, NULL, NULL)) {
        fprintf(stderr, "no kernel for %s\n",
                cairn_op_kind_name(cairn_graph_op(r->graph, id)->kind));
        exit(1);
    }
}

/* A copy of a tensor's memory. */
static inline void *rig_duplicate(const rig *r, cairn_id tensor) {
    uint64_t bytes = rig_bytes(r, tensor);
    void *host = rig_block(bytes), *copy = rig_take(r, bytes);
    rig_copy(r, r->place[tensor], host, bytes, true);
    rig_copy(r, copy, host, bytes, false);
    free(host);
    return copy;
}

/* Whether memory has the bits of a tensor. */
static inline bool rig_equal(const rig *r, cairn_id tensor, void *other) {
    uint64_t bytes = rig_bytes(r, tensor);
    void *a = rig_block(bytes), *b = rig_block(bytes);
    rig_copy(r, r->place[tensor], a, bytes, true);
    rig_copy(r, other, b, bytes, true);
    bool equal = memcmp(a, b, bytes) == 0;
    free(a);
    free(b);
    return equal;
}

/* Run an op again with copies of its operands, with an output in the copy of one of them, and
 * compare with the first results. An output of UINT32_MAX: not in place. */
static inline void rig_check_permission(rig *r, cairn_id id, uint32_t which,
                                        cairn_inplace permission) {
    const cairn_op *op = cairn_graph_op(r->graph, id);
    void *inputs[RIG_MOST], *outputs[RIG_MOST];
    for (uint32_t i = 0; i < op->input_count; i++)
        inputs[i] = rig_duplicate(r, op->inputs[i]);
    for (uint32_t i = 0; i < op->output_count; i++)
        outputs[i] = op->outputs[i] == CAIRN_NONE ? NULL
                     : i == permission.output     ? inputs[permission.input]
                                                  : rig_take(r, rig_bytes(r, op->outputs[i]));
    CHECK(rig_run_at(r, id, which, inputs, outputs));
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (op->outputs[i] == CAIRN_NONE)
            continue;
        CHECK(rig_equal(r, op->outputs[i], outputs[i]));
        if (i != permission.output)
            rig_drop(r, outputs[i], rig_bytes(r, op->outputs[i]));
    }
    for (uint32_t i = 0; i < op->input_count; i++)
        rig_drop(r, inputs[i], rig_bytes(r, op->inputs[i]));
}

/* The same bits in a second run, and with an output in place of an operand wherever that is allowed
 * and both are stored alike. Returns how often it was. */
static inline uint32_t rig_try_again(rig *r, cairn_id id, uint32_t which) {
    const cairn_op *op = cairn_graph_op(r->graph, id);
    uint32_t tried = 0;
    r->again = true;
    rig_check_permission(r, id, which, (cairn_inplace){.output = UINT32_MAX});
    for (uint32_t i = 0; i < op->inplace_count; i++) {
        cairn_id input = op->inputs[op->inplace[i].input];
        cairn_id output = op->outputs[op->inplace[i].output];
        if (output == CAIRN_NONE ||
            memcmp(&r->storage[input], &r->storage[output], sizeof(crn_storage)) != 0)
            continue;
        rig_check_permission(r, id, which, op->inplace[i]);
        tried++;
    }
    r->again = false;
    return tried;
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
