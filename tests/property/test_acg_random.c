/* test_acg_random.c: the checkpoint searches on thousands of small random graphs against exhaustive
 * search, and relations between the algorithms on larger ones. */
#include "acg_graphs.h"
#include "check.h"
#include "solve/checkpoints/division.h"
#include "solve/checkpoints/pieces.h"
#include "solve/checkpoints/pieces_order.h"

static uint64_t solve(const cairn_dag *dag, const char *name, cairn_acg_objective objective) {
    cairn_acg_solution *result;
    cairn_error err;
    uint64_t again = 0;
    CHECK_OK(cairn_acg_solve(NULL, dag, name, NULL, &result, &err), &err);
    CHECK_OK(cairn_acg_value(NULL, dag, objective, result->checkpoints, result->checkpoint_count,
                             &again, &err),
             &err);
    CHECK_U64(again, result->value);
    uint64_t value = result->value;
    cairn_acg_solution_destroy(result);
    return value;
}

static uint64_t random_cost_bound(crn_rng *rng) {
    static const uint64_t bounds[] = {2, 4, 20, 1000, (uint64_t)1 << 40};
    return bounds[crn_rng_below(rng, sizeof bounds / sizeof *bounds)];
}

static void print_graph(const cairn_dag *dag) {
    fprintf(stderr, "{\"costs\": [");
    for (uint32_t v = 0; v < dag->vertex_count; v++)
        fprintf(stderr, "%s%" PRIu64, v > 0 ? ", " : "", dag->costs[v]);
    fprintf(stderr, "], \"edges\": [");
    for (uint32_t e = 0; e < dag->edge_count; e++)
        fprintf(stderr, "%s[%u, %u]", e > 0 ? ", " : "", dag->edges[e].from, dag->edges[e].to);
    fprintf(stderr, "], \"source\": %u, \"target\": %u}\n", dag->source, dag->target);
}

static void check_small(uint64_t seed) {
    test_graph g;
    crn_rng rng = {seed};
    int family = (int)(seed % TEST_FAMILIES);
    uint32_t most = seed % 11 == 0 ? 12 : 9;
    uint32_t n = 2 + (uint32_t)crn_rng_below(&rng, most - 1);
    test_make(&g, &rng, family, n, random_cost_bound(&rng));
    int failed = check_failures;
    uint64_t segments = test_optimum(&g.dag, CAIRN_ACG_OBJECTIVE_SEGMENTS);
    uint64_t pieces = test_optimum(&g.dag, CAIRN_ACG_OBJECTIVE_PIECES);
    CHECK_U64(solve(&g.dag, "feng", CAIRN_ACG_OBJECTIVE_SEGMENTS), segments);
    CHECK_U64(solve(&g.dag, "pieces", CAIRN_ACG_OBJECTIVE_PIECES), pieces);
    CHECK(solve(&g.dag, "random", CAIRN_ACG_OBJECTIVE_SEGMENTS) >= segments);
    if (g.m + 1 == g.n) {
        CHECK_U64(solve(&g.dag, "feng-linear", CAIRN_ACG_OBJECTIVE_SEGMENTS), segments);
        CHECK(solve(&g.dag, "chen", CAIRN_ACG_OBJECTIVE_SEGMENTS) >= segments);
    }
    if (check_failures > failed)
        print_graph(&g.dag);
}

/* ---- The division tree ---- */

/* A connected independent segment: the vertices inside, and its two ends. */
typedef struct segment {
    uint32_t inside, ends;
} segment;

enum { MOST_SEGMENTS = 4096 };

typedef struct segment_list {
    uint32_t count;
    segment items[MOST_SEGMENTS];
} segment_list;

static int compare_segments(const void *a, const void *b) {
    const segment *x = a, *y = b;
    if (x->inside != y->inside)
        return x->inside < y->inside ? -1 : 1;
    return (x->ends > y->ends) - (x->ends < y->ends);
}

static void add_segment(segment_list *s, uint32_t inside, uint32_t ends) {
    if (inside != 0 && s->count < MOST_SEGMENTS)
        s->items[s->count++] = (segment){inside, ends};
}

/* List the segments by definition: remove two vertices; a component that touches only these and
 * contains neither source nor target is a segment. */
static void list_by_definition(const cairn_dag *dag, segment_list *out) {
    test_masks m = test_masks_of(dag);
    uint32_t all = (1u << m.n) - 1, outer = 1u << dag->source | 1u << dag->target, in, leaving;
    out->count = 0;
    for (uint32_t a = 0; a < m.n; a++) {
        for (uint32_t b = a + 1; b < m.n; b++) {
            uint32_t ends = 1u << a | 1u << b, rest = all & ~ends, left = rest;
            while (left != 0) {
                uint32_t part = test_component(&m, left & (~left + 1), rest, &in, &leaving);
                left &= ~part;
                if ((part & outer) == 0 && ((in | leaving) & ends) == ends)
                    add_segment(out, part, ends);
            }
        }
    }
}

/* Vertices inside a node of the tree. */
static uint32_t inside_of(const crn_division *tree, uint32_t id) {
    const crn_division_node *node = &tree->nodes[id];
    uint32_t set = 0;
    for (uint32_t i = 0; i < node->vertex_count; i++)
        set |= 1u << tree->vertices[node->first_vertex + i];
    for (uint32_t c = 0; c < node->child_count; c++)
        set |= inside_of(tree, node->first_child + c);
    return set;
}

/* The vertex before child `at` of a linear segment. */
static uint32_t split_at(const crn_division *tree, const crn_division_node *node, uint32_t at) {
    if (at == 0)
        return node->from;
    return at == node->child_count ? node->to : tree->vertices[node->first_vertex + at - 1];
}

/* List the segments by the tree: each complicated segment, and each run of at least two children of
 * a linear one. */
static void list_by_tree(const crn_division *tree, segment_list *out) {
    out->count = 0;
    for (uint32_t id = 0; id < tree->node_count; id++) {
        const crn_division_node *node = &tree->nodes[id];
        if (node->kind == CRN_DIVISION_COMPLICATED)
            add_segment(out, inside_of(tree, id), 1u << node->from | 1u << node->to);
        if (node->kind != CRN_DIVISION_LINEAR)
            continue;
        for (uint32_t a = 0; a < node->child_count; a++) {
            uint32_t set = inside_of(tree, node->first_child + a);
            for (uint32_t b = a + 1; b < node->child_count; b++) {
                set |= 1u << split_at(tree, node, b) | inside_of(tree, node->first_child + b);
                add_segment(out, set,
                            1u << split_at(tree, node, a) | 1u << split_at(tree, node, b + 1));
            }
        }
    }
}

/* Kinds alternate correctly, children lie between the right vertices, and costs add up. */
static void check_nodes(const crn_acg *problem, const crn_division *tree) {
    test_masks m = test_masks_of(problem->dag);
    for (uint32_t id = 0; id < tree->node_count; id++) {
        const crn_division_node *node = &tree->nodes[id];
        CHECK_U64(node->cost, test_sum(&m, inside_of(tree, id)));
        CHECK(problem->rank[node->from] < problem->rank[node->to]);
        CHECK(node->kind == CRN_DIVISION_EDGE ? node->child_count == 0 : node->child_count >= 2);
        for (uint32_t i = 0; i < node->child_count; i++) {
            const crn_division_node *child = &tree->nodes[node->first_child + i];
            CHECK(child->parent == id);
            CHECK(child->kind != node->kind || node->kind == CRN_DIVISION_COMPLICATED);
            if (node->kind == CRN_DIVISION_BRANCH)
                CHECK(child->from == node->from && child->to == node->to);
            if (node->kind == CRN_DIVISION_LINEAR)
                CHECK(child->from == split_at(tree, node, i) &&
                      child->to == split_at(tree, node, i + 1));
        }
    }
}

/* The tree gives exactly the segments of the definition, with any numbering of the vertices. */
static void check_tree(uint64_t seed) {
    static segment_list defined, found;
    test_graph g;
    crn_rng rng = {seed};
    crn_arena arena;
    crn_acg problem;
    crn_division tree;
    cairn_error err;
    uint32_t n = 3 + (uint32_t)crn_rng_below(&rng, 13);
    test_make(&g, &rng, (int)(seed % TEST_FAMILIES), n, random_cost_bound(&rng));
    crn_arena_init(&arena, NULL);
    CHECK_OK(crn_acg_prepare(&arena, &g.dag, NULL, &problem, &err), &err);
    CHECK_OK(crn_division_build(&arena, &problem, &tree), &err);
    int failed = check_failures;
    check_nodes(&problem, &tree);
    list_by_definition(&g.dag, &defined);
    list_by_tree(&tree, &found);
    qsort(defined.items, defined.count, sizeof *defined.items, compare_segments);
    qsort(found.items, found.count, sizeof *found.items, compare_segments);
    CHECK_U64(found.count, defined.count);
    for (uint32_t i = 0; i < defined.count && i < found.count; i++)
        CHECK(compare_segments(&defined.items[i], &found.items[i]) == 0);
    if (check_failures > failed)
        print_graph(&g.dag);
    crn_arena_release(&arena);
}

/* With other numbers of the vertices, the value and the shape of the tree stay the same. */
static void check_renumbered(uint64_t seed) {
    test_graph g;
    crn_rng rng = {seed};
    uint32_t n = 3 + (uint32_t)crn_rng_below(&rng, 40);
    test_make(&g, &rng, (int)(seed % TEST_FAMILIES), n, random_cost_bound(&rng));
    test_graph h = g;
    for (uint32_t v = 0; v < g.n; v++)
        h.costs[g.n - 1 - v] = g.costs[v];
    for (uint32_t e = 0; e < g.m; e++)
        h.edges[e] = (cairn_dag_edge){g.n - 1 - g.edges[e].from, g.n - 1 - g.edges[e].to};
    qsort(h.edges, h.m, sizeof *h.edges, test_compare_edges);
    h.dag = (cairn_dag){h.n, h.m, g.n - 1 - g.dag.source, g.n - 1 - g.dag.target, h.costs, h.edges};
    CHECK_U64(solve(&h.dag, "feng", CAIRN_ACG_OBJECTIVE_SEGMENTS),
              solve(&g.dag, "feng", CAIRN_ACG_OBJECTIVE_SEGMENTS));
    cairn_text one, two;
    cairn_error err;
    uint32_t names[MOST_VERTICES];
    for (uint32_t v = 0; v < g.n; v++)
        names[v] = g.n - 1 - v;
    CHECK_OK(cairn_acg_tree_text(NULL, &g.dag, NULL, &one, &err), &err);
    CHECK_OK(cairn_acg_tree_text(NULL, &h.dag, names, &two, &err), &err);
    CHECK_U64(one.length, two.length);
    cairn_text_release(&one);
    cairn_text_release(&two);
}

/* ---- Parts with local updates, against a search of the whole graph ---- */

static void check_order(uint64_t seed) {
    test_graph g;
    crn_rng rng = {seed};
    crn_arena arena;
    crn_acg problem;
    crn_pieces_room room;
    crn_pieces_order order;
    cairn_error err;
    uint8_t all[MOST_VERTICES];
    uint32_t n = 3 + (uint32_t)crn_rng_below(&rng, MOST_VERTICES - 3);
    test_make(&g, &rng, (int)(seed % TEST_FAMILIES), n, random_cost_bound(&rng));
    memset(all, 1, sizeof all);
    crn_arena_init(&arena, NULL);
    CHECK_OK(crn_acg_prepare(&arena, &g.dag, NULL, &problem, &err), &err);
    CHECK_OK(crn_pieces_room_take(&arena, &problem, &room), &err);
    CHECK_OK(crn_pieces_order_take(&arena, &problem, all, &order), &err);
    for (int i = 0; i < 60; i++) {
        uint32_t x = problem.order[1 + crn_rng_below(&rng, n - 2)];
        uint32_t y = problem.order[1 + crn_rng_below(&rng, n - 2)];
        uint64_t limit = crn_rng_below(&rng, problem.total + 1);
        crn_pieces_value before = crn_pieces_evaluate(&problem, order.chosen, &room);
        bool done = crn_pieces_order_flip(&order, x, x == y ? UINT32_MAX : y, limit);
        crn_pieces_value after = crn_pieces_evaluate(&problem, order.chosen, &room);
        CHECK_U64(order.kept, after.kept);
        CHECK_U64(crn_pieces_order_largest(&order), after.largest);
        CHECK(done ? after.largest <= CRN_MAX(limit, before.largest) : after.kept == before.kept);
    }
    crn_arena_release(&arena);
}

/* ---- Larger graphs ---- */

static void check_large(uint64_t seed) {
    test_graph g;
    crn_rng rng = {seed};
    uint32_t n = 13 + (uint32_t)crn_rng_below(&rng, 50);
    test_make(&g, &rng, (int)(seed % TEST_FAMILIES), n, random_cost_bound(&rng));
    uint64_t segments = solve(&g.dag, "feng", CAIRN_ACG_OBJECTIVE_SEGMENTS);
    CHECK(solve(&g.dag, "pieces", CAIRN_ACG_OBJECTIVE_PIECES) <= segments);
    CHECK(solve(&g.dag, "random", CAIRN_ACG_OBJECTIVE_SEGMENTS) >= segments);
    if (g.m + 1 == g.n)
        CHECK_U64(solve(&g.dag, "feng-linear", CAIRN_ACG_OBJECTIVE_SEGMENTS), segments);
}

int main(void) {
    for (uint64_t seed = 1; seed <= CHECK_ROUNDS(14000); seed++)
        check_small(seed);
    for (uint64_t seed = 1; seed <= CHECK_ROUNDS(3000); seed++) {
        check_tree(seed);
        check_renumbered(seed);
        check_order(seed);
    }
    for (uint64_t seed = 1; seed <= 42; seed++)
        check_large(seed);
    return check_result();
}
