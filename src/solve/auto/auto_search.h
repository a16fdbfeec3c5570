/* auto_search.h: shared by the files of the search: the matrix, prices, and the work done.
 *
 * All figures are integers. Memory is in units of 64 bytes, or larger ones for huge graphs. A
 * *load* is how much a slot exceeds the budget, scaled such that bytes times loads fit into 62
 * bits. The *rate* is time per relief in units of 2^-64, so that the upper half of a product is a
 * time. */
#ifndef CRN_AUTO_SEARCH_H
#define CRN_AUTO_SEARCH_H

#include "base/rng.h"
#include "base/watch.h"
#include "solve/auto/rerun_matrix.h"

#define CRN_MOST_CLOSURE 400u /* nodes of a closure */
#define CRN_ISOLATED 25       /* most slots are lower than an isolated peak by this share */
#define CRN_FEW_OPS 48u       /* a graph with at most this many ops is small and also annealed */

/* A value that could be freed at the peak. */
typedef struct crn_candidate {
    int64_t time;     /* of its producer, minus `returned`: the least that it can cost */
    int64_t relief;   /* an upper bound */
    int64_t returned; /* time saved because an earlier recomputation is not needed any more */
    uint32_t value, slot;
} crn_candidate;

/* What is needed to have a value in a slot. */
typedef struct crn_closure {
    uint32_t *ops; /* to recompute there */
    uint32_t length;
    int64_t time;
    int64_t relief; /* negative: values that are kept longer need memory in other slots */
} crn_closure;

typedef struct crn_search {
    const crn_flat *flat;
    crn_matrix *matrix;
    crn_rng rng;
    uint64_t work;     /* done so far: nodes of closures, candidates */
    uint64_t deadline; /* in work; repair gives up after it */
    crn_arena *arena;  /* whose watch may end the search */

    uint32_t unit;      /* a unit of memory has 2^unit bytes */
    uint64_t all_units; /* of all values */
    uint32_t *movable;  /* the values that can be recomputed */
    uint32_t movable_count;
    bool *pinned;        /* per value: it is copied, so it is not recomputed */
    uint64_t *loads;     /* prefix sums over the slots from first_over to last_over */
    uint64_t load_total; /* of all slots */
    uint32_t first_over, last_over;
    uint64_t rate;

    bool merge;             /* assume that a later recomputation can be saved */
    bool modest;            /* relief beyond what the peak needs does not count */
    uint64_t most_units;    /* the most units that count */
    uint32_t closure_limit; /* nodes */
    uint32_t most_closures; /* the most candidates whose closure is computed, best first */
    uint32_t noise;         /* on the scores of candidates, in 1/1024 */

    uint32_t stamp, visited;
    uint32_t *stamps;    /* per value */
    uint32_t *op_stamps; /* per op */
    uint8_t *choices;
    crn_closure closure;
    crn_candidate *candidates;
    uint32_t candidate_count;
    void *sample; /* scratch memory of thinning */
    uint32_t sample_room;
} crn_search;

CAIRN_MUST cairn_status crn_search_create(const crn_flat *flat, crn_matrix *matrix, uint64_t seed,
                                          crn_arena *arena, crn_search **out);

/* ---- loads.c ---- */

/* Compute how much each slot exceeds `limit`. */
void crn_loads_weigh(crn_search *s, int64_t limit);
/* The loads of slots first .. last - 1. */
uint64_t crn_loads_between(const crn_search *s, uint32_t first, uint32_t last);
static inline uint64_t crn_units(const crn_search *s, uint64_t bytes) {
    return bytes >> s->unit;
}

/* ---- closure.c ---- */

enum {
    CRN_CLOSURE_CHEAPEST = 1, /* each missing input is kept or recomputed, whichever costs less */
    CRN_CLOSURE_AGAIN = 2     /* every missing input is recomputed */
};

/* Compute in s->closure what is needed to have `value` in `slot`. */
void crn_closure_find(crn_search *s, uint32_t value, uint32_t slot, int mode);
/* The slot of the next recomputation of an op after `slot`; 0: none. */
uint32_t crn_closure_next(const crn_matrix *m, uint32_t slot, uint32_t op);

/* ---- repair.c ---- */

/* Lower the peak to `limit`, in at most `most` steps and while the time stays within `most_time`.
 * Returns whether it succeeded. */
bool crn_repair(crn_search *s, int64_t limit, uint32_t most, int64_t most_time);

/* ---- thin.c ---- */

/* Remove recomputations that memory does not require, most expensive first; returns how many were
 * removed. */
uint32_t crn_thin(crn_search *s, int64_t limit);
/* The same for a few random ones. */
void crn_thin_some(crn_search *s, int64_t limit, uint32_t count);
/* Prune, then thin until nothing can be removed, at most three times. */
void crn_thin_all(crn_search *s, int64_t limit);

/* ---- ruin_recreate.c ---- */

/* Improve a set within `limit`, with `work` units of work, until its time is `enough`. At the end
 * the matrix has the best set. */
void crn_improve(crn_search *s, int64_t limit, uint64_t work, int64_t enough);
/* Lower the peak towards `limit`, with `work` units of work. It gives up when half of the work did
 * not lower the peak. */
void crn_descend(crn_search *s, int64_t limit, uint64_t work);

/* ---- isolate_peak.c ---- */

/* Lower the memory of all slots to `limit`, except where that fails: there it stays within `peak`,
 * which the set must not exceed. Ends after `work` units of work. Slots keep their allowances, so
 * that the set can be improved within `limit`, until crn_isolate_end(). */
void crn_isolate_peak(crn_search *s, int64_t peak, int64_t limit, uint64_t work);
void crn_isolate_end(crn_search *s);

/* ---- anneal.c ---- */

/* For small graphs: search from the set in the matrix, and from the empty set, for a set that is
 * within `limit` or closer to it, and then for a faster one. At the end the matrix has the best
 * set. */
void crn_anneal(crn_search *s, int64_t limit, uint64_t work);

/* The work so far, including that of the matrix; and whether the deadline has passed. */
uint64_t crn_search_work(const crn_search *s);
static inline bool crn_search_late(const crn_search *s) {
    return crn_search_work(s) >= s->deadline;
}

/* Whether memory is out, or the caller has ended the search; then the matrix has failed. */
static inline bool crn_search_ended(crn_search *s) {
    if (crn_arena_ended(s->arena))
        s->matrix->failed = true;
    return s->matrix->failed;
}

#endif
