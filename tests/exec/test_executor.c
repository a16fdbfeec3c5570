/* test_executor.c: how the executor uses memory: resident pages, freed memory, allocations during a
 * step; and parameters, data and evaluation. Arguments: a backend that computes and one that mixes.
 * Without arguments they are ref and mixing, whose memory the test can inspect. */
#define _DEFAULT_SOURCE /* mincore */
#include "exec/crn_exec.h"
#include "exec/fingerprint.h"
#include "exec/subject.h"
#include "exec/toy_network.h"

#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Allocations are counted: the linker sends them here (--wrap) ---- */

static long allocations;
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);

void *__wrap_malloc(size_t size) {
    allocations++;
    return __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size) {
    allocations++;
    return __real_calloc(count, size);
}
void *__wrap_realloc(void *block, size_t size) {
    allocations++;
    return __real_realloc(block, size);
}

/* ---- A network ready to be run ---- */

static const char *computing = "ref", *mixing = "mixing";

static subject open_on(const crn_backend *backend, const char *algorithm, uint32_t side,
                       bool check) {
    cairn_error err = {0};
    cairn_device *device;
    cairn_device_options how = CAIRN_DEVICE_OPTIONS_INIT;
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    options.check = check;
    how.threads = 2;
    CHECK_OK(crn_device_open(backend, &how, &device, &err), &err);
    return subject_of(device, toy_network(NULL, 2, side), algorithm, &options);
}

static subject open_subject(const char *backend, const char *algorithm, uint32_t side, bool check) {
    return open_on(test_backend(backend), algorithm, side, check);
}

static cairn_exec_result train_step(cairn_exec *exec, uint64_t step) {
    cairn_exec_result result = run_step(exec, step, step);
    cairn_exec_update(exec);
    return result;
}

static void *read_named(const subject *s, const char *name) {
    return read_tensor(s->exec, cairn_graph_find_tensor(s->graph, name));
}

/* ---- Resident pages ---- */

static uint64_t resident_pages(const crn_reservation *region, uint64_t page) {
    uint64_t pages = (region->bytes + page - 1) / page, count = 0;
    unsigned char *present = malloc(pages);
    CHECK(mincore(region->base, region->bytes, present) == 0);
    for (uint64_t i = 0; i < pages; i++)
        count += present[i] & 1;
    free(present);
    return count;
}

/* After a step that wrote all of its memory, all pages of the arena are resident. The arena is one
 * mapping, so there are no others. */
static void test_resident(void) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), resident[2];
    for (int i = 0; i < 2; i++) {
        subject s = open_subject("mixing", i == 0 ? "none" : "feng", 64, false);
        cairn_exec_figures f = *cairn_exec_get_figures(s.exec);
        CHECK_U64(s.exec->arena.bytes, f.arena_bytes);
        CHECK_U64(resident_pages(&s.exec->arena, page), 0);
        cairn_exec_result result = train_step(s.exec, 0);
        CHECK_U64(result.measured_peak_bytes, f.predicted_peak_bytes);
        resident[i] = resident_pages(&s.exec->arena, page);
        CHECK(resident[i] * page >= f.predicted_peak_bytes);
        CHECK_U64(resident[i], (f.arena_bytes + page - 1) / page);
        close_subject(&s);
    }
    CHECK(resident[1] < resident[0]);
}

/* The measured peak counts the union of addresses: if all storages had one address, it would be
 * less than predicted. */
static void test_overlap_is_seen(void) {
    subject s = open_subject("mixing", "none", 16, false);
    for (uint32_t i = 0; i < s.exec->program.count; i++) {
        const crn_action *action = &s.exec->program.actions[i];
        for (uint32_t k = 0; k < action->take_count; k++)
            ((crn_range *)(uintptr_t)action->takes)[k].offset = 0;
    }
    cairn_exec_result result = train_step(s.exec, 0);
    CHECK(result.measured_peak_bytes < cairn_exec_get_figures(s.exec)->predicted_peak_bytes);
    close_subject(&s);
}

/* ---- Check mode ---- */

static cairn_exec *watched;
static long dead_blocks, closed_pages;

/* Everything that is not in use is filled with NaNs or on a protected page. */
static void inspect(void) {
    const cairn_exec *exec = watched;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint8_t dead[CRN_ALIGNMENT];
    memset(dead, 0xff, sizeof dead);
    for (uint64_t at = 0; at < exec->arena.bytes; at += CRN_ALIGNMENT) {
        uint64_t bit = at / CRN_ALIGNMENT;
        if (exec->occupancy.words[bit / 64] >> (bit % 64) & 1)
            continue;
        if (crn_occupancy_free(&exec->occupancy, at / page * page, page)) {
            closed_pages++;
            continue;
        }
        dead_blocks++;
        CHECK(memcmp((char *)exec->arena.base + at, dead, sizeof dead) == 0);
    }
}

static void run_and_inspect(const crn_call *call) {
    uint32_t count;
    inspect();
    mixing_kernels(call->op->kind, &count)->run(call);
}

static uint64_t workspace_of(const crn_site *site) {
    uint32_t count;
    return mixing_kernels(site->op->kind, &count)->workspace(site);
}

static const crn_kernel *inspecting_kernels(cairn_op_kind kind, uint32_t *count) {
    static const crn_kernel kernel = {
        .name = "inspecting", .workspace = workspace_of, .run = run_and_inspect};
    (void)kind;
    *count = 1;
    return &kernel;
}

static cairn_status open_inspecting(const crn_device_options *options, crn_device **out,
                                    cairn_error *err) {
    return crn_processor_open(options, inspecting_kernels, NULL, out, err);
}

static void test_dead_memory(void) {
    crn_backend inspecting = mixing_backend;
    inspecting.open = open_inspecting;
    subject s = open_on(&inspecting, "feng", 64, true);
    watched = s.exec;
    train_step(s.exec, 0);
    train_step(s.exec, 1);
    CHECK(dead_blocks > 0 && closed_pages > 0);
    close_subject(&s);
}

/* A child process that reads an unused page during a step is killed. */
static void read_closed(const crn_call *call) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    (void)call;
    for (uint64_t at = 0; at + page <= watched->arena.bytes; at += page)
        if (crn_occupancy_free(&watched->occupancy, at, page))
            _exit(*((volatile char *)watched->arena.base + at) == 0); /* not reached */
    _exit(2);
}

static const crn_kernel *reading_kernels(cairn_op_kind kind, uint32_t *count) {
    static const crn_kernel kernel = {
        .name = "reading", .workspace = workspace_of, .run = read_closed};
    (void)kind;
    *count = 1;
    return &kernel;
}

static cairn_status open_reading(const crn_device_options *options, crn_device **out,
                                 cairn_error *err) {
    return crn_processor_open(options, reading_kernels, NULL, out, err);
}

static void test_closed_pages(void) {
    crn_backend reading = mixing_backend;
    reading.open = open_reading;
    subject s = open_on(&reading, "none", 64, true);
    watched = s.exec;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        train_step(s.exec, 0);
        _exit(3);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS));
    close_subject(&s);
}

static bool takes(const crn_action *action, crn_range range) {
    for (uint32_t i = 0; i < action->take_count; i++)
        if (action->takes[i].offset == range.offset && action->takes[i].bytes == range.bytes)
            return true;
    return false;
}

/* Free the n-th range that a run frees, without its workspace, already before that run. False:
 * there is no n-th range. */
static bool free_too_early(cairn_exec *exec, uint32_t n) {
    crn_action *actions = exec->program.actions;
    for (uint32_t i = 1; i < exec->program.count; i++)
        for (uint32_t k = 0; k < actions[i].give_count; k++) {
            crn_range *gives = (crn_range *)(uintptr_t)actions[i].gives, moved = gives[k];
            if (actions[i].kind != CAIRN_STEP_RUN || takes(&actions[i], moved) || n-- > 0)
                continue;
            gives[k] = gives[0]; /* the ranges of actions follow each other */
            gives[0] = moved;
            actions[i].gives++;
            actions[i].give_count--;
            if (actions[i - 1].give_count == 0)
                actions[i - 1].gives = gives;
            actions[i - 1].give_count++;
            return true;
        }
    return false;
}

/* A tensor that is freed one step too early still has its bits, so the error is not detected. In
 * check mode the result changes, or there is no result. */
static void test_read_after_free(void) {
    subject expected = open_subject(mixing, "none", 16, false);
    train_step(expected.exec, 0);
    uint64_t hash = fingerprint_hash(expected.exec);
    uint32_t caught = 0, unnoticed = 0, tried = 0;
    for (uint32_t n = 0; n < 12; n++) {
        subject plain = open_subject(mixing, "none", 16, false);
        if (free_too_early(plain.exec, n)) {
            train_step(plain.exec, 0);
            unnoticed += fingerprint_hash(plain.exec) == hash;
            tried++;
        }
        close_subject(&plain);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            subject checked = open_subject(mixing, "none", 16, true);
            signal(SIGSEGV, SIG_DFL);
            if (free_too_early(checked.exec, n))
                train_step(checked.exec, 0);
            _exit(fingerprint_hash(checked.exec) == hash);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        caught += !(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    }
    CHECK(tried > 5 && unnoticed > 0);
    CHECK_U64(caught, tried);
    close_subject(&expected);
}

/* ---- A step allocates nothing ---- */

static void test_no_allocation(void) {
    static const char *const algorithms[] = {"none", "feng"};
    for (size_t i = 0; i < CRN_LENGTH(algorithms); i++) {
        subject s = open_subject(computing, algorithms[i], 16, false);
        CHECK(allocations > 0);
        allocations = 0;
        for (uint64_t step = 0; step < 3; step++)
            train_step(s.exec, step);
        CHECK_U64((uint64_t)allocations, 0);
        close_subject(&s);
    }
}

/* ---- Parameters, data, evaluation ---- */

static void test_parameters(void) {
    subject s = open_subject(computing, "none", 16, false);
    cairn_error err = {0};
    float *scale = read_named(&s, "bn1.weight"), *mean = read_named(&s, "bn1.bias");
    float *var = read_named(&s, "bn1.running_var"), *weight = read_named(&s, "conv1.weight");
    float bound = sqrtf(6.0f / 27.0f), largest = 0, sum = 0;
    for (int i = 0; i < 8; i++)
        CHECK(scale[i] == 1 && mean[i] == 0 && var[i] == 1);
    for (int i = 0; i < 8 * 27; i++) {
        largest = fmaxf(largest, fabsf(weight[i]));
        sum += weight[i];
    }
    CHECK(largest <= bound && largest > 0.9f * bound && fabsf(sum / 216) < 0.1f * bound);
    weight[0] = 77;
    cairn_id id = cairn_graph_find_tensor(s.graph, "conv1.weight");
    CHECK_OK(cairn_exec_write(s.exec, id, weight, &err), &err);
    float *again = read_named(&s, "conv1.weight");
    CHECK(memcmp(again, weight, 216 * sizeof *weight) == 0);
    cairn_id inside = cairn_graph_find_tensor(s.graph, "relu1");
    CHECK(cairn_exec_read(s.exec, inside, weight, &err) == CAIRN_EINVAL);
    CHECK_STRING(err.name, "relu1");
    CHECK(cairn_exec_write(s.exec, inside, weight, &err) == CAIRN_EINVAL);
    CHECK(!crn_exec_takes(s.exec, inside) && crn_exec_takes(s.exec, id));
    free(again);
    free(scale);
    free(mean);
    free(var);
    free(weight);
    close_subject(&s);
}

/* Read back what cairn_exec_fill() wrote, from the place where the first ops read it. */
static void read_input(const subject *s, const char *name, void *to) {
    cairn_id t = cairn_graph_find_tensor(s->graph, name);
    const cairn_tensor *tensor = cairn_graph_tensor(s->graph, t);
    cairn_error err = {0};
    crn_conversion all = {.tensor = tensor,
                          .storage = s->exec->storage[t],
                          .stored = s->exec->program.input_at[t],
                          .host = to,
                          .rows = tensor->shape[0],
                          .to_host = true};
    s->exec->backend->convert(s->exec->queue, &all);
    CHECK_OK(crn_exec_join(s->exec, &err), &err);
}

static void test_data(void) {
    static float data[3][2 * 3 * 256];
    subject s = open_subject(computing, "none", 16, false);
    cairn_error err = {0};
    int32_t labels[2];
    float square = 0, total = 0;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(cairn_exec_fill(s.exec, i == 1 ? 8 : 7, &err), &err);
        read_input(&s, "input", data[i]);
    }
    read_input(&s, "label", labels);
    for (int i = 0; i < 2 * 3 * 256; i++) {
        total += data[0][i];
        square += data[0][i] * data[0][i];
    }
    CHECK(fabsf(total / 1536) < 0.1f && fabsf(square / 1536 - 1) < 0.1f);
    CHECK(labels[0] >= 0 && labels[0] < 10 && labels[1] >= 0 && labels[1] < 10);
    CHECK(data[1][0] != data[0][0]);
    CHECK(memcmp(data[0], data[2], sizeof data[0]) == 0);
    close_subject(&s);
}

/* With the same data in every step the loss falls and the running statistics change. */
static void test_learning(void) {
    subject s = open_subject(computing, "feng", 16, true);
    float first = 0, last = 0;
    for (uint64_t step = 0; step < 60; step++) {
        cairn_exec_result result = run_step(s.exec, 1, step);
        cairn_exec_update(s.exec);
        first = step == 0 ? result.loss : first;
        last = result.loss;
    }
    float *mean = read_named(&s, "bn1.running_mean");
    CHECK(mean[0] != 0);
    CHECK(isfinite(first) && last < 0.7f * first);
    free(mean);
    close_subject(&s);
}

/* Evaluation gives an output, changes nothing that stays, and uses the running statistics. */
static void test_evaluation(void) {
    subject s = open_subject(computing, "infer", 16, true);
    uint64_t before = fingerprint_hash(s.exec);
    cairn_exec_result result = run_step(s.exec, 3, 0);
    CHECK_U64(result.measured_peak_bytes, cairn_exec_get_figures(s.exec)->predicted_peak_bytes);
    CHECK_U64(fingerprint_hash(s.exec), before);
    float *kept = read_named(&s, "fc2");
    for (int i = 0; i < 20; i++)
        CHECK(isfinite(kept[i]));
    run_step(s.exec, 3, 99); /* no dropout: the number of the step does not matter */
    float *output = read_named(&s, "fc2");
    CHECK(memcmp(kept, output, 20 * sizeof *kept) == 0);
    CHECK(!crn_exec_takes(s.exec, cairn_graph_find_tensor(s.graph, "label")));
    free(kept);
    free(output);
    close_subject(&s);
}

/* ---- Times of a step ---- */

static void test_times(void) {
    subject s = open_subject(computing, "none", 32, false);
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    cairn_error err = {0};
    int64_t sum = 0;
    CHECK(cairn_exec_get_figures(s.exec)->times == NULL);
    CHECK_U64(cairn_exec_get_figures(s.exec)->time_count, 0);
    cairn_exec_destroy(s.exec);
    options.timed = true;
    CHECK_OK(cairn_exec_create(s.graph, s.device, s.costs, s.solution, &options, &s.exec, &err),
             &err);
    cairn_exec_result result = train_step(s.exec, 0);
    const int64_t *times = cairn_exec_get_figures(s.exec)->times;
    uint32_t count = cairn_exec_get_figures(s.exec)->time_count;
    uint32_t steps = s.solution->plan->step_count;
    CHECK_U64(count, steps);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(times[i] >= 0);
        sum += times[i];
    }
    CHECK(sum > 0 && sum <= result.time_ns);
    close_subject(&s);
}

int main(int argc, char **argv) {
    if (argc > 2) {
        computing = argv[1];
        mixing = argv[2];
    } else {
        test_resident();
        test_overlap_is_seen();
        test_dead_memory();
        test_closed_pages();
    }
    test_no_allocation();
    test_read_after_free();
    test_parameters();
    test_data();
    test_learning();
    test_evaluation();
    test_times();
    return check_result();
}
