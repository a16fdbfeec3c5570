/* page.h: plans as one HTML file that a browser shows without any other file or network access:
 * addresses over time, memory over time, the lanes, and what became of every layer's results.
 *
 *     create -> add a plan, add another, ... -> write
 *
 * The first plan is the one that is shown at the start; the reader may choose any other, and
 * compare any two. */
#ifndef CAIRN_PAGE_H
#define CAIRN_PAGE_H

#include "cairn/solve.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Start from CAIRN_PAGE_OPTIONS_INIT; fields are only ever added at the end. */
typedef struct cairn_page_options {
    uint32_t struct_size;
    const char *machine;       /* what the times are of, in words; may be NULL */
    uint64_t stationary_bytes; /* beside what plans control; see cairn_stationary_bytes() */
    bool sweep;                /* show every plan as a point of memory against time */
} cairn_page_options;
#define CAIRN_PAGE_OPTIONS_INIT CAIRN_INIT_SIZED(cairn_page_options)

/* What is known of a plan beside its solution; zero and NULL: not known. */
typedef struct cairn_page_entry {
    uint32_t struct_size;
    const char *name;         /* NULL: that of the algorithm */
    uint64_t budget_bytes;    /* of the arena */
    uint64_t smallest_budget; /* of all memory, with which the algorithm still has a plan */
    const char *smallest_op;  /* the op that sets it */
    int64_t bound_ns; /* no plan within the budget takes less time; 0: what the solution says */
    const cairn_sim_step *measured; /* per step of the plan: its times as measured */
    bool against;                   /* compare the first plan with this one at the start */
} cairn_page_entry;
#define CAIRN_PAGE_ENTRY_INIT CAIRN_INIT_SIZED(cairn_page_entry)

typedef struct cairn_page cairn_page;

/* A page about plans of one graph with one set of costs; both are borrowed until it is destroyed.
 * `options` may be NULL. */
CAIRN_API CAIRN_MUST cairn_status cairn_page_create(const cairn_graph *graph,
                                                    const cairn_costs *costs,
                                                    const cairn_page_options *options,
                                                    cairn_page **out);
CAIRN_API void cairn_page_destroy(cairn_page *page);

/* Add a plan. The solution must be of the page's graph and costs; it may be destroyed afterwards.
 * Plans with equal steps are stored once. `entry` may be NULL. O(steps). */
CAIRN_API CAIRN_MUST cairn_status cairn_page_add(cairn_page *page, const cairn_solution *solution,
                                                 const cairn_page_entry *entry);

/* Add what plain training does, the algorithm `none`, to compare with. */
CAIRN_API CAIRN_MUST cairn_status cairn_page_add_none(cairn_page *page, cairn_error *err);

/* The whole file. The page may be added to and written again. */
CAIRN_API CAIRN_MUST cairn_status cairn_page_write(const cairn_page *page, cairn_text *out);

#ifdef __cplusplus
}
#endif
#endif
