/* known_layout.c: layouts that were searched for before are not searched for again.
 *
 * A search looks at `enough` only when its arena is within it, unless it is brief. So if the arena
 * that was found is not, the same search answers for every other `enough` below that arena. It is
 * stored as the search with `enough` 0, and asked for first. */
#include "layout/crn_layout.h"
#include "layout/memo.h"

/* Questions with the same answer are made the same. */
static void settle(uint32_t count, uint64_t *enough, bool *brief) {
    *enough = count > CRN_LAYOUT_LOTS ? 0 : *enough;
    *brief = *brief && count <= CRN_LAYOUT_LOTS;
}

static crn_key key_of(const cairn_lifetime *lifetimes, uint32_t count, bool brief) {
    crn_key key = crn_key_of(CRN_KEY_LAYOUT);
    for (uint32_t i = 0; i < count; i++) {
        crn_key_add(&key, (uint64_t)lifetimes[i].first << 32 | lifetimes[i].last);
        crn_key_add(&key, lifetimes[i].bytes);
    }
    crn_key_add(&key, brief);
    return key;
}

static crn_key with(crn_key key, uint64_t enough) {
    crn_key_add(&key, enough);
    return key;
}

/* What is stored are the size of the arena and, of a whole search, the offsets. NULL: nothing. */
static const uint64_t *recall(const cairn_memo *memo, crn_key key, uint64_t enough, size_t *words) {
    const uint64_t *known = crn_memo_find(memo, with(key, 0), words);
    if (known == NULL || known[0] <= enough)
        known = crn_memo_find(memo, with(key, enough), words);
    *words /= sizeof *known;
    return known;
}

static cairn_status store(cairn_memo *memo, crn_key key, uint64_t enough, bool brief,
                          const cairn_layout *layout) {
    const uint64_t *offsets = layout->offsets;
    uint32_t count = layout->count;
    uint64_t arena = layout->arena_bytes, *words;
    void *place;
    count = brief ? 0 : count;
    key = with(key, arena > enough && !brief ? 0 : enough);
    CRN_TRY(crn_memo_add(memo, key, ((size_t)count + 1) * sizeof *words, &place));
    words = place;
    words[0] = arena;
    memcpy(words + 1, offsets, count * sizeof *words);
    return CAIRN_OK;
}

static cairn_status search(const cairn_allocator *allocator, const cairn_lifetime *lifetimes,
                           uint32_t count, uint64_t enough, bool brief, cairn_memo *memo,
                           crn_key key, cairn_layout **out, cairn_error *err) {
    CRN_TRY(crn_layout_search(allocator, lifetimes, count, enough, brief, out, err));
    if (memo == NULL || store(memo, key, enough, brief, *out) == CAIRN_OK)
        return CAIRN_OK;
    cairn_layout_destroy(*out);
    *out = NULL;
    return crn_fail_memory(err);
}

cairn_status crn_layout_within(const cairn_allocator *allocator, const cairn_lifetime *lifetimes,
                               uint32_t count, uint64_t enough, bool brief, cairn_memo *memo,
                               cairn_layout **out, cairn_error *err) {
    settle(count, &enough, &brief);
    crn_key key = memo != NULL ? key_of(lifetimes, count, brief) : (crn_key){{0}};
    size_t words;
    const uint64_t *known = recall(memo, key, enough, &words);
    if (words == (size_t)count + 1)
        return crn_layout_of(allocator, known[0], known + 1, count, out, err);
    return search(allocator, lifetimes, count, enough, brief, memo, key, out, err);
}

cairn_status crn_layout_size(const cairn_allocator *allocator, const cairn_lifetime *lifetimes,
                             uint32_t count, uint64_t enough, bool brief, cairn_memo *memo,
                             uint64_t *arena, cairn_error *err) {
    settle(count, &enough, &brief);
    crn_key key = memo != NULL ? key_of(lifetimes, count, brief) : (crn_key){{0}};
    size_t words;
    const uint64_t *known = recall(memo, key, enough, &words);
    cairn_layout *layout;
    if (known != NULL) {
        *arena = known[0];
        return CAIRN_OK;
    }
    CRN_TRY(search(allocator, lifetimes, count, enough, brief, memo, key, &layout, err));
    *arena = layout->arena_bytes;
    cairn_layout_destroy(layout);
    return CAIRN_OK;
}
