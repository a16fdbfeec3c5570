/* split_tiles.h: tiles of matrices and their products, for GPUs of compute capability 8.0 or newer:
 * see split_numbers.h.
 *
 * A warp makes 64 rows and 32 or 64 columns of the result from products of 16 rows and 8 columns, 8
 * deep. Its thread 4 g + t has, of product (i, j),
 *
 *     left    rows g, g + 8       depths t, t + 4
 *     right   column g            depths t, t + 4
 *     sums    rows g, g + 8       columns 2 t, 2 t + 1
 *
 * Which element of a tile is which row, column or depth of a product is free. They are chosen so
 * that threads read several neighbours at a time and write 16 bytes:
 *
 *     row g + 8 h of product i      element 32 h + 4 spread(g) + i
 *     column g of product j         element 32 (j / 4) + 4 spread(g) + j % 4
 *     depth t + 4 h of step s       element 8 s + 2 t + h
 *
 * with spread(g) = g / 2 + 4 (g % 2), so that columns 2 t and 2 t + 1 are elements 4 t and 4 t
 * + 16.
 *
 * A tile in shared memory is 16 deep. Where the depth is contiguous in memory, it is "deep": rows
 * of 16 elements, in the order of the products. Else it is "wide": one row for each depth. Both are
 * swizzled in units of 16 bytes, so that neither copies nor reads wait for a bank. */
#ifndef CRN_SPLIT_TILES_H
#define CRN_SPLIT_TILES_H

#include "backend/cuda/kernels/split_numbers.h"

#define SPLIT_DEPTH 16u
#define SPLIT_STAGES 3u

/* ---- Where elements are in shared memory ---- */

CRN_DEVICE uint32_t split_spread(uint32_t g) {
    return g / 2 + g % 2 * 4;
}

/* The element of a tile that is in a row of a deep one, for the left and the right operand. */
CRN_DEVICE uint32_t split_left_row(uint32_t row) {
    return row / 64 * 64 + row / 8 % 2 * 32 + split_spread(row % 8) * 4 + row / 16 % 4;
}

CRN_DEVICE uint32_t split_right_row(uint32_t row) {
    return row / 32 * 32 + split_spread(row % 8) * 4 + row / 8 % 4;
}

CRN_DEVICE uint32_t split_deep_at(uint32_t row, uint32_t depth) {
    return row * SPLIT_DEPTH + (depth / 4 ^ (row / 2 % 2 * 2)) * 4 + depth % 4;
}

/* Element `i` of `count` at a depth. */
CRN_DEVICE uint32_t split_wide_at(uint32_t depth, uint32_t i, uint32_t count) {
    return depth * count + (i / 4 ^ depth / 2 % 4) * 4 + i % 4;
}

/* A tile in shared memory, and the first of its elements that a warp needs. */
typedef struct split_operand {
    const float *at;
    uint32_t wide, count, first;
} split_operand;

/* ---- Products ---- */

#ifdef __CUDACC__

/* sums += a b; the first one of a sum is added to zero. */
CRN_DEVICE void split_mma(float *sums, const uint32_t *a, const uint32_t *b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

CRN_DEVICE void split_mma_first(float *sums, const uint32_t *a, const uint32_t *b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%10, %10, %10, %10};\n"
        : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
}

/* The left operand of step s: of each product rows g and g + 8 of depth t, then of depth t + 4. */
CRN_DEVICE void split_read_left(split_operand o, uint32_t s, uint32_t g, uint32_t t,
                                float (*out)[4]) {
    CRN_UNROLL
    for (uint32_t k = 0; k < 4 && o.wide; k++) {
        uint32_t i = o.first + 32 * (k % 2) + 4 * split_spread(g);
        const float *from = o.at + split_wide_at(8 * s + 2 * t + k / 2, i, o.count);
        float4 four = *(const float4 *)from;
        out[0][k] = four.x, out[1][k] = four.y, out[2][k] = four.z, out[3][k] = four.w;
    }
    CRN_UNROLL
    for (uint32_t k = 0; k < 8 && !o.wide; k++) {
        uint32_t row = o.first + 8 * k + g;
        float2 two = *(const float2 *)(o.at + split_deep_at(row, 8 * s + 2 * t));
        out[k / 2][k % 2] = two.x, out[k / 2][2 + k % 2] = two.y;
    }
}

/* The right operand of step s: columns of four products from `first` on, depths t and t + 4. */
CRN_DEVICE void split_read_right(split_operand o, uint32_t first, uint32_t s, uint32_t g,
                                 uint32_t t, float (*out)[2]) {
    CRN_UNROLL
    for (uint32_t k = 0; k < 2 && o.wide; k++) {
        const float *from =
            o.at + split_wide_at(8 * s + 2 * t + k, first + 4 * split_spread(g), o.count);
        float4 four = *(const float4 *)from;
        out[0][k] = four.x, out[1][k] = four.y, out[2][k] = four.z, out[3][k] = four.w;
    }
    CRN_UNROLL
    for (uint32_t j = 0; j < 4 && !o.wide; j++) {
        float2 two = *(const float2 *)(o.at + split_deep_at(first + 8 * j + g, 8 * s + 2 * t));
        out[j][0] = two.x, out[j][1] = two.y;
    }
}

/* Add the products of 16 rows and 32 columns to their sums. */
CRN_DEVICE void split_add(const uint32_t *a_big, const uint32_t *a_small,
                          const uint32_t (*b_big)[2], const uint32_t (*b_small)[2], float *sums) {
    float partial[4][4];
    CRN_UNROLL
    for (uint32_t j = 0; j < 4; j++)
        split_mma_first(partial[j], a_small, b_big[j]);
    CRN_UNROLL
    for (uint32_t j = 0; j < 4; j++)
        split_mma(partial[j], a_big, b_small[j]);
    CRN_UNROLL
    for (uint32_t j = 0; j < 4; j++)
        split_mma(partial[j], a_big, b_big[j]);
    CRN_UNROLL
    for (uint32_t j = 0; j < 16; j++)
        sums[j] += partial[j / 4][j % 4];
}

/* Add the product of two tiles to the sums of a thread: 64 for each of `groups` of 32 columns. The
 * steps are not unrolled: together they would need more registers than there are. */
CRN_DEVICE void split_multiply(split_operand left, split_operand right, uint32_t groups,
                               uint32_t thread, float *sums) {
    uint32_t g = thread % 32 / 4, t = thread % 4;
    CRN_UNROLL_BY(1)
    for (uint32_t s = 0; s < SPLIT_DEPTH / 8; s++) {
        float a[4][4], b[4][2];
        uint32_t b_big[2][4][2], b_small[2][4][2];
        CRN_UNROLL
        for (uint32_t k = 0; k < groups; k++) {
            split_read_right(right, right.first + 32 * k, s, g, t, b);
            CRN_UNROLL
            for (uint32_t j = 0; j < 8; j++)
                split_number(b[j / 2][j % 2], &b_big[k][j / 2][j % 2], &b_small[k][j / 2][j % 2]);
        }
        split_read_left(left, s, g, t, a);
        CRN_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t a_big[4], a_small[4];
            CRN_UNROLL
            for (uint32_t h = 0; h < 4; h++)
                split_number(a[i][h], &a_big[h], &a_small[h]);
            CRN_UNROLL
            for (uint32_t k = 0; k < groups; k++)
                split_add(a_big, a_small, b_big[k], b_small[k], sums + 64 * k + 16 * i);
        }
    }
}

CRN_DEVICE void split_store(float *to, float a, float b, float c, float d) {
    *(float4 *)to = make_float4(a, b, c, d);
}

#else

/* Where element i of the left or the right operand is: the inverse of split_left_row() and
 * split_right_row(). */
CRN_DEVICE uint32_t split_left_at(split_operand o, uint32_t i, uint32_t depth) {
    uint32_t g = i / 4 % 4 * 2 + i / 16 % 2, row = i / 64 * 64 + i % 4 * 16 + i / 32 % 2 * 8 + g;
    return o.wide ? split_wide_at(depth, i, o.count) : split_deep_at(row, depth);
}

CRN_DEVICE uint32_t split_right_at(split_operand o, uint32_t i, uint32_t depth) {
    uint32_t g = i / 4 % 4 * 2 + i / 16 % 2, row = i / 32 * 32 + i % 4 * 8 + g;
    return o.wide ? split_wide_at(depth, i, o.count) : split_deep_at(row, depth);
}

CRN_DEVICE void split_multiply(split_operand left, split_operand right, uint32_t groups,
                               uint32_t thread, float *sums) {
    uint32_t g = thread % 32 / 4, t = thread % 4;
    for (uint32_t s = 0; s < SPLIT_DEPTH / 8; s++) {
        uint32_t a[2][8][8], b[2][16][8]; /* big and small terms of its rows and columns */
        for (uint32_t k = 0; k < 64; k++) {
            uint32_t m = left.first + k / 32 * 32 + 4 * split_spread(g) + k / 8 % 4;
            float x = left.at[split_left_at(left, m, 8 * s + k % 8)];
            split_number(x, &a[0][k / 8][k % 8], &a[1][k / 8][k % 8]);
        }
        for (uint32_t k = 0; k < 64 * groups; k++) {
            uint32_t n = right.first + k / 32 * 16 + 4 * t + k / 8 % 4;
            float x = right.at[split_right_at(right, n, 8 * s + k % 8)];
            split_number(x, &b[0][k / 8][k % 8], &b[1][k / 8][k % 8]);
        }
        for (uint32_t i = 0; i < 64 * groups; i++) {
            uint32_t m = i % 4 / 2 * 4 + i / 16 % 4, n = i / 64 * 8 + i % 2 * 4 + i / 4 % 4;
            sums[i] += split_dot(a[0][m], a[1][m], b[0][n], b[1][n]);
        }
    }
}

CRN_DEVICE void split_store(float *to, float a, float b, float c, float d) {
    to[0] = a, to[1] = b, to[2] = c, to[3] = d;
}

#endif

#endif
