/* hopper_tiles.h: tiles and their products by the matrix units of compute capability 9.0, whose
 * instructions need sm_90a: see split_numbers.h.
 *
 * A block of 256 threads makes 128 rows and 64 columns. The left operand, an image, is split in
 * registers, as in split_tiles.h; the right one, the weights, was split before by split_weights. So
 * a tile, which is 32 deep, is in shared memory
 *
 *     left    128 rows of 32 elements
 *     right   64 rows of 32 big terms, then 64 of the small terms
 *
 * A warpgroup, 128 threads, multiplies 64 rows with all columns, 8 deep at a time. Its thread
 * 32 w + 4 g + t has
 *
 *     left    rows 16 w + g and 8 more    depths t, t + 4
 *     sums    the same rows               columns 8 j + 2 t, 8 j + 2 t + 1
 *
 * A thread reads depths 4 t .. 4 t + 3 of 16 at once: those are t and t + 4 of step 0, then of step
 * 1. The right operand is stored in that order: position 8 s + 4 h + t of 16 is depth 4 t + 2 s +
 * h. */
#ifndef CRN_HOPPER_TILES_H
#define CRN_HOPPER_TILES_H

#include "backend/cuda/kernels/split_numbers.h"

#define HOPPER_M 128u
#define HOPPER_N 64u
#define HOPPER_DEPTH 32u
#define HOPPER_STAGES 3u
#define HOPPER_THREADS 256u
#define HOPPER_SUMS 32u /* of a thread */
#define HOPPER_LEFT (HOPPER_M * HOPPER_DEPTH)
#define HOPPER_RIGHT (HOPPER_N * HOPPER_DEPTH)
#define HOPPER_STAGE (HOPPER_LEFT + 2 * HOPPER_RIGHT)

/* Depth `position` of the right operand, see above. */
CRN_DEVICE uint32_t hopper_depth(uint32_t position) {
    uint32_t p = position % 16;
    return position - p + p % 4 * 4 + p / 8 * 2 + p / 4 % 2;
}

/* Where four elements of a row are. Reads of the left operand never wait for a bank; the swizzle of
 * the right one is that of the matrix unit. */
CRN_DEVICE uint32_t hopper_left_at(uint32_t row, uint32_t four) {
    return row * HOPPER_DEPTH + (four ^ (row % 2 * 4)) * 4;
}

CRN_DEVICE uint32_t hopper_right_at(uint32_t row, uint32_t four) {
    return row * HOPPER_DEPTH + (four ^ row % 8) * 4;
}

/* Element `i` of the left operand at a depth, where the elements of one depth are contiguous. Rows
 * r and r + 8 of a product are neighbours there. */
CRN_DEVICE uint32_t hopper_wide_at(uint32_t depth, uint32_t i) {
    return depth * HOPPER_M + (i / 4 ^ depth % 4 * 2) * 4 + i % 4;
}

CRN_DEVICE uint32_t hopper_wide_row(uint32_t row) {
    return row / 16 * 16 + row % 8 * 2 + row / 8 % 2;
}

/* The first row of the result that a thread has; it also has the one 8 further. */
CRN_DEVICE uint32_t hopper_row(uint32_t thread) {
    return thread / 32 * 16 + thread % 32 / 4;
}

#ifdef __CUDACC__
#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Copies that have arrived become visible to the matrix units. */
#define HOPPER_SHOW() asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory")

#include "backend/cuda/kernels/hopper_instructions.h"

CRN_DEVICE void hopper_first(float *sums, const uint32_t *a, uint64_t b) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {" NAMES_32
                 "}, {%32, %33, %34, %35}, %36, p, 1, 1;\n}\n"
                 : SUMS_32("=f", sums, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

CRN_DEVICE void hopper_next(float *sums, const uint32_t *a, uint64_t b) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {" NAMES_32
                 "}, {%32, %33, %34, %35}, %36, p, 1, 1;\n}\n"
                 : SUMS_32("+f", sums, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* The left operand of a thread, in the order of the products: steps of 8; rows r and r + 8 of depth
 * t, then of depth t + 4. */
CRN_DEVICE void hopper_read(const float *left, uint32_t wide, uint32_t thread, float (*out)[4]) {
    uint32_t row = hopper_row(thread), t = thread % 4;
    CRN_UNROLL
    for (uint32_t k = 0; k < 4 && !wide; k++) { /* half of the depth, and row */
        float4 four = *(const float4 *)(left + hopper_left_at(row + 8 * (k % 2), t + 4 * (k / 2)));
        uint32_t s = k / 2 * 2, h = k % 2;
        out[s][h] = four.x, out[s][2 + h] = four.y;
        out[s + 1][h] = four.z, out[s + 1][2 + h] = four.w;
    }
    CRN_UNROLL
    for (uint32_t k = 0; k < 8 && wide; k++) { /* step, and half of it */
        uint32_t depth = 4 * k + t;
        float2 two = *(const float2 *)(left + hopper_wide_at(depth, hopper_wide_row(row)));
        out[k / 2][k % 2 * 2] = two.x, out[k / 2][k % 2 * 2 + 1] = two.y;
    }
}

/* Start the products of a tile, which run while the thread does other things. */
CRN_DEVICE void hopper_start(const float *left, const float *right, uint32_t wide, uint32_t thread,
                             float *partial) {
    float a[4][4];
    uint32_t big[4][4], small[4][4];
    hopper_read(left, wide, thread, a);
    CRN_UNROLL
    for (uint32_t k = 0; k < 16; k++)
        split_number(a[k / 4][k % 4], &big[k / 4][k % 4], &small[k / 4][k % 4]);
    uint64_t right_big = matrix_at(shared_address(right), 0);
    uint64_t right_small = matrix_at(shared_address(right + HOPPER_RIGHT), 0);
    mma_fence();
    hopper_first(partial, small[0], right_big);
    CRN_UNROLL
    for (uint32_t s = 0; s < 4; s++) { /* 32 bytes further at each step */
        if (s > 0)
            hopper_next(partial, small[s], right_big + 2 * s);
        hopper_next(partial, big[s], right_small + 2 * s);
        hopper_next(partial, big[s], right_big + 2 * s);
    }
    mma_commit();
}

/* Wait for the products, and add them to the sums of the thread. */
CRN_DEVICE void hopper_finish(float *partial, float *sums) {
    mma_wait<0>();
    CRN_UNROLL
    for (uint32_t i = 0; i < HOPPER_SUMS; i++) {
        asm volatile("" : "+f"(partial[i])::"memory"); /* not before the wait */
        sums[i] += partial[i];
    }
}

#else

#define HOPPER_SHOW() ((void)0)

CRN_DEVICE void hopper_start(const float *left, const float *right, uint32_t wide, uint32_t thread,
                             float *partial) {
    (void)left, (void)right, (void)wide, (void)thread, (void)partial;
    __trap(); /* never launched on other GPUs */
}

CRN_DEVICE void hopper_finish(float *partial, float *sums) {
    (void)partial, (void)sums;
}

#endif

CRN_DEVICE void hopper_store(float *to, float a, float b) {
    *(float2 *)to = make_float2(a, b);
}

CRN_DEVICE void hopper_put_four(float *to, const uint32_t *from) {
    *(uint4 *)to = make_uint4(from[0], from[1], from[2], from[3]);
}

#else

#define HOPPER_SHOW() ((void)0)

CRN_DEVICE float hopper_left(const float *left, uint32_t wide, uint32_t row, uint32_t position) {
    uint32_t depth = hopper_depth(position);
    return wide ? left[hopper_wide_at(position, hopper_wide_row(row))]
                : left[hopper_left_at(row, depth / 4) + depth % 4];
}

CRN_DEVICE void hopper_start(const float *left, const float *right, uint32_t wide, uint32_t thread,
                             float *partial) {
    for (uint32_t i = 0; i < HOPPER_SUMS; i++) {
        uint32_t row = hopper_row(thread) + i % 4 / 2 * 8, n = i / 4 * 8 + thread % 4 * 2 + i % 2;
        partial[i] = 0;
        for (uint32_t s = 0; s < HOPPER_DEPTH / 8; s++) {
            uint32_t a[2][8], b[2][8];
            for (uint32_t k = 0; k < 8; k++) {
                const float *from = right + hopper_right_at(n, 2 * s + k / 4) + k % 4;
                split_number(hopper_left(left, wide, row, 8 * s + k), &a[0][k], &a[1][k]);
                memcpy(&b[0][k], from, sizeof(float));
                memcpy(&b[1][k], from + HOPPER_RIGHT, sizeof(float));
            }
            partial[i] += split_dot(a[0], a[1], b[0], b[1]);
        }
    }
}

CRN_DEVICE void hopper_finish(const float *partial, float *sums) {
    for (uint32_t i = 0; i < HOPPER_SUMS; i++)
        sums[i] += partial[i];
}

CRN_DEVICE void hopper_store(float *to, float a, float b) {
    to[0] = a, to[1] = b;
}

CRN_DEVICE void hopper_put_four(float *to, const uint32_t *from) {
    memcpy(to, from, 4 * sizeof *from);
}

#endif

#endif
