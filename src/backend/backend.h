/* backend.h: what a backend is: memory in two pools, copies between them with events, and per op
 * kind a list of implementations. Small tables of functions; nothing above knows which backend
 * runs.
 *
 *     device pool  <== copy lanes (out, in), each in order ==>  host pool
 *          ^
 *          | kernels: op kind -> implementations, best first, reference last
 *
 * Streams and events are in the interface also where the device is a processor: there the copy
 * lanes are threads, and "device" and "host" are two pools, so that offloading really runs. */
#ifndef CRN_BACKEND_H
#define CRN_BACKEND_H

#include "base/crn_base.h"
#include "base/pool.h"
#include "cairn/cost.h"
#include "cairn/graph.h"

/* ---- How tensors are stored ---- */

/* Per tensor. An image [N, C, H, W] may be stored in blocks of channels, [N, C/B, H, W, B], the
 * last block filled up with zeros by who writes it; anything else is plain. Tensors that share
 * storage (aliases, and what may be made in place of another) are stored alike; so are plain:
 * inputs, labels, the network's output and all that is stationary. */
typedef struct crn_storage {
    uint64_t bytes;
    uint32_t block; /* B; 1: plain */
} crn_storage;

/* ---- Running one op ---- */

/* An op in its place, before it has addresses. */
typedef struct crn_site {
    const cairn_graph *graph;
    const cairn_op *op;
    const crn_storage *storage; /* per tensor of the graph */
    uint32_t threads;
} crn_site;

/* Everything a kernel may look at. Addresses are in the order of the op's lists and aligned to 64
 * bytes; an output that is not wanted is NULL. An output made in place has its operand's address.
 */
typedef struct crn_call {
    const cairn_graph *graph;
    const cairn_op *op;
    cairn_id op_id;
    const crn_storage *storage; /* per tensor of the graph */
    const void *const *inputs;
    void *const *outputs;
    void *const *params; /* parameters and state; state is updated by `once` effects */
    void *workspace;
    crn_pool *threads;
    void *state;         /* what prepare() made */
    uint64_t seed, step; /* what random ops draw from, together with op_id and the element */
    bool again;          /* run again in this step: `once` effects do not happen */
    bool training;       /* false: batch-norm uses running statistics, dropout passes through */
} crn_call;

typedef struct crn_kernel {
    const char *name;
    /* Whether it can do this op of this graph; NULL: it always can. */
    bool (*fits)(const crn_site *site);
    /* Bytes of workspace it wants; NULL: none. */
    uint64_t (*workspace)(const crn_site *site);
    void (*run)(const crn_call *call);
    /* Make ready what can be made before the first run, with all addresses known, and leave it in
     * `call->state`; finish() gives that back. Both NULL: there is nothing to make ready. */
    CAIRN_MUST cairn_status (*prepare)(crn_call *call, const cairn_allocator *allocator,
                                       cairn_error *err);
    void (*finish)(crn_call *call, const cairn_allocator *allocator);
} crn_kernel;

/* ---- A backend ---- */

typedef enum crn_pool_kind { CRN_DEVICE, CRN_HOST } crn_pool_kind;
typedef enum crn_lane { CRN_LANE_OUT, CRN_LANE_IN } crn_lane;

/* A copy in flight; given out by copy(), given back to wait(). */
typedef uint64_t crn_event;

typedef struct crn_device crn_device; /* an open backend; each backend has its own */

typedef struct crn_device_options {
    uint32_t threads;               /* 0: as many as there are processors */
    uint64_t link_bytes_per_second; /* imitate a link of this bandwidth; 0: as fast as it goes */
    cairn_allocator allocator;
    crn_pool_team *team; /* on whose threads loops run; NULL: threads of its own */
} crn_device_options;

typedef struct crn_backend {
    const char *name;
    const char *summary;

    CAIRN_MUST cairn_status (*open)(const crn_device_options *options, crn_device **out,
                                    cairn_error *err);
    void (*close)(crn_device *device);
    crn_pool *(*threads)(crn_device *device);

    /* One region of a pool, page-aligned and zeroed; CAIRN_ESYSTEM with both figures when refused.
     */
    CAIRN_MUST cairn_status (*reserve)(crn_device *device, crn_pool_kind pool, uint64_t bytes,
                                       void **out, cairn_error *err);
    void (*release)(crn_device *device, crn_pool_kind pool, void *region, uint64_t bytes);

    /* Start copying on a lane; copies of one lane happen in order. The source may be read, not
     * written, and the target not touched until wait() has returned. Neither allocates. */
    crn_event (*copy)(crn_device *device, crn_lane lane, void *to, const void *from,
                      uint64_t bytes);
    void (*wait)(crn_device *device, crn_event event);

    /* How it stores the tensors of a graph; NULL: all plain. */
    CAIRN_MUST cairn_status (*store)(const cairn_graph *graph, crn_storage *out);

    /* Implementations of a kind, best first, reference last; `*count` 0: it has none. */
    const crn_kernel *(*kernels)(cairn_op_kind kind, uint32_t *count);
} crn_backend;

/* By name: "ref", ...; NULL: there is none. The list is in backends.def. */
const crn_backend *crn_backend_find(const char *name);
const crn_backend *crn_backend_list(uint32_t index);

/* The implementations of an op that fit it, best first: at most `most` of them are written to
 * `out`. The order is that of the costs which cairn_bind() makes, so that a plan's `impl K` is
 * out[K]. */
uint32_t crn_backend_choices(const crn_backend *backend, const crn_site *site,
                             const crn_kernel **out, uint32_t most);

/* How the backend stores every tensor of the graph; CAIRN_ENOMEM. */
CAIRN_MUST cairn_status crn_backend_store(const crn_backend *backend, const cairn_graph *graph,
                                          crn_storage *out);

/* Bytes of workspace that a kernel wants for an op, and what is made before its first run. */
uint64_t crn_kernel_workspace(const crn_kernel *kernel, const crn_site *site);
CAIRN_MUST cairn_status crn_kernel_prepare(const crn_kernel *kernel, crn_call *call,
                                           const cairn_allocator *allocator, cairn_error *err);
void crn_kernel_finish(const crn_kernel *kernel, crn_call *call, const cairn_allocator *allocator);

static inline crn_site crn_site_of(const crn_call *call) {
    return (crn_site){call->graph, call->op, call->storage, crn_pool_threads(call->threads)};
}

#endif
