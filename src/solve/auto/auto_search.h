/* auto_search.h: what the files of the search share: the matrix, prices, and the work done.
 *
 * All figures are integers. Memory is in units of 64 bytes, or larger where the graph is huge; a
 * *load* is how much a slot is over the budget, scaled such that bytes times loads fit 62 bits; the
 * *rate* is time per relief in 2^-64, so that a product's upper half is a time. */
#ifndef CRN_AUTO_SEARCH_H
#define CRN_AUTO_SEARCH_H

#include "base/rng.h"
#include "solve/auto/rerun_matrix.h"

#define CRN_MOST_CLOSURE 400u /* nodes of a closure */
#define CRN_FEW_OPS 48u       /* of a small graph, which is annealed too */

/* A value that could be given up at the peak. */
typedef struct crn_candidate {
    int64_t time;     /* of its producer, less what comes back: the least that it can cost */
    int64_t relief;   /* what it gives at most */
    int64_t returned; /* time that comes back */
    uint32_t value, slot;
} crn_candidate;

/* What it takes to have a value in a slot. */
typedef struct crn_closure {
    uint32_t *ops; /* to run again there */
    uint32_t length;
    int64_t time;
    int64_t relief; /* negative: what is kept longer takes memory from other slots */
} crn_closure;

typedef struct crn_search {
    const crn_flat *flat;
    crn_matrix *matrix;
    crn_rng rng;
    uint64_t work;     /* done so far: nodes of closures, candidates */
    uint64_t deadline; /* of work, after which repair gives up */

    uint32_t unit;       /* bytes of a unit of memory: a shift */
    uint64_t all_units;  /* of all values */
    bool *pinned;        /* per value: it is copied, and not made again */
    uint64_t *loads;     /* of the slots before each, from first_over to last_over */
    uint64_t load_total; /* of all slots */
    uint32_t first_over, last_over;
    uint64_t rate;

    bool merge;             /* count on bridging to a later re-run */
    bool modest;            /* more relief than the peak needs counts for nothing */
    uint64_t most_units;    /* that count */
    uint32_t closure_limit; /* nodes */
    uint32_t most_closures; /* candidates whose closure is looked at, best first */
    uint32_t noise;         /* on the scores of candidates, in 1/1024 */

    uint32_t stamp, visited;
    uint32_t *stamps;    /* per value */
    uint32_t *op_stamps; /* per op */
    uint8_t *choices;
    crn_closure closure;
    crn_candidate *candidates;
    uint32_t candidate_count;
    void *sample; /* of thinning */
    uint32_t sample_room;
} crn_search;

CAIRN_MUST cairn_status crn_search_create(const crn_flat *flat, crn_matrix *matrix, uint64_t seed,
                                          crn_arena *arena, crn_search **out);

/* ---- loads.c ---- */

/* How much each slot is over `limit`. */
void crn_loads_weigh(crn_search *s, int64_t limit);
/* The loads of slots first .. last - 1. */
uint64_t crn_loads_between(const crn_search *s, uint32_t first, uint32_t last);
static inline uint64_t crn_units(const crn_search *s, uint64_t bytes) {
    return bytes >> s->unit;
}

/* ---- closure.c ---- */

enum {
    CRN_CLOSURE_CHEAPEST = 1, /* each missing input is kept or made again, whichever costs less */
    CRN_CLOSURE_AGAIN = 2     /* everything is made again */
};

/* What it takes to have `value` in `slot`, into s->closure. */
void crn_closure_find(crn_search *s, uint32_t value, uint32_t slot, int mode);
/* The slot of the next re-run of an op after `slot`; 0: none. */
uint32_t crn_closure_next(const crn_matrix *m, uint32_t slot, uint32_t op);

/* ---- repair.c ---- */

/* Lower the peak to `limit`, in at most `most` steps and while the time stays within `most_time`.
 * Whether it got there. */
bool crn_repair(crn_search *s, int64_t limit, uint32_t most, int64_t most_time);

/* ---- thin.c ---- */

/* Take out re-runs that memory does not need, most expensive first; how many went. */
uint32_t crn_thin(crn_search *s, int64_t limit);
/* The same with a few, drawn at random. */
void crn_thin_some(crn_search *s, int64_t limit, uint32_t count);
/* Prune, and thin until nothing goes, three times at most. */
void crn_thin_all(crn_search *s, int64_t limit);

/* ---- ruin_recreate.c ---- */

/* Improve on a set within `limit`, with `work` units of work, until its time is `enough`. The best
 * is in the matrix at the end. */
void crn_improve(crn_search *s, int64_t limit, uint64_t work, int64_t enough);
/* Lower the peak towards `limit`, with `work` units of work; it gives up when half of that did not
 * lower it. */
void crn_descend(crn_search *s, int64_t limit, uint64_t work);

/* ---- anneal.c ---- */

/* From the set in the matrix, and from none, to one that is within `limit`, or closer to it, and
 * then faster: for small graphs. The best is in the matrix at the end. */
void crn_anneal(crn_search *s, int64_t limit, uint64_t work);

/* Work so far, that of the matrix included; whether the deadline has passed. */
uint64_t crn_search_work(const crn_search *s);
static inline bool crn_search_late(const crn_search *s) {
    return crn_search_work(s) >= s->deadline;
}

#endif
