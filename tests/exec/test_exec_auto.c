/* test_exec_auto.c: plans of `auto` that recompute and copy, executed: the same bits as the plan
 * without either, and the memory that was predicted. */
#include "exec/fingerprint.h"
#include "exec/small_networks.h"

typedef struct moves {
    uint32_t reruns, offloads;
} moves;

static moves count_moves(const cairn_graph *graph, const cairn_solution *solution) {
    moves m = {.offloads = solution->sim->summary->offloads};
    uint32_t count, runs = 0;
    const cairn_step *steps = solution->plan->steps;
    count = solution->plan->step_count;
    for (uint32_t i = 0; i < count; i++)
        runs += steps[i].kind == CAIRN_STEP_RUN;
    m.reruns = runs - cairn_graph_op_count(graph);
    return m;
}

/* `share` is what of the step's memory the link carries in the time of the step, in percent. */
static moves check_plan(const char *backend, const cairn_graph *graph, uint32_t percent,
                        uint32_t share) {
    cairn_error err = {0};
    cairn_costs *costs;
    cairn_solution *none, *solution;
    cairn_device *device;
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_device_options link = CAIRN_DEVICE_OPTIONS_INIT;
    cairn_exec_options exec = CAIRN_EXEC_OPTIONS_INIT;
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    link.threads = 2;
    link.link_bytes_per_second = 500000000;
    CHECK_OK(crn_device_open(test_backend(backend), &link, &device, &err), &err);
    CHECK_OK(cairn_bind(graph, device, &costs, &err), &err);
    CHECK_OK(cairn_machine_find("v100", &machine, &err), &err);
    CHECK_OK(cairn_solve(graph, costs, "none", NULL, &none, &err), &err);
    uint64_t memory = none->layout->arena_bytes;
    machine.link_bytes_per_second =
        memory * share / 100 * 1000000 / (uint64_t)(none->sim->summary->time_ns / 1000);
    options.budget_bytes = memory / 100 * percent;
    options.machine = &machine;
    CHECK_OK(cairn_solve(graph, costs, "auto", &options, &solution, &err), &err);
    fingerprint expected = fingerprint_of(device, graph, costs, none, &exec);
    exec.check = true;
    fingerprint f = fingerprint_of(device, graph, costs, solution, &exec);
    moves m = count_moves(graph, solution);
    CHECK(same_fingerprint(&f, &expected));
    CHECK(f.figures.arena_bytes <= options.budget_bytes);
    CHECK((f.figures.host_bytes > 0) == (m.offloads > 0));
    printf("%s on %s, %u%%, link %u%%: %u re-runs, %u copies\n", cairn_graph_name(graph), backend,
           percent, share, m.reruns, m.offloads);
    cairn_solution_destroy(solution);
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    cairn_device_close(device);
    return m;
}

/* A slow link, with which it is faster to recompute most of what is freed, and a fast one. */
static void check_backend(const char *backend, const cairn_graph *graph, uint32_t percent,
                          bool recomputes) {
    moves slow = check_plan(backend, graph, percent, 20);
    moves fast = check_plan(backend, graph, percent, 400);
    CHECK(slow.offloads > 0 && fast.offloads > 0);
    if (recomputes)
        CHECK(slow.reruns > 0 && fast.offloads > slow.offloads);
}

int main(void) {
    cairn_graph *graph = small_network("resnet50", 2);
    check_backend("ref", graph, 50, true);
    check_backend("offset", graph, 50, true);
    check_backend("cpu", graph, 97, false); /* its kernels take most of the memory */
    cairn_graph_destroy(graph);
    return check_result();
}
