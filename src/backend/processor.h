/* processor.h: shared by the backends that run on the processor.
 *
 *     memory          mapped; device and host memory are the same memory
 *     compute lane    the calling thread, with a team of threads for loops
 *     copy lanes      one thread for each (copy_lane.h), so that copies run at the same time
 *     ops             kernels: functions that run one op, listed by kind, best first
 *
 * A backend brings its list of kernels and, if it stores tensors in another form, store(). */
#ifndef CRN_PROCESSOR_H
#define CRN_PROCESSOR_H

#include "backend/backend.h"

/* ---- Kernels ---- */

typedef struct crn_kernel {
    const char *name;
    bool last_resort; /* used only if no kernel before it in the list fits */
    /* Whether it can run this op of this graph; NULL: it always can. */
    bool (*fits)(const crn_site *site);
    /* The bytes of workspace it needs; NULL: none. */
    uint64_t (*workspace)(const crn_site *site);
    /* Used instead of these two: build everything that can be built without addresses, once per
     * signature; `*out` NULL: it cannot run this op. drop() releases it. */
    CAIRN_MUST cairn_status (*build)(const crn_site *site, const cairn_allocator *allocator,
                                     void **out, uint64_t *workspace);
    void (*drop)(void *built, const cairn_allocator *allocator);
    /* Prepare what can be prepared before the first run, with all addresses known, and store it in
     * `call->state`; finish() releases it. Both NULL: there is nothing to prepare. */
    CAIRN_MUST cairn_status (*prepare)(crn_call *call, const cairn_allocator *allocator,
                                       cairn_error *err);
    void (*finish)(crn_call *call, const cairn_allocator *allocator);
    /* It reports a failure with crn_queue_fail(). */
    void (*run)(const crn_call *call);
} crn_kernel;

/* The recipe of a call. */
typedef struct crn_kernel_recipe {
    const crn_kernel *kernel;
    void *built; /* made by build() */
} crn_kernel_recipe;

/* Implementations of a kind, best first, reference last; `*count` 0: there are none. */
typedef const crn_kernel *crn_kernel_list(cairn_op_kind kind, uint32_t *count);

/* ---- Devices ---- */

/* Loops are run by `loop`; if it is NULL, on new threads of the device. */
CAIRN_MUST cairn_status crn_processor_open(const crn_device_options *options,
                                           crn_kernel_list *kernels, crn_team_loop *loop,
                                           crn_device **out, cairn_error *err);

/* Whether it was opened with CAIRN_MATH_BF16. A backend that has no bf16 refuses that itself. */
bool crn_processor_is_half(const crn_device *device);

/* Keep a failure for the next join; the first one stays. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void
crn_queue_fail(crn_queue *queue, cairn_status status, const char *format, ...);

/* Whether `label` is the likeliest of the classes whose probabilities or logits are p[0], p[step],
 * ... Of equal classes the first counts as the likeliest. If there are NaNs, no class does. */
bool crn_is_likeliest(const float *p, uint32_t classes, uint64_t step, int32_t label);

/* ---- The rest of a backend's table: start a crn_backend with CRN_PROCESSOR ---- */

uint32_t crn_processor_devices(void);
void crn_processor_close(crn_device *device);
void crn_processor_describe(crn_device *device, cairn_device_facts *out, cairn_machine *machine);
CAIRN_MUST cairn_status crn_processor_reserve(crn_device *device, crn_space space, uint64_t bytes,
                                              void **out, cairn_error *err);
void crn_processor_release(crn_device *device, crn_space space, void *memory, uint64_t bytes);
void crn_processor_protect(crn_device *device, void *at, uint64_t bytes, bool accessible);
CAIRN_MUST cairn_status crn_processor_choices(crn_device *device, const crn_site *site,
                                              crn_choice *out, uint32_t *count, cairn_error *err);
void crn_processor_drop(crn_device *device, crn_choice *choice);
CAIRN_MUST cairn_status crn_processor_queue(crn_device *device, crn_queue **out, cairn_error *err);
void crn_processor_finish_queue(crn_queue *queue);
const crn_values *crn_processor_values(crn_queue *queue);
CAIRN_MUST cairn_status crn_processor_events(crn_queue *queue, uint32_t count, bool timed,
                                             cairn_error *err);
CAIRN_MUST cairn_status crn_processor_prepare(crn_queue *queue, crn_call *call, cairn_error *err);
void crn_processor_finish(crn_queue *queue, crn_call *call);
CAIRN_MUST cairn_status crn_processor_prepare_update(crn_queue *queue, crn_update *update,
                                                     cairn_error *err);
void crn_processor_finish_update(crn_queue *queue, crn_update *update);
void crn_processor_begin(crn_queue *queue, const crn_values *values);
void crn_processor_enqueue(crn_queue *queue, const crn_call *call);
void crn_processor_fill(crn_queue *queue, void *at, uint8_t byte, uint64_t bytes);
void crn_processor_convert(crn_queue *queue, const crn_conversion *conversion);
void crn_processor_take_loss(crn_queue *queue, const void *loss);
void crn_processor_count_correct(crn_queue *queue, const crn_call *call);
void crn_processor_accumulate(crn_queue *queue, const crn_update *update);
void crn_processor_update(crn_queue *queue, const crn_update *update);
void crn_processor_add_squares(crn_queue *queue, const crn_update *update);
void crn_processor_copy(crn_queue *queue, crn_lane lane, void *to, const void *from,
                        uint64_t bytes);
void crn_processor_record(crn_queue *queue, crn_lane lane, crn_event event);
void crn_processor_follow(crn_queue *queue, crn_lane lane, crn_event event);
CAIRN_MUST cairn_status crn_processor_join(crn_queue *queue, crn_results *results,
                                           cairn_error *err);
int64_t crn_processor_elapsed_ns(crn_queue *queue, crn_event from, crn_event to);

/* clang-format off */
#define CRN_PROCESSOR                                                                              \
    .devices = crn_processor_devices, .close = crn_processor_close,                                \
    .describe = crn_processor_describe, .reserve = crn_processor_reserve,                          \
    .release = crn_processor_release, .protect = crn_processor_protect,                            \
    .choices = crn_processor_choices, .drop = crn_processor_drop,                                  \
    .queue = crn_processor_queue, .finish_queue = crn_processor_finish_queue,                      \
    .values = crn_processor_values, .events = crn_processor_events,                                \
    .prepare = crn_processor_prepare, .finish = crn_processor_finish,                              \
    .prepare_update = crn_processor_prepare_update,                                                \
    .finish_update = crn_processor_finish_update, .begin = crn_processor_begin,                    \
    .enqueue = crn_processor_enqueue, .fill = crn_processor_fill,                                  \
    .convert = crn_processor_convert, .take_loss = crn_processor_take_loss,                        \
    .count_correct = crn_processor_count_correct, .accumulate = crn_processor_accumulate,          \
    .update = crn_processor_update, .add_squares = crn_processor_add_squares, .copy = crn_processor_copy, .record = crn_processor_record,    \
    .follow = crn_processor_follow, .join = crn_processor_join,                                    \
    .elapsed_ns = crn_processor_elapsed_ns
/* clang-format on */

#endif
