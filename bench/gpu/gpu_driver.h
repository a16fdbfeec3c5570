/* gpu_driver.h: the calls of NVIDIA's driver that the programs in this folder need. The library is
 * opened at run time, so that they can be built on machines without a GPU. Any error ends the
 * program. */
#ifndef GPU_DRIVER_H
#define GPU_DRIVER_H

#include "backend/cuda/kernels.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPU_CALLS(X)                                                                               \
    X(cuInit)                                                                                      \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetName)                                                                             \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuCtxSetCurrent)                                                                             \
    X(cuModuleLoad)                                                                                \
    X(cuModuleGetFunction)                                                                         \
    X(cuFuncSetAttribute)                                                                          \
    X(cuMemAlloc)                                                                                  \
    X(cuMemcpyHtoD)                                                                                \
    X(cuMemcpyDtoH)                                                                                \
    X(cuMemcpyDtoDAsync)                                                                           \
    X(cuMemsetD32)                                                                                 \
    X(cuStreamCreate)                                                                              \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamBeginCapture)                                                                        \
    X(cuStreamEndCapture)                                                                          \
    X(cuGraphInstantiate)                                                                          \
    X(cuGraphLaunch)                                                                               \
    X(cuGraphExecDestroy)                                                                          \
    X(cuGraphDestroy)                                                                              \
    X(cuEventCreate)                                                                               \
    X(cuEventRecord)                                                                               \
    X(cuEventSynchronize)                                                                          \
    X(cuEventElapsedTime)                                                                          \
    X(cuLaunchKernel)                                                                              \
    X(cuGetErrorString)

/* The driver's header renames many functions by macros; quoted after expansion, the name is that of
 * the library. */
#define GPU_QUOTE(name) #name
#define GPU_NAME(name) GPU_QUOTE(name)

static struct {
#define X(name) __typeof__(name) *call_##name;
    GPU_CALLS(X)
#undef X
    CUfunction functions[CRN_KERNELS];
    CUstream stream;
} gpu;

#define GPU(name, ...) gpu_check(gpu.call_##name(__VA_ARGS__), #name)

static inline void gpu_check(CUresult result, const char *what) {
    const char *why = "?";
    if (result == CUDA_SUCCESS)
        return;
    gpu.call_cuGetErrorString(result, &why);
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static inline void gpu_open(const char *kernels) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "there is no driver here: %s\n", dlerror());
        exit(77);
    }
#define X(name)                                                                                    \
    {                                                                                              \
        void *symbol = dlsym(library, GPU_NAME(name));                                             \
        if (symbol == NULL) {                                                                      \
            fprintf(stderr, "the driver has no %s\n", GPU_NAME(name));                             \
            exit(1);                                                                               \
        }                                                                                          \
        memcpy(&gpu.call_##name, &symbol, sizeof symbol);                                          \
    }
    GPU_CALLS(X)
#undef X
    CUdevice device;
    CUcontext context;
    CUmodule module;
    char name[100];
    GPU(cuInit, 0);
    GPU(cuDeviceGet, &device, 0);
    GPU(cuDeviceGetName, name, sizeof name, device);
    GPU(cuDevicePrimaryCtxRetain, &context, device);
    GPU(cuCtxSetCurrent, context);
    GPU(cuModuleLoad, &module, kernels);
    for (uint32_t i = 0; i < CRN_KERNELS; i++) {
        uint32_t bytes = crn_kernel_shared_bytes((crn_kernel_id)i);
        GPU(cuModuleGetFunction, &gpu.functions[i], module, crn_kernel_list[i].name);
        if (bytes > 0)
            GPU(cuFuncSetAttribute, gpu.functions[i],
                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes);
    }
    /* It waits for copies from memory that is not pinned, which end after the call that makes them:
     * those are on the default stream. */
    GPU(cuStreamCreate, &gpu.stream, CU_STREAM_DEFAULT);
    printf("%s\n", name);
}

/* Start a kernel; `args` has device addresses. */
static inline void gpu_start(const crn_launch *launch, void *args) {
    void *arguments[] = {args};
    if (launch->blocks[0] == 0 || launch->blocks[1] == 0)
        return;
    GPU(cuLaunchKernel, gpu.functions[launch->kernel], launch->blocks[0], launch->blocks[1], 1,
        launch->threads, 1, 1, launch->shared_bytes, gpu.stream, arguments, NULL);
}

#endif
