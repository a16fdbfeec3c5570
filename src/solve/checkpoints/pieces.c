/* pieces.c: the wider objective: components with any number of boundary tensors.
 *
 * Small graphs are solved exactly (pieces_small.c), and so are chains, where components are
 * independent segments. On other graphs the search starts from the answer of `feng`: independent
 * segments have the same value under this objective. The next stages can only lower it.
 *
 *     1. Stages: prefixes of two topological orders (pieces_stages.c).
 *     2. Scouting: what is kept under a limit on the components, by short annealing
 *        (pieces_anneal.c), for limits from 1/2 of feng's value downwards, each 11/12 of the last.
 *        The value jumps with the limit, as whole blocks of a network fit into a component or do
 * not, so many limits are tried.
 *     3. Rounds: longer annealing with limits close to the largest components of the best few so
 * far.
 *     4. Descent: single vertices, as long as the value itself falls.
 *
 * Annealing takes a number of steps per vertex, but all together at most a fixed number, so that
 * large graphs take only seconds too. On large graphs annealing starts from the best set so far and
 * with little heat, because there are too few steps to start from nothing. Deterministic: the work
 * is limited, not the time. */
#include "solve/checkpoints/pieces.h"
#include "solve/checkpoints/pieces_anneal.h"

enum {
    SCOUTS = 16,
    ROUNDS = 12,            /* unless `effort` says otherwise */
    LEADERS = 4,            /* rounds take these limits in turn */
    STEPS_PER_VERTEX = 300, /* in a round; scouting takes a third */
    LEAST_STEPS = 30000,    /* in a round, on a small graph */
    MOST_STEPS = 500000,    /* in a round, on a large graph */
    HOT = 64,               /* see pieces_anneal.h */
    COOL = 8
};

typedef struct search {
    const crn_acg *problem;
    crn_pieces_order order;
    crn_pieces_room room;
    crn_rng rng;
    uint8_t *all, *found;
    uint32_t *journal;
    uint8_t *best;                     /* the answer */
    crn_pieces_value value;            /* of best */
    crn_pieces_value leaders[LEADERS]; /* best sets with different largest components, best first */
    uint64_t steps;                    /* of a round */
    bool afresh;                       /* there are enough steps to start from nothing */
} search;

static uint64_t sum(crn_pieces_value value) {
    return value.kept + value.largest;
}

/* Insert a value into the leaders, which have one for each largest component. */
static void lead(search *s, crn_pieces_value value) {
    int at = LEADERS - 1;
    for (int i = 0; i < LEADERS; i++) {
        if (s->leaders[i].largest != value.largest)
            continue;
        if (sum(s->leaders[i]) <= sum(value))
            return;
        at = i;
    }
    if (sum(s->leaders[at]) <= sum(value))
        return;
    for (; at > 0 && sum(s->leaders[at - 1]) > sum(value); at--)
        s->leaders[at] = s->leaders[at - 1];
    s->leaders[at] = value;
}

static void consider(search *s, const uint8_t *set) {
    crn_pieces_value value = crn_pieces_evaluate(s->problem, set, &s->room);
    lead(s, value);
    if (sum(value) >= sum(s->value))
        return;
    s->value = value;
    memcpy(s->best, set, s->problem->dag->vertex_count);
}

static void anneal(search *s, uint64_t limit, uint64_t steps) {
    bool afresh = s->afresh || limit < s->value.largest;
    crn_pieces_order_set(&s->order, afresh ? s->all : s->best);
    crn_pieces_anneal(&s->order, limit, steps, 24 * steps, afresh ? HOT : COOL, &s->rng, s->journal,
                      s->found);
    consider(s, s->found);
}

static cairn_status try_stages(search *s, crn_arena *arena, uint64_t largest) {
    for (int depth_first = 0; depth_first < 2; depth_first++) {
        CRN_TRY(crn_pieces_stages(s->problem, arena, depth_first, largest, s->found));
        consider(s, s->found);
    }
    return CAIRN_OK;
}

static void scout(search *s, uint64_t limit) {
    for (int i = 0; i < SCOUTS; i++, limit = crn_mul_div_up(limit, 11, 12))
        anneal(s, limit, s->steps / 3);
}

static void search_rounds(search *s, uint64_t rounds) {
    static const uint64_t percent[] = {101, 98, 104};
    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t largest = s->leaders[i % LEADERS].largest;
        anneal(s, crn_mul_div_up(largest, percent[i / LEADERS % CRN_LENGTH(percent)], 100),
               s->steps);
    }
}

/* Remove single vertices from the best set while its value falls. Components only grow. */
static void descend(search *s) {
    const crn_acg *p = s->problem;
    uint32_t n = p->dag->vertex_count, since = 0;
    uint64_t largest = s->value.largest;
    crn_pieces_order_set(&s->order, s->best);
    for (uint32_t i = 1; since < n; i = i + 2 < n ? i + 1 : 1, since++) {
        uint32_t v = p->order[i];
        uint64_t cost = p->dag->costs[v],
                 limit = largest + cost; /* only a component below it is a gain */
        if (!s->order.chosen[v] || crn_pieces_order_merged(&s->order, v) >= limit ||
            !crn_pieces_order_flip(&s->order, v, UINT32_MAX, limit - 1))
            continue;
        largest = CRN_MAX(largest, crn_pieces_order_component(&s->order, v));
        since = 0;
    }
    consider(s, s->order.chosen);
}

static cairn_status prepare(const crn_acg *problem, const cairn_acg_options *options,
                            crn_arena *arena, uint8_t *chosen, search *s) {
    size_t n = problem->dag->vertex_count;
    *s = (search){.problem = problem, .rng = {options->seed}, .best = chosen};
    CRN_TAKE(arena, s->all, n);
    CRN_TAKE(arena, s->found, n);
    CRN_TAKE(arena, s->journal, n);
    memset(s->all, 1, n);
    CRN_TRY(crn_pieces_room_take(arena, problem, &s->room));
    CRN_TRY(crn_pieces_order_take(arena, problem, s->all, &s->order));
    s->value = crn_pieces_evaluate(problem, chosen, &s->room);
    for (int i = 0; i < LEADERS; i++)
        s->leaders[i] = s->value;
    uint64_t wanted = CRN_MAX(LEAST_STEPS, STEPS_PER_VERTEX * (uint64_t)n);
    s->steps = CRN_MIN(wanted, MOST_STEPS);
    s->afresh = s->steps >= wanted / 4;
    return CAIRN_OK;
}

cairn_status crn_acg_run_pieces(const crn_acg *problem, const cairn_acg_options *options,
                                crn_arena *arena, uint8_t *chosen, cairn_error *err) {
    search s;
    CRN_TRY(crn_acg_run_feng(problem, options, arena, chosen, err));
    if (problem->dag->vertex_count <= 2 || crn_acg_is_chain(problem))
        return CAIRN_OK;
    CRN_TRY(prepare(problem, options, arena, chosen, &s));
    uint64_t start = sum(s.value);
    if (problem->dag->vertex_count <= CRN_PIECES_SMALL)
        return crn_pieces_small(problem, arena, start, chosen);
    CRN_TRY(try_stages(&s, arena, start));
    scout(&s, crn_mul_div_up(start, 1, 2));
    search_rounds(&s, options->effort > 0 ? options->effort : ROUNDS);
    descend(&s);
    return CAIRN_OK;
}
