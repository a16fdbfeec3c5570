/* depthwise_kernels.h: convolutions with one filter per channel; no guard. See pack.h.
 *
 * A block has a tile of channels (y of the grid), whose weights it keeps in shared memory, and
 * processes the rows of all images. A thread makes `columns` neighbouring pixels, which share what
 * they read if the stride is 1. The gradient of the data with stride 1 is the same with reversed
 * weights. */

#define filters FORM(depthwise_filters)
#define load_filters FORM(depthwise_load_filters)
#define some_pixels FORM(depthwise_pixels)
#define one_row FORM(depthwise_row)
#define row_shared FORM(depthwise_row_shared)
#define row_strided FORM(depthwise_row_strided)
#define make_pixels FORM(depthwise_make_pixels)
#define walk FORM(depthwise_walk)
#define row_sums FORM(depthwise_row_sums)
#define weigh_shared FORM(depthwise_weigh_shared)
#define weigh_strided FORM(depthwise_weigh_strided)
#define weigh_lane FORM(depthwise_weigh_lane)
#define columns (PACK == 8 ? 2u : 4u)
#define most_wide (CRN_DEPTHWISE_LANES * PACK)
#define weight_threads (PACK == 8 ? 128u : 256u) /* shared memory is too small for more */

/* One side of a depthwise convolution: pixel (i, j) of `to` [N, rows, width] reads
 * from [N, height, from_width] at i * stride + tap * dilation - pad, or backwards at
 * (i + pad - tap * dilation) / stride where that is whole. */
typedef struct filters {
    const void *from;
    void *to;
    uint32_t from_pitch, to_pitch;
    int32_t height, from_width, rows, width;
    int32_t pad[2];
    uint32_t back;  /* read in the backward direction */
    uint32_t close; /* stride and dilation are 1: neighbouring pixels share what they read */
} filters;

typedef struct some_pixels {
    pack at[columns];
} some_pixels;

/* weight [C, taps] -> w [taps, lanes * PACK], reversed if `turn` */
CRN_DEVICE void load_filters(const crn_depthwise_args *CRN_RESTRICT p, crn_grid g, int turn,
                             float *w) {
    uint32_t wide = p->tiling.lanes * PACK, taps = (uint32_t)(p->kernel[0] * p->kernel[1]);
    CRN_EACH_THREAD(t) {
        for (uint32_t i = t; i < wide * taps; i += g.threads) {
            uint32_t c = g.y * wide + i / taps, tap = i % taps;
            float value = c < p->channels ? p->weight[(size_t)c * taps + tap] : 0;
            w[(turn ? taps - 1 - tap : tap) * wide + i / taps] = value;
        }
    }
    CRN_BARRIER();
}

/* A row of taps of `wide` columns (a constant here) over neighbouring pixels. */
CRN_DEVICE some_pixels row_shared(const filters *f, size_t row, int32_t first, const float *w,
                                  uint32_t next, int32_t wide, some_pixels sum) {
    pack x[columns + 6];
    CRN_UNROLL for (int32_t j = 0; j < (int32_t)columns + wide - 1; j++) {
        int32_t column = first + j;
        x[j] = column >= 0 && column < f->from_width
                   ? get(f->from, row + (size_t)column * f->from_pitch)
                   : no_pack();
    }
    CRN_UNROLL for (int32_t tap = 0; tap < wide; tap++) {
        CRN_UNROLL for (uint32_t u = 0; u < columns; u++) {
            EACH(k) {
                sum.at[u].at[k] = crn_fma(w[(uint32_t)tap * next + k], x[tap + (int32_t)u].at[k],
                                          sum.at[u].at[k]);
            }
        }
    }
    return sum;
}

/* Any stride, dilation and width. */
CRN_DEVICE some_pixels row_strided(const crn_depthwise_args *CRN_RESTRICT p, const filters *f,
                                   size_t row, int32_t column, const float *w, uint32_t next,
                                   some_pixels sum) {
    for (int32_t tap = 0; tap < p->kernel[1]; tap++) {
        CRN_UNROLL for (uint32_t u = 0; u < columns; u++) {
            int32_t j = column + (int32_t)u, step = tap * p->dilation[1];
            int32_t at = f->back ? j + f->pad[1] - step : j * p->stride[1] + step - f->pad[1];
            if (f->back && (at < 0 || at % p->stride[1] != 0))
                continue;
            at = f->back ? at / p->stride[1] : at;
            if (at < 0 || at >= f->from_width)
                continue;
            pack x = get(f->from, row + (size_t)at * f->from_pitch);
            EACH(k) {
                sum.at[u].at[k] = crn_fma(w[(uint32_t)tap * next + k], x.at[k], sum.at[u].at[k]);
            }
        }
    }
    return sum;
}

CRN_DEVICE some_pixels one_row(const crn_depthwise_args *CRN_RESTRICT p, const filters *f,
                               size_t row, int32_t column, const float *w, uint32_t next,
                               some_pixels sum) {
    if (f->close && p->kernel[1] == 3)
        return row_shared(f, row, column - f->pad[1], w, next, 3, sum);
    if (f->close && p->kernel[1] == 5)
        return row_shared(f, row, column - f->pad[1], w, next, 5, sum);
    if (f->close && p->kernel[1] == 7)
        return row_shared(f, row, column - f->pad[1], w, next, 7, sum);
    return row_strided(p, f, row, column, w, next, sum);
}

/* Make the pixels from `column` on of row `row` of all images; w has the weights of the thread's
 * channels. */
CRN_DEVICE void make_pixels(const crn_depthwise_args *CRN_RESTRICT p, const filters *f,
                            uint32_t row, int32_t column, uint32_t c, const float *w,
                            uint32_t next) {
    uint32_t n = row / (uint32_t)f->rows;
    int32_t i = (int32_t)(row % (uint32_t)f->rows);
    some_pixels sum;
    pack bias = p->bias && !f->back ? get_floats(p->bias, c, p->channels) : no_pack();
    CRN_UNROLL for (uint32_t u = 0; u < columns; u++) sum.at[u] = bias;
    for (int32_t tap = 0; tap < p->kernel[0]; tap++) {
        int32_t step = tap * p->dilation[0], at = i * p->stride[0] + step - f->pad[0];
        if (f->back && !f->close) {
            at = i + f->pad[0] - step;
            if (at < 0 || at % p->stride[0] != 0)
                continue;
            at /= p->stride[0];
        }
        if (at < 0 || at >= f->height)
            continue;
        size_t from = ((size_t)n * f->height + at) * f->from_width * f->from_pitch + c;
        sum = one_row(p, f, from, column, w + (uint32_t)(tap * p->kernel[1]) * next, next, sum);
    }
    CRN_UNROLL for (uint32_t u = 0; u < columns; u++) {
        if (column + (int32_t)u < f->width)
            put(f->to, ((size_t)row * f->width + column + u) * f->to_pitch + c, sum.at[u]);
    }
}

CRN_DEVICE void walk(const crn_depthwise_args *CRN_RESTRICT p, crn_grid g, const filters *f,
                     const float *w) {
    uint32_t lanes = p->tiling.lanes, beside = ((uint32_t)f->width + columns - 1) / columns;
    uint32_t all = p->batch * (uint32_t)f->rows * beside, each = g.threads / lanes;
    CRN_EACH_THREAD(t) {
        uint32_t lane = t % lanes, c = (g.y * lanes + lane) * PACK;
        if (t / lanes >= each || c >= p->packs * PACK)
            continue;
        for (uint32_t i = g.x * each + t / lanes; i < all; i += g.blocks * each)
            make_pixels(p, f, i / beside, (int32_t)(i % beside * columns), c, w + lane * PACK,
                        lanes * PACK);
    }
}

/* large, weight -> small */
CRN_KERNEL_OF(FORM(depthwise), crn_depthwise_args, 256, 2) {
    CRN_SHARED(float, w, CRN_DEPTHWISE_TAPS *most_wide);
    filters f;
    f.from = p->large;
    f.to = p->small;
    f.from_pitch = p->large_pitch;
    f.to_pitch = p->small_pitch;
    f.height = (int32_t)p->height;
    f.from_width = (int32_t)p->width;
    f.rows = (int32_t)p->small_height;
    f.width = (int32_t)p->small_width;
    f.pad[0] = p->pad[0];
    f.pad[1] = p->pad[1];
    f.back = 0;
    f.close = p->close;
    load_filters(p, g, 0, w);
    walk(p, g, &f, w);
}

/* small, weight -> large */
CRN_KERNEL_OF(FORM(depthwise_data), crn_depthwise_args, 256, 2) {
    CRN_SHARED(float, w, CRN_DEPTHWISE_TAPS *most_wide);
    filters f;
    f.from = p->small;
    f.to = p->large;
    f.from_pitch = p->small_pitch;
    f.to_pitch = p->large_pitch;
    f.height = (int32_t)p->small_height;
    f.from_width = (int32_t)p->small_width;
    f.rows = (int32_t)p->height;
    f.width = (int32_t)p->width;
    f.back = 1;
    f.close = p->close;
    f.pad[0] = p->close ? p->kernel[0] - 1 - p->pad[0] : p->pad[0];
    f.pad[1] = p->close ? p->kernel[1] - 1 - p->pad[1] : p->pad[1];
    load_filters(p, g, p->close != 0, w);
    walk(p, g, &f, w);
}

/* ---- weights: one row of taps, y of the grid; a thread sums over whole rows of pixels ---- */

typedef struct row_sums {
    pack at[CRN_DEPTHWISE_WIDE];
} row_sums;

/* wide is a constant here */
CRN_DEVICE row_sums weigh_shared(const crn_depthwise_args *CRN_RESTRICT p, size_t large,
                                 size_t small, int32_t wide, row_sums sums) {
    for (int32_t q = 0; q < (int32_t)p->small_width; q += (int32_t)columns) {
        pack x[columns + 6], gy[columns];
        CRN_UNROLL for (uint32_t u = 0; u < columns; u++) gy[u] =
            q + (int32_t)u < (int32_t)p->small_width
                ? get(p->small, small + ((size_t)q + u) * p->small_pitch)
                : no_pack();
        CRN_UNROLL for (int32_t j = 0; j < (int32_t)columns + wide - 1; j++) {
            int32_t column = q + j - p->pad[1];
            x[j] = column >= 0 && column < (int32_t)p->width
                       ? get(p->large, large + (size_t)column * p->large_pitch)
                       : no_pack();
        }
        CRN_UNROLL for (int32_t tap = 0; tap < wide; tap++) {
            CRN_UNROLL for (uint32_t u = 0; u < columns; u++) {
                EACH(k) {
                    sums.at[tap].at[k] =
                        crn_fma(gy[u].at[k], x[tap + (int32_t)u].at[k], sums.at[tap].at[k]);
                }
            }
        }
    }
    return sums;
}

CRN_DEVICE row_sums weigh_strided(const crn_depthwise_args *CRN_RESTRICT p, size_t large,
                                  size_t small, row_sums sums) {
    for (int32_t q = 0; q < (int32_t)p->small_width; q++) {
        pack gy = get(p->small, small + (size_t)q * p->small_pitch);
        CRN_UNROLL for (int32_t tap = 0; tap < (int32_t)CRN_DEPTHWISE_WIDE; tap++) {
            int32_t column = q * p->stride[1] + tap * p->dilation[1] - p->pad[1];
            if (tap >= p->kernel[1] || column < 0 || column >= (int32_t)p->width)
                continue;
            pack x = get(p->large, large + (size_t)column * p->large_pitch);
            EACH(k) {
                sums.at[tap].at[k] = crn_fma(gy.at[k], x.at[k], sums.at[tap].at[k]);
            }
        }
    }
    return sums;
}

CRN_DEVICE row_sums weigh_lane(const crn_depthwise_args *CRN_RESTRICT p, crn_place at,
                               int32_t tap_row) {
    row_sums sums;
    uint32_t c = at.column * PACK;
    CRN_UNROLL for (uint32_t tap = 0; tap < CRN_DEPTHWISE_WIDE; tap++) sums.at[tap] = no_pack();
    for (uint32_t row = at.first; row < at.end; row += p->tiling.groups) {
        uint32_t n = row / p->small_height;
        int32_t i =
            (int32_t)(row % p->small_height) * p->stride[0] + tap_row * p->dilation[0] - p->pad[0];
        if (i < 0 || i >= (int32_t)p->height)
            continue;
        size_t large = ((size_t)n * p->height + i) * p->width * p->large_pitch + c;
        size_t small = (size_t)row * p->small_width * p->small_pitch + c;
        if (p->close && p->kernel[1] == 3)
            sums = weigh_shared(p, large, small, 3, sums);
        else if (p->close && p->kernel[1] == 5)
            sums = weigh_shared(p, large, small, 5, sums);
        else if (p->close && p->kernel[1] == 7)
            sums = weigh_shared(p, large, small, 7, sums);
        else
            sums = weigh_strided(p, large, small, sums);
    }
    return sums;
}

/* large, small -> weight_to */
CRN_KERNEL_OF(FORM(depthwise_weight), crn_depthwise_args, weight_threads, 2) {
    CRN_SHARED(float, s, CRN_DEPTHWISE_WIDE *weight_threads *PACK);
    CRN_SHARED(uint32_t, last, 1);
    const crn_tiling *tiling = &p->tiling;
    uint32_t tile = g.x % tiling->tiles, strip = g.x / tiling->tiles, wide = tiling->lanes * PACK;
    uint32_t taps = (uint32_t)p->kernel[1], number = g.y * tiling->tiles + tile;
    CRN_EACH_THREAD(t) {
        row_sums sums = weigh_lane(p, crn_place_of(tiling, tile, strip, t), (int32_t)g.y);
        CRN_UNROLL for (uint32_t tap = 0; tap < CRN_DEPTHWISE_WIDE; tap++) {
            EACH(k) {
                sum_of(s, weight_threads, tap, t, k) = sums.at[tap].at[k];
            }
        }
    }
    float *partial = (float *)p->partial + (size_t)number * tiling->strips * taps * wide;
    if (!add_up(tiling, g, strip, s, taps, partial, p->tickets + number, last))
        return;
    CRN_EACH_THREAD(t) {
        for (uint32_t i = t; i < wide && tile * wide + i < p->channels; i += g.threads)
            for (uint32_t tap = 0; tap < taps; tap++)
                p->weight_to[((size_t)(tile * wide + i) * p->kernel[0] + g.y) * taps + tap] =
                    sum_of(s, weight_threads, tap, 0, i);
    }
}

#undef filters
#undef load_filters
#undef some_pixels
#undef one_row
#undef row_shared
#undef row_strided
#undef make_pixels
#undef walk
#undef row_sums
#undef weigh_shared
#undef weigh_strided
#undef weigh_lane
#undef columns
#undef most_wide
#undef weight_threads
