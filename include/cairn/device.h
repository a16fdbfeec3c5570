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

/* In what precision convolutions and matrix products multiply; sums are fp32. TF32 on a processor
 * is FP32. With BF16 a GPU stores images and sequences of tokens as bf16, in half the memory; the
 * backend `cpu` stores sequences so, if the processor has the instructions, and `ref` refuses it.
 */
#define CAIRN_MATH_LIST(X)                                                                         \
    X(TF32, 0, "tf32") /* on tensor cores, 10 bits of mantissa */                                  \
    X(FP32, 1, "fp32")                                                                             \
    X(BF16, 2, "bf16")

typedef enum cairn_math {
#define X(name, number, text) CAIRN_MATH_##name = number,
    CAIRN_MATH_LIST(X)
#undef X
} cairn_math;

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

/* How much memory of the device was in use beside what executors reserved (the driver's, the
 * libraries', recorded steps) after a stage of opening and using it. */
#define CAIRN_DEVICE_STAGES 8
typedef struct cairn_device_stage {
    const char *name; /* "context" */
    uint64_t outside_bytes;
} cairn_device_stage;

/* What a device is. Start from CAIRN_DEVICE_FACTS_INIT; fields are only ever added at the end. */
typedef struct cairn_device_facts {
    uint32_t struct_size;
    char backend[32];             /* "ref" */
    char name[128];               /* what the machine calls it; may be empty */
    uint64_t memory_bytes;        /* of its memory; 0: not known */
    uint32_t alignment;           /* of memory that is reserved */
    uint32_t compute_units;       /* threads of a processor, multiprocessors of a GPU */
    bool separate_memory;         /* from the host's: only then does offloading gain memory */
    const cairn_machine *machine; /* for analytic costs and for planning copies; the device's */
    char math[8];                 /* the name of the math that it computes in */
    uint32_t stage_count;         /* 0: not known */
    cairn_device_stage stages[CAIRN_DEVICE_STAGES]; /* of opening and using it, in their order */
} cairn_device_facts;
#define CAIRN_DEVICE_FACTS_INIT CAIRN_INIT_SIZED(cairn_device_facts)

/* Fill as many fields as `facts->struct_size` says that the caller knows. */
CAIRN_API void cairn_device_describe(const cairn_device *device, cairn_device_facts *facts);

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
