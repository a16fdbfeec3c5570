/* team.c: one loop at a time, indices handed out by an atomic counter.
 *
 *      caller                         workers
 *      round += 1, wake  ----------->  see a new round
 *      take indices until none         take indices until none
 *      wait for busy == 0 <----------  busy -= 1, wake the caller
 *
 * A worker is counted busy before the round is announced, so the caller cannot leave while one may
 * still touch the loop's context. */
#include "base/team.h"

#include "base/processors.h"

#include <pthread.h>
#include <stdatomic.h>

struct crn_team {
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
    crn_team_loop *loop; /* NULL: its own threads */
    uint32_t count_of_threads;
    uint32_t workers; /* that run; a team on others' threads has none */
    pthread_t threads[];
};

static void take_indices(crn_team *team) {
    for (;;) {
        uint32_t index = atomic_fetch_add_explicit(&team->next, 1, memory_order_relaxed);
        if (index >= team->count)
            return;
        team->body(team->context, index);
    }
}

static void *work(void *argument) {
    crn_team *team = argument;
    uint64_t seen = 0;
    pthread_mutex_lock(&team->lock);
    for (;;) {
        while (team->round == seen && !team->stop)
            pthread_cond_wait(&team->wake, &team->lock);
        if (team->stop)
            break;
        seen = team->round;
        pthread_mutex_unlock(&team->lock);
        take_indices(team);
        pthread_mutex_lock(&team->lock);
        if (--team->busy == 0)
            pthread_cond_signal(&team->done);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

cairn_status crn_team_create(const cairn_allocator *allocator, uint32_t threads, crn_team **out,
                             cairn_error *err) {
    return crn_team_create_on(allocator, threads, NULL, out, err);
}

cairn_status crn_team_create_on(const cairn_allocator *allocator, uint32_t threads,
                                crn_team_loop *loop, crn_team **out, cairn_error *err) {
    *out = NULL;
    if (threads == 0)
        threads = crn_processors();
    cairn_allocator from = crn_allocator_or_default(allocator);
    size_t size = sizeof(crn_team) + (threads - 1) * sizeof(pthread_t);
    crn_team *team = crn_resize(&from, NULL, 0, size);
    if (team == NULL)
        return crn_fail_memory(err);
    memset(team, 0, size);
    team->allocator = from;
    team->size = size;
    team->loop = loop;
    team->count_of_threads = threads;
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->wake, NULL);
    pthread_cond_init(&team->done, NULL);
    for (; loop == NULL && team->workers < threads - 1; team->workers++) {
        int reason = pthread_create(&team->threads[team->workers], NULL, work, team);
        if (reason != 0) {
            crn_team_destroy(team);
            return crn_fail(err, CAIRN_ESYSTEM, "cannot start a thread: %s", strerror(reason));
        }
    }
    *out = team;
    return CAIRN_OK;
}

void crn_team_destroy(crn_team *team) {
    if (team == NULL)
        return;
    pthread_mutex_lock(&team->lock);
    team->stop = true;
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->lock);
    for (uint32_t i = 0; i < team->workers; i++)
        pthread_join(team->threads[i], NULL);
    pthread_cond_destroy(&team->done);
    pthread_cond_destroy(&team->wake);
    pthread_mutex_destroy(&team->lock);
    cairn_allocator from = team->allocator;
    crn_resize(&from, team, team->size, 0);
}

uint32_t crn_team_threads(const crn_team *team) {
    return team->count_of_threads;
}

void crn_team_for(crn_team *team, uint32_t count, void (*body)(void *context, uint32_t index),
                  void *context) {
    if (team->loop != NULL) {
        team->loop(team->count_of_threads, count, body, context);
        return;
    }
    pthread_mutex_lock(&team->lock);
    team->body = body;
    team->context = context;
    team->count = count;
    atomic_store_explicit(&team->next, 0, memory_order_relaxed);
    team->busy = team->workers;
    team->round++;
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->lock);

    take_indices(team);

    pthread_mutex_lock(&team->lock);
    while (team->busy > 0)
        pthread_cond_wait(&team->done, &team->lock);
    pthread_mutex_unlock(&team->lock);
}
