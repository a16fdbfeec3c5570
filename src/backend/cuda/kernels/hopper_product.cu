/* hopper_product.cu: products of bf16 matrices with fp32 sums on compute capability 9.0, each with
 * what is computed from its result, element by element.
 *
 *     crn_hopper_y     y = x w' + bias      and made = gelu(y)
 *     crn_hopper_gx    gx = gy w            and made = gx * gelu'(x)
 *
 * The result is rounded to bf16 first and the gate is computed from that, by the functions of the
 * kernels that have no product (gates.h). So `made` has the bits of a gate that is run alone.
 *
 * A tile is 128 rows of 192 columns. A block has 16 warps and takes tiles in turns:
 *
 *     warp 0          copies factors, 64 deep, into a ring of stages
 *     warps 4 to 11   multiply: each warpgroup 64 rows; they stage the rounded sums
 *     the others      read what is staged, compute the gate and store, during the next tile
 *
 * With 16 warps a thread starts with 128 registers, enough for a product of 192 columns, not of
 * 256. The time of a gate still adds to that of the product: see docs/tried.md.
 *
 *     shared memory                        waits
 *     +-----------------------+            -----
 *     | left 16 KiB, right 24 | x STAGES   to be copied into: until all warps have left it
 *     +-----------------------+            to be multiplied: until it is full
 *     | staged 48 KiB         |            to be written: until the last tile is stored
 *     +-----------------------+            to be stored: until it is full
 *     | bias, 192 floats      | x 2        comes with the first stage of a tile
 *     +-----------------------+
 *
 * All sums run over the depth in one order, so the bits do not depend on anything else. Outside of
 * the matrices zeros are read, and nothing is stored. */
#include "backend/cuda/hopper_args.h"
#include "backend/cuda/kernels/hopper_instructions.h"
#include "backend/cuda/kernels/numbers.h"

#define FORM_SUFFIX bf16
#define FORM_BF16 1
#define PACK 8
#include "backend/cuda/kernels/pack.h"
#include "backend/cuda/kernels/gates.h"

typedef crn_hopper_product_args args_of;

extern __shared__ __align__(1024) unsigned char shared[];

#define STAGES CRN_HOPPER_PRODUCT_STAGES
#define ROWS 128
#define COLUMNS CRN_HOPPER_PRODUCT_COLUMNS
#define DEPTH 64
#define SUMS (COLUMNS / 2) /* of a thread */
#define LEFT_BYTES (ROWS * DEPTH * 2)
#define RIGHT_BYTES (COLUMNS * DEPTH * 2)
#define STAGE_BYTES (LEFT_BYTES + RIGHT_BYTES)
#define STAGED_AT (STAGES * STAGE_BYTES)
#define PANEL_BYTES (ROWS * 128) /* 64 columns of what is staged */
#define BIAS_AT (STAGED_AT + ROWS * COLUMNS * 2)
#define BIAS_BYTES (COLUMNS * 4)
#define FULL_AT (BIAS_AT + 2 * BIAS_BYTES)
#define EMPTY_AT (FULL_AT + 8 * STAGES)
#define STAGED_FULL_AT (EMPTY_AT + 8 * STAGES)
#define STAGED_EMPTY_AT (STAGED_FULL_AT + 8)
#define PRODUCT_BYTES (STAGED_EMPTY_AT + 8)
#define FINISHERS 224 /* threads */

static_assert(PRODUCT_BYTES == CRN_HOPPER_PRODUCT_BYTES, "hopper_args.h says something else");

/* A stage of the ring, and the parity of its round. */
struct stage {
    int at = 0, parity = 0;

    __device__ __forceinline__ void next() {
        if (++at == STAGES) {
            at = 0;
            parity ^= 1;
        }
    }
};

/* ---- Tiles: `group` below each other before those beside them, so that blocks share factors in
 * the cache ---- */

struct tile {
    int row, column;
};

struct tile_walk {
    int rows, columns, at, step;

    __device__ __forceinline__ tile_walk(const args_of &a) {
        rows = ((int)a.rows + ROWS - 1) / ROWS;
        columns = ((int)a.columns + COLUMNS - 1) / COLUMNS;
        at = (int)blockIdx.x;
        step = (int)gridDim.x;
    }
    __device__ __forceinline__ bool more() const {
        return at < rows * columns;
    }
    __device__ __forceinline__ tile get(const args_of &a) const {
        int first = at / ((int)a.group * columns) * (int)a.group, rest = at - first * columns;
        int high = min((int)a.group, rows - first);
        return tile{(first + rest % high) * ROWS, rest / high * COLUMNS};
    }
};

/* ---- Copying ---- */

/* The right factor is [columns, depth], in boxes of 64 deep; or, if its rows are deep,
 * [depth, columns], in boxes of 64 columns. */
template <bool DEEP_ROWS> INLINE void copy_tiles(const args_of &a, uint32_t base) {
    stage s;
    int turn = 0;
    for (tile_walk walk(a); walk.more(); walk.at += walk.step, turn ^= 1) {
        tile t = walk.get(a);
        int bias = a.bias != NULL ? min(COLUMNS, (int)a.columns - t.column) * 4 : 0;
        for (int depth = 0; depth < (int)a.depth; depth += DEPTH, s.next()) {
            uint32_t to = base + s.at * STAGE_BYTES, full = base + FULL_AT + 8 * s.at;
            barrier_wait(base + EMPTY_AT + 8 * s.at, s.parity ^ 1);
            barrier_expect(full, STAGE_BYTES + (depth == 0 ? bias : 0));
            copy_box(to, &a.left_map, full, depth, t.row, 0, 0);
            if (!DEEP_ROWS)
                copy_box(to + LEFT_BYTES, &a.right_map, full, depth, t.column, 0, 0);
#pragma unroll
            for (int i = 0; DEEP_ROWS && i < COLUMNS / 64; i++)
                copy_box(to + LEFT_BYTES + i * 8192, &a.right_map, full, t.column + i * 64, depth,
                         0, 0);
            if (depth == 0 && bias > 0)
                copy_bytes(base + BIAS_AT + turn * BIAS_BYTES, a.bias + t.column, bias, full);
        }
    }
}

/* ---- Multiplying ---- */

/* sums += the product of a stage; FIRST: sums = that. */
template <bool DEEP_ROWS, bool FIRST>
INLINE void multiply_stage(float (&sums)[SUMS], uint32_t left, uint32_t right) {
    mma_fence();
#pragma unroll
    for (int k = 0; k < DEPTH / 16; k++) {
        uint64_t a = matrix_at(left + k * 32, 16);
        uint64_t b = DEEP_ROWS ? matrix_at(right + k * 2048, 8192) : matrix_at(right + k * 32, 16);
        if (FIRST && k == 0)
            mma_wide_first<DEEP_ROWS>(sums, a, b);
        else
            mma_wide<DEEP_ROWS>(sums, a, b);
    }
    mma_commit();
}

/* A warp has read what it needs of a stage. */
INLINE void leave_stage(uint32_t empty) {
    if ((threadIdx.x & 31) == 0)
        barrier_arrive(empty);
}

/* Round the sums of 64 rows, with the bias, into 128-byte rows of 64 columns whose pieces of 16
 * bytes are swizzled: no two threads of a warp access the same bank. */
INLINE void stage_sums(const float (&sums)[SUMS], int row, int turn) {
    int lane = threadIdx.x & 31;
    const float *bias = (const float *)(shared + BIAS_AT + turn * BIAS_BYTES) + (lane & 3) * 2;
    row += (threadIdx.x >> 5 & 3) * 16 + (lane >> 2);
    unsigned char *to = shared + STAGED_AT + row * 128 + (lane & 3) * 4;
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++) {
        float2 b = *(const float2 *)(bias + 8 * j);
        uint32_t *at = (uint32_t *)(to + j / 8 * PANEL_BYTES + ((j % 8) ^ (lane >> 2)) * 16);
        at[0] = pack_of(sums[4 * j] + b.x, sums[4 * j + 1] + b.y);
        at[8 * 128 / 4] = pack_of(sums[4 * j + 2] + b.x, sums[4 * j + 3] + b.y);
    }
}

template <bool DEEP_ROWS> INLINE void multiply_tiles(const args_of &a, uint32_t base, int group) {
    stage s;
    int turn = 0, steps = ((int)a.depth + DEPTH - 1) / DEPTH;
    for (tile_walk walk(a); walk.more(); walk.at += walk.step, turn ^= 1) {
        float sums[SUMS];
        uint32_t at = base + s.at * STAGE_BYTES, held = base + EMPTY_AT + 8 * s.at;
        barrier_wait(base + FULL_AT + 8 * s.at, s.parity);
        multiply_stage<DEEP_ROWS, true>(sums, at + group * 8192, at + LEFT_BYTES);
        s.next();
#pragma unroll 1
        for (int k = 1; k < steps; k++) {
            at = base + s.at * STAGE_BYTES;
            barrier_wait(base + FULL_AT + 8 * s.at, s.parity);
            multiply_stage<DEEP_ROWS, false>(sums, at + group * 8192, at + LEFT_BYTES);
            mma_wait<1>();
            leave_stage(held);
            held = base + EMPTY_AT + 8 * s.at;
            s.next();
        }
        mma_wait<0>();
        settle(sums);
        leave_stage(held);
        barrier_wait(base + STAGED_EMPTY_AT, turn ^ 1);
        stage_sums(sums, group * 64, turn);
        barrier_arrive(base + STAGED_FULL_AT);
    }
}

/* ---- Finishing ---- */

#define NO_GATE 0xffffffffu
#define PACKS (COLUMNS / PACK) /* of a row */
#define AT_ONCE 2

/* Packs of a tile are dealt to the threads in turns: pack `i` of one. */
INLINE bool place_of(const args_of &a, tile t, int i, int *row, int *pack_at, size_t *at) {
    *row = i / PACKS;
    *pack_at = i % PACKS;
    int column = t.column + *pack_at * PACK;
    *at = (size_t)(t.row + *row) * a.columns + column;
    return *row < ROWS && t.row + *row < (int)a.rows && column < (int)a.columns;
}

INLINE raw get_staged(int row, int pack_at) {
    return *(const raw *)(shared + STAGED_AT + pack_at / 8 * PANEL_BYTES + row * 128 +
                          ((pack_at ^ row) & 7) * 16);
}

template <uint32_t GATE>
INLINE void finish_tile(const args_of &a, tile t, int thread, uint32_t full, int parity) {
    constexpr bool BACKWARD = GATE == CRN_GELU_BWD || GATE == CRN_GELU_TANH_BWD;
    raw x[AT_ONCE], y[AT_ONCE], next[AT_ONCE];
    size_t at[AT_ONCE];
    bool inside[AT_ONCE];
    int row, pack_at;
#pragma unroll
    for (int u = 0; BACKWARD && u < AT_ONCE; u++)
        if (place_of(a, t, thread + u * FINISHERS, &row, &pack_at, &at[u]))
            next[u] = fetch(a.x, at[u]);
    barrier_wait(full, parity);
#pragma unroll 1
    for (int i = thread; i < ROWS * PACKS; i += AT_ONCE * FINISHERS) {
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            x[u] = next[u];
            if (BACKWARD && place_of(a, t, i + (AT_ONCE + u) * FINISHERS, &row, &pack_at, &at[u]))
                next[u] = fetch(a.x, at[u]);
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            inside[u] = place_of(a, t, i + u * FINISHERS, &row, &pack_at, &at[u]);
            if (inside[u])
                y[u] = get_staged(row, pack_at);
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            if (inside[u] && a.y != NULL)
                store(a.y, at[u], y[u]);
        if constexpr (GATE != NO_GATE) {
            pack made[AT_ONCE];
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++)
                made[u] = BACKWARD ? gate_value(GATE, open(x[u]), open(y[u]))
                                   : gate_value(GATE, open(y[u]), no_pack());
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++)
                if (inside[u])
                    store(a.made, at[u], pack_up(made[u]));
        }
    }
}

template <uint32_t GATE> INLINE void finish_tiles(const args_of &a, uint32_t base, int thread) {
    int parity = 0;
    for (tile_walk walk(a); walk.more(); walk.at += walk.step, parity ^= 1) {
        finish_tile<GATE>(a, walk.get(a), thread, base + STAGED_FULL_AT, parity);
        barrier_arrive(base + STAGED_EMPTY_AT);
    }
}

template <bool DEEP_ROWS> INLINE void finish_by_gate(const args_of &a, uint32_t base, int thread) {
    constexpr uint32_t EXACT = DEEP_ROWS ? CRN_GELU_BWD : CRN_GELU;
    constexpr uint32_t TANH = DEEP_ROWS ? CRN_GELU_TANH_BWD : CRN_GELU_TANH;
    if (a.made == NULL)
        finish_tiles<NO_GATE>(a, base, thread);
    else if (a.gate == TANH)
        finish_tiles<TANH>(a, base, thread);
    else
        finish_tiles<EXACT>(a, base, thread);
}

/* ---- Entries ---- */

INLINE void make_barriers(uint32_t base) {
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_make(base + FULL_AT + 8 * i, 1);
            barrier_make(base + EMPTY_AT + 8 * i, 8);
        }
        barrier_make(base + STAGED_FULL_AT, 256);
        barrier_make(base + STAGED_EMPTY_AT, FINISHERS);
        asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
    }
    for (int i = threadIdx.x; i < 2 * BIAS_BYTES / 4; i += blockDim.x)
        ((float *)(shared + BIAS_AT))[i] = 0;
    __syncthreads();
}

template <bool DEEP_ROWS> INLINE void run(const args_of &a) {
    uint32_t base = shared_address(shared);
    int thread = (int)threadIdx.x, group = thread / 128;
    make_barriers(base);
    if (group == 1 || group == 2) {
        take_registers<168>();
        multiply_tiles<DEEP_ROWS>(a, base, group - 1);
    } else {
        give_registers<88>();
        if (thread == 0)
            copy_tiles<DEEP_ROWS>(a, base);
        else if (thread >= 32)
            finish_by_gate<DEEP_ROWS>(a, base, group == 0 ? thread - 32 : thread - 384 + 96);
    }
}

extern "C" __global__ void __launch_bounds__(CRN_HOPPER_PRODUCT_THREADS, 1)
    crn_hopper_y(const __grid_constant__ args_of a) {
    run<false>(a);
}

extern "C" __global__ void __launch_bounds__(CRN_HOPPER_PRODUCT_THREADS, 1)
    crn_hopper_gx(const __grid_constant__ args_of a) {
    run<true>(a);
}
