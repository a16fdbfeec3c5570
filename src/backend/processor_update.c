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

/* Some elements of a parameter. It is so small that threads can share one large parameter evenly.
 */
typedef struct chunk {
    uint32_t parameter, count;
    uint64_t first;
    double squares; /* of its gradients, for their norm */
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
                (chunk){i, (uint32_t)CRN_MIN(p->elements - first, CHUNK), first, 0};
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
    chunk_list *list;
} work;

static void for_chunks(crn_queue *queue, const crn_update *update,
                       void (*body)(void *context, uint32_t index)) {
    work w = {update, &queue->values, update->state};
    crn_team_for(queue->device->threads, (uint32_t)w.list->count, body, &w);
}

/* ---- Adding up gradients ---- */

static void gather_chunk(void *context, uint32_t index) {
    const work *w = context;
    const chunk *own = &w->list->chunks[index];
    const crn_parameter *p = &w->update->parameters[own->parameter];
    bool first = w->values->first != 0;
    float *restrict sum = (float *)p->slots[w->update->slot_count - 1] + own->first;
    const float *restrict g = (const float *)p->gradient + own->first;
    for (uint32_t i = 0; i < own->count; i++)
        sum[i] = first ? g[i] : sum[i] + g[i];
}

void crn_processor_accumulate(crn_queue *queue, const crn_update *update) {
    for_chunks(queue, update, gather_chunk);
}

/* ---- The norm of gradients ---- */

/* Sums are in double precision, over a chunk and over all chunks in their order. */
static void square_chunk(void *context, uint32_t index) {
    const work *w = context;
    const crn_update *u = w->update;
    chunk *own = &w->list->chunks[index];
    const crn_parameter *p = &u->parameters[own->parameter];
    bool sum = u->has_sum && w->values->gathered > 0;
    const float *g = (const float *)(sum ? p->slots[u->slot_count - 1] : p->gradient) + own->first;
    double squares = 0;
    for (uint32_t i = 0; i < own->count; i++) {
        float d = sum ? g[i] / w->values->gathered : g[i];
        squares += (double)d * (double)d;
    }
    own->squares = squares;
}

void crn_processor_add_squares(crn_queue *queue, const crn_update *update) {
    const chunk_list *list = update->state;
    for_chunks(queue, update, square_chunk);
    double squares = update->squares == NULL ? 0 : (double)*update->squares;
    for (uint64_t i = 0; i < list->count; i++)
        squares += list->chunks[i].squares;
    *update->squares_out = (float)squares;
}

/* What gradients are multiplied by: 1, or less if their norm is too large. NaNs stay. */
static float scale_of(const crn_update *update) {
    if (update->squares == NULL)
        return 1;
    float scale = update->clip / (sqrtf(*update->squares) + 1e-6f);
    return scale > 1 ? 1 : scale;
}

/* ---- The formulas, on a chunk ---- */

static void sgd(const work *w, float decay, float *restrict p, const float *restrict g,
                float *restrict v, uint32_t count) {
    float scale = scale_of(w->update);
    bool nesterov = w->update->nesterov;
    float rate = w->values->rate, momentum = w->update->momentum;
    for (uint32_t i = 0; i < count; i++) {
        float d = g[i] * scale;
        d = decay != 0 ? d + decay * p[i] : d;
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
    float scale = scale_of(u);
    for (uint32_t i = 0; i < count; i++) {
        float value = decoupled ? p[i] * now->keep : p[i];
        float d = g[i] * scale;
        d = added ? d + decay * value : d;
        m[i] += u->beta1_rest * (d - m[i]);
        v[i] = u->beta2 * v[i] + u->beta2_rest * d * d;
        float spread = sqrtf(v[i]) / now->root_correction + u->epsilon;
        p[i] = value - now->step_size * (m[i] / spread);
    }
}

static void update_chunk(void *context, uint32_t index) {
    const work *w = context;
    const crn_update *u = w->update;
    const chunk *own = &w->list->chunks[index];
    const crn_parameter *p = &u->parameters[own->parameter];
    float *slots[CRN_MOST_SLOTS] = {0};
    float *value = (float *)p->value + own->first, decay = p->no_decay ? 0 : u->decay;
    const float *gradient = (const float *)p->gradient + own->first;
    for (uint32_t slot = 0; slot < u->slot_count; slot++)
        slots[slot] = (float *)p->slots[slot] + own->first;
    if (u->has_sum && w->values->gathered > 0) {
        float *sum = slots[u->slot_count - 1];
        for (uint32_t i = 0; i < own->count; i++)
            sum[i] /= w->values->gathered;
        gradient = sum;
    }
    if (u->kind == CAIRN_OPTIMIZER_SGD)
        sgd(w, decay, value, gradient, u->has_momentum ? slots[0] : NULL, own->count);
    else
        adam(w, decay, value, gradient, slots[0], slots[1], own->count);
}

void crn_processor_update(crn_queue *queue, const crn_update *update) {
    for_chunks(queue, update, update_chunk);
}
