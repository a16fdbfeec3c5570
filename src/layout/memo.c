/* memo.c: sizes of arenas that were searched for before.
 *
 * Algorithms and budgets often come to the same lifetimes: most of them offload everything near
 * their smallest budget, and a budget that is refused is followed by the one that was named. A memo
 * is a hash table from what was asked to the size that was found. The lifetimes themselves are not
 * stored: the key has 128 bits. */
#include "base/crn_base.h"
#include "base/rng.h"
#include "layout/crn_layout.h"

#define FIRST_CAPACITY 64u

typedef struct memo_entry {
    uint64_t key[2];
    uint64_t arena; /* 0: the place is free; a layout of 0 bytes is not worth a place */
} memo_entry;

struct cairn_memo {
    cairn_allocator allocator;
    memo_entry *entries;
    uint32_t count, capacity; /* a power of two */
};

cairn_status cairn_memo_create(const cairn_allocator *given, cairn_memo **out, cairn_error *err) {
    cairn_allocator allocator = crn_allocator_or_default(given);
    crn_error_clear(err);
    *out = crn_resize(&allocator, NULL, 0, sizeof **out);
    if (*out == NULL)
        return crn_fail_memory(err);
    **out = (cairn_memo){.allocator = allocator};
    return CAIRN_OK;
}

void cairn_memo_destroy(cairn_memo *memo) {
    if (memo == NULL)
        return;
    cairn_allocator allocator = memo->allocator;
    crn_resize(&allocator, memo->entries, memo->capacity * sizeof *memo->entries, 0);
    crn_resize(&allocator, memo, sizeof *memo, 0);
}

static void make_key(const cairn_lifetime *lifetimes, uint32_t count, uint64_t enough, bool brief,
                     uint64_t key[2]) {
    key[0] = crn_mix(enough, brief);
    key[1] = crn_mix(count, enough);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t when = (uint64_t)lifetimes[i].first << 32 | lifetimes[i].last;
        key[0] = crn_mix(crn_mix(key[0], when), lifetimes[i].bytes);
        key[1] = crn_mix(crn_mix(key[1], lifetimes[i].bytes), when);
    }
}

/* The entry with the key, or the free place for it. There is one. */
static memo_entry *find(const cairn_memo *memo, const uint64_t key[2]) {
    uint32_t at = (uint32_t)key[0] & (memo->capacity - 1);
    while (memo->entries[at].arena > 0 &&
           (memo->entries[at].key[0] != key[0] || memo->entries[at].key[1] != key[1]))
        at = (at + 1) & (memo->capacity - 1);
    return &memo->entries[at];
}

/* Have room for one more; at most half of the places are taken. */
static cairn_status grow(cairn_memo *memo) {
    cairn_memo old = *memo;
    if (2 * (memo->count + 1) <= memo->capacity)
        return CAIRN_OK;
    uint32_t capacity = CRN_MAX(2 * old.capacity, FIRST_CAPACITY);
    memo_entry *entries = crn_resize(&memo->allocator, NULL, 0, capacity * sizeof *entries);
    if (entries == NULL)
        return CAIRN_ENOMEM;
    memset(entries, 0, capacity * sizeof *entries);
    memo->entries = entries;
    memo->capacity = capacity;
    for (uint32_t i = 0; i < old.capacity; i++)
        if (old.entries[i].arena > 0)
            *find(memo, old.entries[i].key) = old.entries[i];
    crn_resize(&memo->allocator, old.entries, old.capacity * sizeof *entries, 0);
    return CAIRN_OK;
}

static cairn_status measure(const cairn_allocator *allocator, const cairn_lifetime *lifetimes,
                            uint32_t count, uint64_t enough, bool brief, uint64_t *arena,
                            cairn_error *err) {
    cairn_layout *layout;
    CRN_TRY(crn_layout_within(allocator, lifetimes, count, enough, brief, &layout, err));
    *arena = cairn_layout_arena_bytes(layout);
    cairn_layout_destroy(layout);
    return CAIRN_OK;
}

cairn_status crn_layout_size(const cairn_allocator *allocator, const cairn_lifetime *lifetimes,
                             uint32_t count, uint64_t enough, bool brief, cairn_memo *memo,
                             uint64_t *arena, cairn_error *err) {
    if (memo == NULL)
        return measure(allocator, lifetimes, count, enough, brief, arena, err);
    uint64_t key[2];
    make_key(lifetimes, count, enough, brief, key);
    if (grow(memo) != CAIRN_OK)
        return crn_fail_memory(err);
    memo_entry *entry = find(memo, key);
    *arena = entry->arena;
    if (entry->arena > 0)
        return CAIRN_OK;
    CRN_TRY(measure(allocator, lifetimes, count, enough, brief, arena, err));
    *entry = (memo_entry){{key[0], key[1]}, *arena};
    memo->count += *arena > 0;
    return CAIRN_OK;
}
