/* test_oom_train.c: every allocation of a session, of its first step, of evaluations, snapshots,
 * logs and of resuming fails once; see failing.h. */
#define _DEFAULT_SOURCE
#include "cairn.h"
#include "exec/toy_network.h"
#include "oom/failing.h"

#include <stdio.h>
#include <unistd.h>

typedef struct fixture {
    memory memory;
    cairn_allocator allocator;
    cairn_graph *graph;
    cairn_device *device;
    cairn_costs *costs;
    cairn_solution *solution;
    cairn_data *data;
    cairn_train *train;
    const char *folder;
} fixture;

static cairn_status create(fixture *f, cairn_train **out, cairn_error *err) {
    cairn_exec_options exec = CAIRN_EXEC_OPTIONS_INIT;
    cairn_train_options options = CAIRN_TRAIN_OPTIONS_INIT;
    options.exec = &exec;
    options.data = f->data;
    options.model = "toy";
    return cairn_train_create(f->graph, f->device, f->costs, f->solution, &options, out, err);
}

static cairn_status run_create(void *context) {
    fixture *f = context;
    cairn_train *train;
    cairn_error err = {0};
    cairn_status status;
    ARMED(&f->memory, status, create(f, &train, &err));
    check_result_of(status, train);
    check_error(status, &err);
    cairn_train_destroy(train);
    return status;
}

static cairn_status run_step(void *context) {
    fixture *f = context;
    cairn_train *train;
    cairn_train_result result = CAIRN_TRAIN_RESULT_INIT;
    cairn_train_score score;
    cairn_error err = {0};
    cairn_status status;
    CHECK_OK(create(f, &train, &err), &err);
    ARMED(&f->memory, status, cairn_train_step(train, &result, &err));
    if (status == CAIRN_OK)
        ARMED(&f->memory, status, cairn_train_evaluate(train, &score, &err));
    check_error(status, &err);
    cairn_train_destroy(train);
    return status;
}

static cairn_status run_snapshot(void *context) {
    fixture *f = context;
    cairn_error err = {0};
    cairn_status status;
    ARMED(&f->memory, status, cairn_train_snapshot(f->train, f->folder, &err));
    check_error(status, &err);
    return status;
}

static uint64_t steps_of(const cairn_train *train) {
    cairn_train_history history = CAIRN_TRAIN_HISTORY_INIT;
    cairn_train_get_history(train, &history);
    return history.steps;
}

static cairn_status run_resume(void *context) {
    fixture *f = context;
    cairn_train *train;
    cairn_text notices;
    cairn_error err = {0};
    cairn_status status;
    CHECK_OK(create(f, &train, &err), &err);
    ARMED(&f->memory, status, cairn_train_resume(train, f->folder, &notices, &err));
    check_error(status, &err);
    CHECK_U64(steps_of(train), status == CAIRN_OK ? 2 : 0);
    cairn_text_release(&notices);
    cairn_train_destroy(train);
    return status;
}

static cairn_status run_save(void *context) {
    fixture *f = context;
    cairn_error err = {0};
    cairn_status status;
    char path[200];
    snprintf(path, sizeof path, "%s/weights", f->folder);
    ARMED(&f->memory, status, cairn_train_save_weights(f->train, path, &err));
    check_error(status, &err);
    CHECK((unlink(path) == 0) == (status == CAIRN_OK));
    return status;
}

static cairn_status run_log(void *context) {
    fixture *f = context;
    cairn_text text = {0};
    cairn_status status;
    ARMED(&f->memory, status, cairn_train_log(f->train, 0, 0, &text));
    check_result_of(status, text.data);
    cairn_text_release(&text);
    return status;
}

static void set_up(fixture *f) {
    cairn_error err = {0};
    cairn_data_options data = CAIRN_DATA_OPTIONS_INIT;
    const float *mean, *deviation;
    f->allocator = (cairn_allocator){resize, &f->memory};
    f->graph = toy_network(&f->allocator, 2, 8);
    cairn_device_options device = CAIRN_DEVICE_OPTIONS_INIT;
    device.threads = 1;
    device.allocator = &f->allocator;
    CHECK_OK(cairn_device_open("ref", &device, &f->device, &err), &err);
    CHECK_OK(cairn_bind(f->graph, f->device, &f->costs, &err), &err);
    CHECK_OK(cairn_solve(f->graph, f->costs, "none", NULL, &f->solution, &err), &err);
    data.allocator = &f->allocator;
    data.input[0] = 3;
    data.input[1] = data.input[2] = 8;
    data.count = 8;
    data.validation = 0.25;
    CHECK_OK(cairn_data_open("synthetic", &data, &f->data, &err), &err);
    CHECK_OK(cairn_data_statistics(f->data, &mean, &deviation, &err),
             &err); /* kept, so not computed again */
    CHECK_OK(create(f, &f->train, &err), &err);
    cairn_train_result result = CAIRN_TRAIN_RESULT_INIT;
    cairn_train_score score;
    for (int i = 0; i < 2; i++)
        CHECK_OK(cairn_train_step(f->train, &result, &err), &err);
    CHECK_OK(cairn_train_evaluate(f->train, &score, &err), &err);
}

int main(void) {
    static fixture f;
    char folder[] = "test_oom_train.XXXXXX", path[200];
    CHECK(mkdtemp(folder) != NULL);
    f.folder = folder;
    set_up(&f);
    fail_every(&f.memory, "create", "session", run_create, &f);
    fail_every(&f.memory, "step", "session", run_step, &f);
    fail_every(&f.memory, "snapshot", "session", run_snapshot, &f);
    fail_every(&f.memory, "resume", "session", run_resume, &f);
    fail_every(&f.memory, "save", "session", run_save, &f);
    fail_every(&f.memory, "log", "session", run_log, &f);
    cairn_train_destroy(f.train);
    cairn_data_destroy(f.data);
    cairn_solution_destroy(f.solution);
    cairn_costs_destroy(f.costs);
    cairn_device_close(f.device);
    cairn_graph_destroy(f.graph);
    CHECK_U64(f.memory.live, 0);
    snprintf(path, sizeof path, "%s/snapshot-00000002.safetensors", folder);
    CHECK(unlink(path) == 0 && rmdir(folder) == 0);
    return check_result();
}
