/* offload_list.h: schedules as lists. A list holds every op once, in order, and for each moved
 * activation its offload and its fetch. The list is the order in which the link serves the
 * transfers, and in which ops and fetches take their memory; everything starts as early as that
 * allows. Sorting a schedule with whole release by start times gives such a list, and the schedule
 * of the list is not longer. So the best list gives the best schedule. */
#ifndef OFFLOAD_LIST_H
#define OFFLOAD_LIST_H

#include "solve/offload/crn_offload.h"

/* Ops are 0 .. 2n-1: F_0 .. F_L, B_L .. B_0. */
typedef enum crn_offload_kind { CRN_LIST_RUN, CRN_LIST_OFFLOAD, CRN_LIST_FETCH } crn_offload_kind;

typedef uint32_t crn_offload_event; /* 4 * (op or activation) + kind */

static inline crn_offload_event crn_event(crn_offload_kind kind, uint32_t index) {
    return 4 * index + (uint32_t)kind;
}
static inline crn_offload_kind crn_event_kind(crn_offload_event event) {
    return (crn_offload_kind)(event & 3);
}
static inline uint32_t crn_event_index(crn_offload_event event) {
    return event / 4;
}

typedef struct crn_offload_list {
    uint32_t length;
    crn_offload_event *events; /* room for 4n */
} crn_offload_list;

/* A chain by op number, and scratch memory for evaluating lists. */
typedef struct crn_offload_lister {
    const crn_offload_chain *chain;
    uint32_t ops;            /* 2n */
    const int64_t *duration; /* per op */
    const int64_t *need;     /* bytes that must be away while op k runs */
    const int64_t *rest;     /* the same between op k-1 and op k; 2n + 1 of them */
    const int64_t *to_go;    /* durations of ops k, k+1, ..; 2n + 1 of them */
    int64_t *fetched;        /* end of the fetch of x_i; see offload_list.c */
    int64_t *made;           /* when x_i was made; x_0 at 0 */
    int64_t *pending_end;    /* ends of offloads, in the order of the link */
    uint32_t *pending;
    crn_offload_event *sorted; /* of crn_offload_list_from */
} crn_offload_lister;

CAIRN_MUST cairn_status crn_offload_lister_make(crn_arena *arena, const crn_offload_chain *chain,
                                                crn_offload_lister *out);
CAIRN_MUST cairn_status crn_offload_list_make(crn_arena *arena, uint32_t count,
                                              crn_offload_list *out);

/* The length of the list's schedule, or -1 if it deadlocks or breaks a rule. `out`, if not NULL,
 * receives the schedule. O(length). */
int64_t crn_offload_list_run(crn_offload_lister *lister, const crn_offload_list *list,
                             crn_offload_schedule *out);

/* The list of a schedule: its events by start. O(n log n). */
void crn_offload_list_from(crn_offload_lister *lister, const crn_offload_schedule *schedule,
                           crn_offload_list *out);

/* Run the list and keep its schedule in `best` if that is shorter. */
void crn_offload_list_keep(crn_offload_lister *lister, const crn_offload_list *list,
                           crn_offload_schedule *trial, crn_offload_schedule *best);

/* Search all lists (offload_exact.c), and give up after `most_states`. `best` is the best known
 * schedule on entry and on return. `*complete`: it is the optimum. */
CAIRN_MUST cairn_status crn_offload_exact(crn_arena *arena, crn_offload_lister *lister,
                                          uint32_t most_states, crn_offload_schedule *trial,
                                          crn_offload_schedule *best, bool *complete);

/* Shorten `best` by moving events (offload_anneal.c), for `work` events. */
CAIRN_MUST cairn_status crn_offload_anneal(crn_arena *arena, crn_offload_lister *lister,
                                           int64_t goal, uint64_t work, crn_offload_schedule *trial,
                                           crn_offload_schedule *best);

#endif
