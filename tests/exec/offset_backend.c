/* offset_backend.c: see test_backends.h.
 *
 * An address of device memory is that of the inner backend with one more bit set, which no real
 * address has. A lane is a list of queued actions. A join runs the lists:
 *
 *     late     runs compute from its beginning, a copy when compute follows it, other copies last
 *     early    runs copies from their beginning, compute up to where a copy follows it, the rest
 *              last
 *
 * A step can be recorded: its actions are kept in order, and a replay queues them again. */
#include "cuda/fake_driver.h"
#include "exec/test_backends.h"

#include <assert.h>

#define SHIFT ((uintptr_t)1 << 55)
#define MOST_ACTIONS 65536u

typedef enum action_kind {
    BEGIN,
    ENQUEUE,
    FILL,
    DISCARD,
    CONVERT,
    TAKE_LOSS,
    COUNT_CORRECT,
    ACCUMULATE,
    UPDATE,
    ADD_SQUARES,
    COPY,
    RECORD,
    FOLLOW
} action_kind;

typedef struct action {
    action_kind kind;
    crn_queue *queue;
    crn_lane lane;
    crn_event event;
    crn_lane after_lane; /* of a follow: it waits for the first `after` actions of this lane */
    uint32_t after;
    void *to;
    const void *from; /* or a call or an update */
    uint64_t bytes;
    uint8_t byte;
    crn_values values;
    crn_conversion conversion;
} action;

typedef struct lane_list {
    action *actions;
    uint32_t count, done;
} lane_list;

struct crn_recording {
    action *actions;
    uint32_t count;
};

struct crn_device {
    cairn_allocator allocator;
    const crn_backend *inner;
    crn_device *state;
    bool early;
    lane_list lanes[CRN_LANES];
    crn_recording *recording; /* not NULL while recording: actions are added to it */
};

struct crn_queue {
    crn_device *device;
    crn_queue *inner;
    crn_values *values; /* not in device memory, but its address is shifted too */
    crn_lane *event_lanes;
    uint32_t *event_places;
    uint32_t event_count;
};

static void *shifted(void *address) {
    return address == NULL ? NULL : (void *)((uintptr_t)address + SHIFT);
}

static void *real(const void *address) {
    assert(address == NULL || ((uintptr_t)address & SHIFT) != 0); /* it must be device memory */
    return address == NULL ? NULL : (void *)((uintptr_t)address - SHIFT);
}

/* ---- Devices ---- */

static uint32_t devices(void) {
    return 1;
}

static void close_device(crn_device *device) {
    if (device == NULL)
        return;
    cairn_allocator allocator = device->allocator;
    for (int i = 0; i < CRN_LANES; i++) {
        assert(device->lanes[i].done == device->lanes[i].count);
        if (device->lanes[i].actions != NULL)
            crn_resize(&allocator, device->lanes[i].actions, MOST_ACTIONS * sizeof(action), 0);
    }
    if (device->state != NULL)
        device->inner->close(device->state);
    crn_resize(&allocator, device, sizeof *device, 0);
}

static cairn_status open_over(const crn_backend *inner, bool early,
                              const crn_device_options *options, crn_device **out,
                              cairn_error *err) {
    cairn_allocator allocator = crn_allocator_or_default(&options->allocator);
    crn_device *device = crn_resize(&allocator, NULL, 0, sizeof *device);
    *out = NULL;
    if (device == NULL)
        return crn_fail_memory(err);
    *device = (crn_device){.allocator = allocator, .inner = inner, .early = early};
    cairn_status status = CAIRN_OK;
    for (int i = 0; i < CRN_LANES && status == CAIRN_OK; i++) {
        device->lanes[i].actions = crn_resize(&allocator, NULL, 0, MOST_ACTIONS * sizeof(action));
        if (device->lanes[i].actions == NULL)
            status = crn_fail_memory(err);
    }
    if (status == CAIRN_OK)
        status = inner->open(options, &device->state, err);
    if (status != CAIRN_OK)
        close_device(device);
    else
        *out = device;
    return status;
}

static void describe(crn_device *device, cairn_device_facts *out, cairn_machine *machine) {
    device->inner->describe(device->state, out, machine);
    out->separate_memory = true;
}

static cairn_status reserve(crn_device *device, crn_space space, uint64_t bytes, void **out,
                            cairn_error *err) {
    CRN_TRY(device->inner->reserve(device->state, space, bytes, out, err));
    if (space == CRN_SPACE_DEVICE)
        *out = shifted(*out);
    return CAIRN_OK;
}

static void release(crn_device *device, crn_space space, void *region, uint64_t bytes) {
    device->inner->release(device->state, space, space == CRN_SPACE_DEVICE ? real(region) : region,
                           bytes);
}

static cairn_status store(crn_device *device, const cairn_graph *graph, crn_storage *out,
                          cairn_error *err) {
    const crn_backend *inner = device->inner;
    return inner->store == NULL ? CAIRN_OK : inner->store(device->state, graph, out, err);
}

static cairn_status choices(crn_device *device, const crn_site *site, crn_choice *out,
                            uint32_t *count, cairn_error *err) {
    return device->inner->choices(device->state, site, out, count, err);
}

static void drop(crn_device *device, crn_choice *choice) {
    device->inner->drop(device->state, choice);
}

/* ---- Queues ---- */

static void *take(crn_queue *queue, size_t bytes) {
    void *memory = crn_resize(&queue->device->allocator, NULL, 0, bytes);
    if (memory != NULL)
        memset(memory, 0, bytes);
    return memory;
}

static void give(crn_queue *queue, void *memory, size_t bytes) {
    if (memory != NULL)
        crn_resize(&queue->device->allocator, memory, bytes, 0);
}

static void release_events(crn_queue *queue) {
    give(queue, queue->event_lanes, queue->event_count * sizeof *queue->event_lanes);
    give(queue, queue->event_places, queue->event_count * sizeof *queue->event_places);
    queue->event_lanes = NULL;
    queue->event_places = NULL;
    queue->event_count = 0;
}

static void finish_queue(crn_queue *queue) {
    crn_device *device = queue->device;
    release_events(queue);
    if (queue->inner != NULL)
        device->inner->finish_queue(queue->inner);
    crn_resize(&device->allocator, queue, sizeof *queue, 0);
}

static cairn_status create_queue(crn_device *device, crn_queue **out, cairn_error *err) {
    crn_queue *queue = crn_resize(&device->allocator, NULL, 0, sizeof *queue);
    *out = NULL;
    if (queue == NULL)
        return crn_fail_memory(err);
    *queue = (crn_queue){.device = device};
    cairn_status status = device->inner->queue(device->state, &queue->inner, err);
    if (status != CAIRN_OK)
        finish_queue(queue);
    else
        *out = queue;
    return status;
}

static const crn_values *values(crn_queue *queue) {
    return shifted((void *)(uintptr_t)queue->device->inner->values(queue->inner));
}

static cairn_status events(crn_queue *queue, uint32_t count, bool timed, cairn_error *err) {
    release_events(queue);
    if (count == 0)
        return CAIRN_OK;
    queue->event_lanes = take(queue, count * sizeof *queue->event_lanes);
    queue->event_places = take(queue, count * sizeof *queue->event_places);
    queue->event_count = count;
    if (queue->event_lanes == NULL || queue->event_places == NULL)
        return crn_fail_memory(err);
    return queue->device->inner->events(queue->inner, count, timed, err);
}

/* ---- Calls and updates, with the inner backend's addresses ---- */

typedef struct real_call {
    crn_call call;
    size_t bytes; /* of all this */
    void *addresses[];
} real_call;

static cairn_status prepare(crn_queue *queue, crn_call *call, cairn_error *err) {
    const cairn_op *op = call->op;
    size_t count = op->input_count + op->output_count + op->param_count;
    size_t bytes = sizeof(real_call) + count * sizeof(void *);
    real_call *own = take(queue, bytes);
    if (own == NULL)
        return crn_fail_memory(err);
    void **at = own->addresses;
    own->bytes = bytes;
    own->call = *call;
    own->call.inputs = (const void *const *)at;
    for (uint32_t i = 0; i < op->input_count; i++)
        *at++ = real(call->inputs[i]);
    own->call.outputs = at;
    for (uint32_t i = 0; i < op->output_count; i++)
        *at++ = real(call->outputs[i]);
    own->call.params = at;
    for (uint32_t i = 0; i < op->param_count; i++)
        *at++ = real(call->params[i]);
    own->call.workspace = real(call->workspace);
    own->call.values = real(call->values);
    own->call.queue = queue->inner;
    call->state = own;
    cairn_status status = queue->device->inner->prepare(queue->inner, &own->call, err);
    if (status != CAIRN_OK) {
        give(queue, own, bytes);
        call->state = NULL;
    }
    return status;
}

static void finish(crn_queue *queue, crn_call *call) {
    real_call *own = call->state;
    if (own == NULL)
        return;
    queue->device->inner->finish(queue->inner, &own->call);
    give(queue, own, own->bytes);
    call->state = NULL;
}

typedef struct real_update {
    crn_update update;
    crn_parameter parameters[];
} real_update;

static size_t update_bytes(const crn_update *update) {
    return sizeof(real_update) + update->count * sizeof(crn_parameter);
}

static cairn_status prepare_update(crn_queue *queue, crn_update *update, cairn_error *err) {
    real_update *own = take(queue, update_bytes(update));
    if (own == NULL)
        return crn_fail_memory(err);
    own->update = *update;
    own->update.parameters = own->parameters;
    own->update.squares = real(update->squares);
    own->update.squares_out = real(update->squares_out);
    for (uint32_t i = 0; i < update->count; i++) {
        crn_parameter *p = &own->parameters[i];
        *p = update->parameters[i];
        p->value = real(p->value);
        p->gradient = real(p->gradient);
        for (int slot = 0; slot < CRN_MOST_SLOTS; slot++)
            p->slots[slot] = real(p->slots[slot]);
    }
    cairn_status status = queue->device->inner->prepare_update(queue->inner, &own->update, err);
    update->state = own;
    if (status != CAIRN_OK) {
        give(queue, own, update_bytes(update));
        update->state = NULL;
    }
    return status;
}

static void finish_update(crn_queue *queue, crn_update *update) {
    real_update *own = update->state;
    if (own == NULL)
        return;
    queue->device->inner->finish_update(queue->inner, &own->update);
    give(queue, own, update_bytes(update));
    update->state = NULL;
}

/* ---- Queueing ---- */

static void ask(crn_queue *queue, action asked) {
    crn_device *device = queue->device;
    asked.queue = queue;
    if (device->recording != NULL) {
        assert(device->recording->count < MOST_ACTIONS);
        device->recording->actions[device->recording->count++] = asked;
        return;
    }
    lane_list *list = &device->lanes[asked.lane];
    assert(list->count < MOST_ACTIONS);
    list->actions[list->count++] = asked;
    if (asked.kind == RECORD) {
        queue->event_lanes[asked.event] = asked.lane;
        queue->event_places[asked.event] = list->count;
    } else if (asked.kind == FOLLOW) {
        action *last = &list->actions[list->count - 1];
        last->after_lane = queue->event_lanes[asked.event];
        last->after = queue->event_places[asked.event];
    }
}

static void begin(crn_queue *queue, const crn_values *with) {
    assert(queue->device->recording == NULL);
    ask(queue, (action){.kind = BEGIN, .values = *with});
}

static void enqueue(crn_queue *queue, const crn_call *call) {
    ask(queue, (action){.kind = ENQUEUE, .from = call});
}

static void fill(crn_queue *queue, void *at, uint8_t byte, uint64_t bytes) {
    ask(queue, (action){.kind = FILL, .to = real(at), .byte = byte, .bytes = bytes});
}

/* Memory that nothing may read any more is filled with NaNs. */
static void discard(crn_queue *queue, void *at, uint64_t bytes) {
    ask(queue, (action){.kind = DISCARD, .to = real(at), .byte = 0xff, .bytes = bytes});
}

static void convert(crn_queue *queue, const crn_conversion *conversion) {
    assert(queue->device->recording == NULL);
    action asked = {.kind = CONVERT, .conversion = *conversion};
    asked.conversion.stored = real(conversion->stored);
    ask(queue, asked);
}

static void take_loss(crn_queue *queue, const void *loss) {
    ask(queue, (action){.kind = TAKE_LOSS, .from = real(loss)});
}

static void count_correct(crn_queue *queue, const crn_call *call) {
    ask(queue, (action){.kind = COUNT_CORRECT, .from = call});
}

static void accumulate(crn_queue *queue, const crn_update *with) {
    ask(queue, (action){.kind = ACCUMULATE, .from = with});
}

static void update(crn_queue *queue, const crn_update *with) {
    ask(queue, (action){.kind = UPDATE, .from = with});
}

static void add_squares(crn_queue *queue, const crn_update *with) {
    ask(queue, (action){.kind = ADD_SQUARES, .from = with});
}

static void copy(crn_queue *queue, crn_lane lane, void *to, const void *from, uint64_t bytes) {
    bool out = lane == CRN_COPY_OUT;
    ask(queue, (action){.kind = COPY,
                        .lane = lane,
                        .to = out ? to : real(to),
                        .from = out ? real(from) : from,
                        .bytes = bytes});
}

static void record(crn_queue *queue, crn_lane lane, crn_event event) {
    assert(event < queue->event_count);
    ask(queue, (action){.kind = RECORD, .lane = lane, .event = event});
}

static void follow(crn_queue *queue, crn_lane lane, crn_event event) {
    assert(event < queue->event_count);
    ask(queue, (action){.kind = FOLLOW, .lane = lane, .event = event});
}

/* ---- Running ---- */

static void do_one(const action *a) {
    const crn_backend *inner = a->queue->device->inner;
    crn_queue *queue = a->queue->inner;
    switch (a->kind) {
    case BEGIN:
        inner->begin(queue, &a->values);
        break;
    case ENQUEUE:
        inner->enqueue(queue, &((real_call *)((const crn_call *)a->from)->state)->call);
        break;
    case FILL:
    case DISCARD:
        inner->fill(queue, a->to, a->byte, a->bytes);
        break;
    case CONVERT:
        inner->convert(queue, &a->conversion);
        break;
    case TAKE_LOSS:
        inner->take_loss(queue, a->from);
        break;
    case COUNT_CORRECT:
        inner->count_correct(queue, &((real_call *)((const crn_call *)a->from)->state)->call);
        break;
    case ACCUMULATE:
        inner->accumulate(queue, &((real_update *)((const crn_update *)a->from)->state)->update);
        break;
    case UPDATE:
        inner->update(queue, &((real_update *)((const crn_update *)a->from)->state)->update);
        break;
    case ADD_SQUARES:
        inner->add_squares(queue, &((real_update *)((const crn_update *)a->from)->state)->update);
        break;
    case COPY:
        if (a->bytes > 0)
            memcpy(a->to, a->from, a->bytes);
        break;
    case RECORD:
        if (a->lane == CRN_COMPUTE)
            inner->record(queue, CRN_COMPUTE, a->event);
        break;
    case FOLLOW:
        break;
    }
}

/* Run the first `count` actions of a lane, and the actions that they wait for. */
static void run_lane(crn_device *device, crn_lane lane, uint32_t count) {
    lane_list *list = &device->lanes[lane];
    while (list->done < count) {
        const action *a = &list->actions[list->done];
        if (a->kind == FOLLOW)
            run_lane(device, a->after_lane, a->after);
        if (a != &list->actions[list->done])
            continue; /* it was run for the other lane */
        list->done++;
        do_one(a);
    }
}

static cairn_status join(crn_queue *queue, crn_results *results, cairn_error *err) {
    static const crn_lane orders[2][CRN_LANES] = {{CRN_COMPUTE, CRN_COPY_OUT, CRN_COPY_IN},
                                                  {CRN_COPY_IN, CRN_COPY_OUT, CRN_COMPUTE}};
    crn_device *device = queue->device;
    assert(device->recording == NULL);
    for (int i = 0; i < CRN_LANES; i++) {
        crn_lane lane = orders[device->early][i];
        run_lane(device, lane, device->lanes[lane].count);
    }
    for (int i = 0; i < CRN_LANES; i++)
        device->lanes[i].count = device->lanes[i].done = 0;
    return device->inner->join(queue->inner, results, err);
}

static int64_t elapsed_ns(crn_queue *queue, crn_event from, crn_event to) {
    return queue->device->inner->elapsed_ns(queue->inner, from, to);
}

/* ---- Recording ---- */

static void forget(crn_queue *queue, crn_recording *recording) {
    give(queue, recording->actions, MOST_ACTIONS * sizeof(action));
    give(queue, recording, sizeof *recording);
}

static cairn_status begin_recording(crn_queue *queue, cairn_error *err) {
    crn_recording *recording = take(queue, sizeof *recording);
    if (recording == NULL)
        return crn_fail_memory(err);
    recording->actions =
        crn_resize(&queue->device->allocator, NULL, 0, MOST_ACTIONS * sizeof(action));
    if (recording->actions == NULL) {
        forget(queue, recording);
        return crn_fail_memory(err);
    }
    queue->device->recording = recording;
    return CAIRN_OK;
}

static cairn_status end_recording(crn_queue *queue, crn_recording **out, cairn_error *err) {
    (void)err;
    *out = queue->device->recording;
    queue->device->recording = NULL;
    return CAIRN_OK;
}

static void replay(crn_queue *queue, crn_recording *recording, const crn_values *with) {
    begin(queue, with);
    for (uint32_t i = 0; i < recording->count; i++)
        ask(queue, recording->actions[i]);
}

/* ---- The list ---- */

#define OVER(identifier, its_name, inner_name, is_early)                                           \
    static cairn_status open_##identifier(const crn_device_options *options, crn_device **out,     \
                                          cairn_error *err) {                                      \
        return open_over(test_backend(inner_name), is_early, options, out, err);                   \
    }                                                                                              \
    static const crn_backend identifier = {.name = its_name,                                       \
                                           .summary = "behind shifted addresses",                  \
                                           .open = open_##identifier,                              \
                                           .devices = devices,                                     \
                                           .close = close_device,                                  \
                                           .describe = describe,                                   \
                                           .reserve = reserve,                                     \
                                           .release = release,                                     \
                                           .store = store,                                         \
                                           .choices = choices,                                     \
                                           .drop = drop,                                           \
                                           .queue = create_queue,                                  \
                                           .finish_queue = finish_queue,                           \
                                           .values = values,                                       \
                                           .events = events,                                       \
                                           .prepare = prepare,                                     \
                                           .finish = finish,                                       \
                                           .prepare_update = prepare_update,                       \
                                           .finish_update = finish_update,                         \
                                           .begin = begin,                                         \
                                           .enqueue = enqueue,                                     \
                                           .fill = fill,                                           \
                                           .discard = discard,                                     \
                                           .convert = convert,                                     \
                                           .take_loss = take_loss,                                 \
                                           .count_correct = count_correct,                         \
                                           .accumulate = accumulate,                               \
                                           .update = update,                                       \
                                           .add_squares = add_squares,                             \
                                           .copy = copy,                                           \
                                           .record = record,                                       \
                                           .follow = follow,                                       \
                                           .join = join,                                           \
                                           .elapsed_ns = elapsed_ns,                               \
                                           .begin_recording = begin_recording,                     \
                                           .end_recording = end_recording,                         \
                                           .replay = replay,                                       \
                                           .forget = forget};

OVER(over_ref, "ref", "ref", false)
OVER(over_ref_early, "ref", "ref", true)
OVER(over_cpu, "cpu", "cpu", false)
OVER(over_mixing, "mixing", "mixing", false)
OVER(over_mixing_early, "mixing", "mixing", true)

const crn_backend *test_backend(const char *name) {
    static const struct {
        const char *name;
        const crn_backend *backend;
    } own[] = {{"mixing", &mixing_backend},           {"offset", &over_ref},
               {"offset-early", &over_ref_early},     {"offset-cpu", &over_cpu},
               {"mixing-late", &over_mixing},         {"mixing-early", &over_mixing_early},
               {"cuda-host", &fake_backend_cuda_host}};
    const crn_backend *backend;
    for (size_t i = 0; i < CRN_LENGTH(own); i++)
        if (strcmp(own[i].name, name) == 0)
            return own[i].backend;
    for (uint32_t i = 0; (backend = crn_backend_list(i)) != NULL; i++)
        if (strcmp(backend->name, name) == 0)
            return backend;
    return NULL;
}

cairn_device *test_device(const char *name, uint32_t threads) {
    return test_device_with(name, threads, CAIRN_MATH_TF32);
}

cairn_device *test_device_with(const char *name, uint32_t threads, cairn_math math) {
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    cairn_device *device = NULL;
    cairn_error err = {0};
    options.threads = threads;
    options.math = math;
    CHECK_OK(crn_device_open(test_backend(name), &options, &device, &err), &err);
    return device;
}
