/* profile_link.c: measures the speed of copies between device and host; and medians. */
#include "exec/profile_internal.h"

#include <stdlib.h>

#define LINK_BYTES ((uint64_t)64 << 20)
#define COPY_BYTES ((uint64_t)8 << 20)
#define COPIES 16 /* that follow each other */
#define RATE_SAMPLES 5
#define LATENCY_SAMPLES 16

static int compare_times(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

cairn_implementation crn_profile_spread(int64_t *times, uint32_t count) {
    qsort(times, count, sizeof *times, compare_times);
    uint32_t quarter = (count - 1) / 4;
    return (cairn_implementation){.time_ns = (times[(count - 1) / 2] + times[count / 2]) / 2,
                                  .low_ns = times[quarter],
                                  .high_ns = times[count - 1 - quarter]};
}

/* The median time of `count` copies out with as many copies in at the same time, as in a step with
 * many copies, which is slower than one direction alone or a single copy; 0: a copy failed. */
static int64_t time_copies(cairn_exec *exec, char *device, char *host, uint64_t bytes,
                           uint32_t count, uint32_t samples) {
    const crn_backend *backend = exec->backend;
    int64_t times[LATENCY_SAMPLES];
    for (uint32_t i = 0; i < samples; i++) {
        int64_t before = crn_exec_clock();
        for (uint32_t k = 0; k < count; k++) {
            uint64_t at = k * bytes % LINK_BYTES, other = at + LINK_BYTES;
            backend->copy(exec->queue, CRN_COPY_OUT, host + at, device + at, bytes);
            backend->copy(exec->queue, CRN_COPY_IN, device + other, host + other, bytes);
        }
        if (backend->join(exec->queue, NULL, NULL) != CAIRN_OK)
            return 0;
        times[i] = crn_exec_clock() - before;
    }
    return crn_profile_spread(times, samples).time_ns;
}

void crn_profile_link(cairn_exec *exec, cairn_costs_origin *out) {
    const crn_backend *backend = exec->backend;
    crn_device *state = exec->device->state;
    void *device = NULL, *host = NULL;
    if (backend->reserve(state, CRN_SPACE_DEVICE, 2 * LINK_BYTES, &device, NULL) == CAIRN_OK &&
        backend->reserve(state, CRN_SPACE_HOST, 2 * LINK_BYTES, &host, NULL) == CAIRN_OK) {
        backend->fill(exec->queue, device, 1, 2 * LINK_BYTES);
        (void)time_copies(exec, device, host, LINK_BYTES, 1, 1); /* so that all pages are mapped */
        int64_t all = time_copies(exec, device, host, COPY_BYTES, COPIES, RATE_SAMPLES);
        out->link_latency_ns = time_copies(exec, device, host, CRN_ALIGNMENT, 1, LATENCY_SAMPLES);
        out->link_bytes_per_second =
            crn_mul_div_up(COPY_BYTES * COPIES, 1000000000u, (uint64_t)CRN_MAX(all, 1));
    }
    if (host != NULL)
        backend->release(state, CRN_SPACE_HOST, host, 2 * LINK_BYTES);
    if (device != NULL)
        backend->release(state, CRN_SPACE_DEVICE, device, 2 * LINK_BYTES);
}
