/* watch.h: progress of a long call, and its early end.
 *
 * The scratch arena of a call carries its watch. When the caller has ended the call, the arena
 * gives out no more memory. So everything that works in it returns by the paths that a lack of
 * memory takes; loops that take no memory ask crn_arena_ended(). Whatever they return is discarded:
 * who began the watch returns crn_watch_status(). */
#ifndef CRN_WATCH_H
#define CRN_WATCH_H

#include "base/crn_base.h"

typedef struct crn_watch {
    cairn_progress progress;
    void *context;
    uint64_t polls;
    int64_t asked_ns;
    bool ended;
} crn_watch;

/* Begin to watch a call that works in `arena`; if `progress` is NULL it never ends early. The watch
 * must live as long as the arena is used. */
void crn_watch_begin(crn_watch *watch, cairn_progress progress, void *context, crn_arena *arena);

/* Whether the caller has ended the call; it is asked now and then. NULL: no. */
bool crn_watch_ended(crn_watch *watch);
static inline bool crn_arena_ended(const crn_arena *arena) {
    return crn_watch_ended(arena->watch);
}

/* The status of the whole call, with its message: CAIRN_ECANCELED if it ended early. */
CAIRN_MUST cairn_status crn_watch_status(const crn_watch *watch, cairn_status status,
                                         cairn_error *err);

/* Fill in CAIRN_ECANCELED and return it. */
cairn_status crn_fail_cancelled(cairn_error *err);

#endif
