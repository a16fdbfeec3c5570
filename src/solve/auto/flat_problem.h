/* flat_problem.h: a training step as arrays, for a search that reads it very often.
 *
 * Ops keep their canonical order. A *value* is a storage: a tensor with all its aliases. Stationary
 * tensors are left out. An op that only makes aliases needs no memory, and is recomputed together
 * with the storage.
 *
 *     tensors   x   y = relu(x)   z = flatten(y)        values   X   Y = {y, z}
 *
 * After the ops of the graph there are two pseudo-ops per value, for copies: one makes the value
 * (its fetch), one reads it (its copy to the host has ended). */
#ifndef CRN_FLAT_PROBLEM_H
#define CRN_FLAT_PROBLEM_H

#include "base/crn_base.h"
#include "cairn/cost.h"

#define CRN_NO_OP UINT32_MAX
#define CRN_NO_VALUE UINT32_MAX

/* An output that may take an input's storage. A run uses the first pair whose input dies there, and
 * the next one that goes together with it. */
typedef struct crn_flat_pair {
    uint32_t input, output; /* values */
    bool together;          /* the op may use two */
} crn_flat_pair;

/* One useful implementation of an op. */
typedef struct crn_flat_impl {
    int64_t time, again; /* of the first run, of a recomputation */
    uint64_t workspace;
    uint16_t implementation;
} crn_flat_impl;

typedef struct crn_flat {
    const cairn_graph *graph;
    const cairn_costs *costs;
    uint32_t op_count, value_count;
    bool updates;       /* parameters are updated between backward ops */
    uint32_t last_slot; /* of recomputations: later ops have changed parameters */

    /* Per op, pseudo-ops included; lists of `x` are x[first_x[op] .. first_x[op + 1]). */
    uint32_t *first_input, *inputs;   /* values, each once */
    uint32_t *first_output, *outputs; /* values */
    uint32_t *first_pair;
    crn_flat_pair *pairs;
    uint32_t *first_impl; /* by rising time and falling workspace */
    crn_flat_impl *impls;
    int64_t *alias_time; /* the most that a recomputation adds for the aliases of its outputs */
    uint64_t *alias_workspace;
    bool *fixed; /* the search does not recompute it */

    /* Per value. */
    uint64_t *bytes; /* aligned */
    uint64_t *room;  /* the most that its storage can take: in place, it may be in a larger one */
    uint32_t *producer;
    bool *stays, *aliased;
    uint32_t *first_reader, *readers;
    uint32_t *first_alias, *alias_ops; /* ops that make its aliases */
    cairn_id *root;

    uint32_t *value_of; /* per tensor; CRN_NO_VALUE: stationary */
    bool *never;        /* per op: no plan may recompute it */
    bool *needed;       /* per op: every plan runs it */
    int64_t *least_time, *least_again;
    uint64_t *least_workspace;
    uint32_t time_shift; /* times are in 2^time_shift ns: 0 unless they are huge */
    int64_t base_time;   /* of the fastest implementations, every op once, in that unit */
} crn_flat;

/* The pseudo-ops of a value. */
static inline uint32_t crn_flat_fetch(const crn_flat *flat, uint32_t value) {
    return flat->op_count + 2 * value;
}
static inline uint32_t crn_flat_copied(const crn_flat *flat, uint32_t value) {
    return flat->op_count + 2 * value + 1;
}

/* Whether a run may use a pair after another one. */
static inline bool crn_flat_goes_with(crn_flat_pair pair, crn_flat_pair other) {
    return pair.together && pair.input != other.input && pair.output != other.output;
}

/* The most bytes of an op's outputs that can be in place, of those outputs that may be. */
uint64_t crn_flat_inplace_bytes(const crn_flat *flat, uint32_t op);

/* The implementations that a plan may use for an op: numbers from *first to before *end. */
void crn_flat_allowed(const crn_flat *flat, uint32_t op, uint32_t *first, uint32_t *end);

/* All arrays are allocated in `arena`. O(ops + operands + tensors). */
CAIRN_MUST cairn_status crn_flat_create(const cairn_graph *graph, const cairn_costs *costs,
                                        crn_arena *arena, crn_flat **out);

#endif
