/* offload_exact.c: the optimum with whole release, for chains of few layers.
 *
 * Depth first over lists (offload_list.h) built event by event in the order of starts: the next op,
 * the offload of an activation that is there, or the fetch of one that is away. The future depends
 * on the past only through
 *
 *     place    next op; for each activation: here, away or back; the transfer in flight
 *     times    now (last start), end of the running op, end of the transfer in flight
 *
 * Start times only grow, so all transfers but the last are over. Of two states with one place, the
 * one that is no later in all three times is at least as good: it can do what the other does, at
 * the same times. So each place remembers the times it was reached with, and a state that is no
 * earlier than one of them is dropped. Lower bounds drop more states: the computing still to do,
 * and the transfers still to do before the last backward ops.
 *
 * The time is exponential: up to 3^n places per op. A limit on remembered states ends the
 * search. */
#include "solve/offload/offload_list.h"

enum { MOST_LAYERS = 24, HERE = 0, AWAY = 1, BACK = 2 };

typedef struct node {
    uint32_t next;     /* op */
    uint32_t transfer; /* the activation in flight, or n */
    uint8_t place[MOST_LAYERS];
    int64_t now, op_end, link_free;
    int64_t away; /* bytes of all activations that are AWAY, in flight or not */
} node;

typedef struct memory_entry {
    uint64_t place;
    int64_t now, op_end, link_free;
    uint32_t older; /* entry of the same bucket + 1 */
} memory_entry;

typedef struct search {
    crn_offload_lister *lister;
    uint32_t n;
    int64_t limit; /* only shorter schedules are searched */
    memory_entry *entries;
    uint32_t count, most, bucket_mask;
    uint32_t *buckets;
    crn_offload_list path, best;
    bool complete;
} search;

/* ---- Remembering ---- */

static uint64_t place_code(const search *s, const node *v) {
    uint64_t code = v->next;
    for (uint32_t i = 0; i < s->n; i++)
        code = 3 * code + v->place[i];
    return code * (MOST_LAYERS + 1) + v->transfer;
}

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Whether a state that is at least as good had this place before. If not, remember this one. */
static bool seen(search *s, const node *v) {
    uint64_t code = place_code(s, v);
    uint32_t *bucket = &s->buckets[mix(code) & s->bucket_mask];
    for (uint32_t at = *bucket; at != 0; at = s->entries[at - 1].older) {
        const memory_entry *e = &s->entries[at - 1];
        if (e->place == code && e->now <= v->now && e->op_end <= v->op_end &&
            e->link_free <= v->link_free)
            return true;
    }
    if (s->count == s->most) {
        s->complete = false;
        return true;
    }
    s->entries[s->count] = (memory_entry){code, v->now, v->op_end, v->link_free, *bucket};
    *bucket = ++s->count;
    return false;
}

/* Times before now are set to now, so that states with equal futures are equal. */
static void settle(const search *s, node *v) {
    v->op_end = CRN_MAX(v->op_end, v->now);
    if (v->link_free <= v->now) {
        v->link_free = v->now;
        v->transfer = s->n;
    }
}

/* ---- Bounds ---- */

/* Whether no schedule from here on can be short enough. There are three bounds:
 *
 *     - the ops that are left run one after the other,
 *     - everything that is away with index j and above comes back before B_j,
 *     - op k has its need away from its start to its end: it starts when the missing bytes have
 *       left, and all of them come back after its end, before B_0 at the latest. */
static bool hopeless(const search *s, const node *v) {
    const crn_offload_lister *l = s->lister;
    int64_t returning = v->link_free;
    if (v->op_end + l->to_go[v->next] >= s->limit)
        return true;
    for (uint32_t i = s->n; i-- > 0;) {
        if (v->place[i] != AWAY)
            continue;
        returning += l->chain->size[i];
        if (returning + l->to_go[l->ops - 1 - i] >= s->limit)
            return true;
    }
    for (uint32_t k = v->next; k < l->ops; k++) {
        if (l->need[k] <= 0)
            continue;
        int64_t start = v->op_end + l->to_go[v->next] - l->to_go[k];
        if (l->need[k] > v->away)
            start = CRN_MAX(start, v->link_free + l->need[k] - v->away);
        int64_t rest = CRN_MAX(l->to_go[k + 1], l->need[k] + l->to_go[l->ops - 1]);
        if (start + l->duration[k] + rest >= s->limit)
            return true;
    }
    return false;
}

/* ---- Events ---- */

/* Bytes that are away at `time`, without those in flight and without the input of an F that has not
 * ended. */
static int64_t away_at(const search *s, const node *v, int64_t time) {
    int64_t away = v->away;
    uint32_t out = s->n;
    if (v->transfer < s->n && v->place[v->transfer] == AWAY && v->link_free > time) {
        out = v->transfer;
        away -= s->lister->chain->size[out];
    }
    for (uint32_t i = v->next > 0 ? v->next - 1 : 0; i <= v->next && i < s->n; i++)
        if (i != out && v->place[i] == AWAY && (i == v->next || v->op_end > time))
            away -= s->lister->chain->size[i];
    return away;
}

static bool start_op(const search *s, node *v) {
    const crn_offload_lister *l = s->lister;
    uint32_t op = v->next, i = l->ops - 1 - op;
    int64_t start = CRN_MAX(v->now, v->op_end);
    if (op >= s->n) {
        if (v->place[i] == AWAY)
            return false;
        if (v->transfer == i)
            start = CRN_MAX(start, v->link_free);
    }
    if (away_at(s, v, start) < l->need[op]) {
        start = CRN_MAX(start, v->link_free);
        if (away_at(s, v, start) < l->need[op])
            return false;
    }
    v->now = start;
    v->op_end = start + l->duration[op];
    v->next++;
    return true;
}

static bool start_offload(const search *s, node *v, uint32_t i) {
    const crn_offload_lister *l = s->lister;
    if (v->place[i] != HERE || l->chain->size[i] == 0 || i > v->next || v->next > l->ops - 1 - i)
        return false;
    int64_t start = CRN_MAX(v->now, v->link_free);
    if (i == v->next)
        start = CRN_MAX(start, v->op_end);
    v->now = start;
    v->link_free = start + l->chain->size[i];
    v->transfer = i;
    v->place[i] = AWAY;
    v->away += l->chain->size[i];
    return true;
}

static bool start_fetch(const search *s, node *v, uint32_t i) {
    const crn_offload_lister *l = s->lister;
    int64_t size = l->chain->size[i];
    int64_t start = CRN_MAX(v->now, v->link_free);
    if (v->place[i] != AWAY || v->next <= i)
        return false;
    bool limbo = v->next == i + 1 && start < v->op_end;
    if (limbo || start >= v->op_end || away_at(s, v, start) - size < l->need[v->next - 1]) {
        start = CRN_MAX(start, v->op_end);
        if (away_at(s, v, start) - size < l->rest[v->next])
            return false;
    }
    v->now = start;
    v->link_free = start + size;
    v->transfer = i;
    v->place[i] = BACK;
    v->away -= size;
    return true;
}

static bool start(const search *s, node *v, crn_offload_event event) {
    uint32_t index = crn_event_index(event);
    switch (crn_event_kind(event)) {
    case CRN_LIST_RUN:
        return start_op(s, v);
    case CRN_LIST_OFFLOAD:
        return start_offload(s, v, index);
    case CRN_LIST_FETCH:
        return start_fetch(s, v, index);
    }
    return false;
}

/* ---- The search; its depth is the length of a list ---- */

static void explore(search *s, const node *v);

static void follow(search *s, const node *v, crn_offload_event event) {
    node child = *v;
    if (!start(s, &child, event))
        return;
    settle(s, &child);
    if (hopeless(s, &child) || seen(s, &child))
        return;
    s->path.events[s->path.length++] = event;
    explore(s, &child);
    s->path.length--;
}

static void explore(search *s, const node *v) {
    if (v->next == s->lister->ops) {
        s->limit = v->op_end;
        s->best.length = s->path.length;
        memcpy(s->best.events, s->path.events, s->path.length * sizeof *s->path.events);
        return;
    }
    follow(s, v, crn_event(CRN_LIST_RUN, v->next));
    for (uint32_t i = s->n; i-- > 0 && s->complete;)
        follow(s, v, crn_event(CRN_LIST_FETCH, i));
    for (uint32_t i = 0; i < s->n && s->complete; i++)
        follow(s, v, crn_event(CRN_LIST_OFFLOAD, i));
}

static cairn_status prepare(crn_arena *arena, search *s) {
    uint32_t buckets = 64;
    while (buckets < s->most)
        buckets *= 2;
    s->bucket_mask = buckets - 1;
    CRN_TAKE(arena, s->buckets, buckets);
    CRN_TAKE(arena, s->entries, s->most);
    CRN_TRY(crn_offload_list_make(arena, s->n, &s->path));
    CRN_TRY(crn_offload_list_make(arena, s->n, &s->best));
    return CAIRN_OK;
}

cairn_status crn_offload_exact(crn_arena *arena, crn_offload_lister *lister, uint32_t most_states,
                               crn_offload_schedule *trial, crn_offload_schedule *best,
                               bool *complete) {
    search s = {.lister = lister, .n = lister->chain->count, .most = most_states};
    *complete = false;
    if (s.n > MOST_LAYERS)
        return CAIRN_OK;
    CRN_TRY(prepare(arena, &s));
    s.limit = best->found ? best->makespan : INT64_MAX;
    s.complete = true;
    explore(&s, &(node){.transfer = s.n});
    *complete = s.complete;
    if (s.best.length > 0)
        crn_offload_list_keep(lister, &s.best, trial, best);
    return CAIRN_OK;
}
