/* offload_front.c: the dynamic programme of Beaumont et al., algorithm 1, corrected.
 *
 * Layers are decided from the outside in: F_0 and B_0, then F_1 and B_1, .. After layer i a state
 * says all that matters of the decisions so far (ordered schedule, fractional release):
 *
 *     kept        bytes of x_0 .. x_i that stay on the device
 *     out_late    bytes still to be offloaded when F_i ends; if negative, how long the link has
 *                 then been idle
 *     back_late   the same for B_i, read backwards in time
 *     idle        time that ops have waited so far
 *
 *     F_0 F_1 .. F_i | .. still open .. | B_i .. B_1 B_0
 *                    ^ out_late         ^ back_late
 *
 * The paper's M_F is kept + out_late + x_{i+1}, and its M_B follows; it keeps hash tables of
 * triples. Here a layer is a sorted front: a state is dropped if another one is at least as good in
 * every future. A state can always wait, on either side, which turns idle time into progress of the
 * link. So A beats B if
 *
 *     kept_A <= kept_B and idle_A + max(0, out_A - out_B) + max(0, back_A - back_B) <= idle_B,
 *
 * which is <= in each of kept, idle, idle + out, idle + back, idle + out + back: five keys. A state
 * is also dropped if a lower bound of its idle time reaches the idle time of a known set (that of
 * GREEDY).
 *
 * Three things are corrected. The backward wait includes exB. Waits use only what is positive of
 * out_late and back_late. The gap in the middle compares the needs of each side with the transfers
 * of the other (see close_gap).
 *
 * A front that grows too wide is thinned out; then the result need not be optimal. O(n * width^2)
 * at worst; in practice most states are beaten by the first few they are compared with. */
#include "solve/offload/offload_front.h"

#include <stdlib.h>

enum { KEYS = 5, RANGES = 128, NARROW = 256 };

#define POLISH_WORK 2000000

typedef struct state {
    int64_t key[KEYS]; /* kept, idle, idle + out, idle + back, idle + out + back */
    int64_t bound;     /* on idle at the end */
    uint32_t trace;    /* the decisions that led to it */
    uint32_t rank;     /* among states that keep about as much; see thin_out */
} state;

typedef CRN_ARRAY(state) state_array;

typedef struct programme {
    crn_arena *arena;
    const crn_offload_chain *chain;
    int64_t most_late; /* no backlog is longer, so more idle time of the link has no value */
    int64_t limit;     /* idle time of the best known set; only less is searched */
    /* prefix sums, n + 1 each: over ops before op i */
    int64_t *sizes, *forward, *backward;
    /* suffix maxima, n + 1 each: over ops j >= i; see bound_of */
    int64_t *need, *forward_from, *backward_from, *forward_to_end, *backward_to_end;
    state_array front, next;
    CRN_ARRAY(uint32_t) trace; /* 2 * parent + moved */
    uint64_t work;             /* comparisons left */
    bool complete;
} programme;

static int64_t kept_of(const state *s) {
    return s->key[0];
}
static int64_t idle_of(const state *s) {
    return s->key[1];
}
static int64_t out_of(const state *s) {
    return s->key[2] - s->key[1];
}
static int64_t back_of(const state *s) {
    return s->key[3] - s->key[1];
}
static int64_t positive(int64_t value) {
    return CRN_MAX(value, 0);
}

/* ---- Setting up ---- */

static cairn_status take_tables(programme *p) {
    size_t n = (size_t)p->chain->count + 1;
    int64_t *all;
    CRN_TAKE(p->arena, all, 8 * n);
    int64_t **tables[] = {&p->sizes,          &p->forward,        &p->backward,
                          &p->need,           &p->forward_from,   &p->backward_from,
                          &p->forward_to_end, &p->backward_to_end};
    for (size_t k = 0; k < CRN_LENGTH(tables); k++)
        *tables[k] = all + k * n;
    return CAIRN_OK;
}

#define NOTHING (-4 * CRN_OFFLOAD_LARGEST) /* the maximum of an empty set */

static void fill_tables(programme *p) {
    const crn_offload_chain *c = p->chain;
    uint32_t n = c->count;
    for (uint32_t i = 0; i < n; i++) {
        p->sizes[i + 1] = p->sizes[i] + c->size[i];
        p->forward[i + 1] = p->forward[i] + c->forward[i];
        p->backward[i + 1] = p->backward[i] + c->backward[i];
        int64_t least = CRN_MIN(c->forward_need[i], c->backward_need[i]);
        p->most_late = CRN_MAX(p->most_late, p->sizes[i + 1] - least);
    }
    p->most_late = CRN_MIN(p->most_late, p->sizes[n]);
    p->need[n] = p->forward_from[n] = p->backward_from[n] = NOTHING;
    p->forward_to_end[n] = p->backward_to_end[n] = NOTHING;
    for (uint32_t i = n; i-- > 0;) {
        int64_t f = c->forward_need[i], b = c->backward_need[i];
        p->need[i] = CRN_MAX(p->need[i + 1], CRN_MAX(f, b));
        p->forward_from[i] = CRN_MAX(p->forward_from[i + 1], f - p->forward[i]);
        p->backward_from[i] = CRN_MAX(p->backward_from[i + 1], b - p->backward[i]);
        p->forward_to_end[i] =
            CRN_MAX(p->forward_to_end[i + 1], f - (p->forward[n] - p->forward[i + 1]));
        p->backward_to_end[i] =
            CRN_MAX(p->backward_to_end[i + 1], b - (p->backward[n] - p->backward[i + 1]));
    }
}

/* ---- Bound ---- */

/* A lower bound of the idle time of every schedule that continues from `s`, with ops i .. n-1 open.
 * The link moves 1 per 1. It is decided that `away` bytes are offloaded, `out` of them later than
 * now:
 *
 *     before F_j   need_j - (away - out) more bytes go while F_i .. F_{j-1} run, or F waits
 *     before B_j   the same backwards
 *     in between   out + back + twice what must still go, while all open ops run
 *     across       the need of B_j, moved since now, while all open F and B_{n-1} .. B_{j+1} run */
static int64_t bound_of(const programme *p, const state *s, uint32_t i) {
    uint32_t n = p->chain->count;
    int64_t away = p->sizes[i] - kept_of(s);
    int64_t out = positive(out_of(s)), back = positive(back_of(s));
    int64_t open_forward = p->forward[n] - p->forward[i];
    int64_t open_backward = p->backward[n] - p->backward[i];
    int64_t sides = positive(p->forward_from[i] + p->forward[i] - away + out) +
                    positive(p->backward_from[i] + p->backward[i] - away + back);
    int64_t link = out + back + 2 * positive(p->need[i] - away) - open_forward - open_backward;
    int64_t across = CRN_MAX(p->backward_to_end[i] - away + out - open_forward,
                             p->forward_to_end[i] - away + back - open_backward);
    return idle_of(s) + CRN_MAX(sides, CRN_MAX(link, across));
}

/* ---- One layer ---- */

static state make_state(int64_t kept, int64_t idle, int64_t out, int64_t back, uint32_t trace) {
    return (state){{kept, idle, idle + out, idle + back, idle + out + back}, 0, trace, 0};
}

/* Decide layer i for the state `s`. */
static cairn_status extend(programme *p, const state *s, uint32_t i, bool moved) {
    const crn_offload_chain *c = p->chain;
    int64_t kept = kept_of(s), out = out_of(s), back = back_of(s);
    int64_t forward_room = p->sizes[i] - c->forward_need[i];
    int64_t backward_room = p->sizes[i] - c->backward_need[i];
    if (kept > forward_room || kept > backward_room)
        return CAIRN_OK;
    int64_t forward_wait = positive(kept + positive(out) - forward_room);
    int64_t backward_wait = positive(kept + positive(back) - backward_room);
    int64_t forward_step = forward_wait + c->forward[i];
    int64_t backward_step = backward_wait + c->backward[i];
    if (moved) {
        out = positive(out) + c->size[i] - forward_step;
        back = c->size[i] + positive(back - backward_step);
    } else {
        out -= forward_step;
        back -= backward_step;
        kept += c->size[i];
    }
    state child =
        make_state(kept, idle_of(s) + forward_wait + backward_wait, CRN_MAX(out, -p->most_late),
                   CRN_MAX(back, -p->most_late), 2 * s->trace + moved);
    child.bound = bound_of(p, &child, i + 1);
    if (child.bound < p->limit)
        CRN_PUSH(p->arena, p->next, child);
    return CAIRN_OK;
}

/* In any lexicographic order of the keys a state comes after those that beat it. This order puts
 * the strongest states first. */
static int compare_keys(const void *a, const void *b) {
    static const int order[KEYS] = {4, 1, 0, 2, 3};
    const state *s = a, *t = b;
    for (int k = 0; k < KEYS; k++)
        if (s->key[order[k]] != t->key[order[k]])
            return s->key[order[k]] < t->key[order[k]] ? -1 : 1;
    return s->trace < t->trace ? -1 : s->trace > t->trace;
}

static int compare_bounds(const void *a, const void *b) {
    const state *s = a, *t = b;
    if (s->bound != t->bound)
        return s->bound < t->bound ? -1 : 1;
    return compare_keys(a, b);
}

static int compare_ranks(const void *a, const void *b) {
    const state *s = a, *t = b;
    if (s->rank != t->rank)
        return s->rank < t->rank ? -1 : 1;
    return compare_bounds(a, b);
}

static bool beats(const state *a, const state *b) {
    return (a->key[0] <= b->key[0]) && (a->key[1] <= b->key[1]) && (a->key[2] <= b->key[2]) &&
           (a->key[3] <= b->key[3]) && (a->key[4] <= b->key[4]);
}

/* Keep the states of `next` that no other beats. */
static void filter(programme *p) {
    state_array *next = &p->next;
    uint32_t kept = 0;
    if (next->length > 1)
        qsort(next->data, next->length, sizeof *next->data, compare_keys);
    for (uint32_t k = 0; k < next->length; k++) {
        uint32_t other = 0;
        while (other < kept && !beats(&next->data[other], &next->data[k]))
            other++;
        if (other == kept)
            next->data[kept++] = next->data[k];
        p->work -= CRN_MIN(p->work, other);
    }
    next->length = kept;
}

/* Keep `width` states: the best by bound in every range of `kept`, then the second best, and so on.
 * By bound alone all survivors would have about the same `kept`, and most of them too much. */
static void thin_out(programme *p, uint32_t width) {
    state *states = p->next.data;
    uint32_t count = p->next.length, seen[RANGES] = {0};
    int64_t low = INT64_MAX, high = 0;
    for (uint32_t k = 0; k < count; k++) {
        low = CRN_MIN(low, kept_of(&states[k]));
        high = CRN_MAX(high, kept_of(&states[k]));
    }
    int64_t step = (high - low) / RANGES + 1;
    qsort(states, count, sizeof *states, compare_bounds);
    for (uint32_t k = 0; k < count; k++)
        states[k].rank = seen[(kept_of(&states[k]) - low) / step]++;
    qsort(states, count, sizeof *states, compare_ranks);
    p->next.length = width;
    p->complete = false;
}

/* Give every state of the front a place in the trace, by which its children refer to it. */
static cairn_status record(programme *p, state_array *front) {
    for (uint32_t k = 0; k < front->length; k++) {
        state *s = &front->data[k];
        CRN_PUSH(p->arena, p->trace, s->trace);
        s->trace = p->trace.length - 1;
    }
    return CAIRN_OK;
}

static cairn_status run_layer(programme *p, uint32_t i, uint32_t widest) {
    uint32_t width = p->work > 0 ? widest : CRN_MIN(widest, NARROW);
    p->next.length = 0;
    for (uint32_t k = 0; k < p->front.length; k++) {
        CRN_TRY(extend(p, &p->front.data[k], i, false));
        if (p->chain->size[i] > 0)
            CRN_TRY(extend(p, &p->front.data[k], i, true));
    }
    filter(p);
    if (p->next.length > width)
        thin_out(p, width);
    CRN_TRY(record(p, &p->next));
    state_array swap = p->front;
    p->front = p->next;
    p->next = swap;
    return CAIRN_OK;
}

/* ---- The middle ---- */

/* Idle time with the gap between F_L and B_L (equations 9 and 10, corrected). Offloads must end
 * before fetches begin; while the link is idle at the end of one side, ops of that side run without
 * waiting and bytes of the other side may still be in flight, if the need leaves room for them. */
static int64_t close_gap(const programme *p, const state *s) {
    const crn_offload_chain *c = p->chain;
    uint32_t n = c->count;
    int64_t out = out_of(s), back = back_of(s), away = p->sizes[n] - kept_of(s);
    int64_t gap = positive(out + back);
    for (uint32_t i = n; i-- > 0 && p->backward[n] - p->backward[i + 1] < -back;)
        gap = CRN_MAX(gap,
                      out - (p->backward[n] - p->backward[i + 1]) - (away - c->backward_need[i]));
    for (uint32_t i = n; i-- > 0 && p->forward[n] - p->forward[i + 1] < -out;)
        gap =
            CRN_MAX(gap, back - (p->forward[n] - p->forward[i + 1]) - (away - c->forward_need[i]));
    return idle_of(s) + gap;
}

static const state *best_of(programme *p) {
    const state *best = NULL;
    for (uint32_t k = 0; k < p->front.length; k++) {
        int64_t idle = close_gap(p, &p->front.data[k]);
        if (idle < p->limit) {
            p->limit = idle;
            best = &p->front.data[k];
        }
    }
    return best;
}

static void trace_back(const programme *p, const state *s, uint8_t *moved) {
    uint32_t at = s->trace;
    for (uint32_t i = p->chain->count; i-- > 0;) {
        moved[i] = p->trace.data[at] & 1;
        at = p->trace.data[at] / 2;
    }
}

/* ---- The programme ---- */

/* Store the set of GREEDY in `moved`, and its idle time as the limit. `*done`: it is already
 * optimal. */
static cairn_status start_from_greedy(programme *p, uint8_t *moved, bool *done) {
    crn_offload_ordered *room;
    int64_t fractional, compute;
    uint64_t work = POLISH_WORK;
    CRN_TRY(crn_offload_ordered_make(p->arena, p->chain, &room));
    CRN_TRY(crn_offload_fractional(p->arena, p->chain, &fractional));
    crn_offload_eager_set(p->chain, moved);
    compute = p->forward[p->chain->count] + p->backward[p->chain->count];
    p->limit = crn_offload_polish(room, p->chain, CAIRN_OFFLOAD_RELEASE_FRACTIONAL, fractional,
                                  &work, moved) -
               compute;
    *done = p->limit + compute == fractional;
    return CAIRN_OK;
}

cairn_status crn_offload_front(crn_arena *arena, const crn_offload_chain *chain,
                               crn_offload_limits limits, uint8_t *moved, bool *complete) {
    programme p = {.arena = arena, .chain = chain, .work = limits.work, .complete = true};
    bool done;
    CRN_TRY(take_tables(&p));
    fill_tables(&p);
    CRN_TRY(start_from_greedy(&p, moved, &done));
    *complete = true;
    if (done)
        return CAIRN_OK;
    CRN_PUSH(arena, p.front, make_state(0, 0, 0, 0, 0));
    CRN_TRY(record(&p, &p.front));
    for (uint32_t i = 0; i < chain->count && p.front.length > 0; i++)
        CRN_TRY(run_layer(&p, i, limits.width));
    *complete = p.complete;
    const state *best = best_of(&p);
    if (best != NULL)
        trace_back(&p, best, moved);
    return CAIRN_OK;
}
