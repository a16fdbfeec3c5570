/* processor.c: the devices of processor.h: memory, kernels, and what runs on the compute lane. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "backend/crn_device.h"
#include "backend/formats.h"
#include "backend/processor_internal.h"
#include "base/host_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Open and close ---- */

uint32_t crn_processor_devices(void) {
    return 1;
}

cairn_status crn_processor_open(const crn_device_options *options, crn_kernel_list *kernels,
                                crn_team_loop *loop, crn_device **out, cairn_error *err) {
    *out = NULL;
    cairn_allocator allocator = crn_allocator_or_default(&options->allocator);
    crn_device *device = crn_resize(&allocator, NULL, 0, sizeof *device);
    if (device == NULL)
        return crn_fail_memory(err);
    device->allocator = allocator;
    device->kernels = kernels;
    device->half = options->math == CAIRN_MATH_BF16;
    cairn_status status =
        crn_team_create_on(&allocator, options->threads, loop, &device->threads, err);
    if (status != CAIRN_OK)
        goto fail_team;
    uint64_t bandwidth = options->link_bytes_per_second;
    status = crn_copy_lane_open(&device->lanes[0], bandwidth, err);
    if (status != CAIRN_OK)
        goto fail_out;
    status = crn_copy_lane_open(&device->lanes[1], bandwidth, err);
    if (status != CAIRN_OK)
        goto fail_in;
    *out = device;
    return CAIRN_OK;

fail_in:
    crn_copy_lane_close(&device->lanes[0]);
fail_out:
    crn_team_destroy(device->threads);
fail_team:
    crn_resize(&allocator, device, sizeof *device, 0);
    return status;
}

bool crn_processor_is_half(const crn_device *device) {
    return device->half;
}

void crn_processor_close(crn_device *device) {
    if (device == NULL)
        return;
    for (int i = 2; i-- > 0;)
        crn_copy_lane_close(&device->lanes[i]);
    crn_team_destroy(device->threads);
    cairn_allocator allocator = device->allocator;
    crn_resize(&allocator, device, sizeof *device, 0);
}

/* The name of the processor; "": not known. */
static void read_name(char *name, size_t size) {
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');
        if (colon == NULL || strncmp(line, "model name", strlen("model name")) != 0)
            continue;
        colon[strcspn(colon, "\n")] = '\0';
        crn_copy_string(name, size, colon + 1 + strspn(colon + 1, " "));
        break;
    }
    if (file != NULL)
        fclose(file);
}

void crn_processor_describe(crn_device *device, cairn_device_facts *out, cairn_machine *machine) {
    long page = sysconf(_SC_PAGESIZE);
    read_name(out->name, sizeof out->name);
    out->memory_bytes = crn_host_memory();
    out->alignment = page > 0 ? (uint32_t)page : 4096;
    out->compute_units = crn_team_threads(device->threads);
    crn_copy_string(out->math, sizeof out->math,
                    crn_math_name(device->half ? CAIRN_MATH_BF16 : CAIRN_MATH_FP32));
    if (cairn_machine_find("cpu", machine, NULL) != CAIRN_OK)
        machine->flops_per_second = machine->memory_bytes_per_second = 1;
    uint64_t link = device->lanes[0].bytes_per_second; /* a simulated link has separate memory */
    out->separate_memory = link > 0;
    machine->one_memory = link == 0;
    if (link > 0)
        machine->link_bytes_per_second = link;
}

/* ---- Memory ---- */

cairn_status crn_processor_reserve(crn_device *device, crn_space space, uint64_t bytes, void **out,
                                   cairn_error *err) {
    (void)device;
    *out = NULL;
    void *memory = MAP_FAILED;
    if (bytes <= SIZE_MAX / 2) /* an empty memory has one byte, so that it has an address */
        memory = mmap(NULL, CRN_MAX(bytes, 1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);
    if (memory == MAP_FAILED)
        return crn_fail(err, CAIRN_ESYSTEM,
                        "cannot reserve %" PRIu64 " bytes of %s memory; the machine has %" PRIu64
                        ", of which %" PRIu64 " are free",
                        bytes, space == CRN_SPACE_DEVICE ? "device" : "host", crn_host_memory(),
                        crn_host_memory_free());
    *out = memory;
    return CAIRN_OK;
}

void crn_processor_release(crn_device *device, crn_space space, void *memory, uint64_t bytes) {
    (void)device;
    (void)space;
    if (memory != NULL)
        munmap(memory, CRN_MAX(bytes, 1));
}

/* If the system refuses, the pages do not change. */
void crn_processor_protect(crn_device *device, void *at, uint64_t bytes, bool accessible) {
    (void)device;
    (void)!mprotect(at, bytes, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/* ---- Kernels ---- */

/* The choice for a kernel and an op; `*fits` is false if the kernel does not fit. */
static cairn_status make_choice(crn_device *device, const crn_kernel *kernel, const crn_site *site,
                                crn_choice *out, bool *fits) {
    void *built = NULL;
    uint64_t workspace = 0;
    *fits = kernel->fits == NULL || kernel->fits(site);
    if (kernel->build != NULL) {
        CRN_TRY(kernel->build(site, &device->allocator, &built, &workspace));
        *fits = built != NULL;
    }
    if (!*fits)
        return CAIRN_OK;
    crn_kernel_recipe *recipe = crn_resize(&device->allocator, NULL, 0, sizeof *recipe);
    if (recipe == NULL) {
        if (built != NULL)
            kernel->drop(built, &device->allocator);
        return CAIRN_ENOMEM;
    }
    *recipe = (crn_kernel_recipe){kernel, built};
    crn_copy_string(out->name, sizeof out->name, kernel->name);
    out->workspace = kernel->workspace == NULL ? workspace : kernel->workspace(site);
    out->recipe = recipe;
    return CAIRN_OK;
}

cairn_status crn_processor_choices(crn_device *device, const crn_site *site, crn_choice *out,
                                   uint32_t *count, cairn_error *err) {
    uint32_t listed;
    const crn_kernel *list = device->kernels(site->op->kind, &listed);
    *count = 0;
    for (uint32_t i = 0; i < listed && *count < CRN_MOST_CHOICES; i++) {
        bool fits;
        if (list[i].last_resort && *count > 0)
            continue;
        if (make_choice(device, &list[i], site, &out[*count], &fits) != CAIRN_OK) {
            while (*count > 0)
                crn_processor_drop(device, &out[--*count]);
            return crn_fail_memory(err);
        }
        *count += fits;
    }
    return CAIRN_OK;
}

void crn_processor_drop(crn_device *device, crn_choice *choice) {
    crn_kernel_recipe *recipe = (void *)(uintptr_t)choice->recipe;
    if (recipe->built != NULL)
        recipe->kernel->drop(recipe->built, &device->allocator);
    crn_resize(&device->allocator, recipe, sizeof *recipe, 0);
    choice->recipe = NULL;
}

static const crn_kernel *kernel_of(const crn_call *call) {
    return ((const crn_kernel_recipe *)call->recipe)->kernel;
}

cairn_status crn_processor_prepare(crn_queue *queue, crn_call *call, cairn_error *err) {
    const crn_kernel *kernel = kernel_of(call);
    call->threads = queue->device->threads;
    return kernel->prepare == NULL ? CAIRN_OK
                                   : kernel->prepare(call, &queue->device->allocator, err);
}

void crn_processor_finish(crn_queue *queue, crn_call *call) {
    if (call->state != NULL)
        kernel_of(call)->finish(call, &queue->device->allocator);
    call->state = NULL;
}

/* ---- The compute lane ---- */

void crn_processor_begin(crn_queue *queue, const crn_values *values) {
    queue->values = *values;
    queue->results = (crn_results){0};
}

void crn_processor_enqueue(crn_queue *queue, const crn_call *call) {
    (void)queue;
    kernel_of(call)->run(call);
}

void crn_processor_fill(crn_queue *queue, void *at, uint8_t byte, uint64_t bytes) {
    (void)queue;
    memset(at, byte, bytes);
}

void crn_processor_convert(crn_queue *queue, const crn_conversion *conversion) {
    (void)queue;
    crn_convert_rows(conversion);
}
