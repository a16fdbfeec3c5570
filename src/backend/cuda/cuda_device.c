/* cuda_device.c: opening a GPU, its memory, and the first failure of anything on it. */
#include "backend/cuda/cuda_device.h"
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/cuda_loader.h"
#include "base/host_memory.h"
#include "backend/crn_device.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Failures ---- */

static bool keep_failure(crn_device *device, cairn_status status, const char *library,
                         const char *what, const char *why) {
    if (device->failed == CAIRN_OK) {
        device->failed = status;
        snprintf(device->failure, sizeof device->failure, "%s fails in %s: %s", library, what,
                 why == NULL ? "no reason is given" : why);
    }
    return false;
}

bool crn_cuda_ok(crn_device *device, int result, const char *what) {
    const char *why = NULL;
    if (result == 0)
        return true;
    (void)device->api->cuGetErrorString(result, &why);
    return keep_failure(device, CAIRN_ESYSTEM, "the GPU", what, why);
}

bool crn_cuda_dnn_ok(crn_device *device, int result, const char *what) {
    return result == 0 || keep_failure(device, CAIRN_ESYSTEM, "cuDNN", what,
                                       device->api->cudnnGetErrorString(result));
}

bool crn_cuda_blas_ok(crn_device *device, int result, const char *what) {
    char why[32];
    snprintf(why, sizeof why, "status %d", result);
    return result == 0 || keep_failure(device, CAIRN_ESYSTEM, "cuBLASLt", what, why);
}

bool crn_cuda_keep(crn_device *device, const cairn_error *err) {
    if (device->failed == CAIRN_OK) {
        device->failed = err->status;
        crn_copy_string(device->failure, sizeof device->failure, err->message);
    }
    return false;
}

cairn_status crn_cuda_take_failure(crn_device *device, cairn_error *err) {
    cairn_status status = device->failed;
    device->failed = CAIRN_OK;
    return status == CAIRN_OK ? CAIRN_OK : crn_fail(err, status, "%s", device->failure);
}

/* ---- Memory ---- */

void crn_cuda_look(crn_device *device, crn_cuda_stage stage) {
    size_t left = 0, total = 0;
    if (device->api->cuMemGetInfo(&left, &total) == 0) {
        uint64_t used = total - left;
        device->outside[stage] = used > device->reserved ? used - device->reserved : 0;
    }
}

/* Memory that is used up, or a driver that fails for another reason. */
static cairn_status fail_reserve(crn_device *device, int result, bool pinned, uint64_t bytes,
                                 cairn_error *err) {
    const char *kind = pinned ? "pinned" : "device", *why = NULL;
    if (result == CRN_CUDA_OUT_OF_MEMORY) {
        size_t left = 0, total = 0;
        (void)device->api->cuMemGetInfo(&left, &total);
        return crn_fail(err, CAIRN_ESYSTEM,
                        "cannot reserve %" PRIu64 " bytes of %s memory; the %s has %" PRIu64
                        ", of which %" PRIu64 " are free",
                        bytes, kind, pinned ? "machine" : "GPU",
                        pinned ? crn_host_memory() : (uint64_t)total,
                        pinned ? crn_host_memory_free() : (uint64_t)left);
    }
    (void)device->api->cuGetErrorString(result, &why);
    return crn_fail(err, CAIRN_ESYSTEM, "cannot reserve %" PRIu64 " bytes of %s memory: %s", bytes,
                    kind, why == NULL ? "no reason is given" : why);
}

static cairn_status reserve_device(crn_device *device, uint64_t bytes, void **out,
                                   cairn_error *err) {
    CUdeviceptr at = 0;
    CUstream stream = device->streams[CRN_COMPUTE];
    int result = device->api->cuMemAlloc(&at, CRN_MAX(bytes, 1));
    if (result != 0)
        return fail_reserve(device, result, false, bytes, err);
    (void)crn_cuda_ok(device,
                      device->api->cuMemsetD8Async(at, 0, (size_t)CRN_MAX(bytes, 1), stream),
                      "clearing memory");
    (void)crn_cuda_ok(device, device->api->cuStreamSynchronize(stream), "clearing memory");
    device->reserved += bytes;
    *out = (void *)(uintptr_t)at;
    return CAIRN_OK;
}

cairn_status crn_cuda_reserve(crn_device *device, crn_space space, uint64_t bytes, void **out,
                              cairn_error *err) {
    *out = NULL;
    if (bytes > SIZE_MAX / 2)
        return crn_fail(err, CAIRN_ESYSTEM, "cannot reserve %" PRIu64 " bytes", bytes);
    if (space == CRN_SPACE_DEVICE)
        return reserve_device(device, bytes, out, err);
    int result =
        device->api->cuMemHostAlloc(out, (size_t)CRN_MAX(bytes, 1), CRN_CUDA_HOST_PORTABLE);
    if (result != 0) {
        *out = NULL;
        return fail_reserve(device, result, true, bytes, err);
    }
    memset(*out, 0, (size_t)CRN_MAX(bytes, 1));
    return CAIRN_OK;
}

void crn_cuda_release(crn_device *device, crn_space space, void *memory, uint64_t bytes) {
    if (memory == NULL)
        return;
    if (space == CRN_SPACE_HOST) {
        (void)crn_cuda_ok(device, device->api->cuMemFreeHost(memory), "freeing pinned memory");
        return;
    }
    (void)crn_cuda_ok(device, device->api->cuMemFree((CUdeviceptr)(uintptr_t)memory),
                      "freeing device memory");
    device->reserved -= bytes;
}

/* ---- Opening ---- */

static cairn_status fail_open(crn_device *device, int result, const char *what, cairn_error *err) {
    const char *why = NULL;
    (void)device->api->cuGetErrorString(result, &why);
    return crn_fail(err, CAIRN_ESYSTEM, "the GPU cannot be used: %s fails: %s", what,
                    why == NULL ? "no reason is given" : why);
}

static cairn_status open_context(crn_device *device, uint32_t index, cairn_error *err) {
    const crn_cuda_api *api = device->api;
    int count = 0, result = api->cuInit(0);
    if (result == 0)
        result = api->cuDeviceGetCount(&count);
    if (result == CRN_CUDA_NO_DEVICE || (result == 0 && count == 0))
        return crn_fail(err, CAIRN_ESYSTEM, "there is no NVIDIA GPU on this machine");
    if (result != 0)
        return fail_open(device, result, "starting the driver", err);
    if (index >= (uint32_t)count)
        return crn_fail(err, CAIRN_EUNKNOWN, "there is no GPU %" PRIu32 "; there are %d", index,
                        count);
    if ((result = api->cuDeviceGet(&device->ordinal, (int)index)) != 0 ||
        (result = api->cuDevicePrimaryCtxRetain(&device->context, device->ordinal)) != 0)
        return fail_open(device, result, "opening the device", err);
    return CAIRN_OK;
}

static cairn_status open_libraries(crn_device *device, cairn_error *err) {
    const crn_cuda_api *api = device->api;
    if (api->cudnnCreate == NULL)
        return CAIRN_OK;
    int result = api->cublasLtCreate(&device->blas);
    if (result != 0)
        return crn_fail(err, CAIRN_ESYSTEM, "cuBLASLt cannot be used: status %d", result);
    device->dnn.api = api;
    result = api->cudnnCreate(&device->dnn.handle);
    if (result == 0)
        result = api->cudnnSetStream(device->dnn.handle, device->streams[CRN_COMPUTE]);
    if (result != 0)
        return crn_fail(err, CAIRN_ESYSTEM, "cuDNN cannot be used: %s",
                        api->cudnnGetErrorString(result));
    crn_cuda_look(device, CRN_STAGE_LIBRARIES);
    return CAIRN_OK;
}

static cairn_status open_kernels(crn_device *device, cairn_error *err) {
    const crn_cuda_api *api = device->api;
    if (crn_cuda_fatbin == NULL && api == &device->loaded)
        return crn_fail(err, CAIRN_ESYSTEM, "this build of Cairn has no kernels for GPUs: %s",
                        crn_cuda_fatbin_missing);
    int result =
        api->cuLibraryLoadData(&device->library, crn_cuda_fatbin, NULL, NULL, 0, NULL, NULL, 0);
    if (result == CRN_CUDA_NO_BINARY)
        return crn_fail(err, CAIRN_ESYSTEM,
                        "the kernels were not built for this GPU; it must be of compute capability "
                        "8.0 or newer");
    for (uint32_t i = 0; i < CRN_KERNELS && result == 0; i++) {
        uint32_t bytes = crn_kernel_shared_bytes((crn_kernel_id)i);
        result =
            api->cuLibraryGetKernel(&device->kernels[i], device->library, crn_kernel_list[i].name);
        if (result == 0 && bytes > 0)
            result = api->cuKernelSetAttribute(CRN_CUDA_MOST_SHARED_BYTES, (int)bytes,
                                               device->kernels[i], device->ordinal);
    }
    if (result == 0)
        result = crn_hopper_open(device);
    if (result != 0)
        return fail_open(device, result, "loading the kernels", err);
    uint64_t bytes = (uint64_t)CRN_TICKET_BLOCKS * CRN_TICKETS * sizeof *device->tickets;
    void *tickets;
    CRN_TRY(crn_cuda_reserve(device, CRN_SPACE_DEVICE, bytes, &tickets, err));
    device->tickets = tickets;
    device->reserved -= bytes; /* of this backend, but not reserved for a plan */
    crn_cuda_look(device, CRN_STAGE_KERNELS);
    return CAIRN_OK;
}

static cairn_status open_streams(crn_device *device, cairn_error *err) {
    const crn_cuda_api *api = device->api;
    int result;
    for (int lane = 0; lane < CRN_LANES; lane++)
        if ((result = api->cuStreamCreate(&device->streams[lane], CRN_CUDA_STREAM_NON_BLOCKING)) !=
            0)
            return fail_open(device, result, "creating a stream", err);
    crn_cuda_look(device, CRN_STAGE_CONTEXT);
    return CAIRN_OK;
}

/* All that needs the context as the current one. */
static cairn_status open_within(crn_device *device, cairn_error *err) {
    CUcontext before = NULL;
    int result = device->api->cuCtxGetCurrent(&before);
    if (result != 0 || (result = device->api->cuCtxSetCurrent(device->context)) != 0)
        return fail_open(device, result, "choosing the device", err);
    cairn_status status = open_streams(device, err);
    if (status == CAIRN_OK)
        status = open_libraries(device, err);
    if (status == CAIRN_OK)
        status = open_kernels(device, err);
    crn_cuda_leave(device, before);
    return status;
}

cairn_status crn_cuda_open_on(const crn_cuda_api *api, const crn_device_options *options,
                              crn_device **out, cairn_error *err) {
    *out = NULL;
    cairn_allocator allocator = crn_allocator_or_default(&options->allocator);
    crn_device *device = crn_resize(&allocator, NULL, 0, sizeof *device);
    if (device == NULL)
        return crn_fail_memory(err);
    *device = (crn_device){.allocator = allocator,
                           .api = api,
                           .exact = options->math == CAIRN_MATH_FP32,
                           .half = options->math == CAIRN_MATH_BF16};
    cairn_status status = CAIRN_OK;
    if (api == NULL) {
        device->api = &device->loaded;
        status = crn_cuda_load(&device->loaded, err);
    }
    if (status == CAIRN_OK)
        status = open_context(device, options->index, err);
    if (status == CAIRN_OK)
        status = open_within(device, err);
    if (status != CAIRN_OK) {
        crn_cuda_within_close(device);
        return status;
    }
    *out = device;
    return CAIRN_OK;
}

void crn_cuda_close(crn_device *device) {
    if (device == NULL)
        return;
    const crn_cuda_api *api = device->api;
    if (device->tickets != NULL)
        (void)api->cuMemFree((CUdeviceptr)(uintptr_t)device->tickets);
    if (device->hopper.library != NULL)
        (void)api->cuLibraryUnload(device->hopper.library);
    if (device->library != NULL)
        (void)api->cuLibraryUnload(device->library);
    if (device->dnn.handle != NULL)
        (void)api->cudnnDestroy(device->dnn.handle);
    if (device->blas != NULL)
        (void)api->cublasLtDestroy(device->blas);
    for (int lane = 0; lane < CRN_LANES; lane++)
        if (device->streams[lane] != NULL)
            (void)api->cuStreamDestroy(device->streams[lane]);
    if (device->context != NULL)
        (void)api->cuDevicePrimaryCtxRelease(device->ordinal);
    cairn_allocator allocator = device->allocator;
    crn_resize(&allocator, device, sizeof *device, 0);
}

/* ---- Facts ---- */

static uint64_t attribute(crn_device *device, int name) {
    int value = 0;
    return device->api->cuDeviceGetAttribute(&value, name, device->ordinal) == 0 && value > 0
               ? (uint64_t)value
               : 0;
}

/* The rate of products in TF32 on one multiprocessor, as measured in whole steps; in bf16 it is
 * twice that. */
static uint64_t flops_of_one(uint64_t major, bool half) {
    return (major >= 9 ? 1900000000000u : 900000000000u) * (half ? 2 : 1);
}

/* A figure of the GPU's PCI device as Linux has it: max_link_speed, "32.0 GT/s PCIe", or
 * max_link_width, "16"; 0: Linux does not say. */
static unsigned pci_figure(crn_device *device, const char *name) {
    char path[96];
    unsigned figure = 0;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%04x:%02x:%02x.0/%s",
             (unsigned)attribute(device, CRN_CUDA_PCI_DOMAIN),
             (unsigned)attribute(device, CRN_CUDA_PCI_BUS),
             (unsigned)attribute(device, CRN_CUDA_PCI_DEVICE), name);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%u", &figure) != 1)
        figure = 0;
    fclose(file);
    return figure < 256 ? figure : 0;
}

/* The rate of copies before anything was measured: four fifths of what the link can carry, which
 * has lanes of one bit a transfer. Where Linux does not say, the link that GPUs of this generation
 * have. */
static uint64_t link_rate(crn_device *device, uint64_t major) {
    unsigned gigatransfers = pci_figure(device, "max_link_speed");
    unsigned lanes = pci_figure(device, "max_link_width");
    if (gigatransfers == 0 || lanes == 0) {
        gigatransfers = major >= 9 ? 32 : major == 8 ? 16 : 8;
        lanes = 16;
    }
    return (uint64_t)gigatransfers * lanes * 1000000000u / 8 / 5 * 4;
}

void crn_cuda_describe(crn_device *device, cairn_device_facts *out, cairn_machine *m) {
    size_t left = 0, total = 0;
    (void)device->api->cuDeviceGetName(out->name, (int)sizeof out->name, device->ordinal);
    (void)device->api->cuMemGetInfo(&left, &total);
    out->memory_bytes = total;
    out->alignment = 256;
    out->compute_units = (uint32_t)attribute(device, CRN_CUDA_MULTIPROCESSORS);
    out->separate_memory = true;
    cairn_math math = device->half    ? CAIRN_MATH_BF16
                      : device->exact ? CAIRN_MATH_FP32
                                      : CAIRN_MATH_TF32;
    crn_copy_string(out->math, sizeof out->math, crn_math_name(math));
    /* kHz, both clock edges, bits; four fifths of it are reached */
    uint64_t bandwidth =
        attribute(device, CRN_CUDA_MEMORY_KHZ) * 2000 * attribute(device, CRN_CUDA_BUS_BITS) / 8;
    crn_copy_string(m->name, sizeof m->name, "cuda");
    crn_copy_string(m->summary, sizeof m->summary, out->name);
    m->flops_per_second = CRN_MAX(
        out->compute_units * flops_of_one(attribute(device, CRN_CUDA_MAJOR), device->half), 1);
    m->memory_bytes_per_second = CRN_MAX(bandwidth / 5 * 4, 1);
    m->launch_ns = 2000;
    m->link_bytes_per_second = link_rate(device, attribute(device, CRN_CUDA_MAJOR));
    m->link_latency_ns = 10000;
    m->full_duplex = true;
    m->memory_bytes = total;
    m->host_memory_bytes = crn_host_memory();
}

const char *crn_cuda_outside(crn_device *device, uint32_t index, uint64_t *bytes) {
    static const char *const names[CRN_STAGES] = {"context", "libraries", "kernels", "plans",
                                                  "graphs"};
    if (index >= CRN_STAGES)
        return NULL;
    *bytes = device->outside[index];
    return names[index];
}
