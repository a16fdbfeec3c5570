/* test_exec_faults.c: what an executor refuses, with which message; failing allocations; a system
 * without memory. */
#include "exec/fingerprint.h"
#include "exec/toy_network.h"
#include "import/importer.h"
#include "plan/crn_plan.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- An allocator whose k-th allocation fails; arenas have blocks as small as each allocation, so
 * that each one can fail ---- */

#define MOST_FAILURES 100000

typedef struct memory {
    uint64_t live, fail_at; /* 0: never */
    uint64_t taken;
} memory;

static void *resize(void *context, void *block, size_t old_size, size_t new_size) {
    memory *m = context;
    if (new_size == 0) {
        m->live -= old_size;
        free(block);
        return NULL;
    }
    if (++m->taken == m->fail_at)
        return NULL;
    void *grown = realloc(block, new_size);
    m->live += new_size - old_size;
    return grown;
}

typedef struct subject {
    memory memory;
    cairn_device *device;
    cairn_graph *graph;
    cairn_costs *costs;
    cairn_solution *solution;
} subject;

static cairn_device *open_device(subject *s, const char *backend) {
    cairn_allocator allocator = {resize, &s->memory};
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    cairn_device *device;
    cairn_error err = {0};
    options.threads = 1;
    options.allocator = &allocator;
    CHECK_OK(crn_device_open(test_backend(backend), &options, &device, &err), &err);
    return device;
}

static void open_subject(subject *s, const char *backend, const char *algorithm) {
    cairn_error err = {0};
    *s = (subject){0};
    cairn_allocator allocator = {resize, &s->memory};
    s->graph = toy_network(&allocator, 2, 16);
    s->device = open_device(s, backend);
    CHECK_OK(cairn_bind(s->graph, s->device, &s->costs, &err), &err);
    CHECK_OK(cairn_solve(s->graph, s->costs, algorithm, NULL, &s->solution, &err), &err);
}

static void close_subject(subject *s) {
    cairn_solution_destroy(s->solution);
    cairn_costs_destroy(s->costs);
    cairn_device_close(s->device);
    cairn_graph_destroy(s->graph);
    CHECK_U64(s->memory.live, 0);
}

static void test_failing_allocations(const char *backend) {
    subject s;
    open_subject(&s, backend, "feng");
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    uint64_t before = s.memory.live, failures = 0;
    for (uint64_t k = 1; k < MOST_FAILURES; k++) {
        cairn_error err = {0};
        cairn_exec *exec;
        s.memory.taken = 0;
        s.memory.fail_at = k;
        cairn_status status =
            cairn_exec_create(s.graph, s.device, s.costs, s.solution, &options, &exec, &err);
        s.memory.fail_at = 0;
        if (status == CAIRN_OK) {
            cairn_exec_destroy(exec);
            CHECK_U64(s.memory.live, before);
            break;
        }
        failures++;
        CHECK(status == CAIRN_ENOMEM && exec == NULL && err.message[0] != '\0');
        CHECK_U64(s.memory.live, before);
    }
    CHECK(failures > 300 && failures < MOST_FAILURES - 1);
    failures = 0;
    for (uint64_t k = 1; k < MOST_FAILURES; k++) {
        cairn_error err = {0};
        cairn_costs *costs;
        cairn_device *fresh = open_device(&s, backend); /* one that has built nothing yet */
        s.memory.taken = 0;
        s.memory.fail_at = k;
        cairn_status status = cairn_bind(s.graph, fresh, &costs, &err);
        s.memory.fail_at = 0;
        cairn_costs_destroy(costs);
        cairn_device_close(fresh);
        CHECK_U64(s.memory.live, before);
        if (status == CAIRN_OK)
            break;
        failures++;
        CHECK(status == CAIRN_ENOMEM && costs == NULL);
    }
    CHECK(failures > 1 && failures < MOST_FAILURES - 1);
    close_subject(&s);
}

/* ---- Refusals ---- */

/* The same for profiling. The costs are created again each time, because a failure may leave them
 * partly changed. */
static void test_failing_profile(void) {
    subject s;
    open_subject(&s, "mixing", "none");
    cairn_profile_options options = CAIRN_PROFILE_OPTIONS_INIT;
    options.repetitions = 1;
    uint64_t before = s.memory.live, failures = 0;
    for (uint64_t k = 1; k < MOST_FAILURES; k++) {
        cairn_error err = {0};
        cairn_costs *costs;
        CHECK_OK(cairn_bind(s.graph, s.device, &costs, &err), &err);
        s.memory.taken = 0;
        s.memory.fail_at = k;
        cairn_status status = cairn_profile(s.graph, s.device, &options, costs, NULL, &err);
        s.memory.fail_at = 0;
        cairn_costs_destroy(costs);
        CHECK_U64(s.memory.live, before);
        if (status == CAIRN_OK)
            break;
        failures++;
        CHECK(status == CAIRN_ENOMEM && err.status == CAIRN_ENOMEM && err.message[0] != '\0');
    }
    CHECK(failures > 100);
    close_subject(&s);
}

static void expect(cairn_status status, cairn_status wanted, const cairn_error *err,
                   const char *words) {
    CHECK(status == wanted);
    if (strstr(err->message, words) == NULL) {
        fprintf(stderr, "\"%s\" does not say \"%s\"\n", err->message, words);
        check_failures++;
    }
}

static void test_budget(void) {
    subject s;
    cairn_error err = {0};
    cairn_exec *exec;
    char words[32];
    open_subject(&s, "mixing", "none");
    uint64_t peak = s.solution->sim->summary->peak_bytes;
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    options.budget_bytes = peak - 1;
    cairn_status status =
        cairn_exec_create(s.graph, s.device, s.costs, s.solution, &options, &exec, &err);
    CHECK(exec == NULL);
    snprintf(words, sizeof words, "%" PRIu64, peak); /* both figures */
    expect(status, CAIRN_EINVAL, &err, words);
    snprintf(words, sizeof words, "%" PRIu64, peak - 1);
    expect(status, CAIRN_EINVAL, &err, words);
    options.budget_bytes = 0;
    CHECK_OK(cairn_exec_create(s.graph, s.device, s.costs, s.solution, &options, &exec, &err),
             &err);
    cairn_exec_destroy(exec);
    cairn_exec_destroy(NULL);
    close_subject(&s);
}

static void test_wrong_plans(void) {
    subject s;
    cairn_error err = {0};
    cairn_exec *exec;
    cairn_solution *other_solution;
    cairn_costs *other_costs;
    open_subject(&s, "mixing", "none");
    cairn_zoo_options zoo = CAIRN_ZOO_OPTIONS_INIT;
    zoo.steps = 3;
    cairn_graph *forward, *other;
    CHECK_OK(crn_zoo_build(NULL, "rnn", &zoo, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &other, &err), &err);
    CHECK_OK(cairn_bind(other, s.device, &other_costs, &err), &err);
    CHECK_OK(cairn_solve(other, other_costs, "none", NULL, &other_solution, &err), &err);
    expect(cairn_exec_create(s.graph, s.device, s.costs, other_solution, NULL, &exec, &err),
           CAIRN_EINVAL, &err, "another graph");

    /* A plan without its last step is not complete. */
    crn_plan_builder *builder;
    cairn_plan *damaged;
    cairn_solution *refused;
    const cairn_step *steps = s.solution->plan->steps;
    uint32_t count = s.solution->plan->step_count;
    CHECK_OK(crn_plan_builder_create(NULL, &builder), &err);
    for (uint32_t i = 0; i + 1 < count; i++)
        CHECK_OK(crn_plan_builder_add(builder, steps[i]), &err);
    CHECK_OK(crn_plan_builder_finish(builder, s.graph, s.solution->plan->header, &damaged, &err),
             &err);
    crn_plan_builder_destroy(builder);
    expect(cairn_solution_create(s.graph, s.costs, damaged, NULL, &refused, &err), CAIRN_EINVAL,
           &err, "at the end");
    CHECK(refused == NULL);
    cairn_plan_destroy(damaged);
    cairn_solution_destroy(other_solution);
    cairn_costs_destroy(other_costs);
    cairn_graph_destroy(other);
    cairn_graph_destroy(forward);
    close_subject(&s);
}

static void test_wrong_backends(void) {
    subject s;
    cairn_error err = {0};
    cairn_exec *exec;
    cairn_costs *plain;
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_device *device;
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    open_subject(&s, "mixing", "none");
    expect(cairn_device_open("abacus", NULL, &device, &err), CAIRN_EUNKNOWN, &err,
           "\"abacus\"; the backends are ");
    CHECK(device == NULL);
    options.index = 1;
    expect(cairn_device_open("ref", &options, &device, &err), CAIRN_EUNKNOWN, &err, "1 device");
    CHECK(device == NULL);
    CHECK(cairn_device_list(1000) == NULL);
    CHECK_OK(cairn_device_open(NULL, NULL, &device, &err), &err); /* the best backend */
    CHECK_STRING(device->facts.backend, cairn_device_list(0)->name);

    /* Costs without a workspace, on a backend that needs one. */
    CHECK_OK(cairn_machine_find("cpu", &machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(s.graph, &machine, &plain, &err), &err);
    expect(cairn_exec_create(s.graph, s.device, plain, s.solution, NULL, &exec, &err), CAIRN_EINVAL,
           &err, "made with other costs");
    cairn_solution *unbound;
    CHECK_OK(cairn_solution_create(s.graph, plain, s.solution->plan, NULL, &unbound, &err), &err);
    expect(cairn_exec_create(s.graph, s.device, plain, unbound, NULL, &exec, &err), CAIRN_EINVAL,
           &err, "not bound for this backend");
    cairn_solution_destroy(unbound);
    cairn_costs_destroy(plain);
    close_subject(&s);

    /* An op that no backend supports. */
    cairn_builder *b;
    cairn_graph *opaque;
    cairn_tensor x = CAIRN_TENSOR_INIT;
    x.name = "x";
    x.bytes = 64;
    CHECK_OK(cairn_builder_create(NULL, "opaque", &b), &err);
    cairn_id input = cairn_builder_tensor(b, &x);
    cairn_op op = {.name = "op", .kind = CAIRN_OP_OPAQUE, .of = CAIRN_NONE, .inputs = &input};
    op.input_count = 1;
    cairn_builder_op(b, &op);
    CHECK_OK(cairn_builder_finish(b, &opaque, &err), &err);
    expect(cairn_bind(opaque, device, &plain, &err), CAIRN_EINVAL, &err, "no implementation");
    cairn_builder_destroy(b);
    cairn_graph_destroy(opaque);
    cairn_device_close(device);
}

/* ---- A system without memory ---- */

/* This runs in a child process, because it sets a limit. Returns 0 if the executor was refused as
 * expected. */
static int refused_by_system(void) {
    cairn_error err = {0};
    cairn_costs *costs;
    cairn_solution *solution;
    cairn_exec *exec;
    cairn_graph *graph = toy_network(NULL, 1024, 128); /* its arena is gigabytes */
    cairn_device *device = test_device("ref", 1);
    CHECK_OK(cairn_bind(graph, device, &costs, &err), &err);
    CHECK_OK(cairn_solve(graph, costs, "none", NULL, &solution, &err), &err);
    struct rlimit limit = {1u << 30, 1u << 30};
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        return 2;
    cairn_status status = cairn_exec_create(graph, device, costs, solution, NULL, &exec, &err);
    char figure[32];
    snprintf(figure, sizeof figure, "%" PRIu64, solution->plan->header->predicted_peak_bytes);
    fprintf(stderr, "  (%s)\n", err.message);
    bool good = status == CAIRN_ESYSTEM && exec == NULL && strstr(err.message, figure) != NULL;
    cairn_solution_destroy(solution);
    cairn_costs_destroy(costs);
    cairn_device_close(device);
    cairn_graph_destroy(graph);
    return good ? 0 : 1;
}

static void test_memory_refused(void) {
#ifndef CAIRN_SANITIZED
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(refused_by_system());
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#else
    (void)refused_by_system; /* sanitizers need the address space themselves */
#endif
}

int main(void) {
    const cairn_device_entry *backend;
    test_failing_allocations("mixing");
    test_failing_allocations("offset");
    for (uint32_t i = 0; (backend = cairn_device_list(i)) != NULL; i++)
        test_failing_allocations(backend->name);
    test_failing_profile();
    test_budget();
    test_wrong_plans();
    test_wrong_backends();
    test_memory_refused();
    return check_result();
}
