/* copy_lane.c: see copy_lane.h. A link sends one copy after another. Each takes bytes / bandwidth,
 * from the time when it was queued or from the time when the link was free, whichever is later. So
 * a copy never takes less than its time, and a thread that wakes up late does not delay the next
 * copy. */
#include "backend/copy_lane.h"

#include <errno.h>
#include <time.h>

#define SECOND 1000000000

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

static void sleep_until(int64_t time) {
    struct timespec t = {.tv_sec = (time_t)(time / SECOND), .tv_nsec = (long)(time % SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        continue;
}

static void carry(crn_copy_lane *lane, const crn_ref_copy *copy) {
    if (copy->bytes > 0) /* else the addresses may be NULL */
        memcpy(copy->to, copy->from, copy->bytes);
    if (lane->bytes_per_second == 0)
        return;
    uint64_t takes = crn_mul_div_up(copy->bytes, SECOND, lane->bytes_per_second);
    int64_t start = CRN_MAX(copy->asked_at, lane->free_at);
    lane->free_at = crn_add_time(start, (int64_t)CRN_MIN(takes, (uint64_t)INT64_MAX));
    int64_t copied = now();
    if (copied < lane->free_at)
        sleep_until(lane->free_at);
    else
        lane->free_at = copied;
}

static void *work(void *argument) {
    crn_copy_lane *lane = argument;
    pthread_mutex_lock(&lane->lock);
    for (;;) {
        while (lane->done == lane->asked && !lane->stop)
            pthread_cond_wait(&lane->changed, &lane->lock);
        if (lane->done == lane->asked)
            break;
        crn_ref_copy copy = lane->ring[lane->done % CRN_REF_RING];
        pthread_mutex_unlock(&lane->lock);
        carry(lane, &copy);
        pthread_mutex_lock(&lane->lock);
        lane->done++;
        pthread_cond_broadcast(&lane->changed);
    }
    pthread_mutex_unlock(&lane->lock);
    return NULL;
}

cairn_status crn_copy_lane_open(crn_copy_lane *lane, uint64_t bytes_per_second, cairn_error *err) {
    memset(lane, 0, sizeof *lane);
    lane->bytes_per_second = bytes_per_second;
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->changed, NULL);
    int reason = pthread_create(&lane->thread, NULL, work, lane);
    if (reason == 0)
        return CAIRN_OK;
    pthread_cond_destroy(&lane->changed);
    pthread_mutex_destroy(&lane->lock);
    return crn_fail(err, CAIRN_ESYSTEM, "cannot start a thread: %s", strerror(reason));
}

void crn_copy_lane_close(crn_copy_lane *lane) {
    pthread_mutex_lock(&lane->lock);
    lane->stop = true;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
    pthread_join(lane->thread, NULL);
    pthread_cond_destroy(&lane->changed);
    pthread_mutex_destroy(&lane->lock);
}

void crn_copy_lane_copy(crn_copy_lane *lane, void *to, const void *from, uint64_t bytes) {
    crn_ref_copy copy = {to, from, bytes, now()};
    pthread_mutex_lock(&lane->lock);
    while (lane->asked - lane->done == CRN_REF_RING)
        pthread_cond_wait(&lane->changed, &lane->lock);
    lane->ring[lane->asked % CRN_REF_RING] = copy;
    lane->asked++;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
}

uint64_t crn_copy_lane_asked(crn_copy_lane *lane) {
    pthread_mutex_lock(&lane->lock);
    uint64_t asked = lane->asked;
    pthread_mutex_unlock(&lane->lock);
    return asked;
}

void crn_copy_lane_wait(crn_copy_lane *lane, uint64_t number) {
    pthread_mutex_lock(&lane->lock);
    while (lane->done < number)
        pthread_cond_wait(&lane->changed, &lane->lock);
    pthread_mutex_unlock(&lane->lock);
}
