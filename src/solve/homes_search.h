/* homes_search.h: a search for what is at home on the host, shared by solve_homes.c, homes_levels.c
 * and homes_bound.c. */
#ifndef CRN_HOMES_SEARCH_H
#define CRN_HOMES_SEARCH_H

#include "cairn/cost.h"
#include "cairn/solve.h"
#include "base/crn_base.h"

#define CRN_HOME_LEVELS 16

/* A plan of a level without its visits, and what it was made for. */
typedef struct crn_kept_base {
    cairn_solution *solution; /* NULL: none */
    uint32_t homes, shares;
    uint64_t target;
    bool share_link;
} crn_kept_base;

/* The last refusal of a plan without visits: no budget below the one that it names is enough. */
typedef struct crn_refused_base {
    uint32_t homes;            /* 0: there is none */
    bool share_link, any_link; /* whether activations could be offloaded; it does not matter */
    cairn_error err;
} crn_refused_base;

typedef struct crn_homes_search {
    const cairn_graph *graph;
    const cairn_costs *costs;
    const char *algorithm;
    cairn_solve_options options; /* for the memory that a plan controls */
    uint64_t limit, stationary;  /* of everything on the device; all that is stationary */
    uint64_t movable;            /* of it, all that can be at home on the host at all */
    uint64_t unchanged;          /* of that, what no update changes */
    uint64_t unread;             /* of what no update changes, what is not fetched */
    uint64_t unread_parameters;  /* of all parameters, what only updates use */
    uint32_t micro_batches;      /* of a step, at least 1 */
    uint64_t of_last;            /* of what is movable, what only the last micro-batch uses */
    uint64_t parameters;         /* of what is movable */
    int64_t saved;               /* by updates that only add up gradients */
    int64_t before_updates;      /* no update begins earlier */
    cairn_id *order;             /* the list of the picture */
    uint32_t count;
    uint32_t first_of[CRN_HOME_LEVELS + 1]; /* per level: how many are on the host */
    uint64_t bytes_of[CRN_HOME_LEVELS + 1]; /* per level: their bytes */
    bool *on_host;
    uint32_t on_host_count; /* at the level that is solved */
    bool share_link;        /* activations may be offloaded too, beside visits */
    uint32_t spares;        /* the spare memory, in visits of the op that visits most */
    bool shortens;          /* where the arena is too large, visits become shorter first */
    uint32_t shares;        /* of the work, of which a search does one */
    uint32_t rounds;        /* of a level, at most */
    crn_kept_base kept[2];  /* first plans without visits, the last one first */
    crn_refused_base refused;
    bool resorted;         /* the last resort was asked */
    bool recomputes;       /* the last plan that was too large: more than it waits */
    int64_t busy;          /* the time of the last plan without its waits */
    uint64_t excess;       /* of the arena of the first plan with visits */
    uint32_t excess_homes; /* how many homes that plan had on the host; 0: not known */
    int64_t bounds[CRN_HOME_LEVELS + 1]; /* per level: of plans in its memory; 0: not known */
    bool host_full;                      /* the host had no memory for the homes of some level */
    cairn_solution *least;               /* in the least memory; NULL: not known, or handed out */
    uint64_t least_base;                 /* what its plan without visits needs */
    crn_arena *scratch;
    cairn_error *err;
} crn_homes_search;

/* ---- homes_levels.c ---- */

/* List what can be at home on the host, and divide it into levels. */
CAIRN_MUST cairn_status crn_homes_list(crn_homes_search *s);

/* The memory that a plan has with so many bytes on the host; 0: none. */
uint64_t crn_homes_room(const crn_homes_search *s, uint64_t on_host);

/* The time of an op by its fastest implementation. */
int64_t crn_homes_least_time(const crn_homes_search *s, cairn_id op);

/* ---- homes_bound.c ---- */

/* No plan without homes on the host takes less in the memory of a level; INT64_MAX: none fits. The
 * only error is CAIRN_ENOMEM, here and below. */
CAIRN_MUST cairn_status crn_homes_bound_of(crn_homes_search *s, uint32_t level, int64_t *out);

/* A step takes no less with at least the homes of a level, and plans that take at least `rest`. */
int64_t crn_homes_step_bound(const crn_homes_search *s, uint32_t level, int64_t rest);

/* No step takes less with any homes, up to those of level `levels`. */
CAIRN_MUST cairn_status crn_homes_find_bound(crn_homes_search *s, uint32_t levels, int64_t *out);

#endif
