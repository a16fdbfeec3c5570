/* chain_states.c: a hash table of states by their key, and the frontier of a search. */
#include "solve/chain/chain_states.h"

#define FIRST_SLOTS 1024u

static uint32_t hash(uint64_t key) {
    key = (key ^ (key >> 31)) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(key >> 32);
}

cairn_status crn_states_init(crn_states *states, crn_arena *arena) {
    *states = (crn_states){.arena = arena, .slot_mask = FIRST_SLOTS - 1};
    CRN_TAKE(arena, states->slots, FIRST_SLOTS);
    return CAIRN_OK;
}

/* The slot of a key: the one it is in, or a free one for it. */
static uint32_t find_slot(const crn_states *states, uint64_t key) {
    uint32_t slot = hash(key) & states->slot_mask;
    while (states->slots[slot] != 0 && states->all.data[states->slots[slot] - 1].key != key)
        slot = (slot + 1) & states->slot_mask;
    return slot;
}

uint32_t crn_states_find(const crn_states *states, uint64_t key) {
    uint32_t slot = find_slot(states, key);
    return states->slots[slot] == 0 ? CRN_STATE_NONE : states->slots[slot] - 1;
}

/* Double the slots; at most half of them are used. */
static cairn_status grow_slots(crn_states *states) {
    uint32_t *slots, count = 2 * (states->slot_mask + 1);
    CRN_TAKE(states->arena, slots, count);
    states->slots = slots;
    states->slot_mask = count - 1;
    for (uint32_t i = 0; i < states->all.length; i++)
        slots[find_slot(states, states->all.data[i].key)] = i + 1;
    return CAIRN_OK;
}

/* ---- The heap ---- */

static bool before(const crn_state_entry *x, const crn_state_entry *y) {
    if (x->priority != y->priority)
        return x->priority < y->priority;
    if (x->tie != y->tie)
        return x->tie < y->tie;
    return x->state > y->state; /* the newest first */
}

static cairn_status heap_push(crn_states *states, crn_state_entry entry) {
    CRN_PUSH(states->arena, states->heap, entry);
    crn_state_entry *heap = states->heap.data;
    uint32_t at = states->heap.length - 1;
    for (; at > 0 && before(&entry, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = entry;
    return CAIRN_OK;
}

static crn_state_entry heap_pop(crn_states *states) {
    crn_state_entry *heap = states->heap.data, top = heap[0];
    uint32_t length = --states->heap.length;
    crn_state_entry last = heap[length];
    uint32_t at = 0, child;
    for (; (child = 2 * at + 1) < length; at = child) {
        if (child + 1 < length && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return top;
}

cairn_status crn_states_reach(crn_states *states, crn_state state, int64_t priority, int64_t tie) {
    uint32_t slot = find_slot(states, state.key), index;
    if (states->slots[slot] == 0) {
        index = states->all.length;
        CRN_PUSH(states->arena, states->all, state);
        states->slots[slot] = index + 1;
        if (2 * states->all.length > states->slot_mask)
            CRN_TRY(grow_slots(states));
    } else {
        index = states->slots[slot] - 1;
        if (states->all.data[index].value <= state.value)
            return CAIRN_OK;
        states->all.data[index] = state;
    }
    return heap_push(states, (crn_state_entry){priority, tie, state.value, index});
}

bool crn_states_pop(crn_states *states, uint32_t *index, int64_t *priority) {
    while (states->heap.length > 0) {
        crn_state_entry entry = heap_pop(states);
        if (states->all.data[entry.state].value != entry.value)
            continue; /* reached at a lower cost since then */
        *index = entry.state;
        if (priority != NULL)
            *priority = entry.priority;
        return true;
    }
    return false;
}

/* ---- States as schedules ---- */

uint64_t crn_state_memory(const cairn_chain_problem *problem, uint64_t key) {
    uint32_t j = crn_top_bit(key);
    uint64_t memory = problem->backward_sizes[j];
    for (uint64_t rest = key & ~crn_bit(j); rest != 0; rest &= rest - 1)
        memory += problem->forward_sizes[crn_low_bit(rest)];
    return memory;
}

/* The forwards that were dropped between two states, without the one that a backward frees. */
static uint64_t dropped(const crn_state *from, const crn_state *to) {
    uint32_t j = crn_top_bit(to->key);
    uint64_t gone = from->key & ~to->key & ~crn_bit(crn_top_bit(from->key));
    return to->step == CRN_STATE_DROP || (to->step & 1) == 0 ? gone : gone & ~crn_bit(j);
}

static cairn_status write_move(const crn_state *from, const crn_state *to, crn_arena *arena,
                               crn_chain_steps *out) {
    for (uint64_t gone = dropped(from, to); gone != 0; gone &= gone - 1)
        CRN_TRY(crn_chain_push(arena, out, CAIRN_CHAIN_STEP_DROP, crn_low_bit(gone)));
    if (to->step == CRN_STATE_DROP)
        return CAIRN_OK;
    return crn_chain_push(arena, out,
                          to->step & 1 ? CAIRN_CHAIN_STEP_BACKWARD : CAIRN_CHAIN_STEP_FORWARD,
                          to->step / 2);
}

cairn_status crn_states_steps(const crn_states *states, uint32_t index, crn_arena *arena,
                              crn_chain_steps *out) {
    CRN_ARRAY(uint32_t) path = {0};
    for (uint32_t at = index; at != CRN_STATE_NONE; at = states->all.data[at].parent)
        CRN_PUSH(arena, path, at);
    for (uint32_t i = path.length - 1; i > 0; i--)
        CRN_TRY(write_move(&states->all.data[path.data[i]], &states->all.data[path.data[i - 1]],
                           arena, out));
    return CAIRN_OK;
}
