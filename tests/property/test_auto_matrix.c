/* test_auto_matrix.c: the matrix of recomputations against new evaluations of the same set, and
 * against the lowering and the simulator. */
#include "check.h"
#include "property/random_graph.h"
#include "solve/auto/auto_search.h"
#include "solve/auto/auto_starts.h"
#include "import/importer.h"

typedef struct fixture {
    cairn_graph *graph;
    cairn_costs *costs;
    crn_arena arena;
    crn_flat *flat;
    crn_matrix *matrix;
    bool aliased; /* then the matrix may count too much */
} fixture;

static void open_matrix(fixture *f) {
    cairn_error err = {0};
    crn_arena_init(&f->arena, NULL);
    CHECK_OK(crn_flat_create(f->graph, f->costs, &f->arena, &f->flat), &err);
    CHECK_OK(crn_matrix_create(f->flat, &f->arena, &f->matrix), &err);
    f->aliased = false;
    for (uint32_t v = 0; v < f->flat->value_count; v++)
        f->aliased = f->aliased || f->flat->aliased[v] || f->flat->room[v] != f->flat->bytes[v];
}

static void close_matrix(fixture *f) {
    crn_arena_release(&f->arena);
    cairn_costs_destroy(f->costs);
    cairn_graph_destroy(f->graph);
}

/* Change one recomputation or way. */
static void change_one(crn_rng *rng, crn_matrix *m) {
    const crn_flat *f = m->flat;
    uint32_t op = below(rng, f->op_count);
    uint32_t impls = f->first_impl[op + 1] - f->first_impl[op];
    if (one_in(rng, 6))
        crn_matrix_set_impl(m, op, below(rng, impls));
    else if (!f->fixed[op] && op + 2 <= f->last_slot)
        crn_matrix_flip(m, op + 2 + below(rng, f->last_slot - op - 1), op);
}

/* A new matrix of the same set has the same figures. */
static void check_fresh(const fixture *f) {
    crn_arena arena;
    crn_matrix *fresh;
    cairn_error err = {0};
    crn_arena_init(&arena, NULL);
    CHECK_OK(crn_matrix_create(f->flat, &arena, &fresh), &err);
    for (uint32_t o = 0; o < f->flat->op_count; o++)
        crn_matrix_set_impl(fresh, o, f->matrix->impl[o]);
    for (uint32_t k = 0; k < f->matrix->all.length; k++)
        crn_matrix_flip(fresh, f->matrix->all.data[k].slot, f->matrix->all.data[k].op);
    CHECK_U64((uint64_t)crn_matrix_peak(f->matrix), (uint64_t)crn_matrix_peak(fresh));
    CHECK_U64((uint64_t)f->matrix->time, (uint64_t)fresh->time);
    for (uint32_t slot = 0; slot < fresh->slot_count; slot++)
        CHECK(crn_matrix_most(f->matrix, slot, slot) == crn_matrix_most(fresh, slot, slot));
    crn_arena_release(&arena);
}

/* What the matrix counts beside the time of the plan: an op that is not run in the usual way counts
 * as slower than it is, see add_impls() in flat_problem.c. */
static int64_t set_aside(const fixture *f) {
    int64_t sum = 0;
    for (uint32_t o = 0; o < f->flat->op_count; o++) {
        const crn_flat_impl *impl = &f->flat->impls[f->flat->first_impl[o] + f->matrix->impl[o]];
        int64_t runs = 1;
        uint32_t count;
        const cairn_implementation *list = cairn_costs_op(f->costs, o, &count);
        for (uint32_t k = 0; k < f->matrix->all.length; k++)
            runs += f->matrix->all.data[k].op == o;
        if (count > 0)
            sum += runs * (impl->time - list[impl->implementation].time_ns);
    }
    return sum;
}

/* The plan of the set is legal; its memory and time are those of the matrix, or less. */
static void check_simulated(fixture *f, bool exact) {
    cairn_error err = {0};
    crn_schedule schedule = {0};
    cairn_plan *plan;
    cairn_sim *sim;
    crn_matrix_prune_all(f->matrix);
    CHECK_OK(crn_auto_emit(f->matrix, NULL, &f->arena, &schedule), &err);
    CHECK_OK(crn_lower(f->graph, f->costs, &schedule, CAIRN_GOAL_TRAIN, 0, &plan, &err), &err);
    CHECK_OK(cairn_simulate(f->graph, f->costs, plan, NULL, &sim, &err), &err);
    const cairn_sim_summary *s = sim->summary;
    CHECK(s->peak_bytes <= (uint64_t)crn_matrix_peak(f->matrix));
    CHECK(s->time_ns <= f->matrix->time);
    if (exact) {
        CHECK_U64(s->peak_bytes, (uint64_t)crn_matrix_peak(f->matrix));
        CHECK_U64((uint64_t)s->time_ns, (uint64_t)(f->matrix->time - set_aside(f)));
    }
    cairn_sim_destroy(sim);
    cairn_plan_destroy(plan);
}

static void check_changes(crn_rng *rng, fixture *f, bool exact) {
    crn_matrix *m = f->matrix;
    for (uint32_t round = 0; round < 6; round++) {
        for (uint32_t k = below(rng, 10 * round + 2); k > 0; k--)
            change_one(rng, m);
        int64_t peak = crn_matrix_peak(m), time = m->time;
        m->journaling = true;
        for (uint32_t k = below(rng, 30); k > 0; k--)
            change_one(rng, m);
        check_fresh(f);
        crn_matrix_undo(m, 0);
        m->journaling = false;
        CHECK(crn_matrix_peak(m) == peak && m->time == time);
        check_fresh(f);
        check_simulated(f, exact);
    }
}

static uint32_t count_over(crn_matrix *m, int64_t limit) {
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < m->slot_count; slot++)
        count += crn_matrix_most(m, slot, slot) > limit;
    return count;
}

/* Isolating the peak does not raise it, and the allowances are gone afterwards. Returns whether
 * fewer slots are close to it. */
static bool check_isolated(fixture *f) {
    cairn_error err = {0};
    crn_matrix *m = f->matrix;
    crn_search *s;
    crn_matrix_clear(m);
    CHECK_OK(crn_search_create(f->flat, m, 1, &f->arena, &s), &err);
    crn_descend(s, 0, 20000);
    int64_t peak = crn_matrix_peak(m), limit = peak - peak / 20;
    uint32_t before = count_over(m, limit);
    crn_isolate_peak(s, peak, limit, 1000000);
    crn_isolate_end(s);
    CHECK(crn_matrix_peak(m) <= peak);
    check_fresh(f);
    return count_over(m, limit) < before;
}

static void check_random(uint64_t seed) {
    crn_rng rng = {seed};
    bool uneven = one_in(&rng, 3);
    fixture f = {0};
    f.graph = one_in(&rng, 3) ? random_network(&rng) : random_graph(&rng);
    f.costs = random_costs(&rng, f.graph, uneven);
    open_matrix(&f);
    check_changes(&rng, &f, !f.aliased && !uneven);
    (void)check_isolated(&f);
    close_matrix(&f);
}

static void check_network(const char *name) {
    cairn_error err = {0};
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_graph *forward;
    fixture f = {0};
    options.batch = 1;
    CHECK_OK(crn_zoo_build(NULL, name, &options, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &f.graph, &err), &err);
    CHECK_OK(cairn_machine_find("v100", &machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(f.graph, &machine, &f.costs, &err), &err);
    open_matrix(&f);
    crn_rng rng = {7};
    check_changes(&rng, &f, true);
    CHECK(check_isolated(&f));
    close_matrix(&f);
    cairn_graph_destroy(forward);
}

int main(void) {
    for (uint64_t seed = 1; seed <= 300; seed++)
        check_random(seed);
    check_network("resnet18");
    check_network("unet");
    check_network("rnn");
    return check_result();
}
