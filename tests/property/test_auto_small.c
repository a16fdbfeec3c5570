/* test_auto_small.c: `auto` and its bound against the least time of any plan, on small graphs: the
 * example cases, and random ones.
 *
 *     bound <= least time <= time of auto       and in most cases the last two are equal
 */
#include "base/json.h"
#include "check.h"
#include "cost/crn_cost.h"
#include "property/exact_plan.h"
#include "property/random_graph.h"
#include "solve/auto/time_bound.h"

#include <jansson.h>

typedef struct tally {
    uint32_t feasible, optimal, close, missed;
    uint32_t raised; /* bounds that are higher by cases */
} tally;

/* The highest bound of any moment by cases, in a few cuts or many. */
static int64_t bound_by_cases(crn_bound *bound, uint64_t budget, const crn_bound_result *found) {
    cairn_error err = {0};
    int64_t best = found->extra_ns, extra;
    for (uint32_t o = 0; o < bound->flat->op_count && best < INT64_MAX; o++) {
        int64_t price = found->price;
        if (!bound->flat->needed[o])
            continue;
        CHECK_OK(crn_bound_enter(bound, o), &err);
        if (crn_bound_at(bound, budget, 12, &price) == 0)
            continue;
        CHECK_OK(crn_bound_branch(bound, budget, price, o % 2 == 0 ? 20 : 500, &extra), &err);
        best = CRN_MAX(best, extra);
    }
    return best;
}

/* The bound for a budget of the live peak. */
static int64_t bound_of(const cairn_graph *graph, const cairn_costs *costs, uint64_t budget,
                        tally *t) {
    cairn_error err = {0};
    crn_arena arena;
    crn_flat *flat;
    crn_bound *bound;
    crn_bound_result found;
    crn_arena_init(&arena, NULL);
    CHECK_OK(crn_flat_create(graph, costs, &arena, &flat), &err);
    CHECK_OK(crn_bound_create(flat, false, &arena, &bound), &err);
    CHECK_OK(crn_bound_search(bound, budget, 0, 1000, &found), &err);
    int64_t extra = bound_by_cases(bound, budget, &found);
    int64_t time = extra == INT64_MAX ? INT64_MAX : bound->base_ns + extra;
    t->raised += extra > found.extra_ns;
    crn_arena_release(&arena);
    return time;
}

static void check_case(const cairn_graph *graph, const cairn_costs *costs, uint64_t budget,
                       int64_t least, tally *t) {
    cairn_error err = {0};
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_solution *solution = NULL;
    options.budget_bytes = budget;
    int64_t bound = bound_of(graph, costs, budget, t);
    cairn_status status = cairn_solve(graph, costs, "auto", &options, &solution, &err);
    if (least == EXACT_NONE) {
        CHECK(status == CAIRN_INFEASIBLE);
        return;
    }
    CHECK(bound <= least);
    CHECK(status == CAIRN_OK || status == CAIRN_INFEASIBLE);
    t->feasible++;
    t->missed += status != CAIRN_OK; /* the arena may need more than the live peak */
    if (status != CAIRN_OK)
        return;
    int64_t time = solution->sim->summary->time_ns;
    CHECK(time >= least && solution->sim->summary->peak_bytes <= budget);
    CHECK(solution->lower_bound_ns <= least);
    t->optimal += time == least;
    t->close += time <= least + least / 50;
    cairn_solution_destroy(solution);
}

/* ---- The example cases ---- */

static int64_t integer(const crn_json *at) {
    cairn_error err = {0};
    int64_t value = 0;
    CHECK_OK(crn_json_integer(at, 0, INT64_MAX, &value, &err), &err);
    return value;
}

static size_t length(const crn_json *at) {
    cairn_error err = {0};
    size_t count = 0;
    CHECK_OK(crn_json_array(at, &count, &err), &err);
    return count;
}

static cairn_costs *read_times(const cairn_graph *graph, const crn_json *times) {
    cairn_error err = {0};
    cairn_costs *costs;
    CHECK_OK(cairn_costs_create(graph, &costs, &err), &err);
    CHECK_U64(length(times), cairn_graph_op_count(graph));
    for (uint32_t o = 0; o < cairn_graph_op_count(graph); o++) {
        crn_json time = crn_json_element(times, o);
        cairn_implementation given = {.name = "given", .time_ns = integer(&time)};
        CHECK_OK(cairn_costs_set_op(costs, o, &given, 1), &err);
    }
    return costs;
}

static void check_example(const crn_json *example, tally *t) {
    cairn_error err = {0};
    cairn_graph *graph;
    crn_json at = crn_json_member(example, "graph"), times = crn_json_member(example, "times_ns");
    crn_json budgets = crn_json_member(example, "budgets");
    char *text = json_dumps(at.value, 0);
    CHECK_OK(cairn_graph_from_json(NULL, text, strlen(text), "example", &graph, &err), &err);
    free(text);
    cairn_costs *costs = read_times(graph, &times);
    for (size_t k = 0; k < length(&budgets); k++) {
        crn_json budget = crn_json_element(&budgets, k);
        crn_json bytes = crn_json_member(&budget, "bytes");
        crn_json optimal = crn_json_member(&budget, "optimal_ns");
        int64_t least = crn_json_is_null(&optimal) ? EXACT_NONE : integer(&optimal);
        check_case(graph, costs, (uint64_t)integer(&bytes), least, t);
        if (k == 0) /* this exact solver agrees with the one that made the file */
            CHECK(exact_least_time(graph, costs, (uint64_t)integer(&bytes)) == least);
    }
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
}

static void check_examples(void) {
    cairn_error err = {0};
    cairn_text text;
    crn_json_document document;
    tally t = {0};
    CHECK_OK(cairn_text_load(NULL, CAIRN_TEST_DATA "/auto_examples.json", &text, &err), &err);
    CHECK_OK(crn_json_parse(text.data, text.length, "auto_examples", &document, &err), &err);
    crn_json root = crn_json_root(&document), cases = crn_json_member(&root, "cases");
    CHECK_U64(length(&cases), 40);
    for (size_t k = 0; k < length(&cases); k++) {
        crn_json example = crn_json_element(&cases, k);
        check_example(&example, &t);
    }
    crn_json_release(&document);
    cairn_text_release(&text);
    printf("examples: %u of %u optimal, %u missed\n", t.optimal, t.feasible, t.missed);
    CHECK(100 * t.optimal >= 95 * t.feasible);
}

/* ---- Random cases ---- */

typedef struct maker {
    crn_rng rng;
    cairn_builder *builder;
    int64_t times[32];
    uint32_t ops;
    bool twins; /* backward ops make two results, in place of two operands */
} maker;

static cairn_id tensor(maker *m, const char *name, cairn_role role, uint64_t bytes, bool last) {
    cairn_tensor t = CAIRN_TENSOR_INIT;
    t.name = name;
    t.role = role;
    t.bytes = bytes;
    t.stationary = last;
    return cairn_builder_tensor(m->builder, &t);
}

static void add_op(maker *m, cairn_op op, const char *name, cairn_phase phase, uint32_t most_time) {
    op.name = name;
    op.kind = CAIRN_OP_OPAQUE;
    op.phase = phase;
    op.of = CAIRN_NONE;
    m->times[m->ops++] = 1000 * (1 + (int64_t)below(&m->rng, most_time));
    cairn_builder_op(m->builder, &op);
}

/* A chain with skips, some ops in place, and its backward ops, which read some of it. */
static cairn_graph *make_graph(maker *m) {
    cairn_error err = {0};
    cairn_id x[8], second[8];
    uint64_t bytes[8];
    char name[8];
    uint32_t forward = 3 + below(&m->rng, 4);
    CHECK_OK(cairn_builder_create(NULL, "small", &m->builder), &err);
    bytes[0] = 1024 * (1 + below(&m->rng, 4));
    x[0] = tensor(m, "x", CAIRN_ROLE_INPUT, bytes[0], false);
    for (uint32_t i = 1; i <= forward; i++) {
        cairn_id inputs[2] = {x[i - 1], CAIRN_NONE};
        cairn_inplace pair = {0, 0};
        cairn_op op = {.inputs = inputs, .input_count = 1, .outputs = &x[i], .output_count = 1};
        second[i] = i > 1 && below(&m->rng, 5) < 2 ? x[below(&m->rng, i - 1)] : CAIRN_NONE;
        if (second[i] != CAIRN_NONE)
            inputs[op.input_count++] = second[i];
        bytes[i] = one_in(&m->rng, 3) ? bytes[i - 1] : 1024 * (1 + below(&m->rng, 6));
        snprintf(name, sizeof name, "f%u", i);
        x[i] = tensor(m, name, CAIRN_ROLE_ACTIVATION, bytes[i], false);
        if (i > 1 && bytes[i] == bytes[i - 1] && one_in(&m->rng, 2)) {
            op.inplace = &pair;
            op.inplace_count = 1;
        }
        add_op(m, op, name, CAIRN_PHASE_FORWARD, 20);
    }
    cairn_id gradient = tensor(m, "loss", CAIRN_ROLE_LOSS, 64, false);
    cairn_op loss = {
        .inputs = &x[forward], .input_count = 1, .outputs = &gradient, .output_count = 1};
    add_op(m, loss, "loss", CAIRN_PHASE_FORWARD, 5);
    cairn_id twin = CAIRN_NONE;
    for (uint32_t i = forward; i >= 1; i--) {
        cairn_id inputs[5] = {gradient}, made[2];
        uint32_t count = 1, needs = m->twins ? 2 : below(&m->rng, 4);
        if (needs != 0)
            inputs[count++] = x[i - 1];
        if (needs == 2)
            inputs[count++] = x[i];
        if (second[i] != CAIRN_NONE && one_in(&m->rng, 2))
            inputs[count++] = second[i];
        if (twin != CAIRN_NONE)
            inputs[count++] = twin;
        snprintf(name, sizeof name, "g%u", i);
        made[0] = tensor(m, name, CAIRN_ROLE_GRADIENT, bytes[i - 1], i == 1);
        cairn_op op = {.inputs = inputs, .input_count = count, .outputs = made, .output_count = 1};
        op.flags = i == 1 ? CAIRN_OP_FLAG_NEVER_AGAIN : 0;
        static const cairn_inplace pairs[] = {{0, 1}, {1, 2}};
        if (m->twins && i > 1) {
            snprintf(name, sizeof name, "t%u", i);
            made[op.output_count++] = twin = tensor(m, name, CAIRN_ROLE_GRADIENT, bytes[i], false);
            op.inplace = pairs;
            op.inplace_count = 2;
            op.flags |= CAIRN_OP_FLAG_TOGETHER;
            snprintf(name, sizeof name, "g%u", i);
        }
        add_op(m, op, name, CAIRN_PHASE_BACKWARD, 20);
        gradient = made[0];
    }
    cairn_graph *graph;
    CHECK_OK(cairn_builder_finish(m->builder, &graph, &err), &err);
    cairn_builder_destroy(m->builder);
    return graph;
}

static uint64_t none_peak(const cairn_graph *graph, const cairn_costs *costs) {
    cairn_error err = {0};
    cairn_solution *solution;
    CHECK_OK(cairn_solve(graph, costs, "none", NULL, &solution, &err), &err);
    uint64_t peak = solution->sim->summary->peak_bytes;
    cairn_solution_destroy(solution);
    return peak;
}

static void check_random(uint64_t seed, bool twins, tally *t) {
    static const uint64_t shares[] = {92, 82, 74};
    cairn_error err = {0};
    maker m = {.rng = {seed}, .twins = twins};
    cairn_graph *graph = make_graph(&m);
    cairn_costs *costs;
    CHECK_OK(cairn_costs_create(graph, &costs, &err), &err);
    for (uint32_t o = 0; o < m.ops; o++) {
        cairn_implementation given = {.name = "given", .time_ns = m.times[o]};
        CHECK_OK(cairn_costs_set_op(costs, o, &given, 1), &err);
        if (seed % 4 == 0 && (o == 1 || o == 2)) /* a recomputation takes half of the time */
            crn_costs_set_again(costs, o, m.times[o] / 2);
    }
    uint64_t budget = none_peak(graph, costs) * shares[below(&m.rng, 3)] / 100;
    int64_t least = exact_least_time(graph, costs, budget);
    CHECK(least != EXACT_TOO_LARGE);
    check_case(graph, costs, budget, least, t);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
}

int main(void) {
    check_examples();
    tally t = {0};
    for (uint64_t seed = 1; seed <= 1000; seed++)
        check_random(seed, false, &t);
    printf("random: %u of %u optimal, %u within 2%%, %u missed, %u bounds higher by cases\n",
           t.optimal, t.feasible, t.close, t.missed, t.raised);
    CHECK(t.raised >= 100);
    CHECK(t.feasible >= 300);
    CHECK(100 * t.optimal >= 95 * t.feasible);
    t = (tally){0};
    for (uint64_t seed = 1; seed <= 300; seed++)
        check_random(seed, true, &t);
    printf("two in place: %u of %u optimal\n", t.optimal, t.feasible);
    CHECK(t.feasible >= 100);
    CHECK(100 * t.optimal >= 95 * t.feasible);
    return check_result();
}
