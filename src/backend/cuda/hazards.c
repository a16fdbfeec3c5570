/* hazards.c: see hazards.h. Segments are sorted by address in one array; memory between them was
 * not accessed. */
#include "backend/cuda/hazards.h"

#include <stdlib.h>

#define NOBODY UINT32_MAX

typedef struct reader {
    uint32_t action, next; /* in the list of readers; NOBODY: the last */
} reader;

typedef struct segment {
    uintptr_t begin, end;
    uint32_t writer;  /* NOBODY: nothing wrote it */
    uint32_t readers; /* the newest reader since then, in hazards->readers; NOBODY: none */
} segment;

struct crn_hazards {
    crn_arena *arena;
    CRN_ARRAY(segment) segments;
    CRN_ARRAY(reader) readers;
    CRN_ARRAY(uint32_t) found; /* actions to follow, with repeats until they are sorted */
    uint32_t count, words;     /* actions so far; words of a row */
    uint64_t *before; /* per action a row of bits: which actions it follows, directly or not */
};

cairn_status crn_hazards_create(crn_arena *arena, uint32_t actions, crn_hazards **out) {
    crn_hazards *h;
    CRN_TAKE(arena, h, 1);
    h->arena = arena;
    h->words = actions / 64 + 1;
    CRN_TAKE(arena, h->before, (size_t)h->words * CRN_MAX(actions, 1));
    *out = h;
    return CAIRN_OK;
}

/* ---- Segments ---- */

/* The first segment that ends after `at`. */
static uint32_t first_after(const crn_hazards *h, uintptr_t at) {
    uint32_t low = 0, high = h->segments.length;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (h->segments.data[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static cairn_status insert(crn_hazards *h, uint32_t place, segment value) {
    CRN_PUSH(h->arena, h->segments, value);
    segment *at = h->segments.data + place;
    memmove(at + 1, at, (h->segments.length - 1 - place) * sizeof *at);
    *at = value;
    return CAIRN_OK;
}

/* Split the segment that contains `at`, if there is one. */
static cairn_status split(crn_hazards *h, uintptr_t at) {
    uint32_t place = first_after(h, at);
    if (place == h->segments.length || h->segments.data[place].begin >= at)
        return CAIRN_OK;
    segment right = h->segments.data[place];
    right.begin = at;
    h->segments.data[place].end = at;
    return insert(h, place + 1, right); /* both share their readers: lists only grow at the front */
}

/* ---- One range ---- */

static cairn_status follow(crn_hazards *h, uint32_t action) {
    if (action != NOBODY && action != h->count)
        CRN_PUSH(h->arena, h->found, action);
    return CAIRN_OK;
}

static cairn_status read_range(crn_hazards *h, uintptr_t begin, uintptr_t end) {
    uint32_t i = first_after(h, begin);
    for (uintptr_t at = begin; at < end; i++) {
        bool last = i == h->segments.length;
        uintptr_t next = last ? end : CRN_MIN(end, h->segments.data[i].begin);
        if (next > at) /* not accessed before */
            CRN_TRY(insert(h, i, (segment){at, next, NOBODY, NOBODY}));
        segment *s = &h->segments.data[i];
        CRN_TRY(follow(h, s->writer));
        CRN_PUSH(h->arena, h->readers, ((reader){h->count, s->readers}));
        s->readers = h->readers.length - 1;
        at = s->end;
    }
    return CAIRN_OK;
}

static cairn_status write_range(crn_hazards *h, uintptr_t begin, uintptr_t end) {
    uint32_t first = first_after(h, begin), last = first;
    for (; last < h->segments.length && h->segments.data[last].begin < end; last++) {
        const segment *s = &h->segments.data[last];
        CRN_TRY(follow(h, s->writer));
        for (uint32_t r = s->readers; r != NOBODY; r = h->readers.data[r].next)
            CRN_TRY(follow(h, h->readers.data[r].action));
    }
    segment all = {begin, end, h->count, NOBODY};
    if (first == last)
        return insert(h, first, all);
    segment *at = h->segments.data + first;
    *at = all; /* it replaces the segments that it covers */
    memmove(at + 1, h->segments.data + last, (h->segments.length - last) * sizeof *at);
    h->segments.length -= last - first - 1;
    return CAIRN_OK;
}

static cairn_status touch(crn_hazards *h, const crn_touch *t, bool write) {
    if (t->bytes == 0 || t->write != write)
        return CAIRN_OK;
    CRN_TRY(split(h, t->at));
    CRN_TRY(split(h, t->at + t->bytes));
    return write ? write_range(h, t->at, t->at + t->bytes) : read_range(h, t->at, t->at + t->bytes);
}

/* ---- Removing redundant actions ---- */

static int descending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* From the newest to the oldest, drop an action if one that was kept follows it. */
static void reduce(crn_hazards *h) {
    uint32_t *list = h->found.data, kept = 0;
    uint64_t *row = h->before + (size_t)h->count * h->words;
    if (h->found.length > 0)
        qsort(list, h->found.length, sizeof *list, descending);
    for (uint32_t i = 0; i < h->found.length; i++) {
        uint32_t action = list[i];
        if (row[action / 64] >> action % 64 & 1)
            continue;
        const uint64_t *other = h->before + (size_t)action * h->words;
        for (uint32_t word = 0; word <= action / 64; word++)
            row[word] |= other[word];
        row[action / 64] |= (uint64_t)1 << action % 64;
        list[kept++] = action;
    }
    for (uint32_t i = 0; i < kept / 2; i++) {
        uint32_t swap = list[i];
        list[i] = list[kept - 1 - i];
        list[kept - 1 - i] = swap;
    }
    h->found.length = kept;
}

cairn_status crn_hazards_add_after(crn_hazards *h, const crn_touch *touches, uint32_t count,
                                   uint32_t also, const uint32_t **after, uint32_t *after_count) {
    h->found.length = 0;
    CRN_TRY(follow(h, also));
    for (uint32_t i = 0; i < count; i++) /* reads first, so that an action does not follow itself */
        CRN_TRY(touch(h, &touches[i], false));
    for (uint32_t i = 0; i < count; i++)
        CRN_TRY(touch(h, &touches[i], true));
    reduce(h);
    h->count++;
    *after = h->found.data;
    *after_count = h->found.length;
    return CAIRN_OK;
}

cairn_status crn_hazards_add(crn_hazards *h, const crn_touch *touches, uint32_t count,
                             const uint32_t **after, uint32_t *after_count) {
    return crn_hazards_add_after(h, touches, count, NOBODY, after, after_count);
}
