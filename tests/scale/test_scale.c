/* test_scale.c: sizes far beyond the zoo. It prints the time of each stage and its target, and
 * fails if a stage takes more than CAIRN_TIME_FACTOR times its target, which only a wrong
 * complexity does. */
#include "base/rng.h"
#include "cairn.h"
#include "cairn/papers.h"
#include "check.h"
#include "graph/layers.h"
#include "plan/crn_plan.h"

#include <time.h>

/* CAIRN_SCALE is the percentage of the full size. It is smaller under sanitizers, which are
 * slow. */
#define FORWARD_OPS (10000u * CAIRN_SCALE / 100u)
#define STEPS (1000000u * CAIRN_SCALE / 100u)
#define LIFETIMES (10000u * CAIRN_SCALE / 100u)

/* Processor time of this process, because real time depends on how busy the machine is. */
static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void report(const char *what, double start, double target) {
    double took = now_ms() - start;
    printf("%-44s %8.1f ms, target %.0f ms\n", what, took, target);
    CHECK(took <= target * CAIRN_TIME_FACTOR);
}

/* ---- A graph of ten thousand ops: residual blocks ---- */

/* conv, batch-norm, relu, conv, batch-norm, add, relu: seven ops. */
static cairn_id add_block(cairn_builder *b, cairn_id x, uint32_t number) {
    char name[32];
    crn_conv conv = {.channels = 8, .kernel = {3, 3}, .pad = {1, 1, 1, 1}};
#define NAME(part) (snprintf(name, sizeof name, "block%u." part, number), name)
    cairn_id y = crn_build_conv2d(b, NAME("conv1"), x, &conv);
    y = crn_build_batch_norm(b, NAME("norm1"), y, 1e-5);
    y = crn_build_relu(b, NAME("relu1"), y);
    y = crn_build_conv2d(b, NAME("conv2"), y, &conv);
    y = crn_build_batch_norm(b, NAME("norm2"), y, 1e-5);
    y = crn_build_add(b, NAME("add"), y, x);
    return crn_build_relu(b, NAME("relu2"), y);
#undef NAME
}

static cairn_graph *build(void) {
    cairn_builder *b;
    cairn_graph *graph;
    cairn_error err = {0};
    CHECK_OK(cairn_builder_create(NULL, "blocks", &b), &err);
    cairn_id x = crn_build_input(b, "input", 4, (uint32_t[]){1, 8, 8, 8});
    for (uint32_t i = 0; i < FORWARD_OPS / 7; i++)
        x = add_block(b, x, i);
    x = crn_build_flatten(b, "flatten", x);
    x = crn_build_linear(b, "linear", x, 10);
    cairn_id label = crn_build_label(b, "label", 1, (uint32_t[]){1});
    crn_build_cross_entropy(b, "loss", x, label);
    CHECK_OK(cairn_builder_finish(b, &graph, &err), &err);
    cairn_builder_destroy(b);
    return graph;
}

static cairn_graph *test_graph(void) {
    cairn_error err = {0};
    cairn_graph *joint;
    cairn_dag_view *dag;
    cairn_chain_view *chain;
    double start = now_ms();
    cairn_graph *forward = build();
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &joint, &err), &err);
    CHECK_OK(cairn_dag_view_create(joint, NULL, &dag, &err), &err);
    CHECK_OK(cairn_chain_view_create(joint, &chain, &err), &err);
    char what[80];
    snprintf(what, sizeof what, "%u ops, %u with backward: build, views",
             cairn_graph_op_count(forward), cairn_graph_op_count(joint));
    report(what, start, 50);
    CHECK(chain->piece_count > FORWARD_OPS / 7);
    cairn_chain_view_destroy(chain);
    cairn_dag_view_destroy(dag);
    cairn_graph_destroy(forward);
    return joint;
}

/* ---- A plan of a million steps ---- */

static void add_step(crn_plan_builder *b, uint8_t kind, cairn_id id, uint32_t *count) {
    cairn_error err = {0};
    cairn_step step = {.kind = kind, .id = id};
    CHECK_OK(crn_plan_builder_add(b, step), &err);
    ++*count;
}

/* The forward pass many times, with everything freed after each, and then the plan itself. */
static cairn_plan *long_plan(const cairn_graph *g, const cairn_plan *plan) {
    crn_plan_builder *b;
    cairn_plan *out;
    cairn_error err = {0};
    uint32_t steps = 0, count;
    CHECK_OK(crn_plan_builder_create(NULL, &b), &err);
    while (steps < STEPS) {
        for (cairn_id o = 0; cairn_graph_op(g, o)->phase == CAIRN_PHASE_FORWARD; o++)
            add_step(b, CAIRN_STEP_RUN, o, &steps);
        for (cairn_id t = 0; t < cairn_graph_tensor_count(g); t++) {
            const cairn_tensor *tensor = cairn_graph_tensor(g, t);
            if (tensor->producer != CAIRN_NONE && tensor->role != CAIRN_ROLE_GRADIENT)
                add_step(b, CAIRN_STEP_FREE, t, &steps);
        }
    }
    const cairn_step *rest = plan->steps;
    count = plan->step_count;
    for (uint32_t i = 0; i < count; i++)
        CHECK_OK(crn_plan_builder_add(b, rest[i]), &err);
    CHECK_OK(crn_plan_builder_finish(b, g, plan->header, &out, &err), &err);
    crn_plan_builder_destroy(b);
    return out;
}

/* ---- Layouts ---- */

static bool apart(const cairn_lifetime *a, uint64_t at, const cairn_lifetime *b, uint64_t bt) {
    return a->last < b->first || b->last < a->first || at + a->bytes <= bt || bt + b->bytes <= at;
}

/* Check every pair of lifetimes, without the data structures of layout.c. */
static void check_layout(const cairn_lifetime *lives, uint32_t count, const cairn_layout *layout) {
    const uint64_t *offsets = layout->offsets;
    uint32_t placed = layout->count;
    uint64_t overlaps = 0, outside = 0, unaligned = 0;
    CHECK_U64(placed, count);
    for (uint32_t i = 0; i < count; i++) {
        unaligned += offsets[i] % 64 != 0;
        outside += offsets[i] + lives[i].bytes > layout->arena_bytes;
        for (uint32_t j = 0; j < i; j++)
            overlaps += !apart(&lives[i], offsets[i], &lives[j], offsets[j]);
    }
    CHECK_U64(overlaps, 0);
    CHECK_U64(outside, 0);
    CHECK_U64(unaligned, 0);
}

/* The largest sum of live sizes at one step, by visiting all steps. */
static uint64_t live_peak(const cairn_lifetime *lives, uint32_t count, uint32_t steps) {
    uint64_t *change = calloc((size_t)steps + 2, sizeof *change), live = 0, peak = 0;
    for (uint32_t i = 0; i < count; i++) {
        change[lives[i].first < steps ? lives[i].first : steps] += lives[i].bytes;
        change[lives[i].last < steps ? lives[i].last + 1 : steps + 1] -= lives[i].bytes;
    }
    for (uint32_t s = 0; s <= steps; s++) {
        live += change[s]; /* unsigned: it may wrap around and back */
        peak = live > peak ? live : peak;
    }
    free(change);
    return peak;
}

static void test_layout(const char *what, const cairn_lifetime *lives, uint32_t count,
                        uint32_t steps) {
    cairn_layout *layout, *again;
    cairn_error err = {0};
    double start = now_ms();
    CHECK_OK(cairn_layout_create(NULL, lives, count, &layout, &err), &err);
    char line[80];
    snprintf(line, sizeof line, "layout, %u lifetimes %s", count, what);
    report(line, start, 200);
    uint64_t peak = live_peak(lives, count, steps), arena = layout->arena_bytes;
    printf("    arena %.2f%% over the live peak\n", 100.0 * (double)arena / (double)peak - 100.0);
    CHECK(arena >= peak);
    check_layout(lives, count, layout);
    CHECK_OK(cairn_layout_create(NULL, lives, count, &again, &err), &err);
    CHECK_U64(again->arena_bytes, arena);
    CHECK(memcmp(again->offsets, layout->offsets, count * sizeof(uint64_t)) == 0);
    cairn_layout_destroy(again);
    cairn_layout_destroy(layout);
}

/* Random short and long lifetimes, which do not nest. */
static void test_random_layout(void) {
    static cairn_lifetime lives[LIFETIMES];
    crn_rng rng = {7};
    for (uint32_t i = 0; i < LIFETIMES; i++) {
        uint32_t first = (uint32_t)crn_rng_below(&rng, LIFETIMES);
        uint32_t reach = crn_rng_below(&rng, 8) == 0 ? LIFETIMES / 4 : 50;
        lives[i] = (cairn_lifetime){.bytes = 64 * (1 + crn_rng_below(&rng, 1000)),
                                    .first = first,
                                    .last = first + (uint32_t)crn_rng_below(&rng, reach)};
    }
    test_layout("at random", lives, LIFETIMES, 2 * LIFETIMES);
}

static void test_plan(const cairn_graph *g) {
    cairn_error err = {0};
    cairn_costs *costs;
    cairn_solution *none;
    cairn_sim *sim;
    CHECK_OK(cairn_costs_create(g, &costs, &err), &err);
    double start = now_ms();
    CHECK_OK(cairn_solve(g, costs, "none", NULL, &none, &err), &err);
    report("none: schedule, lower, simulate, lay out", start, 400);

    const cairn_lifetime *lives = none->sim->lifetimes;
    uint32_t count = none->sim->lifetime_count;
    uint32_t steps = none->plan->step_count;
    test_layout("of none", lives, count < LIFETIMES ? count : LIFETIMES, steps);

    cairn_plan *repeated = long_plan(g, none->plan);
    steps = repeated->step_count;
    start = now_ms();
    CHECK_OK(cairn_simulate(g, costs, repeated, NULL, &sim, &err), &err);
    char what[80];
    snprintf(what, sizeof what, "simulate %u steps", steps);
    report(what, start, 1000);
    cairn_sim_destroy(sim);
    cairn_plan_destroy(repeated);
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
}

int main(void) {
    cairn_graph *graph = test_graph();
    test_plan(graph);
    test_random_layout();
    cairn_graph_destroy(graph);
    return check_result();
}
