/* test_plan_networks.c: every network of the zoo through lowering, both simulators, the plan's text
 * and the layout: keeping everything, evaluating, and random keep-sets over pieces of its chain. */
#include "check.h"
#include "cairn/papers/views.h"
#include "plan/lower.h"
#include "property/agree.h"
#include "property/random_graph.h"
#include "sim/crn_sim.h"
#include "import/importer.h"

#define KEEP_SETS 3
#define TWICE 600 /* lifetimes; larger layouts are not made twice, because that takes too long */

/* How far the arena may be above the live peak. */
#define MOST_RATIO 1.01

static double worst_ratio[2], sum_of_ratios; /* by goal */
static char worst_name[2][64];
static long plans, tight, steps_walked;

/* ---- Layout, checked pair by pair ---- */

static void check_layout(const char *name, cairn_goal goal, const cairn_sim *sim) {
    cairn_error err = {0};
    cairn_layout *layout, *again;
    const cairn_lifetime *l = sim->lifetimes;
    uint32_t count = sim->lifetime_count;
    CHECK_OK(cairn_layout_create(NULL, l, count, &layout, &err), &err);
    const uint64_t *at = layout->offsets;
    uint32_t offsets_count = layout->count;
    uint64_t arena = layout->arena_bytes;
    uint64_t peak = sim->summary->peak_bytes;
    CHECK_U64(offsets_count, count);
    if (count < TWICE) {
        CHECK_OK(cairn_layout_create(NULL, l, count, &again, &err), &err);
        const uint64_t *at_again = again->offsets;
        offsets_count = again->count;
        CHECK(offsets_count == count && memcmp(at, at_again, count * sizeof *at) == 0);
        cairn_layout_destroy(again);
    }
    uint32_t steps = sim->step_count;
    for (uint32_t i = 0; i <= steps; i++)
        for (uint32_t k = 0; k < 4; k++) {
            uint32_t lifetime = crn_sim_operand(sim, i, k);
            CHECK_U64(cairn_layout_address(layout, sim, i, k),
                      lifetime == CAIRN_NONE ? CAIRN_NO_ADDRESS : at[lifetime]);
        }
    long overlaps = 0, outside = 0;
    for (uint32_t i = 0; i < count; i++) {
        outside += at[i] % 64 != 0 || at[i] + l[i].bytes > arena;
        for (uint32_t k = 0; k < i; k++)
            overlaps += l[i].first <= l[k].last && l[k].first <= l[i].last &&
                        at[i] < at[k] + l[k].bytes && at[k] < at[i] + l[i].bytes;
    }
    CHECK_U64((uint64_t)overlaps, 0);
    CHECK_U64((uint64_t)outside, 0);
    CHECK(arena >= peak);
    double ratio = (double)arena / (double)peak;
    double limit = MOST_RATIO;
    if (ratio > limit)
        fprintf(stderr, "%s: the arena is %.2f%% above the live peak\n", name, 100 * ratio - 100);
    CHECK(ratio <= limit);
    if (ratio > worst_ratio[goal]) {
        worst_ratio[goal] = ratio;
        snprintf(worst_name[goal], sizeof worst_name[goal], "%s", name);
    }
    sum_of_ratios += ratio;
    tight += arena == peak;
    cairn_layout_destroy(layout);
}

/* ---- Text ---- */

static void check_text(const cairn_graph *graph, const cairn_plan *plan, const cairn_plan *twin) {
    cairn_error err = {0};
    cairn_text text, back, other;
    cairn_plan *read;
    CHECK_OK(cairn_plan_to_text(plan, graph, &text), &err);
    CHECK_OK(cairn_plan_to_text(twin, graph, &other), &err);
    CHECK(text.length == other.length && memcmp(text.data, other.data, text.length) == 0);
    CHECK_OK(cairn_plan_from_text(graph, text.data, text.length, "plan", &read, &err), &err);
    CHECK_OK(cairn_plan_to_text(read, graph, &back), &err);
    CHECK(text.length == back.length && memcmp(text.data, back.data, text.length) == 0);
    const cairn_step *steps = plan->steps;
    uint32_t count = plan->step_count;
    const cairn_step *read_steps = read->steps;
    uint32_t read_count = read->step_count;
    CHECK(count == read_count && memcmp(steps, read_steps, count * sizeof *steps) == 0);
    cairn_plan_destroy(read);
    cairn_text_release(&text);
    cairn_text_release(&other);
    cairn_text_release(&back);
}

static uint64_t check_plan(const char *name, const cairn_graph *graph, const cairn_costs *costs,
                           const cairn_plan *plan, const cairn_plan *twin) {
    cairn_error err = {0};
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    cairn_sim *sim;
    cairn_rule rule;
    bool good = agree(graph, costs, plan, &options, &rule, NULL);
    if (!good || rule != CAIRN_RULE_NONE)
        fprintf(stderr, "%s: %s\n", name, crn_rule_name(rule));
    CHECK(good && rule == CAIRN_RULE_NONE);
    CHECK_OK(cairn_simulate(graph, costs, plan, &options, &sim, &err), &err);
    check_text(graph, plan, twin);
    check_layout(name, plan->header->goal, sim);
    uint64_t peak = sim->summary->peak_bytes;
    uint32_t count = sim->step_count;
    steps_walked += count;
    plans++;
    cairn_sim_destroy(sim);
    return peak;
}

/* ---- Keep-sets ---- */

/* Runs of pieces become segments; sometimes a piece, or an op inside, is kept. */
static void choose_segments(crn_rng *rng, const cairn_graph *graph, const cairn_chain_view *chain,
                            uint32_t *segment) {
    uint32_t current = 0, longest = 1 + below(rng, 1 + chain->piece_count / 2);
    for (uint32_t p = 0; p < chain->piece_count; p++) {
        bool kept = one_in(rng, 6);
        if (p > 0 && one_in(rng, longest))
            current++;
        for (cairn_id o = chain->first_op[p]; o < chain->first_op[p + 1]; o++)
            segment[o] = kept || one_in(rng, 12) ? CAIRN_NONE : current;
    }
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++)
        if (cairn_graph_op(graph, o)->phase != CAIRN_PHASE_FORWARD)
            segment[o] = CAIRN_NONE;
}

static cairn_plan *keep_set(uint64_t seed, const cairn_graph *graph, const cairn_costs *costs) {
    cairn_error err = {0};
    crn_rng rng = {seed};
    crn_arena arena;
    crn_schedule schedule = {0};
    cairn_chain_view *chain;
    cairn_plan *plan;
    crn_arena_init(&arena, NULL);
    CHECK_OK(cairn_chain_view_create(graph, &chain, &err), &err);
    uint32_t *segment = crn_arena_take(&arena, cairn_graph_op_count(graph), sizeof *segment);
    choose_segments(&rng, graph, chain, segment);
    CHECK_OK(crn_schedule_segments(&schedule, &arena, graph, segment), &err);
    CHECK_OK(crn_lower(graph, costs, &schedule, CAIRN_GOAL_TRAIN, 0, &plan, &err), &err);
    cairn_chain_view_destroy(chain);
    crn_arena_release(&arena);
    return plan;
}

static void check_network(const char *name, const cairn_graph *graph, uint64_t seed) {
    cairn_error err = {0};
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_costs *costs;
    cairn_solution *solution, *other;
    CHECK_OK(cairn_machine_find("v100", &machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(graph, &machine, &costs, &err), &err);
    static const char *const solvers[] = {"none", "infer"};
    uint64_t peaks[2];
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_OK(cairn_solve(graph, costs, solvers[i], NULL, &solution, &err), &err);
        CHECK_OK(cairn_solve(graph, costs, solvers[i], NULL, &other, &err), &err);
        peaks[i] = check_plan(name, graph, costs, solution->plan, other->plan);
        CHECK_U64(solution->plan->header->predicted_peak_bytes, peaks[i]);
        cairn_solution_destroy(solution);
        cairn_solution_destroy(other);
    }
    CHECK(peaks[1] <= peaks[0]); /* evaluation keeps nothing for a backward pass */
    for (uint32_t i = 0; i < KEEP_SETS; i++) {
        cairn_plan *plan = keep_set(seed * KEEP_SETS + i, graph, costs);
        cairn_plan *twin = keep_set(seed * KEEP_SETS + i, graph, costs);
        check_plan(name, graph, costs, plan, twin);
        cairn_plan_destroy(plan);
        cairn_plan_destroy(twin);
    }
    cairn_costs_destroy(costs);
}

/* The network at batch 2, as published or as small as it can be made. */
static bool build(const cairn_zoo_entry *entry, uint32_t side, cairn_graph **out) {
    cairn_error err = {0};
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    cairn_graph *forward;
    options.batch = 2;
    options.steps = entry->defaults.steps > 0 ? 5 : 0;
    if (side > 0 && entry->defaults.steps == 0) {
        options.input[0] = entry->defaults.input[0];
        options.input[1] = options.input[2] = side;
    }
    *out = NULL;
    if (crn_zoo_build(NULL, entry->name, &options, &forward, &err) != CAIRN_OK)
        return false;
    CHECK_OK(cairn_graph_differentiate(forward, NULL, out, &err), &err);
    cairn_graph_destroy(forward);
    return true;
}

int main(void) {
    static const uint32_t sides[] = {32, 64, 96, 128, 192};
    cairn_graph *graph;
    uint32_t networks = 0;
    for (const cairn_zoo_entry *entry; (entry = cairn_zoo_list(networks)) != NULL; networks++) {
        CHECK(build(entry, 0, &graph));
        check_network(entry->name, graph, networks);
        cairn_graph_destroy(graph);
        bool built = false;
        for (uint32_t i = 0;
             i < 5 && !built && sides[i] < entry->defaults.input[1] && entry->defaults.steps == 0;
             i++)
            built = build(entry, sides[i], &graph);
        if (built) {
            char name[64];
            snprintf(name, sizeof name, "%s, small", entry->name);
            check_network(name, graph, 1000 + networks);
            cairn_graph_destroy(graph);
        }
    }
    printf("%u networks, %ld plans, %ld steps\n", networks, plans, steps_walked);
    printf("arena over live peak: worst %.6f in training (%s), %.6f in evaluation (%s)\n",
           worst_ratio[CAIRN_GOAL_TRAIN], worst_name[CAIRN_GOAL_TRAIN],
           worst_ratio[CAIRN_GOAL_INFER], worst_name[CAIRN_GOAL_INFER]);
    printf("mean %.6f, %ld of %ld equal\n", sum_of_ratios / (double)plans, tight, plans);
    return check_result();
}
