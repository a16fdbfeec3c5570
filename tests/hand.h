/* hand.h: graphs and plans written by hand, for examples that were computed on paper.
 *
 * Sizes are in units of 64 bytes, so that rounding does not matter; times in nanoseconds. Names are
 * separated by spaces, steps by commas:
 *
 *     hand_op(&h, "F1", CAIRN_PHASE_FORWARD, "f0", "f1");
 *     hand_plan(graph, CAIRN_GOAL_TRAIN, "run F1, free f0, run F2 inplace");
 */
#ifndef HAND_H
#define HAND_H

#include "cairn.h"
#include "check.h"
#include "graph/crn_graph.h"
#include "plan/crn_plan.h"
#include "sim/crn_sim.h"

#define UNIT 64u

typedef struct hand {
    cairn_builder *builder;
    char names[64][32]; /* of tensors, by id */
    uint32_t count;
    cairn_op pending; /* hand_op() adds it; set flags and in-place pairs before */
    cairn_inplace inplace[2];
} hand;

static inline hand hand_begin(const char *name) {
    hand h = {0};
    cairn_error err = {0};
    CHECK_OK(cairn_builder_create(NULL, name, &h.builder), &err);
    return h;
}

static inline cairn_id hand_find(const hand *h, const char *name) {
    for (uint32_t i = 0; i < h->count; i++)
        if (strcmp(h->names[i], name) == 0)
            return i;
    return CAIRN_NONE;
}

static inline cairn_id hand_add(hand *h, const char *name, cairn_tensor t) {
    t.name = name;
    snprintf(h->names[h->count++], sizeof h->names[0], "%s", name);
    return cairn_builder_tensor(h->builder, &t);
}

static inline cairn_id hand_tensor(hand *h, const char *name, cairn_role role, uint64_t units) {
    cairn_tensor t = CAIRN_TENSOR_INIT;
    t.role = role;
    t.bytes = units * UNIT;
    t.stationary = role == CAIRN_ROLE_PARAMETER || role == CAIRN_ROLE_STATE;
    return hand_add(h, name, t);
}

static inline cairn_id hand_alias(hand *h, const char *name, const char *of) {
    cairn_tensor t = CAIRN_TENSOR_INIT;
    t.alias_of = hand_find(h, of);
    t.bytes = crn_builder_peek(h->builder, t.alias_of).bytes;
    t.role = CAIRN_ROLE_ACTIVATION;
    return hand_add(h, name, t);
}

/* A gradient of a parameter, which is stationary. */
static inline cairn_id hand_stationary(hand *h, const char *name, const char *of) {
    cairn_tensor t = CAIRN_TENSOR_INIT;
    t.role = CAIRN_ROLE_GRADIENT;
    t.gradient_of = hand_find(h, of);
    t.bytes = crn_builder_peek(h->builder, t.gradient_of).bytes;
    t.stationary = true;
    return hand_add(h, name, t);
}

static inline uint32_t hand_ids(const hand *h, const char *names, cairn_id *ids) {
    uint32_t count = 0;
    char word[32];
    int length;
    for (; sscanf(names, "%31s%n", word, &length) == 1; names += length)
        ids[count++] = hand_find(h, word);
    return count;
}

/* The next op may make output `output` in place of input `input`. */
static inline void hand_permit(hand *h, uint32_t output, uint32_t input) {
    h->inplace[h->pending.inplace_count++] = (cairn_inplace){output, input};
}

static inline void hand_flag(hand *h, uint32_t flags) {
    h->pending.flags = flags;
}

static inline void hand_op(hand *h, const char *name, cairn_phase phase, const char *inputs,
                           const char *outputs) {
    cairn_id in[8], out[8];
    cairn_op *op = &h->pending;
    op->name = name;
    op->kind = CAIRN_OP_OPAQUE;
    op->phase = phase;
    op->of = CAIRN_NONE;
    op->input_count = hand_ids(h, inputs, in);
    op->output_count = hand_ids(h, outputs, out);
    op->inputs = in;
    op->outputs = out;
    op->inplace = h->inplace;
    cairn_builder_op(h->builder, op);
    *op = (cairn_op){0};
}

static inline cairn_graph *hand_finish(hand *h) {
    cairn_error err = {0};
    cairn_graph *graph;
    CHECK_OK(cairn_builder_finish(h->builder, &graph, &err), &err);
    cairn_builder_destroy(h->builder);
    return graph;
}

static inline cairn_costs *hand_costs(const cairn_graph *graph) {
    cairn_error err = {0};
    cairn_costs *costs;
    CHECK_OK(cairn_costs_create(graph, &costs, &err), &err);
    return costs;
}

static inline void hand_cost(const cairn_graph *graph, cairn_costs *costs, const char *op,
                             int64_t time_ns, uint64_t workspace_units) {
    cairn_error err = {0};
    cairn_implementation given = {
        .name = "given", .time_ns = time_ns, .workspace_bytes = workspace_units * UNIT};
    CHECK_OK(cairn_costs_set_op(costs, crn_graph_find_op(graph, op), &given, 1), &err);
}

static inline cairn_step hand_step(const cairn_graph *graph, const char *text, int length) {
    char line[128], verb[16], name[64], mode[16] = "";
    snprintf(line, sizeof line, "%.*s", length, text);
    unsigned way = 1;
    CHECK(sscanf(line, "%15s %63s %15s %u", verb, name, mode, &way) >= 2);
    cairn_step step = {0};
    while (strcmp(cairn_step_kind_name((cairn_step_kind)step.kind), verb) != 0)
        step.kind++;
    step.id = step.kind == CAIRN_STEP_RUN ? crn_graph_find_op(graph, name)
                                          : cairn_graph_find_tensor(graph, name);
    step.inplace = (uint8_t)(mode[0] != '\0' ? way : 0);
    if (step.id == CAIRN_NONE)
        fprintf(stderr, "nothing is called %s\n", name);
    return step;
}

static inline cairn_plan *hand_plan(const cairn_graph *graph, cairn_goal goal, const char *text) {
    cairn_error err = {0};
    crn_plan_builder *builder;
    cairn_plan *plan;
    cairn_plan_header header = CAIRN_PLAN_HEADER_INIT;
    header.goal = goal;
    CHECK_OK(crn_plan_builder_create(NULL, &builder), &err);
    while (*text != '\0') {
        int length = (int)strcspn(text, ",");
        CHECK_OK(crn_plan_builder_add(builder, hand_step(graph, text, length)), &err);
        text += length + (text[length] == ',');
    }
    CHECK_OK(crn_plan_builder_finish(builder, graph, &header, &plan, &err), &err);
    crn_plan_builder_destroy(builder);
    return plan;
}

/* The rule that a plan breaks; `err` names the culprit. */
static inline cairn_rule hand_rule(const cairn_graph *graph, const cairn_costs *costs,
                                   cairn_goal goal, const char *text, uint32_t *step,
                                   cairn_error *err) {
    cairn_plan *plan = hand_plan(graph, goal, text);
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    cairn_sim *sim;
    *err = (cairn_error){0};
    cairn_status status = cairn_simulate(graph, costs, plan, &options, &sim, err);
    cairn_rule rule = sim->summary->rule;
    CHECK((status == CAIRN_OK) == (rule == CAIRN_RULE_NONE));
    *step = sim->summary->broken_step;
    cairn_sim_destroy(sim);
    cairn_plan_destroy(plan);
    return rule;
}

#define CHECK_RULE(graph, costs, goal, text, expected_rule, expected_step, expected_name)          \
    do {                                                                                           \
        cairn_error rule_err;                                                                      \
        uint32_t rule_step;                                                                        \
        cairn_rule rule = hand_rule(graph, costs, goal, text, &rule_step, &rule_err);              \
        CHECK_STRING(crn_rule_name(rule), #expected_rule);                                         \
        CHECK_U64(rule_step, expected_step);                                                       \
        CHECK_STRING(rule_err.name, expected_name);                                                \
    } while (0)

#define CHECK_LEGAL(graph, costs, goal, text)                                                      \
    do {                                                                                           \
        cairn_error rule_err;                                                                      \
        uint32_t rule_step;                                                                        \
        cairn_rule rule = hand_rule(graph, costs, goal, text, &rule_step, &rule_err);              \
        if (rule != CAIRN_RULE_NONE)                                                               \
            fprintf(stderr, "%s\n", rule_err.message);                                             \
        CHECK(rule == CAIRN_RULE_NONE);                                                            \
    } while (0)

#endif
