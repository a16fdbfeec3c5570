/* loader.c: batches in order, made ahead by a thread.
 *
 *     slots, a ring:   | held by the caller | ready | ready | being made |
 *                        given - 1            given           made
 *
 * One slot more than batches made ahead: the caller keeps what it was given until it asks again.
 * `given` and `made` count from `base`, the number last sought; the thread makes batches while
 * made - given is less than it may be ahead, and waits otherwise. All of this is under one lock,
 * except making the batch. A batch that failed stays in its slot with its error, and is not
 * skipped. */
#include "data/batch_maker.h"
#include "backend/crn_device.h"

typedef struct slot {
    float *inputs;
    int32_t *labels;
    cairn_status status;
    cairn_error error;
} slot;

struct crn_loader {
    crn_arena arena; /* in which this lies too */
    crn_batch_maker maker;
    slot *slots;
    uint32_t slot_count;
    uint64_t bytes;
    void *host; /* of a device's host memory, in which the batches lie; NULL: the arena */
    uint64_t host_bytes;
    bool threaded;
    pthread_t thread;
    pthread_mutex_t lock; /* for all that follows */
    pthread_cond_t changed;
    uint64_t base, given, made;
    bool making, seeking, stop;
};

static slot *slot_of(const crn_loader *l, uint64_t which) {
    return &l->slots[which % l->slot_count];
}

static void make(crn_loader *l, slot *s, uint64_t number) {
    crn_error_clear(&s->error);
    s->status = crn_batch_make(&l->maker, number, s->inputs, s->labels, &s->error);
}

/* ---- The thread ---- */

static bool may_make(const crn_loader *l) {
    return !l->seeking && l->made - l->given < l->maker.options.prefetch;
}

static void *work(void *argument) {
    crn_loader *l = argument;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!l->stop && !may_make(l))
            pthread_cond_wait(&l->changed, &l->lock);
        if (l->stop)
            break;
        slot *s = slot_of(l, l->made);
        uint64_t number = l->base + l->made;
        l->making = true;
        pthread_mutex_unlock(&l->lock);
        make(l, s, number);
        pthread_mutex_lock(&l->lock);
        l->making = false;
        l->made++;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- Creating ---- */

/* Labels of a batch. */
static uint64_t labels_of(const crn_loader *l) {
    return l->maker.options.batch * crn_sample_labels(l->maker.data);
}

static cairn_status place_in_arena(crn_loader *l, uint64_t elements) {
    for (uint32_t i = 0; i < l->slot_count; i++) {
        CRN_TAKE(&l->arena, l->slots[i].inputs, elements);
        CRN_TAKE(&l->arena, l->slots[i].labels, labels_of(l));
    }
    return CAIRN_OK;
}

/* From where the device copies fastest; `bytes` of inputs in a batch. */
static cairn_status place_in_host_memory(crn_loader *l, uint64_t bytes, cairn_error *err) {
    uint64_t inputs = crn_align(bytes);
    uint64_t both = inputs + crn_align(labels_of(l) * sizeof(int32_t));
    if (!crn_mul_u64(both, l->slot_count, &l->host_bytes))
        return crn_fail(err, CAIRN_EOVERFLOW, "%u batches are too large", l->slot_count);
    CRN_TRY(crn_device_host_reserve(l->maker.options.device, l->host_bytes, &l->host, err));
    for (uint32_t i = 0; i < l->slot_count; i++) {
        char *first = (char *)l->host + i * both;
        l->slots[i].inputs = (void *)first;
        l->slots[i].labels = (void *)(first + inputs);
    }
    return CAIRN_OK;
}

static cairn_status take_slots(crn_loader *l, cairn_error *err) {
    const crn_loader_options *o = &l->maker.options;
    uint64_t elements = 0, bytes = 0;
    l->slot_count = o->prefetch + 1;
    CRN_TAKE(&l->arena, l->slots, l->slot_count);
    if (!crn_mul_u64(l->maker.data->elements, o->batch, &elements) ||
        !crn_mul_u64(elements, sizeof(float), &bytes) || bytes > SIZE_MAX / 8)
        return crn_fail(err, CAIRN_EOVERFLOW, "a batch of %u samples is too large", o->batch);
    CRN_TRY(o->device != NULL ? place_in_host_memory(l, bytes, err) : place_in_arena(l, elements));
    l->bytes = sizeof *l + l->maker.data->sample_bytes +
               (o->shuffle ? (uint64_t)l->maker.count * sizeof *l->maker.order : 0) +
               l->slot_count * (sizeof *l->slots + bytes + labels_of(l) * sizeof(int32_t));
    return CAIRN_OK;
}

static cairn_status start(crn_loader *l, cairn_error *err) {
    if (l->maker.options.prefetch == 0)
        return CAIRN_OK;
    int reason = pthread_create(&l->thread, NULL, work, l);
    if (reason != 0)
        return crn_fail(err, CAIRN_ESYSTEM, "cannot start a thread: %s", strerror(reason));
    l->threaded = true;
    return CAIRN_OK;
}

#define MOST_AHEAD 1024u

static cairn_status prepare(crn_loader *l, cairn_error *err) {
    if (l->maker.options.prefetch > MOST_AHEAD)
        return crn_fail(err, CAIRN_EINVAL, "at most %u batches can be made ahead", MOST_AHEAD);
    CRN_TRY(crn_batch_maker_init(&l->maker, &l->arena, err));
    CRN_TRY(take_slots(l, err));
    return start(l, err);
}

cairn_status crn_loader_create(cairn_data *data, const crn_loader_options *options,
                               crn_loader **out, cairn_error *err) {
    *out = NULL;
    crn_error_clear(err);
    crn_loader *l = CRN_OBJECT(&data->arena.allocator, crn_loader, arena);
    if (l == NULL)
        return crn_fail_memory(err);
    l->maker.data = data;
    l->maker.options = *options;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    cairn_status status = prepare(l, err);
    if (status != CAIRN_OK) {
        crn_loader_destroy(l);
        return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
    }
    *out = l;
    return CAIRN_OK;
}

void crn_loader_destroy(crn_loader *l) {
    if (l == NULL)
        return;
    if (l->threaded) {
        pthread_mutex_lock(&l->lock);
        l->stop = true;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    if (l->host != NULL)
        crn_device_host_release(l->maker.options.device, l->host, l->host_bytes);
    crn_arena_destroy(&l->arena);
}

/* ---- Using ---- */

uint64_t crn_loader_batches(const crn_loader *l) {
    return l->maker.batches;
}

uint64_t crn_loader_bytes(const crn_loader *l) {
    return l->bytes;
}

void crn_loader_seek(crn_loader *l, uint64_t number) {
    pthread_mutex_lock(&l->lock);
    l->seeking = true; /* the thread finishes its batch and starts no other */
    while (l->making)
        pthread_cond_wait(&l->changed, &l->lock);
    l->seeking = false;
    l->base = number;
    l->given = l->made = 0;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

/* The slot with the next batch, made here where there is no thread. Called with the lock. */
static slot *next_slot(crn_loader *l) {
    slot *s = slot_of(l, l->given);
    if (!l->threaded) {
        make(l, s, l->base + l->given);
        return s;
    }
    while (l->made == l->given)
        pthread_cond_wait(&l->changed, &l->lock);
    return s;
}

cairn_status crn_loader_next(crn_loader *l, crn_batch *out, cairn_error *err) {
    *out = (crn_batch){0};
    crn_error_clear(err);
    pthread_mutex_lock(&l->lock);
    const slot *s = next_slot(l);
    cairn_status status = s->status;
    if (status == CAIRN_OK) {
        bool tokens = l->maker.data->info.tokens;
        uint64_t number = l->base + l->given++;
        *out = (crn_batch){
            .count = crn_batch_count(&l->maker, number),
            .inputs = tokens ? NULL : s->inputs,
            .labels = s->labels,
            .number = number,
            .tokens = tokens ? (const int32_t *)(const void *)s->inputs : NULL,
        };
        pthread_cond_broadcast(&l->changed);
    } else if (err != NULL) {
        *err = s->error;
    }
    pthread_mutex_unlock(&l->lock);
    return status;
}
