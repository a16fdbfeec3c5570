/* piece_curve.c: lower envelopes of sums of step functions, and their thinning.
 *
 * Invariant of an envelope: memory strictly rises and cost strictly falls from point to point. */
#include "solve/chain/piece_curve.h"

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
    *envelope = (crn_envelope){.arena = arena, .span = CRN_SPAN_ALL};
}

/* Make room for `count` points in both buffers. */
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

/* A walk over the sum of two curves, from left to right. `memory` is where the current step
 * begins. */
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

/* Start the walk at the first memory where the sum is defined; false if it is defined nowhere. */
static bool walk_start(walk *w, crn_curve low, uint64_t shift, const crn_curve *high, int64_t base,
                       crn_span span) {
    if (low.count == 0 || (high != NULL && high->count == 0))
        return false;
    *w = (walk){.low = low.points, .low_end = low.points + low.count, .shift = shift, .base = base};
    w->high = high != NULL ? high->points : &zero_point;
    w->high_end = w->high + (high != NULL ? high->count : 1);
    uint64_t memory = CRN_MAX(span.low, low.points[0].memory + shift);
    memory = CRN_MAX(memory, w->high->memory);
    if (memory >= span.end)
        return false;
    w->low += points_within(w->low, low.count, memory - shift) - 1;
    if (high != NULL)
        w->high += points_within(w->high, high->count, memory) - 1;
    w->memory = memory;
    w->cost = base + w->low->cost + w->high->cost;
    return true;
}

crn_span crn_curve_sum_below(crn_curve low, uint64_t shift, const crn_curve *high, int64_t base,
                             crn_curve limit, crn_span span) {
    crn_span below = {0, 0};
    const crn_curve_point *at = limit.points, *last = limit.points + limit.count;
    walk w;
    if (!walk_start(&w, low, shift, high, base, span))
        return below;
    for (;;) {
        while (at < last && at->memory <= w.memory)
            at++;
        uint64_t next = CRN_MIN(walk_next(&w), at < last ? at->memory : UINT64_MAX);
        next = CRN_MIN(next, span.end);
        if (at == limit.points || w.cost <= at[-1].cost)
            below = (crn_span){below.end == 0 ? w.memory : below.low, next};
        if (next == span.end)
            return below;
        walk_to(&w, next);
    }
}

/* The first of `count` sorted points from `from` on whose memory is above `memory`. */
static const crn_curve_point *first_above(const crn_curve_point *from, uint32_t count,
                                          uint64_t memory) {
    return from + points_within(from, count, memory);
}

static uint32_t ahead(const crn_curve_point *at, const crn_curve_point *end, uint32_t stride) {
    return (uint32_t)CRN_MIN((ptrdiff_t)stride, end - at);
}

/* Skip up to `stride` steps of both curves at once if none of them costs less than `cost`. Costs
 * fall, so it is enough to check the last one:
 *
 *     low   o . . . . . . x |          the sum before the nearer of the two bars
 *     high  o . . . x |                is at least the sum of the two x
 */
static bool walk_skip(walk *w, uint32_t stride, int64_t cost, uint64_t end) {
    uint32_t low = ahead(w->low, w->low_end, stride), high = ahead(w->high, w->high_end, stride);
    if (w->base + w->low[low - 1].cost + w->high[high - 1].cost < cost)
        return false;
    uint64_t next = UINT64_MAX;
    if (w->low + low < w->low_end)
        next = w->low[low].memory + w->shift;
    if (w->high + high < w->high_end && w->high[high].memory < next)
        next = w->high[high].memory;
    w->memory = next;
    if (next >= end)
        return true;
    w->low =
        first_above(w->low, CRN_MIN(low + 1, (uint32_t)(w->low_end - w->low)), next - w->shift) - 1;
    w->high = first_above(w->high, CRN_MIN(high + 1, (uint32_t)(w->high_end - w->high)), next) - 1;
    w->cost = w->base + w->low->cost + w->high->cost;
    return true;
}

/* Advance the walk to its first step that begins before `end` and lies below the envelope. The
 * envelope points before `at` lie at or left of the walk. Returns the new `at`, or NULL if there is
 * no such step. */
static const crn_curve_point *walk_to_improvement(walk *w, const crn_envelope *e,
                                                  const crn_curve_point *at, uint64_t end) {
    const crn_curve_point *last = e->points + e->count;
    while (w->memory < end) {
        while (last - at > 16 && at[16].memory <= w->memory)
            at += 16;
        while (at < last && at->memory <= w->memory)
            at++;
        if (at == e->points || w->cost < at[-1].cost)
            return at;
        if (walk_skip(w, 64, at[-1].cost, end) || walk_skip(w, 8, at[-1].cost, end))
            continue;
        uint64_t next = walk_next(w);
        if (next >= end)
            return NULL;
        walk_to(w, next);
    }
    return NULL;
}

/* The walk is below the envelope here; `*at` is the first envelope point right of it. Write the
 * steps of the walk to `out` as long as they stay below, then the envelope point that lies below
 * them, if any. Move `*at` past all envelope points that were passed. */
static crn_curve_point *write_improvement(walk *w, const crn_curve_point **at,
                                          const crn_curve_point *last, uint64_t end,
                                          crn_curve_point *out) {
    const crn_curve_point *old = *at;
    *out++ = (crn_curve_point){w->memory, w->cost};
    for (;;) {
        uint64_t next = walk_next(w);
        while (old < last && old->memory < next && old->cost >= w->cost)
            old++;
        if (old < last && old->memory < next) { /* the envelope is lower and continues from here */
            *out++ = *old++;
            break;
        }
        if (next >= end) {
            w->memory = end; /* the walk has ended */
            break;
        }
        walk_to(w, next);
        if (old < last && old->memory == next) {
            if (old->cost <= w->cost) {
                *out++ = *old++;
                break;
            }
            old++;
        }
        *out++ = (crn_curve_point){next, w->cost};
    }
    *at = old;
    return out;
}

/* Replace `used` points at `place` by `count` points of the spare buffer. */
static void splice(crn_envelope *e, size_t place, size_t used, size_t count) {
    size_t tail = e->count - place - used;
    if (used != count)
        memmove(e->points + place + count, e->points + place + used, tail * sizeof *e->points);
    memcpy(e->points + place, e->spare, count * sizeof *e->points);
    e->count = (uint32_t)(place + count + tail);
}

/* Write the span of the envelope that changes to the spare buffer, and put it back in place. `at`
 * is the first envelope point right of the walk's first improvement. */
static void merge(crn_envelope *e, walk *w, uint64_t end, const crn_curve_point *at) {
    const crn_curve_point *last = e->points + e->count;
    const crn_curve_point *from = at; /* the span begins here */
    if (from > e->points && from[-1].memory == w->memory)
        from--;
    crn_curve_point *out = e->spare;
    const crn_curve_point *seen; /* everything before it was written or passed */
    do {
        out = write_improvement(w, &at, last, end, out);
        seen = at;
        at = walk_to_improvement(w, e, seen, end);
        if (at != NULL) { /* the points between stay, unless the improvement replaces the last */
            size_t between = (size_t)(at - seen);
            memcpy(out, seen, between * sizeof *out);
            out += between;
            if (out > e->spare && out[-1].memory == w->memory)
                out--;
        }
    } while (at != NULL);
    splice(e, (size_t)(from - e->points), (size_t)(seen - from), (size_t)(out - e->spare));
}

cairn_status crn_envelope_add_sum(crn_envelope *envelope, crn_curve low, uint64_t shift,
                                  const crn_curve *high, int64_t base, uint64_t from) {
    walk w;
    crn_span span = envelope->span;
    span.low = CRN_MAX(span.low, from);
    if (!walk_start(&w, low, shift, high, base, span))
        return CAIRN_OK;
    /* The sum never falls below its last value, so it cannot improve the envelope beyond the point
     * where the envelope reaches that value. */
    int64_t least = base + w.low_end[-1].cost + w.high_end[-1].cost;
    uint32_t above = points_above(envelope->points, envelope->count, least);
    uint64_t end = span.end;
    if (above < envelope->count)
        end = CRN_MIN(end, envelope->points[above].memory);
    if (w.memory >= end)
        return CAIRN_OK;
    uint64_t most = (uint64_t)envelope->count + low.count + (high != NULL ? high->count : 0) + 1;
    CRN_TRY(reserve(envelope, most));
    const crn_curve_point *at = first_above(envelope->points, envelope->count, w.memory);
    at = walk_to_improvement(&w, envelope, at, end);
    if (at != NULL)
        merge(envelope, &w, end, at);
    return CAIRN_OK;
}

cairn_status crn_envelope_add_point(crn_envelope *envelope, uint64_t memory, int64_t cost) {
    crn_curve_point point = {memory, cost};
    return crn_envelope_add_sum(envelope, (crn_curve){&point, 1}, 0, NULL, 0, 0);
}

/* ---- Thinning ---- */

__extension__ typedef unsigned __int128 wide;

#define TOLERANCE_ONE ((uint64_t)1 << 24) /* a relative error of 1 */

/* Whether `high` <= `low` * (1 + tolerance). */
static bool close_enough(int64_t high, int64_t low, uint64_t tolerance) {
    return (wide)(uint64_t)high * TOLERANCE_ONE <=
           (wide)(uint64_t)low * (TOLERANCE_ONE + tolerance);
}

/* One pass with a given tolerance. Upwards: a point is removed if the last one that stayed costs
 * little more. Downwards: a group of points becomes (memory of the first, cost of the last). Writes
 * to `out` unless it is NULL. Returns the number of points that remain. */
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
    const crn_curve_point *points = envelope->points;
    /* The least tolerance that is enough lies in (low, high]; neighbouring curves need similar
     * ones. */
    uint64_t high = CRN_MAX(envelope->tolerance, 1), low = high / 2;
    while (high < (uint64_t)1 << 62 &&
           thin_pass(points, envelope->count, high, downwards, NULL) > limit) {
        low = high;
        high *= 2;
    }
    while (low > 0 && thin_pass(points, envelope->count, low, downwards, NULL) <= limit) {
        high = low;
        low /= 2;
    }
    while (high - low > 1 + high / 8) {
        uint64_t middle = low + (high - low) / 2;
        if (thin_pass(points, envelope->count, middle, downwards, NULL) > limit)
            low = middle;
        else
            high = middle;
    }
    envelope->tolerance = high;
    envelope->count =
        thin_pass(envelope->points, envelope->count, high, downwards, envelope->spare);
    crn_curve_point *thinned = envelope->spare;
    envelope->spare = envelope->points;
    envelope->points = thinned;
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
