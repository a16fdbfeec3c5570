/* test_oom_homes.c: every allocation fails once, see failing.h: of a graph with updates, of the
 * steps that fetch what is at home on the host, of a limit for everything on the device, and of a
 * session with such a plan, which evaluates too. */
#include "cairn.h"
#include "exec/toy_network.h"
#include "oom/failing.h"
#include "solve/place_homes.h"

typedef struct fixture {
    memory memory;
    cairn_allocator allocator;
    cairn_graph *step, *whole;
    cairn_device *device;
    cairn_costs *costs, *large; /* as bound; with parameters that are worth a copy */
    cairn_machine machine;
    cairn_solution *none, *homes;
    cairn_data *data;
    uint64_t limit;
} fixture;

static cairn_status run_updates(void *context) {
    fixture *f = context;
    cairn_graph *graph;
    cairn_error err = {0};
    cairn_status status;
    ARMED(&f->memory, status,
          cairn_graph_add_updates(f->step, UPDATES_OF(.slots = 2, .clip = true, .sums = true),
                                  &graph, &err));
    check_result_of(status, graph);
    check_error(status, &err);
    cairn_graph_destroy(graph);
    return status;
}

/* Everything that can be is at home on the host. */
static cairn_status place(const fixture *f, cairn_plan **out, cairn_error *err) {
    bool on_host[1000] = {0};
    CHECK(cairn_graph_tensor_count(f->whole) <= 1000);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(f->whole); t++) {
        cairn_role role = cairn_graph_tensor(f->whole, t)->role;
        on_host[t] = role == CAIRN_ROLE_PARAMETER || role == CAIRN_ROLE_SLOT;
    }
    crn_homes homes = {f->whole, f->costs, &f->machine, on_host, f->none->sim->summary->peak_bytes};
    return crn_place_homes(&homes, f->none->plan, out, err);
}

static cairn_status run_place(void *context) {
    fixture *f = context;
    cairn_plan *plan;
    cairn_error err = {0};
    cairn_status status;
    ARMED(&f->memory, status, place(f, &plan, &err));
    check_result_of(status, plan);
    check_error(status, &err);
    cairn_plan_destroy(plan);
    return status;
}

static cairn_status run_solve(void *context) {
    fixture *f = context;
    cairn_solution *solution;
    cairn_error err = {0};
    cairn_status status;
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.machine = &f->machine;
    options.device_bytes = f->limit;
    ARMED(&f->memory, status, cairn_solve(f->whole, f->large, NULL, &options, &solution, &err));
    check_result_of(status, solution);
    check_error(status, &err);
    cairn_solution_destroy(solution);
    return status;
}

static cairn_status run_session(void *context) {
    fixture *f = context;
    cairn_train *train;
    cairn_error err = {0};
    cairn_status status;
    cairn_train_options options = CAIRN_TRAIN_OPTIONS_INIT;
    options.data = f->data;
    ARMED(&f->memory, status,
          cairn_train_create(f->whole, f->device, f->costs, f->homes, &options, &train, &err));
    check_result_of(status, train);
    check_error(status, &err);
    cairn_train_destroy(train);
    return status;
}

static void open_data(fixture *f) {
    cairn_data_options data = CAIRN_DATA_OPTIONS_INIT;
    cairn_error err = {0};
    const float *mean, *deviation;
    data.allocator = &f->allocator;
    data.input[0] = 3;
    data.input[1] = data.input[2] = 8;
    data.count = 8;
    data.validation = 0.25;
    CHECK_OK(cairn_data_open("synthetic", &data, &f->data, &err), &err);
    CHECK_OK(cairn_data_statistics(f->data, &mean, &deviation, &err), &err);
}

static void set_up(fixture *f) {
    cairn_error err = {0};
    cairn_plan *plan;
    cairn_device_options device = CAIRN_DEVICE_OPTIONS_INIT;
    f->allocator = (cairn_allocator){resize, &f->memory};
    f->step = toy_network(&f->allocator, 2, 8);
    CHECK_OK(cairn_graph_add_updates(f->step, UPDATES_OF(.slots = 1), &f->whole, &err), &err);
    device.threads = 1;
    device.allocator = &f->allocator;
    CHECK_OK(cairn_device_open("ref", &device, &f->device, &err), &err);
    CHECK_OK(cairn_bind(f->whole, f->device, &f->costs, &err), &err);
    CHECK_OK(cairn_bind(f->whole, f->device, &f->large, &err), &err);
    f->machine = (cairn_machine)CAIRN_MACHINE_INIT;
    CHECK_OK(cairn_machine_find("v100", &f->machine, &err), &err);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(f->whole); t++)
        if (cairn_graph_tensor(f->whole, t)->role == CAIRN_ROLE_SLOT)
            cairn_costs_set_bytes(f->large, t, 100000);
    CHECK_OK(cairn_solve(f->whole, f->costs, "none", NULL, &f->none, &err), &err);
    f->limit = cairn_stationary_bytes(f->whole, f->large, 0) / 2 + f->none->layout->arena_bytes;
    CHECK_OK(place(f, &plan, &err), &err);
    CHECK_OK(cairn_solution_create(f->whole, f->costs, plan, &f->machine, &f->homes, &err), &err);
    cairn_plan_destroy(plan);
    open_data(f);
}

int main(void) {
    static fixture f;
    set_up(&f);
    fail_every(&f.memory, "updates", "toy", run_updates, &f);
    fail_every(&f.memory, "visits", "toy", run_place, &f);
    fail_every(&f.memory, "session", "toy", run_session, &f);
    fail_each_k(&f.memory, "limit", "toy", run_solve, &f, CHECK_SHARE * 31, false);
    cairn_data_destroy(f.data);
    cairn_solution_destroy(f.homes);
    cairn_solution_destroy(f.none);
    cairn_costs_destroy(f.large);
    cairn_costs_destroy(f.costs);
    cairn_device_close(f.device);
    cairn_graph_destroy(f.whole);
    cairn_graph_destroy(f.step);
    CHECK_U64(f.memory.live, 0);
    return check_result();
}
