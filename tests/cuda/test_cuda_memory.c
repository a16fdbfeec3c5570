/* test_cuda_memory.c: a GPU, or pinned memory, that is too small. The sentence says how much was
 * requested and how much is free; the device works as before once there is room. */
#include "cairn.h"
#include "exec/crn_exec.h"
#include "exec/subject.h"
#include "exec/toy_network.h"
#include "fake_driver.h"

#define ROOM ((uint64_t)8 << 30)

static cairn_device *open_device(void) {
    cairn_error err = {0};
    cairn_device *device;
    CHECK_OK(crn_device_open(&fake_backend_cuda_host, NULL, &device, &err), &err);
    return device;
}

static void expect_sentence(const cairn_error *err, uint64_t bytes, const char *kind,
                            const char *owner) {
    unsigned long long requested = 0, total = 0, left = 0;
    char is[16] = "", has[16] = "";
    int end = 0;
    CHECK(sscanf(err->message,
                 "cannot reserve %llu bytes of %15s memory; the %15s has %llu, of which %llu are "
                 "free%n",
                 &requested, is, has, &total, &left, &end) == 5);
    CHECK(end > 0 && err->message[end] == '\0');
    CHECK_U64(requested, bytes);
    CHECK_STRING(is, kind);
    CHECK_STRING(has, owner);
    CHECK(left > 0 && left < total);
    puts(err->message);
}

static subject toy_subject(void) {
    return subject_of(open_device(), toy_network(NULL, 2, 16), "none", NULL);
}

/* Replace the plan by one that offloads. */
static void offload(subject *s) {
    cairn_error err = {0};
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    CHECK_OK(cairn_machine_find("h200", &machine, &err), &err);
    options.machine = &machine;
    options.budget_bytes = cairn_exec_get_figures(s->exec)->arena_bytes * 3 / 4;
    cairn_exec_destroy(s->exec);
    cairn_solution_destroy(s->solution);
    CHECK_OK(cairn_solve(s->graph, s->costs, "offload-greedy", &options, &s->solution, &err), &err);
    CHECK_OK(cairn_exec_create(s->graph, s->device, s->costs, s->solution, NULL, &s->exec, &err),
             &err);
}

/* An executor whose arena, or whose memory for offloaded tensors, does not fit. */
static void test_executor(bool pinned) {
    cairn_error err = {0};
    cairn_exec *exec;
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    subject s = toy_subject();
    if (pinned)
        offload(&s);
    const cairn_exec_figures *figures = cairn_exec_get_figures(s.exec);
    uint64_t needed = pinned ? figures->host_bytes : figures->arena_bytes;
    fake_counts before = fake_driver_counts();
    fake_driver_most(pinned ? ROOM : needed - 1, pinned ? needed - 1 : ROOM);
    CHECK(cairn_exec_create(s.graph, s.device, s.costs, s.solution, NULL, &exec, &err) ==
          CAIRN_ESYSTEM);
    CHECK(exec == NULL);
    expect_sentence(&err, needed, pinned ? "pinned" : "device", pinned ? "machine" : "GPU");
    CHECK_U64(fake_driver_counts().allocated, before.allocated);
    CHECK_U64(fake_driver_counts().pinned, before.pinned);
    fake_driver_most(ROOM, ROOM);
    CHECK_OK(cairn_exec_create(s.graph, s.device, s.costs, s.solution, NULL, &exec, &err), &err);
    CHECK_OK(cairn_exec_fill(exec, 0, &err), &err);
    CHECK_OK(cairn_exec_run(exec, 0, &result, &err), &err);
    cairn_exec_destroy(exec);
    close_subject(&s);
}

/* Parameters are converted on the device, through a block that is larger than this network. */
static void test_conversion(void) {
    cairn_error err = {0};
    cairn_exec *exec;
    subject s = toy_subject();
    CHECK(cairn_exec_get_figures(s.exec)->arena_bytes < 1 << 20);
    fake_driver_most(1 << 20, ROOM);
    CHECK(cairn_exec_create(s.graph, s.device, s.costs, s.solution, NULL, &exec, &err) ==
          CAIRN_ESYSTEM);
    expect_sentence(&err, 16 << 20, "device", "GPU");
    fake_driver_most(ROOM, ROOM);
    close_subject(&s);
}

/* A driver that fails for another reason has no figures to tell. */
static void test_other_reason(void) {
    cairn_error err = {0};
    cairn_exec *exec;
    subject s = toy_subject();
    fake_driver_fail_call(3, false); /* behind choosing the GPU */
    CHECK(cairn_exec_create(s.graph, s.device, s.costs, s.solution, NULL, &exec, &err) ==
          CAIRN_ESYSTEM);
    CHECK(strstr(err.message, " bytes of device memory: an illegal memory access was ") != NULL);
    fake_driver_fail_call(0, false);
    close_subject(&s);
}

/* ---- The caller's context ---- */

static bool is_current(CUcontext context) {
    CUcontext current = NULL;
    return fake_driver()->cuCtxGetCurrent(&current) == 0 && current == context;
}

/* Whatever is called, the caller's context is the current one again afterwards. */
static void test_context(void) {
    static int other;
    CUcontext own = (CUcontext)(void *)&other;
    cairn_error err = {0};
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    CHECK(fake_driver()->cuCtxSetCurrent(own) == 0);
    subject s = toy_subject();
    CHECK(is_current(own));
    for (uint64_t step = 1; step < 4; step++) {
        CHECK_OK(cairn_exec_fill(s.exec, step, &err), &err);
        CHECK(is_current(own));
        CHECK_OK(cairn_exec_run(s.exec, step, &result, &err), &err);
        CHECK(is_current(own));
        cairn_exec_update(s.exec);
        CHECK_OK(crn_exec_join(s.exec, &err), &err);
        CHECK(is_current(own));
    }
    close_subject(&s);
    CHECK(is_current(own));
    CHECK(fake_driver()->cuCtxSetCurrent(NULL) == 0);
}

int main(void) {
    test_context();
    test_executor(false);
    test_executor(true);
    test_conversion();
    test_other_reason();
    CHECK_U64(fake_driver_counts().allocated, 0);
    CHECK_U64(fake_driver_counts().pinned, 0);
    return check_result();
}
