/* memo.c: what calls share: a hash table with open addressing, of at most half of its places.
 *
 * Algorithms and budgets often come to the same question: most of them offload everything near
 * their smallest budget, a budget that is refused is followed by the one that was named, and all
 * plans within a budget have one bound. */
#include "layout/memo.h"

#include "cairn/budget.h"

#define FIRST_CAPACITY 64u

typedef struct memo_entry {
    crn_key key;
    void *data; /* NULL: the place is free */
    size_t bytes;
} memo_entry;

struct cairn_memo {
    crn_arena arena;
    memo_entry *entries;
    uint32_t count, capacity; /* a power of two */
};

cairn_status cairn_memo_create(const cairn_allocator *given, cairn_memo **out, cairn_error *err) {
    crn_error_clear(err);
    *out = CRN_OBJECT(given, cairn_memo, arena);
    return *out == NULL ? crn_fail_memory(err) : CAIRN_OK;
}

void cairn_memo_destroy(cairn_memo *memo) {
    if (memo != NULL)
        crn_arena_destroy(&memo->arena);
}

/* The entry with the key, or the free place for it. There is one. */
static memo_entry *find(const cairn_memo *memo, crn_key key) {
    uint32_t at = (uint32_t)key.half[0] & (memo->capacity - 1);
    while (memo->entries[at].data != NULL && memcmp(&memo->entries[at].key, &key, sizeof key) != 0)
        at = (at + 1) & (memo->capacity - 1);
    return &memo->entries[at];
}

/* Have room for one more. Old tables stay in the arena; together they are as large as the new. */
static cairn_status grow(cairn_memo *memo) {
    cairn_memo old = *memo;
    memo_entry *entries;
    if (2 * (memo->count + 1) <= memo->capacity)
        return CAIRN_OK;
    uint32_t capacity = CRN_MAX(2 * old.capacity, FIRST_CAPACITY);
    CRN_TAKE(&memo->arena, entries, capacity);
    memo->entries = entries;
    memo->capacity = capacity;
    for (uint32_t i = 0; i < old.capacity; i++)
        if (old.entries[i].data != NULL)
            *find(memo, old.entries[i].key) = old.entries[i];
    return CAIRN_OK;
}

const void *crn_memo_find(const cairn_memo *memo, crn_key key, size_t *bytes) {
    *bytes = 0;
    if (memo == NULL || memo->capacity == 0)
        return NULL;
    const memo_entry *entry = find(memo, key);
    *bytes = entry->bytes;
    return entry->data;
}

cairn_status crn_memo_add(cairn_memo *memo, crn_key key, size_t bytes, void **out) {
    *out = NULL;
    if (memo == NULL)
        return CAIRN_OK;
    CRN_TRY(grow(memo));
    memo_entry *entry = find(memo, key);
    if (entry->data == NULL) {
        void *data = crn_arena_take(&memo->arena, 1, bytes);
        if (data == NULL)
            return CAIRN_ENOMEM;
        *entry = (memo_entry){key, data, bytes};
        memo->count++;
    }
    *out = entry->data;
    return CAIRN_OK;
}
