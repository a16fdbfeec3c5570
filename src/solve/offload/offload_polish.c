/* offload_polish.c: hill climbing over ordered sets: drop an activation, add one, or exchange one
 * for another, as long as the schedule gets shorter.
 *
 * Rounding to whole activations is like a subset-sum problem. Exchanges solve it well: one large
 * activation is taken out, a slightly smaller one is put in. Close partners are tried first,
 * because neighbours in the chain leave and return at similar times.
 *
 *     pass: for each i:  flip i;  then for d = 1, 2, ..: flip i and i + d, of which one was moved
 *
 * Each evaluation is O(n log n) and counts n steps against the limit; the passes end when one finds
 * nothing, or when the limit is reached. Deterministic. */
#include "solve/offload/crn_offload.h"

typedef struct climb {
    crn_offload_ordered *room;
    cairn_offload_release release;
    uint32_t count;
    uint8_t *moved;
    int64_t length, goal;
    uint64_t work;
} climb;

static bool exhausted(const climb *c) {
    return c->work == 0 || c->length <= c->goal;
}

/* Flip i and j (only i if they are equal), and keep that if it shortens the schedule. */
static bool try_flip(climb *c, uint32_t i, uint32_t j) {
    c->work -= CRN_MIN(c->work, c->count);
    c->moved[i] ^= 1;
    if (i != j)
        c->moved[j] ^= 1;
    int64_t length = crn_offload_ordered_length(c->room, c->moved, c->release, c->length);
    if (length >= 0 && length < c->length) {
        c->length = length;
        return true;
    }
    c->moved[i] ^= 1;
    if (i != j)
        c->moved[j] ^= 1;
    return false;
}

static bool pass(climb *c, const crn_offload_chain *chain, uint32_t distance) {
    bool better = false;
    for (uint32_t i = 0; i < c->count && !exhausted(c); i++) {
        if (chain->size[i] == 0)
            continue;
        if (distance == 0)
            better |= try_flip(c, i, i);
        else if (i + distance < c->count && c->moved[i] != c->moved[i + distance])
            better |= try_flip(c, i, i + distance);
    }
    return better;
}

int64_t crn_offload_polish(crn_offload_ordered *room, const crn_offload_chain *chain,
                           cairn_offload_release release, int64_t goal, uint64_t *work,
                           uint8_t *moved) {
    climb c = {room, release, chain->count, moved, 0, goal, *work};
    c.length = crn_offload_ordered_length(room, moved, release, INT64_MAX);
    if (c.length < 0)
        return -1;
    for (uint32_t distance = 0; distance < c.count && !exhausted(&c);)
        distance = pass(&c, chain, distance) && distance > 0 ? 0 : distance + 1;
    *work = c.work;
    return c.length;
}
