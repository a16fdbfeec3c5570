/* copy_lane.h: a copy lane: one thread that copies in order, as fast as a link would.
 *
 *     copy --> ring of waiting copies --> thread: memcpy, then rest until the link would be done
 *                                            |
 *     wait <------ how many are done <-------+
 *
 * Copies are numbered from 1 as they come; a copy is done when as many as its number are. The ring
 * is of fixed size and copy blocks while it is full, so nothing is allocated. */
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
    pthread_mutex_t lock; /* for all that follows */
    pthread_cond_t changed;
    crn_ref_copy ring[CRN_REF_RING];
    uint64_t asked, done; /* how many */
    bool stop;
    uint64_t bytes_per_second; /* 0: as fast as it goes */
    int64_t free_at;           /* when the link has sent all before; of the thread alone, ns */
} crn_copy_lane;

/* Start the thread. The lane must not move until it is closed. */
CAIRN_MUST cairn_status crn_copy_lane_open(crn_copy_lane *lane, uint64_t bytes_per_second,
                                           cairn_error *err);

/* Finish what was asked for and end the thread. */
void crn_copy_lane_close(crn_copy_lane *lane);

/* Any thread may call these. A copy's number is how many were asked for, with it; wait until as
 * many are done. */
void crn_copy_lane_copy(crn_copy_lane *lane, void *to, const void *from, uint64_t bytes);
uint64_t crn_copy_lane_asked(crn_copy_lane *lane);
void crn_copy_lane_wait(crn_copy_lane *lane, uint64_t number);

#endif
