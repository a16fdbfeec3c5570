/* hopper_products.c: linear layers of bf16 sequences by the kernels for compute capability 9.0,
 * with the GELU behind a layer or its gradient before one: see kernels/hopper_product.cu. */
#include "backend/cuda/cuda_device.h"
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/hopper_args.h"

#define GROUP 8u /* tiles below each other; 2, 4 and 32 are as fast */

static const char *const names[CRN_HOPPER_PRODUCTS] = {"crn_hopper_y", "crn_hopper_gx"};

int crn_hopper_open_products(crn_device *device) {
    const crn_cuda_api *api = device->api;
    int result = api->cuLibraryLoadData(&device->hopper.product_library, crn_cuda_hopper_products,
                                        NULL, NULL, 0, NULL, NULL, 0);
    for (uint32_t i = 0; i < CRN_HOPPER_PRODUCTS && result == 0; i++) {
        CUkernel *kernel = &device->hopper.products[i];
        result = api->cuLibraryGetKernel(kernel, device->hopper.product_library, names[i]);
        if (result == 0)
            result = api->cuKernelSetAttribute(CRN_CUDA_MOST_SHARED_BYTES, CRN_HOPPER_PRODUCT_BYTES,
                                               *kernel, device->ordinal);
    }
    return result;
}

/* Whether a product reads the tensor as bf16 without a conversion. */
static bool is_half(const crn_site *site, cairn_id tensor) {
    const crn_storage *storage = &site->storage[tensor];
    return storage->type == CRN_BF16 ||
           (storage->type == CRN_TWICE && storage->format == CRN_PLAIN);
}

bool crn_hopper_can_multiply(const crn_device *device, const crn_site *site) {
    const cairn_op *op = site->op;
    if (device->hopper.product_library == NULL ||
        (op->kind != CAIRN_OP_LINEAR && op->kind != CAIRN_OP_LINEAR_BWD_DATA) ||
        op->outputs[0] == CAIRN_NONE || site->storage[op->outputs[0]].type != CRN_BF16 ||
        site->storage[op->inputs[0]].type != CRN_BF16 || !is_half(site, op->params[0]) ||
        (op->param_count > 1 && site->storage[op->params[1]].type == CRN_BF16))
        return false;
    const cairn_tensor *weight = cairn_graph_tensor(site->graph, op->params[0]);
    uint32_t depth = weight->shape[op->kind == CAIRN_OP_LINEAR ? 1 : 0];
    return (weight->shape[0] | weight->shape[1]) % 8 == 0 &&
           depth >= CRN_HOPPER_PRODUCT_STAGES * 64;
}

/* A matrix in boxes of 64 elements of so many rows. */
static bool make_map(const crn_work *work, const void *at, int64_t rows, int64_t columns,
                     uint32_t box_rows, crn_tensor_map *out) {
    const uint64_t row = (uint64_t)columns * sizeof(uint16_t), all = (uint64_t)rows * row;
    const uint64_t sizes[4] = {(uint64_t)columns, (uint64_t)rows, 1, 1};
    const uint64_t strides[3] = {row, all, all};
    const uint32_t box[4] = {64, box_rows, 1, 1};
    static const uint32_t steps[4] = {1, 1, 1, 1};
    return crn_cuda_ok(work->device,
                       work->device->api->cuTensorMapEncodeTiled(
                           out, CRN_CUDA_MAP_BF16, 4, crn_cuda_writable(at), sizes, strides, box,
                           steps, CRN_CUDA_MAP_PLAIN, CRN_CUDA_MAP_SWIZZLE_128,
                           CRN_CUDA_MAP_CACHE_128, CRN_CUDA_MAP_ZEROS),
                       work->call->op->name);
}

static void set_gate(crn_hopper_product_args *args, const crn_call *gate) {
    bool tanh = gate->op->attributes.tanh != 0;
    args->made = gate->outputs[0];
    if (gate->op->kind == CAIRN_OP_GELU) {
        args->gate = tanh ? CRN_GELU_TANH : CRN_GELU;
    } else {
        args->gate = tanh ? CRN_GELU_TANH_BWD : CRN_GELU_BWD;
        args->x = gate->inputs[0];
    }
}

void crn_hopper_multiply(crn_work *work, const crn_blas_shape *s, const void *x, const void *w,
                         const void *y, const float *bias, const crn_call *gate) {
    crn_device *device = work->device;
    bool forward = s->pass == CRN_BLAS_Y;
    /* As much as by cuBLASLt, so that a slower one is never preferred for its few bytes. */
    if (device->blas != NULL)
        (void)crn_cuda_library_scratch(work, CRN_BLAS_MOST_WORKSPACE_BYTES);
    if (work->preparing)
        return;
    crn_hopper_product_args args = {.bias = bias,
                                    .y =
                                        work->unwritten ? NULL : crn_cuda_writable(forward ? y : x),
                                    .rows = (uint32_t)s->rows,
                                    .columns = (uint32_t)(forward ? s->out : s->in),
                                    .depth = (uint32_t)(forward ? s->in : s->out),
                                    .group = GROUP};
    if (gate != NULL)
        set_gate(&args, gate);
    if (!make_map(work, forward ? x : y, s->rows, args.depth, 128, &args.left_map) ||
        !make_map(work, w, s->out, s->in, forward ? CRN_HOPPER_PRODUCT_COLUMNS : 64,
                  &args.right_map))
        return;
    void *parameters[] = {&args};
    uint32_t kernel = forward ? 0 : 1, blocks = device->hopper.units;
    (void)crn_cuda_ok(device,
                      device->api->cuLaunchKernel(device->hopper.products[kernel], blocks, 1, 1,
                                                  CRN_HOPPER_PRODUCT_THREADS, 1, 1,
                                                  CRN_HOPPER_PRODUCT_BYTES,
                                                  device->streams[CRN_COMPUTE], parameters, NULL),
                      names[kernel]);
}
