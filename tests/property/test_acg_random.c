/* test_acg_random.c: the checkpoint searches on thousands of small random graphs against exhaustive
 * search, and what must hold between the algorithms on larger ones. */
#include "acg_graphs.h"
#include "check.h"

static uint64_t solve(const cairn_dag *dag, const char *name, cairn_acg_objective objective) {
    cairn_acg_result result;
    cairn_error err;
    uint64_t again = 0;
    CHECK_OK(cairn_acg_solve(NULL, dag, name, NULL, &result, &err), &err);
    CHECK_OK(cairn_acg_value(NULL, dag, objective, result.checkpoints, result.checkpoint_count,
                             &again, &err),
             &err);
    CHECK_U64(again, result.value);
    uint64_t value = result.value;
    cairn_acg_result_release(&result);
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
    test_make(&g, &rng, family, 2 + (uint32_t)crn_rng_below(&rng, most - 1),
              random_cost_bound(&rng));
    int failed = check_failures;
    uint64_t segments = test_optimum(&g.dag, CAIRN_ACG_SEGMENTS);
    uint64_t pieces = test_optimum(&g.dag, CAIRN_ACG_PIECES);
    CHECK_U64(solve(&g.dag, "feng", CAIRN_ACG_SEGMENTS), segments);
    CHECK_U64(solve(&g.dag, "pieces", CAIRN_ACG_PIECES), pieces);
    CHECK(solve(&g.dag, "random", CAIRN_ACG_SEGMENTS) >= segments);
    if (g.m + 1 == g.n) {
        CHECK_U64(solve(&g.dag, "feng-linear", CAIRN_ACG_SEGMENTS), segments);
        CHECK(solve(&g.dag, "chen", CAIRN_ACG_SEGMENTS) >= segments);
    }
    if (check_failures > failed)
        print_graph(&g.dag);
}

static void check_large(uint64_t seed) {
    test_graph g;
    crn_rng rng = {seed};
    test_make(&g, &rng, (int)(seed % TEST_FAMILIES), 13 + (uint32_t)crn_rng_below(&rng, 50),
              random_cost_bound(&rng));
    uint64_t segments = solve(&g.dag, "feng", CAIRN_ACG_SEGMENTS);
    CHECK(solve(&g.dag, "pieces", CAIRN_ACG_PIECES) <= segments);
    CHECK(solve(&g.dag, "random", CAIRN_ACG_SEGMENTS) >= segments);
    if (g.m + 1 == g.n)
        CHECK_U64(solve(&g.dag, "feng-linear", CAIRN_ACG_SEGMENTS), segments);
}

int main(void) {
    for (uint64_t seed = 1; seed <= 7000; seed++)
        check_small(seed);
    for (uint64_t seed = 1; seed <= 300; seed++)
        check_large(seed);
    return check_result();
}
