/* long_first.c: see long_first.h.
 *
 *     placed before   |------------------|        at least as long, so live at
 *     now                        |-----------|    the first or the last step of the other
 *
 * A tree over the steps keeps what is live at a step: a lifetime hangs on the few nodes that make
 * up its steps, and those live at a step hang on the path from its leaf to the root. */
#include "layout/long_first.h"

#include <stdlib.h>

/* One of the places where a lifetime hangs. */
typedef struct hook {
    uint32_t lifetime, next; /* next on the node; 0: none */
} hook;

typedef struct tree {
    uint32_t leaves; /* a power of two */
    uint32_t *nodes; /* first hook; 0: none */
    hook *hooks;     /* from 1 */
    uint32_t capacity, used;
} tree;

typedef struct span {
    uint64_t from, to;
} span;

static uint32_t last_step(const cairn_lifetime *life, uint32_t leaves) {
    return CRN_MIN(life->last, leaves - 1);
}

static cairn_status grow_tree(tree *t, crn_arena *scratch, const cairn_lifetime *lifetimes,
                              uint32_t count) {
    uint32_t steps = 1, levels = 1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t last = lifetimes[i].last == UINT32_MAX ? lifetimes[i].first : lifetimes[i].last;
        steps = CRN_MAX(steps, last + 1);
    }
    for (t->leaves = 1; t->leaves < steps; t->leaves *= 2)
        levels++;
    t->capacity = count * 2 * levels + 1;
    t->used = 1;
    CRN_TAKE(scratch, t->nodes, 2 * (size_t)t->leaves);
    CRN_TAKE(scratch, t->hooks, t->capacity);
    return CAIRN_OK;
}

static void hang_on(tree *t, uint32_t node, uint32_t lifetime) {
    t->hooks[t->used] = (hook){lifetime, t->nodes[node]};
    t->nodes[node] = t->used++;
}

static void hang(tree *t, const cairn_lifetime *lifetimes, uint32_t i) {
    uint32_t low = lifetimes[i].first + t->leaves;
    uint32_t high = last_step(&lifetimes[i], t->leaves) + t->leaves + 1;
    for (; low < high; low /= 2, high /= 2) {
        if (low % 2 == 1)
            hang_on(t, low++, i);
        if (high % 2 == 1)
            hang_on(t, --high, i);
    }
}

static int compare_spans(const void *a, const void *b) {
    const span *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* Those placed that are live at `step` and begin after `after` (-1: whenever). */
static uint32_t collect(const tree *t, const cairn_lifetime *lifetimes, const uint64_t *offsets,
                        uint32_t step, int64_t after, span *out) {
    uint32_t count = 0;
    for (uint32_t node = step + t->leaves; node > 0; node /= 2)
        for (uint32_t h = t->nodes[node]; h > 0; h = t->hooks[h].next) {
            uint32_t i = t->hooks[h].lifetime;
            if ((int64_t)lifetimes[i].first > after)
                out[count++] = (span){offsets[i], offsets[i] + lifetimes[i].bytes};
        }
    return count;
}

static uint64_t lowest_gap(const span *taken, uint32_t count, uint64_t bytes) {
    uint64_t offset = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (taken[i].from >= offset && taken[i].from - offset >= bytes)
            break;
        offset = CRN_MAX(offset, taken[i].to);
    }
    return offset;
}

cairn_status crn_place_long_first(crn_arena *scratch, const cairn_lifetime *lifetimes,
                                  const uint32_t *order, uint32_t count, uint64_t *offsets,
                                  uint64_t *arena) {
    tree t;
    span *taken;
    CRN_TRY(grow_tree(&t, scratch, lifetimes, count));
    CRN_TAKE(scratch, taken, count);
    *arena = 0;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t i = order[k];
        const cairn_lifetime *life = &lifetimes[i];
        uint32_t rivals = collect(&t, lifetimes, offsets, life->first, -1, taken);
        rivals +=
            collect(&t, lifetimes, offsets, last_step(life, t.leaves), life->first, taken + rivals);
        qsort(taken, rivals, sizeof *taken, compare_spans);
        offsets[i] = lowest_gap(taken, rivals, life->bytes);
        *arena = CRN_MAX(*arena, offsets[i] + life->bytes);
        hang(&t, lifetimes, i);
    }
    return CAIRN_OK;
}
