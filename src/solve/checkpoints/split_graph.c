/* split_graph.c: finds the split components with the dominator tree.
 *
 * A segment i -> j is a connected set of vertices that has no neighbours but its entry i and its
 * exit j. Cutting it out leaves a virtual edge i -> j in its place, and gives one component: the
 * set with i, j and that edge, after parallel edges in it became bonds. All segments are split off,
 * inner ones first, until only source and target are left. Cutting changes neither the dominators
 * nor the exits of what remains, so the dominator tree is computed once.
 *
 * The vertices of a segment with entry i lie below i in the dominator tree. So the vertices are
 * treated as entries in reverse topological order. For an entry i, a smaller graph, the sketch,
 * describes what is below i: each child of i with everything below it is one vertex (edges from
 * elsewhere arrive at the child itself, never further down), and all that is not below i is one
 * vertex, the outside:
 *
 *         i                     a     b
 *       / | \                    \   /         The blocks of the sketch are {a, c}, {b, c} and
 *      a  b  d --> y              \ /          {c, d, outside}. Split off are a and b, either as a
 *       \ | ^          sketch:     c --- d     segment i -> c. Then c and d remain: from them two
 *         c -----> x               |     |     vertices outside are reached, x and y. Were these
 *         |        ^              outside      one vertex, {c, d} would be split off as well.
 *         p -------'                           (p was when c was the entry: a segment c -> x.)
 *
 * The sketch is connected: there is a path from everywhere to the outside, from the target through
 * the reference edge. Its tree of blocks is rooted at the outside. Then the segments i -> j are
 *
 *   - for a child j of i: what hangs on j, away from the outside, one segment for each block;
 *   - for a vertex j not below i: a block that holds the outside, if all its edges to the outside
 *     go to j. To see this, every subtree keeps two different vertices among those it has edges
 *     to, the two whose parents are nearest to the source;
 *   - for a vertex j deeper below i, in the subtree of a child c: c is in the segment and divides
 * it in two segments i -> c and c -> j, either of which may be empty. Both are split off already;
 *     what is left is a passage, c alone between i and j.
 *
 * Invariant: when vertex i has been treated, no segment with entry i or an entry below i is left.
 * Every separating pair is the entry and exit of a segment. So nothing inside a segment can be
 * separated any more when it is split off: with one vertex it is a triangle, with more it is rigid.
 *
 * All sketches together have O(n + m) edges, every vertex and edge is split off once, and each new
 * edge replaces at least two. Only the dominator tree and the union-find that leads from a vertex
 * to the child above it cost a factor log n. */
#include "solve/checkpoints/split_graph.h"
#include "solve/checkpoints/dominators.h"

#include <assert.h>

#define NONE UINT32_MAX

/* Two different vertices that a set has edges to; the one nearer to the source comes first. */
typedef struct exits {
    uint32_t near, far; /* NONE, or n: the other end of the reference edge */
} exits;

typedef struct splitter {
    const crn_acg *problem;
    crn_dominators tree;
    uint32_t n;        /* number of vertices; also the number of the outside */
    uint32_t at_entry; /* the entry being treated */
    crn_split *out;
    /* the graph that is left: edges by their ends; edges that were split off are skipped */
    uint32_t *first_in, *first_out, *next_in, *next_out;
    uint8_t *gone;
    /* the dominator tree from its root, and per subtree: */
    uint32_t *first_child, *next_child;
    uint32_t *top;                /* union-find: leads to the child of the entry above the vertex */
    uint32_t *head, *last, *next; /* the vertices left in the subtree, as a list */
    exits *exits;                 /* the vertices that the subtree has edges to */
    /* the sketch: half edges in lists, and a depth-first search */
    uint32_t half_count, *half_to, *half_next, *half_first;
    uint32_t *number;      /* in the order of the search, from 1; 0: not seen */
    uint32_t *low;         /* least number that the vertex or one after it has an edge to */
    uint32_t *path, *open; /* the path from the root; vertices whose block is not complete */
    uint32_t *held;        /* per vertex: the edge from it that parallel edges are joined with */
} splitter;

static cairn_status take_memory(splitter *s, crn_arena *arena) {
    size_t n = (size_t)s->n + 1, real = (size_t)s->problem->dag->edge_count + 1;
    size_t edges = 2 * real, halves = 2 * (n + real);
    CRN_TAKE(arena, s->out->edges, edges);
    CRN_TAKE(arena, s->out->component, edges);
    CRN_TAKE(arena, s->out->kinds, real);
    CRN_TAKE(arena, s->next_in, edges);
    CRN_TAKE(arena, s->next_out, edges);
    CRN_TAKE(arena, s->gone, edges);
    CRN_TAKE(arena, s->half_to, halves);
    CRN_TAKE(arena, s->half_next, halves);
    CRN_TAKE(arena, s->exits, n);
    uint32_t **const per_vertex[] = {&s->first_in,   &s->first_out, &s->first_child, &s->next_child,
                                     &s->top,        &s->head,      &s->last,        &s->next,
                                     &s->half_first, &s->number,    &s->low,         &s->path,
                                     &s->open,       &s->held};
    for (size_t i = 0; i < CRN_LENGTH(per_vertex); i++)
        CRN_TAKE(arena, *per_vertex[i], n);
    return CAIRN_OK;
}

/* ---- Components ---- */

static uint32_t add_component(splitter *s, crn_split_kind kind) {
    s->out->kinds[s->out->component_count] = kind;
    return s->out->component_count++;
}

static uint32_t add_edge(splitter *s, uint32_t from, uint32_t to) {
    uint32_t e = s->out->edge_count++;
    s->out->edges[e] = (crn_graph_edge){from, to};
    s->out->component[e][0] = s->out->component[e][1] = NONE;
    return e;
}

/* Add an edge to the graph that is left. */
static void link_edge(splitter *s, uint32_t e) {
    crn_graph_edge ends = s->out->edges[e];
    s->next_out[e] = s->first_out[ends.a];
    s->first_out[ends.a] = e;
    s->next_in[e] = s->first_in[ends.b];
    s->first_in[ends.b] = e;
}

static void put(splitter *s, uint32_t e, uint32_t component) {
    uint32_t *places = s->out->component[e];
    places[places[0] != NONE] = component;
}

/* Move edge `e`, the last edge of `component`, to a new bond. A virtual edge takes its place. */
static uint32_t make_bond(splitter *s, uint32_t e, uint32_t component) {
    crn_graph_edge ends = s->out->edges[e];
    uint32_t bond = add_component(s, CRN_SPLIT_BOND), joined = add_edge(s, ends.a, ends.b);
    uint32_t *places = s->out->component[e];
    places[places[1] != NONE] = bond;
    put(s, joined, bond);
    put(s, joined, component);
    return joined;
}

/* Split off an edge. `held` is NONE or an edge of the component that is parallel to it. Only edges
 * that were made here have a bond as their first component. */
static void take_edge(splitter *s, uint32_t e, uint32_t component, uint32_t *held) {
    s->gone[e] = 1;
    if (*held == NONE) {
        *held = e;
        put(s, e, component);
        return;
    }
    if (s->out->kinds[s->out->component[*held][0]] != CRN_SPLIT_BOND)
        *held = make_bond(s, *held, component);
    put(s, e, s->out->component[*held][0]);
}

/* Split off the segment entry -> exit, given as a list of vertices. */
static void split_segment(splitter *s, uint32_t entry, uint32_t exit, uint32_t head,
                          uint32_t last) {
    const crn_graph_edge *edges = s->out->edges;
    uint32_t component = add_component(s, head == last ? CRN_SPLIT_POLYGON : CRN_SPLIT_RIGID);
    for (uint32_t v = head;; v = s->next[v]) {
        for (uint32_t e = s->first_in[v]; e != NONE; e = s->next_in[e])
            s->held[edges[e].a] = NONE;
        for (uint32_t e = s->first_in[v]; e != NONE; e = s->next_in[e])
            if (!s->gone[e])
                take_edge(s, e, component, &s->held[edges[e].a]);
        uint32_t held = NONE;
        for (uint32_t e = s->first_out[v]; e != NONE; e = s->next_out[e])
            if (!s->gone[e] && edges[e].b == exit)
                take_edge(s, e, component, &held);
        if (v == last)
            break;
    }
    uint32_t e = add_edge(s, entry, exit);
    put(s, e, component);
    link_edge(s, e);
}

/* ---- Subtrees ---- */

/* The child of the entry that is above a vertex, or the vertex itself. */
static uint32_t find_top(splitter *s, uint32_t v) {
    while (s->top[v] != v)
        v = s->top[v] = s->top[s->top[v]];
    return v;
}

/* The depth of the parent of a vertex. If an edge from below the entry leads to a vertex, that
 * vertex is below the entry if its parent is at least as deep as the entry. */
static uint32_t parent_depth(const splitter *s, uint32_t v) {
    if (v == NONE)
        return UINT32_MAX;
    return v == s->n ? 0 : s->tree.depth[s->tree.parent[v]];
}

static void add_exit(const splitter *s, exits *x, uint32_t v) {
    if (v == x->near || v == x->far)
        return;
    if (parent_depth(s, v) < parent_depth(s, x->near)) {
        x->far = x->near;
        x->near = v;
    } else if (parent_depth(s, v) < parent_depth(s, x->far)) {
        x->far = v;
    }
}

static void add_exits(const splitter *s, exits *x, exits more) {
    add_exit(s, x, more.near);
    add_exit(s, x, more.far);
}

static bool is_outside(const splitter *s, uint32_t v) {
    return parent_depth(s, v) < s->tree.depth[s->at_entry];
}

/* Collect the exits of `v` and of everything below it. */
static void collect_exits(splitter *s, uint32_t v) {
    const crn_neighbours *next = &s->problem->next;
    exits x = {NONE, NONE};
    if (v == s->problem->dag->target)
        add_exit(s, &x, s->n);
    for (uint32_t i = next->start[v]; i < next->start[v + 1]; i++)
        add_exit(s, &x, next->items[i]);
    for (uint32_t c = s->first_child[v]; c != NONE; c = s->next_child[c])
        add_exits(s, &x, s->exits[c]);
    s->exits[v] = x;
}

static void append_list(splitter *s, uint32_t *head, uint32_t *last, uint32_t subtree) {
    if (*head == NONE)
        *head = s->head[subtree];
    else
        s->next[*last] = s->head[subtree];
    *last = s->last[subtree];
}

/* ---- Blocks of a sketch ---- */

/* If only `child` is left between the entry and one vertex below it, that vertex; else NONE. */
static uint32_t passage_to(const splitter *s, uint32_t child) {
    uint32_t to = NONE;
    if (s->head[child] == s->last[child])
        return NONE;
    for (uint32_t e = s->first_in[child]; e != NONE; e = s->next_in[e])
        if (!s->gone[e] && s->out->edges[e].a != s->at_entry)
            return NONE;
    for (uint32_t e = s->first_out[child]; e != NONE; e = s->next_out[e]) {
        if (s->gone[e] || s->out->edges[e].b == to)
            continue;
        if (to != NONE)
            return NONE;
        to = s->out->edges[e].b;
    }
    return to;
}

/* The exit of a block below `root`; NONE if the block is not a segment. */
static uint32_t exit_of(const splitter *s, uint32_t root, const uint32_t *block, uint32_t count) {
    exits x = {NONE, NONE};
    if (root != s->n)
        return root;
    for (uint32_t i = 0; i < count; i++)
        add_exits(s, &x, s->exits[block[i]]);
    return x.near == s->n || is_outside(s, x.far) ? NONE : x.near;
}

/* Treat a block without its root. All blocks below it were treated before. */
static void treat_block(splitter *s, uint32_t root, const uint32_t *block, uint32_t count) {
    uint32_t entry = s->at_entry, head = NONE, last = NONE;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t child = block[i], to = passage_to(s, child);
        if (to != NONE) {
            split_segment(s, entry, to, child, child);
            s->head[child] = s->next[child];
        }
        append_list(s, &head, &last, child);
    }
    uint32_t exit = exit_of(s, root, block, count);
    if (exit != NONE) {
        split_segment(s, entry, exit, head, last);
    } else {
        s->next[s->last[entry]] = head;
        s->last[entry] = last;
    }
}

static void add_half(splitter *s, uint32_t from, uint32_t to) {
    uint32_t half = s->half_count++;
    s->half_to[half] = to;
    s->half_next[half] = s->half_first[from];
    s->half_first[from] = half;
}

static void draw_sketch(splitter *s) {
    const crn_neighbours *previous = &s->problem->previous;
    uint32_t first = s->first_child[s->at_entry];
    s->half_count = 0;
    s->half_first[s->n] = NONE;
    s->number[s->n] = 0;
    for (uint32_t c = first; c != NONE; c = s->next_child[c]) {
        s->half_first[c] = NONE;
        s->number[c] = 0;
    }
    for (uint32_t c = first; c != NONE; c = s->next_child[c]) {
        if (is_outside(s, s->exits[c].near)) {
            add_half(s, s->n, c);
            add_half(s, c, s->n);
        }
        for (uint32_t i = previous->start[c + 1]; i-- > previous->start[c];) {
            if (previous->items[i] == s->at_entry)
                continue;
            uint32_t other = find_top(s, previous->items[i]);
            add_half(s, other, c);
            add_half(s, c, other);
        }
    }
}

/* Depth-first search from the outside. A block is complete when the search leaves the first vertex
 * below its root and no vertex below has an edge to a vertex above the root. */
static void treat_blocks(splitter *s) {
    uint32_t length = 1, open = 0, count = 1;
    s->path[0] = s->n;
    s->number[s->n] = s->low[s->n] = count;
    while (length > 0) {
        uint32_t v = s->path[length - 1], half = s->half_first[v];
        if (half != NONE) {
            uint32_t w = s->half_to[half];
            s->half_first[v] = s->half_next[half];
            if (s->number[w] != 0) {
                s->low[v] = CRN_MIN(s->low[v], s->number[w]);
                continue;
            }
            s->number[w] = s->low[w] = ++count;
            s->path[length++] = s->open[open++] = w;
            continue;
        }
        if (--length == 0)
            break;
        uint32_t above = s->path[length - 1], end = open;
        s->low[above] = CRN_MIN(s->low[above], s->low[v]);
        if (s->low[v] < s->number[above])
            continue;
        while (s->open[--open] != v)
            continue;
        treat_block(s, above, s->open + open, end - open);
    }
}

static void treat_entry(splitter *s, uint32_t entry) {
    s->at_entry = entry;
    collect_exits(s, entry);
    if (s->first_child[entry] == NONE)
        return;
    draw_sketch(s);
    treat_blocks(s);
    for (uint32_t c = s->first_child[entry]; c != NONE; c = s->next_child[c])
        s->top[c] = entry;
}

/* ---- The splitting ---- */

static void start(splitter *s) {
    const cairn_dag *dag = s->problem->dag;
    for (uint32_t v = 0; v < s->n; v++) {
        s->first_in[v] = s->first_out[v] = s->first_child[v] = NONE;
        s->top[v] = s->head[v] = s->last[v] = v;
    }
    for (uint32_t e = 0; e < dag->edge_count; e++)
        link_edge(s, add_edge(s, dag->edges[e].from, dag->edges[e].to));
    add_edge(s, dag->target, dag->source);
    s->out->real_count = s->out->edge_count;
    for (uint32_t at = 1; at < s->n; at++) {
        uint32_t v = s->problem->order[at], parent = s->tree.parent[v];
        s->next_child[v] = s->first_child[parent];
        s->first_child[parent] = v;
    }
}

/* Only edges from source to target are left, and the reference edge. Three or more are a bond. Two
 * are the same edge: the reference edge replaces the virtual edge that was made last. */
static void finish(splitter *s) {
    crn_split *out = s->out;
    uint32_t reference = out->real_count - 1, last = s->first_out[s->problem->dag->source];
    uint32_t count = 0;
    for (uint32_t e = last; e != NONE; e = s->next_out[e])
        count += !s->gone[e];
    if (count == 1) {
        assert(last == out->edge_count - 1 && !s->gone[last]);
        put(s, reference, out->component[last][0]);
        out->edge_count--;
        return;
    }
    uint32_t bond = add_component(s, CRN_SPLIT_BOND);
    put(s, reference, bond);
    for (uint32_t e = last; e != NONE; e = s->next_out[e])
        if (!s->gone[e])
            put(s, e, bond);
}

cairn_status crn_split_graph(crn_arena *arena, const crn_acg *problem, crn_split *out) {
    splitter s = {.problem = problem, .n = problem->dag->vertex_count, .out = out};
    *out = (crn_split){0};
    CRN_TRY(crn_dominators_build(arena, problem, &s.tree));
    CRN_TRY(take_memory(&s, arena));
    start(&s);
    for (uint32_t at = s.n; at-- > 0;)
        treat_entry(&s, problem->order[at]);
    finish(&s);
    return CAIRN_OK;
}
