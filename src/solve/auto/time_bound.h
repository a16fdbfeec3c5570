/* time_bound.h: a lower bound of the time of all plans within a budget.
 *
 * Take the *moment* at which an op c runs for the first time. The ops that c depends on (*before*)
 * have all run by then; c and the ops that depend on it (*after*) have not run yet. Each value that
 * those will read is in memory at the moment, or made after it. If its producer is one of the ops
 * before, that is an extra run. Values in memory must fit into the budget:
 *
 *     before: a b d e        c       after: reads a, d, e
 *                            |
 *             in memory at the moment, within the budget minus what c itself needs: some of
 *             a, d, e; the others cost the time to recompute them and what they need
 *
 * For a given price of memory this is a closure problem, which one minimum cut solves. For every
 * moment and every price
 *
 *     time of any plan >= time of all ops + least (extra time + price * (bytes there - capacity))
 *
 * where c runs in the implementation that costs the least at that price: it may be slower and need
 * less workspace. The best price is found in a few minimum cuts, because the right side is concave
 * in it. The bound holds for any order of ops, any number of recomputations, and work in place. */
#ifndef CRN_TIME_BOUND_H
#define CRN_TIME_BOUND_H

#include "solve/auto/flat_problem.h"
#include "solve/auto/min_cut.h"

typedef enum crn_side { CRN_BESIDE, CRN_BEFORE, CRN_AFTER } crn_side;

/* What is assumed about the value of an edge: nothing, it is in memory at the moment, or it is
 * not. */
typedef enum crn_forced { CRN_FREE, CRN_KEPT, CRN_GONE } crn_forced;

typedef struct crn_bound_choice {
    int64_t time; /* in the unit of times */
    uint64_t bytes;
} crn_bound_choice;

typedef struct crn_bound {
    const crn_flat *flat;
    crn_arena *arena;
    const uint64_t *bytes; /* per value: aligned, or not aligned if copies count */
    int64_t base_ns;       /* the time of every op that is needed, once */
    uint32_t scale;        /* times in the network are in 2^-scale ns, */
    uint32_t coarse;       /* or in 2^coarse ns if they are huge */
    int64_t most_price;    /* of a byte, in the unit of times */
    uint64_t min_cuts;     /* made so far */

    /* The moment. */
    uint32_t op;
    uint8_t *side;   /* per op: crn_side */
    uint64_t fixed;  /* bytes that the op needs besides the values in memory */
    uint64_t always; /* bytes that are in memory in every plan */
    uint64_t all;    /* bytes if nothing is recomputed */
    int64_t before_ns, after_ns;

    /* Per implementation of its op: how much slower it is than the fastest, and the workspace that
     * it needs beyond the least. */
    CRN_ARRAY(crn_bound_choice) choices;

    /* Its network: capacity = time + price * bytes, per edge. */
    crn_min_cut_network *network;
    CRN_ARRAY(int64_t) edge_time;
    CRN_ARRAY(uint64_t) edge_bytes;
    CRN_ARRAY(uint8_t) forced;      /* per edge: crn_forced */
    uint32_t *op_node, *value_node; /* CRN_NO_OP: none */
    uint8_t *need;                  /* per value */
    CRN_ARRAY(uint32_t) pending;    /* ops whose inputs must still be added */

    /* The last minimum cut. */
    int64_t min_cut_time;
    uint64_t min_cut_bytes; /* in memory at the moment */
} crn_bound;

/* With `raw` the bytes of values are those that a copy moves, without padding. */
CAIRN_MUST cairn_status crn_bound_create(const crn_flat *flat, bool raw, crn_arena *arena,
                                         crn_bound **out);

/* Make `op` the moment; it must be an op that every plan runs. */
CAIRN_MUST cairn_status crn_bound_enter(crn_bound *bound, uint32_t op);

/* Solve the network for a price. Returns the least time + price * bytes, including what is always
 * in memory, in the unit of times; `min_cut_time` and `min_cut_bytes` are the two terms. */
int64_t crn_bound_min_cut(crn_bound *bound, int64_t price);
/* Whether the last minimum cut has the value of an edge in memory. */
bool crn_bound_keeps_edge(const crn_bound *bound, uint32_t edge);

/* The extra time at the moment with `budget`, in ns; INT64_MAX: nothing fits. `price` is the first
 * price to try (0: any) and becomes the best one. */
int64_t crn_bound_at(crn_bound *bound, uint64_t budget, uint32_t most_min_cuts, int64_t *price);

/* The same if a byte beyond the budget may also be had for the time of a link that carries it. */
int64_t crn_bound_at_price(crn_bound *bound, uint64_t budget, uint32_t most_min_cuts,
                           uint64_t bytes_per_second);

/* The least bytes that are needed at the moment, with any time. */
uint64_t crn_bound_least(crn_bound *bound);

/* ---- branch_bound.c ---- */

/* A higher bound of the extra time at the moment, by cases, in about `min_cuts` minimum cuts;
 * `price` is the best one without cases. */
CAIRN_MUST cairn_status crn_bound_branch(crn_bound *bound, uint64_t budget, int64_t price,
                                         uint32_t min_cuts, int64_t *out);

/* ---- time_bound.c ---- */

/* The values that the minimum cut at a price keeps in memory at the moment. */
void crn_bound_keep(crn_bound *bound, int64_t price, bool *keep);

/* The best moment, and the bound there. */
typedef struct crn_bound_result {
    int64_t extra_ns; /* INT64_MAX: no plan fits */
    uint32_t op;
    int64_t price;
} crn_bound_result;

/* Search for the best moment around op `centre`, in about `min_cuts` minimum cuts. */
CAIRN_MUST cairn_status crn_bound_search(crn_bound *bound, uint64_t budget, uint32_t centre,
                                         uint32_t min_cuts, crn_bound_result *out);

/* A certified lower bound of the smallest budget: the largest need of a moment, over all ops, or
 * `moments` of them if there are more. */
CAIRN_MUST cairn_status crn_bound_least_memory(crn_bound *bound, uint32_t moments, uint64_t *out);

/* Another one: what is in memory when the last values are made that stay to the end. */
CAIRN_MUST cairn_status crn_bound_least_at_end(const crn_bound *bound, uint64_t *out);

#endif
