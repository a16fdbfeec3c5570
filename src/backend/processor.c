/* processor.c: see processor.h. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "backend/processor.h"
#include "backend/copy_lane.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#define LANES 2

struct crn_device {
    cairn_allocator allocator;
    crn_pool *threads;
    crn_copy_lane lanes[LANES];
};

/* ---- open and close ---- */

cairn_status crn_processor_open(const crn_device_options *options, crn_device **out,
                                cairn_error *err) {
    *out = NULL;
    cairn_allocator allocator = crn_allocator_or_default(&options->allocator);
    crn_device *device = crn_resize(&allocator, NULL, 0, sizeof *device);
    if (device == NULL)
        return crn_fail_memory(err);
    device->allocator = allocator;
    cairn_status status =
        crn_pool_create_on(&allocator, options->threads, options->team, &device->threads, err);
    if (status != CAIRN_OK)
        goto fail_pool;
    uint64_t bandwidth = options->link_bytes_per_second;
    status = crn_copy_lane_open(&device->lanes[CRN_LANE_OUT], bandwidth, err);
    if (status != CAIRN_OK)
        goto fail_out;
    status = crn_copy_lane_open(&device->lanes[CRN_LANE_IN], bandwidth, err);
    if (status != CAIRN_OK)
        goto fail_in;
    *out = device;
    return CAIRN_OK;

fail_in:
    crn_copy_lane_close(&device->lanes[CRN_LANE_OUT]);
fail_out:
    crn_pool_destroy(device->threads);
fail_pool:
    crn_resize(&allocator, device, sizeof *device, 0);
    return status;
}

void crn_processor_close(crn_device *device) {
    if (device == NULL)
        return;
    for (int i = LANES; i-- > 0;)
        crn_copy_lane_close(&device->lanes[i]);
    crn_pool_destroy(device->threads);
    cairn_allocator allocator = device->allocator;
    crn_resize(&allocator, device, sizeof *device, 0);
}

crn_pool *crn_processor_threads(crn_device *device) {
    return device->threads;
}

/* ---- memory ---- */

/* Bytes of memory the machine has; 0: not known. */
static uint64_t machine_memory(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

cairn_status crn_processor_reserve(crn_device *device, crn_pool_kind pool, uint64_t bytes,
                                   void **out, cairn_error *err) {
    (void)device;
    *out = NULL;
    void *region = MAP_FAILED;
    if (bytes <= SIZE_MAX / 2) /* an empty region is one byte, so that it has an address */
        region = mmap(NULL, CRN_MAX(bytes, 1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);
    if (region == MAP_FAILED)
        return crn_fail(err, CAIRN_ESYSTEM,
                        "cannot reserve %" PRIu64 " bytes of %s memory; the machine has %" PRIu64,
                        bytes, pool == CRN_DEVICE ? "device" : "host", machine_memory());
    *out = region;
    return CAIRN_OK;
}

void crn_processor_release(crn_device *device, crn_pool_kind pool, void *region, uint64_t bytes) {
    (void)device;
    (void)pool;
    if (region != NULL)
        munmap(region, CRN_MAX(bytes, 1));
}

/* ---- copies: an event is a copy's number on its lane, and the lane ---- */

crn_event crn_processor_copy(crn_device *device, crn_lane lane, void *to, const void *from,
                             uint64_t bytes) {
    return crn_copy_lane_copy(&device->lanes[lane], to, from, bytes) * LANES + lane;
}

void crn_processor_wait(crn_device *device, crn_event event) {
    crn_copy_lane_wait(&device->lanes[event % LANES], event / LANES);
}
