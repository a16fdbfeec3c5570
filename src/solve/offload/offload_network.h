/* offload_network.h: round trips of tensors to the host, and the schedule that a choice of them
 * gives.
 *
 * Take a tensor that a forward op makes (or an input) and a backward op reads. It is not used
 * between its last forward reader and its first backward reader. In that time it may be away:
 *
 *     ops      F F F F F F F F | B B B B B B B
 *     tensor     made.read.....|......need.last
 *                  ^out   [may be away] ^in
 *
 * The memory of an op is that of the simulated plan `none` during its run, minus the tensors that
 * are away. All ops run once, in canonical order, so this profile is the same for every choice. A
 * choice fits exactly if the profile minus the tensors that may be away is within the budget at
 * every op. */
#ifndef CRN_OFFLOAD_NETWORK_H
#define CRN_OFFLOAD_NETWORK_H

#include "solve/solver.h"

/* One tensor that may be offloaded. Places are ops: "at k" is just before op k. */
typedef struct crn_trip {
    cairn_id tensor;
    uint64_t bytes;  /* in the arena */
    int64_t copy;    /* time of a copy in one direction, in ns */
    uint32_t made;   /* it can be copied out from here on */
    uint32_t leaves; /* the first op during which it may be away */
    uint32_t need;   /* its first backward reader: it must be back here */
} crn_trip;

typedef struct crn_trips {
    const crn_problem *problem;
    const crn_trip *list; /* by `made`, then by tensor */
    uint32_t count;
    const uint32_t *by_need; /* trips in the order in which they are needed back */
    const uint32_t *of;      /* per tensor: its trip, or CAIRN_NONE */
    uint32_t ops, first_backward;
    const uint64_t *memory; /* per op: memory while it runs, with all tensors present */
    const int64_t *time;    /* per op */
    const int64_t *to_go;   /* per op: time of it and all later ones; 0 at `ops` */
    uint64_t **most;        /* most[l][k]: the largest memory of ops k .. k + 2^l - 1 */
    uint64_t peak;          /* of `none` */
    uint64_t floor;         /* the smallest memory that offloading can reach */
    struct crn_walk *walk;  /* scratch memory of offload_walk.c */
} crn_trips;

/* Which trips are made, and how. Arrays per trip. */
typedef struct crn_trip_choice {
    uint8_t *moved;
    uint32_t *out_at; /* the copy out is queued here, at `made` or later */
    uint32_t *in_at;  /* not fetched before this op; 0: as soon as memory allows */
    bool pushes; /* a fetch may free tensors that have been copied out but need not be freed yet */
    bool prompt; /* a tensor is freed as soon as it has been copied out, even if its memory is not
                    needed */
    /* How much of the budget is left free in the forward and in the backward pass: tensors are
     * freed earlier and fetched later for it. An op runs even if that is not possible. */
    uint64_t spare[2];
} crn_trip_choice;

/* Simulate `none` and find the trips. CAIRN_EINVAL: there is no machine. The result is allocated in
 * the problem's scratch arena. O(steps + reads). */
CAIRN_MUST cairn_status crn_trips_build(const crn_problem *problem, crn_trips *out);

/* Make a choice without trips. */
CAIRN_MUST cairn_status crn_trip_choice_make(const crn_trips *trips, crn_trip_choice *out);
void crn_trip_choice_copy(const crn_trips *trips, const crn_trip_choice *from, crn_trip_choice *to);

/* Add trips, those of the tensors made earliest first, until every op fits `budget`, which must be
 * at least the floor. With the defaults of in_at and out_at the choice then fits. `room` is scratch
 * memory, one value per op. O(ops * trips). */
void crn_trips_fit(const crn_trips *trips, uint64_t budget, crn_trip_choice *choice,
                   uint64_t *room);

/* The bytes that a choice moves one way. */
uint64_t crn_trips_bytes(const crn_trips *trips, const crn_trip_choice *choice);

/* Write the schedule of a choice. The time is exactly that of the simulator; -1: an op has too
 * little memory, or the step takes `limit` or longer. `schedule` may be NULL. `stayed` (per trip;
 * may be NULL) marks trips whose memory was never needed. They are not made, so the step may take
 * less time than reported. O(ops + trips).
 *
 * Copies out are queued in the order of out_at. If an op would not fit, tensors are freed, oldest
 * copy first; if such a copy has not ended, the op waits. In the backward pass tensors are fetched
 * in the order of need. Each is fetched at the first op from which on it fits until it is needed,
 * without making an op wait, and not before the link is free for it. */
CAIRN_MUST cairn_status crn_trips_walk(const crn_trips *trips, uint64_t budget,
                                       const crn_trip_choice *choice, int64_t limit,
                                       crn_schedule *schedule, uint8_t *stayed, int64_t *time);

/* Remove trips that are not made from the choice, as long as the step does not get longer. Set
 * `prompt` for the others if the step does not get longer either. `*time` is the time of the step
 * (-1: it does not fit). */
CAIRN_MUST cairn_status crn_trips_prune(const crn_trips *trips, uint64_t budget,
                                        crn_trip_choice *choice, int64_t *time);

/* A lower bound of the time within `budget`: all ops, and the copies of what must be away at the
 * peak. */
int64_t crn_trips_bound(const crn_trips *trips, uint64_t budget);

/* ---- offload_settle.c ---- */

/* Find the final schedule of a choice, and simulate and lay it out. Of several schedules it is the
 * shortest one whose arena is within problem->limit and close to the live peak, if there is one.
 * The choice must fit `budget`. */
CAIRN_MUST cairn_status crn_trips_settle(const crn_trips *trips, uint64_t budget,
                                         const crn_trip_choice *choice, crn_schedule *schedule,
                                         crn_judgement *is);

/* ---- offload_walk.c ---- */

CAIRN_MUST cairn_status crn_walk_make(crn_trips *trips);

#endif
