/* kernel_launch.c: which form of a kernel runs, and on what grid. This depends only on shapes,
 * pitches and alignment, never on the device, because the grid determines the order of sums.
 *
 * Grids are made for the 132 multiprocessors of an H200. Kernels that sum over rows have at most
 * two blocks of 512 threads for each, so that all run at the same time and there are few partial
 * sums. */
#include "backend/cuda/kernels.h"

#include <assert.h>
#include <stdbool.h>

#define THREADS 256u        /* of most blocks; blocks that sum rely on it */
#define COLUMN_THREADS 512u /* of blocks that process strips of rows */
#define COLUMN_BLOCKS 264u  /* the most of these blocks, unless one row of tiles has more */
#define FEW_BLOCKS 132u
#define LANES 32u /* the most packs of channels of such a block */
#define FEW_ROWS 4096u
#define VERY_FEW_ROWS 1024u
#define FEW_LANES 2u     /* of a block that has all rows: 32 bytes of each row */
#define WHOLE_BLOCKS 64u /* beyond that the whole GPU reads faster than blocks with few lanes */
#define DEPTHWISE_LANES 16u
#define POINTWISE_PACKS 4u /* of a thread */
#define MOST_BLOCKS 2112u  /* if threads loop until everything is done */

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

static uint32_t divide_up(uint64_t a, uint64_t b) {
    uint64_t result = (a + b - 1) / b;
    assert(result <= UINT32_MAX);
    return (uint32_t)result;
}

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* ---- Forms ---- */

static uint32_t wide_pack(uint32_t element) {
    return element == CRN_ELEMENT_BF16 ? 8 : 4;
}

/* An image that a kernel reads or writes; NULL fits any form. */
typedef struct operand {
    const void *at;
    uint32_t pitch;
} operand;

/* The elements of a pack: 16 bytes if every operand allows it, else one element. */
static uint32_t pack_of(uint32_t element, uint32_t channels, const operand *operands,
                        uint32_t count) {
    uint32_t pack = wide_pack(element);
    for (uint32_t i = 0; i < count; i++) {
        const operand *o = &operands[i];
        if (o->at == NULL)
            continue;
        if ((uintptr_t)o->at % 16 != 0 || o->pitch % pack != 0 || o->pitch < channels)
            return 1;
    }
    return pack;
}

/* The form of an image kernel whose first is `kernel`. */
static crn_kernel_id form_of(crn_kernel_id kernel, uint32_t element, uint32_t pack) {
    return (crn_kernel_id)((uint32_t)kernel + element + (pack == 1 ? 2u : 0u));
}

static crn_launch launch_of(crn_kernel_id kernel, uint32_t x, uint32_t y, uint32_t threads) {
    return (crn_launch){.kernel = kernel, .blocks = {x, y}, .threads = threads};
}

/* As many blocks as `count` threads need, up to MOST_BLOCKS, whose threads loop. */
static crn_launch flat_launch(crn_kernel_id kernel, uint64_t count) {
    uint64_t blocks = (count + THREADS - 1) / THREADS;
    return launch_of(kernel, (uint32_t)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), 1, THREADS);
}

static crn_kernel_id typed(crn_kernel_id kernel, uint32_t element) {
    return (crn_kernel_id)((uint32_t)kernel + element);
}

/* ---- Strips of rows ---- */

/* A thread should have 8 rows, so that 8 loads are in flight; fewer if there would be few
 * blocks. */
static void cut_rows(crn_cut *cut, uint32_t pack, uint32_t threads, uint32_t lanes,
                     uint32_t most_blocks) {
    cut->packs = divide_up(cut->channels, pack);
    cut->tiles = larger(divide_up(cut->packs, lanes), 1);
    cut->lanes = larger(divide_up(cut->packs, cut->tiles), 1);
    cut->groups = threads / cut->lanes;
    uint32_t each = 8;
    while (each > 1 && cut->tiles * divide_up(cut->rows, cut->groups * each) < FEW_BLOCKS)
        each /= 2;
    uint32_t strips = divide_up(cut->rows, cut->groups * each);
    strips = larger(smaller(strips, most_blocks / cut->tiles), 1);
    cut->strip = larger(divide_up(divide_up(cut->rows, strips), cut->groups) * cut->groups, 1);
    cut->strips = divide_up(cut->rows, cut->strip);
}

/* The cut for blocks that sum. If there are few rows, there is one strip of narrow tiles, so that
 * no block waits for the sums of others. For a small matrix this is faster than more blocks. Of
 * `operands` images, of which blocks with one read more, or of many channels, only very few rows
 * are. */
static void cut_sums(crn_cut *cut, uint32_t pack, uint32_t operands) {
    cut->packs = divide_up(cut->channels, pack);
    bool small = operands == 1 && cut->packs <= FEW_LANES * WHOLE_BLOCKS;
    if (cut->rows > (small ? FEW_ROWS : VERY_FEW_ROWS)) {
        cut_rows(cut, pack, COLUMN_THREADS, LANES, COLUMN_BLOCKS);
        return;
    }
    uint32_t lanes = cut->rows <= VERY_FEW_ROWS ? 2 * FEW_LANES : FEW_LANES;
    while (lanes < 4 * FEW_LANES && divide_up(cut->packs, lanes) > FEW_BLOCKS)
        lanes *= 2;
    cut->lanes = smaller(cut->packs, lanes);
    cut->tiles = divide_up(cut->packs, cut->lanes);
    cut->groups = COLUMN_THREADS / cut->lanes;
    cut->strip = cut->rows;
    cut->strips = 1;
}

static crn_launch sums_launch(crn_kernel_id kernel, uint32_t element, uint32_t pack,
                              uint32_t operands, crn_cut *cut) {
    cut_sums(cut, pack, operands);
    crn_launch launch =
        launch_of(form_of(kernel, element, pack), cut->tiles * cut->strips, 1, COLUMN_THREADS);
    launch.tickets = cut->strips > 1 ? cut->tiles : 0;
    return launch;
}

static crn_launch column_launch(crn_kernel_id kernel, uint32_t element, uint32_t pack,
                                crn_cut *cut) {
    cut_rows(cut, pack, COLUMN_THREADS, LANES, COLUMN_BLOCKS);
    return launch_of(form_of(kernel, element, pack), cut->tiles * cut->strips, 1, COLUMN_THREADS);
}

/* The workspace for `arrays` sums per channel, enough for every form. */
static uint64_t column_workspace(crn_cut cut, uint32_t element, uint32_t operands,
                                 uint32_t arrays) {
    uint64_t most = 0;
    for (uint32_t narrow = 0; narrow < 2; narrow++) {
        uint32_t pack = narrow ? 1 : wide_pack(element);
        cut_sums(&cut, pack, operands);
        uint64_t floats = (uint64_t)cut.tiles * cut.strips * arrays * cut.lanes * pack;
        most = floats > most ? floats : most;
    }
    return (most * sizeof(float) + 15) / 16 * 16;
}

/* ---- Batch-norm ---- */

static uint32_t norm_pack(const crn_norm_args *a) {
    const operand operands[] = {{a->x, a->x_pitch},
                                {a->flags & CRN_NORM_ADD ? a->added : NULL, a->added_pitch},
                                {a->y, a->y_pitch}};
    return pack_of(a->element, a->cut.channels, operands, 3);
}

crn_launch crn_norm_statistics_launch(crn_norm_args *given) {
    const operand x = {given->x, given->x_pitch};
    uint32_t pack = pack_of(given->element, given->cut.channels, &x, 1);
    return sums_launch(CRN_K_norm_statistics, given->element, pack, 1, &given->cut);
}

crn_launch crn_norm_apply_launch(crn_norm_args *given) {
    return column_launch(CRN_K_norm_apply, given->element, norm_pack(given), &given->cut);
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
static bool is_small(const crn_cut *given, uint32_t pack, uint32_t operands) {
    crn_cut cut = *given;
    cut_sums(&cut, pack, operands);
    return cut.strips == 1 && cut.tiles <= WHOLE_BLOCKS;
}

int crn_norm_is_whole(const crn_norm_args *a) {
    const operand x = {a->x, a->x_pitch}, y = {a->y, a->y_pitch};
    const operand read[] = {x, {a->flags & CRN_NORM_ADD ? a->added : NULL, a->added_pitch}};
    return is_small(&a->cut, norm_pack(a), 1) &&
           is_elementwise(a->element, a->cut.rows, y, read, 2) &&
           pack_of(a->element, a->cut.channels, &x, 1) == norm_pack(a);
}

crn_launch crn_norm_whole_launch(crn_norm_args *given) {
    assert(crn_norm_is_whole(given));
    return sums_launch(CRN_K_norm_whole, given->element, norm_pack(given), 1, &given->cut);
}

crn_launch crn_norm_running_launch(crn_norm_args *given) {
    return launch_of(CRN_K_norm_running, divide_up(given->cut.channels, THREADS), 1, THREADS);
}

uint64_t crn_norm_workspace(const crn_norm_args *given) {
    return column_workspace(given->cut, given->element, 1, 2);
}

static uint32_t norm_bwd_pack(const crn_norm_bwd_args *a) {
    const operand operands[] = {
        {a->x, a->x_pitch},           {a->gy, a->gy_pitch},
        {a->gy2, a->gy2_pitch},       {a->mask == CRN_MASK_Y ? a->y : NULL, a->y_pitch},
        {a->masked, a->masked_pitch}, {a->gx, a->gx_pitch},
        {a->other, a->other_pitch}};
    return pack_of(a->element, a->cut.channels, operands, 7);
}

crn_launch crn_norm_reduce_launch(crn_norm_bwd_args *given) {
    assert(given->gy2 == NULL || given->masked != NULL);
    return sums_launch(CRN_K_norm_reduce, given->element, norm_bwd_pack(given), 2, &given->cut);
}

crn_launch crn_norm_spread_launch(crn_norm_bwd_args *given) {
    return column_launch(CRN_K_norm_spread, given->element, norm_bwd_pack(given), &given->cut);
}

int crn_norm_bwd_is_whole(const crn_norm_bwd_args *a) {
    const operand gx = {a->gx, a->gx_pitch};
    const operand read[] = {
        {a->x, a->x_pitch},           {a->gy, a->gy_pitch},
        {a->gy2, a->gy2_pitch},       {a->mask == CRN_MASK_Y ? a->y : NULL, a->y_pitch},
        {a->masked, a->masked_pitch}, {a->other, a->other_pitch}};
    return is_small(&a->cut, norm_bwd_pack(a), 2) &&
           is_elementwise(a->element, a->cut.rows, gx, read, 6);
}

crn_launch crn_norm_bwd_whole_launch(crn_norm_bwd_args *given) {
    assert(crn_norm_bwd_is_whole(given));
    return sums_launch(CRN_K_norm_bwd_whole, given->element, norm_bwd_pack(given), 2, &given->cut);
}

uint64_t crn_norm_bwd_workspace(const crn_norm_bwd_args *given) {
    return column_workspace(given->cut, given->element, 2, 2);
}

/* ---- Biases ---- */

crn_launch crn_bias_launch(crn_bias_args *given) {
    const operand operands[] = {{given->x, given->x_pitch}, {given->y, given->y_pitch}};
    uint32_t pack = pack_of(given->element, given->cut.channels, operands, 2);
    return column_launch(CRN_K_bias, given->element, pack, &given->cut);
}

crn_launch crn_column_sums_launch(crn_column_sums_args *given) {
    const operand operands[] = {{given->gy, given->gy_pitch},
                                {given->y, given->y_pitch},
                                {given->y != NULL ? given->masked : NULL, given->masked_pitch}};
    uint32_t pack = pack_of(given->element, given->cut.channels, operands, 3);
    return sums_launch(CRN_K_column_sums, given->element, pack, 1, &given->cut);
}

uint64_t crn_column_sums_workspace(const crn_column_sums_args *given) {
    return column_workspace(given->cut, given->element, 1, 1);
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
    given->cut.tiles = larger(divide_up(given->packs, DEPTHWISE_LANES), 1);
    given->cut.lanes = larger(divide_up(given->packs, given->cut.tiles), 1);
}

/* The launch for `rows` x `width` pixels of every image. */
static crn_launch depthwise_launch(crn_kernel_id kernel, crn_depthwise_args *given, uint32_t rows,
                                   uint32_t width) {
    uint32_t pack = depthwise_pack(given), columns = pack == 8 ? 2 : 4;
    depthwise_shape(given, pack);
    uint64_t all = (uint64_t)given->batch * rows * divide_up(width, columns);
    uint32_t blocks = divide_up(all, THREADS / given->cut.lanes);
    return launch_of(form_of(kernel, given->element, pack), smaller(blocks, MOST_BLOCKS),
                     given->cut.tiles, THREADS);
}

crn_launch crn_depthwise_launch(crn_depthwise_args *given) {
    return depthwise_launch(CRN_K_depthwise, given, given->small_height, given->small_width);
}

crn_launch crn_depthwise_data_launch(crn_depthwise_args *given) {
    return depthwise_launch(CRN_K_depthwise_data, given, given->height, given->width);
}

/* The cut with rows of pixels instead of pixels. */
static void cut_depthwise(crn_depthwise_args *given, uint32_t pack) {
    depthwise_shape(given, pack);
    given->cut.rows = given->batch * given->small_height;
    given->cut.channels = given->channels;
    cut_rows(&given->cut, pack, pack == 8 ? 128 : 256, DEPTHWISE_LANES, COLUMN_BLOCKS);
}

crn_launch crn_depthwise_weight_launch(crn_depthwise_args *given) {
    uint32_t pack = depthwise_pack(given);
    cut_depthwise(given, pack);
    crn_launch launch = launch_of(form_of(CRN_K_depthwise_weight, given->element, pack),
                                  given->cut.tiles * given->cut.strips, (uint32_t)given->kernel[0],
                                  pack == 8 ? 128 : 256);
    launch.tickets = given->cut.tiles * (uint32_t)given->kernel[0];
    return launch;
}

uint64_t crn_depthwise_weight_workspace(const crn_depthwise_args *given) {
    crn_depthwise_args copy = *given;
    uint64_t most = 0;
    for (uint32_t narrow = 0; narrow < 2; narrow++) {
        uint32_t pack = narrow ? 1 : wide_pack(copy.element);
        cut_depthwise(&copy, pack);
        uint64_t floats = (uint64_t)copy.cut.tiles * copy.cut.strips * copy.cut.lanes * pack *
                          (uint32_t)(copy.kernel[0] * copy.kernel[1]);
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

crn_launch crn_add_parts_launch(crn_add_parts_args *given) {
    return flat_launch(CRN_K_add_parts, given->count);
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
