/* time_bound.h: a time below which no plan gets, with the memory of a budget.
 *
 * Take the *moment* at which an op c runs for the first time. What c depends on (*before*) has all
 * run by then, and c with what depends on it (*after*) has yet to run. Each value that those will
 * read is there at the moment, or made after it; if its producer is one of the ops before, that is
 * an extra run. What is there takes memory, and there is only so much of it:
 *
 *     before: a b d e        c       after: reads a, d, e
 *                            |
 *             there at the moment, within the budget less what c itself takes: some of a, d, e;
 *             the others cost the time of making them again, with what that needs
 *
 * At a price of memory this is a closure problem, one least cut. For every moment and every price
 *
 *     time of any plan >= time of all ops + least (extra time + price * (bytes there - capacity))
 *
 * and the best price is found in a few cuts, since the right side is concave in it. It holds for
 * any order of ops, any number of re-runs, and work in place. */
#ifndef CRN_TIME_BOUND_H
#define CRN_TIME_BOUND_H

#include "solve/auto/flat_problem.h"
#include "solve/auto/min_cut.h"

typedef enum crn_side { CRN_BESIDE, CRN_BEFORE, CRN_AFTER } crn_side;

typedef struct crn_bound {
    const crn_flat *flat;
    crn_arena *arena;
    const uint64_t *bytes; /* per value: aligned; as they are, where copies count */
    int64_t base_ns;       /* every op that is needed, once */
    uint32_t scale;        /* times in the network are in 2^-scale ns, */
    uint32_t coarse;       /* or in 2^coarse ns, where they are huge */
    int64_t most_price;    /* of a byte, in the unit of times */
    uint64_t cuts;         /* made so far */

    /* The moment. */
    uint32_t op;
    uint8_t *side;   /* per op: crn_side */
    uint64_t fixed;  /* bytes that the op takes beside what is there */
    uint64_t always; /* bytes that are there in every plan */
    uint64_t all;    /* bytes if nothing is made again */
    int64_t before_ns, after_ns;

    /* Its network: capacity = time + price * bytes, per edge. */
    crn_cut_network *network;
    CRN_ARRAY(int64_t) edge_time;
    CRN_ARRAY(uint64_t) edge_bytes;
    uint32_t *op_node, *value_node; /* CRN_NO_OP: none */
    uint8_t *need;                  /* per value */
    CRN_ARRAY(uint32_t) pending;    /* ops whose inputs are yet to be added */

    /* The last cut. */
    int64_t cut_time;
    uint64_t cut_bytes; /* there at the moment */
} crn_bound;

/* With `raw` the bytes of values are those that a copy moves. */
CAIRN_MUST cairn_status crn_bound_create(const crn_flat *flat, bool raw, crn_arena *arena,
                                         crn_bound **out);

/* Make `op` the moment; it must be one that is needed. */
CAIRN_MUST cairn_status crn_bound_enter(crn_bound *bound, uint32_t op);

/* The extra time at the moment with `budget`, in ns; INT64_MAX: nothing fits. `price` is where to
 * start (0: anywhere) and becomes the best one. */
int64_t crn_bound_at(crn_bound *bound, uint64_t budget, uint32_t most_cuts, int64_t *price);

/* The fewest bytes with which the moment can be passed, whatever the time. */
uint64_t crn_bound_least(crn_bound *bound);

/* The values that are there at the moment at a price. */
void crn_bound_keep(crn_bound *bound, int64_t price, bool *keep);

/* The best moment, and what holds there. */
typedef struct crn_bound_result {
    int64_t extra_ns; /* INT64_MAX: no plan fits */
    uint32_t op;
    int64_t price;
} crn_bound_result;

/* Look for it around op `centre`, in about `cuts` cuts. */
CAIRN_MUST cairn_status crn_bound_search(crn_bound *bound, uint64_t budget, uint32_t centre,
                                         uint32_t cuts, crn_bound_result *out);

/* The certified smallest budget: the most that a moment needs at least, over all ops, or `moments`
 * of them where there are more. */
CAIRN_MUST cairn_status crn_bound_least_memory(crn_bound *bound, uint32_t moments, uint64_t *out);

#endif
