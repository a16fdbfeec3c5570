/* watch.c: progress of a long call, and its early end. */
#include "base/watch.h"

#include <time.h>

#define POLLS 16u        /* the clock is read at every sixteenth poll, */
#define PAUSE_NS 5000000 /* and the caller is asked at most every 5 ms */

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void crn_watch_begin(crn_watch *watch, cairn_progress progress, void *context, crn_arena *arena) {
    *watch = (crn_watch){.progress = progress, .context = context};
    if (progress != NULL)
        arena->watch = watch;
}

bool crn_watch_ended(crn_watch *watch) {
    if (watch == NULL || watch->ended || watch->polls++ % POLLS != 0)
        return watch != NULL && watch->ended;
    int64_t now = now_ns();
    if (watch->polls > 1 && now - watch->asked_ns < PAUSE_NS)
        return false;
    watch->asked_ns = now;
    watch->ended = !watch->progress(watch->context, watch->polls, 0);
    return watch->ended;
}

cairn_status crn_watch_status(const crn_watch *watch, cairn_status status, cairn_error *err) {
    if (watch->ended)
        return crn_fail_cancelled(err);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

cairn_status crn_fail_cancelled(cairn_error *err) {
    return crn_fail(err, CAIRN_ECANCELED, "the caller ended the call");
}
