/* pieces.c: the wider objective: pieces with any number of boundary tensors.
 *
 * Small graphs are solved exactly (pieces_small.c). On others the answer of `feng` is the start,
 * since a set of independent segments has the same value here; what follows can only lower it.
 *
 * Under a limit on the cost of a piece, what is kept is made small by annealing. Which limit?
 *
 *     1. Scouting: short searches with limits from 3/4 of feng's value downwards, each 4/5 of the
 *        one before.
 *     2. Rounds: long searches with limits close to the largest piece of the best set so far.
 *     3. Descent: single vertices, as long as the value itself falls.
 *
 * A long search takes 400 steps per vertex; all together at most a fixed number of steps, so that
 * large graphs take seconds as well. They are then searched from the best set so far and with
 * little heat, for want of steps to start afresh. Deterministic: work is limited, not time. */
#include "solve/pieces.h"
#include "solve/pieces_anneal.h"

enum {
    SCOUTS = 12,
    ROUNDS = 14,            /* unless `effort` says otherwise */
    STEPS_PER_VERTEX = 400, /* of a long search */
    LEAST_STEPS = 50000,    /* of a long search on a small graph */
    MOST_STEPS = 8000000,   /* of all together, unless `effort` is raised */
    HOT = 64,
    COOL = 8 /* in 1/64 of the mean cost */
};

typedef struct search {
    const crn_acg *problem;
    crn_pieces_order order;
    crn_pieces_room room;
    crn_rng rng;
    uint8_t *all, *found;
    uint8_t *best;          /* set; the answer */
    crn_pieces_value value; /* of best */
    uint64_t steps;         /* of a long search */
    bool afresh;            /* are there enough steps to start from nothing? */
} search;

static void consider(search *s, const uint8_t *set) {
    crn_pieces_value value = crn_pieces_evaluate(s->problem, set, &s->room);
    if (value.kept + value.largest >= s->value.kept + s->value.largest)
        return;
    s->value = value;
    memcpy(s->best, set, s->problem->dag->vertex_count);
}

static void anneal(search *s, uint64_t limit, uint64_t steps) {
    bool afresh = s->afresh || limit < s->value.largest;
    crn_pieces_order_set(&s->order, afresh ? s->all : s->best);
    crn_pieces_anneal(&s->order, limit, steps, 32 * steps, afresh ? HOT : COOL, &s->rng, s->found);
    consider(s, s->found);
}

static void scout(search *s) {
    uint64_t limit = crn_mul_div_up(s->value.kept + s->value.largest, 3, 4);
    for (int i = 0; i < SCOUTS; i++) {
        anneal(s, limit, s->steps / 4);
        limit = crn_mul_div_up(limit, 4, 5);
    }
}

/* Limits around the best so far, in percent. */
static void search_rounds(search *s, uint64_t rounds) {
    static const uint64_t percent[] = {100, 106, 97, 103, 94, 110, 100};
    for (uint64_t i = 0; i < rounds; i++)
        anneal(s, crn_mul_div_up(s->value.largest, percent[i % CRN_LENGTH(percent)], 100),
               s->steps);
}

/* Flip single vertices of the best set while its value falls. */
static void descend(search *s) {
    const crn_acg *p = s->problem;
    uint32_t n = p->dag->vertex_count, since = 0;
    uint64_t best = s->value.kept + s->value.largest;
    crn_pieces_order_set(&s->order, s->best);
    for (uint32_t i = 1; since < n && s->order.work < UINT64_MAX; i = i + 2 < n ? i + 1 : 1) {
        uint32_t v = p->order[i];
        since++;
        if (!s->order.chosen[v] ||
            !crn_pieces_order_flip(&s->order, v, UINT32_MAX, best - s->order.kept))
            continue;
        uint64_t value = s->order.kept + crn_pieces_order_largest(&s->order);
        if (value < best) {
            best = value;
            since = 0;
        } else {
            (void)crn_pieces_order_flip(&s->order, v, UINT32_MAX, UINT64_MAX);
        }
    }
    consider(s, s->order.chosen);
}

static cairn_status prepare(const crn_acg *problem, const cairn_acg_options *options,
                            crn_arena *arena, uint8_t *chosen, search *s) {
    size_t n = problem->dag->vertex_count;
    *s = (search){.problem = problem, .rng = {options->seed}, .best = chosen};
    CRN_TAKE(arena, s->all, n);
    CRN_TAKE(arena, s->found, n);
    memset(s->all, 1, n);
    CRN_TRY(crn_pieces_room_take(arena, problem, &s->room));
    CRN_TRY(crn_pieces_order_take(arena, problem, s->all, &s->order));
    s->value = crn_pieces_evaluate(problem, chosen, &s->room);
    uint64_t wanted = CRN_MAX(LEAST_STEPS, STEPS_PER_VERTEX * (uint64_t)n);
    s->steps = CRN_MIN(wanted, MOST_STEPS / (ROUNDS + SCOUTS / 4));
    s->afresh = s->steps >= wanted / 4;
    return CAIRN_OK;
}

cairn_status crn_acg_run_pieces(const crn_acg *problem, const cairn_acg_options *options,
                                crn_arena *arena, uint8_t *chosen, cairn_error *err) {
    search s;
    CRN_TRY(crn_acg_run_feng(problem, options, arena, chosen, err));
    if (problem->dag->vertex_count <= 2)
        return CAIRN_OK;
    CRN_TRY(prepare(problem, options, arena, chosen, &s));
    if (problem->dag->vertex_count <= CRN_PIECES_SMALL)
        return crn_pieces_small(problem, arena, s.value.kept + s.value.largest, chosen);
    scout(&s);
    search_rounds(&s, options->effort > 0 ? options->effort : ROUNDS);
    descend(&s);
    return CAIRN_OK;
}
