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

enum {
    CRN_CUDA_INVALID_VALUE = 1, /* results */
    CRN_CUDA_OUT_OF_MEMORY = 2,
    CRN_CUDA_NO_DEVICE = 100,
    CRN_CUDA_NO_BINARY = 209,
    CRN_CUDA_MULTIPROCESSORS = 16, /* attributes of a device */
    CRN_CUDA_PCI_BUS = 33,
    CRN_CUDA_PCI_DEVICE = 34,
    CRN_CUDA_MEMORY_KHZ = 36,
    CRN_CUDA_BUS_BITS = 37,
    CRN_CUDA_PCI_DOMAIN = 50,
    CRN_CUDA_MAJOR = 75,
    CRN_CUDA_MINOR = 76,
    CRN_CUDA_STREAM_NON_BLOCKING = 1,
    CRN_CUDA_EVENT_UNTIMED = 2,
    CRN_CUDA_EVENT_EXTERNAL = 1, /* for an event in a graph */
    CRN_CUDA_HOST_PORTABLE = 1,
    CRN_CUDA_CAPTURE_RELAXED = 2,
    CRN_CUDA_MOST_SHARED_BYTES = 8, /* an attribute of a kernel */
    CRN_CUDA_MAP_BF16 = 9,          /* of a tensor map: elements, */
    CRN_CUDA_MAP_PLAIN = 0,         /* order of channels, */
    CRN_CUDA_MAP_SWIZZLE_128 = 3,   /* place in shared memory, */
    CRN_CUDA_MAP_CACHE_128 = 2,     /* bytes that are fetched together, */
    CRN_CUDA_MAP_ZEROS = 0          /* and what is outside */
};

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

enum { /* kinds of descriptors */
       CRN_DNN_POINTWISE = 0,
       CRN_DNN_CONVOLUTION = 1,
       CRN_DNN_ENGINE = 2,
       CRN_DNN_CONFIG = 3,
       CRN_DNN_HEURISTIC = 4,
       CRN_DNN_PLAN = 5,
       CRN_DNN_FORWARD = 10,
       CRN_DNN_BACKWARD_FILTER = 11,
       CRN_DNN_BACKWARD_DATA = 12,
       CRN_DNN_POINTWISE_OP = 13,
       CRN_DNN_GRAPH = 15,
       CRN_DNN_PACK = 16,
       CRN_DNN_TENSOR = 17,
       CRN_DNN_PRODUCT = 18,
       CRN_DNN_PRODUCT_OP = 19,
       CRN_DNN_REDUCTION = 21,
       CRN_DNN_REDUCTION_OP = 22,
       CRN_DNN_RESHAPE_OP = 31,
       CRN_DNN_DEVICE = 38
};

enum { /* types of attributes */
       CRN_DNN_HANDLE_TYPE = 0,
       CRN_DNN_DATA_TYPE = 1,
       CRN_DNN_BOOLEAN = 2,
       CRN_DNN_INT64 = 3,
       CRN_DNN_FLOAT = 4,
       CRN_DNN_POINTER = 6,
       CRN_DNN_MODE_TYPE = 7,
       CRN_DNN_HEURISTIC_TYPE = 8,
       CRN_DNN_NOTE_TYPE = 11,
       CRN_DNN_POINTWISE_TYPE = 14,
       CRN_DNN_DESCRIPTOR = 15,
       CRN_DNN_REDUCTION_TYPE = 18,
       CRN_DNN_CHAR = 24
};

enum { /* names of attributes */
       CRN_DNN_POINTWISE_MODE = 0,
       CRN_DNN_POINTWISE_COMPUTE = 1,
       CRN_DNN_POINTWISE_AXIS = 9,
       CRN_DNN_CONV_COMPUTE = 100,
       CRN_DNN_CONV_MODE = 101,
       CRN_DNN_CONV_DILATIONS = 102,
       CRN_DNN_CONV_STRIDES = 103,
       CRN_DNN_CONV_POST_PADDINGS = 104,
       CRN_DNN_CONV_PRE_PADDINGS = 105,
       CRN_DNN_CONV_DIMENSIONS = 106,
       CRN_DNN_HEUR_MODE = 200,
       CRN_DNN_HEUR_GRAPH = 201,
       CRN_DNN_HEUR_RESULTS = 202,
       CRN_DNN_HEUR_DEVICE = 204,
       CRN_DNN_CONFIG_ENGINE = 300,
       CRN_DNN_PLAN_HANDLE = 400,
       CRN_DNN_PLAN_CONFIG = 401,
       CRN_DNN_PLAN_WORKSPACE = 402,
       CRN_DNN_PLAN_DEVICE = 407,
       CRN_DNN_FORWARD_ALPHA = 700, /* of the three operations, each with six names */
       CRN_DNN_FORWARD_BETA = 701,
       CRN_DNN_FORWARD_CONVOLUTION = 702,
       CRN_DNN_FORWARD_W = 703,
       CRN_DNN_FORWARD_X = 704,
       CRN_DNN_FORWARD_Y = 705,
       CRN_DNN_BACKWARD_DATA_ALPHA = 706,
       CRN_DNN_BACKWARD_DATA_BETA = 707,
       CRN_DNN_BACKWARD_DATA_CONVOLUTION = 708,
       CRN_DNN_BACKWARD_DATA_W = 709,
       CRN_DNN_BACKWARD_DATA_GX = 710,
       CRN_DNN_BACKWARD_DATA_GY = 711,
       CRN_DNN_BACKWARD_FILTER_ALPHA = 712,
       CRN_DNN_BACKWARD_FILTER_BETA = 713,
       CRN_DNN_BACKWARD_FILTER_CONVOLUTION = 714,
       CRN_DNN_BACKWARD_FILTER_GW = 715,
       CRN_DNN_BACKWARD_FILTER_X = 716,
       CRN_DNN_BACKWARD_FILTER_GY = 717,
       CRN_DNN_POINTWISE_OP_SORT = 750,
       CRN_DNN_POINTWISE_OP_X = 751,
       CRN_DNN_POINTWISE_OP_B = 752,
       CRN_DNN_POINTWISE_OP_Y = 753,
       CRN_DNN_POINTWISE_OP_T = 758,
       CRN_DNN_GRAPH_HANDLE = 800,
       CRN_DNN_GRAPH_OPS = 801,
       CRN_DNN_TENSOR_ALIGNMENT = 900,
       CRN_DNN_TENSOR_TYPE = 901,
       CRN_DNN_TENSOR_DIMENSIONS = 902,
       CRN_DNN_TENSOR_STRIDES = 903,
       CRN_DNN_TENSOR_ID = 906,
       CRN_DNN_TENSOR_VIRTUAL = 907,
       CRN_DNN_TENSOR_BY_VALUE = 908,
       CRN_DNN_PACK_IDS = 1000,
       CRN_DNN_PACK_POINTERS = 1001,
       CRN_DNN_PACK_WORKSPACE = 1003,
       CRN_DNN_ENGINE_INDEX = 1301,
       CRN_DNN_ENGINE_NOTES = 1303,
       CRN_DNN_PRODUCT_COMPUTE = 1500,
       CRN_DNN_PRODUCT_OP_A = 1520,
       CRN_DNN_PRODUCT_OP_B = 1521,
       CRN_DNN_PRODUCT_OP_C = 1522,
       CRN_DNN_PRODUCT_OP_SORT = 1523,
       CRN_DNN_REDUCTION_MODE = 1600,
       CRN_DNN_REDUCTION_COMPUTE = 1601,
       CRN_DNN_REDUCTION_OP_X = 1610,
       CRN_DNN_REDUCTION_OP_Y = 1611,
       CRN_DNN_REDUCTION_OP_SORT = 1612,
       CRN_DNN_RESHAPE_OP_X = 2200,
       CRN_DNN_RESHAPE_OP_Y = 2201,
       CRN_DNN_DEVICE_JSON = 2702
};

enum { /* values */
       CRN_DNN_DATA_FLOAT = 0,
       CRN_DNN_DATA_INT32 = 4,
       CRN_DNN_DATA_BF16 = 9,
       CRN_DNN_DATA_BOOLEAN = 11,
       CRN_DNN_DO_ADD = 0,
       CRN_DNN_DO_MULTIPLY = 1,
       CRN_DNN_DO_DIVIDE = 6,
       CRN_DNN_DO_SUBTRACT = 9,
       CRN_DNN_DO_EXP = 13,
       CRN_DNN_DO_LOG = 15,
       CRN_DNN_DO_NOT_LESS = 303,
       CRN_DNN_DO_INDEX = 501,
       CRN_DNN_DO_SELECT = 601,
       CRN_DNN_REDUCE_ADD = 0,
       CRN_DNN_REDUCE_MAX = 3,
       CRN_DNN_CROSS_CORRELATION = 1,
       CRN_DNN_HEURISTIC_A = 3,
       CRN_DNN_NOTE_TENSOR_CORE = 0,
       CRN_DNN_NOTE_DOWN_CONVERT = 1,
       CRN_DNN_NOTE_REDUCED_SUMS = 2,
       CRN_DNN_NOTE_FFT = 3,
       CRN_DNN_NOTE_NONDETERMINISTIC = 4,
       CRN_DNN_NOTE_WINOGRAD = 5, /* and versions with other tiles */
       CRN_DNN_NOTE_WINOGRAD_LAST = 8
};

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

enum {
    CRN_BLAS_FLOAT = 0, /* CUDA_R_32F */
    CRN_BLAS_BF16 = 14, /* CUDA_R_16BF */
    CRN_BLAS_COMPUTE_FP32 = 68,
    CRN_BLAS_COMPUTE_TF32 = 77,
    CRN_BLAS_BATCH_COUNT = 5, /* attributes of a layout */
    CRN_BLAS_BATCH_STRIDE = 6,
    CRN_BLAS_TRANSPOSE_A = 3, /* attributes of a product */
    CRN_BLAS_TRANSPOSE_B = 4,
    CRN_BLAS_EPILOGUE = 7,
    CRN_BLAS_BIAS = 8,
    CRN_BLAS_MOST_WORKSPACE = 1, /* of a preference */
    CRN_BLAS_REDUCTIONS = 3,
    CRN_BLAS_ALIGNMENT_A = 5, /* then of B, C and D */
    CRN_BLAS_TRANSPOSED = 1,
    CRN_BLAS_ADD_BIAS = 4 /* an epilogue */
};

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
