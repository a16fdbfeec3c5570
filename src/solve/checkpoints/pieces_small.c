/* pieces_small.c: the optimum of the wider objective on small graphs, by branch and bound.
 *
 * The vertices are decided one after the other, expensive ones first: not kept, then kept.
 * Undecided vertices count as kept. Deciding not to keep a vertex can only join components. So
 * (cost of what is decided to be kept) + (largest component so far) is a lower bound of every
 * completion. There are at most 2^(n - 2) leaves, in practice few. */
#include "solve/checkpoints/pieces.h"
#include "solve/checkpoints/pieces_order.h"

typedef struct search {
    crn_pieces_order order;
    uint32_t count;
    uint32_t vertices[CRN_PIECES_SMALL]; /* to be decided, most expensive first */
    uint64_t best;
    uint8_t *best_set;
} search;

static void sort_by_cost(const crn_acg *p, search *s) {
    for (uint32_t i = 1; i + 1 < p->dag->vertex_count; i++) {
        uint32_t v = p->order[i], at = s->count++;
        for (; at > 0 && p->dag->costs[s->vertices[at - 1]] < p->dag->costs[v]; at--)
            s->vertices[at] = s->vertices[at - 1];
        s->vertices[at] = v;
    }
}

/* `kept` is the cost of the ends and of the vertices that are decided to be kept. */
static void decide(search *s, uint32_t at, uint64_t kept) {
    uint64_t largest = crn_pieces_order_largest(&s->order);
    if (kept + largest >= s->best)
        return;
    if (at == s->count) {
        s->best = kept + largest;
        memcpy(s->best_set, s->order.chosen, s->order.problem->dag->vertex_count);
        return;
    }
    uint32_t v = s->vertices[at];
    if (crn_pieces_order_flip(&s->order, v, UINT32_MAX, s->best - kept - 1)) {
        decide(s, at + 1, kept);
        (void)crn_pieces_order_flip(&s->order, v, UINT32_MAX, UINT64_MAX);
    }
    decide(s, at + 1, kept + s->order.problem->dag->costs[v]);
}

cairn_status crn_pieces_small(const crn_acg *problem, crn_arena *arena, uint64_t bound,
                              uint8_t *chosen) {
    const cairn_dag *dag = problem->dag;
    search s = {.best = bound, .best_set = chosen};
    uint8_t *all;
    CRN_TAKE(arena, all, dag->vertex_count);
    memset(all, 1, dag->vertex_count);
    CRN_TRY(crn_pieces_order_take(arena, problem, all, &s.order));
    sort_by_cost(problem, &s);
    uint64_t ends = dag->costs[dag->source] + dag->costs[dag->target];
    decide(&s, 0, ends);
    return CAIRN_OK;
}
