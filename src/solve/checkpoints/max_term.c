/* max_term.c: the outer loop of the checkpoint searches (algorithms 1 and 6 of Feng and Huang).
 *
 * The paper solves for every possible cost of a segment as the limit C. Here f(C) is the least sum
 * of checkpoints under the limit C; it is a falling staircase:
 *
 *     f |====                       One solve gives a whole step [least, beyond). Of a gap between
 *       |    .  gap                 two known steps it is known that f there is not below the right
 *       |    ........======         step, so f + C is at least (sum of the right step) + (left end
 *       |                 . gap     of the gap). Gaps that cannot beat the best are dropped, the
 *       |                 ....==    most promising is solved in its middle and becomes two.
 *       +---------------------- C
 *
 * So all limits from 0 to the cost of the root are covered without a list of them. In the worst
 * case there is one solve per step of the staircase; on real networks there are a few dozen. */
#include "solve/checkpoints/max_term.h"

typedef struct gap {
    uint64_t from, to; /* limits not yet covered, both ends included */
    uint64_t bound;    /* no limit in the gap gives less */
} gap;

typedef CRN_ARRAY(gap) gap_array;

typedef struct search {
    crn_arena *arena;
    gap_array heap; /* smallest bound first */
    uint64_t best_value, best_limit;
} search;

static bool before(const gap *a, const gap *b) {
    return a->bound != b->bound ? a->bound < b->bound : a->from < b->from;
}

static cairn_status push_gap(search *s, uint64_t from, uint64_t end, uint64_t right_sum) {
    gap added = {from, end - 1, right_sum + from};
    if (from >= end || added.bound >= s->best_value)
        return CAIRN_OK;
    CRN_PUSH(s->arena, s->heap, added);
    uint32_t at = s->heap.length - 1;
    for (; at > 0 && before(&added, &s->heap.data[(at - 1) / 2]); at = (at - 1) / 2)
        s->heap.data[at] = s->heap.data[(at - 1) / 2];
    s->heap.data[at] = added;
    return CAIRN_OK;
}

static gap pop_gap(search *s) {
    gap top = s->heap.data[0], moved = s->heap.data[--s->heap.length];
    uint32_t at = 0, child, length = s->heap.length;
    for (; (child = 2 * at + 1) < length; at = child) {
        if (child + 1 < length && before(&s->heap.data[child + 1], &s->heap.data[child]))
            child++;
        if (!before(&s->heap.data[child], &moved))
            break;
        s->heap.data[at] = s->heap.data[child];
    }
    s->heap.data[at] = moved;
    return top;
}

static void consider(search *s, const crn_max_term *step) {
    uint64_t value = step->sum + step->least;
    if (value < s->best_value || (value == s->best_value && step->least < s->best_limit)) {
        s->best_value = value;
        s->best_limit = step->least;
    }
}

cairn_status crn_max_term_search(crn_arena *arena, crn_max_term_solve *solve, void *context,
                                 uint64_t largest, uint64_t most, uint64_t *best) {
    search s = {.arena = arena, .best_value = UINT64_MAX};
    crn_max_term left = solve(context, 0), right = solve(context, largest);
    consider(&s, &left);
    consider(&s, &right);
    CRN_TRY(push_gap(&s, left.beyond, right.least, right.sum));
    for (uint64_t solved = 2; s.heap.length > 0 && (most == 0 || solved < most); solved++) {
        gap g = pop_gap(&s);
        if (g.bound >= s.best_value)
            break;
        crn_max_term middle = solve(context, g.from + (g.to - g.from) / 2);
        consider(&s, &middle);
        CRN_TRY(push_gap(&s, g.from, middle.least, middle.sum));
        CRN_TRY(push_gap(&s, middle.beyond, g.to + 1, g.bound - g.from));
    }
    *best = s.best_limit;
    return CAIRN_OK;
}
