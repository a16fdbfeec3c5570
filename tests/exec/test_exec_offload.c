/* test_exec_offload.c: tensors are really copied to the host and back while kernels run, by the
 * copy threads of the reference backend; for the thread sanitizer. The test makes the decisions: a
 * tensor that the backward pass reads is offloaded after it is made, and fetched some steps before
 * it is read. */
#include "exec/fingerprint.h"
#include "exec/toy_network.h"
#include "graph/crn_graph.h"
#include "plan/lower.h"

#define AHEAD 3 /* ops between the start of a fetch and its reader */

/* The first backward op that reads a tensor made by a forward op; CAIRN_NONE: none does. */
static cairn_id backward_reader(const cairn_graph *graph, cairn_id t) {
    uint32_t count;
    const cairn_id *readers = crn_graph_readers(graph, t, &count);
    for (uint32_t i = 0; i < count; i++)
        if (cairn_graph_op(graph, readers[i])->phase == CAIRN_PHASE_BACKWARD)
            return readers[i];
    return CAIRN_NONE;
}

/* The last forward op that reads the tensor, or the one that makes it. */
static cairn_id last_forward(const cairn_graph *graph, cairn_id t) {
    uint32_t count;
    const cairn_id *readers = crn_graph_readers(graph, t, &count);
    cairn_id last = cairn_graph_tensor(graph, t)->producer;
    for (uint32_t i = 0; i < count; i++)
        if (cairn_graph_op(graph, readers[i])->phase == CAIRN_PHASE_FORWARD)
            last = readers[i];
    return last;
}

static bool travels(const cairn_graph *graph, cairn_id t) {
    const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
    return tensor->role == CAIRN_ROLE_ACTIVATION && tensor->alias_of == CAIRN_NONE &&
           backward_reader(graph, t) != CAIRN_NONE &&
           backward_reader(graph, t) > last_forward(graph, t) + 2 * AHEAD;
}

static cairn_plan *offload_everything(const cairn_graph *graph, const cairn_costs *costs) {
    crn_arena arena;
    crn_schedule schedule = {0};
    cairn_error err = {0};
    cairn_plan *plan;
    uint32_t tensors = cairn_graph_tensor_count(graph);
    crn_arena_init(&arena, NULL);
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        for (cairn_id t = 0; t < tensors; t++)
            if (travels(graph, t) && backward_reader(graph, t) == o + AHEAD)
                CHECK_OK(crn_schedule_add(&schedule, &arena, CRN_FETCH, t), &err);
        CHECK_OK(crn_schedule_add(&schedule, &arena, CRN_RUN, o), &err);
        for (cairn_id t = 0; t < tensors; t++)
            if (travels(graph, t) && cairn_graph_tensor(graph, t)->producer == o)
                CHECK_OK(crn_schedule_add(&schedule, &arena, CRN_OFFLOAD, t), &err);
        for (cairn_id t = 0; t < tensors; t++)
            if (travels(graph, t) && last_forward(graph, t) + 2 == o)
                CHECK_OK(crn_schedule_add(&schedule, &arena, CRN_EVICT, t), &err);
    }
    CHECK_OK(crn_lower(graph, costs, &schedule, CAIRN_GOAL_TRAIN, 0, &plan, &err), &err);
    crn_arena_release(&arena);
    return plan;
}

static void check_backend(const char *backend, uint64_t bandwidth, bool check) {
    cairn_error err = {0};
    cairn_costs *costs;
    cairn_solution *none, *solution;
    cairn_graph *graph = toy_network(NULL, 2, 16);
    cairn_device *device;
    cairn_device_options link = CAIRN_DEVICE_OPTIONS_INIT;
    link.threads = 2;
    link.link_bytes_per_second = bandwidth;
    CHECK_OK(crn_device_open(test_backend(backend), &link, &device, &err), &err);
    CHECK_OK(cairn_bind(graph, device, &costs, &err), &err);
    CHECK_OK(cairn_solve(graph, costs, "none", NULL, &none, &err), &err);
    cairn_plan *plan = offload_everything(graph, costs);
    CHECK_OK(cairn_solution_create(graph, costs, plan, NULL, &solution, &err), &err);
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    fingerprint expected = fingerprint_of(device, graph, costs, none, &options);
    options.check = check;
    fingerprint f = fingerprint_of(device, graph, costs, solution, &options);
    CHECK(same_fingerprint(&f, &expected));
    CHECK(f.figures.host_bytes > 0);
    CHECK(f.figures.predicted_peak_bytes < expected.figures.predicted_peak_bytes);
    printf("%s: peak %" PRIu64 " against %" PRIu64 ", %" PRIu64 " on the host, waited %.2f ms\n",
           backend, f.figures.predicted_peak_bytes, expected.figures.predicted_peak_bytes,
           f.figures.host_bytes, (double)f.result.idle_ns / 1e6);
    cairn_plan_destroy(plan);
    cairn_solution_destroy(solution);
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    cairn_device_close(device);
    cairn_graph_destroy(graph);
}

/* ---- The test backends notice a lane that does not wait ---- */

static void follow_nothing(crn_queue *queue, crn_lane lane, crn_event event) {
    (void)queue;
    (void)lane;
    (void)event;
}

/* A copy that compute does not wait for, or that does not wait for compute, changes the result. */
static void check_lanes_notice(const char *backend) {
    crn_backend careless = *test_backend(backend);
    cairn_error err = {0};
    cairn_costs *costs;
    cairn_solution *solution;
    cairn_graph *graph = toy_network(NULL, 2, 16);
    cairn_device *device;
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    fingerprint f[2];
    for (int i = 0; i < 2; i++) {
        if (i == 1)
            careless.follow = follow_nothing;
        CHECK_OK(crn_device_open(&careless, NULL, &device, &err), &err);
        CHECK_OK(cairn_bind(graph, device, &costs, &err), &err);
        cairn_plan *plan = offload_everything(graph, costs);
        CHECK_OK(cairn_solution_create(graph, costs, plan, NULL, &solution, &err), &err);
        f[i] = fingerprint_of(device, graph, costs, solution, &options);
        cairn_plan_destroy(plan);
        cairn_solution_destroy(solution);
        cairn_costs_destroy(costs);
        cairn_device_close(device);
    }
    CHECK(!same_fingerprint(&f[0], &f[1]));
    cairn_graph_destroy(graph);
}

int main(void) {
    const cairn_device_entry *backend;
    static const char *const shifted[] = {"offset", "offset-early"};
    check_lanes_notice("mixing-late");
    check_lanes_notice("mixing-early");
    for (size_t i = 0; i < CRN_LENGTH(shifted); i++) {
        check_backend(shifted[i], 0, false);
        check_backend(shifted[i], 0, true);
    }
    for (uint32_t i = 0; (backend = cairn_device_list(i)) != NULL; i++) {
        check_backend(backend->name, 0, false);
        check_backend(backend->name, 0, true);
        check_backend(backend->name, 20000000, false);
    }
    return check_result();
}
