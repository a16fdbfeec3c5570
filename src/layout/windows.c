/* windows.c: first fit in any order; see long_first.h.
 *
 *     steps      | block 0 | block 1 | block 2 | block 3 |        A window is two blocks of steps.
 *     windows    |------- 0 --------|                             A lifetime that is shorter than a
 *                          |------- 1 --------|                   block lies within the window that
 *     short                      ###                              begins with its first block.
 *
 * For a short one only those are compared that touch its window. A long one is compared with all,
 * and there are few of them. The list of all is brought into order only when a long one needs it.
 */
#include "layout/long_first.h"

#include <stdlib.h>

#define BLOCKS 64u

typedef struct placed {
    uint64_t from, to; /* offsets */
    uint32_t first, last;
} placed;

/* Those that touch a window, lowest first. */
typedef struct window {
    placed *list;
    uint32_t count;
} window;

typedef struct windows {
    uint32_t width; /* steps of a block */
    window list[BLOCKS];
} windows;

/* All of them, lowest first but for the last `added`. */
typedef struct everything {
    placed *list;
    placed *work; /* as long */
    uint32_t count, added;
} everything;

static uint32_t block_of(const windows *w, uint32_t step) {
    return CRN_MIN(step / w->width, BLOCKS - 1);
}

/* The first window that a lifetime touches; the last one is that of its last block. */
static uint32_t first_window(const windows *w, const cairn_lifetime *life) {
    uint32_t block = block_of(w, life->first);
    return block > 0 ? block - 1 : 0;
}

static bool is_short(const windows *w, const cairn_lifetime *life) {
    return life->last - life->first < w->width;
}

static cairn_status make_windows(windows *w, crn_arena *scratch, const cairn_lifetime *lifetimes,
                                 uint32_t count) {
    uint32_t last = 0, touching[BLOCKS] = {0};
    for (uint32_t i = 0; i < count; i++) {
        last = CRN_MAX(last, lifetimes[i].first);
        last = CRN_MAX(last, lifetimes[i].last == UINT32_MAX ? 0 : lifetimes[i].last);
    }
    w->width = last / BLOCKS + 1;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = first_window(w, &lifetimes[i]); k <= block_of(w, lifetimes[i].last); k++)
            touching[k]++;
    for (uint32_t k = 0; k < BLOCKS; k++)
        CRN_TAKE(scratch, w->list[k].list, touching[k]);
    return CAIRN_OK;
}

/* Without a branch on which ones are live together: it would be predicted badly. */
static uint64_t lowest_offset(const window *w, const cairn_lifetime *life) {
    uint64_t offset = 0, bytes = life->bytes;
    uint32_t first = life->first, last = life->last;
    for (const placed *p = w->list; p < w->list + w->count; p++) {
        bool together = (p->first <= last) & (p->last >= first);
        if (together & (p->from >= offset + bytes))
            break; /* the gap below it is wide enough */
        uint64_t above = together ? p->to : 0;
        offset = above > offset ? above : offset;
    }
    return offset;
}

static void insert(window *w, const placed *added) {
    uint32_t at = w->count++;
    for (; at > 0 && w->list[at - 1].from > added->from; at--)
        w->list[at] = w->list[at - 1];
    w->list[at] = *added;
}

static void insert_into_windows(windows *w, const cairn_lifetime *life, const placed *added) {
    for (uint32_t k = first_window(w, life); k <= block_of(w, life->last); k++)
        insert(&w->list[k], added);
}

static int lower_first(const void *a, const void *b) {
    const placed *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* Bring the last ones to their places: they are sorted, and merged from the highest down. */
static window in_order(everything *all) {
    uint32_t left = all->count - all->added, more = all->added;
    if (more > 0) {
        memcpy(all->work, all->list + left, more * sizeof *all->work);
        qsort(all->work, more, sizeof *all->work, lower_first);
    }
    for (uint32_t at = all->count; more > 0; at--) {
        bool higher = left > 0 && all->list[left - 1].from > all->work[more - 1].from;
        all->list[at - 1] = higher ? all->list[--left] : all->work[--more];
    }
    all->added = 0;
    return (window){all->list, all->count};
}

static uint64_t offset_of(const windows *w, everything *all, const cairn_lifetime *life) {
    if (is_short(w, life))
        return lowest_offset(&w->list[block_of(w, life->first)], life);
    window whole = in_order(all);
    return lowest_offset(&whole, life);
}

cairn_status crn_place_in_windows(crn_arena *scratch, const cairn_lifetime *lifetimes,
                                  const uint32_t *order, uint32_t count, uint64_t most,
                                  uint64_t *offsets, uint64_t *arena) {
    windows w = {0};
    everything all = {0};
    CRN_TRY(make_windows(&w, scratch, lifetimes, count));
    CRN_TAKE(scratch, all.list, count);
    CRN_TAKE(scratch, all.work, count);
    *arena = 0;
    for (uint32_t k = 0; k < count && *arena <= most; k++) {
        const cairn_lifetime *life = &lifetimes[order[k]];
        uint64_t offset = offset_of(&w, &all, life);
        placed added = {offset, offset + life->bytes, life->first, life->last};
        insert_into_windows(&w, life, &added);
        all.list[all.count++] = added;
        all.added++;
        offsets[order[k]] = offset;
        *arena = CRN_MAX(*arena, added.to);
    }
    return CAIRN_OK;
}
