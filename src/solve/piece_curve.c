/* piece_curve.c: lower envelopes of sums of step functions, and their thinning.
 *
 * Invariant of an envelope: memory strictly rises and cost strictly falls from point to point. */
#include "solve/piece_curve.h"

/* The number of points with memory <= `memory`. */
static uint32_t points_within(const crn_curve_point *points, uint32_t count, uint64_t memory) {
    uint32_t low = 0;
    while (count > 0) {
        uint32_t half = count / 2;
        if (points[low + half].memory <= memory) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

/* The number of points with cost > `cost`. */
static uint32_t points_above(const crn_curve_point *points, uint32_t count, int64_t cost) {
    uint32_t low = 0;
    while (count > 0) {
        uint32_t half = count / 2;
        if (points[low + half].cost > cost) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

int64_t crn_curve_at(crn_curve curve, uint64_t memory) {
    uint32_t within = points_within(curve.points, curve.count, memory);
    return within == 0 ? CRN_CURVE_NEVER : curve.points[within - 1].cost;
}

void crn_envelope_init(crn_envelope *envelope, crn_arena *arena) {
    *envelope = (crn_envelope){.arena = arena, .cap = UINT64_MAX};
}

/* Room for `count` points in both buffers. */
static cairn_status reserve(crn_envelope *envelope, uint64_t count) {
    if (count <= envelope->capacity)
        return CAIRN_OK;
    if (count > UINT32_MAX / 4)
        return crn_fail_memory(NULL);
    uint32_t capacity = CRN_MAX(2 * (uint32_t)count, 256);
    crn_curve_point *points, *spare;
    CRN_TAKE(envelope->arena, points, capacity);
    CRN_TAKE(envelope->arena, spare, capacity);
    if (envelope->count > 0)
        memcpy(points, envelope->points, envelope->count * sizeof *points);
    envelope->points = points;
    envelope->spare = spare;
    envelope->capacity = capacity;
    return CAIRN_OK;
}

/* A sum of two curves, walked from left to right: `memory` is where the current step begins. */
typedef struct walk {
    const crn_curve_point *low, *low_end, *high, *high_end; /* the current points and the ends */
    uint64_t shift, memory;
    int64_t base, cost;
} walk;

static const crn_curve_point zero_point = {0, 0};

/* The beginning of the next step, or UINT64_MAX past the last. */
static uint64_t walk_next(const walk *w) {
    uint64_t next = UINT64_MAX;
    if (w->low + 1 < w->low_end)
        next = w->low[1].memory + w->shift;
    if (w->high + 1 < w->high_end && w->high[1].memory < next)
        next = w->high[1].memory;
    return next;
}

static void walk_to(walk *w, uint64_t memory) {
    if (w->low + 1 < w->low_end && w->low[1].memory + w->shift <= memory)
        w->low++;
    if (w->high + 1 < w->high_end && w->high[1].memory <= memory)
        w->high++;
    w->memory = memory;
    w->cost = w->base + w->low->cost + w->high->cost;
}

/* Start the walk at the first memory where the sum is defined; false where it is nowhere. */
static bool walk_start(walk *w, crn_curve low, uint64_t shift, const crn_curve *high, int64_t base,
                       uint64_t from, uint64_t cap) {
    if (low.count == 0 || (high != NULL && high->count == 0))
        return false;
    *w = (walk){.low = low.points, .low_end = low.points + low.count, .shift = shift, .base = base};
    w->high = high != NULL ? high->points : &zero_point;
    w->high_end = w->high + (high != NULL ? high->count : 1);
    uint64_t memory = CRN_MAX(from, low.points[0].memory + shift);
    memory = CRN_MAX(memory, w->high->memory);
    if (memory > cap)
        return false;
    w->low += points_within(w->low, low.count, memory - shift) - 1;
    if (high != NULL)
        w->high += points_within(w->high, high->count, memory) - 1;
    w->memory = memory;
    w->cost = base + w->low->cost + w->high->cost;
    return true;
}

/* Advance the walk to its first step that begins before `end` and lies below the envelope;
 * `*place` is then the number of envelope points at or left of it. False when there is none. */
static bool walk_to_improvement(walk *w, const crn_envelope *e, uint64_t end, uint32_t *place) {
    uint32_t at = points_within(e->points, e->count, w->memory);
    for (;;) {
        /* The step is below the envelope where it begins, or it may become so nowhere: the
         * envelope only falls along it. */
        if (at == 0 || w->cost < e->points[at - 1].cost) {
            *place = at;
            return true;
        }
        uint64_t next = walk_next(w);
        if (next >= end)
            return false;
        walk_to(w, next);
        while (at < e->count && e->points[at].memory <= next)
            at++;
    }
}

/* Merge the rest of the walk with envelope points from `place` on into the spare buffer, until the
 * walk ends (at `end`, or its last step). Returns the number of points written; `*used` is the
 * number of envelope points that they replace. */
static uint32_t merge(crn_envelope *e, walk *w, uint64_t end, uint32_t place, uint32_t *used) {
    crn_curve_point *out = e->spare;
    const crn_curve_point *old = e->points + place, *old_end = e->points + e->count;
    uint32_t count = 0;
    int64_t best = CRN_CURVE_NEVER; /* least so far in this stretch */
    uint64_t next = w->memory;
    if (place > 0) {
        best = e->points[place - 1].cost;
        if (e->points[place - 1].memory == w->memory) { /* replaced by the better one here */
            old--;
            place--;
        }
    }
    while (next < end) {
        walk_to(w, next);
        while (old < old_end && old->memory < next) {
            if (old->cost < best) {
                out[count++] = *old;
                best = old->cost;
            }
            old++;
        }
        int64_t cost = w->cost;
        if (old < old_end && old->memory == next) {
            cost = CRN_MIN(cost, old->cost);
            old++;
        }
        if (cost < best) {
            out[count++] = (crn_curve_point){next, cost};
            best = cost;
        }
        next = walk_next(w);
    }
    /* What is left of the envelope counts from where it falls below the walk's last step. */
    while (old < old_end && old->cost >= best)
        old++;
    *used = (uint32_t)(old - (e->points + place));
    return count;
}

/* Put `count` points of the spare buffer in place of `used` points at `place`. */
static void splice(crn_envelope *e, uint32_t place, uint32_t used, uint32_t count) {
    uint32_t tail = e->count - place - used;
    memmove(e->points + place + count, e->points + place + used, tail * sizeof *e->points);
    memcpy(e->points + place, e->spare, count * sizeof *e->points);
    e->count = place + count + tail;
}

cairn_status crn_envelope_add_sum(crn_envelope *envelope, crn_curve low, uint64_t shift,
                                  const crn_curve *high, int64_t base, uint64_t from) {
    walk w;
    if (!walk_start(&w, low, shift, high, base, from, envelope->cap))
        return CAIRN_OK;
    /* The sum never falls below its last value, so it cannot improve beyond the point where the
     * envelope reaches that. */
    int64_t least = base + w.low_end[-1].cost + w.high_end[-1].cost;
    uint32_t above = points_above(envelope->points, envelope->count, least);
    uint64_t end = envelope->cap == UINT64_MAX ? UINT64_MAX : envelope->cap + 1;
    if (above < envelope->count)
        end = CRN_MIN(end, envelope->points[above].memory);
    uint32_t place;
    if (w.memory >= end || !walk_to_improvement(&w, envelope, end, &place))
        return CAIRN_OK;
    uint64_t most = (uint64_t)envelope->count + low.count + (high != NULL ? high->count : 0) + 1;
    CRN_TRY(reserve(envelope, most));
    uint32_t used = 0;
    bool replaces = place > 0 && envelope->points[place - 1].memory == w.memory;
    uint32_t count = merge(envelope, &w, end, place, &used);
    splice(envelope, place - replaces, used, count);
    return CAIRN_OK;
}

cairn_status crn_envelope_add_point(crn_envelope *envelope, uint64_t memory, int64_t cost) {
    crn_curve_point point = {memory, cost};
    return crn_envelope_add_sum(envelope, (crn_curve){&point, 1}, 0, NULL, 0, 0);
}

/* ---- Thinning ---- */

__extension__ typedef unsigned __int128 wide;

#define TOLERANCE_ONE ((uint64_t)1 << 24) /* a relative error of 1 */

/* Is `high` <= `low` * (1 + tolerance)? */
static bool close_enough(int64_t high, int64_t low, uint64_t tolerance) {
    return (wide)(uint64_t)high * TOLERANCE_ONE <=
           (wide)(uint64_t)low * (TOLERANCE_ONE + tolerance);
}

/* One pass with a given tolerance. Upwards: a point may go while the last one that stayed costs
 * little more. Downwards: a group becomes (memory of its first, cost of its last). Writes to `out`
 * unless NULL; returns the number of points that remain. */
static uint32_t thin_pass(const crn_curve_point *points, uint32_t count, uint64_t tolerance,
                          bool downwards, crn_curve_point *out) {
    uint32_t kept = 0, first = 0;
    while (first < count) {
        uint32_t next = first + 1;
        while (next < count && close_enough(points[first].cost, points[next].cost, tolerance))
            next++;
        if (!downwards && next == count && first + 1 < count && first != count - 1)
            next = count - 1; /* the last point always stays */
        if (out != NULL) {
            out[kept] = points[first];
            if (downwards)
                out[kept].cost = points[next - 1].cost;
        }
        kept++;
        first = next;
    }
    return kept;
}

bool crn_envelope_thin(crn_envelope *envelope, uint32_t limit, bool downwards) {
    if (envelope->count <= limit)
        return false;
    uint64_t low = 0, high = 1; /* the least tolerance that suffices is in (low, high] */
    while (high < (uint64_t)1 << 62 &&
           thin_pass(envelope->points, envelope->count, high, downwards, NULL) > limit) {
        low = high;
        high *= 2;
    }
    while (high - low > 1 + high / 64) {
        uint64_t middle = low + (high - low) / 2;
        if (thin_pass(envelope->points, envelope->count, middle, downwards, NULL) > limit)
            low = middle;
        else
            high = middle;
    }
    envelope->count =
        thin_pass(envelope->points, envelope->count, high, downwards, envelope->spare);
    crn_curve_point *points = envelope->spare;
    envelope->spare = envelope->points;
    envelope->points = points;
    return true;
}

cairn_status crn_envelope_take(crn_envelope *envelope, crn_arena *arena, crn_curve *out) {
    crn_curve_point *points;
    CRN_TAKE(arena, points, envelope->count);
    if (envelope->count > 0)
        memcpy(points, envelope->points, envelope->count * sizeof *points);
    *out = (crn_curve){points, envelope->count};
    envelope->count = 0;
    return CAIRN_OK;
}
