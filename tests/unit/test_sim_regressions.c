/* test_sim_regressions.c: regressions of the simulator and the lowering. Each test is named after
 * what went wrong. */
#include "hand.h"
#include "plan/lower.h"
#include "graph/crn_graph.h"

/* Check the steps that decisions such as "run A, offload x, evict x, fetch x" are lowered to. The
 * plan must be legal. */
static void check_lowered(const cairn_graph *g, const cairn_costs *costs, cairn_goal goal,
                          uint64_t budget, const char *decisions, const char *expected) {
    static const char *const verbs[] = {"run", "offload", "evict", "fetch"};
    cairn_error err = {0};
    crn_arena arena;
    crn_schedule schedule = {0};
    crn_arena_init(&arena, NULL);
    char verb[16], name[32];
    int length;
    for (; sscanf(decisions, "%15s %31[^,]%n", verb, name, &length) == 2; decisions += length) {
        uint32_t kind = 0;
        while (strcmp(verbs[kind], verb) != 0)
            kind++;
        cairn_id id =
            kind == CRN_RUN ? crn_graph_find_op(g, name) : cairn_graph_find_tensor(g, name);
        CHECK_OK(crn_schedule_add(&schedule, &arena, (crn_decision_kind)kind, id), &err);
        length += decisions[length] == ',';
    }
    cairn_plan *plan, *wanted = hand_plan(g, goal, expected);
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    CHECK_OK(crn_lower(g, costs, &schedule, goal, budget, &plan, &err), &err);
    cairn_text made = {0}, expected_text = {0};
    CHECK_OK(cairn_plan_to_text(plan, g, &made), &err);
    CHECK_OK(cairn_plan_to_text(wanted, g, &expected_text), &err);
    CHECK_STRING(strstr(made.data, "steps"), strstr(expected_text.data, "steps"));
    CHECK_OK(cairn_simulate(g, costs, plan, &options, NULL, &err), &err);
    cairn_text_release(&made);
    cairn_text_release(&expected_text);
    cairn_plan_destroy(plan);
    cairn_plan_destroy(wanted);
    crn_arena_release(&arena);
}

/* The host has room for one copy of x. The search for the tensors at the peak counted the copy
 * twice, and found none. */
static void test_holders_when_host_nearly_full(void) {
    hand h = hand_begin("host");
    hand_tensor(&h, "x", CAIRN_ROLE_INPUT, 3);
    hand_tensor(&h, "loss", CAIRN_ROLE_LOSS, 1);
    hand_op(&h, "A", CAIRN_PHASE_FORWARD, "x", "loss");
    cairn_graph *g = hand_finish(&h);
    cairn_costs *costs = hand_costs(g);
    cairn_machine machine = {.struct_size = sizeof(cairn_machine),
                             .link_bytes_per_second = 1,
                             .host_memory_bytes = 3 * UNIT};
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    options.machine = &machine;
    cairn_plan *plan = hand_plan(g, CAIRN_GOAL_TRAIN, "offload x,run A,wait x,free x");
    cairn_error err = {0};
    cairn_sim *sim;
    CHECK_OK(cairn_simulate(g, costs, plan, &options, &sim, &err), &err);
    const cairn_holder *holders = sim->holders;
    uint32_t count = sim->holder_count;
    CHECK_U64(count, 2);
    CHECK(count == 2 && holders[0].bytes == 3 * UNIT && holders[1].bytes == UNIT);
    CHECK_U64(sim->summary->host_bytes, 3 * UNIT);
    cairn_sim_destroy(sim);
    cairn_plan_destroy(plan);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

/* A storage that only an alias uses is named after the alias. */
static void test_holder_that_was_freed(void) {
    hand h = hand_begin("holder");
    hand_tensor(&h, "x", CAIRN_ROLE_INPUT, 1);
    hand_tensor(&h, "a", CAIRN_ROLE_ACTIVATION, 4);
    hand_alias(&h, "flat", "a");
    hand_tensor(&h, "loss", CAIRN_ROLE_LOSS, 3);
    hand_op(&h, "A", CAIRN_PHASE_FORWARD, "x", "a");
    hand_op(&h, "Flat", CAIRN_PHASE_FORWARD, "a", "flat");
    hand_op(&h, "Loss", CAIRN_PHASE_FORWARD, "flat", "loss");
    cairn_graph *g = hand_finish(&h);
    cairn_costs *costs = hand_costs(g);
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    cairn_plan *plan =
        hand_plan(g, CAIRN_GOAL_TRAIN, "run A,free x,run Flat,free a,run Loss,free flat");
    cairn_error err = {0};
    cairn_sim *sim;
    CHECK_OK(cairn_simulate(g, costs, plan, &options, &sim, &err), &err);
    const cairn_holder *holders = sim->holders;
    uint32_t count = sim->holder_count;
    CHECK_U64(count, 2);
    CHECK_STRING(cairn_graph_tensor(g, holders[0].tensor)->name, "flat");
    CHECK_STRING(cairn_graph_tensor(g, holders[1].tensor)->name, "loss");
    cairn_sim_destroy(sim);
    cairn_plan_destroy(plan);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

/* Running A again would overwrite what the copy of flat reads. */
static void test_alias_in_flight_written(void) {
    hand h = hand_begin("flight");
    hand_tensor(&h, "x", CAIRN_ROLE_INPUT, 1);
    hand_tensor(&h, "a", CAIRN_ROLE_ACTIVATION, 4);
    hand_alias(&h, "flat", "a");
    hand_tensor(&h, "loss", CAIRN_ROLE_LOSS, 3);
    hand_op(&h, "A", CAIRN_PHASE_FORWARD, "x", "a");
    hand_op(&h, "Flat", CAIRN_PHASE_FORWARD, "a", "flat");
    hand_op(&h, "Loss", CAIRN_PHASE_FORWARD, "flat", "loss");
    cairn_graph *g = hand_finish(&h);
    cairn_costs *costs = hand_costs(g);
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run A,run Flat,offload flat,run A", WRITE_IN_FLIGHT, 3,
               "a");
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run A,run Flat,offload a,run A", WRITE_IN_FLIGHT, 3,
               "a");
    /* Making an alias again writes nothing, and after the wait the run is legal. */
    CHECK_LEGAL(g, costs, CAIRN_GOAL_TRAIN,
                "run A,run Flat,offload a,run Flat,wait a,run A,free x,free a,run Loss,free flat");
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

/* An op that makes an alias of x cannot make y in place of x as well. */
static void test_alias_of_what_is_overwritten(void) {
    hand h = hand_begin("both");
    hand_tensor(&h, "x", CAIRN_ROLE_INPUT, 2);
    hand_alias(&h, "view", "x");
    hand_tensor(&h, "y", CAIRN_ROLE_ACTIVATION, 2);
    hand_tensor(&h, "loss", CAIRN_ROLE_LOSS, 1);
    hand_permit(&h, 1, 0);
    hand_op(&h, "A", CAIRN_PHASE_FORWARD, "x", "view y");
    hand_op(&h, "Loss", CAIRN_PHASE_FORWARD, "view y", "loss");
    cairn_graph *g = hand_finish(&h);
    cairn_costs *costs = hand_costs(g);
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run A inplace", INPLACE_SHARED, 0, "x");
    check_lowered(g, costs, CAIRN_GOAL_TRAIN, 0, "run A,run Loss",
                  "run A,free x,run Loss,free view,free y");
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

/* x and y are equal in the graph, but y is larger in the backend's storage. */
static void test_inplace_of_smaller_storage(void) {
    hand h = hand_begin("padding");
    hand_tensor(&h, "x", CAIRN_ROLE_INPUT, 2);
    hand_tensor(&h, "y", CAIRN_ROLE_ACTIVATION, 2);
    hand_tensor(&h, "loss", CAIRN_ROLE_LOSS, 1);
    hand_permit(&h, 0, 0);
    hand_op(&h, "A", CAIRN_PHASE_FORWARD, "x", "y");
    hand_op(&h, "Loss", CAIRN_PHASE_FORWARD, "y", "loss");
    cairn_graph *g = hand_finish(&h);
    cairn_costs *costs = hand_costs(g);
    CHECK_LEGAL(g, costs, CAIRN_GOAL_TRAIN, "run A inplace,run Loss,free y");
    cairn_costs_set_bytes(costs, cairn_graph_find_tensor(g, "y"), 2 * UNIT + 1);
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run A inplace", INPLACE_FORBIDDEN, 0, "y");
    check_lowered(g, costs, CAIRN_GOAL_TRAIN, 0, "run A,run Loss", "run A,free x,run Loss,free y");
    cairn_costs_set_bytes(costs, cairn_graph_find_tensor(g, "y"), UNIT);
    check_lowered(g, costs, CAIRN_GOAL_TRAIN, 0, "run A,run Loss", "run A inplace,run Loss,free y");
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

/* An op that has only an effect has no tensor for the error to name. */
static void test_missing_effect_without_name(void) {
    hand h = hand_begin("effect");
    hand_tensor(&h, "x", CAIRN_ROLE_INPUT, 2);
    hand_tensor(&h, "loss", CAIRN_ROLE_LOSS, 1);
    hand_op(&h, "Loss", CAIRN_PHASE_FORWARD, "x", "loss");
    hand_flag(&h, CAIRN_OP_FLAG_ONCE);
    hand_op(&h, "Count", CAIRN_PHASE_FORWARD, "x", "");
    cairn_graph *g = hand_finish(&h);
    cairn_costs *costs = hand_costs(g);
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run Loss,free x", EFFECT_MISSING, 2, "Count");
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run Loss,run Count,run Count", ONCE_TWICE, 2, "Count");
    CHECK_LEGAL(g, costs, CAIRN_GOAL_TRAIN, "run Loss,run Count,free x");
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

/* A gradient that an update reads is still a result and still counts as memory. */
static void test_gradient_with_a_reader(void) {
    hand h = hand_begin("update");
    hand_tensor(&h, "x", CAIRN_ROLE_INPUT, 2);
    hand_tensor(&h, "w", CAIRN_ROLE_PARAMETER, 9);
    hand_stationary(&h, "g", "w");
    hand_tensor(&h, "part", CAIRN_ROLE_GRADIENT, 9);
    hand_stationary(&h, "sum", "w");
    hand_op(&h, "G", CAIRN_PHASE_BACKWARD, "x", "g");
    hand_op(&h, "Part", CAIRN_PHASE_BACKWARD, "x", "part");
    hand_permit(&h, 0, 0);
    hand_op(&h, "Sum", CAIRN_PHASE_BACKWARD, "g part", "sum");
    hand_op(&h, "Log", CAIRN_PHASE_UPDATE, "sum", "");
    cairn_graph *g = hand_finish(&h);
    cairn_costs *costs = hand_costs(g);
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run G,free x", NEVER_MADE, 2, "sum");
    CHECK_RULE(g, costs, CAIRN_GOAL_TRAIN, "run Part,free x,free part", NEVER_MADE, 3, "g");
    CHECK_LEGAL(g, costs, CAIRN_GOAL_TRAIN, "run G,run Part,free x,run Sum inplace,free part");
    CHECK_U64(cairn_stationary_bytes(g, costs, 0), (9 + 9) * UNIT);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

/* The loss is there from the first run, so running its op again at the end is useless. If an op
 * reads what the second run makes, the result is that of the second run. */
static void test_rerun_for_a_result_only(void) {
    hand h = hand_begin("again");
    hand_tensor(&h, "x", CAIRN_ROLE_INPUT, 2);
    hand_tensor(&h, "a", CAIRN_ROLE_ACTIVATION, 3);
    hand_tensor(&h, "loss", CAIRN_ROLE_LOSS, 1);
    hand_tensor(&h, "p", CAIRN_ROLE_INTERNAL, 3);
    hand_tensor(&h, "g", CAIRN_ROLE_GRADIENT, 3);
    hand_op(&h, "A", CAIRN_PHASE_FORWARD, "x", "a");
    hand_op(&h, "Loss", CAIRN_PHASE_FORWARD, "a", "loss p");
    hand_op(&h, "Back", CAIRN_PHASE_BACKWARD, "p", "g");
    cairn_graph *g = hand_finish(&h);
    cairn_costs *costs = hand_costs(g);
    check_lowered(g, costs, CAIRN_GOAL_TRAIN, 0, "run A,run Loss,run Back,run A,run Loss",
                  "run A,free x,run Loss,free a,run Back,free p,free g");
    check_lowered(g, costs, CAIRN_GOAL_TRAIN, 0, "run A,run Loss,run A,run Loss,run Back",
                  "run A,run Loss,free a,free loss,free p,run A,free x,run Loss,free a,"
                  "run Back,free p,free g");
    check_lowered(g, costs, CAIRN_GOAL_INFER, 0, "run A,run A", "run A,free x");
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

/* x is offloaded twice. Its host copy stays valid, so one copy out is enough. A second trip waits
 * if x is still being fetched. */
static void test_second_round_trip(void) {
    hand h = hand_begin("trips");
    hand_tensor(&h, "x", CAIRN_ROLE_INPUT, 2);
    hand_tensor(&h, "a", CAIRN_ROLE_ACTIVATION, 3);
    hand_tensor(&h, "loss", CAIRN_ROLE_LOSS, 1);
    hand_op(&h, "A", CAIRN_PHASE_FORWARD, "x", "a");
    hand_op(&h, "Loss", CAIRN_PHASE_FORWARD, "x a", "loss");
    cairn_graph *g = hand_finish(&h);
    cairn_costs *costs = hand_costs(g);
    check_lowered(g, costs, CAIRN_GOAL_TRAIN, 0,
                  "offload x,evict x,fetch x,run A,offload x,evict x,fetch x,run Loss",
                  "offload x,wait x,free x,fetch x,wait x,run A,free x,fetch x,wait x,run Loss,"
                  "free a,free x");
    /* It is not evicted and its memory is not needed, so it stays and is copied once. */
    check_lowered(g, costs, CAIRN_GOAL_TRAIN, 0,
                  "offload x,fetch x,run A,offload x,fetch x,run Loss",
                  "offload x,run A,run Loss,free a,wait x,free x");
    check_lowered(g, costs, CAIRN_GOAL_TRAIN, 0,
                  "offload x,evict x,fetch x,offload x,fetch x,run A,run Loss",
                  "offload x,wait x,free x,fetch x,wait x,run A,run Loss,free x,free a");
    cairn_costs_destroy(costs);
    cairn_graph_destroy(g);
}

int main(void) {
    test_holders_when_host_nearly_full();
    test_holder_that_was_freed();
    test_alias_in_flight_written();
    test_alias_of_what_is_overwritten();
    test_inplace_of_smaller_storage();
    test_missing_effect_without_name();
    test_gradient_with_a_reader();
    test_rerun_for_a_result_only();
    test_second_round_trip();
    return check_result();
}
