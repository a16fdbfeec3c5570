/* cuda_internal.h: shared by the files of the backend.
 *
 *     cuda_loader.c    libraries            dnn_plans.c, attention_plans.c, blas_products.c    what
 *                                           they compute
 *     cuda_device.c    opening, memory      cuda_storage.c                  how tensors lie
 *     work.c           running one op: scratch, launches, staging; measuring what it needs
 *     *_ops.c          the ops, listed in cuda_ops.def; hopper_ops.c: one for GPUs of one kind
 *     cuda_queue.c     lanes, values, results
 *     cuda_record.c    a step as one graph; hazards.c orders it, cuda_fuse.c joins neighbours
 *
 * A driver is a crn_cuda_api: that of NVIDIA, or one that runs on the processor, for tests. The
 * second has neither cuDNN nor cuBLASLt; Cairn's own kernels replace them. */
#ifndef CUDA_INTERNAL_H
#define CUDA_INTERNAL_H

#include "backend/backend.h"
#include "backend/cuda/attention_plans.h"
#include "backend/cuda/blas_products.h"
#include "backend/cuda/cuda_abi.h"
#include "backend/cuda/dnn_plans.h"
#include "backend/cuda/kernels.h"

/* kernels.h is also compiled by nvcc, which does not read backend.h: it has a copy of crn_values.
 */
#define CRN_SAME_VALUE(field)                                                                      \
    _Static_assert(offsetof(crn_values, field) == offsetof(crn_step_values, field) &&              \
                       sizeof(((crn_values *)0)->field) == sizeof(((crn_step_values *)0)->field),  \
                   "crn_step_values differs from crn_values");
CRN_SAME_VALUE(seed)
CRN_SAME_VALUE(step)
CRN_SAME_VALUE(rate)
CRN_SAME_VALUE(keep)
CRN_SAME_VALUE(step_size)
CRN_SAME_VALUE(root_correction)
CRN_SAME_VALUE(gathered)
CRN_SAME_VALUE(first)
CRN_SAME_VALUE(reserved)
#undef CRN_SAME_VALUE
_Static_assert(sizeof(crn_values) == sizeof(crn_step_values),
               "crn_step_values differs from crn_values");

#define CRN_HOPPER_KERNELS 6u
#define CRN_TICKETS 1024u      /* counters that the launches of one op may use */
#define CRN_TICKET_BLOCKS 512u /* blocks of counters, 2 MiB in all; ops use them in turn */

/* ---- The device ---- */

typedef enum crn_cuda_stage { /* when memory that executors did not reserve is measured */
                              CRN_STAGE_CONTEXT,
                              CRN_STAGE_LIBRARIES,
                              CRN_STAGE_KERNELS,
                              CRN_STAGE_PLANS,
                              CRN_STAGE_GRAPHS,
                              CRN_STAGES
} crn_cuda_stage;

struct crn_device {
    cairn_allocator allocator;
    const crn_cuda_api *api;
    crn_cuda_api loaded; /* `api` points to it, except in tests */
    CUdevice ordinal;
    CUcontext context;
    CUlibrary library;
    CUkernel kernels[CRN_KERNELS];
    struct {
        CUlibrary library; /* NULL: another GPU, or a build without these kernels */
        CUkernel kernels[CRN_HOPPER_KERNELS];
        uint32_t units; /* multiprocessors */
    } hopper;
    CUstream streams[CRN_LANES];
    crn_dnn dnn; /* handle NULL: there is none */
    cublasLtHandle_t blas;
    bool exact; /* products in full fp32 */
    bool half;  /* images are stored as bf16 */
    uint32_t *tickets;
    uint32_t next_ticket;
    uint64_t reserved; /* bytes that are reserved now */
    uint64_t outside[CRN_STAGES];
    cairn_status failed; /* the first failure since the last join */
    char failure[256];
};

/* Keep the first failure of a call of the driver, of cuDNN or of cuBLASLt; true: success. */
bool crn_cuda_ok(crn_device *device, int result, const char *what);
bool crn_cuda_dnn_ok(crn_device *device, int result, const char *what);
bool crn_cuda_blas_ok(crn_device *device, int result, const char *what);
/* Keep an error as the first failure, if it is; false. */
bool crn_cuda_keep(crn_device *device, const cairn_error *err);
/* Return the first failure and clear it. */
cairn_status crn_cuda_take_failure(crn_device *device, cairn_error *err);

/* Measure how much memory is in use besides what is reserved. */
void crn_cuda_look(crn_device *device, crn_cuda_stage stage);

/* Open a device on this driver; NULL: on that of NVIDIA. */
CAIRN_MUST cairn_status crn_cuda_open_on(const crn_cuda_api *api, const crn_device_options *options,
                                         crn_device **out, cairn_error *err);
void crn_cuda_close(crn_device *device);
void crn_cuda_describe(crn_device *device, cairn_device_facts *out, cairn_machine *machine);
const char *crn_cuda_outside(crn_device *device, uint32_t index, uint64_t *bytes);
CAIRN_MUST cairn_status crn_cuda_reserve(crn_device *device, crn_space space, uint64_t bytes,
                                         void **out, cairn_error *err);
void crn_cuda_release(crn_device *device, crn_space space, void *memory, uint64_t bytes);

/* ---- cuda_storage.c ---- */

CAIRN_MUST cairn_status crn_cuda_store(crn_device *device, const cairn_graph *graph,
                                       crn_storage *out, cairn_error *err);

/* ---- work.c: one op ---- */

#define CRN_MOST_PRODUCTS 4

typedef struct crn_cuda_recipe {
    uint64_t workspace;
    crn_dnn_plan plan; /* of a convolution or attention; plan NULL: Cairn's own kernels */
    crn_attention_shape attention; /* what one run of the plan does */
    bool hopper;                   /* by the kernels for compute capability 9.0 */
    struct {
        crn_blas_shape shape;
        crn_blas_plan plan;
    } products[CRN_MOST_PRODUCTS];
    uint32_t product_count;
    uint32_t rank;   /* which of cuBLASLt's proposals its products use */
    uint32_t chunks; /* of a head_loss */
    uint32_t split;  /* 1 + the tile of a convolution in fp32 by matrix units; 0: by others */
} crn_cuda_recipe;

/* An op first runs with `preparing`, without addresses: then nothing is launched, scratch memory is
 * added up and products are prepared. */
typedef struct crn_work {
    crn_device *device;
    const crn_call *call;
    crn_cuda_recipe *recipe;
    bool preparing;
    uint64_t used; /* of the workspace */
    void *side;    /* for the sums of a fused op whose workspace overlaps what it reads, or NULL */
    const float *beta;  /* see crn_cuda_action */
    float *kept;        /* likewise */
    float *column_sums; /* likewise */
    bool bias_made;     /* likewise */
    uint32_t *tickets;
} crn_work;

/* How an op runs. */
typedef void crn_cuda_op(crn_work *work);
#define X(kind, function) crn_cuda_op crn_cuda_##function;
#include "backend/cuda/cuda_ops.def"
#undef X

crn_cuda_op *crn_cuda_op_of(cairn_op_kind kind); /* NULL: there is none */

/* Implementations: cuda_choices.c. */
CAIRN_MUST cairn_status crn_cuda_choices(crn_device *device, const crn_site *site, crn_choice *out,
                                         uint32_t *count, cairn_error *err);
void crn_cuda_drop(crn_device *device, crn_choice *choice);

/* The convolution of an op as cuDNN's shape; false: cuDNN cannot do it. `offset`: elements from the
 * start of x to the first one that the convolution reads. */
bool crn_cuda_conv_shape(const crn_site *site, bool exact, crn_dnn_shape *out, uint64_t *offset);

/* Attention: the shape of an op, false: it is another; and whether cuDNN may do it. */
bool crn_cuda_attention_shape(const crn_site *site, crn_attention_shape *out);
bool crn_cuda_attention_by_dnn(const crn_device *device, const crn_site *site,
                               const crn_attention_shape *shape);

/* ---- hopper_ops.c: kernels for compute capability 9.0 ---- */

/* Load them if the GPU is of this kind; returns a result of the driver. */
int crn_hopper_open(crn_device *device);
/* Whether they can do this gradient of attention; and do it. */
bool crn_hopper_can(const crn_device *device, const crn_site *site,
                    const crn_attention_shape *shape);
void crn_hopper_attention_bwd(crn_work *work, const crn_attention_shape *shape);

/* Whether the convolution is computed as a product by cuBLASLt, over unfolded images if need be. */
bool crn_cuda_multiplies(const crn_device *device, const crn_site *site);

/* Whether the convolution is one in fp32 that Cairn's kernels for matrix units can do with a tile.
 */
bool crn_cuda_splits(const crn_device *device, const crn_site *site, uint32_t tile);

/* Whether an op is a convolution with one filter per channel that Cairn's own kernels can do. */
bool crn_cuda_is_depthwise(const crn_site *site);

/* ---- Operands ---- */

static inline const cairn_tensor *crn_cuda_tensor(const crn_work *work, cairn_id tensor) {
    return cairn_graph_tensor(work->call->graph, tensor);
}

static inline const void *crn_cuda_in(const crn_work *work, uint32_t index) {
    return work->preparing ? NULL : work->call->inputs[index];
}

/* NULL: it is not computed, or the work is preparing. */
static inline void *crn_cuda_out(const crn_work *work, uint32_t index) {
    return work->preparing || index >= work->call->op->output_count ? NULL
                                                                    : work->call->outputs[index];
}

static inline bool crn_cuda_wants(const crn_work *work, uint32_t index) {
    const cairn_op *op = work->call->op;
    return index < op->output_count && op->outputs[index] != CAIRN_NONE &&
           (work->preparing || work->call->outputs[index] != NULL);
}

/* An input, for a field of arguments that other kernels write through. */
static inline void *crn_cuda_writable(const void *at) {
    union {
        const void *given;
        void *taken;
    } address = {at};
    return address.taken;
}

static inline void *crn_cuda_param(const crn_work *work, uint32_t index) {
    return work->preparing || index >= work->call->op->param_count ? NULL
                                                                   : work->call->params[index];
}

/* The element type of the images of an op: bf16 if one of its operands is stored so. Tensors that
 * are stored plain are fp32; as operands of such an op they are staged. */
crn_element crn_cuda_element(const crn_site *site);

static inline uint32_t crn_cuda_size(crn_element element) {
    return element == CRN_ELEMENT_BF16 ? 2 : 4;
}

/* A tensor as rows of channels: [N, H, W] rows of an image, or [N] rows of a matrix. */
typedef struct crn_view {
    void *at;
    uint32_t batch, height, width, channels, pitch;
    uint32_t rows;  /* batch * height * width */
    uint32_t plane; /* height * width */
    crn_element element;
    bool staged; /* it is in the workspace, because the tensor is stored plain */
} crn_view;

/* In the arguments of kernels: a window with the attributes `a` that slides over the image `large`
 * and has a place for each pixel of `small`. */
#define CRN_WINDOW_OF(large, small, a)                                                             \
    .element = (large)->element, .batch = (large)->batch, .channels = (large)->channels,           \
    .height = (large)->height, .width = (large)->width, .small_height = (small)->height,           \
    .small_width = (small)->width, .kernel = {(a)->kernel[0], (a)->kernel[1]},                     \
    .stride = {(a)->stride[0], (a)->stride[1]}, .pad = {(a)->pad[0], (a)->pad[1]}

crn_view crn_cuda_view(const crn_site *site, cairn_id tensor);

/* Operands as images. One that is stored plain is converted in the workspace: an input at once, an
 * output by crn_cuda_view_done(). */
crn_view crn_cuda_view_in(crn_work *work, uint32_t index);
crn_view crn_cuda_view_out(crn_work *work, uint32_t index);
void crn_cuda_view_done(crn_work *work, uint32_t index, const crn_view *image);
/* The opposite, for ops that need plain operands. */
void *crn_cuda_plain_in(crn_work *work, uint32_t index);
void *crn_cuda_plain_out(crn_work *work, uint32_t index);
void crn_cuda_plain_done(crn_work *work, uint32_t index, void *plain);

/* The number of stored elements, including padding. */
static inline uint64_t crn_cuda_elements(const crn_work *work, cairn_id tensor) {
    const crn_storage *storage = &work->call->storage[tensor];
    return storage->bytes / (storage->type == CRN_BF16 ? 2 : 4);
}

/* ---- Running ---- */

void *crn_cuda_scratch(crn_work *work, uint64_t bytes); /* 64-byte aligned; NULL when preparing */
void *crn_cuda_library_scratch(crn_work *work,
                               uint64_t bytes); /* aligned as libraries require it */
uint32_t *crn_cuda_tickets(const crn_work *work);
void crn_cuda_launch(crn_work *work, crn_launch launch, const void *args);
void crn_cuda_zero(crn_work *work, void *at, uint64_t bytes); /* a multiple of 4 */
void crn_cuda_to_element(crn_work *work, const void *from, crn_element from_element, void *to,
                         crn_element to_element, uint64_t count);

/* x [rows, in], w [out, in], y [rows, out]: see blas_products.h. */
void crn_cuda_multiply(crn_work *work, const crn_blas_shape *shape, const void *x, const void *w,
                       const void *y, bool add);

/* The same for y = x w' + bias, by cuBLASLt; false: it cannot, and nothing was done. */
bool crn_cuda_multiply_with_bias(crn_work *work, const crn_blas_shape *shape, const void *x,
                                 const void *w, const void *y, const void *bias);

/* sums[c] = sum of the rows of gy. With `gate`, gy is the output of that relu_bwd or gelu_bwd,
 * which is computed and written here too. */
void crn_cuda_column_sums(crn_work *work, const crn_view *gy, float *sums, const crn_call *gate);
uint64_t crn_cuda_column_sums_bytes(const crn_view *gy);

/* How often the label was the likeliest class, after a cross-entropy in its workspace. */
void crn_cuda_count_hits(crn_work *work, uint64_t *correct);
void crn_cuda_count_token_hits(crn_work *work, uint64_t *correct);

/* Fused ops (cuda_fuse.c finds them); the calls besides the work's own may be NULL. */
void crn_cuda_norm_with(crn_work *work, const crn_call *add, const crn_call *relu);
void crn_cuda_norm_bwd_with(crn_work *work, const crn_call *accumulate, const crn_call *relu,
                            const crn_call *sum);
void crn_cuda_conv_with(crn_work *work, const crn_call *relu);
void crn_cuda_conv_bwd_weight_with(crn_work *work, const crn_call *relu);
void crn_cuda_linear_bwd_weight_with(crn_work *work, const crn_call *gelu);
void crn_cuda_pointwise_with(crn_work *work, const crn_call *relu);
void crn_cuda_relu_bwd_with(crn_work *work, const crn_call *accumulate);
void crn_cuda_row_norm_with(crn_work *work, const crn_call *add);
void crn_cuda_row_norm_bwd_with(crn_work *work, const crn_call *sum);

/* ---- The queue ---- */

typedef struct crn_cuda_results {
    uint64_t correct;
    float loss;
    uint32_t unused;
} crn_cuda_results;

/* What a recorded step reads from the host and writes to it. */
typedef struct crn_cuda_host {
    crn_values values;
    crn_cuda_results results;
} crn_cuda_host;

struct crn_queue {
    crn_device *device;
    crn_values *values;        /* device */
    crn_cuda_results *results; /* device */
    crn_cuda_host *host;       /* pinned */
    void *staging;             /* device: plain rows during a conversion */
    uint64_t staging_bytes;
    CUevent *events;
    uint32_t event_count;
    bool timed;            /* the events are timed */
    bool seen;             /* the copy of the results to the host is already queued */
    uint64_t predictions;  /* counted since begin() */
    crn_recording *noting; /* NULL: actions run; else they are recorded */
};

/* ---- Actions: what can be enqueued ---- */

typedef enum crn_action_kind {
    CRN_DO_CALL,
    CRN_DO_FILL,
    CRN_DO_COPY,
    CRN_DO_LOSS,
    CRN_DO_COUNT,
    CRN_DO_BEGIN,   /* in a recording: values from the host, results become zero */
    CRN_DO_RESULTS, /* in a recording: results to the host */
    CRN_DO_ACCUMULATE,
    CRN_DO_UPDATE,
    CRN_DO_SQUARES,
    CRN_DO_EVENT,   /* in a recording: record a time */
    CRN_DO_DISCARD, /* in a recording: the bytes are dead */
    CRN_DO_NOTHING  /* in a recording: it was fused with another */
} crn_action_kind;

typedef struct crn_cuda_action {
    uint8_t kind, lane;
    uint8_t byte;    /* fill */
    uint32_t ticket; /* block of tickets */
    crn_event event; /* CRN_DO_EVENT */
    crn_call call;
    const crn_update *update;
    void *to;
    const void *from;
    uint64_t bytes;
    uint64_t scratch_bytes;   /* needed outside the arena, because the workspace overlaps what
                                 neighbours read */
    void *side;               /* that memory, if it does not replace the workspace */
    const crn_call *fused[3]; /* neighbours that are fused with the call, see *_with() */
    /* batch_norm_bwd fused with a relu_bwd: the mask of the ReLU is computed from x and this bias
     * of the batch-norm, and the output of the relu_bwd is not written. NULL: it is written. */
    const float *beta;
    /* batch_norm: its statistics [2, C] outside the arena, which the first run in a step keeps for
     * later ones. NULL: there are no later ones. */
    float *kept;
    /* layer_norm_bwd, rms_norm_bwd: the columns of the result are summed up there (`bytes`), which
     * is the gradient of the bias of a later linear layer, whose action knows that it is made. */
    float *column_sums;
    bool bias_made;
} crn_cuda_action;

/* Run an action now, or, while a stream is captured, add it to the graph; then everything is on the
 * compute lane. */
void crn_cuda_perform(crn_queue *queue, const crn_cuda_action *action);

void crn_cuda_do_update(crn_queue *queue, const crn_cuda_action *action);
CAIRN_MUST cairn_status crn_cuda_prepare_update(crn_queue *queue, crn_update *update,
                                                cairn_error *err);
void crn_cuda_finish_update(crn_queue *queue, crn_update *update);

/* ---- cuda_record.c ---- */

CAIRN_MUST cairn_status crn_cuda_begin_recording(crn_queue *queue, cairn_error *err);
CAIRN_MUST cairn_status crn_cuda_end_recording(crn_queue *queue, crn_recording **out,
                                               cairn_error *err);
void crn_cuda_replay(crn_queue *queue, crn_recording *recording, const crn_values *values);
void crn_cuda_forget(crn_queue *queue, crn_recording *recording);
/* Add an action to the recording. end_recording reports if memory ran out. */
void crn_cuda_note(crn_queue *queue, const crn_cuda_action *action);

/* Fuse neighbours in a list of actions. */
void crn_cuda_fuse(crn_cuda_action *actions, uint32_t count);

/* ---- cuda_queue.c ---- */

CAIRN_MUST cairn_status crn_cuda_queue(crn_device *device, crn_queue **out, cairn_error *err);
void crn_cuda_finish_queue(crn_queue *queue);
const crn_values *crn_cuda_values(crn_queue *queue);
CAIRN_MUST cairn_status crn_cuda_events(crn_queue *queue, uint32_t count, bool timed,
                                        cairn_error *err);
void crn_cuda_begin(crn_queue *queue, const crn_values *values);
void crn_cuda_enqueue(crn_queue *queue, const crn_call *call);
void crn_cuda_fill(crn_queue *queue, void *at, uint8_t byte, uint64_t bytes);
void crn_cuda_discard(crn_queue *queue, void *at, uint64_t bytes);
void crn_cuda_convert(crn_queue *queue, const crn_conversion *conversion);
void crn_cuda_take_loss(crn_queue *queue, const void *loss);
void crn_cuda_count_correct(crn_queue *queue, const crn_call *call);
void crn_cuda_accumulate(crn_queue *queue, const crn_update *update);
void crn_cuda_update(crn_queue *queue, const crn_update *update);
void crn_cuda_add_squares(crn_queue *queue, const crn_update *update);
void crn_cuda_copy(crn_queue *queue, crn_lane lane, void *to, const void *from, uint64_t bytes);
void crn_cuda_record(crn_queue *queue, crn_lane lane, crn_event event);
void crn_cuda_follow(crn_queue *queue, crn_lane lane, crn_event event);
CAIRN_MUST cairn_status crn_cuda_join(crn_queue *queue, crn_results *results, cairn_error *err);
int64_t crn_cuda_elapsed_ns(crn_queue *queue, crn_event from, crn_event to);

cairn_id crn_cuda_fused_before(const cairn_graph *graph, cairn_id op);

/* Whether the gradient of a linear layer's bias is the sum of the columns of what a norm's backward
 * makes. Then it is always added up in the same order, also where the two are not fused. */
bool crn_cuda_bias_behind_norm(const cairn_graph *graph, const cairn_op *op);

/* Ops beside copies are slower, and copies wait for ops that run side by side: a measured step with
 * copies was 7% longer than simulated (bench/gpu/results/h200-a59b790.log, link:0.75). */
#define CRN_CUDA_COPY_SLOWDOWN 5

/* ---- cuda_context.c ---- */

/* Make the device's context the current one of this thread; returns the one before it. */
CUcontext crn_cuda_enter(crn_device *device);
void crn_cuda_leave(crn_device *device, CUcontext before);

/* The functions of the backend's table that call the driver or a library: ACTION(name, device,
 * parameters, arguments) returns nothing, ANSWER(type, ...) does. */
/* clang-format off */
#define CRN_CUDA_TABLE(ACTION, ANSWER)                                                             \
    ACTION(describe, device, (crn_device *device, cairn_device_facts *out, cairn_machine *machine),\
           (device, out, machine))                                                                 \
    ANSWER(cairn_status, reserve, device, (crn_device *device, crn_space space, uint64_t bytes,    \
           void **out, cairn_error *err), (device, space, bytes, out, err))                        \
    ACTION(release, device, (crn_device *device, crn_space space, void *memory, uint64_t bytes),   \
           (device, space, memory, bytes))                                                         \
    ANSWER(cairn_status, choices, device, (crn_device *device, const crn_site *site,               \
           crn_choice *out, uint32_t *count, cairn_error *err), (device, site, out, count, err))   \
    ACTION(drop, device, (crn_device *device, crn_choice *choice), (device, choice))               \
    ANSWER(cairn_status, queue, device, (crn_device *device, crn_queue **out, cairn_error *err),   \
           (device, out, err))                                                                     \
    ACTION(finish_queue, queue->device, (crn_queue *queue), (queue))                               \
    ANSWER(cairn_status, events, queue->device, (crn_queue *queue, uint32_t count, bool timed,     \
           cairn_error *err), (queue, count, timed, err))                                          \
    ANSWER(cairn_status, prepare_update, queue->device, (crn_queue *queue, crn_update *update,     \
           cairn_error *err), (queue, update, err))                                                \
    ACTION(finish_update, queue->device, (crn_queue *queue, crn_update *update), (queue, update))  \
    ACTION(begin, queue->device, (crn_queue *queue, const crn_values *values), (queue, values))    \
    ACTION(enqueue, queue->device, (crn_queue *queue, const crn_call *call), (queue, call))        \
    ACTION(fill, queue->device, (crn_queue *queue, void *at, uint8_t byte, uint64_t bytes),        \
           (queue, at, byte, bytes))                                                               \
    ACTION(discard, queue->device, (crn_queue *queue, void *at, uint64_t bytes),                   \
           (queue, at, bytes))                                                                     \
    ACTION(convert, queue->device, (crn_queue *queue, const crn_conversion *conversion),           \
           (queue, conversion))                                                                    \
    ACTION(take_loss, queue->device, (crn_queue *queue, const void *loss), (queue, loss))          \
    ACTION(count_correct, queue->device, (crn_queue *queue, const crn_call *call), (queue, call))  \
    ACTION(accumulate, queue->device, (crn_queue *queue, const crn_update *update),                \
           (queue, update))                                                                        \
    ACTION(update, queue->device, (crn_queue *queue, const crn_update *update), (queue, update))   \
    ACTION(add_squares, queue->device, (crn_queue *queue, const crn_update *update),               \
           (queue, update))                                                                        \
    ACTION(copy, queue->device, (crn_queue *queue, crn_lane lane, void *to, const void *from,      \
           uint64_t bytes), (queue, lane, to, from, bytes))                                        \
    ACTION(record, queue->device, (crn_queue *queue, crn_lane lane, crn_event event),              \
           (queue, lane, event))                                                                   \
    ACTION(follow, queue->device, (crn_queue *queue, crn_lane lane, crn_event event),              \
           (queue, lane, event))                                                                   \
    ANSWER(cairn_status, join, queue->device, (crn_queue *queue, crn_results *results,             \
           cairn_error *err), (queue, results, err))                                               \
    ANSWER(int64_t, elapsed_ns, queue->device, (crn_queue *queue, crn_event from, crn_event to),   \
           (queue, from, to))                                                                      \
    ANSWER(cairn_status, begin_recording, queue->device, (crn_queue *queue, cairn_error *err),     \
           (queue, err))                                                                           \
    ANSWER(cairn_status, end_recording, queue->device, (crn_queue *queue, crn_recording **out,     \
           cairn_error *err), (queue, out, err))                                                   \
    ACTION(replay, queue->device, (crn_queue *queue, crn_recording *recording,                     \
           const crn_values *values), (queue, recording, values))                                  \
    ACTION(forget, queue->device, (crn_queue *queue, crn_recording *recording), (queue, recording))
/* clang-format on */
#define CRN_ACTION(name, of, parameters, arguments) void crn_cuda_within_##name parameters;
#define CRN_ANSWER(type, name, of, parameters, arguments) type crn_cuda_within_##name parameters;
CRN_CUDA_TABLE(CRN_ACTION, CRN_ANSWER)
#undef CRN_ACTION
#undef CRN_ANSWER
void crn_cuda_within_close(crn_device *device);

/* All of a backend except its name, its summary and how it is opened. */
#define CRN_CUDA_ACTION(name, of, parameters, arguments) .name = crn_cuda_within_##name,
#define CRN_CUDA_ANSWER(type, name, of, parameters, arguments) .name = crn_cuda_within_##name,
#define CRN_CUDA_FUNCTIONS                                                                         \
    CRN_CUDA_TABLE(CRN_CUDA_ACTION, CRN_CUDA_ANSWER).close = crn_cuda_within_close,                \
                                    .outside = crn_cuda_outside, .store = crn_cuda_store,          \
                                    .values = crn_cuda_values,                                     \
                                    .fused_before = crn_cuda_fused_before,                         \
                                    .copy_slowdown = CRN_CUDA_COPY_SLOWDOWN,                       \
                                    .keeps_statistics = true, .times_recordings = true

#endif
