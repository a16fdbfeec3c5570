/* cuda_record.c: a whole step as one CUDA graph.
 *
 *     actions in order --cuda_fuse.c--> fewer actions --hazards.c--> what each must follow
 *         --capture, one by one, after the nodes it follows--> graph --> launched once a step
 *
 * The graph begins by copying the values of the step from the host, and ends by copying the results
 * to the host, at the same time as the update. So a step is one launch.
 *
 * Edges come only from addresses: two actions may run at the same time unless one of them writes
 * memory that the other accesses. Copies of a lane follow each other. If times are recorded, every
 * action follows the one before it. */
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/hazards.h"

#define MOST_TOUCHES 128u /* ranges of one op */
#define NOBODY UINT32_MAX

struct crn_recording {
    crn_arena memory;
    CRN_ARRAY(crn_cuda_action) actions;
    bool out_of_memory;
    CUgraph graph;
    CUgraphExec exec;
    uint64_t predictions; /* counted in this recording */
    void *scratch;        /* workspaces of fused actions that cannot use the plan's */
    uint64_t scratch_bytes;
    void *kept; /* statistics of batch-norms that are recomputed */
    uint64_t kept_bytes;
};

cairn_status crn_cuda_begin_recording(crn_queue *queue, cairn_error *err) {
    crn_device *device = queue->device;
    crn_recording *recording = crn_resize(&device->allocator, NULL, 0, sizeof *recording);
    if (recording == NULL)
        return crn_fail_memory(err);
    *recording = (crn_recording){.graph = NULL};
    crn_arena_init(&recording->memory, &device->allocator);
    queue->noting = recording;
    queue->predictions = 0;
    crn_cuda_note(queue, &(crn_cuda_action){.kind = CRN_DO_BEGIN});
    return CAIRN_OK;
}

void crn_cuda_note(crn_queue *queue, const crn_cuda_action *action) {
    crn_recording *r = queue->noting;
    if (r->out_of_memory || !crn_array_grow(&r->memory, &r->actions.data, r->actions.length,
                                            &r->actions.capacity, sizeof *r->actions.data)) {
        r->out_of_memory = true;
        return;
    }
    r->actions.data[r->actions.length++] = *action;
}

/* ---- Memory accesses of an action ---- */

typedef struct touches {
    crn_arena *memory;
    CRN_ARRAY(crn_touch) list;
    bool out_of_memory;
    bool too_many; /* not all are listed */
} touches;

static void touch(touches *t, const void *at, uint64_t bytes, bool write) {
    if (at == NULL || bytes == 0)
        return;
    if (!crn_array_grow(t->memory, &t->list.data, t->list.length, &t->list.capacity,
                        sizeof *t->list.data))
        t->out_of_memory = true;
    else
        t->list.data[t->list.length++] = (crn_touch){(uintptr_t)at, bytes, write};
}

static void touch_call(touches *t, const crn_call *call) {
    crn_access accesses[MOST_TOUCHES];
    uint32_t count = crn_call_accesses(call, accesses, MOST_TOUCHES);
    t->too_many = t->too_many || count > MOST_TOUCHES;
    for (uint32_t i = 0; i < CRN_MIN(count, MOST_TOUCHES); i++)
        touch(t, accesses[i].at, accesses[i].bytes, accesses[i].writes);
}

/* The statistics of a batch-norm. */
static uint64_t kept_bytes(const crn_call *call) {
    return crn_align(2 * (uint64_t)cairn_graph_tensor(call->graph, call->op->inputs[0])->shape[1] *
                     sizeof(float));
}

/* An update of several parameters must not wait for copies of others, nor they for it. */
static void touch_update(touches *t, const crn_update *update) {
    for (uint32_t i = 0; i < update->count; i++) {
        const crn_parameter *p = &update->parameters[i];
        uint64_t bytes = p->elements * sizeof(float);
        if (p->gradient == NULL)
            continue; /* the kernel leaves it out */
        touch(t, p->gradient, bytes, false);
        touch(t, p->value, bytes, true);
        touch(t, p->copy, bytes / 2, true);
        for (uint32_t slot = 0; slot < update->slot_count; slot++)
            touch(t, p->slots[slot], bytes, true);
    }
    touch(t, update->squares, sizeof(float), false);
    touch(t, update->squares_out, sizeof(float), true);
}

static void touch_action(const crn_queue *queue, const crn_cuda_action *a, touches *t) {
    t->list.length = 0;
    t->too_many = false;
    switch ((crn_action_kind)a->kind) {
    case CRN_DO_CALL:
    case CRN_DO_COUNT:
        touch_call(t, &a->call);
        for (size_t i = 0; i < CRN_LENGTH(a->fused); i++)
            if (a->fused[i] != NULL)
                touch_call(t, a->fused[i]);
        touch(t, queue->device->tickets + (size_t)a->ticket * CRN_TICKETS,
              CRN_TICKETS * sizeof *queue->device->tickets, true);
        touch(t, a->side, a->scratch_bytes, true);
        touch(t, a->kept, a->kept == NULL ? 0 : kept_bytes(&a->call), !a->call.again);
        touch(t, a->to, a->bytes, true);
        touch(t, a->column_sums, a->bytes, true);
        break;
    case CRN_DO_FILL:
    case CRN_DO_COPY:
    case CRN_DO_LOSS:
    case CRN_DO_RESULTS:
        touch(t, a->to, a->bytes, true);
        touch(t, a->from, a->bytes, false);
        break;
    case CRN_DO_ACCUMULATE:
    case CRN_DO_UPDATE:
    case CRN_DO_SQUARES:
        touch_update(t, a->update);
        break;
    default:
        break;
    }
}

/* ---- Workspaces outside the arena ---- */

#define SCRATCH_BLOCKS 4u /* used in turn, so that few actions wait for each other */

static cairn_status give_scratch(crn_queue *queue, crn_recording *r, cairn_error *err) {
    uint64_t most = 0;
    uint32_t next = 0;
    for (uint32_t i = 0; i < r->actions.length; i++)
        most = CRN_MAX(most, crn_align(r->actions.data[i].scratch_bytes));
    if (most == 0)
        return CAIRN_OK;
    CRN_TRY(
        crn_cuda_reserve(queue->device, CRN_SPACE_DEVICE, most * SCRATCH_BLOCKS, &r->scratch, err));
    r->scratch_bytes = most * SCRATCH_BLOCKS;
    for (uint32_t i = 0; i < r->actions.length; i++) {
        crn_cuda_action *a = &r->actions.data[i];
        if (a->scratch_bytes == 0)
            continue;
        void *block = (char *)r->scratch + most * (next++ % SCRATCH_BLOCKS);
        if (a->call.op->kind == CAIRN_OP_BATCH_NORM_BWD)
            a->call.workspace = block;
        else
            a->side = block;
    }
    return CAIRN_OK;
}

/* ---- Statistics of batch-norms that are recomputed ---- */

/* The first run of the op that action `again` recomputes, or NULL. */
static crn_cuda_action *first_run(crn_recording *r, uint32_t again) {
    for (uint32_t i = 0; i < again; i++) {
        crn_cuda_action *a = &r->actions.data[i];
        if (a->kind == CRN_DO_CALL && a->call.op_id == r->actions.data[again].call.op_id)
            return a;
    }
    return NULL;
}

static bool is_norm_again(const crn_cuda_action *a) {
    return a->kind == CRN_DO_CALL && a->call.op->kind == CAIRN_OP_BATCH_NORM && a->call.again &&
           a->call.training;
}

/* A run keeps its statistics, and later ones in the same step use them. */
static cairn_status keep_statistics(crn_queue *queue, crn_recording *r, cairn_error *err) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < r->actions.length; i++)
        if (is_norm_again(&r->actions.data[i]))
            bytes += kept_bytes(&r->actions.data[i].call);
    if (bytes == 0)
        return CAIRN_OK;
    CRN_TRY(crn_cuda_reserve(queue->device, CRN_SPACE_DEVICE, bytes, &r->kept, err));
    r->kept_bytes = bytes;
    char *next = r->kept;
    for (uint32_t i = 0; i < r->actions.length; i++) {
        crn_cuda_action *a = &r->actions.data[i];
        crn_cuda_action *first = is_norm_again(a) ? first_run(r, i) : NULL;
        if (first == NULL || first->call.again)
            continue;
        if (first->kept == NULL) {
            first->kept = (float *)(void *)next;
            next += kept_bytes(&a->call);
        }
        a->kept = first->kept;
    }
    return CAIRN_OK;
}

/* ---- The graph ---- */

typedef struct nodes { /* the last nodes of an action */
    CUgraphNode *list;
    uint32_t count;
} nodes;

typedef struct builder {
    crn_queue *queue;
    crn_recording *recording;
    crn_hazards *hazards;
    nodes *ends; /* per action that was built */
    uint32_t count;
    uint32_t last_copy[CRN_LANES];
    CRN_ARRAY(CUgraphNode) after;
} builder;

static cairn_status gather(builder *b, const uint32_t *actions, uint32_t count) {
    b->after.length = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < b->ends[actions[i]].count; k++)
            CRN_PUSH(&b->recording->memory, b->after, b->ends[actions[i]].list[k]);
    return CAIRN_OK;
}

/* Add one action to the graph, after the nodes of the actions that it follows. */
static cairn_status capture(builder *b, const crn_cuda_action *action) {
    crn_device *device = b->queue->device;
    const crn_cuda_api *api = device->api;
    CUstream stream = device->streams[CRN_COMPUTE];
    const CUgraphNode *last = NULL;
    const void *data = NULL;
    size_t count = 0;
    int status = 0;
    CUgraph graph = b->recording->graph;
    if (!crn_cuda_ok(device,
                     api->cuStreamBeginCaptureToGraph(stream, graph, b->after.data, NULL,
                                                      b->after.length, CRN_CUDA_CAPTURE_RELAXED),
                     "starting to record"))
        return CAIRN_OK;
    crn_cuda_perform(b->queue, action);
    nodes *end = &b->ends[b->count++];
    cairn_status out = CAIRN_OK;
    if (crn_cuda_ok(device,
                    api->cuStreamGetCaptureInfo(stream, &status, NULL, NULL, &last, &data, &count),
                    "recording")) {
        end->list = crn_arena_take(&b->recording->memory, count, sizeof *end->list);
        end->count = (uint32_t)count;
        if (end->list == NULL)
            out = crn_fail_memory(NULL);
        else if (count > 0)
            memcpy(end->list, last, count * sizeof *last);
    }
    (void)crn_cuda_ok(device, api->cuStreamEndCapture(stream, &graph), "ending a recording");
    return out;
}

/* All of device memory, so that a barrier conflicts with every access. */
static const crn_touch everything = {1, UINTPTR_MAX - 1, true};

static cairn_status build(builder *b) {
    crn_recording *r = b->recording;
    touches t = {.memory = &r->memory};
    for (uint32_t i = 0; i < r->actions.length; i++) {
        const crn_cuda_action *action = &r->actions.data[i];
        const uint32_t *after;
        uint32_t after_count, also = NOBODY;
        if (action->kind == CRN_DO_DISCARD || action->kind == CRN_DO_NOTHING)
            continue;
        touch_action(b->queue, action, &t);
        if (t.out_of_memory)
            return CAIRN_ENOMEM;
        /* Any action may read the values that are copied first. */
        bool barrier = action->kind == CRN_DO_BEGIN || t.too_many || b->queue->timed;
        if (action->kind == CRN_DO_COPY) {
            also = b->last_copy[action->lane];
            b->last_copy[action->lane] = b->count;
        }
        CRN_TRY(crn_hazards_add_after(b->hazards, barrier ? &everything : t.list.data,
                                      barrier ? 1 : t.list.length, also, &after, &after_count));
        CRN_TRY(gather(b, after, after_count));
        CRN_TRY(capture(b, action));
        if (b->queue->device->failed != CAIRN_OK)
            return CAIRN_OK;
    }
    return CAIRN_OK;
}

static cairn_status make_graph(crn_queue *queue, crn_recording *r, cairn_error *err) {
    crn_device *device = queue->device;
    const crn_cuda_api *api = device->api;
    builder b = {.queue = queue, .recording = r};
    for (int lane = 0; lane < CRN_LANES; lane++)
        b.last_copy[lane] = NOBODY;
    CRN_TAKE(&r->memory, b.ends, r->actions.length);
    CRN_TRY(crn_hazards_create(&r->memory, r->actions.length, &b.hazards));
    crn_cuda_fuse(r->actions.data, r->actions.length);
    CRN_TRY(give_scratch(queue, r, err));
    CRN_TRY(keep_statistics(queue, r, err));
    if (!crn_cuda_ok(device, api->cuGraphCreate(&r->graph, 0), "creating a graph"))
        return CAIRN_OK;
    CRN_TRY(build(&b));
    if (device->failed == CAIRN_OK &&
        crn_cuda_ok(device, api->cuGraphInstantiateWithFlags(&r->exec, r->graph, 0),
                    "preparing a graph"))
        (void)crn_cuda_ok(device, api->cuGraphUpload(r->exec, device->streams[CRN_COMPUTE]),
                          "preparing a graph");
    crn_cuda_look(device, CRN_STAGE_GRAPHS);
    return CAIRN_OK;
}

cairn_status crn_cuda_end_recording(crn_queue *queue, crn_recording **out, cairn_error *err) {
    crn_recording *r = queue->noting;
    *out = NULL;
    crn_cuda_note(queue, &(crn_cuda_action){.kind = CRN_DO_RESULTS,
                                            .to = &queue->host->results,
                                            .from = queue->results,
                                            .bytes = sizeof *queue->results});
    r->predictions = queue->predictions;
    cairn_status status = r->out_of_memory ? CAIRN_ENOMEM : make_graph(queue, r, err);
    queue->noting = NULL;
    if (status == CAIRN_ENOMEM)
        status = crn_fail_memory(err);
    if (status == CAIRN_OK)
        status = crn_cuda_take_failure(queue->device, err);
    if (status != CAIRN_OK) {
        crn_cuda_forget(queue, r);
        return status;
    }
    *out = r;
    return CAIRN_OK;
}

void crn_cuda_replay(crn_queue *queue, crn_recording *recording, const crn_values *values) {
    crn_device *device = queue->device;
    queue->predictions = recording->predictions;
    queue->seen = true;
    queue->host->values = *values;
    (void)crn_cuda_ok(device,
                      device->api->cuGraphLaunch(recording->exec, device->streams[CRN_COMPUTE]),
                      "a step");
}

void crn_cuda_forget(crn_queue *queue, crn_recording *recording) {
    if (recording == NULL)
        return;
    crn_device *device = queue->device;
    if (recording->exec != NULL)
        (void)device->api->cuGraphExecDestroy(recording->exec);
    if (recording->graph != NULL)
        (void)device->api->cuGraphDestroy(recording->graph);
    crn_cuda_release(device, CRN_SPACE_DEVICE, recording->scratch, recording->scratch_bytes);
    crn_cuda_release(device, CRN_SPACE_DEVICE, recording->kept, recording->kept_bytes);
    crn_arena_release(&recording->memory);
    crn_resize(&device->allocator, recording, sizeof *recording, 0);
}
