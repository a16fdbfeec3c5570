/* pieces_value.c: the wider objective: components that may touch any number of checkpoints.
 *
 * The components are those of the vertices that are not chosen, without regard to the direction of
 * edges. Components on a common cycle through checkpoints are merged. Both are done in one step: an
 * edge between two vertices that are not chosen counts in both directions. Then the strongly
 * connected components are the merged ones, together with the checkpoints on their cycles, which
 * cost nothing.
 *
 *     a -> [k] -> b      a, b in one component, k kept: k reads it and it reads k, which is no
 *     a ---------> b     harm: {a, k, b} is one component.
 *     a -> [k] -> b      a and b in different components that also meet the other way round
 *     c <- [l] <- d      (a with d, b with c): each needs the other's result, so they are one.
 *
 * Tarjan's search (1972) without recursion, O(n + m). */
#include "solve/checkpoints/pieces.h"

cairn_status crn_pieces_room_take(crn_arena *arena, const crn_acg *problem, crn_pieces_room *out) {
    size_t n = problem->dag->vertex_count;
    CRN_TAKE(arena, out->index, n);
    CRN_TAKE(arena, out->low, n);
    CRN_TAKE(arena, out->stack, n);
    CRN_TAKE(arena, out->path, n);
    CRN_TAKE(arena, out->at, n);
    CRN_TAKE(arena, out->component, n);
    CRN_TAKE(arena, out->cost, n);
    return CAIRN_OK;
}

typedef struct search {
    const crn_acg *problem;
    const uint8_t *chosen;
    crn_pieces_room *room;
    uint32_t count, height, depth;
} search;

static void enter(search *s, uint32_t v) {
    crn_pieces_room *r = s->room;
    r->index[v] = r->low[v] = ++s->count;
    r->stack[s->height++] = v;
    r->path[s->depth++] = v;
    r->at[v] = 0;
}

/* Neighbour number `at` of v: first its successors, then, if v is not chosen, its predecessors.
 * UINT32_MAX past the end. */
static uint32_t neighbour(const search *s, uint32_t v, uint32_t at) {
    const crn_neighbours *next = &s->problem->next, *previous = &s->problem->previous;
    uint32_t out = next->start[v + 1] - next->start[v];
    if (at < out)
        return next->items[next->start[v] + at];
    at += previous->start[v] - out;
    return s->chosen[v] || at >= previous->start[v + 1] ? UINT32_MAX : previous->items[at];
}

/* All neighbours of v are done. If v is the first of its component, pop the component from the
 * stack. */
static void leave(search *s, uint32_t v) {
    crn_pieces_room *r = s->room;
    if (--s->depth > 0) {
        uint32_t father = r->path[s->depth - 1];
        r->low[father] = CRN_MIN(r->low[father], r->low[v]);
    }
    if (r->low[v] != r->index[v])
        return;
    uint64_t cost = 0;
    uint32_t w;
    do {
        w = r->stack[--s->height];
        r->component[w] = r->component_count;
        r->index[w] = UINT32_MAX; /* done: never lowers anything */
        cost += s->chosen[w] ? 0 : s->problem->dag->costs[w];
    } while (w != v);
    r->cost[r->component_count++] = cost;
}

static void explore(search *s, uint32_t root) {
    crn_pieces_room *r = s->room;
    enter(s, root);
    while (s->depth > 0) {
        uint32_t v = r->path[s->depth - 1], place = r->at[v]++;
        uint32_t w = neighbour(s, v, place);
        if (w == UINT32_MAX) {
            leave(s, v);
            continue;
        }
        const crn_neighbours *next = &s->problem->next;
        bool backward = place >= next->start[v + 1] - next->start[v];
        if (backward && s->chosen[w]) /* a checkpoint is read, it does not join a component */
            continue;
        if (r->index[w] == 0)
            enter(s, w);
        else
            r->low[v] = CRN_MIN(r->low[v], r->index[w]);
    }
}

crn_pieces_value crn_pieces_evaluate(const crn_acg *problem, const uint8_t *chosen,
                                     crn_pieces_room *room) {
    uint32_t n = problem->dag->vertex_count;
    search s = {problem, chosen, room, 0, 0, 0};
    crn_pieces_value value = {0, 0};
    memset(room->index, 0, n * sizeof *room->index);
    room->component_count = 0;
    explore(&s, problem->dag->source); /* everything can be reached from it */
    for (uint32_t v = 0; v < n; v++)
        value.kept += chosen[v] ? problem->dag->costs[v] : 0;
    for (uint32_t i = 0; i < room->component_count; i++)
        value.largest = CRN_MAX(value.largest, room->cost[i]);
    return value;
}
