/* cuda_abi.h: what Cairn uses of NVIDIA's libraries: types, constants and functions. So
 * CUDA need not be installed to build. The libraries are opened together with a device
 * (cuda_loader.c).
 *
 *     DRIVER(name, arguments)    of libcuda.so.1, by the name and version of its CUDA 12.4
 *     CUDNN(name, arguments)     of libcudnn.so.9, the backend (graph) interface
 *     BLAS(name, arguments)      of libcublasLt.so.13
 *
 * All return 0 for success, except those that are declared one by one in crn_cuda_api. The tests
 * fill the same table with functions of a driver that runs on the processor (fake_driver.c). */
#ifndef CUDA_ABI_H
#define CUDA_ABI_H

#include "backend/cuda/tensor_map.h"

#include <stddef.h>
#include <stdint.h>

#define CRN_CUDA_VERSION 12040 /* the driver's functions have the signatures of 12.4 */
#define CRN_CUDNN_OLDEST 91000 /* 9.10 */

/* ---- Constants: cuda_constants.def ---- */

enum {
#define DRIVER(ours, value, theirs) ours = (value),
#define CUDNN(ours, value, theirs) ours = (value),
#define BLAS(ours, value, theirs) ours = (value),
#include "backend/cuda/cuda_constants.def"
};

/* ---- The driver ---- */

typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;

/* clang-format off */
#define CRN_CUDA_DRIVER(DRIVER)                                                                    \
    DRIVER(cuInit, (unsigned flags))                                                               \
    DRIVER(cuDriverGetVersion, (int *version))                                                     \
    DRIVER(cuGetErrorString, (int error, const char **text))                                       \
    DRIVER(cuDeviceGetCount, (int *count))                                                         \
    DRIVER(cuDeviceGet, (CUdevice *device, int ordinal))                                           \
    DRIVER(cuDeviceGetName, (char *name, int length, CUdevice device))                             \
    DRIVER(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))                     \
    DRIVER(cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device))                        \
    DRIVER(cuDevicePrimaryCtxRelease, (CUdevice device))                                           \
    DRIVER(cuCtxGetCurrent, (CUcontext *context))                                                  \
    DRIVER(cuCtxSetCurrent, (CUcontext context))                                                   \
    DRIVER(cuMemGetInfo, (size_t *free, size_t *total))                                            \
    DRIVER(cuMemAlloc, (CUdeviceptr *at, size_t bytes))                                            \
    DRIVER(cuMemFree, (CUdeviceptr at))                                                            \
    DRIVER(cuMemHostAlloc, (void **at, size_t bytes, unsigned flags))                              \
    DRIVER(cuMemFreeHost, (void *at))                                                              \
    DRIVER(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))       \
    DRIVER(cuMemsetD8Async, (CUdeviceptr at, unsigned char value, size_t count, CUstream stream))  \
    DRIVER(cuStreamCreate, (CUstream *stream, unsigned flags))                                     \
    DRIVER(cuStreamDestroy, (CUstream stream))                                                     \
    DRIVER(cuStreamSynchronize, (CUstream stream))                                                 \
    DRIVER(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                    \
    DRIVER(cuEventCreate, (CUevent *event, unsigned flags))                                        \
    DRIVER(cuEventDestroy, (CUevent event))                                                        \
    DRIVER(cuEventRecord, (CUevent event, CUstream stream))                                        \
    DRIVER(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags))               \
    DRIVER(cuEventElapsedTime, (float *milliseconds, CUevent begin, CUevent end))                  \
    DRIVER(cuLibraryLoadData, (CUlibrary *library, const void *code, void *jit_options,            \
                               void **jit_values, unsigned jit_count, void *options,               \
                               void **values, unsigned count))                                     \
    DRIVER(cuLibraryUnload, (CUlibrary library))                                                   \
    DRIVER(cuLibraryGetKernel, (CUkernel *kernel, CUlibrary library, const char *name))            \
    DRIVER(cuLaunchKernel, (CUkernel kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,    \
                            unsigned block_x, unsigned block_y, unsigned block_z,                  \
                            unsigned shared_bytes, CUstream stream, void **parameters,             \
                            void **extra))                                                         \
    DRIVER(cuKernelSetAttribute, (int attribute, int value, CUkernel kernel, CUdevice device))     \
    DRIVER(cuTensorMapEncodeTiled, (crn_tensor_map *map, int type, uint32_t rank, void *at,        \
                                    const uint64_t *sizes, const uint64_t *strides,                \
                                    const uint32_t *box, const uint32_t *steps, int interleave,    \
                                    int swizzle, int promotion, int outside))                      \
    DRIVER(cuStreamBeginCaptureToGraph, (CUstream stream, CUgraph graph, const CUgraphNode *after, \
                                         const void *edge_data, size_t count, int mode))           \
    DRIVER(cuStreamGetCaptureInfo, (CUstream stream, int *status, uint64_t *id, CUgraph *graph,    \
                                    const CUgraphNode **last, const void **edge_data,              \
                                    size_t *count))                                                \
    DRIVER(cuStreamEndCapture, (CUstream stream, CUgraph *graph))                                  \
    DRIVER(cuGraphCreate, (CUgraph *graph, unsigned flags))                                        \
    DRIVER(cuGraphDestroy, (CUgraph graph))                                                        \
    DRIVER(cuGraphGetNodes, (CUgraph graph, CUgraphNode *nodes, size_t *count))                    \
    DRIVER(cuGraphInstantiateWithFlags, (CUgraphExec *exec, CUgraph graph,                         \
                                         unsigned long long flags))                                \
    DRIVER(cuGraphUpload, (CUgraphExec exec, CUstream stream))                                     \
    DRIVER(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                     \
    DRIVER(cuGraphExecDestroy, (CUgraphExec exec))
/* clang-format on */

/* ---- cuDNN ---- */

typedef struct cudnnContext *cudnnHandle_t;
typedef void *cudnnBackendDescriptor_t;

/* clang-format off */
#define CRN_CUDA_CUDNN(CUDNN)                                                                      \
    CUDNN(cudnnCreate, (cudnnHandle_t *handle))                                                    \
    CUDNN(cudnnDestroy, (cudnnHandle_t handle))                                                    \
    CUDNN(cudnnSetStream, (cudnnHandle_t handle, CUstream stream))                                 \
    CUDNN(cudnnBackendCreateDescriptor, (int kind, cudnnBackendDescriptor_t *out))                 \
    CUDNN(cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t descriptor))                    \
    CUDNN(cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor))                             \
    CUDNN(cudnnBackendSetAttribute, (cudnnBackendDescriptor_t descriptor, int name, int type,      \
                                     int64_t count, const void *values))                           \
    CUDNN(cudnnBackendGetAttribute, (cudnnBackendDescriptor_t descriptor, int name, int type,      \
                                     int64_t most, int64_t *count, void *values))                  \
    CUDNN(cudnnBackendExecute, (cudnnHandle_t handle, cudnnBackendDescriptor_t plan,               \
                                cudnnBackendDescriptor_t pack))
/* clang-format on */

/* ---- cuBLASLt ---- */

typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct crn_blas_opaque *crn_blas_object; /* a layout, a product, a preference */
typedef struct crn_blas_algorithm {
    uint64_t data[8];
} crn_blas_algorithm;

typedef struct crn_blas_heuristic {
    crn_blas_algorithm algorithm;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
} crn_blas_heuristic;

/* clang-format off */
#define CRN_CUDA_BLAS(BLAS)                                                                        \
    BLAS(cublasLtCreate, (cublasLtHandle_t *handle))                                               \
    BLAS(cublasLtDestroy, (cublasLtHandle_t handle))                                               \
    BLAS(cublasLtMatrixLayoutCreate, (crn_blas_object *out, int type, uint64_t rows,               \
                                      uint64_t columns, int64_t stride))                           \
    BLAS(cublasLtMatrixLayoutSetAttribute, (crn_blas_object layout, int name, const void *value,   \
                                            size_t bytes))                                         \
    BLAS(cublasLtMatrixLayoutDestroy, (crn_blas_object layout))                                    \
    BLAS(cublasLtMatmulDescCreate, (crn_blas_object *out, int compute, int scale))                 \
    BLAS(cublasLtMatmulDescDestroy, (crn_blas_object product))                                     \
    BLAS(cublasLtMatmulDescSetAttribute, (crn_blas_object product, int name, const void *value,    \
                                          size_t bytes))                                           \
    BLAS(cublasLtMatmulPreferenceCreate, (crn_blas_object *out))                                   \
    BLAS(cublasLtMatmulPreferenceDestroy, (crn_blas_object preference))                            \
    BLAS(cublasLtMatmulPreferenceSetAttribute, (crn_blas_object preference, int name,              \
                                                const void *value, size_t bytes))                  \
    BLAS(cublasLtMatmulAlgoGetHeuristic, (cublasLtHandle_t handle, crn_blas_object product,        \
                                          crn_blas_object a, crn_blas_object b, crn_blas_object c, \
                                          crn_blas_object d, crn_blas_object preference, int most, \
                                          crn_blas_heuristic *out, int *count))                    \
    BLAS(cublasLtMatmul, (cublasLtHandle_t handle, crn_blas_object product, const void *alpha,     \
                          const void *a_at, crn_blas_object a, const void *b_at,                   \
                          crn_blas_object b, const void *beta, const void *c_at,                   \
                          crn_blas_object c, void *d_at, crn_blas_object d,                        \
                          const crn_blas_algorithm *algorithm, void *workspace,                    \
                          size_t workspace_bytes, CUstream stream))
/* clang-format on */

/* ---- The table ---- */

typedef struct crn_cuda_api {
    void *libraries[3]; /* libcuda, libcublasLt, libcudnn as dlopen() gave them; NULL: not open */
#define ENTRY(name, arguments) int(*name) arguments;
    CRN_CUDA_DRIVER(ENTRY)
    CRN_CUDA_CUDNN(ENTRY)
    CRN_CUDA_BLAS(ENTRY)
#undef ENTRY
    size_t (*cudnnGetVersion)(void);
    const char *(*cudnnGetErrorString)(int error);
    void (*cudnnGetLastErrorString)(char *out, size_t size);
    size_t (*cublasLtGetVersion)(void);
} crn_cuda_api;

#endif
