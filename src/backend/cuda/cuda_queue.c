/* cuda_queue.c: the work of one executor on a GPU: three streams, a block of values, results.
 *
 * Every call is an action. It runs at once, or it is added to the recording while a step is
 * recorded. */
#include "backend/cuda/cuda_internal.h"
#include "backend/formats.h"

#define STAGING (16u << 20) /* bytes */

static CUdeviceptr pointer(const void *at) {
    return (CUdeviceptr)(uintptr_t)at;
}

/* ---- Creating a queue ---- */

cairn_status crn_cuda_queue(crn_device *device, crn_queue **out, cairn_error *err) {
    *out = NULL;
    crn_queue *queue = crn_resize(&device->allocator, NULL, 0, sizeof *queue);
    if (queue == NULL)
        return crn_fail_memory(err);
    *queue = (crn_queue){.device = device};
    void *block = NULL, *host = NULL;
    cairn_status status = crn_cuda_reserve(
        device, CRN_SPACE_DEVICE, sizeof(crn_step_values) + sizeof *queue->results, &block, err);
    if (status == CAIRN_OK) {
        queue->values = block;
        queue->results = (crn_cuda_results *)(void *)((char *)block + sizeof(crn_step_values));
        status = crn_cuda_reserve(device, CRN_SPACE_HOST, sizeof *queue->host, &host, err);
    }
    if (status != CAIRN_OK) {
        crn_cuda_finish_queue(queue);
        return status;
    }
    queue->host = host;
    *out = queue;
    return CAIRN_OK;
}

static void drop_events(crn_queue *queue) {
    crn_device *device = queue->device;
    for (uint32_t i = 0; i < queue->event_count; i++)
        if (queue->events[i] != NULL)
            (void)device->api->cuEventDestroy(queue->events[i]);
    crn_resize(&device->allocator, queue->events, queue->event_count * sizeof *queue->events, 0);
    queue->events = NULL;
    queue->event_count = 0;
}

void crn_cuda_finish_queue(crn_queue *queue) {
    if (queue == NULL)
        return;
    crn_device *device = queue->device;
    if (queue->event_count > 0)
        drop_events(queue);
    crn_cuda_release(device, CRN_SPACE_DEVICE, queue->staging, queue->staging_bytes);
    crn_cuda_release(device, CRN_SPACE_DEVICE, queue->values,
                     sizeof(crn_step_values) + sizeof *queue->results);
    crn_cuda_release(device, CRN_SPACE_HOST, queue->host, sizeof *queue->host);
    crn_resize(&device->allocator, queue, sizeof *queue, 0);
}

const crn_values *crn_cuda_values(crn_queue *queue) {
    return queue->values;
}

cairn_status crn_cuda_events(crn_queue *queue, uint32_t count, bool timed, cairn_error *err) {
    crn_device *device = queue->device;
    if (queue->event_count > 0)
        drop_events(queue);
    queue->timed = timed;
    if (count == 0)
        return CAIRN_OK;
    queue->events = crn_resize(&device->allocator, NULL, 0, count * sizeof *queue->events);
    if (queue->events == NULL)
        return crn_fail_memory(err);
    queue->event_count = count;
    memset(queue->events, 0, count * sizeof *queue->events);
    for (uint32_t i = 0; i < count; i++)
        if (!crn_cuda_ok(
                device,
                device->api->cuEventCreate(&queue->events[i], timed ? 0 : CRN_CUDA_EVENT_UNTIMED),
                "creating an event"))
            return crn_cuda_take_failure(device, err);
    return CAIRN_OK;
}

/* ---- Running an action ---- */

static void run_call(crn_queue *queue, const crn_cuda_action *action) {
    crn_device *device = queue->device;
    union {
        const void *given;
        crn_cuda_recipe *ours;
    } recipe = {action->call.recipe};
    crn_work work = {.device = device,
                     .call = &action->call,
                     .recipe = recipe.ours,
                     .side = action->side,
                     .beta = action->beta,
                     .kept = action->kept,
                     .column_sums = action->column_sums,
                     .bias_made = action->bias_made,
                     .tickets = device->tickets + (size_t)action->ticket * CRN_TICKETS};
    const crn_call *first = action->fused[0], *second = action->fused[1];
    const crn_call *third = action->fused[2];
    if (first == NULL && second == NULL && third == NULL && action->kept == NULL &&
        action->column_sums == NULL)
        crn_cuda_op_of(action->call.op->kind)(&work);
    else if (action->call.op->kind == CAIRN_OP_BATCH_NORM)
        crn_cuda_norm_with(&work, first, second);
    else if (action->call.op->kind == CAIRN_OP_BATCH_NORM_BWD)
        crn_cuda_norm_bwd_with(&work, first, second, third);
    else if (action->call.op->kind == CAIRN_OP_CONV2D)
        crn_cuda_conv_with(&work, second);
    else if (action->call.op->kind == CAIRN_OP_CONV2D_BWD_WEIGHT)
        crn_cuda_conv_bwd_weight_with(&work, second);
    else if (action->call.op->kind == CAIRN_OP_LINEAR_BWD_WEIGHT)
        crn_cuda_linear_bwd_weight_with(&work, second);
    else if (action->call.op->kind == CAIRN_OP_RELU_BWD)
        crn_cuda_relu_bwd_with(&work, first);
    else if (first != NULL)
        crn_cuda_row_norm_with(&work, first);
    else if (third != NULL || action->column_sums != NULL)
        crn_cuda_row_norm_bwd_with(&work, third);
    else
        crn_cuda_pointwise_with(&work, second);
}

/* Compare the probabilities, or the logits if there are none, with the labels. */
static void count_hits(crn_queue *queue, const crn_cuda_action *action) {
    crn_device *device = queue->device;
    const crn_call *call = &action->call;
    if (call->op->kind == CAIRN_OP_HEAD_LOSS) { /* it has counted, in the first 8 bytes there */
        (void)crn_cuda_ok(device,
                          device->api->cuMemcpyAsync(pointer(&queue->results->correct),
                                                     pointer(call->workspace), sizeof(uint64_t),
                                                     device->streams[CRN_COMPUTE]),
                          "a copy");
        return;
    }
    crn_work work = {.device = device,
                     .call = call,
                     .tickets = device->tickets + (size_t)action->ticket * CRN_TICKETS};
    crn_cuda_count_hits(&work, &queue->results->correct);
}

/* In a recording the values come from pinned memory, which is read at each replay. Otherwise the
 * driver has copied them when this returns. */
static void set_values(crn_queue *queue, const crn_values *values) {
    crn_device *device = queue->device;
    const crn_cuda_api *api = device->api;
    CUstream stream = device->streams[CRN_COMPUTE];
    (void)crn_cuda_ok(
        device, api->cuMemcpyAsync(pointer(queue->values), pointer(values), sizeof *values, stream),
        "setting the values of a step");
    (void)crn_cuda_ok(
        device, api->cuMemsetD8Async(pointer(queue->results), 0, sizeof *queue->results, stream),
        "clearing the results of a step");
}

static void send_results(crn_queue *queue) {
    crn_device *device = queue->device;
    (void)crn_cuda_ok(device,
                      device->api->cuMemcpyAsync(pointer(&queue->host->results),
                                                 pointer(queue->results), sizeof *queue->results,
                                                 device->streams[CRN_COMPUTE]),
                      "reading the results of a step");
}

void crn_cuda_perform(crn_queue *queue, const crn_cuda_action *action) {
    crn_device *device = queue->device;
    const crn_cuda_api *api = device->api;
    CUstream stream = device->streams[queue->noting != NULL ? (uint8_t)CRN_COMPUTE : action->lane];
    switch ((crn_action_kind)action->kind) {
    case CRN_DO_CALL:
        run_call(queue, action);
        break;
    case CRN_DO_FILL:
        (void)crn_cuda_ok(
            device,
            api->cuMemsetD8Async(pointer(action->to), action->byte, (size_t)action->bytes, stream),
            "filling memory");
        break;
    case CRN_DO_COPY:
    case CRN_DO_LOSS:
        (void)crn_cuda_ok(device,
                          api->cuMemcpyAsync(pointer(action->to), pointer(action->from),
                                             (size_t)action->bytes, stream),
                          "a copy");
        break;
    case CRN_DO_COUNT:
        count_hits(queue, action);
        break;
    case CRN_DO_BEGIN:
        set_values(queue, &queue->host->values);
        break;
    case CRN_DO_RESULTS:
        send_results(queue);
        break;
    case CRN_DO_ACCUMULATE:
    case CRN_DO_UPDATE:
    case CRN_DO_SQUARES:
        crn_cuda_do_update(queue, action);
        break;
    case CRN_DO_EVENT:
        (void)crn_cuda_ok(device,
                          api->cuEventRecordWithFlags(queue->events[action->event], stream,
                                                      CRN_CUDA_EVENT_EXTERNAL),
                          "recording an event");
        break;
    case CRN_DO_DISCARD:
    case CRN_DO_NOTHING:
        break;
    }
}

static void request(crn_queue *queue, crn_cuda_action action) {
    crn_device *device = queue->device;
    action.ticket = device->next_ticket++ % CRN_TICKET_BLOCKS;
    if (queue->noting != NULL)
        crn_cuda_note(queue, &action);
    else
        crn_cuda_perform(queue, &action);
}

/* ---- On the compute lane ---- */

void crn_cuda_begin(crn_queue *queue, const crn_values *values) {
    queue->predictions = 0;
    queue->seen = false;
    set_values(queue, values);
}

void crn_cuda_enqueue(crn_queue *queue, const crn_call *call) {
    request(queue, (crn_cuda_action){.kind = CRN_DO_CALL, .call = *call});
}

void crn_cuda_fill(crn_queue *queue, void *at, uint8_t byte, uint64_t bytes) {
    request(queue, (crn_cuda_action){.kind = CRN_DO_FILL, .to = at, .byte = byte, .bytes = bytes});
}

void crn_cuda_discard(crn_queue *queue, void *at, uint64_t bytes) {
    if (queue->noting != NULL)
        request(queue, (crn_cuda_action){.kind = CRN_DO_DISCARD, .to = at, .bytes = bytes});
}

void crn_cuda_take_loss(crn_queue *queue, const void *loss) {
    request(queue, (crn_cuda_action){.kind = CRN_DO_LOSS,
                                     .to = &queue->results->loss,
                                     .from = loss,
                                     .bytes = sizeof(float)});
}

void crn_cuda_count_correct(crn_queue *queue, const crn_call *call) {
    const cairn_tensor *labels = cairn_graph_tensor(call->graph, call->op->inputs[1]);
    queue->predictions += labels->bytes / sizeof(int32_t);
    request(queue, (crn_cuda_action){.kind = CRN_DO_COUNT,
                                     .call = *call,
                                     .to = &queue->results->correct,
                                     .bytes = sizeof(uint64_t)});
}

void crn_cuda_accumulate(crn_queue *queue, const crn_update *update) {
    request(queue, (crn_cuda_action){.kind = CRN_DO_ACCUMULATE, .update = update});
}

void crn_cuda_update(crn_queue *queue, const crn_update *update) {
    request(queue, (crn_cuda_action){.kind = CRN_DO_UPDATE, .update = update});
}

void crn_cuda_add_squares(crn_queue *queue, const crn_update *update) {
    request(queue, (crn_cuda_action){.kind = CRN_DO_SQUARES, .update = update});
}

/* ---- Host memory in plain layout <-> stored form ---- */

static bool need_staging(crn_queue *queue, uint64_t bytes) {
    crn_device *device = queue->device;
    cairn_error err;
    if (bytes <= queue->staging_bytes)
        return true;
    (void)crn_cuda_ok(device, device->api->cuStreamSynchronize(device->streams[CRN_COMPUTE]),
                      "a conversion");
    crn_cuda_release(device, CRN_SPACE_DEVICE, queue->staging, queue->staging_bytes);
    queue->staging_bytes = 0;
    queue->staging = NULL;
    if (crn_cuda_reserve(device, CRN_SPACE_DEVICE, CRN_MAX(bytes, STAGING), &queue->staging,
                         &err) != CAIRN_OK)
        return crn_cuda_keep(device, &err);
    queue->staging_bytes = CRN_MAX(bytes, STAGING);
    return true;
}

static void move(crn_queue *queue, void *to, const void *from, uint64_t bytes) {
    crn_device *device = queue->device;
    (void)crn_cuda_ok(device,
                      device->api->cuMemcpyAsync(pointer(to), pointer(from), (size_t)bytes,
                                                 device->streams[CRN_COMPUTE]),
                      "a copy between host and device");
}

/* Convert rows of an image or of a bf16 tensor, through plain rows on the device. */
static void convert_image(crn_queue *queue, const crn_conversion *c, uint64_t first, uint64_t rows,
                          uint64_t plain_row, uint64_t stored_row) {
    const cairn_tensor *t = c->tensor;
    crn_work work = {.device = queue->device};
    char *host = (char *)c->host + (first - c->first) * plain_row;
    bool image = c->storage.format == CRN_CHANNELS_LAST; /* else only the type is converted */
    uint32_t plane = image ? t->shape[2] * t->shape[3] : 1;
    crn_element element = c->storage.type == CRN_BF16 ? CRN_ELEMENT_BF16 : CRN_ELEMENT_F32;
    crn_layout_args args = {.element = element,
                            .plain_element = CRN_ELEMENT_F32,
                            .batch = (uint32_t)rows,
                            .channels = image ? t->shape[1] : (uint32_t)(plain_row / sizeof(float)),
                            .plane = plane,
                            .pitch = (uint32_t)(stored_row / crn_cuda_size(element) / plane),
                            .plain = queue->staging,
                            .image = (char *)c->stored + first * stored_row};
    if (c->to_host) {
        crn_cuda_launch(&work, crn_to_plain_launch(&args), &args);
        move(queue, host, queue->staging, rows * plain_row);
    } else {
        move(queue, queue->staging, host, rows * plain_row);
        crn_cuda_launch(&work, crn_to_image_launch(&args), &args);
    }
}

/* Rows of a tensor that is stored twice: the copy is made on the device. */
static void convert_twice(crn_queue *queue, const crn_conversion *c) {
    crn_work work = {.device = queue->device};
    uint64_t row = c->tensor->bytes / sizeof(float) / crn_tensor_rows(c->tensor);
    crn_conversion once = *c;
    once.storage = crn_storage_once(c->tensor, c->storage);
    crn_cuda_convert(queue, &once);
    uint16_t *copy = crn_copy_of(c->tensor, c->storage, c->stored);
    if (!c->to_host)
        crn_cuda_to_element(&work, (float *)c->stored + c->first * row, CRN_ELEMENT_F32,
                            copy + c->first * row, CRN_ELEMENT_BF16, c->rows * row);
}

void crn_cuda_convert(crn_queue *queue, const crn_conversion *c) {
    uint64_t rows = crn_tensor_rows(c->tensor);
    if (c->storage.type == CRN_TWICE) {
        convert_twice(queue, c);
        return;
    }
    uint64_t plain_row = c->tensor->bytes / rows, stored_row = c->storage.bytes / rows;
    if (c->storage.format != CRN_CHANNELS_LAST && c->storage.type == CRN_AS_GRAPH) {
        char *stored = (char *)c->stored + c->first * stored_row;
        move(queue, c->to_host ? c->host : stored, c->to_host ? stored : c->host,
             c->rows * stored_row);
        return;
    }
    if (!need_staging(queue, plain_row))
        return;
    uint64_t most = CRN_MAX(queue->staging_bytes / plain_row, 1);
    for (uint64_t done = 0; done < c->rows;) {
        uint64_t some = CRN_MIN(c->rows - done, most);
        convert_image(queue, c, c->first + done, some, plain_row, stored_row);
        done += some;
    }
}

/* ---- Lanes ---- */

void crn_cuda_copy(crn_queue *queue, crn_lane lane, void *to, const void *from, uint64_t bytes) {
    request(
        queue,
        (crn_cuda_action){
            .kind = CRN_DO_COPY, .lane = (uint8_t)lane, .to = to, .from = from, .bytes = bytes});
}

/* In a recording only addresses decide what follows what; an event only records a time. */
void crn_cuda_record(crn_queue *queue, crn_lane lane, crn_event event) {
    crn_device *device = queue->device;
    if (queue->noting == NULL)
        (void)crn_cuda_ok(device,
                          device->api->cuEventRecord(queue->events[event], device->streams[lane]),
                          "recording an event");
    else if (queue->timed && lane == CRN_COMPUTE)
        request(queue, (crn_cuda_action){.kind = CRN_DO_EVENT, .event = event});
}

void crn_cuda_follow(crn_queue *queue, crn_lane lane, crn_event event) {
    crn_device *device = queue->device;
    if (queue->noting == NULL)
        (void)crn_cuda_ok(
            device, device->api->cuStreamWaitEvent(device->streams[lane], queue->events[event], 0),
            "waiting for an event");
}

cairn_status crn_cuda_join(crn_queue *queue, crn_results *results, cairn_error *err) {
    crn_device *device = queue->device;
    const crn_cuda_api *api = device->api;
    if (results != NULL && !queue->seen)
        send_results(queue);
    for (int lane = 0; lane < CRN_LANES; lane++)
        (void)crn_cuda_ok(device, api->cuStreamSynchronize(device->streams[lane]), "a step");
    if (results != NULL)
        *results = (crn_results){.loss = queue->host->results.loss,
                                 .correct = queue->host->results.correct,
                                 .predictions = queue->predictions};
    return crn_cuda_take_failure(device, err);
}

int64_t crn_cuda_elapsed_ns(crn_queue *queue, crn_event from, crn_event to) {
    crn_device *device = queue->device;
    float milliseconds = 0;
    (void)crn_cuda_ok(
        device,
        device->api->cuEventElapsedTime(&milliseconds, queue->events[from], queue->events[to]),
        "reading a time");
    return (int64_t)((double)milliseconds * 1e6);
}
