/* random.c: the random baseline of Feng and Huang's table 2: sets of 1 to 5 random vertices are
 * drawn until ten of them are valid, and the best of these is taken. The paper gives up after 100
 * draws without a valid set. Cairn gives up after 1,000 and then keeps only source and target,
 * which is always valid. The draws depend on the seed only. O(n + m) for one draw. */
#include "solve/checkpoints/acg_internal.h"
#include "base/rng.h"

enum { MOST_CHOSEN = 5, WANTED = 10, MOST_DRAWS = 1000 };

static void draw(const crn_acg *p, crn_rng *rng, uint8_t *set) {
    uint32_t n = p->dag->vertex_count;
    memset(set, 0, n);
    set[p->dag->source] = set[p->dag->target] = 1;
    uint64_t count = 1 + crn_rng_below(rng, MOST_CHOSEN);
    for (uint64_t i = 0; i < count && n > 2; i++)
        set[p->order[1 + crn_rng_below(rng, n - 2)]] = 1;
}

cairn_status crn_acg_run_random(const crn_acg *problem, const cairn_acg_options *options,
                                crn_arena *arena, uint8_t *chosen, cairn_error *err) {
    (void)err;
    uint32_t n = problem->dag->vertex_count, *scratch, culprit;
    uint8_t *set;
    CRN_TAKE(arena, set, n);
    CRN_TAKE(arena, scratch, 2 * (size_t)n);
    crn_rng rng = {options->seed};
    uint64_t best = UINT64_MAX, value;
    for (int draws = 0, valid = 0; draws < MOST_DRAWS && valid < WANTED; draws++) {
        draw(problem, &rng, set);
        if (!crn_acg_segments_value(problem, set, scratch, &value, &culprit))
            continue;
        valid++;
        if (value >= best)
            continue;
        best = value;
        memcpy(chosen, set, n);
    }
    return CAIRN_OK;
}
