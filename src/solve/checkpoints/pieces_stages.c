/* pieces_stages.c: checkpoints from cutting a topological order into stages. pieces.c starts from
 * them.
 *
 *     a b c | d e f g | h i        Keep what a later stage reads. The rest of a stage depends on
 *       \____/      \_/            nothing else of other stages, so its components lie within it.
 *
 * For a stage from place a to b, keep(a, b) is the cost of its vertices that are read at b or later
 * and rest(a, b) that of the others. Both are sums over the stage. So, under a limit on the rest,
 * the least sum of what is kept is a shortest path over places; max_term.c searches the limits. The
 * rest is counted as one component, so the true value may be lower.
 *
 * The time for one limit is places times length of a stage, which is bounded by MOST_WORK / n. The
 * number of limits is bounded. The best set depends on the order; two orders are tried: first come
 * first served, and depth first. */
#include "solve/checkpoints/pieces.h"
#include "solve/checkpoints/max_term.h"

enum { MOST_WORK = 16000000, LEAST_LENGTH = 16, MOST_LIMITS = 50 };

typedef struct stages {
    uint32_t n, longest;
    const uint32_t *order;
    uint64_t *costs;     /* by place */
    uint32_t *last_read; /* by place: the last place that reads it */
    uint64_t *sum;       /* by place: the least cost that is kept before it */
    uint32_t *previous;  /* by place: where the stage that ends there begins */
} stages;

static crn_max_term solve_limit(void *context, uint64_t limit) {
    stages *s = context;
    crn_max_term step = {.beyond = UINT64_MAX};
    s->sum[0] = 0;
    for (uint32_t end = 1; end <= s->n; end++) {
        uint64_t keep = 0, rest = 0, best = UINT64_MAX;
        uint32_t first = end > s->longest ? end - s->longest : 0;
        for (uint32_t at = end; at-- > first;) {
            if (s->last_read[at] >= end)
                keep += s->costs[at];
            else
                rest += s->costs[at];
            if (rest > limit) {
                step.beyond = CRN_MIN(step.beyond, rest);
                break;
            }
            step.least = CRN_MAX(step.least, rest);
            if (s->sum[at] + keep < best) {
                best = s->sum[at] + keep;
                s->previous[end] = at;
            }
        }
        s->sum[end] = best;
    }
    step.sum = s->sum[s->n];
    return step;
}

static void mark(const stages *s, uint8_t *chosen) {
    memset(chosen, 0, s->n);
    for (uint32_t end = s->n; end > 0; end = s->previous[end])
        for (uint32_t at = s->previous[end]; at < end; at++)
            chosen[s->order[at]] = s->last_read[at] >= end;
}

static cairn_status prepare(const crn_acg *problem, const uint32_t *order, crn_arena *arena,
                            stages *s) {
    uint32_t n = problem->dag->vertex_count, *place;
    *s = (stages){.n = n, .order = order};
    s->longest = CRN_MAX(MOST_WORK / n, LEAST_LENGTH);
    CRN_TAKE(arena, place, n);
    CRN_TAKE(arena, s->costs, n);
    CRN_TAKE(arena, s->last_read, n);
    CRN_TAKE(arena, s->sum, (size_t)n + 1);
    CRN_TAKE(arena, s->previous, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++)
        place[order[i]] = i;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t v = order[i];
        s->costs[i] = problem->dag->costs[v];
        for (uint32_t k = problem->next.start[v]; k < problem->next.start[v + 1]; k++)
            s->last_read[i] = CRN_MAX(s->last_read[i], place[problem->next.items[k]]);
    }
    s->last_read[0] = s->last_read[n - 1] = UINT32_MAX; /* source and target are kept */
    return CAIRN_OK;
}

/* An order that always takes the vertex that became ready last. */
static cairn_status depth_first_order(const crn_acg *p, crn_arena *arena, uint32_t *order) {
    uint32_t n = p->dag->vertex_count, *waiting, *stack, height = 0, count = 0;
    CRN_TAKE(arena, waiting, n);
    CRN_TAKE(arena, stack, n);
    for (uint32_t v = 0; v < n; v++)
        waiting[v] = p->previous.start[v + 1] - p->previous.start[v];
    stack[height++] = p->dag->source;
    while (height > 0) {
        uint32_t v = stack[--height];
        order[count++] = v;
        for (uint32_t i = p->next.start[v + 1]; i-- > p->next.start[v];)
            if (--waiting[p->next.items[i]] == 0)
                stack[height++] = p->next.items[i];
    }
    return CAIRN_OK;
}

cairn_status crn_pieces_stages(const crn_acg *problem, crn_arena *arena, bool depth_first,
                               uint64_t largest, uint8_t *chosen) {
    stages s;
    uint32_t *order = problem->order;
    uint64_t limit;
    if (depth_first) {
        CRN_TAKE(arena, order, problem->dag->vertex_count);
        CRN_TRY(depth_first_order(problem, arena, order));
    }
    CRN_TRY(prepare(problem, order, arena, &s));
    CRN_TRY(crn_max_term_search(arena, solve_limit, &s, largest, MOST_LIMITS, &limit));
    solve_limit(&s, limit);
    mark(&s, chosen);
    return CAIRN_OK;
}
