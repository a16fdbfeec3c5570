/* test_long_first.c: the fast implementations of first fit, with the longest lifetimes first and in
 * any order, give the same offsets as a simple one that compares every pair. */
#include "base/rng.h"
#include "check.h"
#include "layout/long_first.h"

#include <stdlib.h>

#define COUNT 300u

/* The lowest offset at which `life` overlaps none of the placed ones; it tries the ends of placed
 * ones from below. */
static uint64_t plain_offset(const cairn_lifetime *lifetimes, const uint32_t *order, uint32_t k,
                             const uint64_t *offsets) {
    const cairn_lifetime *life = &lifetimes[order[k]];
    uint64_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t r = 0; r < k; r++) {
            const cairn_lifetime *other = &lifetimes[order[r]];
            uint64_t from = offsets[order[r]], to = from + other->bytes;
            bool together = other->first <= life->last && life->first <= other->last;
            if (together && offset < to && from < offset + life->bytes) {
                offset = to;
                moved = true;
            }
        }
    }
    return offset;
}

static const cairn_lifetime *sorted;

static int longest_first(const void *a, const void *b) {
    const cairn_lifetime *x = &sorted[*(const uint32_t *)a], *y = &sorted[*(const uint32_t *)b];
    uint32_t i = x->last - x->first, j = y->last - y->first;
    return i != j ? (i > j ? -1 : 1) : (x > y) - (x < y);
}

static void draw_lifetimes(crn_rng *rng, uint32_t steps, cairn_lifetime *lifetimes) {
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t first = (uint32_t)crn_rng_below(rng, steps);
        uint32_t length = (uint32_t)crn_rng_below(rng, 1 + crn_rng_below(rng, steps - first));
        if (crn_rng_below(rng, 2) == 0)
            length /= 32;
        lifetimes[i] = (cairn_lifetime){.first = first, .last = first + length};
        lifetimes[i].bytes = 64 * (1 + crn_rng_below(rng, 20));
        if (crn_rng_below(rng, 20) == 0)
            lifetimes[i].last = UINT32_MAX;
    }
}

/* Offsets by the simple way; returns the size of the arena. */
static uint64_t place_plainly(const cairn_lifetime *lifetimes, const uint32_t *order,
                              uint64_t *offsets) {
    uint64_t most = 0;
    for (uint32_t k = 0; k < COUNT; k++) {
        uint32_t i = order[k];
        offsets[i] = plain_offset(lifetimes, order, k, offsets);
        most = CRN_MAX(most, offsets[i] + lifetimes[i].bytes);
    }
    return most;
}

static void check_offsets(const uint64_t *found, const uint64_t *plain) {
    for (uint32_t i = 0; i < COUNT; i++)
        CHECK_U64(found[i], plain[i]);
}

static void test_long_first(crn_arena *scratch, const cairn_lifetime *lifetimes, uint32_t *order) {
    uint64_t quick[COUNT], windows[COUNT], plain[COUNT], arena, window_arena;
    sorted = lifetimes;
    qsort(order, COUNT, sizeof *order, longest_first);
    uint64_t most = place_plainly(lifetimes, order, plain);
    CHECK(crn_place_long_first(scratch, lifetimes, order, COUNT, quick, &arena) == CAIRN_OK);
    CHECK(crn_place_in_windows(scratch, lifetimes, order, COUNT, UINT64_MAX, windows,
                               &window_arena) == CAIRN_OK);
    check_offsets(quick, plain);
    check_offsets(windows, plain);
    CHECK_U64(arena, most);
    CHECK_U64(window_arena, most);
}

/* The size of the arena is a limit that it may have, and one byte less is too little. */
static void test_any_order(crn_arena *scratch, crn_rng *rng, const cairn_lifetime *lifetimes,
                           uint32_t *order) {
    uint64_t found[COUNT], plain[COUNT], arena;
    for (uint32_t i = COUNT; i > 1; i--) {
        uint32_t other = (uint32_t)crn_rng_below(rng, i), swapped = order[i - 1];
        order[i - 1] = order[other];
        order[other] = swapped;
    }
    uint64_t most = place_plainly(lifetimes, order, plain);
    CHECK(crn_place_in_windows(scratch, lifetimes, order, COUNT, most, found, &arena) == CAIRN_OK);
    check_offsets(found, plain);
    CHECK_U64(arena, most);
    CHECK(crn_place_in_windows(scratch, lifetimes, order, COUNT, most - 1, found, &arena) ==
          CAIRN_OK);
    CHECK(arena > most - 1);
}

static void test_random(crn_rng *rng, uint32_t steps) {
    cairn_lifetime lifetimes[COUNT];
    uint32_t order[COUNT];
    crn_arena scratch;
    draw_lifetimes(rng, steps, lifetimes);
    for (uint32_t i = 0; i < COUNT; i++)
        order[i] = i;
    crn_arena_init(&scratch, NULL);
    test_long_first(&scratch, lifetimes, order);
    test_any_order(&scratch, rng, lifetimes, order);
    crn_arena_release(&scratch);
}

int main(void) {
    crn_rng rng = {0};
    for (uint32_t i = 0; i < 200; i++)
        test_random(&rng, 1 + (uint32_t)crn_rng_below(&rng, 1000));
    return check_result();
}
