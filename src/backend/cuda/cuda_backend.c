/* cuda_backend.c: the backend `cuda`: NVIDIA GPUs, with cuDNN, cuBLASLt and Cairn's own kernels. */
#include "backend/cuda/cuda_device.h"
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/cuda_loader.h"

#include <pthread.h>

extern const crn_backend crn_backend_cuda;

static uint32_t devices;

/* The number of devices. It is 0 without kernels, a driver or the libraries; opening a device says
 * what is missing. */
static void count_once(void) {
    crn_cuda_api api;
    int count = 0;
    if (crn_cuda_fatbin != NULL && crn_cuda_load(&api, NULL) == CAIRN_OK && api.cuInit(0) == 0 &&
        api.cuDeviceGetCount(&count) == 0 && count > 0)
        devices = (uint32_t)count;
}

static uint32_t count_devices(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, count_once);
    return devices;
}

static cairn_status open_cuda(const crn_device_options *options, crn_device **out,
                              cairn_error *err) {
    return crn_cuda_open_on(NULL, options, out, err);
}

const crn_backend crn_backend_cuda = {
    .name = "cuda",
    .summary = "NVIDIA GPUs: cuDNN, cuBLASLt and own kernels, a step as one graph",
    .devices = count_devices,
    .open = open_cuda,
    CRN_CUDA_FUNCTIONS,
};
