/* pieces_order.c: maintains the components while checkpoints are added and removed.
 *
 * Strongly connected components of a changing graph, after the idea of Pearce and Kelly (2006) for
 * topological orders: all components are in a row, and edges lead to the right.
 *
 *     [ a b ] [k] [ c d e ] [ f ] [l] [ g h ]
 *
 * Keeping a vertex of [c d e] can only break up that component: it is searched again, and what it
 * falls into are written into its range. Not keeping k any more adds edges from k back to its
 * predecessors in [a b] and from its successors in [g h] back to k. New cycles can only use the row
 * from [a b] to [g h], so this range is searched again. Everything outside it stays as it is. */
#include "solve/checkpoints/pieces_order.h"

cairn_status crn_pieces_order_take(crn_arena *arena, const crn_acg *problem, const uint8_t *chosen,
                                   crn_pieces_order *out) {
    size_t n = problem->dag->vertex_count;
    *out = (crn_pieces_order){.problem = problem, .arena = arena};
    CRN_TAKE(arena, out->chosen, n);
    CRN_TAKE(arena, out->row, n);
    CRN_TAKE(arena, out->new_row, n);
    CRN_TAKE(arena, out->visits, n);
    CRN_TAKE(arena, out->stack, n);
    CRN_TAKE(arena, out->path, n);
    crn_pieces_order_set(out, chosen);
    return CAIRN_OK;
}

/* ---- Searching a range ---- */

typedef struct search {
    crn_pieces_order *o;
    uint32_t from, to; /* range of places, both included */
    uint32_t
        write; /* one past the next place to write: components are written from the right end */
    uint64_t limit;
    uint32_t count, height, depth;
    bool fits;
} search;

static void enter(search *s, uint32_t v) {
    crn_pieces_order *o = s->o;
    crn_pieces_visit *visit = &o->visits[v];
    visit->turn = o->turn;
    visit->index = visit->low = ++s->count;
    visit->at = o->problem->next.start[v];
    o->stack[s->height++] = v;
    o->path[s->depth++] = v;
}

/* The component of v is complete. It is placed to the left of the components that it leads to. */
static void emit(search *s, uint32_t v) {
    crn_pieces_order *o = s->o;
    uint32_t end = s->write, w;
    uint64_t cost = 0;
    do {
        w = o->stack[--s->height];
        o->visits[w].index = UINT32_MAX; /* done: it cannot lower another index */
        o->new_row[--s->write].vertex = w;
        cost += o->chosen[w] ? 0 : o->problem->dag->costs[w];
    } while (w != v);
    for (uint32_t i = s->write; i < end; i++)
        o->new_row[i].first = s->write;
    o->new_row[s->write].last = end - 1;
    o->new_row[s->write].cost = cost;
    s->fits &= cost <= s->limit;
}

static void look_at(search *s, uint32_t v, uint32_t w) {
    crn_pieces_order *o = s->o;
    const crn_pieces_visit *to = &o->visits[w];
    if (to->place < s->from || to->place > s->to)
        return;
    if (to->turn != o->turn)
        enter(s, w);
    else
        o->visits[v].low = CRN_MIN(o->visits[v].low, to->index);
}

/* Visit the next neighbour of v: first its successors, then, if v is not kept, its predecessors
 * that are not kept. `at` counts through both lists. False: there are no more. */
static bool step(search *s, uint32_t v) {
    crn_pieces_order *o = s->o;
    const crn_neighbours *next = &o->problem->next, *previous = &o->problem->previous;
    uint32_t end = next->start[v + 1], at = o->visits[v].at++;
    if (at < end) {
        look_at(s, v, next->items[at]);
        return true;
    }
    at = at - end + previous->start[v];
    if (o->chosen[v] || at >= previous->start[v + 1])
        return false;
    if (!o->chosen[previous->items[at]])
        look_at(s, v, previous->items[at]);
    return true;
}

static void explore(search *s, uint32_t root) {
    crn_pieces_order *o = s->o;
    enter(s, root);
    while (s->depth > 0) {
        uint32_t v = o->path[s->depth - 1];
        if (step(s, v))
            continue;
        const crn_pieces_visit *visit = &o->visits[v];
        if (--s->depth > 0) {
            crn_pieces_visit *father = &o->visits[o->path[s->depth - 1]];
            father->low = CRN_MIN(father->low, visit->low);
        }
        if (visit->low == visit->index)
            emit(s, v);
    }
}

/* Search places from .. to again. Store the result if no component exceeds the limit. */
static bool search_range(crn_pieces_order *o, uint32_t from, uint32_t to, uint64_t limit) {
    search s = {o, from, to, to + 1, limit, 0, 0, 0, true};
    o->turn++;
    o->work += to - from + 1;
    for (uint32_t i = to + 1; i-- > from && s.fits;)
        if (o->visits[o->row[i].vertex].turn != o->turn)
            explore(&s, o->row[i].vertex);
    if (!s.fits)
        return false;
    memcpy(o->row + from, o->new_row + from, (to - from + 1) * sizeof *o->row);
    for (uint32_t i = from; i <= to; i++)
        o->visits[o->row[i].vertex].place = i;
    return true;
}

void crn_pieces_order_set(crn_pieces_order *order, const uint8_t *chosen) {
    uint32_t n = order->problem->dag->vertex_count;
    memcpy(order->chosen, chosen, n);
    order->kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t v = order->problem->order[i];
        order->row[i].vertex = v;
        order->visits[v].place = i;
        order->kept += chosen[v] ? order->problem->dag->costs[v] : 0;
    }
    search_range(order, 0, n - 1, UINT64_MAX);
}

/* ---- Changing ---- */

static void widen(const crn_pieces_order *o, uint32_t v, uint32_t *from, uint32_t *to) {
    uint32_t first = o->row[o->visits[v].place].first;
    *from = CRN_MIN(*from, first);
    *to = CRN_MAX(*to, o->row[first].last);
}

/* The range that a change of v affects. */
static void concern(const crn_pieces_order *o, uint32_t v, uint32_t *from, uint32_t *to) {
    const crn_neighbours *lists[2] = {&o->problem->next, &o->problem->previous};
    widen(o, v, from, to);
    for (int side = 0; side < 2 && o->chosen[v]; side++)
        for (uint32_t i = lists[side]->start[v]; i < lists[side]->start[v + 1]; i++)
            if (!o->chosen[lists[side]->items[i]])
                widen(o, lists[side]->items[i], from, to);
}

static void change(crn_pieces_order *o, uint32_t v) {
    uint64_t cost = o->problem->dag->costs[v];
    o->kept += o->chosen[v] ? 0 - cost : cost;
    o->chosen[v] ^= 1;
}

bool crn_pieces_order_flip(crn_pieces_order *order, uint32_t x, uint32_t y, uint64_t limit) {
    uint32_t from = UINT32_MAX, to = 0;
    concern(order, x, &from, &to);
    if (y != UINT32_MAX)
        concern(order, y, &from, &to);
    change(order, x);
    if (y != UINT32_MAX)
        change(order, y);
    if (search_range(order, from, to, limit))
        return true;
    change(order, x);
    if (y != UINT32_MAX)
        change(order, y);
    return false;
}

/* The cost of the vertex and of the different components next to it. For a vertex with many
 * neighbours only some are counted, so the result is a lower bound. */
uint64_t crn_pieces_order_merged(const crn_pieces_order *order, uint32_t vertex) {
    enum { MOST = 8 };
    const crn_neighbours *lists[2] = {&order->problem->next, &order->problem->previous};
    uint32_t seen[MOST], count = 0;
    uint64_t sum = order->problem->dag->costs[vertex];
    for (int side = 0; side < 2; side++) {
        for (uint32_t i = lists[side]->start[vertex];
             i < lists[side]->start[vertex + 1] && count < MOST; i++) {
            uint32_t w = lists[side]->items[i], k = 0;
            if (order->chosen[w])
                continue;
            uint32_t first = order->row[order->visits[w].place].first;
            while (k < count && seen[k] != first)
                k++;
            if (k < count)
                continue;
            seen[count++] = first;
            sum += order->row[first].cost;
        }
    }
    return sum;
}

uint64_t crn_pieces_order_component(const crn_pieces_order *order, uint32_t vertex) {
    return order->row[order->row[order->visits[vertex].place].first].cost;
}

uint64_t crn_pieces_order_largest(const crn_pieces_order *order) {
    uint64_t largest = 0;
    for (uint32_t i = 0; i < order->problem->dag->vertex_count; i = order->row[i].last + 1)
        largest = CRN_MAX(largest, order->row[i].cost);
    return largest;
}
