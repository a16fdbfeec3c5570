/* test_profile.c: measured costs: every op has one, and equal ops have the same. Tables transfer
 * them from one set of costs to another. The predicted time of a plan is their sum. A table that
 * does not fit is refused. */
#include "cost/crn_cost.h"
#include "exec/exec_internal.h"
#include "exec/test_backends.h"
#include "exec/toy_network.h"
#include "graph/crn_graph.h"

typedef struct subject {
    cairn_graph *graph;
    const char *backend; /* its name as the device reports it */
    cairn_device *device;
    cairn_costs *costs;
    cairn_costs_origin origin;
} subject;

static cairn_device *mixing;

static cairn_implementation cost_of(const cairn_costs *costs, cairn_id op, uint32_t k) {
    uint32_t count;
    const cairn_implementation *list = cairn_costs_op(costs, op, &count);
    CHECK(k < count);
    return list[k];
}

static bool count_steps(void *context, uint64_t done, uint64_t total) {
    uint32_t *steps = context;
    CHECK_U64(done, ++*steps);
    CHECK_U64(total, 5);
    return true;
}

static bool stop_at_once(void *context, uint64_t done, uint64_t total) {
    (void)context;
    CHECK(done == 1 && total > 1);
    return false;
}

/* The toy network on a backend, measured over three steps. */
static subject open_subject(const char *backend) {
    subject s = {.graph = toy_network(NULL, 2, 16),
                 .device = test_device(backend, 2),
                 .origin = CAIRN_COSTS_ORIGIN_INIT};
    cairn_error err = {0};
    cairn_profile_options options = CAIRN_PROFILE_OPTIONS_INIT;
    uint32_t steps = 0;
    s.backend = s.device->facts.backend;
    options.repetitions = 3;
    options.progress = count_steps;
    options.progress_context = &steps;
    CHECK_OK(cairn_bind(s.graph, s.device, &s.costs, &err), &err);
    CHECK_OK(cairn_profile(s.graph, s.device, &options, s.costs, &s.origin, &err), &err);
    CHECK_U64(steps, 5);
    options.progress = stop_at_once;
    CHECK(cairn_profile(s.graph, s.device, &options, s.costs, &s.origin, &err) == CAIRN_ECANCELED);
    options.progress = NULL;
    CHECK_OK(cairn_profile(s.graph, s.device, &options, s.costs, &s.origin, &err), &err);
    return s;
}

static void close_subject(subject *s) {
    cairn_costs_destroy(s->costs);
    cairn_device_close(s->device);
    cairn_graph_destroy(s->graph);
}

static void test_times(const subject *s) {
    for (cairn_id o = 0; o < cairn_graph_op_count(s->graph); o++) {
        cairn_implementation cost = cost_of(s->costs, o, 0);
        CHECK(cost.low_ns > 0 && cost.low_ns <= cost.time_ns && cost.time_ns <= cost.high_ns);
    }
    /* four blocks are equal, so their costs are equal */
    cairn_id third = crn_graph_find_op(s->graph, "conv3");
    cairn_id fourth = crn_graph_find_op(s->graph, "conv4");
    CHECK_U64((uint64_t)cost_of(s->costs, third, 0).time_ns,
              (uint64_t)cost_of(s->costs, fourth, 0).time_ns);
    CHECK_STRING(s->origin.backend, s->backend);
    CHECK_U64(s->origin.threads, 2);
    CHECK(s->origin.link_bytes_per_second > 0 && s->origin.link_latency_ns > 0);
    CHECK(s->origin.update_bytes_per_second > 0);
}

/* In a plan without copies only the ops take time. */
static void test_predicted_is_sum(const subject *s) {
    cairn_error err = {0};
    cairn_solution *solution;
    cairn_sim *sim;
    int64_t sum = 0;
    for (cairn_id o = 0; o < cairn_graph_op_count(s->graph); o++)
        sum += cost_of(s->costs, o, 0).time_ns;
    CHECK_OK(cairn_solve(s->graph, s->costs, "none", NULL, &solution, &err), &err);
    CHECK_OK(cairn_simulate(s->graph, s->costs, solution->plan, NULL, &sim, &err), &err);
    CHECK_U64((uint64_t)sim->summary->time_ns, (uint64_t)sum);
    cairn_sim_destroy(sim);
    cairn_solution_destroy(solution);
}

static void test_table(const subject *s) {
    cairn_error err = {0};
    cairn_text text, again;
    cairn_costs *bound;
    cairn_costs_origin origin = CAIRN_COSTS_ORIGIN_INIT;
    uint32_t matched;
    CHECK_OK(cairn_costs_to_json(s->costs, s->graph, &s->origin, &text), &err);
    CHECK_OK(cairn_bind(s->graph, s->device, &bound, &err), &err);
    CHECK_OK(
        crn_costs_merge_times_json(bound, s->graph, text.data, text.length, "t", &matched, &err),
        &err);
    CHECK_U64(matched, cairn_graph_op_count(s->graph));
    CHECK_OK(crn_costs_origin_from_json(text.data, text.length, "t", &origin, &err), &err);
    CHECK(memcmp(&origin, &s->origin, sizeof origin) == 0);
    CHECK_OK(cairn_costs_to_json(bound, s->graph, &origin, &again), &err);
    CHECK_STRING(again.data, text.data);
    CHECK(crn_costs_update_ns(&origin, s->graph) > 0);
    cairn_text_release(&again);
    cairn_text_release(&text);
    cairn_costs_destroy(bound);
}

/* The times of a table apply to the implementations with the same names; workspaces stay. */
static void test_times_alone(const subject *s) {
    cairn_error err = {0};
    cairn_costs *bound;
    cairn_text signature;
    uint32_t matched;
    char table[1024];
    cairn_id op = crn_graph_find_op(s->graph, "conv3");
    CHECK_OK(cairn_bind(s->graph, mixing, &bound, &err), &err);
    cairn_implementation before = cost_of(bound, op, 1);
    CHECK_OK(cairn_op_signature(s->graph, op, &signature), &err);
    snprintf(table, sizeof table,
             "{\"format\": \"cairn-costs\", \"version\": 1, \"ops\": [{\"signature\": \"%s\", "
             "\"implementations\": [{\"name\": \"%s\", \"time_ns\": 77, \"workspace_bytes\": 1}, "
             "{\"name\": \"unheard of\", \"time_ns\": 5, \"workspace_bytes\": 1}]}]}",
             signature.data, before.name);
    CHECK_OK(crn_costs_merge_times_json(bound, s->graph, table, strlen(table), "t", &matched, &err),
             &err);
    CHECK_U64((uint64_t)cost_of(bound, op, 1).time_ns, 77);
    CHECK_U64(cost_of(bound, op, 1).workspace_bytes, before.workspace_bytes);
    CHECK_STRING(cost_of(bound, op, 1).name, before.name);
    CHECK_U64(matched, 0); /* its first implementation has no time of the table */
    cairn_text_release(&signature);
    cairn_costs_destroy(bound);
}

/* Both implementations that the mixing backend has of every op. */
static void test_every_implementation(const subject *s) {
    cairn_error err = {0};
    cairn_costs *costs;
    cairn_profile_options options = CAIRN_PROFILE_OPTIONS_INIT;
    options.repetitions = 2;
    for (int every = 0; every < 2; every++) {
        options.every_implementation = every;
        CHECK_OK(cairn_bind(s->graph, mixing, &costs, &err), &err);
        CHECK_OK(cairn_profile(s->graph, mixing, &options, costs, NULL, &err), &err);
        for (cairn_id o = 0; o < cairn_graph_op_count(s->graph); o++) {
            CHECK(cost_of(costs, o, 0).high_ns > 0);
            CHECK((cost_of(costs, o, 1).high_ns > 0) == (every == 1));
            if (!every) /* best first: an implementation that was not measured is not faster */
                CHECK(cost_of(costs, o, 1).time_ns >= cost_of(costs, o, 0).time_ns);
        }
        cairn_costs_destroy(costs);
    }
}

static cairn_status profile_within(const subject *s, uint64_t memory, cairn_error *err) {
    cairn_costs *costs;
    cairn_profile_options options = CAIRN_PROFILE_OPTIONS_INIT;
    options.repetitions = 1;
    options.memory_bytes = memory;
    CHECK_OK(cairn_bind(s->graph, mixing, &costs, err), err);
    cairn_status status = cairn_profile(s->graph, mixing, &options, costs, NULL, err);
    for (cairn_id o = 0; status == CAIRN_OK && o < cairn_graph_op_count(s->graph); o++)
        CHECK(cost_of(costs, o, 0).high_ns > 0);
    cairn_costs_destroy(costs);
    return status;
}

/* If a step that keeps everything does not fit, one that recomputes is measured. */
static void test_memory(const subject *s) {
    cairn_error err = {0};
    cairn_costs *costs;
    cairn_solution *solution;
    cairn_sim *sim;
    CHECK_OK(cairn_bind(s->graph, mixing, &costs, &err), &err);
    CHECK_OK(cairn_solve(s->graph, costs, "none", NULL, &solution, &err), &err);
    CHECK_OK(cairn_simulate(s->graph, costs, solution->plan, NULL, &sim, &err), &err);
    uint64_t stationary = cairn_stationary_bytes(s->graph, costs, 1);
    uint64_t peak = sim->summary->peak_bytes;
    CHECK(profile_within(s, stationary + peak - 1, &err) == CAIRN_OK);
    CHECK(profile_within(s, stationary, &err) == CAIRN_INFEASIBLE);
    CHECK(err.status == CAIRN_INFEASIBLE && err.message[0] != '\0');
    cairn_sim_destroy(sim);
    cairn_solution_destroy(solution);
    cairn_costs_destroy(costs);
}

int main(void) {
    const cairn_device_entry *backend;
    for (uint32_t i = 0; i == 0 || (backend = cairn_device_list(i - 1)) != NULL; i++) {
        subject s = open_subject(i == 0 ? "offset" : backend->name);
        test_times(&s);
        test_predicted_is_sum(&s);
        test_table(&s);
        close_subject(&s);
    }
    mixing = test_device("mixing", 1);
    subject s = open_subject("ref");
    test_times_alone(&s);
    test_every_implementation(&s);
    test_memory(&s);
    close_subject(&s);
    cairn_device_close(mixing);
    return check_result();
}
