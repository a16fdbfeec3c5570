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

/* ---- Running one op ---- */

/* Everything a kernel may look at. Addresses are in the order of the op's lists and aligned to 64
 * bytes; an output that is not wanted is NULL. An output made in place has its operand's address.
 */
typedef struct crn_call {
    const cairn_graph *graph;
    const cairn_op *op;
    cairn_id op_id;
    const void *const *inputs;
    void *const *outputs;
    void *const *params; /* parameters and state; state is updated by `once` effects */
    void *workspace;
    crn_pool *threads;
    uint64_t seed, step; /* what random ops draw from, together with op_id and the element */
    bool again;          /* run again in this step: `once` effects do not happen */
    bool training;       /* false: batch-norm uses running statistics, dropout passes through */
} crn_call;

typedef struct crn_kernel {
    const char *name;
    /* Whether it can do this op of this graph; NULL: it always can. */
    bool (*fits)(const cairn_graph *graph, const cairn_op *op);
    /* Bytes of workspace it wants; NULL: none. */
    uint64_t (*workspace)(const cairn_graph *graph, const cairn_op *op, uint32_t threads);
    void (*run)(const crn_call *call);
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

    /* Implementations of a kind, best first, reference last; `*count` 0: it has none. */
    const crn_kernel *(*kernels)(cairn_op_kind kind, uint32_t *count);
} crn_backend;

/* By name: "ref", ...; NULL: there is none. The list is in backends.def. */
const crn_backend *crn_backend_find(const char *name);
const crn_backend *crn_backend_list(uint32_t index);

/* The implementations of an op that fit it, best first: at most `most` of them are written to
 * `out`. The order is that of the costs which cairn_bind() makes, so that a plan's `impl K` is
 * out[K]. */
uint32_t crn_backend_choices(const crn_backend *backend, const cairn_graph *graph,
                             const cairn_op *op, const crn_kernel **out, uint32_t most);

#endif
