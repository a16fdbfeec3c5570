/* test_budget.c: the memory that budgets leave for a plan, the largest batch, predicted times of
 * steps. */
#include "cairn.h"
#include "cairn/budget.h"
#include "cairn/report.h"
#include "check.h"
#include "graph/layers.h"
#include "solve/solution.h"
#include "import/importer.h"

static cairn_status build(const char *name, uint32_t batch, cairn_graph **out, cairn_error *err) {
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    options.batch = batch;
    cairn_graph *forward;
    cairn_status status = crn_zoo_build(NULL, name, &options, &forward, err);
    if (status != CAIRN_OK)
        return status;
    status = cairn_graph_differentiate(forward, NULL, out, err);
    cairn_graph_destroy(forward);
    return status;
}

/* ---- Budgets ---- */

static void test_shares(void) {
    CHECK_U64(crn_share_of(1000, 500000), 500);
    CHECK_U64(crn_share_of(999, 333333), 332);
    CHECK_U64(crn_share_of(0, 1000000), 0);
    CHECK_U64(crn_share_of(UINT64_MAX, 1000000), UINT64_MAX);
}

static cairn_budget resolve(const cairn_graph *graph, const cairn_costs *costs, uint64_t amount,
                            bool share, bool total, const cairn_solution *none) {
    cairn_budget_options options = CAIRN_BUDGET_OPTIONS_INIT;
    cairn_budget budget = CAIRN_BUDGET_INIT;
    cairn_error err = {0};
    options.amount = amount;
    options.share = share;
    options.total = total;
    options.optimizer_slots = 2;
    options.none = none;
    CHECK_OK(cairn_budget_resolve(graph, costs, &options, &budget, &err), &err);
    return budget;
}

static void test_budgets(void) {
    cairn_graph *graph;
    cairn_costs *costs;
    cairn_solution *none;
    cairn_error err = {0};
    CHECK_OK(build("alexnet", 2, &graph, &err), &err);
    CHECK_OK(cairn_costs_create(graph, &costs, &err), &err);
    CHECK_OK(cairn_solve(graph, costs, "none", NULL, &none, &err), &err);
    uint64_t arena = none->layout->arena_bytes;
    uint64_t stationary = cairn_stationary_bytes(graph, costs, 2);

    cairn_budget b = resolve(graph, costs, 5000000, false, false, NULL);
    CHECK(b.plan_bytes == 5000000 && b.given_bytes == 5000000 && b.stationary_bytes == 0);
    b = resolve(graph, costs, stationary + 77, false, true, NULL);
    CHECK(b.plan_bytes == 77 && b.given_bytes == stationary + 77);
    CHECK_U64(b.stationary_bytes, stationary);
    b = resolve(graph, costs, stationary, false, true, NULL); /* nothing is left */
    CHECK_U64(b.plan_bytes, 1);
    b = resolve(graph, costs, 400000, true, false, NULL);
    CHECK_U64(b.plan_bytes, crn_share_of(arena, 400000));
    cairn_budget same = resolve(graph, costs, 400000, true, false, none);
    CHECK_U64(same.plan_bytes, b.plan_bytes);
    b = resolve(graph, costs, 999000, true, true, none);
    CHECK_U64(b.given_bytes, crn_share_of(arena + stationary, 999000));
    CHECK_U64(b.plan_bytes, b.given_bytes - stationary);

    cairn_budget_options unset = {0};
    CHECK(cairn_budget_resolve(graph, costs, &unset, &b, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.message, "struct_size") != NULL);

    /* Two micro-batches and an update. */
    int64_t time = none->sim->summary->time_ns;
    CHECK(cairn_solution_step_ns(none, 2, 30) == 2 * time + 30);
    CHECK(cairn_solution_step_ns(none, 1, INT64_MAX) == INT64_MAX);
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
}

/* ---- The largest batch ---- */

typedef struct opened {
    uint32_t tries;
    uint32_t refused_above; /* graphs of larger batches are too large to represent; 0: no limit */
} opened;

static cairn_status open_batch(void *context, uint32_t batch, cairn_graph **graph,
                               cairn_costs **costs, cairn_error *err) {
    opened *o = context;
    o->tries++;
    if (o->refused_above > 0 && batch > o->refused_above)
        return CAIRN_EOVERFLOW;
    cairn_status status = build("alexnet", batch, graph, err);
    return status == CAIRN_OK ? cairn_costs_create(*graph, costs, err) : status;
}

/* The arena at a batch. */
static uint64_t arena_at(uint32_t batch) {
    opened o = {0};
    cairn_graph *graph;
    cairn_costs *costs;
    cairn_solution *none;
    cairn_error err = {0};
    CHECK_OK(open_batch(&o, batch, &graph, &costs, &err), &err);
    CHECK_OK(cairn_solve(graph, costs, "none", NULL, &none, &err), &err);
    uint64_t arena = none->layout->arena_bytes;
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
    return arena;
}

static void check_fit(uint64_t budget, uint32_t hint, uint32_t refused_above, uint32_t expected) {
    cairn_solve_options solve = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_fit_options options = CAIRN_FIT_OPTIONS_INIT;
    cairn_fit_result found = CAIRN_FIT_RESULT_INIT;
    cairn_error err = {0};
    opened o = {.refused_above = refused_above};
    solve.budget_bytes = budget;
    options.algorithm = "none";
    options.solve = &solve;
    options.open = open_batch;
    options.context = &o;
    options.hint = hint;
    CHECK_OK(cairn_fit(&options, &found, &err), &err);
    CHECK_U64(found.batch, expected);
    if (expected > 0)
        CHECK_U64(found.arena_bytes, arena_at(expected));
    if (refused_above > 0)
        CHECK(found.next_bytes == UINT64_MAX);
    else
        CHECK(found.next_bytes == arena_at(expected + 1) && found.stopped_by[0] != '\0');
    CHECK(o.tries < 14);
}

static void test_fit(void) {
    uint64_t seven = arena_at(7);
    check_fit(seven, 0, 0, 7);
    check_fit(seven, 1, 0, 7);
    check_fit(seven, 100, 0, 7);
    check_fit(seven - 64, 3, 0, 6);
    check_fit(64, 1, 0, 0);
    check_fit((uint64_t)1 << 40, 1, 5, 5);

    cairn_fit_options options = CAIRN_FIT_OPTIONS_INIT;
    cairn_fit_result found = CAIRN_FIT_RESULT_INIT;
    cairn_error err = {0};
    options.open = open_batch;
    CHECK(cairn_fit(&options, &found, &err) == CAIRN_EINVAL); /* no budget */
    CHECK(strstr(err.message, "budget") != NULL);
}

int main(void) {
    test_shares();
    test_budgets();
    test_fit();
    return check_result();
}
