/* hopper_kernels.h: gather and scatter of split_kernels.h by the matrix units of compute capability
 * 9.0, and what splits the weights for them: see hopper_tiles.h and crn_split_args. */
#ifndef CRN_HOPPER_KERNELS_H
#define CRN_HOPPER_KERNELS_H

#include "backend/cuda/kernels/hopper_tiles.h"
#include "backend/cuda/kernels/split_walks.h"

/* ---- Weights ---- */

CRN_DEVICE void hopper_put(const crn_split_weights_args *CRN_RESTRICT p, uint32_t at, float x) {
    uint32_t big, small;
    split_number(x, &big, &small);
    p->big[at] = big;
    p->small[at] = small;
}

/* Rows are filters, the depth is taps x channels. */
CRN_KERNEL(crn_split_weights, crn_split_weights_args) {
    uint32_t depth = p->taps * p->channels;
    CRN_EACH_THREAD(t) {
        for (uint32_t i = g.x * g.threads + t; i < p->filters * p->pitch;
             i += g.blocks * g.threads) {
            uint32_t k = hopper_depth(i % p->pitch);
            hopper_put(p, i, k < depth ? p->weight[i / p->pitch * depth + k] : 0);
        }
    }
}

/* Rows are channels, the depth is taps x filters. A block turns 16 filters x 32 channels of a tap;
 * x of the grid: channels, y: taps and filters. */
CRN_KERNEL(crn_turn_weights, crn_split_weights_args) {
    CRN_SHARED(float, tile, 16 * 33);
    uint32_t tap = g.y % p->taps, o = g.y / p->taps * 16, c = g.x * 32;
    CRN_EACH_THREAD(t) {
        for (uint32_t row = t / 32; row < 16; row += 8)
            tile[row * 33 + t % 32] =
                c + t % 32 < p->channels
                    ? p->weight[((o + row) * p->taps + tap) * p->channels + c + t % 32]
                    : 0;
    }
    CRN_BARRIER();
    CRN_EACH_THREAD(t) {
        for (uint32_t row = t / 16; row < 32 && c + row < p->channels; row += 16)
            hopper_put(p, (c + row) * p->pitch + tap * p->filters + o + t % 16,
                       tile[hopper_depth(t % 16) * 33 + row]);
    }
}

/* ---- Products ---- */

#define HOPPER_COPIES (HOPPER_M / 32) /* of the left operand, by a thread for a stage */

/* What a thread knows about the places that it copies from: see split_kernels.h. */
typedef struct hopper_state {
    split_walk walk;
    int32_t y[HOPPER_COPIES], x[HOPPER_COPIES];
    uint32_t at[HOPPER_COPIES];
} hopper_state;

CRN_DEVICE void hopper_begin(const crn_split_args *CRN_RESTRICT p, const split_block *b,
                             uint32_t pass, uint32_t t, hopper_state *s) {
    CRN_UNROLL
    for (uint32_t i = 0; i < HOPPER_COPIES; i++) {
        uint32_t m = b->row + t / 8 + 32 * i;
        split_walk pixel = split_row_pixel(p, b, pass, m);
        s->y[i] = m < b->rows ? pixel.r : INT32_MIN / 2;
        s->x[i] = pixel.s;
        s->at[i] = split_place(b, &pixel);
    }
    s->walk = split_begin_walk(b, 4 * (t % 8));
}

CRN_DEVICE void hopper_copy(const crn_split_args *CRN_RESTRICT p, const split_block *b,
                            uint32_t pass, uint32_t t, uint32_t block, float *left,
                            hopper_state *s) {
    float *right = left + HOPPER_LEFT;
    int32_t down = s->walk.r * b->step[0], along = s->walk.s * b->step[1];
    uint32_t tap = ((uint32_t)down * b->width + (uint32_t)along) * b->pitch + s->walk.c;
    uint32_t there = s->walk.r < b->count[0], position = block * HOPPER_DEPTH + 4 * (t % 8);
    CRN_UNROLL
    for (uint32_t i = 0; i < HOPPER_COPIES; i++) {
        uint32_t in = there && (uint32_t)(s->y[i] + down) < b->height &&
                      (uint32_t)(s->x[i] + along) < b->width;
        split_copy(left + hopper_left_at(t / 8 + 32 * i, t % 8),
                   b->from + (in ? s->at[i] + tap : 0), in);
    }
    if (pass == CRN_SPLIT_SCATTER)
        position = split_tap(p, b, &s->walk) * b->inner + s->walk.c;
    else
        there = 1; /* the rows are filled up with zeros */
    CRN_UNROLL
    for (uint32_t row = t / 8; row < HOPPER_N; row += 32) {
        uint32_t in = there && b->column + row < b->columns;
        uint32_t from = in ? (b->column + row) * p->weight_pitch + position : 0;
        split_copy(right + hopper_right_at(row, t % 8), p->weight_big + from, in);
        split_copy(right + HOPPER_RIGHT + hopper_right_at(row, t % 8), p->weight_small + from, in);
    }
    split_next_tap(b, &s->walk, HOPPER_DEPTH);
}

/* Write the sums of a thread. */
CRN_DEVICE void hopper_end(const crn_split_args *CRN_RESTRICT p, const split_block *b,
                           uint32_t pass, uint32_t t, const float *sums) {
    CRN_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t row = hopper_row(t) + 8 * h, n = b->column + 2 * (t % 4);
        uint32_t m = b->row + (pass == CRN_SPLIT_WEIGH ? hopper_wide_row(row) : row);
        if (m >= b->rows)
            continue;
        float *to = p->to + split_result_row(p, b, pass, m);
        CRN_UNROLL
        for (uint32_t j = 0; j < HOPPER_N / 8; j++)
            if (n + 8 * j < b->columns)
                hopper_store(to + n + 8 * j, sums[4 * j + 2 * h], sums[4 * j + 2 * h + 1]);
    }
}

CRN_DEVICE void hopper_run(const crn_split_args *CRN_RESTRICT p, crn_grid g, uint32_t pass) {
    CRN_SHARED_ALL(float, tiles, HOPPER_STAGES *HOPPER_STAGE);
    CRN_KEPT(float, sums, HOPPER_SUMS);
    CRN_KEPT(float, partial, HOPPER_SUMS);
    CRN_KEPT(hopper_state, places, 1);
    const split_block b = split_block_of(p, pass, g.x, g.y, HOPPER_M, HOPPER_N);
    const uint32_t blocks = (b.depth_end + HOPPER_DEPTH - 1) / HOPPER_DEPTH;
    if (b.row >= b.rows) /* of a class of pixels with fewer rows than others */
        return;
    CRN_EACH_THREAD(t) {
        CRN_UNROLL
        for (uint32_t i = 0; i < HOPPER_SUMS; i++)
            CRN_OWN(sums, t)[i] = 0;
        hopper_begin(p, &b, pass, t, CRN_OWN(places, t));
        for (uint32_t k = 0; k < HOPPER_STAGES - 1; k++) {
            if (k < blocks)
                hopper_copy(p, &b, pass, t, k, tiles + k * HOPPER_STAGE, CRN_OWN(places, t));
            CRN_COPIES_END();
        }
    }
    uint32_t stage = 0, next = HOPPER_STAGES - 1;
    for (uint32_t k = 0; k < blocks; k++) {
        CRN_COPIES_WAIT(HOPPER_STAGES - 2);
        HOPPER_SHOW();
        CRN_BARRIER();
        CRN_EACH_THREAD(t) {
            if (k + HOPPER_STAGES - 1 < blocks)
                hopper_copy(p, &b, pass, t, k + HOPPER_STAGES - 1, tiles + next * HOPPER_STAGE,
                            CRN_OWN(places, t));
            CRN_COPIES_END();
        }
        CRN_EACH_THREAD(t) {
            const float *left = tiles + stage * HOPPER_STAGE;
            hopper_start(left, left + HOPPER_LEFT, 0, t, CRN_OWN(partial, t));
            hopper_finish(CRN_OWN(partial, t), CRN_OWN(sums, t));
        }
        stage = stage + 1 == HOPPER_STAGES ? 0 : stage + 1;
        next = next + 1 == HOPPER_STAGES ? 0 : next + 1;
    }
    CRN_EACH_THREAD(t) {
        hopper_end(p, &b, pass, t, CRN_OWN(sums, t));
    }
}

/* ---- Gradients of weights ---- */

#define HOPPER_WEIGH_STAGE (HOPPER_LEFT + HOPPER_RIGHT)
#define HOPPER_TURNED (HOPPER_STAGES * HOPPER_WEIGH_STAGE) /* two of them are behind the stages */

/* What a thread knows about the places that it copies from: the pixel, and the taps of two packs of
 * four columns. */
typedef struct hopper_weigh_state {
    split_walk pixel;
    split_column columns[2];
} hopper_weigh_state;

CRN_DEVICE void hopper_weigh_copy(const crn_split_args *CRN_RESTRICT p, const split_block *b,
                                  uint32_t t, uint32_t block, float *left, hopper_weigh_state *s) {
    float *right = left + HOPPER_LEFT;
    uint32_t depth = t / 8, pixel = b->depth + block * HOPPER_DEPTH + depth;
    uint32_t there = pixel < b->depth_end;
    CRN_UNROLL
    for (uint32_t m = 4 * (t % 8); m < HOPPER_M; m += 32) {
        uint32_t in = there && b->row + m < b->rows;
        split_copy(left + hopper_wide_at(depth, m),
                   p->small + (in ? pixel * p->small_pitch + b->row + m : 0), in);
    }
    CRN_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t at, in = split_column_at(p, &s->pixel, &s->columns[i], &at) && there;
        split_copy(right + depth * HOPPER_N + 4 * (t % 8) + 32 * i, p->large + (in ? at : 0), in);
    }
    split_next_pixel(p, &s->pixel, HOPPER_DEPTH);
}

/* Turn and split the right operand: four depths of an element at a time. */
CRN_DEVICE void hopper_turn(const float *right, uint32_t t, float *to) {
    CRN_UNROLL
    for (uint32_t four = t / 64; four < HOPPER_DEPTH / 4; four += HOPPER_THREADS / 64) {
        uint32_t big[4], small[4], n = t % 64, at = hopper_right_at(n, four);
        CRN_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            split_number(right[(4 * four + i) * HOPPER_N + n], &big[i], &small[i]);
        hopper_put_four(to + at, big);
        hopper_put_four(to + HOPPER_RIGHT + at, small);
    }
}

CRN_KERNEL_OF(crn_hopper_weigh, crn_split_args, 256, 2) {
    CRN_SHARED_ALL(float, tiles, HOPPER_TURNED + 4 * HOPPER_RIGHT);
    CRN_KEPT(float, sums, HOPPER_SUMS);
    CRN_KEPT(float, partial, HOPPER_SUMS);
    CRN_KEPT(hopper_weigh_state, places, 1);
    const split_block b = split_block_of(p, CRN_SPLIT_WEIGH, g.x, g.y, HOPPER_M, HOPPER_N);
    const uint32_t blocks = (b.depth_end - b.depth + HOPPER_DEPTH - 1) / HOPPER_DEPTH;
    CRN_EACH_THREAD(t) {
        CRN_UNROLL
        for (uint32_t i = 0; i < HOPPER_SUMS; i++)
            CRN_OWN(sums, t)[i] = 0;
        CRN_OWN(places, t)->pixel = split_pixel(p, b.depth + t / 8);
        CRN_UNROLL
        for (uint32_t i = 0; i < 2; i++)
            CRN_OWN(places, t)->columns[i] =
                split_column_of(p, &b, b.column + 4 * (t % 8) + 32 * i);
        for (uint32_t k = 0; k < HOPPER_STAGES - 1; k++) {
            if (k < blocks)
                hopper_weigh_copy(p, &b, t, k, tiles + k * HOPPER_WEIGH_STAGE, CRN_OWN(places, t));
            CRN_COPIES_END();
        }
    }
    CRN_COPIES_WAIT(HOPPER_STAGES - 2);
    CRN_BARRIER();
    CRN_EACH_THREAD(t) {
        hopper_turn(tiles + HOPPER_LEFT, t, tiles + HOPPER_TURNED);
    }
    uint32_t stage = 0;
    for (uint32_t k = 0; k < blocks; k++) {
        uint32_t next = stage + 1 == HOPPER_STAGES ? 0 : stage + 1;
        uint32_t last = stage == 0 ? HOPPER_STAGES - 1 : stage - 1;
        CRN_COPIES_WAIT(HOPPER_STAGES - 3); /* for the next stage, which is turned below */
        HOPPER_SHOW();
        CRN_BARRIER();
        CRN_EACH_THREAD(t) {
            hopper_start(tiles + stage * HOPPER_WEIGH_STAGE,
                         tiles + HOPPER_TURNED + k % 2 * 2 * HOPPER_RIGHT, 1, t,
                         CRN_OWN(partial, t));
        }
        CRN_EACH_THREAD(t) {
            if (k + HOPPER_STAGES - 1 < blocks)
                hopper_weigh_copy(p, &b, t, k + HOPPER_STAGES - 1,
                                  tiles + last * HOPPER_WEIGH_STAGE, CRN_OWN(places, t));
            CRN_COPIES_END();
            if (k + 1 < blocks)
                hopper_turn(tiles + next * HOPPER_WEIGH_STAGE + HOPPER_LEFT, t,
                            tiles + HOPPER_TURNED + (k + 1) % 2 * 2 * HOPPER_RIGHT);
        }
        CRN_EACH_THREAD(t) {
            hopper_finish(CRN_OWN(partial, t), CRN_OWN(sums, t));
        }
        stage = next;
    }
    CRN_EACH_THREAD(t) {
        hopper_end(p, &b, CRN_SPLIT_WEIGH, t, CRN_OWN(sums, t));
    }
}

CRN_KERNEL_OF(crn_hopper_gather, crn_split_args, 256, 2) {
    hopper_run(p, g, CRN_SPLIT_GATHER);
}

CRN_KERNEL_OF(crn_hopper_scatter, crn_split_args, 256, 2) {
    hopper_run(p, g, CRN_SPLIT_SCATTER);
}

#endif
