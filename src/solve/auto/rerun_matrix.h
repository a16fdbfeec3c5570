/* rerun_matrix.h: a plan as a set of recomputations (re-runs), with incremental updates of its
 * memory.
 *
 * Slot s holds op s - 1, which runs there for the first time, and before it, in canonical order,
 * the ops that are recomputed there. Slot 0 is the start of the step with the given values; the
 * last slot is its end, where results are read. A copy is two pseudo-ops after the op of a slot.
 *
 *     slot      0      1    2    3      4         5        6
 *     runs      given  A    B    loss   B' dB     A' dA    end        set = {(4, B), (5, A)}
 *
 * A read refers to the latest run, so **every set is a legal plan**; sets differ only in memory and
 * time. Each value has a sorted list of events: runs that make it, and reads. A value dies at an
 * event that is followed by a run that makes it, or by nothing. Scanning a slot event by event
 * gives (sum, largest prefix), and a segment tree over the slots gives the peak, its place, and the
 * most memory of any range of slots. A flip adds or removes one pair. It changes the events of one
 * op's operands and weighs the few runs again whose deaths changed; what the other runs of their
 * slots weigh is known: O(operands * log + slots * (runs + log)).
 *
 * An op may also use a slower implementation with less workspace, the same for all its runs.
 *
 * If memory runs out, the matrix becomes `failed`: further changes do nothing, and the caller
 * checks this at the end. */
#ifndef CRN_RERUN_MATRIX_H
#define CRN_RERUN_MATRIX_H

#include "solve/auto/flat_problem.h"

/* The order of events: by slot, by op, reads before makes. */
typedef uint64_t crn_event_key;

typedef CRN_ARRAY(crn_event_key) crn_event_list;
typedef CRN_ARRAY(uint32_t) crn_op_list;

typedef struct crn_rerun {
    uint32_t slot, op;
} crn_rerun;

/* What a run does to memory, and the place of its pair in `all`. */
typedef struct crn_run {
    int64_t sum, need; /* what it adds, and the most that it needs while it runs */
    uint32_t place;
    bool is_stale; /* its deaths have changed */
} crn_run;

typedef CRN_ARRAY(crn_run) crn_run_list;

/* A change that can be undone: a flip, or another implementation of an op. */
typedef struct crn_change {
    uint32_t slot, op; /* slot CRN_NO_OP: the old implementation of `op` was `impl` */
    uint32_t impl;
} crn_change;

typedef struct crn_matrix {
    const crn_flat *flat;
    crn_arena *arena;
    uint32_t slot_count;
    crn_op_list *slots; /* per slot: ops that are recomputed, ascending; pseudo-ops last */
    crn_run_list *runs; /* for each of them: what it does to memory */
    crn_run *base;      /* per slot: the same for the op that runs there for the first time */
    crn_event_list *events;
    crn_event_key *first, *last; /* per value: its first and last event */
    uint32_t *impl;              /* per op: which of its implementations */
    CRN_ARRAY(crn_rerun) all;    /* every pair of the set, not ordered */
    CRN_ARRAY(crn_change) journal;
    CRN_ARRAY(crn_rerun) pending; /* recomputations that may have become useless */
    int64_t *sum, *most;          /* the tree: leaves from `leaf_count` on */
    int64_t *allowance;           /* per slot: memory that does not count */
    uint32_t leaf_count;
    uint32_t *stale; /* slots to be scanned again */
    bool *is_stale;
    uint32_t stale_count;
    int64_t time;          /* of all runs, in the unit of the flat problem */
    uint64_t flips, scans; /* so far; scans of runs, weighed again or not */
    bool journaling, failed;
} crn_matrix;

static inline crn_event_key crn_key(uint32_t slot, uint32_t op) {
    return (crn_event_key)slot << 33 | (crn_event_key)op << 1;
}
static inline uint32_t crn_key_slot(crn_event_key key) {
    return (uint32_t)(key >> 33);
}
static inline uint32_t crn_key_op(crn_event_key key) {
    return (uint32_t)(key >> 1);
}
static inline bool crn_key_makes(crn_event_key key) {
    return key & 1;
}
/* Whether both events belong to the same run. */
static inline bool crn_key_same(crn_event_key a, crn_event_key b) {
    return a >> 1 == b >> 1;
}

#define CRN_SHORT_LIST 8u

/* The index of the first event of the list that is not before `key`. */
static inline uint32_t crn_event_find(const crn_event_list *list, crn_event_key key) {
    uint32_t low = 0, length = list->length;
    if (length <= CRN_SHORT_LIST) { /* one branch is guessed wrongly, the last */
        while (low < length && list->data[low] < key)
            low++;
        return low;
    }
    for (uint32_t left = length, half; left > 0; left -= half) {
        half = (left + 1) / 2;
        low += list->data[low + half - 1] < key ? half : 0;
    }
    return low;
}

/* Whether the value dies at the event at `index`. */
static inline bool crn_event_dies(const crn_event_list *list, uint32_t index) {
    return index + 1 >= list->length || crn_key_makes(list->data[index + 1]);
}

static inline const crn_flat_impl *crn_impl_of(const crn_matrix *m, uint32_t op) {
    return &m->flat->impls[m->flat->first_impl[op] + m->impl[op]];
}
/* The time to recompute an op. */
static inline int64_t crn_rerun_time(const crn_matrix *m, uint32_t op) {
    return crn_impl_of(m, op)->again + m->flat->alias_time[op];
}

/* Create the empty set: every op runs once. */
CAIRN_MUST cairn_status crn_matrix_create(const crn_flat *flat, crn_arena *arena, crn_matrix **out);

/* Add (slot, op) to the set, or remove it. op < slot - 1, or it is a pseudo-op. */
void crn_matrix_flip(crn_matrix *m, uint32_t slot, uint32_t op);
bool crn_matrix_has(const crn_matrix *m, uint32_t slot, uint32_t op);
void crn_matrix_set_impl(crn_matrix *m, uint32_t op, uint32_t impl);

/* Undo changes until the journal is `length` long. */
void crn_matrix_undo(crn_matrix *m, uint32_t length);
/* Back to the empty set, without the journal. */
void crn_matrix_clear(crn_matrix *m);

/* So much memory of a slot does not count in what the following functions say. */
void crn_matrix_allow(crn_matrix *m, uint32_t slot, int64_t bytes);

int64_t crn_matrix_peak(crn_matrix *m);
/* The first slot that reaches the peak, and the run in it. */
uint32_t crn_matrix_peak_slot(crn_matrix *m);
crn_event_key crn_matrix_peak_run(crn_matrix *m, uint32_t slot);
/* The most memory in slots first .. last; INT64_MIN / 2 if there are none. */
int64_t crn_matrix_most(crn_matrix *m, uint32_t first, uint32_t last);
/* Slots with more than `limit`: calls `visit` for each, rising, with its memory. */
void crn_matrix_over(crn_matrix *m, int64_t limit,
                     void (*visit)(void *context, uint32_t slot, int64_t memory), void *context);

/* Remove (slot, op), then recomputations that only it read, and so on. */
void crn_matrix_take_out(crn_matrix *m, uint32_t slot, uint32_t op);
/* The same only if nothing reads what (slot, op) makes. */
void crn_matrix_prune(crn_matrix *m, uint32_t slot, uint32_t op);
void crn_matrix_prune_all(crn_matrix *m);

/* A saved set. */
typedef struct crn_saved {
    CRN_ARRAY(crn_rerun) reruns;
    uint32_t *impl;
    int64_t time, peak;
} crn_saved;

void crn_matrix_save(crn_matrix *m, crn_saved *saved);
void crn_matrix_load(crn_matrix *m, const crn_saved *saved);

#endif
