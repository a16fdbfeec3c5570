/* test_oom_cuda.c: every allocation of opening a device of the backend cuda, of binding a network,
 * of recording a step and of running it fails once; see failing.h. The networks are one of images
 * and one whose head is joined with its loss; so does every allocation of joining it. */
#include "cairn.h"
#include "cuda/fake_driver.h"
#include "exec/toy_network.h"
#include "graph/layers.h"
#include "oom/failing.h"

typedef struct fixture {
    memory memory;
    cairn_allocator allocator;
    cairn_graph *forward; /* of the joined head */
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

/* tokens -> embedding -> sum -> norm -> linear -> loss */
static cairn_graph *head_network(const cairn_allocator *allocator) {
    cairn_builder *b;
    cairn_graph *graph;
    cairn_error err = {0};
    const uint32_t tokens[] = {2, 8}, table[] = {11, 8};
    CHECK_OK(cairn_builder_create(allocator, "head", &b), &err);
    cairn_id weight = crn_build_parameter(b, "table", 2, table);
    cairn_id x = crn_build_tokens(b, "input", 2, tokens);
    x = crn_build_embedding(b, "embedding", x, weight, 0.3);
    x = crn_build_add(b, "sum", x, crn_build_gelu(b, "gelu", x, true));
    x = crn_build_linear_with(b, "head", crn_build_layer_norm(b, "norm", x, 1e-5), weight,
                              CAIRN_NONE, 0.3);
    crn_build_token_cross_entropy(b, "loss", x, crn_build_label(b, "label", 2, tokens), 0);
    CHECK_OK(cairn_builder_finish(b, &graph, &err), &err);
    cairn_builder_destroy(b);
    return graph;
}

/* The step with the joined head, and the network that it was made of. */
static cairn_status run_join(void *context) {
    fixture *f = context;
    cairn_differentiate_options options = CAIRN_DIFFERENTIATE_OPTIONS_INIT;
    cairn_graph *step, *network = NULL;
    cairn_error err = {0};
    cairn_status status;
    options.join_head = true;
    ARMED(&f->memory, status, cairn_graph_differentiate(f->forward, &options, &step, &err));
    check_result_of(status, step);
    check_error(status, &err);
    if (status == CAIRN_OK) {
        ARMED(&f->memory, status, cairn_graph_network(step, &network, &err));
        check_result_of(status, network);
        check_error(status, &err);
    }
    cairn_graph_destroy(network);
    cairn_graph_destroy(step);
    return status;
}

/* Everything with f->graph, which is destroyed. */
static void check_graph(fixture *f, cairn_math math) {
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    cairn_error err = {0};
    fail_every(&f->memory, "open", "cuda-host", run_open, f);
    options.allocator = &f->allocator;
    options.math = math;
    CHECK_OK(crn_device_open(&fake_backend_cuda_host, &options, &f->device, &err), &err);
    CHECK_OK(cairn_bind(f->graph, f->device, &f->costs, &err), &err);
    CHECK_OK(cairn_solve(f->graph, f->costs, "none", NULL, &f->solution, &err), &err);
    fail_every(&f->memory, "step", "cuda-host", run_step, f);
    cairn_solution_destroy(f->solution);
    cairn_costs_destroy(f->costs);
    cairn_device_close(f->device);
    cairn_graph_destroy(f->graph);
}

int main(void) {
    static fixture f;
    cairn_differentiate_options join = CAIRN_DIFFERENTIATE_OPTIONS_INIT;
    cairn_error err = {0};
    f.allocator = (cairn_allocator){resize, &f.memory};
    f.graph = toy_network(&f.allocator, 2, 16);
    check_graph(&f, CAIRN_MATH_TF32);
    f.forward = head_network(&f.allocator);
    fail_every(&f.memory, "join", "head", run_join, &f);
    join.join_head = true;
    CHECK_OK(cairn_graph_differentiate(f.forward, &join, &f.graph, &err), &err);
    cairn_graph_destroy(f.forward);
    check_graph(&f, CAIRN_MATH_BF16);
    CHECK_U64(f.memory.live, 0);
    CHECK_U64(fake_driver_counts().allocated + fake_driver_counts().pinned, 0);
    CHECK_U64(fake_driver_counts().graphs, 0);
    return check_result();
}
