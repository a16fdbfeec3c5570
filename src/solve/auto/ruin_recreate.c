/* ruin_recreate.c: removes some of a good set, repairs, thins, and keeps what is better.
 *
 * A set is ruined by one of six changes. They remove some random recomputations; all in a few
 * neighbouring slots; all of a few neighbouring ops; one with those that it reads; one alone; or
 * they move one to another slot. A result that is a little worse is accepted too, with a tolerance
 * that falls; the best set is saved. The work is counted, not timed, so the same input gives the
 * same plan everywhere. */
#include "solve/auto/auto_search.h"

#define REPAIR_STEPS 40u
#define FEW_CLOSURES 48u /* candidates considered while improving */
#define RETURN_AFTER 1024u

uint64_t crn_search_work(const crn_search *s) {
    return s->work + 6 * s->matrix->flips + s->matrix->scans / 2;
}

static uint32_t draw(crn_search *s, uint32_t bound) {
    return (uint32_t)crn_rng_below(&s->rng, bound);
}

/* ---- Ruins ---- */

static bool is_real(const crn_search *s, crn_rerun r) {
    return r.op < s->flat->op_count;
}

static crn_rerun any(crn_search *s) {
    return s->matrix->all.data[draw(s, s->matrix->all.length)];
}

static void take_out(crn_search *s, crn_rerun r) {
    if (is_real(s, r) && crn_matrix_has(s->matrix, r.slot, r.op))
        crn_matrix_take_out(s->matrix, r.slot, r.op);
}

static void ruin_some(crn_search *s, uint32_t count) {
    for (uint32_t k = 0; k < count && s->matrix->all.length > 0; k++)
        take_out(s, any(s));
}

static void ruin_slots(crn_search *s, uint32_t first, uint32_t count) {
    crn_matrix *m = s->matrix;
    for (uint32_t slot = first; slot < first + count && slot < m->slot_count; slot++)
        for (uint32_t k = m->slots[slot].length; k-- > 0 && !m->failed;)
            if (k < m->slots[slot].length)
                take_out(s, (crn_rerun){slot, m->slots[slot].data[k]});
}

static void ruin_ops(crn_search *s, uint32_t first, uint32_t count) {
    crn_matrix *m = s->matrix;
    for (uint32_t k = m->all.length; k-- > 0 && !m->failed;)
        if (k < m->all.length && m->all.data[k].op - first < count)
            take_out(s, m->all.data[k]);
    s->work += m->all.length / 8;
}

static void ruin_with_inputs(crn_search *s, crn_rerun r) {
    const crn_flat *f = s->flat;
    take_out(s, r);
    for (uint32_t k = f->first_input[r.op]; k < f->first_input[r.op + 1]; k++) {
        uint32_t producer = f->producer[f->inputs[k]];
        if (producer != CRN_NO_OP)
            take_out(s, (crn_rerun){r.slot, producer});
    }
}

static void move(crn_search *s, crn_rerun r) {
    const crn_flat *f = s->flat;
    take_out(s, r);
    if (f->first_output[r.op] == f->first_output[r.op + 1])
        return;
    const crn_event_list *list = &s->matrix->events[f->outputs[f->first_output[r.op]]];
    uint32_t slot = crn_key_slot(list->data[draw(s, list->length)]);
    if (slot > r.op + 1 && slot <= f->last_slot && !crn_matrix_has(s->matrix, slot, r.op))
        crn_matrix_flip(s->matrix, slot, r.op);
}

/* Change a slower implementation back to the fast one, so that memory must be saved elsewhere. */
static void quicken_one(crn_search *s) {
    uint32_t op = draw(s, s->flat->op_count);
    if (s->matrix->impl[op] > 0)
        crn_matrix_set_impl(s->matrix, op, 0);
}

static void ruin(crn_search *s, crn_rerun r) {
    uint32_t ops = s->flat->op_count;
    switch (draw(s, 6)) {
    case 0:
        ruin_some(s, 1 + draw(s, 4));
        break;
    case 1:
        ruin_slots(s, r.slot, 1 + draw(s, 1 + ops / 40));
        break;
    case 2:
        ruin_ops(s, r.op, 1 + draw(s, 1 + ops / 60));
        break;
    case 3:
        ruin_with_inputs(s, r);
        break;
    case 4:
        move(s, r);
        break;
    default:
        take_out(s, r);
        break;
    }
    quicken_one(s);
}

/* ---- Improving ---- */

/* A share of the overhead, at most a hundredth, that falls to zero as the work is used up. */
static int64_t tolerance(crn_search *s, int64_t overhead, uint64_t left, uint64_t work) {
    uint64_t share = left / (work / 1024 + 1); /* of 1024 */
    uint64_t drawn = share * share / 1024 * draw(s, 1024) / 1024;
    drawn = drawn * draw(s, 1024) / 1024;
    return overhead / 100 * (int64_t)drawn / 1024;
}

static bool recreate(crn_search *s, int64_t limit, int64_t current, crn_rerun r) {
    uint32_t noise = draw(s, 4);
    s->noise = noise * noise * 128;
    s->merge = draw(s, 2);
    s->modest = draw(s, 2);
    int64_t most = current + (current - s->flat->base_time) / 10 + crn_rerun_time(s->matrix, r.op);
    bool fits = crn_repair(s, limit, REPAIR_STEPS, most);
    if (fits)
        crn_thin_some(s, limit, 24 + (draw(s, 4) == 0 ? 100 : 0));
    return fits;
}

void crn_improve(crn_search *s, int64_t limit, uint64_t work, int64_t enough) {
    crn_matrix *m = s->matrix;
    crn_saved best = {0};
    uint64_t start = crn_search_work(s), used = 0;
    uint32_t usual = s->most_closures;
    s->most_closures = FEW_CLOSURES;
    m->journaling = true;
    m->journal.length = 0;
    crn_matrix_save(m, &best);
    int64_t current = m->time, base = s->flat->base_time;
    for (uint32_t turn = 1; m->all.length > 0 && !crn_search_ended(s) && best.time > enough;
         turn++) {
        s->work += 4;
        used = crn_search_work(s) - start;
        if (used >= work)
            break;
        crn_rerun r = any(s);
        if (!is_real(s, r))
            continue;
        ruin(s, r);
        bool fits = recreate(s, limit, current, r);
        int64_t more = tolerance(s, current - base, work - used, work);
        if (fits && m->time <= current + more) {
            current = m->time;
            m->journal.length = 0;
            if (current < best.time)
                crn_matrix_save(m, &best);
        } else
            crn_matrix_undo(m, 0);
        if (turn % RETURN_AFTER == 0 && current > best.time + (best.time - base) / 50) {
            crn_matrix_load(m, &best);
            current = m->time;
            m->journal.length = 0;
        }
    }
    if (m->time != best.time && !m->failed)
        crn_matrix_load(m, &best);
    m->journaling = false;
    m->journal.length = 0;
    s->most_closures = usual;
    s->noise = 0;
    s->modest = false;
}

void crn_descend(crn_search *s, int64_t limit, uint64_t work) {
    crn_matrix *m = s->matrix;
    uint32_t ops = s->flat->op_count;
    int64_t peak = crn_matrix_peak(m);
    uint64_t end = crn_search_work(s) + work, lowered = crn_search_work(s);
    m->journaling = true;
    m->journal.length = 0;
    while (peak > limit && !crn_search_ended(s)) {
        s->work += 4;
        if (crn_search_work(s) >= CRN_MIN(end, lowered + work / 2))
            break;
        uint32_t much = draw(s, 5);
        ruin_some(s, much);
        if (much == 4 && m->all.length > 0) { /* the order of arguments is undefined */
            uint32_t count = 1 + draw(s, 1 + ops / 30);
            ruin_ops(s, any(s).op, count);
        }
        s->merge = draw(s, 2);
        s->closure_limit = draw(s, 2) ? 40 : CRN_MOST_CLOSURE;
        s->noise = draw(s, 4) * 410;
        s->modest = draw(s, 2);
        int64_t goal = peak - peak / 256 - 64;
        if (goal < limit || draw(s, 4) == 0)
            goal = limit;
        crn_repair(s, goal, 100, INT64_MAX);
        if (crn_matrix_peak(m) < peak) {
            peak = crn_matrix_peak(m);
            lowered = crn_search_work(s);
            m->journal.length = 0;
        } else
            crn_matrix_undo(m, 0);
    }
    m->journaling = false;
    m->journal.length = 0;
    s->closure_limit = CRN_MOST_CLOSURE;
    s->noise = 0;
    s->modest = false;
}

/* ---- Creating a search ---- */

static uint32_t choose_unit(const crn_flat *f) {
    uint64_t sum = 0;
    for (uint32_t v = 0; v < f->value_count; v++)
        sum += f->room[v] >> 6;
    uint32_t unit = 6;
    while (sum >> (unit - 6) > (uint64_t)1 << 36)
        unit++;
    return unit;
}

cairn_status crn_search_create(const crn_flat *flat, crn_matrix *matrix, uint64_t seed,
                               crn_arena *arena, crn_search **out) {
    crn_search *s;
    CRN_TAKE(arena, s, 1);
    s->flat = flat;
    s->matrix = matrix;
    s->arena = arena;
    s->rng.state = seed;
    s->unit = choose_unit(flat);
    s->closure_limit = CRN_MOST_CLOSURE;
    s->most_closures = UINT32_MAX;
    s->deadline = UINT64_MAX;
    CRN_TAKE(arena, s->movable, flat->value_count);
    CRN_TAKE(arena, s->pinned, flat->value_count);
    CRN_TAKE(arena, s->loads, matrix->slot_count + 1);
    CRN_TAKE(arena, s->stamps, flat->value_count);
    CRN_TAKE(arena, s->op_stamps, flat->op_count);
    CRN_TAKE(arena, s->choices, flat->value_count);
    CRN_TAKE(arena, s->candidates, flat->value_count);
    CRN_TAKE(arena, s->closure.ops, CRN_MOST_CLOSURE + 16);
    for (uint32_t v = 0; v < flat->value_count; v++) {
        s->all_units += crn_units(s, flat->room[v]) + 1;
        if (flat->producer[v] != CRN_NO_OP && !flat->fixed[flat->producer[v]])
            s->movable[s->movable_count++] = v;
    }
    *out = s;
    return CAIRN_OK;
}
