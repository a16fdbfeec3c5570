/* hopper_ops.c: the gradient of attention by the kernels for compute capability 9.0: see
 * kernels/hopper_attention.cu. It needs 8 bytes of workspace for each head of a token. */
#include "backend/cuda/cuda_device.h"
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/hopper_args.h"

#include <math.h>

typedef struct entry {
    const char *name;
    uint32_t threads; /* of a block */
    uint32_t rows;    /* tokens of an item; 0: there are no items */
    uint32_t shared_bytes;
} entry;

/* Of each kind the one for 64 elements, then that for 128. */
static const entry entries[CRN_HOPPER_KERNELS] = {
    {"crn_hopper_rows_64", CRN_HOPPER_ROWS_THREADS, 0, 0},
    {"crn_hopper_rows_128", CRN_HOPPER_ROWS_THREADS, 0, 0},
#define PASS(name, size, groups, met, stages, own)                                                 \
    {"crn_hopper_" #name "_" #size, CRN_HOPPER_THREADS(groups), 64 * (groups),                     \
     CRN_HOPPER_BYTES(size, groups, met, stages, own)},
    CRN_HOPPER_PASSES(PASS)
#undef PASS
};

enum { ROWS, KEYS, QUERIES };

/* ---- Opening ---- */

int crn_hopper_open(crn_device *device) {
    const crn_cuda_api *api = device->api;
    int major = 0, minor = 0, units = 0;
    int result = api->cuDeviceGetAttribute(&major, CRN_CUDA_MAJOR, device->ordinal);
    if (result == 0)
        result = api->cuDeviceGetAttribute(&minor, CRN_CUDA_MINOR, device->ordinal);
    bool there = crn_cuda_hopper != NULL || api != &device->loaded;
    if (result != 0 || major != 9 || minor != 0 || !there)
        return result;
    result = api->cuDeviceGetAttribute(&units, CRN_CUDA_MULTIPROCESSORS, device->ordinal);
    device->hopper.units = (uint32_t)units;
    if (result == 0)
        result = api->cuLibraryLoadData(&device->hopper.library, crn_cuda_hopper, NULL, NULL, 0,
                                        NULL, NULL, 0);
    for (uint32_t i = 0; i < CRN_HOPPER_KERNELS && result == 0; i++) {
        CUkernel *kernel = &device->hopper.kernels[i];
        result = api->cuLibraryGetKernel(kernel, device->hopper.library, entries[i].name);
        if (result == 0 && entries[i].shared_bytes != 0)
            result = api->cuKernelSetAttribute(
                CRN_CUDA_MOST_SHARED_BYTES, (int)entries[i].shared_bytes, *kernel, device->ordinal);
    }
    return result;
}

bool crn_hopper_can(const crn_device *device, const crn_site *site,
                    const crn_attention_shape *shape) {
    return device->hopper.library != NULL && shape->backward &&
           crn_cuda_element(site) == CRN_ELEMENT_BF16 && (shape->size == 64 || shape->size == 128);
}

/* ---- Running ---- */

/* A tensor [N, T, heads * size] in boxes of 64 elements of 64 tokens. */
static bool make_map(const crn_work *work, const crn_attention_shape *s, int64_t heads,
                     const void *at, crn_tensor_map *out) {
    const uint64_t size = (uint64_t)s->size, row = (uint64_t)heads * size * sizeof(uint16_t);
    const uint64_t sizes[4] = {size, (uint64_t)s->tokens, (uint64_t)heads, (uint64_t)s->batch};
    const uint64_t strides[3] = {row, size * sizeof(uint16_t), (uint64_t)s->tokens * row};
    static const uint32_t box[4] = {64, 64, 1, 1}, steps[4] = {1, 1, 1, 1};
    return crn_cuda_ok(work->device,
                       work->device->api->cuTensorMapEncodeTiled(
                           out, CRN_CUDA_MAP_BF16, 4, crn_cuda_writable(at), sizes, strides, box,
                           steps, CRN_CUDA_MAP_PLAIN, CRN_CUDA_MAP_SWIZZLE_128,
                           CRN_CUDA_MAP_CACHE_128, CRN_CUDA_MAP_ZEROS),
                       work->call->op->name);
}

/* At most as many blocks as run at the same time, which take items in turns. */
static void launch(const crn_work *work, uint32_t kernel, crn_hopper_args *args, uint64_t heads) {
    crn_device *device = work->device;
    const entry *e = &entries[kernel];
    void *parameters[] = {args};
    uint64_t blocks;
    if (e->rows == 0)
        blocks = heads * args->padded / 64;
    else
        blocks = CRN_MIN((args->tokens + e->rows - 1) / e->rows * heads, device->hopper.units);
    (void)crn_cuda_ok(device,
                      device->api->cuLaunchKernel(device->hopper.kernels[kernel], (unsigned)blocks,
                                                  1, 1, e->threads, 1, 1, e->shared_bytes,
                                                  device->streams[CRN_COMPUTE], parameters, NULL),
                      e->name);
}

void crn_hopper_attention_bwd(crn_work *work, const crn_attention_shape *s) {
    uint32_t tokens = (uint32_t)s->tokens, large = s->size == 128;
    uint32_t padded = (tokens + CRN_HOPPER_PAD - 1) / CRN_HOPPER_PAD * CRN_HOPPER_PAD;
    uint64_t heads = (uint64_t)(s->batch * s->heads);
    float *rows = crn_cuda_scratch(work, heads * padded * 2 * sizeof(float));
    if (work->preparing)
        return;
    crn_hopper_args args = {.y = crn_cuda_in(work, 1),
                            .gy = crn_cuda_in(work, 3),
                            .stats = crn_cuda_in(work, 2),
                            .rows = rows,
                            .gx = crn_cuda_out(work, 0),
                            .batch = (uint32_t)s->batch,
                            .tokens = tokens,
                            .heads = (uint32_t)s->heads,
                            .kv_heads = (uint32_t)s->kv_heads,
                            .padded = padded,
                            .causal = s->causal,
                            .scale = (float)(1 / sqrt((double)s->size))};
    if (!make_map(work, s, s->heads + 2 * s->kv_heads, crn_cuda_in(work, 0), &args.x_map) ||
        !make_map(work, s, s->heads, args.gy, &args.gy_map))
        return;
    launch(work, 2 * ROWS + large, &args, heads);
    launch(work, 2 * KEYS + large, &args, (uint64_t)(s->batch * s->kv_heads));
    launch(work, 2 * QUERIES + large, &args, heads);
}
