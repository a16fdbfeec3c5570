/* test_ref_lanes.c: memory and copies of the reference: order, events, a ring that fills up, and
 * the bandwidth of the imitated link. */
#include "backend/ref/ref_kernels.h"
#include "check.h"

#include <time.h>

static const crn_backend *ref;

typedef struct link {
    crn_device *device;
    crn_queue *queue;
} link;

static link open_link(uint64_t bytes_per_second, uint32_t events) {
    crn_device_options options = {.threads = 2, .link_bytes_per_second = bytes_per_second};
    link l;
    cairn_error err;
    CHECK_OK(ref->open(&options, &l.device, &err), &err);
    CHECK_OK(ref->queue(l.device, &l.queue, &err), &err);
    CHECK_OK(ref->events(l.queue, events, false, &err), &err);
    return l;
}

static void close_link(link *l) {
    ref->finish_queue(l->queue);
    ref->close(l->device);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void test_memory(void) {
    link l = open_link(0, 0);
    crn_device *device = l.device;
    cairn_device_facts facts = {0};
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_error err;
    void *region, *none;
    CHECK_OK(ref->reserve(device, CRN_SPACE_DEVICE, 100000, &region, &err), &err);
    CHECK((uintptr_t)region % 4096 == 0);
    for (int i = 0; i < 100000; i++)
        if (((char *)region)[i] != 0)
            CHECK(false);
    ref->release(device, CRN_SPACE_DEVICE, region, 100000);
    CHECK_OK(ref->reserve(device, CRN_SPACE_HOST, 0, &none, &err), &err);
    ref->release(device, CRN_SPACE_HOST, none, 0);
    CHECK(ref->reserve(device, CRN_SPACE_HOST, UINT64_MAX, &none, &err) == CAIRN_ESYSTEM);
    CHECK(none == NULL && strstr(err.message, "18446744073709551615") != NULL);
    ref->describe(device, &facts, &machine);
    CHECK(facts.compute_units == 2 && !facts.separate_memory && facts.memory_bytes > 0);
    CHECK_STRING(machine.name, "cpu");
    close_link(&l);
    ref->close(NULL);
}

#define COPIES 500 /* several times what fits into a ring */
#define WORDS 256

/* A value is copied out and back many times, each time from the place of the last copy. Only copies
 * in order give the right value. */
static void test_order(void) {
    static uint64_t cells[COPIES + 1][WORDS];
    link l = open_link(0, 1);
    cairn_error err = {0};
    for (int i = 0; i < WORDS; i++)
        cells[0][i] = (uint64_t)i + 1;
    ref->record(l.queue, CRN_COMPUTE, 0);
    ref->follow(l.queue, CRN_COPY_OUT, 0); /* the compute lane is not ahead */
    for (int i = 0; i < COPIES; i++)
        ref->copy(l.queue, CRN_COPY_OUT, cells[i + 1], cells[i], sizeof cells[i]);
    ref->record(l.queue, CRN_COPY_OUT, 0);
    ref->follow(l.queue, CRN_COMPUTE, 0);
    CHECK(memcmp(cells[COPIES], cells[0], sizeof cells[0]) == 0);
    CHECK_OK(ref->join(l.queue, NULL, &err), &err);
    close_link(&l);
}

/* Lanes do not wait for each other, and an event belongs to one lane. False if it took too long,
 * which can happen on a busy machine. */
static bool run_lanes(void) {
    static char out[2][4096], in[2][4096];
    link l = open_link(20480, 4); /* 0.2 s a copy */
    cairn_error err = {0};
    crn_results results;
    ref->begin(l.queue, &(crn_values){0});
    memset(out[0], 'o', sizeof out[0]);
    memset(in[0], 'i', sizeof in[0]);
    double start = seconds();
    for (crn_event i = 0; i < 2; i++) {
        ref->copy(l.queue, CRN_COPY_OUT, out[1], out[0], sizeof out[0]);
        ref->record(l.queue, CRN_COPY_OUT, 2 * i);
        ref->copy(l.queue, CRN_COPY_IN, in[1], in[0], sizeof in[0]);
        ref->record(l.queue, CRN_COPY_IN, 2 * i + 1);
    }
    bool quick = seconds() - start < 0.2; /* queueing does not wait */
    ref->follow(l.queue, CRN_COMPUTE, 1);
    CHECK(seconds() - start >= 0.2);
    ref->follow(l.queue, CRN_COMPUTE, 2);
    CHECK_OK(ref->join(l.queue, &results, &err), &err);
    double both = seconds() - start;
    CHECK(both >= 0.4 && out[1][7] == 'o' && in[1][4095] == 'i');
    CHECK(results.idle_ns >= 200000000);
    ref->follow(l.queue, CRN_COMPUTE, 0); /* it ended long ago */
    close_link(&l);
    return quick && both < 0.8; /* at the same time, not one after the other */
}

static void test_lanes(void) {
    bool quick = false;
    for (int attempt = 0; attempt < 10 && !quick; attempt++)
        quick = run_lanes();
    CHECK(quick);
}

/* Closing a queue finishes the copies that were queued. */
static void test_close(void) {
    static char from[1000], to[1000];
    link l = open_link(0, 0);
    memset(from, 'x', sizeof from);
    for (int i = 0; i < 100; i++)
        ref->copy(l.queue, CRN_COPY_IN, to + i * 10, from + i * 10, 10);
    close_link(&l);
    CHECK(memcmp(from, to, sizeof from) == 0);
}

/* The next join reports the first failure, once. */
static void test_failure(void) {
    link l = open_link(0, 0);
    cairn_error err = {0};
    crn_queue_fail(l.queue, CAIRN_ESYSTEM, "step %d", 1);
    crn_queue_fail(l.queue, CAIRN_ESYSTEM, "step %d", 2);
    CHECK(ref->join(l.queue, NULL, &err) == CAIRN_ESYSTEM);
    CHECK_STRING(err.message, "step 1");
    CHECK(ref->join(l.queue, NULL, &err) == CAIRN_OK);
    close_link(&l);
}

static void test_list(void) {
    uint32_t count;
    for (cairn_op_kind kind = 0; kind < CAIRN_OP_KINDS; kind++) {
        const crn_kernel *list = crn_ref_kernels(kind, &count);
        /* an update is the optimiser's, not a kernel's */
        CHECK((count > 0) ==
              ((kind != CAIRN_OP_OPAQUE && kind < CAIRN_OP_UPDATE) || kind == CAIRN_OP_HEAD_LOSS));
        CHECK((list != NULL) == (count > 0));
    }
}

int main(void) {
    const crn_backend *backend;
    for (uint32_t i = 0; (backend = crn_backend_list(i)) != NULL; i++)
        ref = backend; /* the last of the list */
    CHECK(ref != NULL && strcmp(ref->name, "ref") == 0);
    test_list();
    test_memory();
    test_order();
    test_lanes();
    test_close();
    test_failure();
    return check_result();
}
