/* work.c: runs one op: its scratch memory, its launches, and its operands in the layout that it
 * needs. */
#include "backend/cuda/cuda_internal.h"

crn_cuda_op *crn_cuda_op_of(cairn_op_kind kind) {
    static crn_cuda_op *const ops[CAIRN_OP_KINDS] = {
#define X(k, function) [CAIRN_OP_##k] = crn_cuda_##function,
#include "backend/cuda/cuda_ops.def"
#undef X
    };
    return ops[kind];
}

/* ---- Scratch and launches ---- */

void *crn_cuda_scratch(crn_work *work, uint64_t bytes) {
    uint64_t first = work->used;
    work->used += crn_align(bytes);
    return work->preparing || bytes == 0 ? NULL : (char *)work->call->workspace + first;
}

/* cuBLASLt requires this, also inside cuDNN. */
#define LIBRARY_ALIGNMENT 256u

void *crn_cuda_library_scratch(crn_work *work, uint64_t bytes) {
    if (bytes == 0)
        return NULL;
    uintptr_t at = (uintptr_t)crn_cuda_scratch(work, bytes + LIBRARY_ALIGNMENT);
    return (void *)((at + LIBRARY_ALIGNMENT - 1) & ~(uintptr_t)(LIBRARY_ALIGNMENT - 1));
}

/* One block of tickets serves all launches of an op, because they run one after the other. */
uint32_t *crn_cuda_tickets(const crn_work *work) {
    return work->tickets;
}

void crn_cuda_launch(crn_work *work, crn_launch launch, const void *args) {
    crn_device *device = work->device;
    if (work->preparing || launch.blocks[0] == 0 || launch.blocks[1] == 0)
        return;
    /* the driver reads the argument while it launches and does not write it */
    union {
        const void *given;
        void *taken;
    } argument = {args};
    void *parameters[] = {argument.taken};
    if (launch.tickets > CRN_TICKETS) {
        (void)crn_cuda_ok(device, CRN_CUDA_INVALID_VALUE, crn_kernel_list[launch.kernel].name);
        return;
    }
    (void)crn_cuda_ok(device,
                      device->api->cuLaunchKernel(device->kernels[launch.kernel], launch.blocks[0],
                                                  launch.blocks[1], 1, launch.threads, 1, 1,
                                                  launch.shared_bytes, device->streams[CRN_COMPUTE],
                                                  parameters, NULL),
                      crn_kernel_list[launch.kernel].name);
}

void crn_cuda_zero(crn_work *work, void *at, uint64_t bytes) {
    crn_fill_args args = {.count = bytes / 4, .at = at};
    if (!work->preparing)
        crn_cuda_launch(work, crn_fill_launch(&args), &args);
}

void crn_cuda_to_element(crn_work *work, const void *from, crn_element from_element, void *to,
                         crn_element to_element, uint64_t count) {
    crn_convert_args args = {.from_element = from_element,
                             .to_element = to_element,
                             .count = count,
                             .from = from,
                             .to = to};
    if (!work->preparing)
        crn_cuda_launch(work, crn_convert_launch(&args), &args);
}

/* ---- Products ---- */

static uint32_t find_product(const crn_cuda_recipe *recipe, const crn_blas_shape *shape) {
    uint32_t i = 0;
    while (i < recipe->product_count &&
           memcmp(&recipe->products[i].shape, shape, sizeof *shape) != 0)
        i++;
    return i;
}

/* The plan of a product, which was made when the op was prepared. NULL: there is none. */
static const crn_blas_plan *plan_of(crn_work *work, const crn_blas_shape *shape) {
    crn_cuda_recipe *recipe = work->recipe;
    uint32_t i = find_product(recipe, shape);
    if (i < recipe->product_count)
        return &recipe->products[i].plan;
    cairn_error err;
    if (!work->preparing || i == CRN_MOST_PRODUCTS ||
        crn_blas_prepare(work->device->api, work->device->blas, shape, recipe->rank,
                         &recipe->products[i].plan, &err) != CAIRN_OK)
        return NULL;
    recipe->products[i].shape = *shape;
    recipe->product_count++;
    return &recipe->products[i].plan;
}

/* The same with Cairn's own kernel: c [m, n] = a [m, k] b [k, n], with strides for transposes. */
static void multiply_ourselves(crn_work *work, const crn_blas_shape *s, crn_matrix x, crn_matrix w,
                               crn_matrix y, bool add) {
    crn_matrix w_turned = {w.at, w.column, w.row, w.next, w.element};
    crn_matrix y_turned = {y.at, y.column, y.row, y.next, y.element};
    uint32_t rows = (uint32_t)s->rows, in = (uint32_t)s->in, out = (uint32_t)s->out;
    crn_matmul_args args = {.batch = (uint32_t)CRN_MAX(s->slices, 1), .add = add};
    if (s->pass == CRN_BLAS_Y) {
        args.m = rows, args.n = out, args.k = in;
        args.a = x, args.b = w_turned, args.c = y;
    } else if (s->pass == CRN_BLAS_GX) {
        args.m = rows, args.n = in, args.k = out;
        args.a = y, args.b = w, args.c = x;
    } else {
        args.m = out, args.n = in, args.k = rows;
        args.a = y_turned, args.b = x, args.c = w;
    }
    crn_cuda_launch(work, crn_matmul_launch(&args), &args);
}

static crn_matrix by_rows(const void *at, int64_t rows, int64_t stride, bool half) {
    return (crn_matrix){crn_cuda_writable(at), (uint64_t)stride, 1, (uint64_t)(rows * stride),
                        half ? CRN_ELEMENT_BF16 : CRN_ELEMENT_F32};
}

/* The element type of the matrix that `pass` makes. */
static bool is_half_matrix(const crn_blas_shape *s, crn_blas_pass pass) {
    return s->pass == (int64_t)pass ? s->half_result != 0 : s->half != 0;
}

static void run_product(crn_work *work, const crn_blas_plan *plan, const void *x, const void *w,
                        const void *y, const void *bias, bool add) {
    crn_device *device = work->device;
    void *space = crn_cuda_library_scratch(work, plan->workspace);
    if (work->preparing)
        return;
    (void)crn_cuda_blas_ok(device,
                           crn_blas_run(device->api, device->blas, plan, crn_cuda_writable(x),
                                        crn_cuda_writable(w), crn_cuda_writable(y), bias, add,
                                        space, device->streams[CRN_COMPUTE]),
                           "a matrix product");
}

void crn_cuda_multiply(crn_work *work, const crn_blas_shape *shape, const void *x, const void *w,
                       const void *y, bool add) {
    const crn_blas_plan *plan = work->device->blas != NULL ? plan_of(work, shape) : NULL;
    if (plan != NULL)
        run_product(work, plan, x, w, y, NULL, add);
    else if (!work->preparing)
        multiply_ourselves(
            work, shape, by_rows(x, shape->rows, shape->in, is_half_matrix(shape, CRN_BLAS_GX)),
            by_rows(w, shape->out, shape->in, is_half_matrix(shape, CRN_BLAS_GW)),
            by_rows(y, shape->rows, shape->y_stride, is_half_matrix(shape, CRN_BLAS_Y)), add);
}

bool crn_cuda_multiply_with_bias(crn_work *work, const crn_blas_shape *shape, const void *x,
                                 const void *w, const void *y, const void *bias) {
    const crn_blas_plan *plan = work->device->blas != NULL ? plan_of(work, shape) : NULL;
    if (plan != NULL)
        run_product(work, plan, x, w, y, bias, false);
    return plan != NULL;
}

static crn_column_sums_args sums_of(const crn_view *gy) {
    return (crn_column_sums_args){.tiling = {.rows = gy->rows, .channels = gy->channels},
                                  .element = gy->element,
                                  .gy_pitch = gy->pitch,
                                  .y_pitch = gy->pitch,
                                  .masked_pitch = gy->pitch};
}

uint64_t crn_cuda_column_sums_bytes(const crn_view *gy) {
    crn_column_sums_args args = sums_of(gy);
    return crn_column_sums_workspace(&args);
}

static uint32_t gate_of(const crn_call *bwd) {
    if (bwd->op->kind == CAIRN_OP_RELU_BWD)
        return CRN_SUMS_RELU;
    return bwd->op->attributes.tanh ? CRN_GELU_TANH_BWD : CRN_GELU_BWD;
}

void crn_cuda_column_sums(crn_work *work, const crn_view *gy, float *sums, const crn_call *gate) {
    crn_column_sums_args args = sums_of(gy);
    args.gy = gy->at;
    args.sums = sums;
    args.tickets = crn_cuda_tickets(work);
    if (gate != NULL) {
        args.gate = gate_of(gate);
        args.y = gate->inputs[0];
        args.gy = gate->inputs[1];
        args.masked = gate->outputs[0];
    }
    uint64_t bytes = crn_cuda_column_sums_bytes(gy);
    args.partial = work->side != NULL ? work->side : crn_cuda_scratch(work, bytes);
    if (!work->preparing)
        crn_cuda_launch(work, crn_column_sums_launch(&args), &args);
}

/* ---- Operands ---- */

static bool is_half(const crn_site *site, const cairn_id *operands, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (operands[i] != CAIRN_NONE && site->storage[operands[i]].type == CRN_BF16)
            return true;
    return false;
}

crn_element crn_cuda_element(const crn_site *site) {
    const cairn_op *op = site->op;
    return is_half(site, op->inputs, op->input_count) ||
                   is_half(site, op->outputs, op->output_count)
               ? CRN_ELEMENT_BF16
               : CRN_ELEMENT_F32;
}

/* A sequence is a matrix: a row for each token. */
static crn_view view_sequence(const cairn_tensor *t) {
    crn_view matrix = {
        .batch = 1, .height = 1, .width = 1, .plane = 1, .element = CRN_ELEMENT_BF16};
    for (uint32_t i = 0; i + 1 < t->rank; i++)
        matrix.batch *= t->shape[i];
    matrix.rows = matrix.batch;
    matrix.channels = matrix.pitch = t->shape[t->rank - 1];
    return matrix;
}

crn_view crn_cuda_view(const crn_site *site, cairn_id id) {
    const cairn_tensor *t = cairn_graph_tensor(site->graph, id);
    const crn_storage *s = &site->storage[id];
    if (s->format != CRN_CHANNELS_LAST && s->type == CRN_BF16)
        return view_sequence(t);
    bool last = s->format == CRN_CHANNELS_LAST;
    crn_view image = {.batch = t->shape[0],
                      .height = t->rank > 2 ? t->shape[2] : 1,
                      .width = t->rank > 3 ? t->shape[3] : 1,
                      .channels = t->rank > 1 ? t->shape[1] : 1,
                      .element = crn_cuda_element(site)};
    image.plane = image.height * image.width;
    image.rows = image.batch * image.plane;
    image.pitch = last ? (image.channels + s->block - 1) / s->block * s->block : image.channels;
    image.staged = !last && (image.plane > 1 || image.element != CRN_ELEMENT_F32);
    return image;
}

static crn_view image_of(const crn_work *work, cairn_id id) {
    crn_site site = crn_site_of(work->call);
    return crn_cuda_view(&site, id);
}

/* Convert between the plain tensor and its image in the workspace. */
static void turn(crn_work *work, const crn_view *image, void *plain, bool to_image) {
    crn_layout_args args = {.element = image->element,
                            .plain_element = CRN_ELEMENT_F32,
                            .batch = image->batch,
                            .channels = image->channels,
                            .plane = image->plane,
                            .pitch = image->pitch,
                            .plain = plain,
                            .image = image->at};
    if (!work->preparing)
        crn_cuda_launch(work, to_image ? crn_to_image_launch(&args) : crn_to_plain_launch(&args),
                        &args);
}

static uint64_t image_bytes(const crn_view *image) {
    return (uint64_t)image->rows * image->pitch * crn_cuda_size(image->element);
}

crn_view crn_cuda_view_in(crn_work *work, uint32_t index) {
    crn_view image = image_of(work, work->call->op->inputs[index]);
    image.at = crn_cuda_writable(crn_cuda_in(work, index));
    if (image.staged) {
        void *plain = image.at;
        image.at = crn_cuda_scratch(work, image_bytes(&image));
        turn(work, &image, plain, true);
    }
    return image;
}

crn_view crn_cuda_view_out(crn_work *work, uint32_t index) {
    crn_view image = image_of(work, work->call->op->outputs[index]);
    image.at =
        image.staged ? crn_cuda_scratch(work, image_bytes(&image)) : crn_cuda_out(work, index);
    return image;
}

void crn_cuda_view_done(crn_work *work, uint32_t index, const crn_view *image) {
    if (image->staged)
        turn(work, image, crn_cuda_out(work, index), false);
}

static bool is_plain(const crn_work *work, cairn_id id) {
    return work->call->storage[id].format != CRN_CHANNELS_LAST;
}

void *crn_cuda_plain_in(crn_work *work, uint32_t index) {
    cairn_id id = work->call->op->inputs[index];
    void *at = crn_cuda_writable(crn_cuda_in(work, index));
    if (is_plain(work, id))
        return at;
    crn_view image = image_of(work, id);
    image.at = at;
    void *plain = crn_cuda_scratch(work, crn_cuda_tensor(work, id)->bytes);
    turn(work, &image, plain, false);
    return plain;
}

void *crn_cuda_plain_out(crn_work *work, uint32_t index) {
    cairn_id id = work->call->op->outputs[index];
    return is_plain(work, id) ? crn_cuda_out(work, index)
                              : crn_cuda_scratch(work, crn_cuda_tensor(work, id)->bytes);
}

void crn_cuda_plain_done(crn_work *work, uint32_t index, void *plain) {
    cairn_id id = work->call->op->outputs[index];
    if (is_plain(work, id))
        return;
    crn_view image = image_of(work, id);
    image.at = crn_cuda_out(work, index);
    turn(work, &image, plain, true);
}
