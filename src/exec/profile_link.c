/* profile_link.c: measures the speed of copies between device and host; and medians. */
#include "exec/profile_internal.h"

#include <stdlib.h>

#define LINK_BYTES ((uint64_t)64 << 20)
#define LINK_COPIES 16

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

/* The median time of a copy out with a copy in at the same time, as in a step with many copies; 0:
 * a copy failed. */
static int64_t time_copies(cairn_exec *exec, char *device, char *host, uint64_t bytes) {
    const crn_backend *backend = exec->backend;
    int64_t times[LINK_COPIES];
    for (uint32_t i = 0; i < LINK_COPIES; i++) {
        int64_t before = crn_exec_clock();
        backend->copy(exec->queue, CRN_COPY_OUT, host, device, bytes);
        backend->copy(exec->queue, CRN_COPY_IN, device + LINK_BYTES, host + LINK_BYTES, bytes);
        if (backend->join(exec->queue, NULL, NULL) != CAIRN_OK)
            return 0;
        times[i] = crn_exec_clock() - before;
    }
    return crn_profile_spread(times, LINK_COPIES).time_ns;
}

void crn_profile_link(cairn_exec *exec, cairn_costs_origin *out) {
    const crn_backend *backend = exec->backend;
    crn_device *state = exec->device->state;
    void *device = NULL, *host = NULL;
    if (backend->reserve(state, CRN_SPACE_DEVICE, 2 * LINK_BYTES, &device, NULL) == CAIRN_OK &&
        backend->reserve(state, CRN_SPACE_HOST, 2 * LINK_BYTES, &host, NULL) == CAIRN_OK) {
        backend->fill(exec->queue, device, 1, 2 * LINK_BYTES);
        (void)time_copies(exec, device, host, LINK_BYTES); /* so that all pages are mapped */
        int64_t whole = time_copies(exec, device, host, LINK_BYTES);
        out->link_latency_ns = time_copies(exec, device, host, CRN_ALIGNMENT);
        int64_t moving = CRN_MAX(whole - out->link_latency_ns, 1);
        out->link_bytes_per_second = crn_mul_div_up(LINK_BYTES, 1000000000u, (uint64_t)moving);
    }
    if (host != NULL)
        backend->release(state, CRN_SPACE_HOST, host, 2 * LINK_BYTES);
    if (device != NULL)
        backend->release(state, CRN_SPACE_DEVICE, device, 2 * LINK_BYTES);
}
