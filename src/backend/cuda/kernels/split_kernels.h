/* split_kernels.h: convolutions in fp32 as products of matrices by matrix units, with tiles of TM x
 * TN elements of the result; no guard. See split_tiles.h and crn_split_args.
 *
 *                     rows                columns         depth
 *     split_gather    pixels of small     filters         taps x channels
 *     split_scatter   pixels of large     channels        taps x filters
 *     split_weigh     filters             taps, channels  pixels of small
 *
 * The matrices of images are not stored: each thread finds out where the 16 bytes that it copies
 * are, or that they are outside of the image and zero. Copies are two blocks of depth ahead of the
 * products. */

#define SPLIT_THREADS ((TM) / 64 * ((TN) / WARP_N) * 32)
#define LEFT_COPIES ((TM)*4 / SPLIT_THREADS) /* of 16 bytes, by a thread for a block of depth */
#define RIGHT_COPIES ((TN)*4 / SPLIT_THREADS)
#define STAGE (((TM) + (TN)) * SPLIT_DEPTH)
#define LANES_16 (SPLIT_THREADS / 16) /* threads that copy elements of the same depth */

#define state FORM(split_state)
#define begin FORM(split_begin)
#define copy FORM(split_copy_block)
#define store FORM(split_store_tile)
#define run FORM(split_run)

/* What a thread knows about the places that it copies from. */
typedef struct state {
    split_walk left, right;                 /* of images: the tap; the pixel */
    int32_t y[LEFT_COPIES], x[LEFT_COPIES]; /* of the first tap of its pixels */
    uint32_t at[LEFT_COPIES];               /* of that place, modulo 2^32 */
    split_column columns[RIGHT_COPIES];     /* weigh: its columns */
} state;

CRN_DEVICE void begin(const crn_split_args *CRN_RESTRICT p, const split_block *b, uint32_t pass,
                      uint32_t t, state *s) {
    if (pass == CRN_SPLIT_WEIGH) {
        CRN_UNROLL
        for (uint32_t i = 0; i < RIGHT_COPIES; i++)
            s->columns[i] = split_column_of(p, b, b->column + 4 * (t % LANES_16 + i * LANES_16));
        s->left = split_pixel(p, b->depth + t / LANES_16);
        return;
    }
    CRN_UNROLL
    for (uint32_t i = 0; i < LEFT_COPIES; i++) {
        uint32_t m = b->row + split_left_row(t / 4 + i * (SPLIT_THREADS / 4));
        split_walk pixel = split_row_pixel(p, b, pass, m);
        s->y[i] = m < b->rows ? pixel.r : INT32_MIN / 2; /* outside of the image at every tap */
        s->x[i] = pixel.s;
        s->at[i] = split_place(b, &pixel);
    }
    s->left = split_begin_walk(b, 4 * (t % 4));
    if (pass == CRN_SPLIT_SCATTER)
        s->right = split_begin_walk(b, t / LANES_16);
}

CRN_DEVICE void copy(const crn_split_args *CRN_RESTRICT p, const split_block *b, uint32_t pass,
                     uint32_t t, uint32_t block, float *left, state *s) {
    float *right = left + (TM)*SPLIT_DEPTH;
    uint32_t depth = t / LANES_16, lane = t % LANES_16;
    if (pass == CRN_SPLIT_WEIGH) {
        uint32_t pixel = b->depth + block * SPLIT_DEPTH + depth, there = pixel < b->depth_end;
        CRN_UNROLL
        for (uint32_t i = 0; i < LEFT_COPIES; i++) {
            uint32_t m = 4 * (lane + i * LANES_16), in = there && b->row + m < b->rows;
            split_copy(left + split_wide_at(depth, m, TM),
                       p->small + (in ? pixel * p->small_pitch + b->row + m : 0), in);
        }
        CRN_UNROLL
        for (uint32_t i = 0; i < RIGHT_COPIES; i++) {
            uint32_t at, in = split_column_at(p, &s->left, &s->columns[i], &at) && there;
            split_copy(right + split_wide_at(depth, 4 * (lane + i * LANES_16), TN),
                       p->large + (in ? at : 0), in);
        }
        split_next_pixel(p, &s->left, SPLIT_DEPTH);
        return;
    }
    int32_t down = s->left.r * b->step[0], along = s->left.s * b->step[1];
    uint32_t tap = ((uint32_t)down * b->width + (uint32_t)along) * b->pitch + s->left.c;
    CRN_UNROLL
    for (uint32_t i = 0; i < LEFT_COPIES; i++) {
        uint32_t row = t / 4 + i * (SPLIT_THREADS / 4);
        uint32_t in = s->left.r < b->count[0] && (uint32_t)(s->y[i] + down) < b->height &&
                      (uint32_t)(s->x[i] + along) < b->width;
        split_copy(left + split_deep_at(row, 4 * (t % 4)), b->from + (in ? s->at[i] + tap : 0), in);
    }
    split_next_tap(b, &s->left, SPLIT_DEPTH);
    if (pass == CRN_SPLIT_GATHER) {
        uint32_t k = block * SPLIT_DEPTH + 4 * (t % 4);
        CRN_UNROLL
        for (uint32_t i = 0; i < RIGHT_COPIES; i++) {
            uint32_t row = t / 4 + i * (SPLIT_THREADS / 4), n = b->column + split_right_row(row);
            uint32_t in = n < b->columns && k < b->depth_end;
            split_copy(right + split_deep_at(row, 4 * (t % 4)),
                       p->weight + (in ? n * b->depth_end + k : 0), in);
        }
        return;
    }
    uint32_t there = s->right.r < b->count[0];
    uint32_t from = (s->right.c * b->taps + split_tap(p, b, &s->right)) * p->channels + b->column;
    CRN_UNROLL
    for (uint32_t i = 0; i < RIGHT_COPIES; i++) {
        uint32_t n = 4 * (lane + i * LANES_16), in = there && b->column + n < b->columns;
        split_copy(right + split_wide_at(depth, n, TN), p->weight + (in ? from + n : 0), in);
    }
    split_next_tap(b, &s->right, SPLIT_DEPTH);
}

CRN_DEVICE void store(const crn_split_args *CRN_RESTRICT p, const split_block *b, uint32_t pass,
                      uint32_t row, uint32_t column, uint32_t t, const float *sums) {
    CRN_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t m = b->row + row + i / 4 * 32 + 4 * split_spread(t % 32 / 4) + i % 4;
        if (m >= b->rows)
            continue;
        float *to = p->to + split_result_row(p, b, pass, m);
        CRN_UNROLL
        for (uint32_t h = 0; h < WARP_N / 16; h++) {
            uint32_t n = b->column + column + 16 * h + 4 * (t % 4);
            const float *from = sums + h / 2 * 64 + i % 4 * 16 + i / 4 * 2 + h % 2;
            if (n < b->columns)
                split_store(to + n, from[0], from[4], from[8], from[12]);
        }
    }
}

CRN_DEVICE void run(const crn_split_args *CRN_RESTRICT p, crn_grid g, uint32_t pass) {
    CRN_SHARED(float, tiles, SPLIT_STAGES *STAGE);
    CRN_KEPT(float, sums, WARP_N * 2);
    CRN_KEPT(state, places, 1);
    const split_block b = split_block_of(p, pass, g.x, g.y, TM, TN);
    if (b.row >= b.rows) /* of a class of pixels with fewer rows than others */
        return;
    CRN_EACH_THREAD(t) {
        CRN_UNROLL
        for (uint32_t i = 0; i < WARP_N * 2; i++)
            CRN_OWN(sums, t)[i] = 0;
        begin(p, &b, pass, t, CRN_OWN(places, t));
        CRN_UNROLL
        for (uint32_t k = 0; k < SPLIT_STAGES - 1; k++) {
            if (k < b.blocks)
                copy(p, &b, pass, t, k, tiles + k * STAGE, CRN_OWN(places, t));
            CRN_COPIES_END();
        }
    }
    uint32_t stage = 0, next = SPLIT_STAGES - 1;
    for (uint32_t k = 0; k < b.blocks; k++) {
        CRN_COPIES_WAIT(SPLIT_STAGES - 2);
        CRN_BARRIER();
        CRN_EACH_THREAD(t) {
            if (k + SPLIT_STAGES - 1 < b.blocks)
                copy(p, &b, pass, t, k + SPLIT_STAGES - 1, tiles + next * STAGE,
                     CRN_OWN(places, t));
            CRN_COPIES_END();
        }
        CRN_EACH_THREAD(t) {
            uint32_t row = t / 32 % ((TM) / 64) * 64, column = t / 32 / ((TM) / 64) * WARP_N;
            const float *at = tiles + stage * STAGE;
            split_operand left = {at, pass == CRN_SPLIT_WEIGH, TM, row};
            split_operand right = {at + (TM)*SPLIT_DEPTH, pass != CRN_SPLIT_GATHER, TN, column};
            split_multiply(left, right, WARP_N / 32, t, CRN_OWN(sums, t));
        }
        stage = stage + 1 == SPLIT_STAGES ? 0 : stage + 1;
        next = next + 1 == SPLIT_STAGES ? 0 : next + 1;
    }
    CRN_EACH_THREAD(t) {
        uint32_t row = t / 32 % ((TM) / 64) * 64, column = t / 32 / ((TM) / 64) * WARP_N;
        store(p, &b, pass, row, column, t, CRN_OWN(sums, t));
    }
}

CRN_KERNEL_OF(FORM(split_gather), crn_split_args, SPLIT_THREADS, HELD) {
    run(p, g, CRN_SPLIT_GATHER);
}

CRN_KERNEL_OF(FORM(split_scatter), crn_split_args, SPLIT_THREADS, HELD) {
    run(p, g, CRN_SPLIT_SCATTER);
}

CRN_KERNEL_OF(FORM(split_weigh), crn_split_args, SPLIT_THREADS, HELD) {
    run(p, g, CRN_SPLIT_WEIGH);
}

#undef state
#undef begin
#undef copy
#undef store
#undef run
#undef SPLIT_THREADS
#undef LEFT_COPIES
#undef RIGHT_COPIES
#undef STAGE
#undef LANES_16
