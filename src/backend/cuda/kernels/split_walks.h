/* split_walks.h: what a block of split_kernels.h or hopper_kernels.h computes, and how its threads
 * walk over taps and pixels. */
#ifndef CRN_SPLIT_WALKS_H
#define CRN_SPLIT_WALKS_H

#include "backend/cuda/kernels/split_tiles.h"

/* Taps of gather and scatter: the source of tap (r, s) is at the place of the first tap plus (r, s)
 * * step. A scatter with a stride has stride * stride classes of pixels, each with the taps that
 * reach it: first + (r, s) * every. */
typedef struct split_block {
    uint32_t row, column, rows, columns; /* of the tile; of the whole result */
    uint32_t depth, depth_end, blocks;   /* its range of the depth; in blocks of SPLIT_DEPTH */
    uint32_t taps;
    int32_t count[2], first[2], every[2], step[2];
    int32_t class_at[2], class_size[2]; /* scatter: of the block's pixels */
    const float *from;                  /* the image that is read at taps */
    uint32_t height, width, pitch, inner;
} split_block;

/* A tap (r, s) and a channel of it; or a pixel (r, s) of image c. */
typedef struct split_walk {
    int32_t r, s;
    uint32_t c;
} split_walk;

CRN_DEVICE void split_settle(const split_block *b, split_walk *w) {
    while (w->c >= b->inner) {
        w->c -= b->inner;
        if (++w->s == b->count[1]) {
            w->s = 0;
            w->r++;
        }
    }
}

CRN_DEVICE split_walk split_begin_walk(const split_block *b, uint32_t depth) {
    split_walk w = {0, 0, depth};
    if (b->count[0] > 0 && b->count[1] > 0)
        split_settle(b, &w);
    return w;
}

CRN_DEVICE void split_next_tap(const split_block *b, split_walk *w, uint32_t depth) {
    w->c += depth;
    split_settle(b, w);
}

/* The number of a tap among all taps. */
CRN_DEVICE uint32_t split_tap(const crn_split_args *CRN_RESTRICT p, const split_block *b,
                              const split_walk *w) {
    return (uint32_t)((b->first[0] + w->r * b->every[0]) * p->kernel[1] + b->first[1] +
                      w->s * b->every[1]);
}

/* The pixel of the small image with a number. */
CRN_DEVICE split_walk split_pixel(const crn_split_args *CRN_RESTRICT p, uint32_t number) {
    uint32_t line = number / p->small_width;
    split_walk w = {(int32_t)(line % p->small_height), (int32_t)(number % p->small_width),
                    line / p->small_height};
    return w;
}

CRN_DEVICE void split_next_pixel(const crn_split_args *CRN_RESTRICT p, split_walk *w,
                                 uint32_t depth) {
    w->s += (int32_t)depth;
    while (w->s >= (int32_t)p->small_width) {
        w->s -= (int32_t)p->small_width;
        if (++w->r == (int32_t)p->small_height) {
            w->r = 0;
            w->c++;
        }
    }
}

/* A tap and a channel, as columns of a weigh: where the tap is, relative to a pixel of the small
 * image times the stride; -1: there is no such column. */
typedef struct split_column {
    int32_t down, along, channel;
} split_column;

CRN_DEVICE split_column split_column_of(const crn_split_args *CRN_RESTRICT p, const split_block *b,
                                        uint32_t n) {
    uint32_t tap = n / p->channels;
    split_column c = {(int32_t)(tap / (uint32_t)p->kernel[1]) * p->dilation[0] - p->pad[0],
                      (int32_t)(tap % (uint32_t)p->kernel[1]) * p->dilation[1] - p->pad[1],
                      n < b->columns ? (int32_t)(n % p->channels) : -1};
    return c;
}

/* Whether the large image has an element there, and which one. */
CRN_DEVICE uint32_t split_column_at(const crn_split_args *CRN_RESTRICT p, const split_walk *pixel,
                                    const split_column *c, uint32_t *at) {
    int32_t y = pixel->r * p->stride[0] + c->down, x = pixel->s * p->stride[1] + c->along;
    *at = ((pixel->c * p->height + (uint32_t)y) * p->width + (uint32_t)x) * p->large_pitch +
          (uint32_t)c->channel;
    return c->channel >= 0 && (uint32_t)y < p->height && (uint32_t)x < p->width;
}

/* The taps of an axis that reach pixels `at`, `at` + stride, ... of the large image, see
 * split_block. */
CRN_DEVICE void split_class(const crn_split_args *CRN_RESTRICT p, split_block *b, uint32_t axis,
                            int32_t at) {
    int32_t stride = p->stride[axis], dilation = p->dilation[axis], every = 1, first = 0;
    while (every * dilation % stride != 0)
        every++;
    while (first < every && (at + p->pad[axis] - first * dilation) % stride != 0)
        first++;
    b->every[axis] = every;
    b->first[axis] = first;
    b->step[axis] = -every * dilation / stride;
    b->count[axis] = 0;
    if (first < every && first < p->kernel[axis])
        b->count[axis] = (p->kernel[axis] - first + every - 1) / every;
    b->class_at[axis] = at;
    b->class_size[axis] = ((int32_t)(axis == 0 ? p->height : p->width) - at + stride - 1) / stride;
}

/* The result of block (x, y). In a scatter y counts the tiles of the first class, which has the
 * most, then those of the others; a weigh has all tiles of a slice, then those of the others. */
CRN_DEVICE split_block split_block_of(const crn_split_args *CRN_RESTRICT p, uint32_t pass,
                                      uint32_t x, uint32_t y, uint32_t tm, uint32_t tn) {
    split_block b = {0};
    b.taps = (uint32_t)(p->kernel[0] * p->kernel[1]);
    b.column = x * tn;
    uint32_t pixels = p->batch * p->small_height * p->small_width;
    if (pass == CRN_SPLIT_WEIGH) {
        uint32_t tiles = (p->filters + tm - 1) / tm, slice = y / tiles;
        b.row = y % tiles * tm;
        b.rows = p->filters;
        b.columns = b.taps * p->channels;
        b.depth = slice * p->slice_blocks * SPLIT_DEPTH;
        b.depth_end = crn_min_u32(b.depth + p->slice_blocks * SPLIT_DEPTH, pixels);
        b.blocks = (b.depth_end - b.depth + SPLIT_DEPTH - 1) / SPLIT_DEPTH;
        return b;
    }
    if (pass == CRN_SPLIT_GATHER) {
        b.row = y * tm;
        b.rows = pixels;
        b.columns = p->filters;
        b.inner = p->channels;
        b.from = p->large;
        b.height = p->height, b.width = p->width, b.pitch = p->large_pitch;
        for (uint32_t axis = 0; axis < 2; axis++) {
            b.count[axis] = p->kernel[axis];
            b.every[axis] = 1;
            b.step[axis] = p->dilation[axis];
        }
    } else {
        uint32_t strides = (uint32_t)p->stride[1];
        uint32_t high = (p->height + (uint32_t)p->stride[0] - 1) / (uint32_t)p->stride[0];
        uint32_t wide = (p->width + strides - 1) / strides;
        uint32_t tiles = (p->batch * high * wide + tm - 1) / tm, pixel_class = y / tiles;
        split_class(p, &b, 0, (int32_t)(pixel_class / strides));
        split_class(p, &b, 1, (int32_t)(pixel_class % strides));
        b.row = y % tiles * tm;
        b.rows = p->batch * (uint32_t)(b.class_size[0] * b.class_size[1]);
        b.columns = p->channels;
        b.inner = p->filters;
        b.from = p->small;
        b.height = p->small_height, b.width = p->small_width, b.pitch = p->small_pitch;
    }
    b.depth_end = (uint32_t)(b.count[0] * b.count[1]) * b.inner;
    b.blocks = (b.depth_end + SPLIT_DEPTH - 1) / SPLIT_DEPTH;
    return b;
}

/* Where row m of the result has its first tap: image c, row r and column s, which may be outside.
 */
CRN_DEVICE split_walk split_row_pixel(const crn_split_args *CRN_RESTRICT p, const split_block *b,
                                      uint32_t pass, uint32_t m) {
    if (pass == CRN_SPLIT_GATHER) {
        split_walk w = split_pixel(p, m);
        w.r = w.r * p->stride[0] - p->pad[0];
        w.s = w.s * p->stride[1] - p->pad[1];
        return w;
    }
    uint32_t wide = (uint32_t)b->class_size[1], high = (uint32_t)b->class_size[0], line = m / wide;
    int32_t y = b->class_at[0] + (int32_t)(line % high) * p->stride[0];
    int32_t x = b->class_at[1] + (int32_t)(m % wide) * p->stride[1];
    split_walk w = {(y + p->pad[0] - b->first[0] * p->dilation[0]) / p->stride[0],
                    (x + p->pad[1] - b->first[1] * p->dilation[1]) / p->stride[1], line / high};
    return w;
}

/* Where a pixel of the image that is read begins, modulo 2^32: it may be outside. */
CRN_DEVICE uint32_t split_place(const split_block *b, const split_walk *pixel) {
    return ((pixel->c * b->height + (uint32_t)pixel->r) * b->width + (uint32_t)pixel->s) * b->pitch;
}

/* Where row m of the result begins. */
CRN_DEVICE size_t split_result_row(const crn_split_args *CRN_RESTRICT p, const split_block *b,
                                   uint32_t pass, uint32_t m) {
    if (pass == CRN_SPLIT_GATHER)
        return (size_t)m * p->small_pitch;
    if (pass == CRN_SPLIT_WEIGH)
        return (size_t)(b->depth / SPLIT_DEPTH / p->slice_blocks * p->filters + m) * b->columns;
    uint32_t wide = (uint32_t)b->class_size[1], high = (uint32_t)b->class_size[0], line = m / wide;
    uint32_t y = (uint32_t)b->class_at[0] + line % high * (uint32_t)p->stride[0];
    uint32_t x = (uint32_t)b->class_at[1] + m % wide * (uint32_t)p->stride[1];
    return (((size_t)(line / high) * p->height + y) * p->width + x) * p->large_pitch;
}

#endif
