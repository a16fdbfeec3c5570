/* closure.c: what is needed to recompute a value in a later slot.
 *
 * Its producer runs there. Each input that is dead by then is either *kept* until then, which costs
 * its bytes times the loads of the slots in between, at the current rate; or it is recomputed there
 * too. The search is depth first and visits each value once.
 *
 *     a   b = f(a)   c = g(b)   ...   reads c
 *                                     ^ g again; b: keep it over "...", or f again; a: ...
 */
#include "solve/auto/auto_search.h"

enum { KEEP, AGAIN, COLLECTED };

__extension__ typedef unsigned __int128 wide;

/* The price of relief as time, at the current rate. */
static int64_t price_of(const crn_search *s, uint64_t relief) {
    uint64_t price = (uint64_t)(((wide)relief * s->rate) >> 64);
    return price > (uint64_t)INT64_MAX / 4 ? INT64_MAX / 4 : (int64_t)price;
}

/* Whether the value is there for the run (slot, reader); if not, `previous` is its last event. */
static bool is_there(const crn_matrix *m, uint32_t value, crn_event_key key,
                     crn_event_key *previous) {
    const crn_event_list *list = &m->events[value];
    uint32_t at = crn_event_find(list, key);
    *previous = at > 0 ? list->data[at - 1] : 0;
    if (at == list->length)
        return false;
    return crn_key_same(list->data[at], key) || (at > 0 && !crn_key_makes(list->data[at]));
}

/* The relief that is lost by keeping the value from `previous` to `slot`. */
static uint64_t keeping(const crn_search *s, uint32_t value, crn_event_key previous,
                        uint32_t slot) {
    return crn_units(s, s->flat->room[value]) *
           crn_loads_between(s, crn_key_slot(previous) + 1, slot);
}

static int64_t price(crn_search *s, uint32_t value, uint32_t slot, uint32_t reader, int mode) {
    const crn_flat *f = s->flat;
    crn_event_key previous;
    if (s->stamps[value] == s->stamp ||
        is_there(s->matrix, value, crn_key(slot, reader), &previous))
        return 0;
    s->stamps[value] = s->stamp;
    s->choices[value] = KEEP;
    s->visited++;
    s->work++;
    int64_t keep = price_of(s, keeping(s, value, previous, slot));
    uint32_t producer = f->producer[value];
    if (producer == CRN_NO_OP || f->fixed[producer] || s->pinned[value] ||
        s->visited > s->closure_limit || (mode == CRN_CLOSURE_CHEAPEST && keep == 0))
        return keep;
    int64_t again = crn_rerun_time(s->matrix, producer);
    for (uint32_t k = f->first_input[producer]; k < f->first_input[producer + 1]; k++) {
        if (mode == CRN_CLOSURE_CHEAPEST && again >= keep)
            return keep;
        again = crn_add_time(again, price(s, f->inputs[k], slot, producer, mode));
    }
    if (mode == CRN_CLOSURE_CHEAPEST && again >= keep)
        return keep;
    s->choices[value] = AGAIN;
    return again;
}

/* Take `op` into the closure; false if it is there. */
static bool add_op(crn_search *s, uint32_t op) {
    if (s->op_stamps[op] == s->stamp)
        return false;
    s->op_stamps[op] = s->stamp;
    s->closure.ops[s->closure.length++] = op;
    s->closure.time += crn_rerun_time(s->matrix, op);
    return true;
}

static void collect_inputs(crn_search *s, uint32_t op, uint32_t slot);

static void collect(crn_search *s, uint32_t value, uint32_t slot, uint32_t reader) {
    crn_event_key previous;
    if (s->stamps[value] != s->stamp || s->choices[value] == COLLECTED ||
        is_there(s->matrix, value, crn_key(slot, reader), &previous))
        return;
    bool again = s->choices[value] == AGAIN;
    s->choices[value] = COLLECTED;
    if (!again) {
        s->closure.relief -= (int64_t)keeping(s, value, previous, slot);
        return;
    }
    uint32_t producer = s->flat->producer[value];
    if (add_op(s, producer))
        collect_inputs(s, producer, slot);
}

static void collect_inputs(crn_search *s, uint32_t op, uint32_t slot) {
    for (uint32_t k = s->flat->first_input[op]; k < s->flat->first_input[op + 1]; k++)
        collect(s, s->flat->inputs[k], slot, op);
}

uint32_t crn_closure_next(const crn_matrix *m, uint32_t slot, uint32_t op) {
    const crn_flat *f = m->flat;
    if (f->first_output[op] == f->first_output[op + 1])
        return 0;
    const crn_event_list *list = &m->events[f->outputs[f->first_output[op]]];
    uint32_t at = crn_event_find(list, crn_key(slot, op) + 2);
    while (at < list->length && !crn_key_makes(list->data[at]))
        at++;
    if (at == list->length || crn_key_op(list->data[at]) != op)
        return 0;
    return crn_key_slot(list->data[at]);
}

/* If the value can be kept until a later recomputation of the same op, that one is saved. */
static void count_merges(crn_search *s, uint32_t slot) {
    const crn_flat *f = s->flat;
    for (uint32_t i = 0; i < s->closure.length; i++) {
        uint32_t op = s->closure.ops[i];
        uint32_t next = crn_closure_next(s->matrix, slot, op);
        if (next <= slot)
            continue;
        uint64_t units = 0;
        for (uint32_t k = f->first_output[op]; k < f->first_output[op + 1]; k++)
            units += crn_units(s, f->room[f->outputs[k]]);
        uint64_t bridge = units * crn_loads_between(s, slot, next);
        int64_t time = crn_rerun_time(s->matrix, op);
        if (price_of(s, bridge) >= time)
            continue;
        s->closure.time -= time;
        s->closure.relief -= (int64_t)bridge;
    }
}

void crn_closure_find(crn_search *s, uint32_t value, uint32_t slot, int mode) {
    const crn_flat *f = s->flat;
    uint32_t producer = f->producer[value];
    s->stamp++;
    s->visited = 0;
    s->stamps[value] = s->stamp;
    s->choices[value] = COLLECTED;
    s->closure.length = 0;
    s->closure.time = s->closure.relief = 0;
    add_op(s, producer);
    for (uint32_t k = f->first_input[producer]; k < f->first_input[producer + 1]; k++)
        price(s, f->inputs[k], slot, producer, mode);
    collect_inputs(s, producer, slot);
    if (s->merge)
        count_merges(s, slot);
}
