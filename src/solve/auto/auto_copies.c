/* auto_copies.c: chooses copies that make no op wait, and repairs around them. */
#include "cost/crn_cost.h"
#include "solve/auto/auto_copies.h"

#ifndef CRN_LEAST_COPY        /* tests of small graphs define less */
#define CRN_LEAST_COPY 65536u /* bytes; smaller values are not copied */
#endif

static bool is_candidate(const crn_copies *c, uint32_t value) {
    const crn_flat *f = c->search->flat;
    if (f->aliased[value] || f->bytes[value] < CRN_LEAST_COPY || f->stays[value] != c->of_results)
        return false;
    uint32_t end = f->first_reader[value + 1];
    return c->of_results
               ? cairn_graph_op(f->graph, f->producer[value])->phase == CAIRN_PHASE_BACKWARD
               : end > f->first_reader[value] && f->readers[end - 1] + 1 > c->moment;
}

static cairn_status create(crn_search *search, const cairn_machine *machine, uint32_t moment,
                           bool of_results, crn_arena *arena, crn_copies **out) {
    const crn_flat *f = search->flat;
    crn_copies *c;
    CRN_TAKE(arena, c, 1);
    c->search = search;
    c->machine = machine;
    c->moment = moment;
    c->of_results = of_results;
    CRN_TAKE(arena, c->candidates, f->value_count);
    CRN_TAKE(arena, c->chosen, f->value_count);
    CRN_TAKE(arena, c->start, search->matrix->slot_count);
    CRN_TAKE(arena, c->end, search->matrix->slot_count);
    CRN_TAKE(arena, c->wanted, f->value_count);
    for (uint32_t o = 0; o + 1 < moment; o++)
        for (uint32_t k = f->first_output[o]; k < f->first_output[o + 1]; k++)
            if (is_candidate(c, f->outputs[k]))
                c->candidates[c->candidate_count++] = f->outputs[k];
    *out = c;
    return CAIRN_OK;
}

cairn_status crn_copies_create(crn_search *search, const cairn_machine *machine, uint32_t moment,
                               crn_arena *arena, crn_copies **out) {
    return create(search, machine, moment, false, arena, out);
}

cairn_status crn_copies_create_for_results(crn_search *search, const cairn_machine *machine,
                                           crn_arena *arena, crn_copies **out) {
    return create(search, machine, search->flat->op_count, true, arena, out);
}

/* ---- Lanes ---- */

static void find_times(crn_copies *c) {
    const crn_matrix *m = c->search->matrix;
    int64_t now = 0;
    for (uint32_t slot = 0; slot < m->slot_count; slot++) {
        c->start[slot] = now;
        for (uint32_t k = 0; k < m->slots[slot].length; k++)
            if (m->slots[slot].data[k] < m->flat->op_count)
                now += crn_rerun_time(m, m->slots[slot].data[k]);
        if (slot > 0 && slot <= m->flat->op_count)
            now += crn_impl_of(m, slot - 1)->time;
        c->end[slot] = now;
    }
}

/* The first slot that ends at `time` or later, and the last that ends by then. */
static uint32_t first_ending(const crn_copies *c, int64_t time) {
    uint32_t low = 0, high = c->search->matrix->slot_count - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (c->end[middle] >= time)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static uint32_t last_ending(const crn_copies *c, int64_t time) {
    uint32_t slot = first_ending(c, time + 1);
    return slot > 0 ? slot - 1 : 0;
}

/* Whether all chosen copies in can start after the moment if `copy` is inserted at place `at`.
 * Their starts are computed from the last one backwards. */
static bool fits_in(crn_copies *c, uint32_t at, const crn_copy *copy, int64_t out_end) {
    int64_t lane = INT64_MAX;
    for (uint32_t k = 0; k <= c->count; k++) {
        const crn_copy *one = k == at ? copy : &c->chosen[k - (k > at)];
        lane = CRN_MIN(lane, c->start[one->next]) - one->ns;
        uint32_t back = last_ending(c, lane);
        if (lane < 0 || back < c->moment || back <= one->gone ||
            (!c->machine->full_duplex && lane < out_end))
            return false;
    }
    return true;
}

/* Set the slots in which values take memory again. */
static void set_backs(crn_copies *c) {
    int64_t lane = INT64_MAX;
    for (uint32_t k = 0; k < c->count; k++) {
        lane = CRN_MIN(lane, c->start[c->chosen[k].next]) - c->chosen[k].ns;
        c->chosen[k].back = c->of_results ? c->moment : last_ending(c, lane);
    }
}

/* Find where the value is made, last read before the moment, and first read after it; false if it
 * is recomputed before that, or not read. */
static bool find_reads(const crn_copies *c, uint32_t value, crn_copy *out) {
    const crn_event_list *list = &c->search->matrix->events[value];
    uint32_t at = crn_event_find(list, crn_key(c->moment, 0));
    if (at == 0 || at == list->length || crn_key_makes(list->data[at]))
        return false;
    for (uint32_t k = 1; k < at; k++)
        if (crn_key_makes(list->data[k]))
            return false;
    out->last = crn_key_slot(list->data[at - 1]);
    out->next = crn_key_slot(list->data[at]);
    return out->next > c->moment;
}

static bool try_copy(crn_copies *c, uint32_t value) {
    const crn_flat *f = c->search->flat;
    crn_copy copy = {.value = value};
    if (!find_reads(c, value, &copy))
        return false;
    copy.ns = crn_machine_copy_ns(c->machine, cairn_costs_bytes(f->costs)[f->root[value]]) >>
              f->time_shift;
    int64_t out_end = CRN_MAX(c->out_end, c->end[f->producer[value] + 1]) + copy.ns;
    copy.gone = CRN_MAX(first_ending(c, out_end), copy.last);
    if (copy.gone >= c->moment)
        return false;
    uint32_t at = 0; /* the copy that is read last comes first */
    while (at < c->count && c->chosen[at].next >= copy.next)
        at++;
    if (!c->of_results && !fits_in(c, at, &copy, out_end))
        return false;
    memmove(&c->chosen[at + 1], &c->chosen[at], (c->count - at) * sizeof *c->chosen);
    c->chosen[at] = copy;
    c->count++;
    c->out_end = out_end;
    return true;
}

uint64_t crn_copies_choose(crn_copies *c, const bool *wanted, uint64_t most) {
    const crn_flat *f = c->search->flat;
    uint64_t moved = 0;
    find_times(c);
    c->count = 0;
    c->out_end = 0;
    for (uint32_t k = 0; k < c->candidate_count; k++) {
        uint32_t v = c->candidates[k];
        if (wanted[v] && moved + f->bytes[v] <= most && try_copy(c, v))
            moved += f->bytes[v];
        c->search->work += 1 + c->count / 8;
    }
    set_backs(c);
    return moved;
}

/* ---- In the matrix ---- */

static void flip_copy(crn_copies *c, const crn_copy *copy, bool place) {
    crn_matrix *m = c->search->matrix;
    uint32_t copied = crn_flat_copied(m->flat, copy->value);
    uint32_t fetch = crn_flat_fetch(m->flat, copy->value);
    if (crn_matrix_has(m, copy->gone, copied) != place)
        crn_matrix_flip(m, copy->gone, copied);
    if (crn_matrix_has(m, copy->back, fetch) != place)
        crn_matrix_flip(m, copy->back, fetch);
    c->search->pinned[copy->value] = place;
}

void crn_copies_place(crn_copies *c) {
    for (uint32_t k = 0; k < c->count; k++)
        flip_copy(c, &c->chosen[k], true);
}

void crn_copies_remove(crn_copies *c) {
    for (uint32_t k = 0; k < c->count; k++)
        flip_copy(c, &c->chosen[k], false);
}

void crn_copies_forget(crn_copies *c) {
    c->count = 0;
    memset(c->search->pinned, 0, c->search->flat->value_count * sizeof *c->search->pinned);
}

void crn_copies_settle(crn_copies *c) {
    memset(c->wanted, 0, c->search->flat->value_count * sizeof *c->wanted);
    for (uint32_t k = 0; k < c->count; k++)
        c->wanted[c->chosen[k].value] = true;
    crn_copies_remove(c);
    crn_copies_choose(c, c->wanted, UINT64_MAX);
    crn_copies_place(c);
}

/* The largest copied value that is alive at the peak and not read there. */
static uint32_t largest_at(const crn_copies *c, crn_event_key peak) {
    const crn_matrix *m = c->search->matrix;
    uint32_t best = c->count;
    for (uint32_t k = 0; k < c->count; k++) {
        const crn_event_list *list = &m->events[c->chosen[k].value];
        uint32_t at = crn_event_find(list, peak);
        if (at == 0 || at == list->length || crn_key_makes(list->data[at]) ||
            (crn_key_same(list->data[at], peak) && crn_key_op(peak) < m->flat->op_count))
            continue;
        if (best == c->count ||
            m->flat->room[c->chosen[k].value] > m->flat->room[c->chosen[best].value])
            best = k;
    }
    return best;
}

bool crn_copies_repair(crn_copies *c, int64_t limit) {
    crn_search *s = c->search;
    crn_matrix *m = s->matrix;
    while (!m->failed) {
        for (int merge = 0; merge < 2; merge++) {
            s->rate = 0;
            s->merge = merge;
            if (crn_repair(s, limit, 2 * s->flat->op_count, INT64_MAX))
                return true;
        }
        crn_event_key peak = crn_matrix_peak_run(m, crn_matrix_peak_slot(m));
        uint32_t k = largest_at(c, peak);
        if (k == c->count)
            return false;
        flip_copy(c, &c->chosen[k], false);
        memmove(&c->chosen[k], &c->chosen[k + 1], (c->count - k - 1) * sizeof *c->chosen);
        c->count--;
    }
    return false;
}
