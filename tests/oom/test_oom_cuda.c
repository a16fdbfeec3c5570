/* test_oom_cuda.c: every allocation of opening a device of the backend cuda, of binding a network,
 * of recording a step and of running it fails once; see failing.h. */
#include "cairn.h"
#include "cuda/fake_driver.h"
#include "exec/toy_network.h"
#include "oom/failing.h"

typedef struct fixture {
    memory memory;
    cairn_allocator allocator;
    cairn_graph *graph;
    cairn_device *device;
    cairn_costs *costs;
    cairn_solution *solution;
} fixture;

static cairn_status run_open(void *context) {
    fixture *f = context;
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    cairn_device *device;
    cairn_costs *costs = NULL;
    cairn_error err = {0};
    cairn_status status;
    options.allocator = &f->allocator;
    ARMED(&f->memory, status, crn_device_open(&fake_backend_cuda_host, &options, &device, &err));
    check_result_of(status, device);
    check_error(status, &err);
    if (status == CAIRN_OK) {
        ARMED(&f->memory, status, cairn_bind(f->graph, device, &costs, &err));
        check_result_of(status, costs);
        check_error(status, &err);
    }
    cairn_costs_destroy(costs);
    cairn_device_close(device);
    return status;
}

static cairn_status run_step(void *context) {
    fixture *f = context;
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    cairn_exec *exec;
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    cairn_error err = {0};
    cairn_status status;
    ARMED(&f->memory, status,
          cairn_exec_create(f->graph, f->device, f->costs, f->solution, &options, &exec, &err));
    check_result_of(status, exec);
    check_error(status, &err);
    if (status == CAIRN_OK) {
        CHECK_OK(cairn_exec_fill(exec, 0, &err), &err);
        ARMED(&f->memory, status, cairn_exec_run(exec, 0, &result, &err));
    }
    cairn_exec_destroy(exec);
    return status;
}

int main(void) {
    static fixture f;
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    cairn_error err = {0};
    f.allocator = (cairn_allocator){resize, &f.memory};
    f.graph = toy_network(&f.allocator, 2, 16);
    fail_every(&f.memory, "open", "cuda-host", run_open, &f);
    options.allocator = &f.allocator;
    CHECK_OK(crn_device_open(&fake_backend_cuda_host, &options, &f.device, &err), &err);
    CHECK_OK(cairn_bind(f.graph, f.device, &f.costs, &err), &err);
    CHECK_OK(cairn_solve(f.graph, f.costs, "none", NULL, &f.solution, &err), &err);
    fail_every(&f.memory, "step", "cuda-host", run_step, &f);
    cairn_solution_destroy(f.solution);
    cairn_costs_destroy(f.costs);
    cairn_device_close(f.device);
    cairn_graph_destroy(f.graph);
    CHECK_U64(f.memory.live, 0);
    CHECK_U64(fake_driver_counts().allocated + fake_driver_counts().pinned, 0);
    CHECK_U64(fake_driver_counts().graphs, 0);
    return check_result();
}
