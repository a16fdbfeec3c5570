/* processor_update.c: updates parameters from gradients, with PyTorch's formulas (torch.optim,
 * version 2: _single_tensor_sgd and _single_tensor_adam). Scalars are floats, rounded once;
 * elements are floats.
 *
 * Every element depends only on its own parameter, gradient and slots. So the work is divided into
 * chunks of one size, independent of the number of threads and the size of a parameter, and the
 * result is bitwise the same. */
#include "backend/processor_internal.h"

#include <math.h>

#define CHUNK 16384 /* elements; a few arrays of them fit into a cache */

/* A part of a parameter. It is so small that threads can share one large parameter evenly. */
typedef struct chunk {
    uint32_t parameter, count;
    uint64_t first;
} chunk;

typedef struct chunk_list {
    uint64_t count;
    chunk chunks[];
} chunk_list;

static size_t list_bytes(uint64_t count) {
    return sizeof(chunk_list) + (size_t)count * sizeof(chunk);
}

static uint64_t count_chunks(const crn_update *update) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < update->count; i++)
        if (update->parameters[i].gradient != NULL)
            count += (update->parameters[i].elements + CHUNK - 1) / CHUNK;
    return count;
}

cairn_status crn_processor_prepare_update(crn_queue *queue, crn_update *update, cairn_error *err) {
    uint64_t count = count_chunks(update);
    if (count > UINT32_MAX)
        return crn_fail_memory(err);
    chunk_list *list = crn_resize(&queue->device->allocator, NULL, 0, list_bytes(count));
    if (list == NULL)
        return crn_fail_memory(err);
    list->count = 0;
    for (uint32_t i = 0; i < update->count; i++) {
        const crn_parameter *p = &update->parameters[i];
        for (uint64_t first = 0; p->gradient != NULL && first < p->elements; first += CHUNK)
            list->chunks[list->count++] =
                (chunk){i, (uint32_t)CRN_MIN(p->elements - first, CHUNK), first};
    }
    update->state = list;
    return CAIRN_OK;
}

void crn_processor_finish_update(crn_queue *queue, crn_update *update) {
    chunk_list *list = update->state;
    if (list != NULL)
        crn_resize(&queue->device->allocator, list, list_bytes(list->count), 0);
    update->state = NULL;
}

/* The input of a loop over chunks. */
typedef struct work {
    const crn_update *update;
    const crn_values *values;
    const chunk_list *list;
} work;

static void for_chunks(crn_queue *queue, const crn_update *update,
                       void (*body)(void *context, uint32_t index)) {
    work w = {update, &queue->values, update->state};
    crn_team_for(queue->device->threads, (uint32_t)w.list->count, body, &w);
}

/* ---- Adding up gradients ---- */

static void gather_chunk(void *context, uint32_t index) {
    const work *w = context;
    const chunk *part = &w->list->chunks[index];
    const crn_parameter *p = &w->update->parameters[part->parameter];
    bool first = w->values->first != 0;
    float *restrict sum = (float *)p->slots[w->update->slot_count - 1] + part->first;
    const float *restrict g = (const float *)p->gradient + part->first;
    for (uint32_t i = 0; i < part->count; i++)
        sum[i] = first ? g[i] : sum[i] + g[i];
}

void crn_processor_accumulate(crn_queue *queue, const crn_update *update) {
    for_chunks(queue, update, gather_chunk);
}

/* ---- The formulas, on a chunk ---- */

static void sgd(const work *w, float decay, float *restrict p, const float *restrict g,
                float *restrict v, uint32_t count) {
    bool nesterov = w->update->nesterov;
    float rate = w->values->rate, momentum = w->update->momentum;
    for (uint32_t i = 0; i < count; i++) {
        float d = decay != 0 ? g[i] + decay * p[i] : g[i];
        if (v != NULL) {
            v[i] = momentum * v[i] + d;
            d = nesterov ? d + momentum * v[i] : v[i];
        }
        p[i] -= rate * d;
    }
}

static void adam(const work *w, float decay, float *restrict p, const float *restrict g,
                 float *restrict m, float *restrict v, uint32_t count) {
    const crn_update *u = w->update;
    const crn_values *now = w->values;
    bool decoupled = u->kind == CAIRN_OPTIMIZER_ADAMW && decay != 0;
    bool added = u->kind == CAIRN_OPTIMIZER_ADAM && decay != 0;
    for (uint32_t i = 0; i < count; i++) {
        float value = decoupled ? p[i] * now->keep : p[i];
        float d = added ? g[i] + decay * value : g[i];
        m[i] += u->beta1_rest * (d - m[i]);
        v[i] = u->beta2 * v[i] + u->beta2_rest * d * d;
        float spread = sqrtf(v[i]) / now->root_correction + u->epsilon;
        p[i] = value - now->step_size * (m[i] / spread);
    }
}

static void update_chunk(void *context, uint32_t index) {
    const work *w = context;
    const crn_update *u = w->update;
    const chunk *part = &w->list->chunks[index];
    const crn_parameter *p = &u->parameters[part->parameter];
    float *slots[CRN_MOST_SLOTS] = {0};
    float *value = (float *)p->value + part->first, decay = p->no_decay ? 0 : u->decay;
    const float *gradient = (const float *)p->gradient + part->first;
    for (uint32_t slot = 0; slot < u->slot_count; slot++)
        slots[slot] = (float *)p->slots[slot] + part->first;
    if (u->has_sum && w->values->gathered > 0) {
        float *sum = slots[u->slot_count - 1];
        for (uint32_t i = 0; i < part->count; i++)
            sum[i] /= w->values->gathered;
        gradient = sum;
    }
    if (u->kind == CAIRN_OPTIMIZER_SGD)
        sgd(w, decay, value, gradient, u->has_momentum ? slots[0] : NULL, part->count);
    else
        adam(w, decay, value, gradient, slots[0], slots[1], part->count);
}

void crn_processor_update(crn_queue *queue, const crn_update *update) {
    for_chunks(queue, update, update_chunk);
}
