/* device.c: the list of backends, and functions for all open devices. */
#include "backend/backend.h"
#include "backend/choice_cache.h"
#include "backend/crn_device.h"
#include "base/processors.h"

#include <stdio.h>

#define X(identifier) extern const crn_backend crn_backend_##identifier;
#include "backend/backends.def"
#undef X

static const crn_backend *const backends[] = {
#define X(identifier) &crn_backend_##identifier,
#include "backend/backends.def"
#undef X
};

/* ---- The list: backends that find a device ---- */

const crn_backend *crn_backend_list(uint32_t index) {
    for (uint32_t i = 0; i < CRN_LENGTH(backends); i++)
        if (backends[i]->devices() > 0 && index-- == 0)
            return backends[i];
    return NULL;
}

const cairn_device_entry *cairn_device_list(uint32_t index) {
    const crn_backend *backend = crn_backend_list(index);
    return backend == NULL ? NULL : &backend->entry;
}

/* The backend with a name (NULL: the best), or CAIRN_EUNKNOWN with a list of the names. */
static cairn_status find_backend(const char *name, const crn_backend **out, cairn_error *err) {
    char known[200] = "";
    const crn_backend *backend;
    *out = NULL;
    for (uint32_t i = 0; name != NULL && i < CRN_LENGTH(backends); i++)
        if (strcmp(backends[i]->name, name) ==
            0) { /* a backend without devices says why when it is opened */
            *out = backends[i];
            return CAIRN_OK;
        }
    for (uint32_t i = 0; (backend = crn_backend_list(i)) != NULL; i++) {
        if (name == NULL) {
            *out = backend;
            return CAIRN_OK;
        }
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, "%s%s", i > 0 ? ", " : "", backend->name);
    }
    return crn_fail_at(err, CAIRN_EUNKNOWN, name,
                       "there is no backend \"%.64s\"; the backends are %s", name, known);
}

uint32_t cairn_count_threads(uint32_t threads) {
    return threads > 0 ? threads : crn_processors();
}

/* ---- Open and close ---- */

static cairn_status open_state(cairn_device *device, const cairn_device_options *options,
                               cairn_error *err) {
    uint32_t count = device->backend->devices();
    if (count > 0 && options->index >= count)
        return crn_fail(err, CAIRN_EUNKNOWN, "backend \"%s\" has %u devices; there is no device %u",
                        device->backend->name, count, options->index);
    crn_device_options inner = {.threads = cairn_count_threads(options->threads),
                                .link_bytes_per_second = options->link_bytes_per_second,
                                .index = options->index,
                                .math = options->math,
                                .allocator = device->allocator};
    return device->backend->open(&inner, &device->state, err);
}

cairn_status crn_device_open(const crn_backend *backend, const cairn_device_options *given,
                             cairn_device **out, cairn_error *err) {
    *out = NULL;
    crn_error_clear(err);
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    CRN_READ_OPTIONS(cairn_device_options, options, given, err);
    cairn_allocator allocator = crn_allocator_or_default(options.allocator);
    cairn_device *device = crn_resize(&allocator, NULL, 0, sizeof *device);
    if (device == NULL)
        return crn_fail_memory(err);
    *device = (cairn_device){.allocator = allocator, .backend = backend};
    cairn_status status = open_state(device, &options, err);
    if (status == CAIRN_OK)
        status = crn_choice_cache_create(&allocator, &device->choices);
    if (status != CAIRN_OK) {
        cairn_device_close(device);
        return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
    }
    device->facts.struct_size = sizeof device->facts;
    crn_copy_string(device->facts.backend, sizeof device->facts.backend, backend->name);
    device->machine.struct_size = sizeof device->machine;
    device->facts.machine = &device->machine;
    backend->describe(device->state, &device->facts, &device->machine);
    *out = device;
    return CAIRN_OK;
}

cairn_status cairn_device_open(const char *name, const cairn_device_options *options,
                               cairn_device **out, cairn_error *err) {
    const crn_backend *backend;
    *out = NULL;
    crn_error_clear(err);
    CRN_TRY(find_backend(name, &backend, err));
    return crn_device_open(backend, options, out, err);
}

void cairn_device_close(cairn_device *device) {
    if (device == NULL)
        return;
    crn_choice_cache_destroy(device->choices, device->backend, device->state);
    if (device->state != NULL)
        device->backend->close(device->state);
    cairn_allocator allocator = device->allocator;
    crn_resize(&allocator, device, sizeof *device, 0);
}

/* ---- Using a device ---- */

void cairn_device_describe(const cairn_device *device, cairn_device_facts *out) {
    cairn_device_facts facts = device->facts;
    const crn_backend *backend = device->backend;
    while (backend->outside != NULL && facts.stage_count < CAIRN_DEVICE_STAGES) {
        cairn_device_stage *stage = &facts.stages[facts.stage_count];
        stage->name = backend->outside(device->state, facts.stage_count, &stage->outside_bytes);
        if (stage->name == NULL)
            break;
        facts.stage_count++;
    }
    crn_write_output(out, &facts, sizeof facts);
}

CRN_NAMES(crn_math_name, cairn_math, CAIRN_MATH_LIST)
CRN_NAMES(crn_decay_name, cairn_decay, CAIRN_DECAY_LIST)
CRN_NAMES(crn_optimizer_name, cairn_optimizer, CAIRN_OPTIMIZER_LIST)

cairn_status crn_device_host_reserve(cairn_device *device, uint64_t bytes, void **out,
                                     cairn_error *err) {
    crn_error_clear(err);
    return device->backend->reserve(device->state, CRN_SPACE_HOST, bytes, out, err);
}

void crn_device_host_release(cairn_device *device, void *memory, uint64_t bytes) {
    if (memory != NULL)
        device->backend->release(device->state, CRN_SPACE_HOST, memory, bytes);
}

cairn_status crn_device_store(cairn_device *device, const cairn_graph *graph, crn_storage *out,
                              cairn_error *err) {
    const crn_backend *backend = device->backend;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++)
        out[t] = (crn_storage){.bytes = cairn_graph_tensor(graph, t)->bytes, .block = 1};
    return backend->store == NULL ? CAIRN_OK : backend->store(device->state, graph, out, err);
}

cairn_status crn_device_choices(cairn_device *device, const cairn_graph *graph, cairn_id op,
                                const crn_storage *storage, const crn_choice **out, uint32_t *count,
                                cairn_error *err) {
    /* Every backend has one implementation of updates: see prepare_update(). */
    static const crn_choice update = {.name = "update"};
    crn_site site = {graph, cairn_graph_op(graph, op), storage, device->facts.compute_units};
    if (crn_op_is_of_optimizer(site.op)) {
        *out = &update;
        *count = 1;
        return CAIRN_OK;
    }
    return crn_choice_cache_get(device->choices, device->backend, device->state, &site, op, out,
                                count, err);
}
