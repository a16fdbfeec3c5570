/* device.h: a device that runs networks, and what ops cost there.
 *
 *     cairn_device_open("cuda") --> device --cairn_bind(graph)--> costs --> solver --> plan
 *                                     |
 *                                     +--> profile.h measures on it, exec.h runs on it
 *
 * A device is opened once and shared by everything that is bound, profiled, run or evaluated on it:
 * what it has built for an op (a kernel's plan, a library's primitive) is used for every op like
 * it. Only one thread at a time may use a device and everything made on it. */
#ifndef CAIRN_DEVICE_H
#define CAIRN_DEVICE_H

#include "cairn/cost.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Backends ---- */

/* Only the library makes one; fields are only ever added at the end. */
typedef struct cairn_device_entry {
    const char *name; /* as cairn_device_open() takes it */
    const char *summary;
} cairn_device_entry;

/* Backend `index`, best first, or NULL past the end. Those that find no device on this machine are
 * not listed. */
CAIRN_API const cairn_device_entry *cairn_device_list(uint32_t index);

/* How many threads `threads` asks for. 0: OMP_NUM_THREADS where that is set, else one for each
 * processor that this process may use by its affinity and the quota of its container. */
CAIRN_API uint32_t cairn_count_threads(uint32_t threads);

/* ---- A device ---- */

typedef struct cairn_device cairn_device;

/* In what precision a GPU multiplies in convolutions and matrix products; sums are fp32. A
 * processor's is fp32; it refuses bf16. */
typedef enum cairn_math {
    CAIRN_MATH_TF32 = 0, /* on tensor cores, 10 bits of mantissa */
    CAIRN_MATH_FP32 = 1,
    CAIRN_MATH_BF16 = 2 /* images are stored as bf16, in half the memory; all else as with TF32 */
} cairn_math;

/* "tf32", "fp32", "bf16"; NULL past the end of the list. */
CAIRN_API const char *cairn_math_name(cairn_math math);

/* Start from CAIRN_DEVICE_OPTIONS_INIT; fields are only ever added at the end. */
typedef struct cairn_device_options {
    uint32_t struct_size;
    uint32_t threads;                 /* of a processor; 0: cairn_count_threads(0). The backend
                                         cpu may get fewer: OpenMP grants them */
    uint64_t link_bytes_per_second;   /* processors: simulate a separate memory behind a link
                                         of this bandwidth; 0: copies go as fast as they can */
    uint32_t index;                   /* which of the backend's devices, from 0 */
    const cairn_allocator *allocator; /* NULL: the C library's */
    cairn_math math;
} cairn_device_options;
#define CAIRN_DEVICE_OPTIONS_INIT CAIRN_INIT_SIZED(cairn_device_options)

/* Open a device of the backend called `name`; NULL: of the best there is. `options` may be NULL.
 * CAIRN_EUNKNOWN: there is no such backend, or it has fewer devices; CAIRN_ESYSTEM: it cannot be
 * used, and `err` says why. `*out` is NULL unless CAIRN_OK; release with cairn_device_close(). */
CAIRN_API CAIRN_MUST cairn_status cairn_device_open(const char *name,
                                                    const cairn_device_options *options,
                                                    cairn_device **out, cairn_error *err);

/* Destroy everything made on the device first. */
CAIRN_API void cairn_device_close(cairn_device *device);

/* What a device is. Start from CAIRN_DEVICE_FACTS_INIT; fields are only ever added at the end. */
typedef struct cairn_device_facts {
    uint32_t struct_size;
    char backend[32];             /* "ref" */
    char name[128];               /* what the machine calls it; may be empty */
    uint64_t memory_bytes;        /* of its memory; 0: not known */
    uint32_t alignment;           /* of its regions */
    uint32_t compute_units;       /* threads of a processor, multiprocessors of a GPU */
    bool separate_memory;         /* from the host's: only then does offloading gain memory */
    const cairn_machine *machine; /* for analytic costs and for planning copies; the device's */
    char math[8];                 /* cairn_math_name() of what a GPU was opened with; else empty */
} cairn_device_facts;
#define CAIRN_DEVICE_FACTS_INIT CAIRN_INIT_SIZED(cairn_device_facts)

/* Fill as many fields as `facts->struct_size` says that the caller knows. */
CAIRN_API void cairn_device_describe(const cairn_device *device, cairn_device_facts *facts);

/* Memory of the device that is in use beside the regions of executors: the driver's, the
 * libraries', recorded steps. As it was after stage `index` of opening and using the device;
 * returns the name of the stage, NULL past the end and where it is not known. */
CAIRN_API const char *cairn_device_outside(const cairn_device *device, uint32_t index,
                                           uint64_t *bytes);

/* Memory of the host from which the device copies fastest (pinned, where that means something), for
 * code that makes its inputs. Zeroed. CAIRN_ESYSTEM: refused. */
CAIRN_API CAIRN_MUST cairn_status cairn_device_host_reserve(cairn_device *device, uint64_t bytes,
                                                            void **out, cairn_error *err);
CAIRN_API void cairn_device_host_release(cairn_device *device, void *region, uint64_t bytes);

/* ---- Costs ---- */

/* Costs as the device stores and runs things: per op the implementations that fit it, best first,
 * with their workspaces; bytes as stored. Times are analytic, of the device's machine.
 * CAIRN_EINVAL: it has no implementation of an op. The costs are the caller's and keep no
 * reference. O(ops). */
CAIRN_API CAIRN_MUST cairn_status cairn_bind(const cairn_graph *graph, cairn_device *device,
                                             cairn_costs **out, cairn_error *err);

#ifdef __cplusplus
}
#endif
#endif
