/* offload_anneal.c: local search over lists, for chains that are too long for an exact search.
 *
 * A step changes the list a little and runs it:
 *
 *     shift      one transfer to another place near by
 *     swap       two neighbouring transfers
 *     drop       both transfers of an activation
 *     add        both, the offload soon after the activation is made, the fetch before it is read
 *     exchange   one activation's transfers for another's, in the same places
 *
 * Late acceptance (Burke and Bykov, 2008): a step is accepted if the schedule is no longer than it
 * was some steps ago. This has one parameter, no temperature and no real numbers. The search ends
 * when the goal (a lower bound) is reached, the work is used up, or half of the work gave no
 * improvement. Work is counted in events. The random numbers have a fixed seed, so that the answer
 * is the same everywhere. */
#include "base/rng.h"
#include "solve/offload/offload_list.h"

enum { MEMORY = 200 };

typedef struct walk {
    crn_offload_lister *lister;
    uint32_t n;
    crn_rng rng;
    crn_offload_list now, next, best;
    int64_t length, best_length;
    int64_t history[MEMORY];
    uint8_t *moved;
} walk;

/* ---- Editing lists ---- */

static uint32_t below(walk *w, uint32_t bound) {
    return (uint32_t)crn_rng_below(&w->rng, bound);
}

static uint32_t find_event(const crn_offload_list *list, crn_offload_event event) {
    uint32_t at = 0;
    while (list->events[at] != event)
        at++;
    return at;
}

static void take_out(crn_offload_list *list, uint32_t at) {
    list->length--;
    memmove(list->events + at, list->events + at + 1, (list->length - at) * sizeof *list->events);
}

static void put_in(crn_offload_list *list, uint32_t at, crn_offload_event event) {
    memmove(list->events + at + 1, list->events + at, (list->length - at) * sizeof *list->events);
    list->events[at] = event;
    list->length++;
}

/* A random transfer of the list: its place, or the length when there is none. */
static uint32_t pick_transfer(walk *w, const crn_offload_list *list) {
    if (list->length <= w->lister->ops)
        return list->length;
    uint32_t at = below(w, list->length);
    while (crn_event_kind(list->events[at]) == CRN_LIST_RUN)
        at = at + 1 < list->length ? at + 1 : 0;
    return at;
}

/* A random distance; short ones are more likely. */
static uint32_t distance(walk *w, uint32_t most) {
    uint32_t reach = 1u << below(w, 9);
    return 1 + below(w, CRN_MAX(1, CRN_MIN(reach, most)));
}

/* ---- Steps; each returns false if it cannot be done ---- */

static bool shift(walk *w, crn_offload_list *list) {
    uint32_t at = pick_transfer(w, list);
    if (at == list->length)
        return false;
    crn_offload_event event = list->events[at];
    uint32_t by = distance(w, list->length);
    bool earlier = below(w, 2) == 0;
    if (earlier ? by > at : by > list->length - 1 - at)
        return false;
    take_out(list, at);
    put_in(list, earlier ? at - by : at + by, event);
    return true;
}

static bool swap(walk *w, crn_offload_list *list) {
    uint32_t at = pick_transfer(w, list), other = at + 1;
    while (other < list->length && crn_event_kind(list->events[other]) == CRN_LIST_RUN)
        other++;
    if (other >= list->length)
        return false;
    crn_offload_event event = list->events[at];
    list->events[at] = list->events[other];
    list->events[other] = event;
    return true;
}

static bool drop(walk *w, crn_offload_list *list) {
    uint32_t at = pick_transfer(w, list);
    if (at == list->length)
        return false;
    uint32_t i = crn_event_index(list->events[at]);
    take_out(list, find_event(list, crn_event(CRN_LIST_OFFLOAD, i)));
    take_out(list, find_event(list, crn_event(CRN_LIST_FETCH, i)));
    return true;
}

static uint32_t pick_kept(walk *w, uint32_t from, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) {
        uint32_t i = from + k < w->n ? from + k : from + k - w->n;
        if (!w->moved[i] && w->lister->chain->size[i] > 0)
            return i;
    }
    return w->n;
}

static bool add(walk *w, crn_offload_list *list) {
    uint32_t i = pick_kept(w, below(w, w->n), w->n);
    if (i == w->n)
        return false;
    uint32_t made = i == 0 ? 0 : find_event(list, crn_event(CRN_LIST_RUN, i - 1)) + 1;
    uint32_t read = find_event(list, crn_event(CRN_LIST_RUN, w->lister->ops - 1 - i));
    uint32_t span = read - made;
    uint32_t fetch = read - CRN_MIN(span, distance(w, span + 1) - 1);
    uint32_t offload = made + CRN_MIN(fetch - made, distance(w, span + 1) - 1);
    put_in(list, fetch, crn_event(CRN_LIST_FETCH, i));
    put_in(list, offload, crn_event(CRN_LIST_OFFLOAD, i));
    return true;
}

static bool exchange(walk *w, crn_offload_list *list) {
    uint32_t at = pick_transfer(w, list);
    if (at == list->length)
        return false;
    uint32_t old = crn_event_index(list->events[at]);
    uint32_t reach = distance(w, w->n);
    uint32_t from = below(w, 2) == 0 ? old : old - CRN_MIN(old, reach);
    uint32_t i = pick_kept(w, from, reach);
    if (i == w->n)
        return false;
    list->events[find_event(list, crn_event(CRN_LIST_OFFLOAD, old))] =
        crn_event(CRN_LIST_OFFLOAD, i);
    list->events[find_event(list, crn_event(CRN_LIST_FETCH, old))] = crn_event(CRN_LIST_FETCH, i);
    return true;
}

static bool change(walk *w, crn_offload_list *list) {
    switch (below(w, 16)) {
    case 0:
    case 1:
        return drop(w, list);
    case 2:
    case 3:
        return add(w, list);
    case 4:
    case 5:
    case 6:
        return swap(w, list);
    case 7:
    case 8:
    case 9:
    case 10:
        return exchange(w, list);
    default:
        return shift(w, list);
    }
}

/* ---- Walking ---- */

static void copy_list(const crn_offload_list *from, crn_offload_list *to) {
    to->length = from->length;
    memcpy(to->events, from->events, from->length * sizeof *to->events);
}

static void mark_moved(walk *w) {
    memset(w->moved, 0, w->n);
    for (uint32_t k = 0; k < w->now.length; k++)
        if (crn_event_kind(w->now.events[k]) == CRN_LIST_OFFLOAD)
            w->moved[crn_event_index(w->now.events[k])] = 1;
}

static void take_step(walk *w, uint64_t step) {
    int64_t *remembered = &w->history[step % MEMORY];
    copy_list(&w->now, &w->next);
    if (change(w, &w->next)) {
        int64_t length = crn_offload_list_run(w->lister, &w->next, NULL);
        if (length >= 0 && (length <= w->length || length <= *remembered)) {
            crn_offload_list old = w->now;
            w->now = w->next;
            w->next = old;
            w->length = length;
            mark_moved(w);
            if (length < w->best_length) {
                w->best_length = length;
                copy_list(&w->now, &w->best);
            }
        }
    }
    *remembered = CRN_MIN(*remembered, w->length);
}

cairn_status crn_offload_anneal(crn_arena *arena, crn_offload_lister *lister, int64_t goal,
                                uint64_t work, crn_offload_schedule *trial,
                                crn_offload_schedule *best) {
    walk w = {.lister = lister, .n = lister->chain->count, .rng = {1}};
    CRN_TRY(crn_offload_list_make(arena, w.n, &w.now));
    CRN_TRY(crn_offload_list_make(arena, w.n, &w.next));
    CRN_TRY(crn_offload_list_make(arena, w.n, &w.best));
    CRN_TAKE(arena, w.moved, w.n);
    crn_offload_list_from(lister, best, &w.now);
    w.length = w.best_length = crn_offload_list_run(lister, &w.now, NULL);
    if (w.length < 0)
        return CAIRN_OK; /* ops without time in an order that a list cannot express */
    copy_list(&w.now, &w.best);
    mark_moved(&w);
    for (uint32_t k = 0; k < MEMORY; k++)
        w.history[k] = w.length;
    uint64_t patience = work / 2, left = patience;
    for (uint64_t step = 0; w.best_length > goal && CRN_MIN(work, left) > w.now.length; step++) {
        int64_t before = w.best_length;
        work -= w.now.length;
        left -= w.now.length;
        take_step(&w, step);
        if (w.best_length < before)
            left = patience;
    }
    crn_offload_list_keep(lister, &w.best, trial, best);
    return CAIRN_OK;
}
