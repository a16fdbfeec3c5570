/* offload_network.h: round trips of a network's tensors to the host, and the schedule that a choice
 * of them makes.
 *
 * A tensor that a forward op makes (or an input) and a backward op reads lies idle between its last
 * forward reader and its first backward reader. There it may be away:
 *
 *     ops      F F F F F F F F | B B B B B B B
 *     tensor     made.read.....|......need.last
 *                  ^out   [may be away] ^in
 *
 * What memory an op has is taken from the simulated plan `none`: its memory during every run, less
 * what is away then. All ops run once in canonical order, so the profile is the same for every
 * choice, and a choice fits exactly when the profile less the tensors that may be away is within
 * the budget at every op. */
#ifndef CRN_OFFLOAD_NETWORK_H
#define CRN_OFFLOAD_NETWORK_H

#include "solve/solver.h"

/* One tensor that may travel. Places are ops: "at k" is just before op k. */
typedef struct crn_trip {
    cairn_id tensor;
    uint64_t bytes;  /* in the arena */
    int64_t copy;    /* ns one way */
    uint32_t made;   /* it can be copied out from here on */
    uint32_t leaves; /* the first op during which it may be away */
    uint32_t need;   /* its first backward reader: back here */
} crn_trip;

typedef struct crn_trips {
    const crn_problem *problem;
    const crn_trip *list; /* by `made`, then by tensor */
    uint32_t count;
    const uint32_t *by_need; /* the same in the order in which they are needed back */
    const uint32_t *of;      /* per tensor: its trip, or CAIRN_NONE */
    uint32_t ops, first_backward;
    const uint64_t *memory; /* per op: while it runs, all tensors present */
    const int64_t *time;    /* per op */
    const int64_t *to_go;   /* per op: time of it and all later ones; 0 at `ops` */
    uint64_t **most;        /* most[l][k]: the largest memory of ops k .. k + 2^l - 1 */
    uint64_t peak;          /* of `none` */
    uint64_t floor;         /* the smallest memory that offloading can reach */
    struct crn_walk *walk;  /* room for offload_walk.c */
} crn_trips;

/* Which trips are made, and how. Arrays per trip. */
typedef struct crn_trip_choice {
    uint8_t *moved;
    uint32_t *out_at; /* the copy out is asked for here, at `made` or later */
    uint32_t *in_at;  /* not fetched before this op; 0: as soon as memory allows */
    bool pushes;      /* a fetch may push out tensors that have been copied and need not go yet */
    bool prompt;      /* a tensor goes as soon as it has been copied, asked for or not */
    /* Of the budget, forwards and backwards: tensors go, and are not fetched ahead, so as to leave
     * this much free. An op that cannot, still runs. */
    uint64_t spare[2];
} crn_trip_choice;

/* Simulate `none` and find the trips. CAIRN_EINVAL: there is no machine. Lies in the problem's
 * scratch. O(steps + reads). */
CAIRN_MUST cairn_status crn_trips_build(const crn_problem *problem, crn_trips *out);

/* A choice of no trips. */
CAIRN_MUST cairn_status crn_trip_choice_make(const crn_trips *trips, crn_trip_choice *out);
void crn_trip_choice_copy(const crn_trips *trips, const crn_trip_choice *from, crn_trip_choice *to);

/* Add trips, those made earliest first, until every op fits `budget`, which must be at least the
 * floor; with in_at and out_at at their defaults it then fits. `room` is per op. O(ops * trips). */
void crn_trips_fit(const crn_trips *trips, uint64_t budget, crn_trip_choice *choice,
                   uint64_t *room);

/* The bytes that a choice moves one way. */
uint64_t crn_trips_bytes(const crn_trips *trips, const crn_trip_choice *choice);

/* Write the schedule of a choice and say how long it lasts, to the nanosecond as the simulator will
 * find; -1: an op lacks memory, or it takes `limit` or longer. `schedule` may be NULL. A trip whose
 * memory was never asked for is marked in `stayed` (per trip; may be NULL): it is not made, and
 * without it the step may last less than said. O(ops + trips).
 *
 * Copies out are asked for in the order of out_at. A tensor goes, oldest copy first, when an op
 * would not fit; if its copy has not ended the op waits. In the backward pass tensors come back in
 * the order of need, each at the first op from which on it fits until it is needed, without making
 * an op wait, and not before the link could begin with it. */
CAIRN_MUST cairn_status crn_trips_walk(const crn_trips *trips, uint64_t budget,
                                       const crn_trip_choice *choice, int64_t limit,
                                       crn_schedule *schedule, uint8_t *stayed, int64_t *time);

/* Take trips that stay out of the choice, as long as that does not make it longer, let the others
 * go promptly if that does not either, and find its length (-1: it does not fit). */
CAIRN_MUST cairn_status crn_trips_prune(const crn_trips *trips, uint64_t budget,
                                        crn_trip_choice *choice, int64_t *time);

/* No step within `budget` can take less: all ops, and the copies of what must be away at the peak.
 */
int64_t crn_trips_bound(const crn_trips *trips, uint64_t budget);

/* ---- offload_settle.c ---- */

/* The schedule that a choice ends in, and what the simulator and the layout say of it: the shortest
 * of several whose arena is within problem->limit and close to the live peak, if one is. The choice
 * must fit `budget`. */
CAIRN_MUST cairn_status crn_trips_settle(const crn_trips *trips, uint64_t budget,
                                         const crn_trip_choice *choice, crn_schedule *schedule,
                                         crn_judgement *is);

/* ---- offload_walk.c ---- */

CAIRN_MUST cairn_status crn_walk_make(crn_trips *trips);

#endif
