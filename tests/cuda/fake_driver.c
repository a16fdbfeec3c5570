/* fake_driver.c: see fake_driver.h. */
#include "fake_driver.h"

#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/kernels/processor_grid.h"
#include "fake_hopper.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FAILED 700

static fake_counts counts;
static uint64_t fail_at, launched;
static bool broken; /* an error occurred; all later calls fail */
static uint64_t random_state = 1;
static bool shuffled = true;

fake_counts fake_driver_counts(void) {
    return counts;
}

void fake_driver_fail_at(uint64_t k) {
    fail_at = k;
    launched = 0;
    broken = false;
}

static uint64_t most_device = (uint64_t)8 << 30, most_pinned = (uint64_t)8 << 30;

void fake_driver_most(uint64_t device_bytes, uint64_t pinned_bytes) {
    most_device = device_bytes;
    most_pinned = pinned_bytes;
}

static uint64_t calls_left; /* before the one that fails; 0: none does */
static bool calls_fail_on, call_failed;
static int failure = FAILED;

void fake_driver_fail_call(uint64_t k, bool and_all_later) {
    calls_left = k;
    calls_fail_on = and_all_later;
    call_failed = false;
}

void fake_driver_fail_as(int result) {
    failure = result == 0 ? FAILED : result;
}

bool fake_driver_call_failed(void) {
    return call_failed;
}

int fake_driver_answer(void) {
    if (broken)
        return FAILED;
    if (calls_left == 0)
        return call_failed && calls_fail_on ? failure : 0;
    call_failed = --calls_left == 0;
    return call_failed ? failure : 0;
}

void fake_driver_in_order(void) {
    shuffled = false;
}

void fake_driver_at_random(uint64_t seed) {
    shuffled = true;
    random_state = seed * 2 + 1;
}

static uint64_t draw(uint64_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % below;
}

/* ---- What nodes do ---- */

struct CUevent_st {
    struct timespec at;
};

typedef enum deed { KERNEL, FUNCTION, COPY, FILL, EVENT } deed;

struct CUgraphNode_st {
    deed deed;
    crn_launch launch;
    void (*function)(const void *args);
    void *args;
    void *to;
    const void *from;
    size_t bytes;
    unsigned char byte;
    CUevent event;
    CUgraphNode *after;
    size_t after_count;
    size_t index, waiting; /* during a launch: how many nodes it still waits for */
    bool done;
};

struct CUgraph_st {
    CUgraphNode *nodes;
    size_t count, room;
};

struct CUgraphExec_st {
    CUgraph graph;
};

struct CUstream_st {
    CUgraph capturing;
    CUgraphNode *last; /* the nodes that the next node follows */
    size_t last_count;
};

static void *copy_of(const void *from, size_t bytes) {
    void *to = malloc(bytes > 0 ? bytes : 1);
    if (bytes > 0)
        memcpy(to, from, bytes);
    return to;
}

static int perform(const struct CUgraphNode_st *node) {
    if (node->deed == KERNEL)
        broken = broken || (fail_at != 0 && ++launched >= fail_at);
    if (broken)
        return FAILED;
    if (node->deed == KERNEL) {
        counts.kernels++;
        crn_kernel_run(&node->launch, node->args,
                       shuffled && draw(2) == 1 ? CRN_GRID_BACKWARDS : CRN_GRID_FORWARDS);
        return 0;
    }
    if (node->deed == COPY) {
        counts.copies++;
        memmove(node->to, node->from, node->bytes);
    } else if (node->deed == FUNCTION) {
        node->function(node->args);
    } else if (node->deed == EVENT) {
        timespec_get(&node->event->at, TIME_UTC);
    } else {
        memset(node->to, node->byte, node->bytes);
    }
    return 0;
}

#define NO_CONTEXT 201 /* the driver's answer if no context is current */

/* The current context of the thread: the tests use one thread for a device. */
static CUcontext current;

/* Run it now, or, while capturing, add a node after the last nodes of the stream. */
static int put(CUstream stream, const struct CUgraphNode_st *what, size_t args_bytes) {
    if (current != (CUcontext)(void *)&counts)
        return NO_CONTEXT;
    if (stream->capturing == NULL) {
        counts.direct++;
        return perform(what);
    }
    CUgraph graph = stream->capturing;
    CUgraphNode node = copy_of(what, sizeof *what);
    if (what->args != NULL)
        node->args = copy_of(what->args, args_bytes);
    node->after = stream->last;
    node->after_count = stream->last_count;
    node->index = graph->count;
    if (graph->count == graph->room) {
        graph->room = graph->room * 2 + 16;
        graph->nodes = realloc(graph->nodes, graph->room * sizeof *graph->nodes);
    }
    graph->nodes[graph->count++] = node;
    stream->last = copy_of(&node, sizeof node);
    stream->last_count = 1;
    return 0;
}

int fake_driver_put(CUstream stream, void (*function)(const void *args), void *args,
                    size_t args_bytes) {
    struct CUgraphNode_st node = {.deed = FUNCTION, .function = function, .args = args};
    return put(stream, &node, args_bytes);
}

/* ---- Devices ---- */

static int fake_init(unsigned flags) {
    MAY_FAIL();
    (void)flags;
    return 0;
}

static int fake_version(int *version) {
    MAY_FAIL();
    *version = 13000;
    return 0;
}

static int fake_error_string(int error, const char **text) {
    *text = error == FAILED ? "an illegal memory access was encountered" : NULL;
    return error == FAILED ? 0 : CRN_CUDA_INVALID_VALUE;
}

static int fake_count(int *count) {
    MAY_FAIL();
    *count = 1;
    return 0;
}

static int fake_get(CUdevice *device, int ordinal) {
    MAY_FAIL();
    *device = ordinal;
    return 0;
}

static int fake_name(char *name, int length, CUdevice device) {
    MAY_FAIL();
    (void)device;
    crn_copy_string(name, (size_t)length, "the processor, as if it were a GPU");
    return 0;
}

static int fake_attribute(int *value, int attribute, CUdevice device) {
    MAY_FAIL();
    (void)device;
    *value = attribute == CRN_CUDA_MAJOR ? 9 : attribute == CRN_CUDA_MINOR ? 0 : 4;
    return 0;
}

static int fake_retain(CUcontext *context, CUdevice device) {
    MAY_FAIL();
    (void)device;
    *context = (CUcontext)(void *)&counts;
    return 0;
}

static int fake_release(CUdevice device) {
    (void)device;
    return fake_driver_answer();
}

static int fake_get_current(CUcontext *context) {
    MAY_FAIL();
    *context = current;
    return 0;
}

static int fake_set_current(CUcontext context) {
    MAY_FAIL();
    current = context;
    return 0;
}

static int fake_memory_info(size_t *left, size_t *total) {
    MAY_FAIL();
    *total = (size_t)8 << 30;
    *left = (size_t)7 << 30;
    return 0;
}

/* ---- Memory ---- */

/* A block has its size in front. The last large one that was freed is given out again, because new
 * pages cost a sanitizer more time than everything else. */
#define FRONT ((size_t)256)
#define LARGE ((size_t)8 << 20)
static char *spare;

static size_t *size_of(char *block) {
    return (size_t *)(void *)block;
}

static int fake_alloc(CUdeviceptr *at, size_t bytes) {
    MAY_FAIL();
    if (current != (CUcontext)(void *)&counts)
        return NO_CONTEXT;
    if (bytes > most_device)
        return CRN_CUDA_OUT_OF_MEMORY;
    size_t size = FRONT + ((bytes + FRONT - 1) & ~(FRONT - 1));
    bool again = spare != NULL && *size_of(spare) == size;
    char *block = again ? spare : aligned_alloc(FRONT, size);
    if (block == NULL)
        return CRN_CUDA_OUT_OF_MEMORY;
    spare = again ? NULL : spare;
    *size_of(block) = size;
    *at = (CUdeviceptr)(uintptr_t)(block + FRONT);
    counts.allocated++;
    counts.device_bytes += size - FRONT;
    return 0;
}

static int fake_free(CUdeviceptr at) {
    char *block = (char *)(uintptr_t)at - FRONT;
    bool keep = *size_of(block) >= LARGE;
    counts.device_bytes -= *size_of(block) - FRONT;
    free(keep ? spare : block);
    spare = keep ? block : spare;
    counts.allocated--;
    return fake_driver_answer();
}

static int fake_host_alloc(void **at, size_t bytes, unsigned flags) {
    MAY_FAIL();
    (void)flags;
    *at = bytes <= most_pinned ? aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095) : NULL;
    if (*at == NULL)
        return CRN_CUDA_OUT_OF_MEMORY;
    counts.pinned++;
    return 0;
}

static int fake_host_free(void *at) {
    free(at);
    counts.pinned--;
    return fake_driver_answer();
}

static int fake_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    MAY_FAIL();
    struct CUgraphNode_st node = {.deed = COPY,
                                  .to = (void *)(uintptr_t)to,
                                  .from = (const void *)(uintptr_t)from,
                                  .bytes = bytes};
    return put(stream, &node, 0);
}

static int fake_fill(CUdeviceptr at, unsigned char value, size_t count, CUstream stream) {
    MAY_FAIL();
    struct CUgraphNode_st node = {
        .deed = FILL, .to = (void *)(uintptr_t)at, .byte = value, .bytes = count};
    return put(stream, &node, 0);
}

/* ---- Streams and events ---- */

static int fake_stream(CUstream *stream, unsigned flags) {
    MAY_FAIL();
    (void)flags;
    *stream = calloc(1, sizeof **stream);
    return 0;
}

static int fake_stream_end(CUstream stream) {
    free(stream->last);
    free(stream);
    return fake_driver_answer();
}

static int fake_synchronize(CUstream stream) {
    MAY_FAIL();
    (void)stream;
    return 0;
}

static int fake_wait(CUstream stream, CUevent event, unsigned flags) {
    MAY_FAIL();
    (void)stream;
    (void)event;
    (void)flags;
    return 0;
}

static int fake_event(CUevent *event, unsigned flags) {
    MAY_FAIL();
    (void)flags;
    *event = calloc(1, sizeof **event);
    return 0;
}

static int fake_event_end(CUevent event) {
    free(event);
    return fake_driver_answer();
}

static int fake_event_record(CUevent event, CUstream stream) {
    MAY_FAIL();
    (void)stream;
    timespec_get(&event->at, TIME_UTC);
    return 0;
}

static int fake_event_node(CUevent event, CUstream stream, unsigned flags) {
    MAY_FAIL();
    struct CUgraphNode_st node = {.deed = EVENT, .event = event};
    return flags == CRN_CUDA_EVENT_EXTERNAL ? put(stream, &node, 0) : CRN_CUDA_INVALID_VALUE;
}

static int fake_elapsed(float *milliseconds, CUevent begin, CUevent end) {
    MAY_FAIL();
    *milliseconds = (float)((double)(end->at.tv_sec - begin->at.tv_sec) * 1e3 +
                            (double)(end->at.tv_nsec - begin->at.tv_nsec) * 1e-6);
    return 0;
}

/* ---- Kernels: a handle is the entry in the list, or in that of fake_hopper.h behind it ---- */

static int fake_load(CUlibrary *library, const void *code, void *jit_options, void **jit_values,
                     unsigned jit_count, void *options, void **values, unsigned count) {
    MAY_FAIL();
    (void)code;
    (void)jit_options;
    (void)jit_values;
    (void)jit_count;
    (void)options;
    (void)values;
    (void)count;
    *library = (CUlibrary)(void *)&counts;
    return 0;
}

static int fake_unload(CUlibrary library) {
    (void)library;
    return fake_driver_answer();
}

static int fake_kernel(CUkernel *kernel, CUlibrary library, const char *name) {
    MAY_FAIL();
    (void)library;
    for (size_t i = 0; i < CRN_KERNELS; i++)
        if (strcmp(crn_kernel_list[i].name, name) == 0) {
            *kernel = (CUkernel)(uintptr_t)(i + 1);
            return 0;
        }
    for (size_t i = 0; i < FAKE_HOPPER_KERNELS; i++)
        if (strcmp(fake_hopper_kernels[i].name, name) == 0) {
            *kernel = (CUkernel)(uintptr_t)(CRN_KERNELS + i + 1);
            return 0;
        }
    return 500;
}

static int fake_kernel_attribute(int attribute, int value, CUkernel kernel, CUdevice device) {
    MAY_FAIL();
    (void)device;
    size_t i = (size_t)(uintptr_t)kernel - 1;
    uint32_t wanted = i < CRN_KERNELS ? crn_kernel_shared_bytes((crn_kernel_id)i) : 0;
    if (i >= CRN_KERNELS && i < CRN_KERNELS + FAKE_HOPPER_KERNELS)
        wanted = fake_hopper_kernels[i - CRN_KERNELS].shared_bytes;
    return attribute == CRN_CUDA_MOST_SHARED_BYTES && wanted > 0 && (uint32_t)value == wanted
               ? 0
               : CRN_CUDA_INVALID_VALUE;
}

static int fake_map(crn_tensor_map *map, int type, uint32_t rank, void *at, const uint64_t *sizes,
                    const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                    int interleave, int swizzle, int promotion, int outside) {
    MAY_FAIL();
    return fake_hopper_map(map, type, rank, at, sizes, strides, box, steps, interleave, swizzle,
                           promotion, outside);
}

static int launch_hopper(const fake_hopper_kernel *kernel, unsigned threads, unsigned shared_bytes,
                         CUstream stream, void *args) {
    if (threads != kernel->threads || shared_bytes != kernel->shared_bytes)
        return CRN_CUDA_INVALID_VALUE;
    return fake_driver_put(stream, kernel->run, args, sizeof(crn_hopper_args));
}

static int fake_launch(CUkernel kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       CUstream stream, void **parameters, void **extra) {
    MAY_FAIL();
    (void)extra;
    crn_kernel_id id = (crn_kernel_id)((uintptr_t)kernel - 1);
    if (id >= CRN_KERNELS && grid_x > 0)
        return launch_hopper(&fake_hopper_kernels[id - CRN_KERNELS], block_x, shared_bytes, stream,
                             parameters[0]);
    if (grid_x == 0 || grid_y == 0 || grid_z != 1 || block_x == 0 || block_x > 1024 ||
        block_y != 1 || block_z != 1 || shared_bytes != crn_kernel_shared_bytes(id) ||
        grid_y > 65535)
        return CRN_CUDA_INVALID_VALUE;
    struct CUgraphNode_st node = {
        .deed = KERNEL,
        .launch = {.kernel = id, .blocks = {grid_x, grid_y}, .threads = block_x},
        .args = parameters[0]};
    return put(stream, &node, crn_kernel_list[id].args_bytes);
}

/* ---- Graphs ---- */

static int fake_capture(CUstream stream, CUgraph graph, const CUgraphNode *after,
                        const void *edge_data, size_t count, int mode) {
    MAY_FAIL();
    (void)edge_data;
    (void)mode;
    free(stream->last);
    stream->capturing = graph;
    stream->last = copy_of(after, count * sizeof *after);
    stream->last_count = count;
    return 0;
}

static int fake_capture_info(CUstream stream, int *status, uint64_t *id, CUgraph *graph,
                             const CUgraphNode **last, const void **edge_data, size_t *count) {
    MAY_FAIL();
    (void)id;
    (void)graph;
    *status = stream->capturing != NULL;
    *last = stream->last;
    *edge_data = NULL;
    *count = stream->last_count;
    return 0;
}

static int fake_capture_end(CUstream stream, CUgraph *graph) {
    *graph = stream->capturing;
    stream->capturing = NULL;
    return fake_driver_answer();
}

static int fake_graph(CUgraph *graph, unsigned flags) {
    MAY_FAIL();
    (void)flags;
    *graph = calloc(1, sizeof **graph);
    counts.graphs++;
    return 0;
}

static int fake_graph_end(CUgraph graph) {
    for (size_t i = 0; i < graph->count; i++) {
        free(graph->nodes[i]->args);
        free(graph->nodes[i]->after);
        free(graph->nodes[i]);
    }
    free(graph->nodes);
    free(graph);
    counts.graphs--;
    return fake_driver_answer();
}

static int fake_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    MAY_FAIL();
    (void)nodes;
    *count = graph->count;
    return 0;
}

/* Mark in `row` the node and all that come before it; `rows` has the rows of earlier nodes. */
static void mark_before(const struct CUgraphNode_st *node, size_t count, bool *rows) {
    bool *row = rows + node->index * count;
    row[node->index] = true;
    for (size_t i = 0; i < node->after_count; i++)
        for (size_t k = 0; k < count; k++)
            row[k] = row[k] || rows[node->after[i]->index * count + k];
}

static bool is_update(const struct CUgraphNode_st *node) {
    return node->deed == KERNEL &&
           (node->launch.kernel == CRN_K_adam || node->launch.kernel == CRN_K_sgd);
}

/* Not one of the values or the results of a step. */
static bool is_large_copy(const struct CUgraphNode_st *node) {
    return node->deed == COPY && node->bytes >= 1024;
}

/* Updates of the graph that some copy neither precedes nor follows. */
static uint64_t count_free_updates(CUgraph graph) {
    bool *before = calloc(graph->count * graph->count + 1, 1);
    uint64_t found = 0;
    for (size_t i = 0; i < graph->count; i++)
        mark_before(graph->nodes[i], graph->count, before);
    for (size_t i = 0; i < graph->count; i++)
        for (size_t k = 0; k < graph->count && is_update(graph->nodes[i]); k++)
            if (is_large_copy(graph->nodes[k]) && !before[i * graph->count + k] &&
                !before[k * graph->count + i]) {
                found++;
                break;
            }
    free(before);
    return found;
}

static int fake_instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    MAY_FAIL();
    (void)flags;
    *exec = calloc(1, sizeof **exec);
    (*exec)->graph = graph;
    counts.nodes = graph->count;
    counts.edges = counts.kernel_nodes = counts.updates = 0;
    for (size_t i = 0; i < graph->count; i++) {
        counts.edges += graph->nodes[i]->after_count;
        counts.kernel_nodes += graph->nodes[i]->deed == KERNEL;
        counts.updates += is_update(graph->nodes[i]);
    }
    counts.free_updates = count_free_updates(graph);
    return 0;
}

static int fake_upload(CUgraphExec exec, CUstream stream) {
    MAY_FAIL();
    (void)exec;
    (void)stream;
    return 0;
}

static bool is_ready(const struct CUgraphNode_st *node) {
    for (size_t i = 0; i < node->after_count; i++)
        if (!node->after[i]->done)
            return false;
    return !node->done;
}

/* A random node whose predecessors have run, from a window that is wide enough for many orders. */
static CUgraphNode pick(CUgraph graph, size_t first) {
    CUgraphNode ready[256];
    size_t count = 0;
    for (size_t i = first; i < graph->count && count < 256 && i < first + 4096; i++)
        if (is_ready(graph->nodes[i]))
            ready[count++] = graph->nodes[i];
    return ready[shuffled ? draw(count) : 0];
}

static int fake_graph_launch(CUgraphExec exec, CUstream stream) {
    MAY_FAIL();
    (void)stream;
    CUgraph graph = exec->graph;
    int result = 0;
    size_t first = 0; /* all before it have run */
    counts.launches++;
    for (size_t i = 0; i < graph->count; i++)
        graph->nodes[i]->done = false;
    for (size_t i = 0; i < graph->count; i++) {
        CUgraphNode node = pick(graph, first);
        int failed = perform(node);
        result = result == 0 ? failed : result;
        node->done = true;
        while (first < graph->count && graph->nodes[first]->done)
            first++;
    }
    return result;
}

static int fake_exec_end(CUgraphExec exec) {
    free(exec);
    return fake_driver_answer();
}

/* ---- The table ---- */

const crn_cuda_api *fake_driver(void) {
    static const crn_cuda_api api = {
        .cuInit = fake_init,
        .cuDriverGetVersion = fake_version,
        .cuGetErrorString = fake_error_string,
        .cuDeviceGetCount = fake_count,
        .cuDeviceGet = fake_get,
        .cuDeviceGetName = fake_name,
        .cuDeviceGetAttribute = fake_attribute,
        .cuDevicePrimaryCtxRetain = fake_retain,
        .cuDevicePrimaryCtxRelease = fake_release,
        .cuCtxGetCurrent = fake_get_current,
        .cuCtxSetCurrent = fake_set_current,
        .cuMemGetInfo = fake_memory_info,
        .cuMemAlloc = fake_alloc,
        .cuMemFree = fake_free,
        .cuMemHostAlloc = fake_host_alloc,
        .cuMemFreeHost = fake_host_free,
        .cuMemcpyAsync = fake_copy,
        .cuMemsetD8Async = fake_fill,
        .cuStreamCreate = fake_stream,
        .cuStreamDestroy = fake_stream_end,
        .cuStreamSynchronize = fake_synchronize,
        .cuStreamWaitEvent = fake_wait,
        .cuEventCreate = fake_event,
        .cuEventDestroy = fake_event_end,
        .cuEventRecord = fake_event_record,
        .cuEventRecordWithFlags = fake_event_node,
        .cuEventElapsedTime = fake_elapsed,
        .cuLibraryLoadData = fake_load,
        .cuLibraryUnload = fake_unload,
        .cuLibraryGetKernel = fake_kernel,
        .cuLaunchKernel = fake_launch,
        .cuKernelSetAttribute = fake_kernel_attribute,
        .cuTensorMapEncodeTiled = fake_map,
        .cuStreamBeginCaptureToGraph = fake_capture,
        .cuStreamGetCaptureInfo = fake_capture_info,
        .cuStreamEndCapture = fake_capture_end,
        .cuGraphCreate = fake_graph,
        .cuGraphDestroy = fake_graph_end,
        .cuGraphGetNodes = fake_nodes,
        .cuGraphInstantiateWithFlags = fake_instantiate,
        .cuGraphUpload = fake_upload,
        .cuGraphLaunch = fake_graph_launch,
        .cuGraphExecDestroy = fake_exec_end,
    };
    return &api;
}

static uint32_t one_device(void) {
    return 1;
}

static cairn_status open_host(const crn_device_options *options, crn_device **out,
                              cairn_error *err) {
    return crn_cuda_open_on(fake_driver(), options, out, err);
}

const crn_backend fake_backend_cuda_host = {
    .name = "cuda-host",
    .summary = "the backend cuda with its kernels on the processor; for tests",
    .devices = one_device,
    .open = open_host,
    CRN_CUDA_FUNCTIONS,
};
