/* split_launch.c: tiles and grids of convolutions in fp32 by matrix units: see kernel_launch.c. */
#include "backend/cuda/kernels/launch_shapes.h"
#include "backend/cuda/kernels/split_shapes.h"

#define UNITS 132u                   /* multiprocessors that a grid should suit */
#define DEPTH 16u                    /* pixels in a block of them */
#define LEAST_BLOCKS 8u              /* of a slice */
#define MOST_SLICE_BYTES (64u << 20) /* of all slices */
#define MOST_Y 65535u                /* of a grid */
#define HOPPER_DEPTH 32u
#define HOPPER_WEIGH_BYTES ((3 * (128 + 64) + 2 * 2 * 64) * HOPPER_DEPTH * (uint32_t)sizeof(float))
#define HOPPER_BYTES (3 * (128 + 2 * 64) * HOPPER_DEPTH * (uint32_t)sizeof(float))

typedef struct tile {
    uint32_t rows, columns, warp, held;
} tile;

static const tile tiles[CRN_SPLIT_TILE_COUNT] = {
#define TILE(name, rows, columns, warp, held) {rows, columns, warp, held},
    CRN_SPLIT_TILES(TILE)
#undef TILE
        {128, 64, 16, 2},
};

const char *const crn_split_names[CRN_SPLIT_TILE_COUNT] = {
#define TILE(name, rows, columns, warp, held) "split." #name,
    CRN_SPLIT_TILES(TILE)
#undef TILE
        "split.hopper",
};

/* The result as a matrix, in tiles: those of one slice, or of all classes of pixels. */
static void count_tiles(uint32_t pass, const crn_split_args *a, uint64_t out[2]) {
    const tile *t = &tiles[a->tile];
    uint32_t classes = 1;
    uint64_t rows = (uint64_t)a->batch * a->small_height * a->small_width;
    uint64_t columns = a->filters;
    if (pass == CRN_SPLIT_SCATTER) {
        uint32_t high = divide_up(a->height, (uint32_t)a->stride[0]);
        rows = (uint64_t)a->batch * high * divide_up(a->width, (uint32_t)a->stride[1]);
        columns = a->channels;
        classes = (uint32_t)(a->stride[0] * a->stride[1]);
    } else if (pass == CRN_SPLIT_WEIGH) {
        rows = a->filters;
        columns = (uint64_t)a->kernel[0] * (uint32_t)a->kernel[1] * a->channels;
    }
    out[0] = divide_up(columns, t->columns);
    out[1] = (uint64_t)divide_up(rows, t->rows) * classes;
}

/* About how long a weigh takes with `slices`, in the time that a block of the grid needs for DEPTH
 * pixels: a few of these to begin and to end, and at last all slices are read. */
static uint64_t weigh_cost(uint64_t tile_count, uint64_t slots, uint64_t blocks, uint64_t bytes,
                           uint64_t slices) {
    uint64_t turns = (tile_count * slices + slots - 1) / slots;
    return turns * ((blocks + slices - 1) / slices + 8) + (slices > 1 ? slices * bytes >> 20 : 0);
}

/* Divide the pixels into the number of slices that is likely to be the fastest. */
static void slice_pixels(uint32_t pass, crn_split_args *a) {
    uint64_t count[2], bytes = (uint64_t)a->filters * (uint32_t)(a->kernel[0] * a->kernel[1]) *
                               a->channels * sizeof(float);
    uint32_t blocks = divide_up((uint64_t)a->batch * a->small_height * a->small_width, DEPTH);
    uint64_t slots = UNITS * tiles[a->tile].held, best = 1, least = UINT64_MAX;
    count_tiles(pass, a, count);
    for (uint64_t slices = 1; pass == CRN_SPLIT_WEIGH && slices <= slots; slices++) {
        uint64_t cost = weigh_cost(count[0] * count[1], slots, blocks, bytes, slices);
        if (slices > 1 && (slices * bytes > MOST_SLICE_BYTES || slices * LEAST_BLOCKS > blocks))
            break;
        if (cost < least)
            best = slices, least = cost;
    }
    a->slice_blocks = divide_up(blocks, best);
    a->slices = divide_up(blocks, a->slice_blocks);
}

bool crn_split_fits(uint32_t pass, const crn_split_args *given) {
    crn_split_args a = *given;
    uint64_t count[2];
    bool hopper = a.tile == CRN_SPLIT_HOPPER;
    if (hopper && pass == CRN_SPLIT_SCATTER && a.filters % 16 != 0)
        return false; /* a row of turned weights has filters in groups of 16 */
    if (hopper && pass == CRN_SPLIT_WEIGH && a.filters <= 64)
        return false; /* half of a tile would be empty: the others are faster */
    slice_pixels(pass, &a);
    count_tiles(pass, &a, count);
    return count[1] * a.slices <= MOST_Y;
}

/* ---- Launches ---- */

static crn_launch tiles_launch(crn_kernel_id kernel, uint32_t pass, crn_split_args *given,
                               uint32_t which) {
    const tile *t = &tiles[which];
    uint64_t count[2];
    given->tile = which;
    slice_pixels(pass, given);
    count_tiles(pass, given, count);
    return launch_of(kernel, (uint32_t)count[0], (uint32_t)count[1] * given->slices,
                     t->rows / 64 * (t->columns / t->warp) * 32);
}

#define LAUNCH(pass, PASS, name)                                                                   \
    crn_launch crn_split_##pass##_##name##_launch(crn_split_args *given) {                         \
        return tiles_launch(CRN_K_split_##pass##_##name, PASS, given, CRN_SPLIT_##name);           \
    }
#define TILE(name, rows, columns, warp, held)                                                      \
    LAUNCH(gather, CRN_SPLIT_GATHER, name)                                                         \
    LAUNCH(scatter, CRN_SPLIT_SCATTER, name) LAUNCH(weigh, CRN_SPLIT_WEIGH, name)
CRN_SPLIT_TILES(TILE)
#undef TILE

static crn_launch hopper_launch(crn_kernel_id kernel, uint32_t pass, crn_split_args *given) {
    crn_launch launch = tiles_launch(kernel, pass, given, CRN_SPLIT_HOPPER);
    launch.shared_bytes = crn_kernel_shared_bytes(kernel);
    return launch;
}

crn_launch crn_hopper_gather_launch(crn_split_args *given) {
    return hopper_launch(CRN_K_hopper_gather, CRN_SPLIT_GATHER, given);
}

crn_launch crn_hopper_scatter_launch(crn_split_args *given) {
    return hopper_launch(CRN_K_hopper_scatter, CRN_SPLIT_SCATTER, given);
}

crn_launch crn_hopper_weigh_launch(crn_split_args *given) {
    return hopper_launch(CRN_K_hopper_weigh, CRN_SPLIT_WEIGH, given);
}

crn_launch crn_split_weights_launch(crn_split_weights_args *given) {
    given->pitch = divide_up((uint64_t)given->taps * given->channels, HOPPER_DEPTH) * HOPPER_DEPTH;
    return flat_launch(CRN_K_split_weights, (uint64_t)given->filters * given->pitch);
}

crn_launch crn_turn_weights_launch(crn_split_weights_args *given) {
    given->pitch = given->taps * given->filters;
    return launch_of(CRN_K_turn_weights, divide_up(given->channels, 32),
                     given->taps * (given->filters / 16), THREADS);
}

crn_launch crn_split_launch(uint32_t pass, crn_split_args *given) {
    static crn_launch (*const launches[CRN_SPLIT_TILE_COUNT][3])(crn_split_args *) = {
#define TILE(name, rows, columns, warp, held)                                                      \
    {crn_split_gather_##name##_launch, crn_split_scatter_##name##_launch,                          \
     crn_split_weigh_##name##_launch},
        CRN_SPLIT_TILES(TILE)
#undef TILE
            {crn_hopper_gather_launch, crn_hopper_scatter_launch, crn_hopper_weigh_launch},
    };
    return launches[given->tile][pass](given);
}

uint32_t crn_kernel_shared_bytes(crn_kernel_id kernel) {
    if (kernel == CRN_K_hopper_weigh)
        return HOPPER_WEIGH_BYTES;
    if (kernel >= CRN_K_row_norm_bwd && kernel < CRN_K_row_norm_bwd + 4) /* any form */
        return CRN_STRIP_BYTES;
    if (kernel >= CRN_K_token_loss && kernel < CRN_K_token_loss + 4)
        return CRN_TOKEN_BYTES;
    return kernel == CRN_K_hopper_gather || kernel == CRN_K_hopper_scatter ? HOPPER_BYTES : 0;
}
