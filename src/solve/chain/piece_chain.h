/* piece_chain.h: the least time to train a chain of pieces, as a function of memory.
 *
 * A piece is the ops between two consecutive cuts of a network; at a cut one tensor is alive. The
 * tensor at cut a (the input of piece a) has w_a bytes, its gradient g_a.
 *
 *     w_0 [piece 0] w_1 [piece 1] w_2 ... [piece n-1] (g_n)
 *
 * To fill in a piece, simulate it alone. Its input is resident and NOT counted, except where noted.
 *
 *     forward_time   of a run that keeps nothing but the output                          (f)
 *     discard_peak   most memory of that run                                             (FD)
 *     pass_peak      the same, with the input counted and freed at its last reader       (FX)
 *     again          running again only what its backward reads, then the backward:
 *                      forward_peak, forward_time of the run (fR <= f, the output need not
 *                      be made if unread)                                                (FR, fR)
 *                      backward_peak, with g_{a+1} and g_a counted                       (BR)
 *                      kept is not looked at
 *     ways           of running it once and keeping what its backward reads; each:
 *                      forward_peak of the run                                           (FK)
 *                      kept, what is left after it, the output w_{a+1} included          (c)
 *                      backward_peak, with what was kept, g_{a+1} and g_a counted; the output
 *                      is freed first if unread                                          (BK)
 *                      forward_time, backward_time
 *
 * Gradients of later cuts are not counted in the forward peaks; the recurrence adds them. The last
 * piece is never run twice: if it has ways, they are used and `again` is not. A chain whose pieces
 * have no ways is the abstract chain of the thesis.
 *
 * To plan for a budget, call crn_piece_check(), then crn_piece_solve() with a max_total of, for
 * example, 1500000. If it gave up, call crn_piece_grid_solve() (piece_grid.h) instead. Then ask for
 * a schedule within the memory that is left. What that schedule needs on a real network is decided
 * by the simulator. */
#ifndef CRN_PIECE_CHAIN_H
#define CRN_PIECE_CHAIN_H

#include "solve/chain/piece_curve.h"

#define CRN_PIECE_MOST 2049u /* pieces in a chain */

typedef struct crn_piece_way {
    uint64_t forward_peak, kept, backward_peak;
    int64_t forward_time, backward_time;
} crn_piece_way;

typedef struct crn_piece {
    uint64_t input_bytes;    /* w_a */
    uint64_t gradient_bytes; /* g_a; 0 for the first piece if that gradient is not computed */
    int64_t forward_time;
    uint64_t discard_peak, pass_peak;
    crn_piece_way again;
    const crn_piece_way *ways;
    uint32_t way_count;
} crn_piece;

typedef struct crn_piece_chain {
    const crn_piece *pieces;
    uint32_t count;
    uint64_t final_gradient; /* g_n; 0 where the last piece makes the loss */
} crn_piece_chain;

/* All memory below is what the chain may use beyond the memory that is always in use. So subtract
 * w_0, labels and the like from a budget first. */
typedef struct crn_piece_options {
    uint64_t memory;     /* solve for this and less; UINT64_MAX: the whole curve */
    uint32_t max_points; /* of one step function; 0: no limit, the result is exact */
    bool downwards;      /* thin downwards: the result is a lower bound and has no schedules */
    uint64_t max_total;  /* points of all step functions; the table gives up beyond it; 0: none */
    bool whole;          /* only the whole chain will be asked about; saves most of the work where
                            there is no limit of points (see piece_narrow.c) */
    uint32_t longest;    /* pieces that are recomputed after a checkpoint; longer ones are
                            only bounded from below, and only the whole chain may be asked about.
                            0: no limit */
} crn_piece_options;

typedef struct crn_piece_table crn_piece_table;

/* Check a chain. CAIRN_EINVAL: there are no pieces or too many, or a time is negative.
 * CAIRN_EOVERFLOW: a size or time is so large that sums could overflow. The error names the
 * piece. */
CAIRN_MUST cairn_status crn_piece_check(const crn_piece_chain *chain, cairn_error *err);

/* Solve every sub-chain. The chain must have passed crn_piece_check() and outlive the table, which
 * is allocated in `arena`. Equal sub-chains are solved once. Time O(n^3 p), memory O(n^2 p) for
 * step functions of p points; p depends on the data. */
CAIRN_MUST cairn_status crn_piece_solve(const crn_piece_chain *chain,
                                        const crn_piece_options *options, crn_arena *arena,
                                        crn_piece_table **out);

/* The smallest memory for which the chain has a schedule. It is exact with all options. */
uint64_t crn_piece_least_memory(const crn_piece_table *table);

/* Whether any step function was thinned. If not, every value is exact. */
bool crn_piece_thinned(const crn_piece_table *table);

/* Whether the table gave up. Then no other function may be called on it. */
bool crn_piece_gave_up(const crn_piece_table *table);

/* The least time as a function of memory, of the whole chain and of the sub-chain first..last,
 * whose input is resident and not counted. `last` may be `first` - 1: nothing to do, time 0. */
crn_curve crn_piece_curve(const crn_piece_table *table);
crn_curve crn_piece_range_curve(const crn_piece_table *table, uint32_t first, uint32_t last);
int64_t crn_piece_time(const crn_piece_table *table, uint32_t first, uint32_t last,
                       uint64_t memory);
uint64_t crn_piece_floor(const crn_piece_table *table, uint32_t first, uint32_t last);

/* A schedule is a tree. It is stored as an array from the root on, each node before its children:
 *
 *     keep way        of first..last: run piece `first` the way `choice`, then the child
 *                     first+1..last, then the backward of `first`
 *     checkpoint j    run first..j-1 keeping only cut j (= choice); child j..last; child first..j-1
 *     leaf            run `first` again for its backward (the last piece: the first time, the way
 *                     `choice`), then its backward; first = last
 */
typedef enum crn_piece_node_kind {
    CRN_PIECE_KEEP,
    CRN_PIECE_CHECKPOINT,
    CRN_PIECE_LEAF
} crn_piece_node_kind;

typedef struct crn_piece_node {
    crn_piece_node_kind kind;
    uint32_t first, last;
    uint32_t choice;
} crn_piece_node;

typedef CRN_ARRAY(crn_piece_node) crn_piece_nodes;

/* The schedule of a sub-chain within `memory`, appended to `*out` in `arena`. It takes
 * crn_piece_time() and must be feasible; the table must not be a lower bound. Nothing is appended
 * if it would recompute more pieces than `longest`; then solve again with a larger value. */
CAIRN_MUST cairn_status crn_piece_schedule(const crn_piece_table *table, uint32_t first,
                                           uint32_t last, uint64_t memory, crn_arena *arena,
                                           crn_piece_nodes *out);

/* A schedule of the whole chain that needs no more than crn_piece_least_memory(). */
CAIRN_MUST cairn_status crn_piece_least_schedule(const crn_piece_table *table, crn_arena *arena,
                                                 crn_piece_nodes *out);

/* Memory and time of a schedule of the whole chain, computed from the figures of the pieces. */
typedef struct crn_piece_need {
    uint64_t memory;
    int64_t time;
} crn_piece_need;

CAIRN_MUST cairn_status crn_piece_judge(const crn_piece_chain *chain, const crn_piece_node *nodes,
                                        uint32_t count, crn_arena *arena, crn_piece_need *out);

#endif
