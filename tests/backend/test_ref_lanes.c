/* test_ref_lanes.c: memory and copies of the reference: order, events, a ring that fills up, and
 * the bandwidth of the imitated link. */
#include "backend/backend.h"
#include "check.h"

#include <time.h>

static const crn_backend *ref;

static crn_device *open_device(uint64_t bytes_per_second) {
    crn_device_options options = {.threads = 2, .link_bytes_per_second = bytes_per_second};
    crn_device *device;
    cairn_error err;
    CHECK_OK(ref->open(&options, &device, &err), &err);
    return device;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void test_memory(void) {
    crn_device *device = open_device(0);
    cairn_error err;
    void *region, *none;
    CHECK_OK(ref->reserve(device, CRN_DEVICE, 100000, &region, &err), &err);
    CHECK((uintptr_t)region % 4096 == 0);
    for (int i = 0; i < 100000; i++)
        if (((char *)region)[i] != 0)
            CHECK(false);
    ref->release(device, CRN_DEVICE, region, 100000);
    CHECK_OK(ref->reserve(device, CRN_HOST, 0, &none, &err), &err);
    ref->release(device, CRN_HOST, none, 0);
    CHECK(ref->reserve(device, CRN_HOST, UINT64_MAX, &none, &err) == CAIRN_ESYSTEM);
    CHECK(none == NULL && strstr(err.message, "18446744073709551615") != NULL);
    CHECK(crn_pool_threads(ref->threads(device)) == 2);
    ref->close(device);
    ref->close(NULL);
}

#define COPIES 500 /* several times what fits into a ring */
#define WORDS 256

/* A value goes out and comes back many times, each copy from where the last one left it; only in
 * order does it get through. */
static void test_order(void) {
    static uint64_t cells[COPIES + 1][WORDS];
    crn_device *device = open_device(0);
    for (int i = 0; i < WORDS; i++)
        cells[0][i] = (uint64_t)i + 1;
    crn_event last = 0;
    ref->wait(device, last); /* the event of no copy */
    for (int i = 0; i < COPIES; i++)
        last = ref->copy(device, CRN_LANE_OUT, cells[i + 1], cells[i], sizeof cells[i]);
    ref->wait(device, last);
    CHECK(memcmp(cells[COPIES], cells[0], sizeof cells[0]) == 0);
    ref->close(device);
}

/* Lanes do not wait for each other, and an event is of its lane. True where it took no longer than
 * it should, which on a busy machine it may. */
static bool run_lanes(void) {
    static char out[2][4096], in[2][4096];
    crn_device *device = open_device(20480); /* 0.2 s a copy */
    memset(out[0], 'o', sizeof out[0]);
    memset(in[0], 'i', sizeof in[0]);
    double start = seconds();
    crn_event going_out[2], coming_in[2];
    for (int i = 0; i < 2; i++) {
        going_out[i] = ref->copy(device, CRN_LANE_OUT, out[1], out[0], sizeof out[0]);
        coming_in[i] = ref->copy(device, CRN_LANE_IN, in[1], in[0], sizeof in[0]);
    }
    bool quick = seconds() - start < 0.2; /* asking does not wait */
    ref->wait(device, coming_in[0]);
    CHECK(seconds() - start >= 0.2);
    ref->wait(device, going_out[1]);
    ref->wait(device, coming_in[1]);
    double both = seconds() - start;
    CHECK(both >= 0.4 && out[1][7] == 'o' && in[1][4095] == 'i');
    ref->wait(device, going_out[0]); /* long over */
    ref->close(device);
    return quick && both < 0.8; /* side by side, not one after the other */
}

static void test_lanes(void) {
    bool quick = false;
    for (int attempt = 0; attempt < 10 && !quick; attempt++)
        quick = run_lanes();
    CHECK(quick);
}

/* Closing finishes what was asked for. */
static void test_close(void) {
    static char from[1000], to[1000];
    crn_device *device = open_device(0);
    memset(from, 'x', sizeof from);
    for (int i = 0; i < 100; i++)
        ref->copy(device, CRN_LANE_IN, to + i * 10, from + i * 10, 10);
    ref->close(device);
    CHECK(memcmp(from, to, sizeof from) == 0);
}

static void test_list(void) {
    CHECK(crn_backend_find("no such backend") == NULL);
    uint32_t count;
    for (cairn_op_kind kind = 0; kind < CAIRN_OP_KINDS; kind++) {
        const crn_kernel *list = ref->kernels(kind, &count);
        CHECK((count > 0) == (kind != CAIRN_OP_OPAQUE));
        CHECK((list != NULL) == (count > 0));
    }
}

int main(void) {
    ref = crn_backend_find("ref");
    CHECK(ref != NULL && strcmp(ref->name, "ref") == 0);
    test_list();
    test_memory();
    test_order();
    test_lanes();
    test_close();
    return check_result();
}
