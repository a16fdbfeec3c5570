/* acg_graphs.h: random computation graphs for tests, of several families, and exhaustive search
 * over all sets of checkpoints. The search follows the definitions of the two objectives, on bit
 * masks, and shares no code with the library. */
#ifndef ACG_GRAPHS_H
#define ACG_GRAPHS_H

#include "base/rng.h"
#include "cairn/papers/acg.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_VERTICES = 64, MOST_EDGES = MOST_VERTICES * MOST_VERTICES / 2 };

typedef struct test_graph {
    uint32_t n, m;
    uint64_t costs[MOST_VERTICES];
    cairn_dag_edge edges[MOST_EDGES];
    cairn_dag dag;
} test_graph;

static inline bool test_has_edge(const test_graph *g, uint32_t from, uint32_t to) {
    for (uint32_t e = 0; e < g->m; e++)
        if (g->edges[e].from == from && g->edges[e].to == to)
            return true;
    return false;
}

static inline void test_add_edge(test_graph *g, uint32_t from, uint32_t to) {
    if (!test_has_edge(g, from, to))
        g->edges[g->m++] = (cairn_dag_edge){from, to};
}

static inline int test_compare_edges(const void *a, const void *b) {
    const cairn_dag_edge *x = a, *y = b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from)
                              : (x->to > y->to) - (x->to < y->to);
}

/* Vertices 0 .. n-1 in topological order, 0 the source, n-1 the target: give every vertex an
 * incoming and an outgoing edge, then costs, then random names, so that numbers do not show the
 * order. */
static inline void test_finish(test_graph *g, crn_rng *rng, uint64_t cost_below) {
    uint32_t name[MOST_VERTICES];
    for (uint32_t v = 1; v < g->n; v++) {
        bool in = false, out = v == g->n - 1;
        for (uint32_t e = 0; e < g->m; e++) {
            in |= g->edges[e].to == v;
            out |= g->edges[e].from == v;
        }
        if (!in)
            test_add_edge(g, (uint32_t)crn_rng_below(rng, v), v);
        if (!out)
            test_add_edge(g, v, v + 1 + (uint32_t)crn_rng_below(rng, g->n - 1 - v));
    }
    for (uint32_t v = 0; v < g->n; v++) {
        uint32_t other = (uint32_t)crn_rng_below(rng, v + 1);
        name[v] = v;
        name[v] = name[other];
        name[other] = v;
        g->costs[v] = crn_rng_below(rng, cost_below);
    }
    for (uint32_t e = 0; e < g->m; e++)
        g->edges[e] = (cairn_dag_edge){name[g->edges[e].from], name[g->edges[e].to]};
    qsort(g->edges, g->m, sizeof *g->edges, test_compare_edges);
    g->dag = (cairn_dag){g->n, g->m, name[0], name[g->n - 1], g->costs, g->edges};
}

/* ---- Families: edges among 0 .. n-1, upwards ---- */

static inline void test_chain(test_graph *g) {
    for (uint32_t v = 0; v + 1 < g->n; v++)
        test_add_edge(g, v, v + 1);
}

static inline void test_random_dag(test_graph *g, crn_rng *rng) {
    uint64_t wanted = g->n + crn_rng_below(rng, 2 * g->n);
    for (uint64_t i = 0; i < wanted; i++) {
        uint32_t a = (uint32_t)crn_rng_below(rng, g->n), b = (uint32_t)crn_rng_below(rng, g->n);
        if (a != b)
            test_add_edge(g, a < b ? a : b, a < b ? b : a);
    }
}

/* Edges only over short distances, so that there are many separating pairs. */
static inline void test_band(test_graph *g, crn_rng *rng) {
    for (uint32_t v = 0; v + 1 < g->n; v++) {
        if (crn_rng_below(rng, 4) > 0)
            test_add_edge(g, v, v + 1);
        if (v + 2 < g->n && crn_rng_below(rng, 2) == 0)
            test_add_edge(g, v, v + 2);
        if (v + 3 < g->n && crn_rng_below(rng, 4) == 0)
            test_add_edge(g, v, v + 3);
    }
}

static inline void test_layered(test_graph *g, crn_rng *rng) {
    uint32_t from = 0, to = 1;
    while (to < g->n) {
        uint32_t end = to + 1 + (uint32_t)crn_rng_below(rng, 3);
        end = end > g->n - 1 && to < g->n - 1 ? g->n - 1 : end;
        end = end > g->n ? g->n : end;
        for (uint32_t u = from; u < to; u++)
            for (uint32_t v = to; v < end; v++)
                if (crn_rng_below(rng, 3) > 0)
                    test_add_edge(g, u, v);
        from = to;
        to = end;
    }
}

/* Replace edges until all vertices are used: by a series, by parallel edges, or by a bridge (the
 * smallest complicated segment). New vertices get numbers at the end; `place` orders them. */
static inline void test_composed(test_graph *g, crn_rng *rng, bool with_bridges) {
    double place[MOST_VERTICES];
    uint32_t used = 2, n = g->n, order[MOST_VERTICES], rank[MOST_VERTICES];
    cairn_dag_edge built[MOST_EDGES];
    uint32_t count = 1;
    built[0] = (cairn_dag_edge){0, 1};
    place[0] = 0;
    place[1] = 1;
    while (used < n) {
        uint32_t at = (uint32_t)crn_rng_below(rng, count);
        uint32_t a = built[at].from, b = built[at].to;
        uint64_t how = crn_rng_below(rng, with_bridges ? 3 : 2);
        if (how == 2 && used + 2 <= n) {
            uint32_t x = used++, y = used++;
            place[x] = place[a] + (place[b] - place[a]) / 3;
            place[y] = place[a] + (place[b] - place[a]) * 2 / 3;
            built[at] = (cairn_dag_edge){a, x};
            built[count++] = (cairn_dag_edge){a, y};
            built[count++] = (cairn_dag_edge){x, y};
            built[count++] = (cairn_dag_edge){x, b};
            built[count++] = (cairn_dag_edge){y, b};
        } else {
            uint32_t x = used++;
            place[x] = place[a] + (place[b] - place[a]) / 2;
            if (how == 0)
                built[at] = (cairn_dag_edge){a, x};
            else
                built[count++] = (cairn_dag_edge){a, x};
            built[count++] = (cairn_dag_edge){x, b};
        }
    }
    for (uint32_t v = 0; v < n; v++) {
        rank[v] = 0;
        for (uint32_t w = 0; w < n; w++)
            rank[v] += place[w] < place[v] || (place[w] == place[v] && w < v);
        order[rank[v]] = v;
    }
    (void)order;
    for (uint32_t e = 0; e < count; e++)
        test_add_edge(g, rank[built[e].from], rank[built[e].to]);
}

/* Several chains from source to target, some of them direct edges, with a few rungs between. */
static inline void test_branches(test_graph *g, crn_rng *rng) {
    uint32_t last = 0;
    for (uint32_t v = 1; v < g->n; v++) {
        test_add_edge(g, last, v);
        last = crn_rng_below(rng, 3) == 0 ? 0 : v;
        if (last == 0)
            test_add_edge(g, v, g->n - 1 > v ? g->n - 1 : v + 1);
    }
    g->m -= g->edges[g->m - 1].to >= g->n;
    if (crn_rng_below(rng, 2) == 0)
        test_add_edge(g, 0, g->n - 1);
    for (uint64_t rungs = crn_rng_below(rng, 3); rungs > 0; rungs--) {
        uint32_t a = (uint32_t)crn_rng_below(rng, g->n), b = (uint32_t)crn_rng_below(rng, g->n);
        if (a != b)
            test_add_edge(g, a < b ? a : b, a < b ? b : a);
    }
}

enum { TEST_FAMILIES = 7 };

static inline void test_make(test_graph *g, crn_rng *rng, int family, uint32_t n,
                             uint64_t cost_below) {
    memset(g, 0, sizeof *g);
    g->n = n;
    switch (family) {
    case 0:
        test_chain(g);
        break;
    case 1:
        test_random_dag(g, rng);
        break;
    case 2:
        test_band(g, rng);
        break;
    case 3:
        test_layered(g, rng);
        break;
    case 4:
        test_composed(g, rng, false);
        break;
    case 5:
        test_composed(g, rng, true);
        break;
    default:
        test_branches(g, rng);
    }
    test_finish(g, rng, cost_below);
}

/* ---- Exhaustive search, n <= 20 ---- */

typedef struct test_masks {
    uint32_t n;
    uint32_t in[20], out[20];
    uint64_t costs[20];
} test_masks;

static inline test_masks test_masks_of(const cairn_dag *dag) {
    test_masks m = {.n = dag->vertex_count};
    memcpy(m.costs, dag->costs, m.n * sizeof *m.costs);
    for (uint32_t e = 0; e < dag->edge_count; e++) {
        m.out[dag->edges[e].from] |= 1u << dag->edges[e].to;
        m.in[dag->edges[e].to] |= 1u << dag->edges[e].from;
    }
    return m;
}

static inline uint64_t test_sum(const test_masks *m, uint32_t set) {
    uint64_t sum = 0;
    for (uint32_t v = 0; v < m->n; v++)
        sum += (set >> v & 1) ? m->costs[v] : 0;
    return sum;
}

/* The component of `from` among `rest`, and all its neighbours. */
static inline uint32_t test_component(const test_masks *m, uint32_t from, uint32_t rest,
                                      uint32_t *in, uint32_t *out) {
    uint32_t seen = from, before;
    do {
        before = seen;
        *in = *out = 0;
        for (uint32_t v = 0; v < m->n; v++) {
            if (seen >> v & 1) {
                *in |= m->in[v];
                *out |= m->out[v];
            }
        }
        seen |= (*in | *out) & rest;
    } while (seen != before);
    return seen;
}

static inline bool test_single(uint32_t set) {
    return set != 0 && (set & (set - 1)) == 0;
}

/* The objective of segments; UINT64_MAX: the set is not valid. */
static inline uint64_t test_segments(const test_masks *m, uint32_t kept) {
    uint32_t rest = ((1u << m->n) - 1) & ~kept, left = rest, in, out;
    uint64_t largest = 0;
    while (left != 0) {
        uint32_t part = test_component(m, left & (~left + 1), rest, &in, &out);
        if (!test_single(in & kept) || !test_single(out & kept))
            return UINT64_MAX;
        uint64_t cost = test_sum(m, part);
        largest = cost > largest ? cost : largest;
        left &= ~part;
    }
    return test_sum(m, kept) + largest;
}

/* The objective of pieces: contract each part, then merge the parts that reach each other. */
static inline uint64_t test_pieces(const test_masks *m, uint32_t kept) {
    uint32_t rest = ((1u << m->n) - 1) & ~kept, left = rest, in, out;
    uint32_t node[20], members[20] = {0}, reach[20] = {0}, count = 0;
    while (left != 0) {
        members[count] = test_component(m, left & (~left + 1), rest, &in, &out);
        left &= ~members[count++];
    }
    uint32_t pieces = count;
    for (uint32_t v = 0; v < m->n; v++)
        if (kept >> v & 1)
            members[count++] = 1u << v;
    for (uint32_t c = 0; c < count; c++)
        for (uint32_t v = 0; v < m->n; v++)
            if (members[c] >> v & 1)
                node[v] = c;
    for (uint32_t v = 0; v < m->n; v++)
        for (uint32_t w = 0; w < m->n; w++)
            if (m->out[v] >> w & 1)
                reach[node[v]] |= 1u << node[w];
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t c = 0; c < count; c++)
            if (reach[c] >> k & 1)
                reach[c] |= reach[k];
    uint64_t largest = 0;
    for (uint32_t c = 0; c < pieces; c++) {
        uint64_t cost = test_sum(m, members[c]);
        for (uint32_t d = 0; d < pieces; d++)
            if (d != c && (reach[c] >> d & 1) && (reach[d] >> c & 1))
                cost += test_sum(m, members[d]);
        largest = cost > largest ? cost : largest;
    }
    return test_sum(m, kept) + largest;
}

static inline uint64_t test_optimum(const cairn_dag *dag, cairn_acg_objective objective) {
    test_masks m = test_masks_of(dag);
    uint32_t ends = 1u << dag->source | 1u << dag->target;
    uint64_t best = UINT64_MAX;
    for (uint32_t set = 0; set < 1u << m.n; set++) {
        if ((set & ends) != ends)
            continue;
        uint64_t value =
            objective == CAIRN_ACG_OBJECTIVE_PIECES ? test_pieces(&m, set) : test_segments(&m, set);
        best = value < best ? value : best;
    }
    return best;
}

#endif
