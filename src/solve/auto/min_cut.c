/* min_cut.c: Dinic's algorithm, without recursion because the depth of a network can be its
 * size. */
#include "solve/auto/min_cut.h"

cairn_status crn_min_cut_create(crn_arena *arena, uint32_t most_nodes, crn_min_cut_network **out) {
    crn_min_cut_network *n;
    CRN_TAKE(arena, n, 1);
    n->arena = arena;
    CRN_TAKE(arena, n->first, (size_t)most_nodes + 1);
    CRN_TAKE(arena, n->level, most_nodes);
    CRN_TAKE(arena, n->next, most_nodes);
    CRN_TAKE(arena, n->queue, most_nodes);
    CRN_TAKE(arena, n->path, most_nodes);
    *out = n;
    return CAIRN_OK;
}

void crn_min_cut_reset(crn_min_cut_network *n, uint32_t nodes, uint32_t source, uint32_t sink) {
    n->node_count = nodes;
    n->source = source;
    n->sink = sink;
    n->edges.length = n->tails.length = 0;
}

cairn_status crn_min_cut_add(crn_min_cut_network *n, uint32_t from, uint32_t to, int64_t capacity,
                             uint32_t *index) {
    crn_min_cut_edge forth = {to, capacity}, back = {from, 0};
    if (index != NULL)
        *index = n->edges.length;
    CRN_PUSH(n->arena, n->edges, forth);
    CRN_PUSH(n->arena, n->edges, back);
    CRN_PUSH(n->arena, n->tails, from);
    CRN_PUSH(n->arena, n->tails, to);
    return CAIRN_OK;
}

cairn_status crn_min_cut_freeze(crn_min_cut_network *n) {
    uint32_t nodes = n->node_count;
    if (n->edges.capacity > n->order_room) {
        CRN_TAKE(n->arena, n->order, n->edges.capacity);
        n->order_room = n->edges.capacity;
    }
    memset(n->first, 0, ((size_t)nodes + 1) * sizeof *n->first);
    for (uint32_t e = 0; e < n->edges.length; e++)
        n->first[n->tails.data[e] + 1]++;
    for (uint32_t v = 0; v < nodes; v++)
        n->first[v + 1] += n->first[v];
    memcpy(n->next, n->first, nodes * sizeof *n->next);
    for (uint32_t e = 0; e < n->edges.length; e++)
        n->order[n->next[n->tails.data[e]]++] = e;
    return CAIRN_OK;
}

void crn_min_cut_set_capacity(crn_min_cut_network *n, uint32_t index, int64_t capacity) {
    n->edges.data[index].capacity = capacity;
    n->edges.data[index + 1].capacity = 0;
}

/* Distances from the source over edges with capacity left. */
static bool find_levels(crn_min_cut_network *n) {
    for (uint32_t v = 0; v < n->node_count; v++)
        n->level[v] = UINT32_MAX;
    uint32_t head = 0, tail = 0;
    n->queue[tail++] = n->source;
    n->level[n->source] = 0;
    while (head < tail) {
        uint32_t v = n->queue[head++];
        for (uint32_t k = n->first[v]; k < n->first[v + 1]; k++) {
            const crn_min_cut_edge *edge = &n->edges.data[n->order[k]];
            if (edge->capacity == 0 || n->level[edge->to] != UINT32_MAX)
                continue;
            n->level[edge->to] = n->level[v] + 1;
            n->queue[tail++] = edge->to;
        }
    }
    return n->level[n->sink] != UINT32_MAX;
}

/* Push flow along the path in n->path; returns the length of the path that is still open. */
static uint32_t push_path(crn_min_cut_network *n, uint32_t length, int64_t *flow) {
    int64_t most = INT64_MAX;
    for (uint32_t k = 0; k < length; k++)
        most = CRN_MIN(most, n->edges.data[n->path[k]].capacity);
    uint32_t open = length;
    for (uint32_t k = length; k-- > 0;) {
        n->edges.data[n->path[k]].capacity -= most;
        n->edges.data[n->path[k] ^ 1].capacity += most;
        if (n->edges.data[n->path[k]].capacity == 0)
            open = k;
    }
    *flow += most;
    return open;
}

/* The next edge of `v` with capacity to the next level; UINT32_MAX: none. */
static uint32_t open_edge(crn_min_cut_network *n, uint32_t v) {
    for (; n->next[v] < n->first[v + 1]; n->next[v]++) {
        const crn_min_cut_edge *edge = &n->edges.data[n->order[n->next[v]]];
        if (edge->capacity > 0 && n->level[edge->to] == n->level[v] + 1)
            return n->order[n->next[v]];
    }
    return UINT32_MAX;
}

/* A blocking flow: push along paths of rising levels until none is left. */
static int64_t block(crn_min_cut_network *n) {
    int64_t flow = 0;
    uint32_t length = 0, v = n->source;
    memcpy(n->next, n->first, n->node_count * sizeof *n->next);
    for (;;) {
        if (v == n->sink) {
            length = push_path(n, length, &flow);
            v = n->edges.data[n->path[length] ^ 1].to;
        }
        uint32_t e = open_edge(n, v);
        if (e != UINT32_MAX) {
            n->path[length++] = e;
            v = n->edges.data[e].to;
            continue;
        }
        if (v == n->source)
            return flow;
        n->level[v] = UINT32_MAX - 1; /* a dead end */
        v = n->edges.data[n->path[--length] ^ 1].to;
        n->next[v]++;
    }
}

int64_t crn_min_cut_solve(crn_min_cut_network *n) {
    int64_t flow = 0;
    while (find_levels(n))
        flow += block(n);
    return flow;
}
