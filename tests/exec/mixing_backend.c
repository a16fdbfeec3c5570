/* mixing_backend.c: see mixing_backend.h. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "exec/mixing_backend.h"

#include <assert.h>
#include <sys/mman.h>

#define MOST_PENDING 8192

typedef struct pending {
    void *to;
    const void *from;
    uint64_t bytes;
} pending;

struct crn_device {
    cairn_allocator allocator;
    crn_pool *threads;
    pending lanes[2][MOST_PENDING]; /* a ring per lane */
    uint64_t started[2], ended[2];
};

/* ---- Kernels ---- */

static uint64_t mix(uint64_t h) {
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    return h ^ (h >> 31);
}

static uint64_t digest(uint64_t h, const uint8_t *bytes, uint64_t count, uint64_t step) {
    uint64_t word = 0;
    for (uint64_t i = 0; i + 8 <= count; i += 8 * step) {
        memcpy(&word, bytes + i, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    for (uint64_t i = count / 8 * 8; i < count; i++)
        h = mix(h ^ bytes[i]);
    return mix(h);
}

static float unit(uint64_t bits) { /* -1 .. 1 */
    return (float)((int64_t)(bits >> 40) - (1 << 23)) / (float)(1 << 23);
}

static void write_numbers(uint8_t *to, uint64_t bytes, uint64_t h) {
    for (uint64_t i = 0; i < bytes; i += 4) {
        float value = unit(mix(h + i));
        memcpy(to + i, &value, bytes - i < 4 ? bytes - i : 4);
    }
}

static uint64_t wanted_workspace(const crn_site *site) {
    const char *name = site->op->name;
    uint64_t h = digest(1, (const uint8_t *)name, strlen(name), 1);
    return h % 3 == 0 ? h % 6000 : 0;
}

static void update_state(const crn_call *call, uint64_t h) {
    for (uint32_t i = 2; i < 4; i++) {
        const cairn_tensor *state = cairn_graph_tensor(call->graph, call->op->params[i]);
        float *value = call->params[i];
        for (uint64_t k = 0; k < state->bytes / 4; k++)
            value[k] = 0.9f * value[k] + 0.1f * unit(mix(h + i + k));
    }
}

/* All that the op reads; of the parameters a sample. */
static uint64_t digest_operands(const crn_call *call, uint64_t h) {
    const cairn_op *op = call->op;
    for (uint32_t i = 0; i < op->input_count; i++)
        h = digest(h, call->inputs[i], cairn_graph_tensor(call->graph, op->inputs[i])->bytes, 1);
    for (uint32_t i = 0; i < op->param_count; i++) {
        const cairn_tensor *param = cairn_graph_tensor(call->graph, op->params[i]);
        if (param->role == CAIRN_PARAMETER)
            h = digest(h, call->params[i], param->bytes, 1 + param->bytes / 1024);
    }
    return h;
}

static void mix_operands(const crn_call *call) {
    const cairn_op *op = call->op;
    uint64_t h = call->op_id;
    if (op->flags & CAIRN_OP_RANDOM)
        h = mix(h ^ mix(call->seed + mix(call->step)));
    h = digest_operands(call, h);
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (call->outputs[i] == NULL)
            continue;
        assert((uintptr_t)call->outputs[i] % 64 == 0);
        const cairn_tensor *output = cairn_graph_tensor(call->graph, op->outputs[i]);
        if (output->alias_of == CAIRN_NONE) /* nothing is written to make an alias */
            write_numbers(call->outputs[i], output->bytes, mix(h + i));
    }
    if (op->kind == CAIRN_OP_BATCH_NORM && call->training && !call->again)
        update_state(call, h);
}

/* Two implementations that differ in their workspace, all of which they write to. */
static void run(const crn_call *call) {
    crn_site site = crn_site_of(call);
    uint64_t workspace = wanted_workspace(&site);
    if (workspace > 0)
        memset(call->workspace, 0xff, workspace);
    mix_operands(call);
}

static uint64_t other_workspace(const crn_site *site) {
    return 3000 - wanted_workspace(site) / 2;
}

static void run_other(const crn_call *call) {
    crn_site site = crn_site_of(call);
    memset(call->workspace, 0xff, other_workspace(&site));
    mix_operands(call);
}

static const crn_kernel both[] = {
    {.name = "mixing", .workspace = wanted_workspace, .run = run},
    {.name = "mixing-other", .workspace = other_workspace, .run = run_other},
};

static const crn_kernel *kernels(cairn_op_kind kind, uint32_t *count) {
    (void)kind;
    *count = 2;
    return both;
}

/* ---- Memory and copies ---- */

static cairn_status open_device(const crn_device_options *options, crn_device **out,
                                cairn_error *err) {
    *out = NULL;
    cairn_allocator allocator = crn_allocator_or_default(&options->allocator);
    crn_device *device = crn_resize(&allocator, NULL, 0, sizeof *device);
    if (device == NULL)
        return crn_fail_memory(err);
    memset(device, 0, sizeof *device);
    device->allocator = allocator;
    cairn_status status = crn_pool_create(&allocator, 1, &device->threads, err);
    if (status != CAIRN_OK)
        crn_resize(&allocator, device, sizeof *device, 0);
    else
        *out = device;
    return status;
}

static void close_device(crn_device *device) {
    assert(device->started[0] == device->ended[0] && device->started[1] == device->ended[1]);
    crn_pool_destroy(device->threads);
    cairn_allocator allocator = device->allocator;
    crn_resize(&allocator, device, sizeof *device, 0);
}

static crn_pool *threads(crn_device *device) {
    return device->threads;
}

static cairn_status reserve(crn_device *device, crn_pool_kind pool, uint64_t bytes, void **out,
                            cairn_error *err) {
    (void)device;
    (void)pool;
    *out = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*out != MAP_FAILED)
        return CAIRN_OK;
    *out = NULL;
    return crn_fail(err, CAIRN_ESYSTEM, "no memory");
}

static void release(crn_device *device, crn_pool_kind pool, void *region, uint64_t bytes) {
    (void)device;
    (void)pool;
    munmap(region, bytes);
}

static void finish_one(crn_device *device, uint64_t lane) {
    const pending *p = &device->lanes[lane][device->ended[lane]++ % MOST_PENDING];
    if (p->bytes > 0)
        memcpy(p->to, p->from, p->bytes);
}

static crn_event copy_late(crn_device *device, crn_lane lane, void *to, const void *from,
                           uint64_t bytes) {
    assert(device->started[lane] - device->ended[lane] < MOST_PENDING);
    device->lanes[lane][device->started[lane]++ % MOST_PENDING] = (pending){to, from, bytes};
    return device->started[lane] * 2 + lane;
}

static void wait_event(crn_device *device, crn_event event) {
    while (device->ended[event % 2] < event / 2)
        finish_one(device, event % 2);
}

static crn_event copy_early(crn_device *device, crn_lane lane, void *to, const void *from,
                            uint64_t bytes) {
    crn_event event = copy_late(device, lane, to, from, bytes);
    wait_event(device, event);
    return event;
}

const crn_backend mixing_backend_late = {
    .name = "mixing",
    .summary = "late copies",
    .open = open_device,
    .close = close_device,
    .threads = threads,
    .reserve = reserve,
    .release = release,
    .copy = copy_late,
    .wait = wait_event,
    .kernels = kernels,
};
const crn_backend mixing_backend_early = {
    .name = "mixing",
    .summary = "early copies",
    .open = open_device,
    .close = close_device,
    .threads = threads,
    .reserve = reserve,
    .release = release,
    .copy = copy_early,
    .wait = wait_event,
    .kernels = kernels,
};
