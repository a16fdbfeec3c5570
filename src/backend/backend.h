/* backend.h: the interface of backends. A backend is a table of functions for one kind of device.
 *
 *     lanes of the device        compute    ----[conv]--[bn]--.----[free]--------------[conv']----
 *     (in order each,            copy out                     '--[offload x]--.
 *      side by side)             copy in                                      '--[fetch x]--'
 *
 * Everything that works on device memory is enqueued on a lane and does not block the host. Lanes
 * wait for each other through events: `record` marks the current point of a lane, and `follow`
 * makes another lane wait for that point. `join` waits for all lanes and returns the first error
 * since the last join; it is called once a step. On a processor the compute lane is the calling
 * thread: there `enqueue` runs the op, `record` on the compute lane does nothing, and `follow` on
 * it blocks.
 *
 * The host must not access device memory: a `void *` into it is a number that the host may add to
 * and pass to the backend, but never read or write through. Data comes from the host and goes to it
 * through `convert` and the results of `join`.
 *
 * The values that change from step to step (seed, step, rate) are one block in device memory, so
 * that a recorded step can be replayed together with its update.
 *
 * To add a backend, write a folder and a line in backends.def. A backend for processors starts from
 * processor.h. */
#ifndef CRN_BACKEND_H
#define CRN_BACKEND_H

#include "base/crn_base.h"
#include "base/team.h"
#include "cairn/device.h"
#include "cairn/graph.h"
#include "cairn/optimizer.h"
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"

/* ---- How tensors are stored ---- */

/* Every format keeps the first dimension outermost, so that rows first .. first+n-1 of a tensor are
 * a range of bytes of the stored form. Channels that fill up a block are zero; an op that writes a
 * tensor writes them too. */
typedef enum crn_format {
    CRN_PLAIN,         /* as the graph has it, row by row */
    CRN_BLOCKS,        /* [N, C/B, H, W, B], of rank 4 */
    CRN_CHANNELS_LAST, /* [N, H, W, C], C rounded up to a multiple of B; of rank 4 */
} crn_format;

/* The stored type of a tensor of real numbers. Integers are always stored as in the graph. With
 * CRN_TWICE, for plain parameters, a copy rounded to bf16 follows the fp32 elements, see
 * crn_copy_of(); conversions and updates write both. */
typedef enum crn_type { CRN_AS_GRAPH, CRN_BF16, CRN_F16, CRN_TWICE } crn_type;

/* The storage format of a tensor. Tensors that share storage have the same: see
 * storage_groups.h. */
typedef struct crn_storage {
    uint64_t bytes;
    uint32_t block; /* B of the format; 1 if it is plain */
    uint8_t format; /* crn_format */
    uint8_t type;   /* crn_type */
    /* Bytes at the beginning that only updates use: the fp32 elements of a tensor that is stored
     * twice, if all other ops read the copy. */
    uint64_t unread;
} crn_storage;

/* The address of the copy of a tensor that is stored twice; NULL for others. */
static inline void *crn_copy_of(const cairn_tensor *tensor, crn_storage storage, void *stored) {
    return storage.type == CRN_TWICE && stored != NULL ? (char *)stored + crn_align(tensor->bytes)
                                                       : NULL;
}

/* Convert rows of a tensor between host memory, in the plain layout and type of the graph, and the
 * stored form. Integers are converted in the plain format only: the host writes labels, and nothing
 * else that is not a real number. */
typedef struct crn_conversion {
    const cairn_tensor *tensor;
    crn_storage storage;
    void *stored;         /* the whole tensor, in device memory */
    void *host;           /* row `first`, in host memory */
    uint64_t first, rows; /* of the first dimension; a tensor of rank 0 has one row */
    bool to_host;
} crn_conversion;

/* ---- Values and results ---- */

/* The values that change from step to step. They are in device memory, one block per queue; kernels
 * read them. */
typedef struct crn_values {
    uint64_t seed, step;              /* for random ops */
    float rate;                       /* of the update */
    float keep;                       /* adamw: 1 - rate * decay */
    float step_size, root_correction; /* adam: rate / (1 - beta1^n), sqrt(1 - beta2^n) */
    float gathered;                   /* micro-batches in the sum; 0: there is no sum */
    uint32_t first;                   /* accumulate: 1, begin a new sum */
    uint32_t reserved[4];
} crn_values;

/* The results of a step. */
typedef struct crn_results {
    float loss;
    uint64_t correct, predictions;
    int64_t idle_ns; /* how long the compute lane waited for copies; 0: not measured */
} crn_results;

/* ---- Implementations of an op ---- */

/* An op of a graph, before it has addresses. */
typedef struct crn_site {
    const cairn_graph *graph;
    const cairn_op *op;
    const crn_storage *storage; /* per tensor of the graph */
    uint32_t threads;           /* of a processor */
} crn_site;

#define CRN_MOST_CHOICES CRN_MOST_IMPLEMENTATIONS

/* An implementation of an op: what `impl K` of a plan means. The recipe is everything that the
 * backend can build without addresses. It has no reference to the graph: it serves every op of the
 * same signature (kind, attributes, shapes, storage of the operands) as long as the device is
 * open. */
typedef struct crn_choice {
    char name[32]; /* stable, for cost tables: "cudnn.e67.2" */
    uint64_t workspace;
    const void *recipe;
} crn_choice;

typedef struct crn_queue crn_queue;

/* One run of an op. Addresses are in the order of the op's lists and aligned to 64 bytes; an output
 * that is not computed is NULL; an output made in place has the address of its operand. */
typedef struct crn_call {
    const cairn_graph *graph;
    const cairn_op *op;
    cairn_id op_id;
    const crn_storage *storage; /* per tensor of the graph */
    const void *recipe;         /* of the choice */
    const void *const *inputs;
    void *const *outputs;
    void *const *params; /* parameters and state; state is updated by `once` effects */
    void *workspace;
    uint64_t workspace_bytes;
    const crn_values *values; /* the block of the queue, in device memory */
    bool again;               /* recomputed in this step: `once` effects do not happen */
    bool training;     /* false: batch-norm uses running statistics, dropout passes through */
    crn_queue *queue;  /* the queue that it is enqueued on */
    crn_team *threads; /* processors: filled in by prepare() */
    void *state;       /* what prepare() made */
} crn_call;

/* ---- The optimiser ---- */

#define CRN_MOST_SLOTS                                                                             \
    CAIRN_MOST_SLOTS /* two of adam, and the sum of gradients, which is always the last */

/* A parameter with its gradient and slots. All have the same storage format, except for the
 * type; gradient and slots are never stored twice. */
typedef struct crn_parameter {
    cairn_id tensor;
    void *value;
    void *copy;           /* in bf16, of one that is stored twice; else NULL */
    const void *gradient; /* of the last run; NULL: it has none and is not updated */
    void *slots[CRN_MOST_SLOTS];
    uint64_t elements; /* as stored, with padding; the update keeps zeros zero */
    bool no_decay;     /* it has no weight decay */
} crn_parameter;

/* Parameters that are updated together, all of an executor or, where the graph has updates, one or
 * some rows of one; and the constants of their update. processor_update.c has the formulas. What
 * changes from step to step is in the values. */
typedef struct crn_update {
    const crn_parameter *parameters;
    uint32_t count;
    uint32_t slot_count; /* of each parameter, including the sum */
    cairn_optimizer kind;
    bool nesterov, has_momentum, has_sum;
    float momentum, decay, beta1_rest, beta2, beta2_rest, epsilon; /* *_rest: 1 - beta */
    void *state;                                                   /* what prepare_update() made */
    float clip;           /* the largest norm of all gradients; 0: they are not clipped */
    const float *squares; /* device: the sum of squares that a clipped update reads, or that one is
                             added to; NULL: 0 */
    float *squares_out;   /* device: of an addition of squares, the sum; else NULL */
} crn_update;

/* ---- A backend ---- */

typedef enum crn_space { CRN_SPACE_DEVICE, CRN_SPACE_HOST } crn_space;
typedef enum crn_lane { CRN_COMPUTE, CRN_COPY_OUT, CRN_COPY_IN, CRN_LANES } crn_lane;

/* An event is an index below the count that was passed to events() of the queue. */
typedef uint32_t crn_event;

typedef struct crn_device crn_device; /* an open device; each backend has its own */
typedef struct crn_recording crn_recording;

typedef struct crn_device_options {
    uint32_t threads;               /* processors; 0: as many as there are */
    uint64_t link_bytes_per_second; /* processors: simulate a link; 0: no limit */
    uint32_t index;
    cairn_math math;
    cairn_allocator allocator;
} crn_device_options;

/* Functions that return no status cannot fail, or keep their failure for the next join. A function
 * may be NULL only where the comment says so. Only open, queue, events, reserve, choices, prepare
 * and recording allocate. */
typedef struct crn_backend {
    union {
        struct {
            const char *name;
            const char *summary;
        };
        cairn_device_entry entry; /* the same, as cairn_device_list() returns it */
    };

    /* The number of devices; 0: the backend cannot be used on this machine. */
    uint32_t (*devices)(void);
    CAIRN_MUST cairn_status (*open)(const crn_device_options *options, crn_device **out,
                                    cairn_error *err);
    void (*close)(crn_device *device);
    /* All but `struct_size`, `backend` and the address of the machine, which are filled in before.
     */
    void (*describe)(crn_device *device, cairn_device_facts *out, cairn_machine *machine);
    /* Stage `index` of cairn_device_facts; NULL past the end. The function may be NULL: it is not
     * known. */
    const char *(*outside)(crn_device *device, uint32_t index, uint64_t *bytes);

    /* ---- Memory ---- */

    /* Reserve memory, aligned as the facts say (on processors at least to a page) and zeroed.
     * CAIRN_ESYSTEM if refused; the message has both figures. The host can access CRN_SPACE_HOST
     * memory. */
    CAIRN_MUST cairn_status (*reserve)(crn_device *device, crn_space space, uint64_t bytes,
                                       void **out, cairn_error *err);
    void (*release)(crn_device *device, crn_space space, void *memory, uint64_t bytes);

    /* Make whole pages of device memory accessible or inaccessible, immediately. It is called
     * between steps, or on a device whose compute lane is the calling thread. NULL: not
     * possible. */
    void (*protect)(crn_device *device, void *at, uint64_t bytes, bool accessible);

    /* ---- How a graph is stored and run ---- */

    /* Choose the storage format of every tensor; `out` is plain before the call. NULL: all tensors
     * are plain. */
    CAIRN_MUST cairn_status (*store)(crn_device *device, const cairn_graph *graph, crn_storage *out,
                                     cairn_error *err);

    /* The implementations of an op, best first, at most CRN_MOST_CHOICES; `*count` 0: it has none.
     * It is called once per signature: crn_device_choices() caches the result. drop() releases the
     * recipe of a choice. */
    CAIRN_MUST cairn_status (*choices)(crn_device *device, const crn_site *site, crn_choice *out,
                                       uint32_t *count, cairn_error *err);
    void (*drop)(crn_device *device, crn_choice *choice);

    /* ---- A queue: the work of one executor on the device ---- */

    /* A queue has its own events, block of values and results. The lanes belong to the device: work
     * of one queue runs before work that another queue enqueues later. */
    CAIRN_MUST cairn_status (*queue)(crn_device *device, crn_queue **out, cairn_error *err);
    void (*finish_queue)(crn_queue *queue);
    /* The address of its block of values, for crn_call. */
    const crn_values *(*values)(crn_queue *queue);
    /* Create events 0 .. count-1, when a plan is bound. Timed ones can be passed to
     * elapsed_ns(). */
    CAIRN_MUST cairn_status (*events)(crn_queue *queue, uint32_t count, bool timed,
                                      cairn_error *err);

    /* Prepare what can be prepared before the first run, with all addresses known, and store it in
     * call->state; finish() releases it. Both NULL: there is nothing to prepare. */
    CAIRN_MUST cairn_status (*prepare)(crn_queue *queue, crn_call *call, cairn_error *err);
    void (*finish)(crn_queue *queue, crn_call *call);
    CAIRN_MUST cairn_status (*prepare_update)(crn_queue *queue, crn_update *update,
                                              cairn_error *err);
    void (*finish_update)(crn_queue *queue, crn_update *update);

    /* ---- On the compute lane ---- */

    /* Set the values for the next ops, and set the results to zero. This is not in a
     * recording. */
    void (*begin)(crn_queue *queue, const crn_values *values);
    void (*enqueue)(crn_queue *queue, const crn_call *call);
    void (*fill)(crn_queue *queue, void *at, uint8_t byte, uint64_t bytes);
    /* Nothing reads these bytes before they are written again, so a backend that fuses ops need not
     * write them. NULL: the backend does not use this. */
    void (*discard)(crn_queue *queue, void *at, uint64_t bytes);
    /* The host memory is in use until the next join. Not recorded. */
    void (*convert)(crn_queue *queue, const crn_conversion *conversion);
    /* Store in the results: the loss, one f32, from its address; and the number of correct
     * predictions of a cross-entropy that was enqueued just before. A prediction is correct if the
     * label is the likeliest class. */
    void (*take_loss)(crn_queue *queue, const void *loss);
    void (*count_correct)(crn_queue *queue, const crn_call *call);
    /* Add the gradients to the sums (see `first` of the values); and run a step of the
     * optimiser. */
    void (*accumulate)(crn_queue *queue, const crn_update *update);
    void (*update)(crn_queue *queue, const crn_update *update);
    /* squares_out becomes squares and the sum of squares of the gradient or, over micro-batches, of
     * the mean. */
    void (*add_squares)(crn_queue *queue, const crn_update *update);

    /* ---- Lanes ---- */

    /* Copy between device and host memory, on a copy lane. */
    void (*copy)(crn_queue *queue, crn_lane lane, void *to, const void *from, uint64_t bytes);
    void (*record)(crn_queue *queue, crn_lane lane, crn_event event);
    /* The lane waits for an event that was recorded before; the host does not. */
    void (*follow)(crn_queue *queue, crn_lane lane, crn_event event);
    /* Wait for all lanes. Returns the first error since the last join; `results` may be NULL. */
    CAIRN_MUST cairn_status (*join)(crn_queue *queue, crn_results *results, cairn_error *err);
    /* The time between two timed events that were recorded before the last join. */
    int64_t (*elapsed_ns)(crn_queue *queue, crn_event from, crn_event to);

    /* ---- Recording; all NULL: every step is enqueued again ---- */

    /* Whether timed events work in a recording; its actions then run one after the other. If false,
     * a timed step is not recorded. */
    bool times_recordings;
    /* The op that a recording fuses with `op` if they are neighbours and nothing else prevents it,
     * for the most frequent pairs; CAIRN_NONE: none. NULL: it fuses nothing. */
    cairn_id (*fused_before)(const cairn_graph *graph, cairn_id op);
    uint32_t copy_slowdown; /* percent: see crn_costs_set_copy_slowdown() */
    bool keeps_statistics;  /* a recording recomputes batch norms with the statistics of their first
                               run, which takes less time */
    /* Between these two calls, everything that is enqueued on any lane is recorded and not run,
     * including events. At the end of a recording the compute lane must have followed every
     * copy. */
    CAIRN_MUST cairn_status (*begin_recording)(crn_queue *queue, cairn_error *err);
    CAIRN_MUST cairn_status (*end_recording)(crn_queue *queue, crn_recording **out,
                                             cairn_error *err);
    /* As begin() with these values, then all that was recorded. At most once between two joins. */
    void (*replay)(crn_queue *queue, crn_recording *recording, const crn_values *values);
    void (*forget)(crn_queue *queue, crn_recording *recording);
} crn_backend;

/* Backend `index` of backends.def, or NULL. */
const crn_backend *crn_backend_list(uint32_t index);

/* ---- device.c: shared by all devices ---- */

/* A device is an open backend and a cache of its choices. */
typedef struct crn_choice_cache crn_choice_cache;

struct cairn_device {
    cairn_allocator allocator;
    const crn_backend *backend;
    crn_device *state; /* the backend's own */
    crn_choice_cache *choices;
    cairn_device_facts facts;
    cairn_machine machine; /* of the facts */
};

/* cairn_device_open() for a backend that need not be in the list. */
CAIRN_MUST cairn_status crn_device_open(const crn_backend *backend,
                                        const cairn_device_options *options, cairn_device **out,
                                        cairn_error *err);

/* How the device stores every tensor of the graph. */
CAIRN_MUST cairn_status crn_device_store(cairn_device *device, const cairn_graph *graph,
                                         crn_storage *out, cairn_error *err);

/* The implementations of an op, best first. The order is that of the costs that cairn_bind() makes,
 * so that `impl K` of a plan is (*out)[K]. They are valid as long as the device. */
CAIRN_MUST cairn_status crn_device_choices(cairn_device *device, const cairn_graph *graph,
                                           cairn_id op, const crn_storage *storage,
                                           const crn_choice **out, uint32_t *count,
                                           cairn_error *err);

/* ---- accesses.c: for backends that order actions by their memory accesses ---- */

/* A range of device memory that a call reads or writes. */
typedef struct crn_access {
    const void *at;
    uint64_t bytes;
    bool writes;
} crn_access;

/* All ranges that a call accesses, including its workspace, at most `most`; returns how many there
 * are. Parameters are read; state is read, and written if a `once` effect happens. */
uint32_t crn_call_accesses(const crn_call *call, crn_access *out, uint32_t most);

static inline crn_site crn_site_of(const crn_call *call) {
    return (crn_site){call->graph, call->op, call->storage,
                      call->threads == NULL ? 0 : crn_team_threads(call->threads)};
}

#endif
