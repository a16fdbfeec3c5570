/* copy_lane.h: a copy lane: one thread that copies in order, at the speed of a link.
 *
 *     copy --> ring of waiting copies --> thread: memcpy, then rest until the link would be done
 *                                            |
 *     wait <------ how many are done <-------+
 *
 * Copies are numbered from 1. Copy number k is done when k copies are done. The ring has a fixed
 * size, and queueing a copy blocks while it is full, so nothing is allocated. */
#ifndef CRN_COPY_LANE_H
#define CRN_COPY_LANE_H

#include "base/crn_base.h"

#include <pthread.h>

#define CRN_REF_RING 64

typedef struct crn_ref_copy {
    void *to;
    const void *from;
    uint64_t bytes;
    int64_t asked_at; /* ns */
} crn_ref_copy;

typedef struct crn_copy_lane {
    pthread_t thread;
    pthread_mutex_t lock; /* protects everything below */
    pthread_cond_t changed;
    crn_ref_copy ring[CRN_REF_RING];
    uint64_t asked, done; /* number of copies queued, and done */
    bool stop;
    uint64_t bytes_per_second; /* 0: no limit */
    int64_t free_at;           /* when the link is free, in ns; used only by the thread */
} crn_copy_lane;

/* Start the thread. The lane must not move until it is closed. */
CAIRN_MUST cairn_status crn_copy_lane_open(crn_copy_lane *lane, uint64_t bytes_per_second,
                                           cairn_error *err);

/* Finish all queued copies and end the thread. */
void crn_copy_lane_close(crn_copy_lane *lane);

/* Any thread may call these. The number of a copy is crn_copy_lane_asked() after queueing it; wait
 * until that many are done. */
void crn_copy_lane_copy(crn_copy_lane *lane, void *to, const void *from, uint64_t bytes);
uint64_t crn_copy_lane_asked(crn_copy_lane *lane);
void crn_copy_lane_wait(crn_copy_lane *lane, uint64_t number);

#endif
