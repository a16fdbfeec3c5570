/* crn_offload.h: shared by the offloading algorithms: the chain in exact units, schedules, the
 * evaluation of a set and of a list.
 *
 * An algorithm is one file with one function crn_offload_solve_NAME and one line in
 * offload_algorithms.def. It gets a job, works in the job's arena and returns the best schedule it
 * finds. It frees nothing. It is only called for cases that fit. */
#ifndef CRN_OFFLOAD_H
#define CRN_OFFLOAD_H

#include "base/crn_base.h"
#include "cairn/papers/offload.h"

/* Sums of sizes and of times * bandwidth stay below this, so that no sum of a few of them can
 * overflow. */
#define CRN_OFFLOAD_LARGEST ((int64_t)1 << 58)

/* A problem in units where the link moves 1 unit of size per unit of time. Memory restricts a
 * schedule only by how much of x_0 .. x_{i-1} must be away while an op runs (need), or between two
 * ops (rest). A value of 0 or less is no restriction.
 *
 *     need of F_i = exF_i + x_0 + .. + x_{i+1} - M
 *     need of B_i = the same with exB_i + y_i + y_{i+1}
 *     rest after F_i = x_0 + .. + x_{i+1} - M
 *     rest after B_i = x_0 + .. + x_i + y_i - M
 *
 * The case fits when no need of op i exceeds x_0 + .. + x_{i-1}. */
typedef struct crn_offload_chain {
    uint32_t count;                    /* layers, L + 1 */
    const int64_t *size;               /* x_0 .. x_L */
    const int64_t *forward, *backward; /* durations */
    const int64_t *forward_need, *backward_need;
    const int64_t *forward_rest, *backward_rest; /* NULL where only ordered schedules are made */
} crn_offload_chain;

/* A schedule; arrays of `count`, times of activations only where moved. */
typedef struct crn_offload_schedule {
    bool found;
    bool optimal; /* it is proved */
    int64_t makespan;
    uint8_t *moved;
    int64_t *forward, *backward; /* starts of ops */
    int64_t *offload, *fetch;    /* starts of transfers */
} crn_offload_schedule;

/* Scratch memory for evaluating ordered sets of one chain; see offload_ordered.c. */
typedef struct crn_offload_ordered crn_offload_ordered;

typedef struct crn_offload_job {
    crn_arena *arena;
    const cairn_offload_problem *problem;
    const crn_offload_chain *chain;
    cairn_offload_bounds bounds;
    cairn_offload_release release;
    int64_t goal; /* lower bound of every schedule with that release */
    uint32_t slots;
    uint64_t max_work; /* 0: the default of each algorithm */
    crn_offload_ordered *ordered;
    crn_offload_schedule trial; /* of crn_offload_try */
} crn_offload_job;

/* ---- offload_problem.c ---- */

CAIRN_MUST cairn_status crn_offload_check(const cairn_offload_problem *problem, cairn_error *err);
CAIRN_MUST cairn_status crn_offload_chain_make(crn_arena *arena,
                                               const cairn_offload_problem *problem,
                                               crn_offload_chain *out);
void crn_offload_memory_bounds(const cairn_offload_problem *problem, cairn_offload_bounds *out);

/* The empty set if nothing need be moved, else x_0 .. x_k, the shortest prefix whose size is at
 * least the largest need. */
void crn_offload_eager_set(const crn_offload_chain *chain, uint8_t *moved);

/* Whether every op has enough memory if the set is moved. */
bool crn_offload_set_fits(const crn_offload_chain *chain, const uint8_t *moved);

/* ---- schedules: offload_ordered.c ---- */

CAIRN_MUST cairn_status crn_offload_schedule_make(crn_arena *arena, uint32_t count,
                                                  crn_offload_schedule *out);
void crn_offload_schedule_copy(uint32_t count, const crn_offload_schedule *from,
                               crn_offload_schedule *to);

CAIRN_MUST cairn_status crn_offload_ordered_make(crn_arena *arena, const crn_offload_chain *chain,
                                                 crn_offload_ordered **out);

/* The length of the shortest ordered schedule that moves `amount[i]` of x_i (negative: not moved),
 * or -1 if an op does not have enough memory. `out`, if not NULL, receives the schedule, except
 * out->moved. */
int64_t crn_offload_ordered_run(crn_offload_ordered *room, const int64_t *amount,
                                cairn_offload_release release, crn_offload_schedule *out);

/* The same for whole activations, without the schedule; `limit` if it is not shorter than that. */
int64_t crn_offload_ordered_length(crn_offload_ordered *room, const uint8_t *moved,
                                   cairn_offload_release release, int64_t limit);

/* Evaluate the set as an ordered schedule and keep it in `best` if it is shorter. */
void crn_offload_try(crn_offload_job *job, const uint8_t *moved, crn_offload_schedule *best);

/* Shorten the ordered schedule of a set by dropping, adding and exchanging activations, until
 * nothing helps, `goal` is reached or `*work` is used up. Returns its length, or -1 if the set does
 * not fit. offload_polish.c. */
int64_t crn_offload_polish(crn_offload_ordered *room, const crn_offload_chain *chain,
                           cairn_offload_release release, int64_t goal, uint64_t *work,
                           uint8_t *moved);

/* The optimum if any share of an activation may be moved: theorem 2 of the paper. */
CAIRN_MUST cairn_status crn_offload_fractional(crn_arena *arena, const crn_offload_chain *chain,
                                               int64_t *out);

/* The same chain for whole release, with needs rounded up to sums of activations.
 * offload_tighten.c. */
CAIRN_MUST cairn_status crn_offload_tighten(crn_arena *arena, const crn_offload_chain *chain,
                                            crn_offload_chain *out);

/* Both lower bounds of the makespan, for a case that fits. */
CAIRN_MUST cairn_status crn_offload_time_bounds(crn_arena *arena, const crn_offload_chain *chain,
                                                cairn_offload_bounds *out);

/* ---- algorithms ---- */

#define X(name, function, summary)                                                                 \
    CAIRN_MUST cairn_status crn_offload_solve_##function(crn_offload_job *job,                     \
                                                         crn_offload_schedule *best);
#include "solve/offload/offload_algorithms.def"
#undef X

#endif
