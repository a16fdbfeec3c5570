/* repair.c: makes a set of recomputations fit into a budget, one decision at a time.
 *
 * While the peak is too high, choose among the values that are alive at the peak and read later.
 * Free the one with the least time per relief, and recompute what is needed for it just before its
 * next reader. The price of keeping an input instead follows the prices of the last decisions. An
 * op at the peak may also change to a slower implementation with less workspace. */
#include "solve/auto/auto_search.h"

__extension__ typedef unsigned __int128 wide;

/* The best decision so far. */
typedef struct decision {
    uint32_t value, slot; /* CRN_NO_VALUE: none, or a slower implementation */
    int mode;
    uint32_t op; /* the op that changes to a slower implementation, or CRN_NO_OP */
    int64_t time, relief;
} decision;

/* ---- Scores: time per relief, as fractions ---- */

static bool is_less(int64_t time, int64_t relief, int64_t than_time, int64_t than_relief) {
    return (wide)time * (wide)than_relief < (wide)than_time * (wide)relief;
}

static bool candidate_less(const crn_candidate *a, const crn_candidate *b) {
    if (is_less(a->time, a->relief, b->time, b->relief))
        return true;
    return !is_less(b->time, b->relief, a->time, a->relief) && a->value < b->value;
}

/* A heap with the best candidate at the front. Only the few that can still be best are removed from
 * it. */
static void sift_down(crn_candidate *heap, uint32_t length, uint32_t at) {
    crn_candidate moved = heap[at];
    for (uint32_t child; (child = 2 * at + 1) < length; at = child) {
        if (child + 1 < length && candidate_less(&heap[child + 1], &heap[child]))
            child++;
        if (!candidate_less(&heap[child], &moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void make_heap(crn_candidate *list, uint32_t length) {
    for (uint32_t k = length / 2; k-- > 0;)
        sift_down(list, length, k);
}

/* ---- Candidates ---- */

/* The time that is saved if nothing reads `value` after the event `made` any more: that of a
 * recomputation that made nothing else of use. */
static int64_t returned_time(const crn_matrix *m, uint32_t value, crn_event_key made) {
    const crn_flat *f = m->flat;
    uint32_t slot = crn_key_slot(made), op = crn_key_op(made);
    if (!crn_key_makes(made) || slot == 0 || slot == op + 1 || op >= f->op_count)
        return 0;
    for (uint32_t k = f->first_output[op]; k < f->first_output[op + 1]; k++) {
        const crn_event_list *list = &m->events[f->outputs[k]];
        if (f->outputs[k] != value &&
            !crn_event_dies(list, crn_event_find(list, crn_key(slot, op))))
            return 0;
    }
    return crn_rerun_time(m, op);
}

/* What the run at the peak saves if `value`, which it reads, dies there: an output, or one more,
 * can be made in place. */
static uint64_t inplace_gain(const crn_matrix *m, uint32_t value, crn_event_key peak) {
    const crn_flat *f = m->flat;
    const crn_flat_pair *used = NULL;
    uint32_t op = crn_key_op(peak);
    for (uint32_t k = f->first_pair[op]; k < f->first_pair[op + 1]; k++) {
        const crn_flat_pair *pair = &f->pairs[k];
        if (used != NULL && !crn_flat_goes_with(*pair, *used))
            continue;
        const crn_event_list *list = &m->events[pair->input];
        if (crn_event_dies(list, crn_event_find(list, peak))) {
            if (used != NULL || !pair->together)
                return 0; /* it works in place already */
            used = pair;
        } else if (pair->input == value) {
            return f->room[pair->output];
        }
    }
    return 0;
}

/* The relief of freeing a value between two of its events. */
static int64_t relief_of(const crn_search *s, uint32_t value, uint32_t from, uint32_t to,
                         crn_event_key peak, uint64_t gain) {
    uint32_t slot = crn_key_slot(peak);
    uint64_t units = CRN_MIN(crn_units(s, s->flat->room[value]), s->most_units);
    uint64_t relief = units * crn_loads_between(s, from + 1, to);
    uint64_t here = crn_loads_between(s, slot, slot + 1);
    if (gain > 0)
        relief += CRN_MIN(crn_units(s, gain), s->most_units) * here;
    else if (slot == from || slot == to)
        relief += units * here;
    return (int64_t)relief;
}

static void add_candidate(crn_search *s, uint32_t value, crn_event_key peak) {
    const crn_matrix *m = s->matrix;
    const crn_flat *f = s->flat;
    const crn_event_list *list = &m->events[value];
    uint32_t producer = f->producer[value];
    uint32_t at = crn_event_find(list, peak);
    if (at == 0 || crn_key_makes(list->data[at]))
        return;
    uint64_t gain = 0;
    if (crn_key_same(list->data[at], peak)) {
        if (crn_event_dies(list, at) || (gain = inplace_gain(m, value, peak)) == 0)
            return;
        at++;
    }
    crn_event_key before = list->data[at - 1], next = list->data[at];
    uint32_t from = crn_key_slot(before), to = crn_key_slot(next);
    if (to > f->last_slot || to <= from ||
        (to == crn_key_slot(peak) && crn_key(to, producer) <= peak))
        return;
    int64_t relief = relief_of(s, value, from, to, peak, gain);
    if (relief <= 0)
        return;
    crn_candidate c = {.value = value, .slot = to, .relief = relief};
    c.returned = returned_time(m, value, before);
    c.time = crn_rerun_time(m, producer) - c.returned;
    if (s->merge && crn_closure_next(m, to, producer) > to)
        c.time -= crn_rerun_time(m, producer);
    c.time = CRN_MAX(c.time, 1);
    if (s->noise > 0) {
        int64_t noise = 1024 + s->noise * (int64_t)crn_rng_below(&s->rng, 1024) / 1024;
        uint32_t rest = (uint32_t)(relief % noise) * 1024u / (uint32_t)noise;
        c.relief = CRN_MAX(relief / noise * 1024 + rest, 1);
    }
    s->candidates[s->candidate_count++] = c;
}

static void find_candidates(crn_search *s, crn_event_key peak) {
    const crn_matrix *m = s->matrix;
    const crn_flat *f = s->flat;
    s->candidate_count = 0;
    for (uint32_t k = 0; k < s->movable_count; k++) {
        uint32_t v = s->movable[k];
        if (m->first[v] < peak && m->last[v] > peak && !s->pinned[v])
            add_candidate(s, v, peak);
    }
    s->work += s->candidate_count + f->value_count / 16;
}

/* ---- Decisions ---- */

static void consider(crn_search *s, const crn_candidate *c, decision *best) {
    for (int mode = CRN_CLOSURE_CHEAPEST; mode <= CRN_CLOSURE_AGAIN; mode++) {
        crn_closure_find(s, c->value, c->slot, mode);
        int64_t relief = c->relief + s->closure.relief;
        int64_t time = CRN_MAX(s->closure.time - c->returned, 1);
        if (relief > 0 && (best->relief == 0 || is_less(time, relief, best->time, best->relief)))
            *best = (decision){c->value, c->slot, mode, CRN_NO_OP, time, relief};
        if (s->closure.relief == 0 && mode == CRN_CLOSURE_CHEAPEST)
            break; /* nothing was kept: the other mode gives the same */
    }
}

/* Consider a slower implementation with less workspace for the run at the peak. */
static void consider_impl(crn_search *s, crn_event_key peak, decision *best) {
    const crn_flat *f = s->flat;
    const crn_matrix *m = s->matrix;
    uint32_t op = crn_key_op(peak), slot = crn_key_slot(peak);
    if (op >= f->op_count || f->first_impl[op] + m->impl[op] + 1 >= f->first_impl[op + 1])
        return;
    const crn_flat_impl *impl = crn_impl_of(m, op);
    int64_t reruns = 0;
    if (f->first_output[op] < f->first_output[op + 1]) {
        const crn_event_list *list = &m->events[f->outputs[f->first_output[op]]];
        for (uint32_t k = 1; k < list->length; k++)
            reruns += crn_key_makes(list->data[k]) && crn_key_op(list->data[k]) == op;
    }
    int64_t time = impl[1].time - impl[0].time + reruns * (impl[1].again - impl[0].again);
    uint64_t units = crn_units(s, impl[0].workspace - impl[1].workspace);
    int64_t relief =
        (int64_t)(CRN_MIN(units, s->most_units) * crn_loads_between(s, slot, slot + 1));
    time = CRN_MAX(time, 1);
    if (relief > 0 && (best->relief == 0 || is_less(time, relief, best->time, best->relief)))
        *best = (decision){CRN_NO_VALUE, 0, 0, op, time, relief};
}

/* Move the best candidate to the front. */
static void best_first(crn_candidate *list, uint32_t count) {
    uint32_t best = 0;
    for (uint32_t k = 1; k < count; k++)
        if (candidate_less(&list[k], &list[best]))
            best = k;
    crn_candidate moved = list[best];
    list[best] = list[0];
    list[0] = moved;
}

/* Remove the candidates whose lower bound is not below the best decision; returns how many stay. */
static uint32_t drop_hopeless(crn_candidate *list, uint32_t count, const decision *best) {
    uint32_t left = 0;
    for (uint32_t k = 0; k < count; k++)
        if (best->relief == 0 || is_less(list[k].time, list[k].relief, best->time, best->relief))
            list[left++] = list[k];
    return left;
}

/* Consider candidates by rising lower bounds. The first one usually leaves few others. */
static decision decide(crn_search *s, crn_event_key peak) {
    decision best = {.value = CRN_NO_VALUE, .op = CRN_NO_OP};
    find_candidates(s, peak);
    if (s->candidate_count > 0) {
        best_first(s->candidates, s->candidate_count);
        consider(s, s->candidates, &best);
    }
    crn_candidate *heap = s->candidates + 1;
    uint32_t left = s->candidate_count > 0 ? s->candidate_count - 1 : 0;
    left = drop_hopeless(heap, left, &best);
    make_heap(heap, left);
    for (uint32_t k = 1; left > 0; k++) {
        if (k >= s->most_closures && best.relief > 0)
            break;
        if (best.relief > 0 && !is_less(heap->time, heap->relief, best.time, best.relief))
            break; /* even its lower bound is not better, and so for all others */
        consider(s, heap, &best);
        *heap = heap[--left];
        sift_down(heap, left, 0);
    }
    consider_impl(s, peak, &best);
    return best;
}

/* Remove later recomputations of the same ops if they are not needed now. */
static void merge_later(crn_search *s, const decision *d, int64_t limit) {
    crn_matrix *m = s->matrix;
    for (uint32_t k = 0; k < s->closure.length; k++) {
        uint32_t op = s->closure.ops[k];
        uint32_t next = crn_closure_next(m, d->slot, op);
        if (next <= d->slot || next == op + 1)
            continue;
        int64_t before = CRN_MAX(crn_matrix_peak(m), limit);
        crn_matrix_flip(m, next, op);
        if (crn_matrix_peak(m) > before)
            crn_matrix_flip(m, next, op);
    }
}

/* The new rate is the mean of the old one and the price of the decision. */
static void follow_rate(crn_search *s, const decision *d) {
    wide paid = ((wide)d->time << 64) / (wide)d->relief;
    uint64_t rate = paid > UINT64_MAX ? UINT64_MAX : (uint64_t)paid;
    s->rate = s->rate == 0 ? rate : s->rate / 2 + rate / 2;
}

static bool apply(crn_search *s, const decision *d, crn_event_key peak, int64_t limit) {
    crn_matrix *m = s->matrix;
    if (d->op != CRN_NO_OP) {
        crn_matrix_set_impl(m, d->op, m->impl[d->op] + 1);
        return true;
    }
    const crn_event_list *list = &m->events[d->value];
    uint32_t at = crn_event_find(list, peak);
    crn_event_key before = list->data[crn_key_same(list->data[at], peak) ? at : at - 1];
    crn_closure_find(s, d->value, d->slot, d->mode);
    follow_rate(s, d);
    bool changed = false;
    for (uint32_t k = 0; k < s->closure.length; k++)
        if (!crn_matrix_has(m, d->slot, s->closure.ops[k])) {
            crn_matrix_flip(m, d->slot, s->closure.ops[k]);
            changed = true;
        }
    if (s->merge)
        merge_later(s, d, limit);
    uint32_t slot = crn_key_slot(before), op = crn_key_op(before);
    if (crn_key_makes(before) && op < s->flat->op_count && slot > op + 1)
        crn_matrix_prune(m, slot, op);
    return changed;
}

bool crn_repair(crn_search *s, int64_t limit, uint32_t most, int64_t most_time) {
    crn_matrix *m = s->matrix;
    for (uint32_t step = 0; crn_matrix_peak(m) > limit; step++) {
        if (step == most || m->time > most_time || crn_search_ended(s) || crn_search_late(s))
            return false;
        crn_event_key peak = crn_matrix_peak_run(m, crn_matrix_peak_slot(m));
        uint64_t excess = (uint64_t)(crn_matrix_peak(m) - limit);
        s->most_units = s->modest ? crn_units(s, excess) + 1 : UINT64_MAX;
        crn_loads_weigh(s, limit);
        decision d = decide(s, peak);
        if (d.relief == 0 || !apply(s, &d, peak, limit))
            return false;
    }
    return !m->failed;
}
