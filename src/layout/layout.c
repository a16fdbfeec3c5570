/* layout.c: offsets for lifetimes in one arena.
 *
 *     offset |      ####        first fit: lifetimes are placed one by one, each at the lowest
 *            |  ########  ##    offset where it overlaps none that is live with it
 *            |##############
 *            +--------------- step
 *
 * The order of placing decides. Lifetimes of a training step nest, like brackets, so the longest
 * first gives a stack without a gap in most plans; where it does not, other orders are tried. Then
 * comes a search: fix the size of the arena a hundredth above the live peak, which is what is
 * promised, and move a lifetime that does not fit before one that is live with it, again and again,
 * until all fit or the limit of work is reached; then the same with a smaller size. Where the
 * promised size is not reached, what lives long is placed first, as a frame for the rest. The work
 * depends on the number of lifetimes only, so the result is the same everywhere. O(n^2) to
 * place all, with a small constant: the test of two lifetimes is two comparisons; where there are
 * many there are quicker algorithms (long_first.h), and where there are very many the longest first
 * is the only order tried. */
#include "base/crn_base.h"
#include "base/rng.h"
#include "layout/crn_layout.h"
#include "layout/long_first.h"
#include "sim/crn_sim.h"

#include <stdlib.h>

#define PROMISE 100u           /* by what share the arena is to be larger than the peak at most */
#define PROMISE_WORK 30000000u /* pairs tested in the search for the promised size */
#define WORK 10000000u     /* for another size, in a frame, and where the search is to be short */
#define WHOLE_ROUNDS 1000u /* and for any size: how often all may be placed */
#define CLOSE 500u         /* the search in a frame is as exact as this share of the peak */
#define UNIT 4096u         /* of its sizes */
#define SMALL 4096u        /* of the peak: up to this share something is small */
#define ENDS 1u            /* the frame is what stays to the end, and may be moved too */
#define PHASE 512u         /* rounds with late rivals, then as many with any */
#define LATE_DRAWS 6u
#define FEW 2000u   /* up to this number of lifetimes every order is tried for an exact fit */
#define LARGE 5000u /* with more lifetimes there is one long search, which starts by area */
#define LARGE_WORK 120000000u
#define MANY 6000u /* more lifetimes than that are placed without a search */
#define SPARSE 64u /* lifetimes for one that is live at a time, for the quick algorithm */

/* A layout as the library keeps it, behind what callers read. */
typedef struct kept_layout {
    cairn_layout seen; /* first: a cairn_layout is one of these */
    crn_arena arena;
} kept_layout;

/* A lifetime that has its place. */
typedef struct placed {
    uint64_t from, to; /* offsets */
    uint32_t first, last;
    uint32_t turn; /* when it was placed: its place in the order */
} placed;

/* A lifetime that waits for its place. */
typedef struct waiting {
    uint64_t bytes;
    uint32_t first, last;
    uint32_t index; /* of the lifetime */
    bool high;      /* it gets the highest offset where it fits, not the lowest */
    bool framed;    /* it keeps its place in the queue */
} waiting;

typedef struct placing {
    const cairn_lifetime *lifetimes;
    uint32_t count;
    uint64_t peak;
    uint32_t most_alive; /* lifetimes at one step */
    uint64_t enough;     /* no need to go below this */
    bool brief;
    uint32_t frame;  /* what lives for more than 1 / frame of the steps is in it; 0: no frame */
    uint32_t end;    /* the last step */
    uint32_t *order; /* lifetimes in the order of placing */
    uint32_t *best_order;
    uint32_t *start;   /* the best of the simple orders, from which a search starts */
    waiting *queue;    /* the order of a search */
    placed *stack;     /* the placed ones, lowest first */
    uint64_t *offsets; /* per lifetime, of this round */
    uint64_t *best_offsets;
    uint64_t best;
    uint64_t *keys; /* of the order being made */
} placing;

uint64_t crn_layout_promise(uint64_t peak) {
    return peak + peak / PROMISE;
}

/* ---- The live peak: a lower bound for every layout ---- */

typedef struct event {
    uint32_t step; /* memory changes before this step */
    bool take;
    uint64_t bytes;
} event;

static int compare_events(const void *a, const void *b) {
    const event *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return (int)x->take - (int)y->take; /* what goes, goes first */
}

static cairn_status find_peak(placing *p, crn_arena *scratch) {
    event *events;
    uint32_t n = 0;
    CRN_TAKE(scratch, events, 2 * (size_t)p->count);
    for (uint32_t i = 0; i < p->count; i++) {
        const cairn_lifetime *life = &p->lifetimes[i];
        events[n++] = (event){life->first, true, life->bytes};
        if (life->last != UINT32_MAX)
            events[n++] = (event){life->last + 1, false, life->bytes};
    }
    if (n > 0)
        qsort(events, n, sizeof *events, compare_events);
    uint64_t live = 0;
    uint32_t alive = 0;
    for (uint32_t i = 0; i < n; i++) {
        live = events[i].take ? live + events[i].bytes : live - events[i].bytes;
        alive = events[i].take ? alive + 1 : alive - 1;
        p->most_alive = CRN_MAX(p->most_alive, alive);
        p->peak = CRN_MAX(p->peak, live);
    }
    for (uint32_t i = 0; i < p->count; i++)
        p->end = CRN_MAX(p->end, p->lifetimes[i].last);
    return CAIRN_OK;
}

/* ---- Orders ---- */

typedef struct keyed {
    uint64_t key;
    uint32_t index;
} keyed;

/* Descending by key, then by index. */
static int compare_keyed(const void *a, const void *b) {
    const keyed *x = a, *y = b;
    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static void sort_by_keys(placing *p, keyed *work) {
    for (uint32_t i = 0; i < p->count; i++)
        work[i] = (keyed){p->keys[i], i};
    if (p->count > 0)
        qsort(work, p->count, sizeof *work, compare_keyed);
    for (uint32_t i = 0; i < p->count; i++)
        p->order[i] = work[i].index;
}

enum { BY_DURATION, BY_BYTES, BY_AREA, BY_START, ORDERS };

static uint64_t key_of(const cairn_lifetime *life, int order) {
    uint64_t duration = (uint64_t)life->last - life->first + 1, area;
    switch (order) {
    case BY_DURATION:
        return duration;
    case BY_BYTES:
        return life->bytes;
    case BY_AREA:
        return crn_mul_u64(duration, life->bytes, &area) ? area : UINT64_MAX;
    default:
        return UINT32_MAX - life->first;
    }
}

/* ---- A frame ---- */

/* Gradients stay to the end, and a tight plan fills the arena all the time: then what is left free
 * between tensors that stay is lost. So these are placed from the top, without a gap, the earliest
 * first. What else lives long is placed from below, the last to go first. Small ones are below all
 * that: between large ones, each would keep apart what is left free by two of them.
 *
 *     offset |          g g    g: gradients, the first at the top
 *            |      t   g g    t: what lives shortly
 *            |  x x t x t g
 *            |x x x x x x t    x: what is kept from the forward part, the first at the bottom
 *            +--------------- step
 */
enum place { BETWEEN, ABOVE_SMALL, AT_BOTTOM, AT_TOP };

static enum place place_of(const placing *p, const cairn_lifetime *life) {
    if (p->frame == 0)
        return BETWEEN;
    if (life->last == p->end)
        return AT_TOP;
    if (p->frame == ENDS)
        return BETWEEN;
    if (life->bytes <= p->peak / SMALL)
        return AT_BOTTOM;
    return life->last - life->first > p->end / p->frame ? ABOVE_SMALL : BETWEEN;
}

/* By this the order descends: first what is at the top, then at the bottom, then above that, and
 * last what is between, by duration and size. */
static uint64_t frame_key(const placing *p, const cairn_lifetime *life) {
    enum place place = place_of(p, life);
    uint64_t most = (1u << 30) - 1, duration = (uint64_t)life->last - life->first;
    uint64_t first = place == AT_TOP ? UINT32_MAX - life->first : duration, second = duration;
    if (place == ABOVE_SMALL)
        first = life->last;
    if (place == BETWEEN)
        second = life->bytes >> 6;
    return (uint64_t)place << 62 | first << 30 | CRN_MIN(second, most);
}

/* ---- Placing ---- */

static void insert(placed *stack, uint32_t count, placed one) {
    uint32_t at = count;
    for (; at > 0 && stack[at - 1].from > one.from; at--)
        stack[at] = stack[at - 1];
    stack[at] = one;
}

/* Give a lifetime the lowest offset where it fits, if it then ends within `target`. `stack` has
 * those placed before, and gets it where the order of offsets wants it; it has room for one more,
 * which ends the search for a gap. There is no branch on which ones are live together: it would be
 * predicted badly. */
static bool put_lowest(placed *stack, uint32_t count, const waiting *life, uint64_t target,
                       uint64_t *offset) {
    uint64_t end = life->bytes; /* of the lifetime, at the lowest offset so far */
    int64_t before = (int64_t)life->first - 1, after = (int64_t)life->last + 1;
    stack[count] = (placed){.from = UINT64_MAX, .last = UINT32_MAX};
    for (const placed *p = stack;; p++) {
        /* all bits set, or none */
        uint64_t together = (uint64_t)(((p->first - after) & (before - p->last)) >> 63);
        if ((p->from & together) >= end)
            break; /* the gap below it is wide enough */
        uint64_t above = (p->to & together) + life->bytes;
        end = above > end ? above : end;
    }
    if (end > target)
        return false;
    uint64_t from = end - life->bytes;
    insert(stack, count, (placed){from, end, life->first, life->last, count});
    *offset = from;
    return true;
}

/* The same with the highest offset. Those placed before are met in the order of falling offsets, so
 * none of them reaches above one that was met before. */
static bool put_highest(placed *stack, uint32_t count, const waiting *life, uint64_t target,
                        uint64_t *offset) {
    uint64_t end = target;
    for (const placed *p = stack + count; p-- > stack && end >= life->bytes;)
        if (p->first <= life->last && p->last >= life->first && p->from < end &&
            p->to > end - life->bytes)
            end = p->from;
    if (end < life->bytes)
        return false;
    uint64_t from = end - life->bytes;
    insert(stack, count, (placed){from, end, life->first, life->last, count});
    *offset = from;
    return true;
}

static void keep_best(placing *p, uint64_t arena) {
    p->best = arena;
    memcpy(p->best_order, p->order, p->count * sizeof *p->order);
    memcpy(p->best_offsets, p->offsets, p->count * sizeof *p->offsets);
}

/* Queue up in an order. */
static void queue_up(placing *p, const uint32_t *order) {
    for (uint32_t k = 0; k < p->count; k++) {
        const cairn_lifetime *life = &p->lifetimes[order[k]];
        enum place place = place_of(p, life);
        p->queue[k] = (waiting){life->bytes, life->first,     life->last,
                                order[k],    place == AT_TOP, place != BETWEEN && p->frame != ENDS};
    }
}

/* Place from `turn` on, up to the first that would not end within `target`; returns its turn. */
static uint32_t place_within(placing *p, uint32_t turn, uint64_t target) {
    for (uint32_t k = turn; k < p->count; k++) {
        const waiting *next = &p->queue[k];
        if (!(next->high ? put_highest : put_lowest)(p->stack, k, next, target,
                                                     &p->offsets[next->index]))
            return k;
    }
    return p->count;
}

/* All are placed: keep the result. */
static void keep_placed(placing *p) {
    uint64_t arena = 0;
    for (uint32_t i = 0; i < p->count; i++)
        arena = CRN_MAX(arena, p->offsets[i] + p->lifetimes[i].bytes);
    keep_best(p, arena);
}

/* Place all in the present order, with a comparison of every pair; keep the result if it is the
 * best so far. Ends early when it cannot be. */
static void place_all(placing *p) {
    queue_up(p, p->order);
    if (place_within(p, 0, p->best) == p->count)
        keep_placed(p);
}

/* The same; there are quick algorithms for many, and a quicker one for the longest first. */
static cairn_status place_ordered(placing *p, int order, crn_arena *scratch) {
    uint64_t arena;
    bool sparse = order == BY_DURATION && p->count / SPARSE > p->most_alive;
    if (!sparse && p->count <= FEW) {
        place_all(p);
        return CAIRN_OK;
    }
    CRN_TRY(
        sparse ? crn_place_long_first(scratch, p->lifetimes, p->order, p->count, p->offsets, &arena)
               : crn_place_in_windows(scratch, p->lifetimes, p->order, p->count, p->best,
                                      p->offsets, &arena));
    if (arena <= p->best)
        keep_best(p, arena);
    return CAIRN_OK;
}

/* Close enough to stop searching: within a thousandth of the live peak. */
static bool good_enough(const placing *p) {
    return p->best <= p->enough || p->best - p->peak <= p->peak / 1000;
}

/* The place in the queue of something that is live with what stands at place k: one of those before
 * it that may be moved, drawn at random; k where there is none. It is the last of `draws`: with
 * several, little is placed again, and most of what fits already stays. */
static uint32_t draw_rival(const waiting *queue, uint32_t k, uint32_t draws, crn_rng *rng) {
    uint32_t first = queue[k].first, last = queue[k].last, count = 0, drawn = 0;
    for (const waiting *other = queue; other < queue + k; other++)
        count += (other->first <= last) & (other->last >= first) & !other->framed;
    if (count == 0)
        return k;
    for (uint32_t i = 0; i < draws; i++) {
        uint32_t next = (uint32_t)crn_rng_below(rng, count);
        drawn = CRN_MAX(drawn, next);
    }
    for (uint32_t later = count - drawn; later > 0;) { /* most often one of the last */
        k--;
        later -= (queue[k].first <= last) & (queue[k].last >= first) & !queue[k].framed;
    }
    return k;
}

/* Take away what was placed at `turn` or later. */
static void unwind(placed *stack, uint32_t count, uint32_t turn) {
    placed *left = stack;
    for (const placed *p = stack; p < stack + count; p++) {
        placed kept = *p; /* a copy: to read it after the store would be to wait for that */
        *left = kept;
        left += kept.turn < turn;
    }
}

/* Aim at an arena of `target` bytes: a lifetime that does not fit is moved before one of its
 * rivals, whatever the effect on others, and placing continues from there. A round is short: it
 * begins at the rival and ends at the first that does not fit. Late rivals and any rivals take
 * turns: the first finish an order that is nearly good, the others change its beginning. */
static void aim(placing *p, uint64_t target, uint64_t work, crn_rng *rng) {
    if (p->best <= target)
        return;
    queue_up(p, p->start);
    uint32_t turn = 0, rounds = 0;
    for (uint64_t done = 0; done < work;) {
        uint32_t k = place_within(p, turn, target);
        done += (uint64_t)(k + turn + 1) * (k - turn + 1) / 2 + k + 100;
        if (k == p->count) {
            for (uint32_t i = 0; i < p->count; i++)
                p->order[i] = p->queue[i].index;
            if (p->frame > 0)
                keep_placed(p);
            else
                place_all(p);
            return;
        }
        uint32_t draws = rounds++ / PHASE % 2 == 0 ? LATE_DRAWS : 1;
        uint32_t to = draw_rival(p->queue, k, draws, rng);
        if (to == k) /* the frame leaves no room for it */
            return;
        waiting moved = p->queue[k];
        memmove(p->queue + to + 1, p->queue + to, (k - to) * sizeof moved);
        p->queue[to] = moved;
        unwind(p->stack, k, to);
        turn = to;
    }
}

/* Aim at the live peak and a share of it, the `share`-th, 0: at the peak alone. Returns whether it
 * is reached. */
static bool aim_at(placing *p, uint32_t share, uint64_t work, crn_rng *rng) {
    uint64_t all = (uint64_t)p->count * p->count * WHOLE_ROUNDS;
    uint64_t target = p->peak + (share == 0 ? 0 : p->peak / share);
    aim(p, target, CRN_MIN(work, all), rng);
    return p->best <= target;
}

/* Sizes above the promised one. */
static const uint32_t more[] = {50, 25, 12};

/* A brief search aims at the promised size, or at a larger one that is enough. */
static void search_briefly(placing *p) {
    uint32_t share = PROMISE;
    crn_rng rng = {0};
    for (uint32_t i = 0; i < CRN_LENGTH(more); i++)
        if (p->peak + p->peak / more[i] <= p->enough)
            share = more[i];
    aim_at(p, share, WORK, &rng);
}

/* Search for less than the promised size, starting with the least; with many lifetimes, which take
 * long, with the largest, as long as it is reached. */
static void search_for_less(placing *p) {
    static const uint32_t less[] = {0, 1000, 500, 250};
    bool slow = p->count > LARGE, reached = true;
    crn_rng rng = {0};
    for (uint32_t i = 0; i < CRN_LENGTH(less) && reached && p->best > p->enough; i++)
        reached = aim_at(p, less[slow ? CRN_LENGTH(less) - 1 - i : i], WORK, &rng) || !slow;
}

static void aim_in_frame(placing *p, uint32_t frame, uint64_t target, uint64_t work,
                         keyed *sorting) {
    if (p->best <= target || target < p->peak)
        return;
    p->frame = frame;
    for (uint32_t i = 0; i < p->count; i++)
        p->keys[i] = frame_key(p, &p->lifetimes[i]);
    sort_by_keys(p, sorting);
    memcpy(p->start, p->order, p->count * sizeof *p->start);
    crn_rng rng = {0};
    aim(p, target, work, &rng);
}

/* What is placed from the top of such a size is aligned. */
static uint64_t aligned(uint64_t size) {
    return size & ~(uint64_t)(UNIT - 1);
}

/* Aim at `target` bytes in frames of what lives for a fourth, or for an eighth, of the steps. */
static bool aim_in_frames(placing *p, uint64_t target, uint64_t work, keyed *sorting) {
    static const uint32_t frames[] = {4, 8};
    for (uint32_t i = 0; i < CRN_LENGTH(frames); i++)
        aim_in_frame(p, frames[i], target, work, sorting);
    return p->best <= target;
}

/* Halve what is between the arena and the live peak, as often as it can be, in these frames or with
 * `ends` only what stays at the top. */
static void halve(placing *p, bool ends, uint64_t work, keyed *sorting) {
    for (uint64_t low = p->peak; p->best - low > CRN_MAX(p->peak / CLOSE, 2 * UNIT);) {
        uint64_t middle = aligned(low + (p->best - low) / 2);
        if (ends)
            aim_in_frame(p, ENDS, middle, work, sorting);
        else
            aim_in_frames(p, middle, work, sorting);
        if (p->best > middle)
            low = middle;
    }
}

/* If the promised size can be reached, search for less; otherwise in frames. Where these do not
 * reach it either, for more and more. */
static void search(placing *p, keyed *sorting) {
    uint64_t promise = crn_layout_promise(p->peak);
    crn_rng rng = {0};
    if (aim_at(p, PROMISE, p->count <= LARGE ? PROMISE_WORK : LARGE_WORK, &rng)) {
        search_for_less(p);
        return;
    }
    halve(p, false, WORK, sorting);
    if (p->best > promise && aim_in_frames(p, aligned(promise), PROMISE_WORK, sorting))
        halve(p, false, PROMISE_WORK, sorting);
    if (p->best <= promise)
        return;
    p->frame = 0;
    memcpy(p->start, p->best_order, p->count * sizeof *p->start);
    rng = (crn_rng){0};
    for (uint32_t i = 0; i < CRN_LENGTH(more) && !good_enough(p); i++)
        aim_at(p, more[i], WORK, &rng);
    halve(p, true, PROMISE_WORK, sorting);
}

static cairn_status place(placing *p, crn_arena *scratch) {
    keyed *work;
    CRN_TAKE(scratch, work, p->count);
    CRN_TAKE(scratch, p->order, p->count);
    CRN_TAKE(scratch, p->best_order, p->count);
    CRN_TAKE(scratch, p->start, p->count);
    CRN_TAKE(scratch, p->stack, p->count + 1);
    CRN_TAKE(scratch, p->queue, p->count);
    CRN_TAKE(scratch, p->offsets, p->count);
    CRN_TAKE(scratch, p->keys, p->count);
    for (int order = 0; order < ORDERS; order++) {
        if (order > 0 && p->best <= CRN_MAX(p->peak, p->enough))
            break;
        for (uint32_t i = 0; i < p->count; i++)
            p->keys[i] = key_of(&p->lifetimes[i], order);
        sort_by_keys(p, work);
        CRN_TRY(place_ordered(p, order, scratch));
        if (order == BY_AREA)
            memcpy(p->start, p->order, p->count * sizeof *p->start);
        if (p->count > CRN_LAYOUT_LOTS || (p->count > FEW && good_enough(p)))
            break;
    }
    if (p->count <= LARGE)
        memcpy(p->start, p->best_order, p->count * sizeof *p->start);
    if (p->count <= (p->brief ? LARGE : MANY) && !good_enough(p)) {
        if (p->brief)
            search_briefly(p);
        else
            search(p, work);
    }
    return CAIRN_OK;
}

static cairn_status fill(kept_layout *layout, const cairn_lifetime *lifetimes, uint64_t enough,
                         bool brief) {
    crn_arena scratch;
    crn_arena_init(&scratch, &layout->arena.allocator);
    placing p = {.lifetimes = lifetimes, .count = layout->seen.count, .best = UINT64_MAX};
    p.enough = enough;
    p.brief = brief;
    CRN_TAKE(&layout->arena, p.best_offsets, layout->seen.count);
    layout->seen.offsets = p.best_offsets;
    cairn_status status = find_peak(&p, &scratch);
    if (status == CAIRN_OK)
        status = place(&p, &scratch);
    layout->seen.arena_bytes = layout->seen.count > 0 ? p.best : 0;
    crn_arena_release(&scratch);
    return status;
}

cairn_status cairn_layout_create(const cairn_allocator *allocator, const cairn_lifetime *lifetimes,
                                 uint32_t count, cairn_layout **out, cairn_error *err) {
    return crn_layout_search(allocator, lifetimes, count, 0, false, out, err);
}

cairn_status crn_layout_search(const cairn_allocator *allocator, const cairn_lifetime *lifetimes,
                               uint32_t count, uint64_t enough, bool brief, cairn_layout **out,
                               cairn_error *err) {
    *out = NULL;
    crn_error_clear(err);
    kept_layout *layout = CRN_OBJECT(allocator, kept_layout, arena);
    if (layout == NULL)
        return crn_fail_memory(err);
    layout->seen.count = count;
    if (fill(layout, lifetimes, enough, brief) != CAIRN_OK) {
        cairn_layout_destroy(&layout->seen);
        return crn_fail_memory(err);
    }
    *out = &layout->seen;
    return CAIRN_OK;
}

cairn_status crn_layout_of(const cairn_allocator *allocator, uint64_t arena_bytes,
                           const uint64_t *offsets, uint32_t count, cairn_layout **out,
                           cairn_error *err) {
    kept_layout *layout = CRN_OBJECT(allocator, kept_layout, arena);
    uint64_t *copy = layout == NULL ? NULL : crn_arena_take(&layout->arena, count, sizeof *offsets);
    if (copy == NULL) {
        cairn_layout_destroy((cairn_layout *)layout);
        return crn_fail_memory(err);
    }
    memcpy(copy, offsets, count * sizeof *offsets);
    layout->seen = (cairn_layout){.arena_bytes = arena_bytes, .offsets = copy, .count = count};
    *out = &layout->seen;
    return CAIRN_OK;
}

void cairn_layout_destroy(cairn_layout *layout) {
    if (layout == NULL)
        return;
    crn_arena_destroy(&((kept_layout *)layout)->arena);
}

uint64_t cairn_layout_address(const cairn_layout *layout, const cairn_sim *sim, uint32_t step,
                              uint32_t operand) {
    uint32_t lifetime = crn_sim_operand(sim, step, operand);
    return lifetime == CAIRN_NONE ? CAIRN_NO_ADDRESS : layout->offsets[lifetime];
}
