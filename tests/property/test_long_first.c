/* test_long_first.c: the fast implementations of "longest lifetimes first" give the same offsets as
 * a simple one that compares every pair. */
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

static void test_random(crn_rng *rng, uint32_t steps) {
    cairn_lifetime lifetimes[COUNT];
    uint32_t order[COUNT];
    uint64_t quick[COUNT], windows[COUNT], plain[COUNT], arena, window_arena, most = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t first = (uint32_t)crn_rng_below(rng, steps);
        uint32_t length = (uint32_t)crn_rng_below(rng, 1 + crn_rng_below(rng, steps - first));
        if (crn_rng_below(rng, 2) == 0)
            length /= 32;
        lifetimes[i] = (cairn_lifetime){.first = first, .last = first + length};
        lifetimes[i].bytes = 64 * (1 + crn_rng_below(rng, 20));
        if (crn_rng_below(rng, 20) == 0)
            lifetimes[i].last = UINT32_MAX;
        order[i] = i;
    }
    sorted = lifetimes;
    qsort(order, COUNT, sizeof *order, longest_first);
    crn_arena scratch;
    crn_arena_init(&scratch, NULL);
    CHECK(crn_place_long_first(&scratch, lifetimes, order, COUNT, quick, &arena) == CAIRN_OK);
    CHECK(crn_place_in_windows(&scratch, lifetimes, order, COUNT, windows, &window_arena) ==
          CAIRN_OK);
    crn_arena_release(&scratch);
    for (uint32_t k = 0; k < COUNT; k++) {
        uint32_t i = order[k];
        plain[i] = plain_offset(lifetimes, order, k, plain);
        most = CRN_MAX(most, plain[i] + lifetimes[i].bytes);
        CHECK_U64(quick[i], plain[i]);
        CHECK_U64(windows[i], plain[i]);
    }
    CHECK_U64(arena, most);
    CHECK_U64(window_arena, most);
}

int main(void) {
    crn_rng rng = {0};
    for (uint32_t i = 0; i < 200; i++)
        test_random(&rng, 1 + (uint32_t)crn_rng_below(&rng, 1000));
    return check_result();
}
