/* feng_linear.c: optimal checkpoints on a linear computation graph (algorithm 1 of Feng and Huang).
 *
 * C is a limit on the cost between two checkpoints. The accessibility graph has an edge j -> i if
 * the vertices between j and i cost at most C. The checkpoints are a shortest path in it:
 *
 *     sum(i) = cost(i) + min { sum(j) : low(i) <= j < i }
 *
 * low(i) never decreases. So the minimum over the window is kept in a queue whose sums increase
 * from front to back. This takes O(n) for one limit, where the paper has O(n^2). max_term.c
 * searches the limits; the total is quadratic only if the staircase has that many steps near its
 * optimum. */
#include "solve/checkpoints/feng_linear.h"
#include "solve/checkpoints/acg_internal.h"

cairn_status crn_line_room_take(crn_arena *arena, uint32_t count, crn_line_room *out) {
    size_t room = (size_t)count + 1;
    CRN_TAKE(arena, out->least_sum, room);
    CRN_TAKE(arena, out->passed, room);
    CRN_TAKE(arena, out->previous, room);
    CRN_TAKE(arena, out->queue, room);
    return CAIRN_OK;
}

uint64_t crn_line_solve(const crn_line *line, uint64_t limit, crn_line_room *room,
                        crn_max_term *step) {
    uint64_t position = 0; /* cost of everything before vertex i */
    uint64_t least = step->least, beyond = step->beyond;
    uint64_t *sum = room->least_sum, *passed = room->passed;
    uint32_t low = 0, front = 0, back = 0, wall = 0;
    sum[0] = passed[0] = 0; /* passed: the cost of everything up to and including the vertex */
    room->queue[back++] = 0;
    for (uint32_t i = 1; i <= line->count; i++) {
        uint64_t cost = i < line->count ? line->costs[i - 1] : 0;
        position += line->gaps[i - 1];
        if (line->gaps[i - 1] > limit) { /* broken: no segment crosses it */
            room->previous[i] = i - 1;
            sum[i] = sum[i - 1] + line->inner[i - 1] + cost;
            low = wall = i;
            front = back = 0;
        } else {
            while (position - passed[low] > limit)
                low++;
            if (low > wall)
                beyond = CRN_MIN(beyond, position - passed[low - 1]);
            least = CRN_MAX(least, position - passed[low]);
            while (room->queue[front] < low)
                front++;
            room->previous[i] = room->queue[front];
            sum[i] = sum[room->queue[front]] + cost;
            while (back > front && sum[room->queue[back - 1]] > sum[i])
                back--;
        }
        room->queue[back++] = i;
        passed[i] = position += cost;
    }
    step->least = least;
    step->beyond = beyond;
    return sum[line->count];
}

/* ---- A chain by itself ---- */

typedef struct chain {
    crn_line line;
    crn_line_room room;
} chain;

static crn_max_term solve_chain(void *context, uint64_t limit) {
    chain *c = context;
    crn_max_term step = {.beyond = UINT64_MAX};
    step.sum = crn_line_solve(&c->line, limit, &c->room, &step);
    return step;
}

static cairn_status take_chain(const crn_acg *problem, crn_arena *arena, chain *out) {
    uint32_t count = problem->dag->vertex_count - 1;
    uint64_t *costs, *nothing;
    CRN_TAKE(arena, costs, count);
    CRN_TAKE(arena, nothing, count);
    for (uint32_t i = 1; i < count; i++)
        costs[i - 1] = problem->dag->costs[problem->order[i]];
    out->line = (crn_line){count, nothing, nothing, costs};
    return crn_line_room_take(arena, count, &out->room);
}

cairn_status crn_acg_run_feng_linear(const crn_acg *problem, const cairn_acg_options *options,
                                     crn_arena *arena, uint8_t *chosen, cairn_error *err) {
    (void)options;
    if (!crn_acg_is_chain(problem))
        return crn_fail(err, CAIRN_EINVAL,
                        "feng-linear solves chains only, and this graph branches; use feng");
    chain c;
    uint64_t limit;
    CRN_TRY(take_chain(problem, arena, &c));
    CRN_TRY(crn_max_term_search(arena, solve_chain, &c, problem->total, 0, &limit));
    solve_chain(&c, limit);
    for (uint32_t i = c.line.count; i > 0; i = c.room.previous[i])
        chosen[problem->order[i]] = 1;
    return CAIRN_OK;
}
