/* anneal.c: simulated annealing over sets of recomputations, one change at a time, for small
 * graphs.
 *
 * Repair frees one value at a time and misses sets that need two steps of which the first is worse.
 * A small graph has so few pairs that random changes find most of these sets. A change is accepted
 * if the energy rises by less than a threshold, which falls to zero. The energy is the time plus
 * the price of the memory over the limit. The work is fixed. */
#include "solve/auto/auto_search.h"

#define ROUNDS 4u /* each starts with a high threshold and the best set so far */
#define HEAT 8    /* the first threshold is 1/8 of the time of all ops */
#define MOVE 64u  /* units of work for a move */

__extension__ typedef __int128 wide;

static uint32_t draw(crn_search *s, uint32_t bound) {
    return (uint32_t)crn_rng_below(&s->rng, bound);
}

/* The price of memory: all memory of the empty set costs twice the time of all ops. */
static int64_t energy(crn_search *s, int64_t limit, int64_t most) {
    crn_matrix *m = s->matrix;
    int64_t over = CRN_MAX(crn_matrix_peak(m) - limit, 0);
    wide price = (wide)over * s->flat->base_time * 2 / CRN_MAX(most, 1);
    return m->time + (int64_t)CRN_MIN(price, (wide)(INT64_MAX / 4));
}

static void flip_any(crn_search *s, uint32_t op) {
    const crn_flat *f = s->flat;
    if (!f->fixed[op] && op + 2 <= f->last_slot)
        crn_matrix_flip(s->matrix, op + 2 + draw(s, f->last_slot - op - 1), op);
}

static void change_implementation(crn_search *s, uint32_t op) {
    uint32_t impls = s->flat->first_impl[op + 1] - s->flat->first_impl[op];
    if (impls > 1)
        crn_matrix_set_impl(s->matrix, op, draw(s, impls));
}

/* A random move: add or remove one, remove one, move one, or change two. */
static void change(crn_search *s) {
    crn_matrix *m = s->matrix;
    uint32_t ops = s->flat->op_count, kind = draw(s, 6);
    change_implementation(s, draw(s, ops));
    if (m->all.length == 0 || kind < 2) {
        flip_any(s, draw(s, ops));
        return;
    }
    crn_rerun r = m->all.data[draw(s, m->all.length)];
    crn_matrix_flip(m, r.slot, r.op);
    if (kind == 3)
        flip_any(s, r.op);
    else if (kind == 4)
        flip_any(s, draw(s, ops));
}

/* Lower peaks first, down to the limit; then less time. */
static bool is_better(crn_search *s, int64_t limit, const crn_saved *best) {
    int64_t peak = CRN_MAX(crn_matrix_peak(s->matrix), limit), before = CRN_MAX(best->peak, limit);
    return peak < before || (peak == before && s->matrix->time < best->time);
}

static void cool(crn_search *s, int64_t limit, int64_t most, uint32_t moves, crn_saved *best) {
    crn_matrix *m = s->matrix;
    int64_t heat = s->flat->base_time / HEAT, now = energy(s, limit, most);
    for (uint32_t k = 0; k < moves && !crn_search_ended(s); k++) {
        int64_t threshold = heat / moves * (moves - k) / 1024 * draw(s, 1024);
        m->journal.length = 0;
        change(s);
        int64_t then = energy(s, limit, most);
        if (then > crn_add_time(now, threshold)) {
            crn_matrix_undo(m, 0);
            continue;
        }
        now = then;
        if (is_better(s, limit, best))
            crn_matrix_save(m, best);
    }
}

void crn_anneal(crn_search *s, int64_t limit, uint64_t work) {
    crn_matrix *m = s->matrix;
    crn_saved best = {0}, none = {0};
    crn_matrix_save(m, &best);
    crn_matrix_clear(m);
    crn_matrix_save(m, &none);
    for (uint32_t round = 0; round < ROUNDS && !m->failed; round++) {
        crn_matrix_load(m, round % 2 == 0 ? &best : &none);
        m->journaling = true;
        cool(s, limit, none.peak, (uint32_t)(work / MOVE / ROUNDS), &best);
        m->journaling = false;
        m->journal.length = 0;
    }
    if (m->failed)
        return;
    crn_matrix_load(m, &best);
    crn_matrix_prune_all(m);
}
