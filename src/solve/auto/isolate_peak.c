/* isolate_peak.c: lowers memory where it is close to the peak but need not be.
 *
 *     peak    |    #              A few slots cannot be lower than the peak. Where many others
 *     limit   |..#.#.#.##...      are close to it, hardly any layout has an arena of that size.
 *             |  # ### ##         So all others are lowered to the limit, if repair can do that.
 *
 * Repair always works on the highest slot. When it fails there, the slot gets an allowance: it may
 * keep the memory of the peak, and repair continues with the next one. */
#include "solve/auto/auto_search.h"

typedef struct check {
    const crn_matrix *matrix;
    int64_t peak;
    bool higher;
} check;

static void check_slot(void *context, uint32_t slot, int64_t memory) {
    check *c = context;
    c->higher = c->higher || memory + c->matrix->allowance[slot] > c->peak;
}

/* Whether a slot has more memory than the peak. Slots with an allowance have more only if they
 * exceed the limit too. */
static bool is_higher(crn_matrix *m, int64_t limit, int64_t peak) {
    check c = {m, peak, false};
    crn_matrix_over(m, limit, check_slot, &c);
    return c.higher;
}

void crn_isolate_peak(crn_search *s, int64_t peak, int64_t limit, uint64_t work) {
    crn_matrix *m = s->matrix;
    bool stuck = false;
    s->rate = 0;
    s->deadline = crn_search_work(s) + work;
    m->journaling = true;
    m->journal.length = 0;
    while (!m->failed && !stuck && !crn_search_late(s)) {
        uint32_t slot = crn_matrix_peak_slot(m);
        bool fits = crn_repair(s, limit, 4 * s->flat->op_count, INT64_MAX);
        if (is_higher(m, limit, peak))
            crn_matrix_undo(m, 0);
        else {
            m->journal.length = 0;
            slot = crn_matrix_peak_slot(m);
        }
        stuck = fits || m->allowance[slot] > 0;
        crn_matrix_allow(m, slot, peak - limit);
    }
    m->journaling = false;
    m->journal.length = 0;
    s->deadline = UINT64_MAX;
    crn_matrix_prune_all(m);
}

void crn_isolate_end(crn_search *s) {
    for (uint32_t slot = 0; slot < s->matrix->slot_count; slot++)
        crn_matrix_allow(s->matrix, slot, 0);
}
