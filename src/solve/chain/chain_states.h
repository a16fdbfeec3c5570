/* chain_states.h: the states of an abstract chain, for the exact searches.
 *
 * A state between two steps is: which backward b_j is resident, and which of the forwards f_1 ..
 * f_{j-1} are (the forwards from j on are not needed any more). Both fit in one word: bit l < j
 * says that f_l is resident, bit j is set, and no bit above it. Bit 0 is f_0 and always set.
 *
 *     j = 5, f_2 and f_4 resident:   ..0 1 1 0 1 0 1      (and f_0)
 *                                        j 4 3 2 1 0
 *
 * The frontier is a heap ordered by (priority, tie), the smallest first. A state that is reached
 * again with a smaller value is added again; outdated entries are recognised by their value. */
#ifndef CRN_CHAIN_STATES_H
#define CRN_CHAIN_STATES_H

#include "solve/chain/chain_solve.h"

#define CRN_STATE_MOST_LAYERS 61u
#define CRN_STATE_NONE UINT32_MAX

static inline uint64_t crn_bit(uint32_t l) {
    return (uint64_t)1 << l;
}

static inline uint32_t crn_top_bit(uint64_t key) {
    return 63u - (uint32_t)__builtin_clzll(key);
}

static inline uint32_t crn_low_bit(uint64_t key) {
    return (uint32_t)__builtin_ctzll(key);
}

typedef struct crn_state {
    uint64_t key;
    int64_t value;   /* cost or peak so far */
    uint32_t parent; /* index, or CRN_STATE_NONE */
    uint32_t step;   /* 2 * layer + 1 for a backward, 2 * layer for a forward, or CRN_STATE_DROP */
} crn_state;

#define CRN_STATE_DROP UINT32_MAX /* the step only drops */

typedef struct crn_state_entry {
    int64_t priority, tie, value;
    uint32_t state;
} crn_state_entry;

typedef struct crn_states {
    crn_arena *arena;
    CRN_ARRAY(crn_state) all;
    CRN_ARRAY(crn_state_entry) heap;
    uint32_t *slots; /* hash table of index + 1 */
    uint32_t slot_mask;
} crn_states;

CAIRN_MUST cairn_status crn_states_init(crn_states *states, crn_arena *arena);

/* Index of a state, or CRN_STATE_NONE. */
uint32_t crn_states_find(const crn_states *states, uint64_t key);

/* Record that a state was reached. This does nothing if it was reached before with a value that is
 * no larger. */
CAIRN_MUST cairn_status crn_states_reach(crn_states *states, crn_state state, int64_t priority,
                                         int64_t tie);

/* Take the best entry off the frontier; false when there is none. `*priority` may be NULL. */
bool crn_states_pop(crn_states *states, uint32_t *index, int64_t *priority);

/* The steps that led to a state, including drops. */
CAIRN_MUST cairn_status crn_states_steps(const crn_states *states, uint32_t index, crn_arena *arena,
                                         crn_chain_steps *out);

/* Memory of f_0, the resident forwards and b_j. */
uint64_t crn_state_memory(const cairn_chain_problem *problem, uint64_t key);

/* The smallest budget for which a schedule exists, and a schedule with that peak. If this would
 * need more than `max_states` states, the result is that of `nested`, and `*proven` is false.
 * `nested` must have been solved at least for its own floor. */
CAIRN_MUST cairn_status crn_chain_least_budget(crn_chain_job *job, const crn_chain_nested *nested,
                                               uint32_t max_states, uint64_t *budget,
                                               crn_chain_steps *steps, bool *proven);

#endif
