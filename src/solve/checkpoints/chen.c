/* chen.c: sublinear memory by a greedy sweep (Chen, Xu, Zhang and Guestrin, 2016, algorithm 3), on
 * chains.
 *
 * With a budget b, walk along the chain and add up costs. Where the sum exceeds b, keep that vertex
 * and start a new sum. This gives x, the sum of what is kept, and y, the largest segment. As in the
 * paper, a first sweep with b = 0 gives B = sqrt(x y), the budget at which both are equal. Then
 * budgets around it are tried: from B / 2 to 2 B, in steps of B / 16 (the paper: from B / sqrt 2 to
 * sqrt 2 B). With equal costs this gives sqrt(n) segments. O(n) for one budget. */
#include "solve/checkpoints/acg_internal.h"

enum { STEPS_PER_BUDGET = 16 };

typedef struct sweep {
    uint64_t kept, largest;
} sweep;

static sweep sweep_with(const crn_acg *p, uint64_t budget, uint8_t *chosen) {
    uint64_t segment = 0;
    sweep s = {p->dag->costs[p->dag->source] + p->dag->costs[p->dag->target], 0};
    for (uint32_t i = 1; i + 1 < p->dag->vertex_count; i++) {
        uint32_t v = p->order[i];
        uint64_t cost = p->dag->costs[v];
        chosen[v] = segment + cost > budget;
        if (chosen[v]) {
            s.kept += cost;
            s.largest = CRN_MAX(s.largest, segment);
            segment = 0;
        } else {
            segment += cost;
        }
    }
    s.largest = CRN_MAX(s.largest, segment);
    return s;
}

/* The largest r with r * r <= a * b, without rounding. */
static uint64_t geometric_mean(uint64_t a, uint64_t b) {
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;
    uint64_t root = 0;
    for (int bit = 63; bit >= 0; bit--) {
        uint64_t larger = root | (uint64_t)1 << bit;
        if ((wide)larger * larger <= product)
            root = larger;
    }
    return root;
}

static uint64_t largest_cost(const crn_acg *p) {
    uint64_t largest = 0;
    for (uint32_t v = 0; v < p->dag->vertex_count; v++)
        largest = CRN_MAX(largest, p->dag->costs[v]);
    return largest;
}

cairn_status crn_acg_run_chen(const crn_acg *problem, const cairn_acg_options *options,
                              crn_arena *arena, uint8_t *chosen, cairn_error *err) {
    (void)options;
    (void)arena;
    if (!crn_acg_is_chain(problem))
        return crn_fail(err, CAIRN_EINVAL,
                        "chen solves chains only, and this graph branches; use feng");
    uint64_t middle = geometric_mean(problem->total, largest_cost(problem));
    uint64_t best_budget = 0, best = UINT64_MAX;
    for (uint64_t step = STEPS_PER_BUDGET / 2; step <= 2 * STEPS_PER_BUDGET; step++) {
        uint64_t budget = crn_mul_div_up(middle, step, STEPS_PER_BUDGET);
        sweep s = sweep_with(problem, budget, chosen);
        if (s.kept + s.largest < best) {
            best = s.kept + s.largest;
            best_budget = budget;
        }
    }
    sweep_with(problem, best_budget, chosen);
    return CAIRN_OK;
}
