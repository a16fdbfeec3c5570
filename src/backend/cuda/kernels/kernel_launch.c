/* kernel_launch.c: which form of a kernel runs, and on what grid. This depends only on shapes,
 * pitches and alignment, never on the device: the grid determines the order of sums, and these
 * kernels give the same bits on every GPU.
 *
 * The sizes of grids suit GPUs of about 132 multiprocessors, as an H100 and an H200 have. Kernels
 * that sum over rows have at most two blocks of 512 threads for each, so that all run at the same
 * time and there are few partial sums. On a smaller GPU the blocks take turns. */
#include "backend/cuda/kernels/launch_shapes.h"

/* In the order of all_kernels.c. */
const crn_kernel_entry crn_kernel_list[CRN_KERNELS] = {
#define IMAGE(name, args)                                                                          \
    {"crn_" #name "_f32", sizeof(crn_##args)}, {"crn_" #name "_bf16", sizeof(crn_##args)},         \
        {"crn_" #name "_f32_narrow", sizeof(crn_##args)},                                          \
        {"crn_" #name "_bf16_narrow", sizeof(crn_##args)},
#define TYPED(name, args)                                                                          \
    {"crn_" #name "_f32", sizeof(crn_##args)}, {"crn_" #name "_bf16", sizeof(crn_##args)},
#define PLAIN(name, args) {"crn_" #name, sizeof(crn_##args)},
#include "backend/cuda/kernels.def"
#undef IMAGE
#undef TYPED
#undef PLAIN
};

/* ---- Batch-norm ---- */

static uint32_t norm_pack(const crn_norm_args *a) {
    const operand operands[] = {{a->x, a->x_pitch},
                                {a->flags & CRN_NORM_ADD ? a->added : NULL, a->added_pitch},
                                {a->y, a->y_pitch}};
    return pack_of(a->element, a->tiling.channels, operands, 3);
}

crn_launch crn_norm_statistics_launch(crn_norm_args *given) {
    const operand x = {given->x, given->x_pitch};
    uint32_t pack = pack_of(given->element, given->tiling.channels, &x, 1);
    return sums_launch(CRN_K_norm_statistics, given->element, pack, 1, &given->tiling);
}

crn_launch crn_norm_apply_launch(crn_norm_args *given) {
    return column_launch(CRN_K_norm_apply, given->element, norm_pack(given), &given->tiling);
}

/* The bytes of an image of `rows` rows. */
static uint64_t image_bytes(uint32_t element, uint32_t rows, uint32_t pitch) {
    return (uint64_t)rows * pitch * (element == CRN_ELEMENT_BF16 ? 2 : 4);
}

/* Whether `to` is separate from every operand, or overlaps it element by element. */
static bool is_elementwise(uint32_t element, uint32_t rows, operand to, const operand *operands,
                           uint32_t count) {
    uintptr_t begin = (uintptr_t)to.at, end = begin + image_bytes(element, rows, to.pitch);
    for (uint32_t i = 0; i < count; i++) {
        uintptr_t other = (uintptr_t)operands[i].at;
        bool same = other == begin && operands[i].pitch == to.pitch;
        if (other != 0 && !same && other < end &&
            begin < other + image_bytes(element, rows, operands[i].pitch))
            return false;
    }
    return true;
}

/* Few rows, and few blocks of them. */
static bool is_small(const crn_tiling *given, uint32_t pack, uint32_t operands) {
    crn_tiling tiling = *given;
    tile_sums(&tiling, pack, operands);
    return tiling.strips == 1 && tiling.tiles <= WHOLE_BLOCKS;
}

int crn_norm_is_whole(const crn_norm_args *a) {
    const operand x = {a->x, a->x_pitch}, y = {a->y, a->y_pitch};
    const operand read[] = {x, {a->flags & CRN_NORM_ADD ? a->added : NULL, a->added_pitch}};
    return is_small(&a->tiling, norm_pack(a), 1) &&
           is_elementwise(a->element, a->tiling.rows, y, read, 2) &&
           pack_of(a->element, a->tiling.channels, &x, 1) == norm_pack(a);
}

crn_launch crn_norm_whole_launch(crn_norm_args *given) {
    assert(crn_norm_is_whole(given));
    return sums_launch(CRN_K_norm_whole, given->element, norm_pack(given), 1, &given->tiling);
}

crn_launch crn_norm_running_launch(crn_norm_args *given) {
    return launch_of(CRN_K_norm_running, divide_up(given->tiling.channels, THREADS), 1, THREADS);
}

uint64_t crn_norm_workspace(const crn_norm_args *given) {
    return column_workspace(given->tiling, given->element, 1, 2);
}

static uint32_t norm_bwd_pack(const crn_norm_bwd_args *a) {
    const operand operands[] = {
        {a->x, a->x_pitch},           {a->gy, a->gy_pitch},
        {a->gy2, a->gy2_pitch},       {a->mask == CRN_MASK_Y ? a->y : NULL, a->y_pitch},
        {a->masked, a->masked_pitch}, {a->gx, a->gx_pitch},
        {a->other, a->other_pitch}};
    return pack_of(a->element, a->tiling.channels, operands, 7);
}

crn_launch crn_norm_reduce_launch(crn_norm_bwd_args *given) {
    assert(given->gy2 == NULL || given->masked != NULL);
    return sums_launch(CRN_K_norm_reduce, given->element, norm_bwd_pack(given), 2, &given->tiling);
}

crn_launch crn_norm_spread_launch(crn_norm_bwd_args *given) {
    return column_launch(CRN_K_norm_spread, given->element, norm_bwd_pack(given), &given->tiling);
}

int crn_norm_bwd_is_whole(const crn_norm_bwd_args *a) {
    const operand gx = {a->gx, a->gx_pitch};
    const operand read[] = {
        {a->x, a->x_pitch},           {a->gy, a->gy_pitch},
        {a->gy2, a->gy2_pitch},       {a->mask == CRN_MASK_Y ? a->y : NULL, a->y_pitch},
        {a->masked, a->masked_pitch}, {a->other, a->other_pitch}};
    return is_small(&a->tiling, norm_bwd_pack(a), 2) &&
           is_elementwise(a->element, a->tiling.rows, gx, read, 6);
}

crn_launch crn_norm_bwd_whole_launch(crn_norm_bwd_args *given) {
    assert(crn_norm_bwd_is_whole(given));
    return sums_launch(CRN_K_norm_bwd_whole, given->element, norm_bwd_pack(given), 2,
                       &given->tiling);
}

uint64_t crn_norm_bwd_workspace(const crn_norm_bwd_args *given) {
    return column_workspace(given->tiling, given->element, 2, 2);
}

/* ---- Biases ---- */

crn_launch crn_bias_launch(crn_bias_args *given) {
    const operand operands[] = {{given->x, given->x_pitch}, {given->y, given->y_pitch}};
    uint32_t pack = pack_of(given->element, given->tiling.channels, operands, 2);
    return column_launch(CRN_K_bias, given->element, pack, &given->tiling);
}

crn_launch crn_column_sums_launch(crn_column_sums_args *given) {
    const operand operands[] = {{given->gy, given->gy_pitch},
                                {given->gate != 0 ? given->y : NULL, given->y_pitch},
                                {given->gate != 0 ? given->masked : NULL, given->masked_pitch}};
    uint32_t pack = pack_of(given->element, given->tiling.channels, operands, 3);
    return sums_launch(CRN_K_column_sums, given->element, pack, 1, &given->tiling);
}

uint64_t crn_column_sums_workspace(const crn_column_sums_args *given) {
    return column_workspace(given->tiling, given->element, 1, 1);
}

/* ---- Element by element ---- */

crn_launch crn_pointwise_launch(crn_pointwise_args *given) {
    bool two = given->op != CRN_COPY && given->op != CRN_RELU;
    const operand operands[] = {{given->a, given->a_pitch},
                                {two ? given->b : NULL, given->b_pitch},
                                {given->op == CRN_RELU_BWD_ADD ? given->c : NULL, given->c_pitch},
                                {given->to, given->to_pitch}};
    uint32_t pack = pack_of(given->element, given->channels, operands, 4);
    given->packs = divide_up(given->channels, pack);
    uint64_t all = (uint64_t)given->rows * given->packs;
    assert(all < UINT32_MAX - THREADS * POINTWISE_PACKS);
    return launch_of(form_of(CRN_K_pointwise, given->element, pack),
                     divide_up(all, THREADS * POINTWISE_PACKS), 1, THREADS);
}

crn_launch crn_dropout_launch(crn_dropout_args *given) {
    const operand operands[] = {{given->x, given->x_pitch}, {given->y, given->y_pitch}};
    uint32_t pack = pack_of(given->element, given->channels, operands, 2);
    given->packs = divide_up(given->channels, pack);
    uint64_t all = (uint64_t)given->batch * given->plane * given->packs;
    assert(all < UINT32_MAX - THREADS);
    return launch_of(form_of(CRN_K_dropout, given->element, pack), divide_up(all, THREADS), 1,
                     THREADS);
}

/* A pack must not contain channels of two sources. */
crn_launch crn_concat_launch(crn_concat_args *given) {
    uint32_t pack = wide_pack(given->element), widest = 0;
    for (uint32_t i = 0; i < given->count; i++) {
        const crn_concat_source *source = &given->sources[i];
        const operand operands[] = {{source->from, source->pitch}, {given->to, given->to_pitch}};
        pack = smaller(pack, pack_of(given->element, source->channels, operands, 2));
        if (source->first % pack != 0 || source->channels % pack != 0)
            pack = 1;
        widest = larger(widest, source->channels);
    }
    assert(given->count <= CRN_CONCAT_MOST);
    crn_launch launch = flat_launch(form_of(CRN_K_concat, given->element, pack),
                                    (uint64_t)given->rows * divide_up(widest, pack));
    launch.blocks[1] = given->count;
    return launch;
}

crn_launch crn_place_launch(crn_place_args *given) {
    return flat_launch(typed(CRN_K_place, given->element), given->all);
}

/* ---- Pooling: a block has a row of pixels ---- */

/* The divisor of every window's sum; 0: it depends on the window. */
static float common_share(const crn_pool_args *a) {
    uint32_t large[] = {a->height, a->width}, small[] = {a->small_height, a->small_width};
    uint32_t count = 1;
    for (int i = 0; i < 2; i++) {
        uint32_t size = (uint32_t)a->kernel[i];
        if (a->adaptive) {
            if (small[i] == 0 || large[i] % small[i] != 0)
                return 0;
            size = large[i] / small[i];
        } else if (!a->count_padding) {
            int64_t end = ((int64_t)small[i] - 1) * a->stride[i] - a->pad[i] + a->kernel[i];
            if (a->pad[i] != 0 || end > large[i])
                return 0;
        }
        count *= size;
    }
    return (float)count;
}

static crn_launch pool_launch(crn_kernel_id kernel, crn_pool_args *given, uint32_t height,
                              uint32_t width) {
    const operand operands[] = {{given->from, given->from_pitch}, {given->to, given->to_pitch}};
    uint32_t pack = pack_of(given->element, given->channels, operands, 2);
    bool aligned = given->places_pitch % 4 == 0 && (uintptr_t)given->places % 16 == 0;
    if (given->places != NULL && (!aligned || given->places_pitch < given->channels))
        pack = 1;
    if (pack > 1 && given->places != NULL && given->places_pitch % pack != 0)
        pack = 1;
    given->packs = divide_up(given->channels, pack);
    given->share = common_share(given);
    assert((uint64_t)(given->height + 1) * (given->small_height + 1) < INT32_MAX);
    assert((uint64_t)(given->width + 1) * (given->small_width + 1) < INT32_MAX);
    uint32_t row = width * given->packs, threads = smaller(THREADS, (row + 31) / 32 * 32);
    return launch_of(form_of(kernel, given->element, pack), given->batch * height,
                     threads > 0 ? divide_up(row, threads) : 0, threads);
}

crn_launch crn_max_pool_launch(crn_pool_args *given) {
    return pool_launch(CRN_K_max_pool, given, given->small_height, given->small_width);
}

crn_launch crn_max_pool_bwd_launch(crn_pool_args *given) {
    given->patch = given->stride[0] == 2 && given->stride[1] == 2 ? 2 : 1;
    return pool_launch(CRN_K_max_pool_bwd, given, divide_up(given->height, given->patch),
                       divide_up(given->width, given->patch));
}

crn_launch crn_avg_pool_launch(crn_pool_args *given) {
    return pool_launch(CRN_K_avg_pool, given, given->small_height, given->small_width);
}

crn_launch crn_avg_pool_bwd_launch(crn_pool_args *given) {
    return pool_launch(CRN_K_avg_pool_bwd, given, given->height, given->width);
}

/* ---- Depthwise convolution ---- */

static uint32_t depthwise_pack(const crn_depthwise_args *a) {
    const operand operands[] = {{a->large, a->large_pitch}, {a->small, a->small_pitch}};
    return pack_of(a->element, a->channels, operands, 2);
}

static void depthwise_shape(crn_depthwise_args *given, uint32_t pack) {
    assert(given->kernel[1] <= (int32_t)CRN_DEPTHWISE_WIDE);
    assert(given->kernel[0] * given->kernel[1] <= (int32_t)CRN_DEPTHWISE_TAPS);
    given->packs = divide_up(given->channels, pack);
    given->close = given->stride[0] == 1 && given->stride[1] == 1 && given->dilation[0] == 1 &&
                   given->dilation[1] == 1 &&
                   (given->kernel[1] == 3 || given->kernel[1] == 5 || given->kernel[1] == 7);
    given->tiling.tiles = larger(divide_up(given->packs, DEPTHWISE_LANES), 1);
    given->tiling.lanes = larger(divide_up(given->packs, given->tiling.tiles), 1);
}

/* The launch for `rows` x `width` pixels of every image. */
static crn_launch depthwise_launch(crn_kernel_id kernel, crn_depthwise_args *given, uint32_t rows,
                                   uint32_t width) {
    uint32_t pack = depthwise_pack(given), columns = pack == 8 ? 2 : 4;
    depthwise_shape(given, pack);
    uint64_t all = (uint64_t)given->batch * rows * divide_up(width, columns);
    uint32_t blocks = divide_up(all, THREADS / given->tiling.lanes);
    return launch_of(form_of(kernel, given->element, pack), smaller(blocks, MOST_BLOCKS),
                     given->tiling.tiles, THREADS);
}

crn_launch crn_depthwise_launch(crn_depthwise_args *given) {
    return depthwise_launch(CRN_K_depthwise, given, given->small_height, given->small_width);
}

crn_launch crn_depthwise_data_launch(crn_depthwise_args *given) {
    return depthwise_launch(CRN_K_depthwise_data, given, given->height, given->width);
}

/* The tiling with rows of pixels instead of pixels. */
static void tile_depthwise(crn_depthwise_args *given, uint32_t pack) {
    depthwise_shape(given, pack);
    given->tiling.rows = given->batch * given->small_height;
    given->tiling.channels = given->channels;
    tile_rows(&given->tiling, pack, pack == 8 ? 128 : 256, DEPTHWISE_LANES, COLUMN_BLOCKS);
}

crn_launch crn_depthwise_weight_launch(crn_depthwise_args *given) {
    uint32_t pack = depthwise_pack(given);
    tile_depthwise(given, pack);
    crn_launch launch = launch_of(form_of(CRN_K_depthwise_weight, given->element, pack),
                                  given->tiling.tiles * given->tiling.strips,
                                  (uint32_t)given->kernel[0], pack == 8 ? 128 : 256);
    launch.tickets = given->tiling.tiles * (uint32_t)given->kernel[0];
    return launch;
}

uint64_t crn_depthwise_weight_workspace(const crn_depthwise_args *given) {
    crn_depthwise_args copy = *given;
    uint64_t most = 0;
    for (uint32_t narrow = 0; narrow < 2; narrow++) {
        uint32_t pack = narrow ? 1 : wide_pack(copy.element);
        tile_depthwise(&copy, pack);
        uint64_t floats = (uint64_t)copy.tiling.tiles * copy.tiling.strips * copy.tiling.lanes *
                          pack * (uint32_t)(copy.kernel[0] * copy.kernel[1]);
        most = floats > most ? floats : most;
    }
    return (most * sizeof(float) + 15) / 16 * 16;
}

/* ---- Any convolution, any product ---- */

crn_launch crn_conv_gather_launch(crn_conv_args *given) {
    uint64_t count = (uint64_t)given->batch * given->small_height * given->small_width;
    return launch_of(typed(CRN_K_conv_gather, given->element),
                     divide_up(count * given->small_pitch, THREADS), 1, THREADS);
}

crn_launch crn_conv_scatter_launch(crn_conv_args *given) {
    uint64_t count = (uint64_t)given->batch * given->height * given->width;
    return launch_of(typed(CRN_K_conv_scatter, given->element),
                     divide_up(count * given->large_pitch, THREADS), 1, THREADS);
}

crn_launch crn_conv_weigh_launch(crn_conv_args *given) {
    uint64_t pixels = (uint64_t)given->batch * given->small_height * given->small_width;
    uint32_t threads = 32; /* no more than pixels, which the threads share */
    while (threads < THREADS && threads < pixels)
        threads *= 2;
    return launch_of(typed(CRN_K_conv_weigh, given->element),
                     given->filters * (given->channels / given->groups),
                     (uint32_t)(given->kernel[0] * given->kernel[1]), threads);
}

crn_launch crn_matmul_launch(crn_matmul_args *given) {
    return launch_of(CRN_K_matmul, divide_up(given->m, 16) * divide_up(given->n, 16), given->batch,
                     THREADS);
}

/* ---- Layout ---- */

static crn_launch layout_launch(crn_kernel_id kernel, const crn_layout_args *given) {
    uint64_t tiles = (uint64_t)given->batch * divide_up(given->pitch, 32);
    return launch_of(typed(kernel, given->element), (uint32_t)(tiles * divide_up(given->plane, 32)),
                     1, THREADS);
}

crn_launch crn_to_image_launch(crn_layout_args *given) {
    return layout_launch(CRN_K_to_image, given);
}

crn_launch crn_to_plain_launch(crn_layout_args *given) {
    return layout_launch(CRN_K_to_plain, given);
}

crn_launch crn_convert_launch(crn_convert_args *given) {
    return flat_launch(CRN_K_convert, given->count);
}

crn_launch crn_unfold_launch(crn_unfold_args *given) {
    return flat_launch(CRN_K_unfold, given->count);
}

crn_launch crn_add_slices_launch(crn_add_slices_args *given) {
    return flat_launch(CRN_K_add_slices, given->count);
}

/* ---- Loss ---- */

/* One block for each pixel, or one thread. */
static crn_launch loss_launch(crn_kernel_id kernel, crn_loss_args *given) {
    uint32_t pixels = given->batch * given->pixels;
    given->by_block = given->classes >= 64;
    return launch_of(typed(kernel, given->element),
                     given->by_block ? pixels : divide_up(pixels, THREADS), 1, THREADS);
}

crn_launch crn_cross_entropy_launch(crn_loss_args *given) {
    crn_launch launch = loss_launch(CRN_K_cross_entropy, given);
    launch.tickets = 1;
    return launch;
}

crn_launch crn_count_correct_launch(crn_loss_args *given) {
    return loss_launch(CRN_K_count_correct, given);
}

crn_launch crn_cross_entropy_bwd_launch(crn_loss_args *given) {
    return flat_launch(typed(CRN_K_cross_entropy_bwd, given->element),
                       (uint64_t)given->batch * given->classes * given->pixels);
}

uint64_t crn_loss_workspace(const crn_loss_args *given) {
    crn_loss_args copy = *given;
    return ((uint64_t)loss_launch(CRN_K_cross_entropy, &copy).blocks[0] * sizeof(float) + 15) / 16 *
           16;
}

/* ---- Cells ---- */

static crn_launch cell_launch(crn_kernel_id kernel, const crn_cell_args *given) {
    return launch_of(typed(kernel, given->element),
                     divide_up((uint64_t)given->batch * given->hidden, THREADS), 1, THREADS);
}

crn_launch crn_rnn_cell_launch(crn_cell_args *given) {
    return cell_launch(CRN_K_rnn_cell, given);
}

crn_launch crn_rnn_cell_bwd_launch(crn_cell_args *given) {
    return cell_launch(CRN_K_rnn_cell_bwd, given);
}

crn_launch crn_lstm_cell_launch(crn_cell_args *given) {
    return cell_launch(CRN_K_lstm_cell, given);
}

crn_launch crn_lstm_cell_bwd_launch(crn_cell_args *given) {
    return cell_launch(CRN_K_lstm_cell_bwd, given);
}

/* ---- Optimisers, patterns ---- */

crn_launch crn_gather_gradients_launch(crn_update_args *given) {
    return launch_of(CRN_K_gather_gradients, given->count, 1, THREADS);
}

crn_launch crn_square_chunks_launch(crn_update_args *given) {
    return launch_of(CRN_K_square_chunks, given->count, 1, THREADS);
}

crn_launch crn_add_squares_launch(crn_update_args *given) {
    (void)given;
    return launch_of(CRN_K_add_squares, 1, 1, THREADS);
}

crn_launch crn_sgd_launch(crn_update_args *given) {
    return launch_of(CRN_K_sgd, given->count, 1, THREADS);
}

crn_launch crn_adam_launch(crn_update_args *given) {
    return launch_of(CRN_K_adam, given->count, 1, THREADS);
}

crn_launch crn_fill_launch(crn_fill_args *given) {
    return flat_launch(CRN_K_fill, given->count);
}

crn_launch crn_count_changed_launch(crn_fill_args *given) {
    return flat_launch(CRN_K_count_changed, given->count);
}

crn_launch crn_count_nan_launch(crn_fill_args *given) {
    return flat_launch(CRN_K_count_nan, given->count);
}
