/* test_device.c: a device: its facts, that nothing is built twice, several executors on one device,
 * steps that fail, and memory that the host cannot access. */
#define _DEFAULT_SOURCE /* fork */
#include "exec/fingerprint.h"
#include "exec/subject.h"
#include "exec/toy_network.h"
#include "backend/crn_device.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- A backend that counts and can be made to fail ---- */

static uint32_t built, dropped, live;
static uint32_t fail_after; /* runs; 0: never */

static cairn_status build(const crn_site *site, const cairn_allocator *allocator, void **out,
                          uint64_t *workspace) {
    uint32_t count;
    (void)allocator;
    built++;
    live++;
    *out = &built;
    *workspace = mixing_kernels(site->op->kind, &count)[0].workspace(site);
    return CAIRN_OK;
}

static void drop(void *made, const cairn_allocator *allocator) {
    (void)allocator;
    CHECK(made == &built);
    dropped++;
    live--;
}

static void run(const crn_call *call) {
    uint32_t count;
    if (fail_after > 0 && --fail_after == 0)
        crn_queue_fail(call->queue, CAIRN_ESYSTEM, "op \"%s\" failed", call->op->name);
    mixing_kernels(call->op->kind, &count)[0].run(call);
}

static const crn_kernel *counting_kernels(cairn_op_kind kind, uint32_t *count) {
    static crn_kernel kernel = {.name = "counting", .build = build, .drop = drop, .run = run};
    (void)kind;
    *count = 1;
    return &kernel;
}

static cairn_status open_counting(const crn_device_options *options, crn_device **out,
                                  cairn_error *err) {
    return crn_processor_open(options, counting_kernels, NULL, out, err);
}

/* ---- Nothing is built twice ---- */

static uint32_t count_signatures(const cairn_graph *graph) {
    uint32_t ops = cairn_graph_op_count(graph), count = 0;
    cairn_text *all = calloc(ops, sizeof *all);
    for (cairn_id o = 0; o < ops; o++) {
        bool known = false;
        if (cairn_op_signature(graph, o, &all[o]) != CAIRN_OK)
            exit(1);
        for (cairn_id i = 0; i < o && !known; i++)
            known = strcmp(all[i].data, all[o].data) == 0;
        count += !known;
    }
    for (cairn_id o = 0; o < ops; o++)
        cairn_text_release(&all[o]);
    free(all);
    return count;
}

static void test_built_once(void) {
    crn_backend counting = mixing_backend;
    cairn_graph *graph = toy_network(NULL, 2, 16);
    cairn_error err = {0};
    cairn_device *device;
    counting.open = open_counting;
    CHECK_OK(crn_device_open(&counting, NULL, &device, &err), &err);
    uint32_t signatures = count_signatures(graph);
    CHECK(signatures < cairn_graph_op_count(graph));
    for (int round = 0; round < 2; round++) {
        static const char *const algorithms[] = {"none", "feng"};
        cairn_costs *costs;
        cairn_solution *solution;
        cairn_exec *exec;
        CHECK_OK(cairn_bind(graph, device, &costs, &err), &err);
        CHECK_OK(cairn_solve(graph, costs, algorithms[round], NULL, &solution, &err), &err);
        CHECK_OK(cairn_exec_create(graph, device, costs, solution, NULL, &exec, &err), &err);
        run_step(exec, 0, 0);
        CHECK_U64(built, signatures);
        cairn_exec_destroy(exec);
        cairn_solution_destroy(solution);
        cairn_costs_destroy(costs);
    }
    CHECK_U64(dropped, 0);
    cairn_device_close(device);
    CHECK_U64(dropped, signatures);
    CHECK_U64(live, 0);
    cairn_graph_destroy(graph);
}

/* ---- Steps that fail ---- */

static void test_failing_step(void) {
    crn_backend counting = mixing_backend;
    cairn_error err = {0};
    cairn_device *device;
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    counting.open = open_counting;
    CHECK_OK(crn_device_open(&counting, NULL, &device, &err), &err);
    subject s = subject_of(device, toy_network(NULL, 2, 16), "none", NULL);
    CHECK_OK(cairn_exec_fill(s.exec, 0, &err), &err);
    fail_after = 3;
    CHECK(cairn_exec_run(s.exec, 0, &result, &err) == CAIRN_ESYSTEM);
    CHECK(strstr(err.message, "failed") != NULL);
    CHECK_U64(result.runs, 0);
    run_step(s.exec, 0, 0); /* reported once */
    close_subject(&s);
}

/* ---- Device memory that the host cannot access ---- */

/* Whether a process that accesses an address is killed for it. */
static bool faults(const void *address, bool writes) {
    volatile char *at = (volatile char *)(uintptr_t)address;
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        if (writes)
            *at = 1;
        else
            (void)*at;
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    return WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS);
}

/* Every address of device memory that an executor has faults on `offset`, and none does on the
 * backend below it. So a test that passes on `offset` shows that the host does not access device
 * memory. */
static void test_inaccessible(const char *backend, bool expected) {
    subject s = subject_of(test_device(backend, 1), toy_network(NULL, 2, 16), "none", NULL);
    cairn_id input = cairn_graph_find_tensor(s.graph, "input");
    cairn_id weight = cairn_graph_find_tensor(s.graph, "conv1.weight");
    const void *const device[] = {s.exec->arena.base, s.exec->resident.base,
                                  s.exec->program.input_at[input], s.exec->stationary.at[weight],
                                  s.exec->backend->values(s.exec->queue)};
    run_step(s.exec, 0, 0);
    for (size_t i = 0; i < CRN_LENGTH(device); i++)
        for (int writes = 0; writes < 2; writes++)
            CHECK(device[i] != NULL && faults(device[i], writes) == expected);
    CHECK(!faults(s.exec->staging.base, true));
    close_subject(&s);
}

/* ---- Several executors on one device ---- */

/* Two executors of one device take turns, and give the same bits as each gives alone. Work that one
 * has queued runs before work that the other queues later. */
static void test_turns(const char *backend) {
    cairn_graph *graph = toy_network(NULL, 2, 16);
    cairn_device *device = test_device(backend, 2);
    cairn_error err = {0};
    cairn_costs *costs;
    cairn_solution *solution;
    cairn_exec *both[2], *alone;
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    CHECK_OK(cairn_bind(graph, device, &costs, &err), &err);
    CHECK_OK(cairn_solve(graph, costs, "none", NULL, &solution, &err), &err);
    for (uint64_t i = 0; i < 2; i++) {
        options.seed = i;
        CHECK_OK(cairn_exec_create(graph, device, costs, solution, &options, &both[i], &err), &err);
    }
    for (uint64_t step = 0; step < 3; step++)
        for (int i = 0; i < 2; i++) {
            run_step(both[i], step, step);
            cairn_exec_update(both[i]); /* still queued when the other begins */
        }
    for (uint64_t i = 0; i < 2; i++) {
        options.seed = i;
        CHECK_OK(cairn_exec_create(graph, device, costs, solution, &options, &alone, &err), &err);
        for (uint64_t step = 0; step < 3; step++) {
            run_step(alone, step, step);
            cairn_exec_update(alone);
        }
        CHECK_U64(fingerprint_hash(alone), fingerprint_hash(both[i]));
        cairn_exec_destroy(alone);
    }
    for (int i = 0; i < 2; i++)
        cairn_exec_destroy(both[i]);
    cairn_solution_destroy(solution);
    cairn_costs_destroy(costs);
    cairn_device_close(device);
    cairn_graph_destroy(graph);
}

/* ---- Facts of a device ---- */

static void test_facts(void) {
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    cairn_device_facts facts = CAIRN_DEVICE_FACTS_INIT;
    cairn_device *device;
    cairn_error err = {0};
    void *region;
    options.threads = 3;
    CHECK_OK(cairn_device_open("ref", &options, &device, &err), &err);
    cairn_device_describe(device, &facts);
    CHECK_STRING(facts.backend, "ref");
    CHECK_U64(facts.compute_units, 3);
    CHECK(!facts.separate_memory && facts.memory_bytes > 0 && facts.alignment >= 64);
    memset(&facts, 0, sizeof facts); /* a caller that knows only the first fields */
    facts.struct_size = offsetof(cairn_device_facts, memory_bytes);
    cairn_device_describe(device, &facts);
    CHECK_STRING(facts.backend, "ref");
    CHECK_U64(facts.memory_bytes, 0);
    CHECK_OK(crn_device_host_reserve(device, 1000, &region, &err), &err);
    memset(region, 1, 1000); /* the host may write to it */
    crn_device_host_release(device, region, 1000);
    crn_device_host_release(device, NULL, 0);
    cairn_device_close(device);
    cairn_device_close(NULL);
    /* a simulated link has separate device memory */
    options.link_bytes_per_second = 12345678;
    CHECK_OK(cairn_device_open("ref", &options, &device, &err), &err);
    facts = (cairn_device_facts)CAIRN_DEVICE_FACTS_INIT;
    cairn_device_describe(device, &facts);
    CHECK(facts.separate_memory);
    CHECK_U64(facts.machine->link_bytes_per_second, 12345678);
    cairn_device_close(device);
    options.struct_size = 0;
    CHECK(cairn_device_open("ref", &options, &device, &err) == CAIRN_EINVAL && device == NULL);
}

int main(void) {
    static const char *const backends[] = {"ref", "offset", "mixing-early"};
    static const char *const shifted[] = {"offset", "offset-early", "mixing-late", "mixing-early"};
    test_built_once();
    test_failing_step();
    for (size_t i = 0; i < CRN_LENGTH(backends); i++)
        test_turns(backends[i]);
    test_inaccessible("ref", false);
    test_inaccessible("mixing", false);
    for (size_t i = 0; i < CRN_LENGTH(shifted); i++)
        test_inaccessible(shifted[i], true);
    test_facts();
    return check_result();
}
