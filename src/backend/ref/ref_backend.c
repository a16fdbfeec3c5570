/* ref_backend.c: the reference: plain C on the processor, the truth that other backends are tested
 * against. Memory is mapped, the two copy lanes are threads (ref_lane.h), kernels come from
 * ref_kernels.def. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "backend/ref/ref_internal.h"
#include "backend/ref/ref_lane.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#define LANES 2

struct crn_device {
    cairn_allocator allocator;
    crn_pool *threads;
    crn_ref_lane lanes[LANES];
};

extern const crn_backend crn_backend_ref;

/* ---- open and close ---- */

static cairn_status ref_open(const crn_device_options *options, crn_device **out,
                             cairn_error *err) {
    *out = NULL;
    cairn_allocator allocator = crn_allocator_or_default(&options->allocator);
    crn_device *device = crn_resize(&allocator, NULL, 0, sizeof *device);
    if (device == NULL)
        return crn_fail_memory(err);
    device->allocator = allocator;
    cairn_status status = crn_pool_create(&allocator, options->threads, &device->threads, err);
    if (status != CAIRN_OK)
        goto fail_pool;
    uint64_t bandwidth = options->link_bytes_per_second;
    status = crn_ref_lane_open(&device->lanes[CRN_LANE_OUT], bandwidth, err);
    if (status != CAIRN_OK)
        goto fail_out;
    status = crn_ref_lane_open(&device->lanes[CRN_LANE_IN], bandwidth, err);
    if (status != CAIRN_OK)
        goto fail_in;
    *out = device;
    return CAIRN_OK;

fail_in:
    crn_ref_lane_close(&device->lanes[CRN_LANE_OUT]);
fail_out:
    crn_pool_destroy(device->threads);
fail_pool:
    crn_resize(&allocator, device, sizeof *device, 0);
    return status;
}

static void ref_close(crn_device *device) {
    if (device == NULL)
        return;
    for (int i = LANES; i-- > 0;)
        crn_ref_lane_close(&device->lanes[i]);
    crn_pool_destroy(device->threads);
    cairn_allocator allocator = device->allocator;
    crn_resize(&allocator, device, sizeof *device, 0);
}

static crn_pool *ref_threads(crn_device *device) {
    return device->threads;
}

/* ---- memory ---- */

/* Bytes of memory the machine has; 0: not known. */
static uint64_t machine_memory(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

static cairn_status ref_reserve(crn_device *device, crn_pool_kind pool, uint64_t bytes, void **out,
                                cairn_error *err) {
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

static void ref_release(crn_device *device, crn_pool_kind pool, void *region, uint64_t bytes) {
    (void)device;
    (void)pool;
    if (region != NULL)
        munmap(region, CRN_MAX(bytes, 1));
}

/* ---- copies: an event is a copy's number on its lane, and the lane ---- */

static crn_event ref_copy(crn_device *device, crn_lane lane, void *to, const void *from,
                          uint64_t bytes) {
    return crn_ref_lane_copy(&device->lanes[lane], to, from, bytes) * LANES + lane;
}

static void ref_wait(crn_device *device, crn_event event) {
    crn_ref_lane_wait(&device->lanes[event % LANES], event / LANES);
}

/* ---- kernels ---- */

static const crn_kernel kernels[] = {
#define X(kind, function, workspace) {"ref", NULL, workspace, crn_ref_##function},
#include "backend/ref/ref_kernels.def"
#undef X
};

static const cairn_op_kind kinds[] = {
#define X(kind, function, workspace) CAIRN_OP_##kind,
#include "backend/ref/ref_kernels.def"
#undef X
};

static const crn_kernel *ref_kernels(cairn_op_kind kind, uint32_t *count) {
    uint32_t first = 0, end;
    while (first < CRN_LENGTH(kinds) && kinds[first] != kind)
        first++;
    for (end = first; end < CRN_LENGTH(kinds) && kinds[end] == kind;)
        end++;
    *count = end - first;
    return *count > 0 ? &kernels[first] : NULL;
}

const crn_backend crn_backend_ref = {
    .name = "ref",
    .summary = "plain C, readable; the truth for tests",
    .open = ref_open,
    .close = ref_close,
    .threads = ref_threads,
    .reserve = ref_reserve,
    .release = ref_release,
    .copy = ref_copy,
    .wait = ref_wait,
    .kernels = ref_kernels,
};
