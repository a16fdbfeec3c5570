/* memo.h: what was found before, by a key of 128 bits. */
#ifndef CRN_MEMO_H
#define CRN_MEMO_H

#include "base/crn_base.h"
#include "base/rng.h"
#include "cairn/layout.h"

/* A hash of all that a result depends on. What it was made of is not stored. */
typedef struct crn_key {
    uint64_t half[2];
} crn_key;

/* What a key is of: results of different sorts have different keys. */
enum { CRN_KEY_LAYOUT, CRN_KEY_TIME_BOUND, CRN_KEY_OFFLOAD };

static inline crn_key crn_key_of(uint64_t sort) {
    return (crn_key){{crn_mix(1, sort), crn_mix(2, sort)}};
}

static inline void crn_key_add(crn_key *key, uint64_t value) {
    key->half[0] = crn_mix(key->half[0], value);
    key->half[1] = crn_mix(key->half[1] ^ value, 1);
}

/* What was stored with the key, and its size; NULL: nothing, or there is no memo. It stays where it
 * is until the memo is destroyed. */
const void *crn_memo_find(const cairn_memo *memo, crn_key key, size_t *bytes);

/* The place for `bytes` to store with the key, which the caller fills; NULL if there is no memo.
 * The same key always stores the same. CAIRN_ENOMEM. */
CAIRN_MUST cairn_status crn_memo_add(cairn_memo *memo, crn_key key, size_t bytes, void **out);

#endif
