/* offload_list.c: from a list of ops, offloads and fetches to the earliest schedule in that order,
 * with whole release.
 *
 *     list      F0  o0  F1  o1  F2  B2  f1  B1  f0  B0
 *
 * An offload starts when the link is free and its activation has been made. It needs no memory, so
 * it delays only later transfers. An op starts after all ops and fetches before it in the list,
 * when its activation is back and its need is away; it waits for the offloads before it in the
 * list. A fetch starts likewise. The bytes that it takes must not be needed away by the op that
 * runs or, after that op, by the pause that follows it.
 *
 * An activation counts as away from the end of its offload or of F_i, whichever is later, until its
 * fetch begins. So an activation whose offload has ended may not count yet. This can only be the
 * input of the op F_i that is running or next; it is called "limbo".
 *
 * O(length of the list). */
#include "solve/offload/offload_list.h"

#include <stdlib.h>

#define NOT_MOVED (-1)
#define IN_QUEUE (-2) /* its offload was in the list, its fetch was not yet */

cairn_status crn_offload_lister_make(crn_arena *arena, const crn_offload_chain *chain,
                                     crn_offload_lister *out) {
    uint32_t n = chain->count;
    int64_t *duration, *need, *rest, *to_go;
    *out = (crn_offload_lister){.chain = chain, .ops = 2 * n};
    CRN_TAKE(arena, duration, 2 * (size_t)n);
    CRN_TAKE(arena, need, 2 * (size_t)n);
    CRN_TAKE(arena, rest, 2 * (size_t)n + 1);
    CRN_TAKE(arena, to_go, 2 * (size_t)n + 1);
    CRN_TAKE(arena, out->fetched, n);
    CRN_TAKE(arena, out->made, (size_t)n + 1);
    CRN_TAKE(arena, out->pending_end, n);
    CRN_TAKE(arena, out->pending, n);
    CRN_TAKE(arena, out->sorted, 4 * (size_t)n);
    rest[0] = 0; /* nothing can be fetched before F_0 */
    for (uint32_t i = 0; i < n; i++) {
        uint32_t b = 2 * n - 1 - i;
        duration[i] = chain->forward[i];
        need[i] = chain->forward_need[i];
        rest[i + 1] = chain->forward_rest[i];
        duration[b] = chain->backward[i];
        need[b] = chain->backward_need[i];
        rest[b + 1] = chain->backward_rest[i];
    }
    for (uint32_t k = 2 * n; k-- > 0;)
        to_go[k] = to_go[k + 1] + duration[k];
    out->duration = duration;
    out->need = need;
    out->rest = rest;
    out->to_go = to_go;
    return CAIRN_OK;
}

cairn_status crn_offload_list_make(crn_arena *arena, uint32_t count, crn_offload_list *out) {
    out->length = 0;
    CRN_TAKE(arena, out->events, 4 * (size_t)count);
    return CAIRN_OK;
}

/* ---- Running a list ---- */

typedef struct run {
    crn_offload_lister *lister;
    crn_offload_schedule *out; /* or NULL */
    uint32_t next;             /* the next op; op next - 1 runs until op_end */
    int64_t now;               /* the last start of an op or fetch */
    int64_t op_end, link_free;
    uint32_t first, last; /* queue of offloads that have not ended by `now` */
    int64_t away;
    uint32_t limbo; /* activation offloaded before its F_i ended, or n */
} run;

static bool forward_ended(const run *r, uint32_t i, int64_t time) {
    return r->next > i + 1 || (r->next == i + 1 && r->op_end <= time);
}

/* Advance to `time`, and count what is away by then. */
static void advance(run *r, int64_t time) {
    const crn_offload_lister *l = r->lister;
    uint32_t none = l->chain->count;
    if (r->limbo != none && forward_ended(r, r->limbo, time)) {
        r->away += l->chain->size[r->limbo];
        r->limbo = none;
    }
    for (; r->first < r->last && l->pending_end[r->first] <= time; r->first++) {
        uint32_t i = l->pending[r->first];
        if (forward_ended(r, i, time))
            r->away += l->chain->size[i];
        else
            r->limbo = i;
    }
}

static bool run_op(run *r, uint32_t op) {
    crn_offload_lister *l = r->lister;
    uint32_t n = l->chain->count;
    int64_t start = CRN_MAX(r->now, r->op_end);
    if (op != r->next)
        return false;
    if (op >= n) {
        int64_t fetched = l->fetched[l->ops - 1 - op];
        if (fetched == IN_QUEUE)
            return false;
        start = CRN_MAX(start, fetched);
    }
    advance(r, start);
    while (r->away < l->need[op]) {
        if (r->first == r->last)
            return false;
        start = CRN_MAX(start, l->pending_end[r->first]);
        advance(r, start);
    }
    if (r->out != NULL) {
        if (op < n)
            r->out->forward[op] = start;
        else
            r->out->backward[l->ops - 1 - op] = start;
    }
    r->now = start;
    r->op_end = start + l->duration[op];
    if (op < n)
        l->made[op + 1] = r->op_end;
    r->next++;
    return true;
}

static bool run_offload(run *r, uint32_t i) {
    crn_offload_lister *l = r->lister;
    if (i > r->next || l->fetched[i] != NOT_MOVED || r->next > l->ops - 1 - i)
        return false;
    int64_t start = CRN_MAX(r->link_free, l->made[i]);
    r->link_free = start + l->chain->size[i];
    l->pending_end[r->last] = r->link_free;
    l->pending[r->last++] = i;
    l->fetched[i] = IN_QUEUE;
    if (r->out != NULL) {
        r->out->moved[i] = 1;
        r->out->offload[i] = start;
    }
    return true;
}

static bool run_fetch(run *r, uint32_t i) {
    crn_offload_lister *l = r->lister;
    int64_t size = l->chain->size[i];
    int64_t start = CRN_MAX(r->now, r->link_free);
    if (l->fetched[i] != IN_QUEUE || r->next <= i)
        return false;
    advance(r, start);
    bool fits = start < r->op_end && r->limbo != i && r->away - size >= l->need[r->next - 1];
    if (!fits) {
        start = CRN_MAX(start, r->op_end);
        advance(r, start);
        if (r->limbo == i || r->away - size < l->rest[r->next])
            return false;
    }
    r->away -= size;
    r->now = start;
    r->link_free = l->fetched[i] = start + size;
    if (r->out != NULL)
        r->out->fetch[i] = start;
    return true;
}

static bool run_event(run *r, crn_offload_event event) {
    uint32_t index = crn_event_index(event);
    switch (crn_event_kind(event)) {
    case CRN_LIST_RUN:
        return run_op(r, index);
    case CRN_LIST_OFFLOAD:
        return run_offload(r, index);
    case CRN_LIST_FETCH:
        return run_fetch(r, index);
    }
    return false;
}

int64_t crn_offload_list_run(crn_offload_lister *lister, const crn_offload_list *list,
                             crn_offload_schedule *out) {
    uint32_t n = lister->chain->count;
    run r = {.lister = lister, .out = out, .limbo = n};
    for (uint32_t i = 0; i < n; i++)
        lister->fetched[i] = NOT_MOVED;
    if (out != NULL)
        memset(out->moved, 0, n);
    for (uint32_t k = 0; k < list->length; k++)
        if (!run_event(&r, list->events[k]))
            return -1;
    if (r.next != lister->ops)
        return -1;
    if (out != NULL) {
        out->found = true;
        out->optimal = false;
        out->makespan = r.op_end;
    }
    return r.op_end;
}

void crn_offload_list_keep(crn_offload_lister *lister, const crn_offload_list *list,
                           crn_offload_schedule *trial, crn_offload_schedule *best) {
    int64_t length = crn_offload_list_run(lister, list, trial);
    if (length >= 0 && (!best->found || length < best->makespan))
        crn_offload_schedule_copy(lister->chain->count, trial, best);
}

/* ---- Lists from schedules ---- */

/* All transfers, in the order in which ordered schedules have them. */
static void collect_transfers(const crn_offload_lister *l, const crn_offload_schedule *s,
                              crn_offload_event *events, uint32_t *count) {
    uint32_t n = l->chain->count;
    *count = 0;
    for (uint32_t i = 0; i < n; i++)
        if (s->moved[i])
            events[(*count)++] = crn_event(CRN_LIST_OFFLOAD, i);
    for (uint32_t i = n; i-- > 0;)
        if (s->moved[i])
            events[(*count)++] = crn_event(CRN_LIST_FETCH, i);
}

static int64_t start_of(const crn_offload_schedule *s, crn_offload_event event) {
    uint32_t i = crn_event_index(event);
    return crn_event_kind(event) == CRN_LIST_OFFLOAD ? s->offload[i] : s->fetch[i];
}

/* A stable sort by start. Schedules are in order already or nearly so, so insertion sort is
 * quick. */
static void sort_events(const crn_offload_schedule *s, crn_offload_event *events, uint32_t count) {
    for (uint32_t k = 1; k < count; k++) {
        crn_offload_event event = events[k];
        int64_t start = start_of(s, event);
        uint32_t at = k;
        for (; at > 0 && start_of(s, events[at - 1]) > start; at--)
            events[at] = events[at - 1];
        events[at] = event;
    }
}

static int64_t op_start(const crn_offload_lister *l, const crn_offload_schedule *s, uint32_t op) {
    return op < l->chain->count ? s->forward[op] : s->backward[l->ops - 1 - op];
}

/* Whether the transfer comes before op `op` in the list. At equal times the op comes first, because
 * more is away then, except for the op that reads what is fetched. Ops that take no time may start
 * at the same time in an order that this does not find; such a list can fail to run. */
static bool goes_before(const crn_offload_lister *l, const crn_offload_schedule *s,
                        crn_offload_event event, uint32_t op) {
    uint32_t i = crn_event_index(event);
    if (crn_event_kind(event) == CRN_LIST_OFFLOAD)
        return op >= i && s->offload[i] <= op_start(l, s, op);
    if (op == l->ops - 1 - i)
        return true;
    return s->fetch[i] < op_start(l, s, op);
}

void crn_offload_list_from(crn_offload_lister *lister, const crn_offload_schedule *schedule,
                           crn_offload_list *out) {
    uint32_t count, at = 0;
    collect_transfers(lister, schedule, lister->sorted, &count);
    sort_events(schedule, lister->sorted, count);
    out->length = 0;
    for (uint32_t op = 0; op < lister->ops; op++) {
        while (at < count && goes_before(lister, schedule, lister->sorted[at], op))
            out->events[out->length++] = lister->sorted[at++];
        out->events[out->length++] = crn_event(CRN_LIST_RUN, op);
    }
}
