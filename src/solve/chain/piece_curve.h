/* piece_curve.h: the least cost as a function of memory, a falling step function.
 *
 *     cost
 *      |  o-----.
 *      |        o---.          points: memory rises, cost strictly falls;
 *      |            o-------   left of the first point nothing is feasible
 *      +------------------------ memory
 */
#ifndef CRN_PIECE_CURVE_H
#define CRN_PIECE_CURVE_H

#include "base/crn_base.h"

#define CRN_CURVE_NEVER INT64_MAX /* the cost left of the first point */

typedef struct crn_curve_point {
    uint64_t memory;
    int64_t cost;
} crn_curve_point;

typedef struct crn_curve {
    const crn_curve_point *points;
    uint32_t count;
} crn_curve;

/* The cost at `memory`, or CRN_CURVE_NEVER. O(log points). */
int64_t crn_curve_at(crn_curve curve, uint64_t memory);

/* From `low` up to, not including, `end`; {0, 0} is nothing. */
typedef struct crn_span {
    uint64_t low, end;
} crn_span;

#define CRN_SPAN_ALL ((crn_span){0, UINT64_MAX})

/* From the first to the last memory within `span` at which  base + low(m - shift) + high(m)  is at
 * most limit(m). `high` may be NULL: then it is 0. O(points of all). */
crn_span crn_curve_sum_below(crn_curve low, uint64_t shift, const crn_curve *high, int64_t base,
                             crn_curve limit, crn_span span);

/* A curve that is being built: the minimum of everything that was added to it. */
typedef struct crn_envelope {
    crn_arena *arena;
    crn_curve_point *points, *spare;
    uint32_t count, capacity;
    crn_span span; /* the memory that matters: left of it the function is not known, right of it
                       the function may be too high */
    uint64_t tolerance; /* of the last thinning; the next search starts with it */
} crn_envelope;

void crn_envelope_init(crn_envelope *envelope, crn_arena *arena);

/* Add the single step (memory, cost). */
CAIRN_MUST cairn_status crn_envelope_add_point(crn_envelope *envelope, uint64_t memory,
                                               int64_t cost);

/* Add the function base + low(m - shift) + high(m) for m >= from. `high` may be NULL: then it is 0.
 * O(points of both and of the envelope), less where it cannot improve the envelope. */
CAIRN_MUST cairn_status crn_envelope_add_sum(crn_envelope *envelope, crn_curve low, uint64_t shift,
                                             const crn_curve *high, int64_t base, uint64_t from);

/* Reduce to `limit` points (at least 2). Upwards, a subset of the points stays, with the first and
 * the last, so that each is still attained. Downwards, neighbours are replaced by a point that is
 * as good as each of them, so that the result is nowhere above the true function. In both cases the
 * largest relative error is about the least possible. Returns whether a point was removed. */
bool crn_envelope_thin(crn_envelope *envelope, uint32_t limit, bool downwards);

/* The result, copied into `arena`; the envelope is empty again. */
CAIRN_MUST cairn_status crn_envelope_take(crn_envelope *envelope, crn_arena *arena, crn_curve *out);

#endif
