/* pool.c: one loop at a time, indices handed out by an atomic counter.
 *
 *      caller                         workers
 *      round += 1, wake  ----------->  see a new round
 *      take indices until none         take indices until none
 *      wait for busy == 0 <----------  busy -= 1, wake the caller
 *
 * A worker is counted busy before the round is announced, so the caller cannot leave while one may
 * still touch the loop's context. */
#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

struct crn_pool {
    cairn_allocator allocator;
    size_t size; /* of this block */
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    uint64_t round; /* the following are under the lock */
    uint32_t busy;
    bool stop;
    void (*body)(void *context, uint32_t index);
    void *context;
    uint32_t count;
    atomic_uint next;    /* the next index to hand out */
    crn_pool_team *team; /* NULL: its own threads */
    uint32_t count_of_threads;
    uint32_t workers; /* that run; a pool on a team has none */
    pthread_t threads[];
};

static void take_indices(crn_pool *pool) {
    for (;;) {
        uint32_t index = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (index >= pool->count)
            return;
        pool->body(pool->context, index);
    }
}

static void *work(void *argument) {
    crn_pool *pool = argument;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->round == seen && !pool->stop)
            pthread_cond_wait(&pool->wake, &pool->lock);
        if (pool->stop)
            break;
        seen = pool->round;
        pthread_mutex_unlock(&pool->lock);
        take_indices(pool);
        pthread_mutex_lock(&pool->lock);
        if (--pool->busy == 0)
            pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

cairn_status crn_pool_create(const cairn_allocator *allocator, uint32_t threads, crn_pool **out,
                             cairn_error *err) {
    return crn_pool_create_on(allocator, threads, NULL, out, err);
}

cairn_status crn_pool_create_on(const cairn_allocator *allocator, uint32_t threads,
                                crn_pool_team *team, crn_pool **out, cairn_error *err) {
    *out = NULL;
    if (threads == 0) {
        long processors = sysconf(_SC_NPROCESSORS_ONLN);
        threads = processors > 0 ? (uint32_t)CRN_MIN(processors, 256) : 1;
    }
    cairn_allocator from = crn_allocator_or_default(allocator);
    size_t size = sizeof(crn_pool) + (threads - 1) * sizeof(pthread_t);
    crn_pool *pool = crn_resize(&from, NULL, 0, size);
    if (pool == NULL)
        return crn_fail_memory(err);
    memset(pool, 0, size);
    pool->allocator = from;
    pool->size = size;
    pool->team = team;
    pool->count_of_threads = threads;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    for (; team == NULL && pool->workers < threads - 1; pool->workers++) {
        int reason = pthread_create(&pool->threads[pool->workers], NULL, work, pool);
        if (reason != 0) {
            crn_pool_destroy(pool);
            return crn_fail(err, CAIRN_ESYSTEM, "cannot start a thread: %s", strerror(reason));
        }
    }
    *out = pool;
    return CAIRN_OK;
}

void crn_pool_destroy(crn_pool *pool) {
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->workers; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    cairn_allocator from = pool->allocator;
    crn_resize(&from, pool, pool->size, 0);
}

uint32_t crn_pool_threads(const crn_pool *pool) {
    return pool->count_of_threads;
}

void crn_pool_for(crn_pool *pool, uint32_t count, void (*body)(void *context, uint32_t index),
                  void *context) {
    if (pool->team != NULL) {
        pool->team(pool->count_of_threads, count, body, context);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->body = body;
    pool->context = context;
    pool->count = count;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    pool->busy = pool->workers;
    pool->round++;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);

    take_indices(pool);

    pthread_mutex_lock(&pool->lock);
    while (pool->busy > 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
