/* regions.c: several regions of a step under one budget.
 *
 * While region i runs, the regions before it hold what they saved. So only the sum of what was
 * saved matters for the next regions. Region by region, a front of (sum saved, time) is kept: for
 * each sum the least time, without dominated points:
 *
 *     front of regions 0 .. i-1   x   ways of i that fit   ->   front of regions 0 .. i
 *
 * The result is exact. The smallest budget is found by bisection. */
#include "base/crn_base.h"
#include "cairn/arrays.h"

#include <stdlib.h>

typedef struct reached {
    uint64_t saved;
    int64_t time;
    uint32_t way, before; /* how it was reached: the way, and the point of the front before */
} reached;

typedef struct front {
    reached *points;
    uint32_t count;
} front;

typedef struct choosing {
    const uint32_t *first;
    const cairn_region_way *ways;
    uint32_t regions;
    crn_arena *arena;
    front *fronts; /* regions + 1 of them; the first is the start */
} choosing;

static int compare_reached(const void *a, const void *b) {
    const reached *x = a, *y = b;
    if (x->saved != y->saved)
        return x->saved < y->saved ? -1 : 1;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->before != y->before)
        return x->before < y->before ? -1 : 1;
    return (x->way > y->way) - (x->way < y->way);
}

/* Sort by what is saved, and drop points that take longer than a point that saves no more. */
static uint32_t thin(reached *points, uint32_t count) {
    uint32_t kept = 0;
    if (count > 0)
        qsort(points, count, sizeof *points, compare_reached);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || points[i].time < points[kept - 1].time)
            points[kept++] = points[i];
    return kept;
}

static cairn_status extend(choosing *c, uint32_t region, uint64_t budget) {
    const front *before = &c->fronts[region];
    CRN_ARRAY(reached) points = {0};
    for (uint32_t p = 0; p < before->count; p++)
        for (uint32_t w = c->first[region]; w < c->first[region + 1]; w++) {
            uint64_t most, saved;
            if (!crn_add_u64(before->points[p].saved, c->ways[w].peak_bytes, &most) ||
                !crn_add_u64(before->points[p].saved, c->ways[w].saved_bytes, &saved) ||
                most > budget)
                continue;
            reached next = {saved, crn_add_time(before->points[p].time, c->ways[w].time_ns),
                            w - c->first[region], p};
            CRN_PUSH(c->arena, points, next);
        }
    c->fronts[region + 1] = (front){points.data, thin(points.data, points.length)};
    return CAIRN_OK;
}

static cairn_status reach(choosing *c, uint64_t budget, bool *fits) {
    reached *start;
    CRN_TAKE(c->arena, start, 1);
    CRN_TAKE(c->arena, c->fronts, (size_t)c->regions + 1);
    c->fronts[0] = (front){start, 1};
    for (uint32_t r = 0; r < c->regions; r++)
        CRN_TRY(extend(c, r, budget));
    *fits = c->fronts[c->regions].count > 0;
    return CAIRN_OK;
}

/* The smallest way of every region does not always give the smallest budget: a way that needs
 * little while it runs may save more. So the budget is found by bisection. */
static cairn_status least_budget(choosing *c, uint64_t *out) {
    uint64_t low = 0, high = INT64_MAX;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        bool fits;
        crn_arena arena;
        crn_arena_init(&arena, &c->arena->allocator);
        choosing again = *c;
        again.arena = &arena;
        cairn_status status = reach(&again, middle, &fits);
        crn_arena_release(&arena);
        CRN_TRY(status);
        if (fits)
            high = middle;
        else
            low = middle + 1;
    }
    *out = low;
    return CAIRN_OK;
}

static cairn_status choose(choosing *c, uint64_t budget, uint32_t *chosen, cairn_error *err) {
    bool fits;
    for (uint32_t r = 0; r < c->regions; r++)
        if (c->first[r + 1] <= c->first[r])
            return crn_fail(err, CAIRN_EINVAL, "region %u has no way to run", r);
    CRN_TRY(reach(c, budget, &fits));
    if (!fits) {
        uint64_t least;
        CRN_TRY(least_budget(c, &least));
        cairn_status status =
            crn_fail(err, CAIRN_INFEASIBLE,
                     "the regions cannot fit into %llu bytes; the smallest possible budget "
                     "is %llu bytes",
                     (unsigned long long)budget, (unsigned long long)least);
        if (err != NULL)
            err->smallest_budget = least;
        return status;
    }
    /* The last point of a front is the fastest. */
    uint32_t at = c->fronts[c->regions].count - 1;
    for (uint32_t r = c->regions; r-- > 0;) {
        const reached *point = &c->fronts[r + 1].points[at];
        chosen[r] = point->way;
        at = point->before;
    }
    return CAIRN_OK;
}

cairn_status cairn_regions_choose(const cairn_allocator *allocator, const uint32_t *first_way,
                                  const cairn_region_way *ways, uint32_t region_count,
                                  uint64_t budget_bytes, uint32_t *chosen, cairn_error *err) {
    crn_error_clear(err);
    crn_arena arena;
    crn_arena_init(&arena, allocator);
    choosing c = {.first = first_way, .ways = ways, .regions = region_count, .arena = &arena};
    cairn_status status = choose(&c, budget_bytes, chosen, err);
    crn_arena_release(&arena);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}
