/* cuda_update.c: the optimiser: one launch for all parameters. Its table of chunks is in device
 * memory and made once; the values that change from step to step are in the queue. */
#include "backend/cuda/cuda_internal.h"

typedef struct table {
    crn_chunk_addresses *chunks; /* device; behind them a sum of squares for each, if needed */
    uint32_t count;
    uint64_t bytes, all_bytes; /* of the chunks, and of everything */
} table;

static uint64_t count_chunks(const crn_update *update) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < update->count; i++)
        if (update->parameters[i].gradient != NULL)
            count += (update->parameters[i].elements + CRN_CHUNK - 1) / CRN_CHUNK;
    return count;
}

static float *chunk_at(void *base, uint64_t first) {
    return base == NULL ? NULL : (float *)base + first;
}

static void list_chunks(const crn_update *update, crn_chunk_addresses *out) {
    uint32_t own = update->slot_count - update->has_sum;
    for (uint32_t i = 0; i < update->count; i++) {
        const crn_parameter *p = &update->parameters[i];
        for (uint64_t first = 0; p->gradient != NULL && first < p->elements; first += CRN_CHUNK)
            *out++ = (crn_chunk_addresses){
                .value = chunk_at(p->value, first),
                .copy = p->copy == NULL ? NULL : (uint16_t *)p->copy + first,
                .gradient = (const float *)p->gradient + first,
                .slots = {own > 0 ? chunk_at(p->slots[0], first) : NULL,
                          own > 1 ? chunk_at(p->slots[1], first) : NULL},
                .sum = update->has_sum ? chunk_at(p->slots[update->slot_count - 1], first) : NULL,
                .count = (uint32_t)CRN_MIN(p->elements - first, CRN_CHUNK),
                .no_decay = p->no_decay};
    }
}

/* Copy the table to the device, from temporary memory. */
static cairn_status fill_table(crn_queue *queue, const crn_update *update, table *made,
                               cairn_error *err) {
    crn_device *device = queue->device;
    crn_chunk_addresses *host = crn_resize(&device->allocator, NULL, 0, (size_t)made->bytes);
    if (host == NULL)
        return crn_fail_memory(err);
    list_chunks(update, host);
    CUstream stream = device->streams[CRN_COMPUTE];
    (void)crn_cuda_ok(device,
                      device->api->cuMemcpyAsync((CUdeviceptr)(uintptr_t)made->chunks,
                                                 (CUdeviceptr)(uintptr_t)host, (size_t)made->bytes,
                                                 stream),
                      "preparing the optimiser");
    (void)crn_cuda_ok(device, device->api->cuStreamSynchronize(stream), "preparing the optimiser");
    crn_resize(&device->allocator, host, (size_t)made->bytes, 0);
    return crn_cuda_take_failure(device, err);
}

cairn_status crn_cuda_prepare_update(crn_queue *queue, crn_update *update, cairn_error *err) {
    crn_device *device = queue->device;
    uint64_t count = count_chunks(update);
    void *memory = NULL;
    update->state = NULL;
    if (count == 0 || count > UINT32_MAX)
        return count == 0 ? CAIRN_OK : crn_fail_memory(err);
    table *made = crn_resize(&device->allocator, NULL, 0, sizeof *made);
    if (made == NULL)
        return crn_fail_memory(err);
    *made = (table){.count = (uint32_t)count, .bytes = count * sizeof *made->chunks};
    made->all_bytes = made->bytes + (update->squares_out != NULL ? count * sizeof(double) : 0);
    update->state = made;
    cairn_status status = crn_cuda_reserve(device, CRN_SPACE_DEVICE, made->all_bytes, &memory, err);
    made->chunks = memory;
    if (status == CAIRN_OK)
        status = fill_table(queue, update, made, err);
    if (status != CAIRN_OK)
        crn_cuda_finish_update(queue, update);
    return status;
}

void crn_cuda_finish_update(crn_queue *queue, crn_update *update) {
    table *made = update->state;
    if (made == NULL)
        return;
    crn_cuda_release(queue->device, CRN_SPACE_DEVICE, made->chunks, made->all_bytes);
    crn_resize(&queue->device->allocator, made, sizeof *made, 0);
    update->state = NULL;
}

void crn_cuda_do_update(crn_queue *queue, const crn_cuda_action *action) {
    const crn_update *update = action->update;
    const table *made = update->state;
    crn_work work = {.device = queue->device};
    if (made == NULL)
        return;
    crn_update_args args = {.chunks = made->chunks,
                            .count = made->count,
                            .nesterov = update->nesterov,
                            .decoupled = update->kind == CAIRN_OPTIMIZER_ADAMW,
                            .momentum = update->momentum,
                            .decay = update->decay,
                            .beta1_rest = update->beta1_rest,
                            .beta2 = update->beta2,
                            .beta2_rest = update->beta2_rest,
                            .epsilon = update->epsilon,
                            .values = (const crn_step_values *)(const void *)queue->values,
                            .clip = update->clip,
                            .squares = update->squares,
                            .squares_out = update->squares_out,
                            .chunk_squares = (double *)(void *)(made->chunks + made->count)};
    if (action->kind == CRN_DO_SQUARES) {
        crn_cuda_launch(&work, crn_square_chunks_launch(&args), &args);
        crn_cuda_launch(&work, crn_add_squares_launch(&args), &args);
        return;
    }
    crn_launch launch = action->kind == CRN_DO_ACCUMULATE     ? crn_gather_gradients_launch(&args)
                        : update->kind == CAIRN_OPTIMIZER_SGD ? crn_sgd_launch(&args)
                                                              : crn_adam_launch(&args);
    crn_cuda_launch(&work, launch, &args);
}
