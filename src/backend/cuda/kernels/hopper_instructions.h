/* hopper_instructions.h: what only compute capability 9.0 has, each instruction as a function:
 * barriers in shared memory, copies by the tensor copy engine, products of a warpgroup.
 *
 * A product is started by a warpgroup (128 threads) and runs beside its other instructions:
 *
 *     mma_fence()     registers that products read or add to are written
 *     mma_...()       started; its registers may not be touched
 *     mma_commit()    all started since the last commit are a group
 *     mma_wait<N>()   until at most N groups run
 *     settle(sums)    no use of `sums` moves before the wait
 *
 * A left operand in registers must be written after the wait for the products before, and right
 * before its own product: ptxas 13.0 overwrites one that is kept through a loop. If it says that
 * products are serialised, they are slow. */
#ifndef CRN_HOPPER_INSTRUCTIONS_H
#define CRN_HOPPER_INSTRUCTIONS_H

#include <cuda_bf16.h>
#include <stdint.h>

#define INLINE static __device__ __forceinline__

INLINE uint32_t shared_address(const void *at) {
    return (uint32_t)__cvta_generic_to_shared(at);
}

/* ---- Barriers: they count arrivals, and bytes that copies bring ---- */

INLINE void barrier_make(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals));
}

INLINE void barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}

/* Arrive, and let the barrier wait for so many bytes too. */
INLINE void barrier_expect(uint32_t barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier),
                 "r"(bytes)
                 : "memory");
}

/* Wait for the end of the phase with this parity: 0 is the first one, 1 the one before it. */
INLINE void barrier_wait(uint32_t barrier, int parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "AGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra AGAIN;\n"
                 "}\n" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* ---- Copies to shared memory ---- */

/* The box of a tensor map that begins at (column, row, head, sequence). */
INLINE void copy_box(uint32_t to, const void *map, uint32_t barrier, int column, int row, int head,
                     int sequence) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];\n" ::"r"(to),
                 "l"((uint64_t)map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(sequence)
                 : "memory");
}

INLINE void copy_bytes(uint32_t to, const void *from, int bytes, uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];\n" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* ---- Registers of a warpgroup ---- */

template <int COUNT> INLINE void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(COUNT));
}

template <int COUNT> INLINE void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(COUNT));
}

/* ---- Products of 64 rows, 16 deep: sums += a b; if `add` is 0: sums = a b ---- */

INLINE void mma_fence() {
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}

INLINE void mma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}

template <int N> INLINE void mma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(N) : "memory");
}

template <int N> INLINE void settle(float (&sums)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(sums[i])::"memory");
}

/* A matrix in shared memory: rows of 128 bytes whose eight packs of 16 bytes are swizzled, eight
 * rows in 1024 bytes; `next`: bytes to the next 64 columns, if a product reads so many. */
INLINE uint64_t matrix_at(uint32_t address, uint32_t next) {
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(next >> 4) << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

#define NAMES_8(a, b, c, d, e, f, g, h)                                                            \
    "%" #a ", %" #b ", %" #c ", %" #d ", %" #e ", %" #f ", %" #g ", %" #h
#define NAMES_32                                                                                   \
    NAMES_8(0, 1, 2, 3, 4, 5, 6, 7)                                                                \
    ", " NAMES_8(8, 9, 10, 11, 12, 13, 14, 15) ", " NAMES_8(                                       \
        16, 17, 18, 19, 20, 21, 22, 23) ", " NAMES_8(24, 25, 26, 27, 28, 29, 30, 31)
#define NAMES_64                                                                                   \
    NAMES_32 ", " NAMES_8(32, 33, 34, 35, 36, 37, 38, 39) ", " NAMES_8(                            \
        40, 41, 42, 43, 44, 45, 46, 47) ", " NAMES_8(48, 49, 50, 51, 52, 53, 54,                   \
                                                     55) ", " NAMES_8(56, 57, 58, 59, 60, 61, 62,  \
                                                                      63)
#define SUMS_8(c, d, i)                                                                            \
    c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3]), c(d[i + 4]), c(d[i + 5]), c(d[i + 6]),         \
        c(d[i + 7])
#define SUMS_32(c, d, i)                                                                           \
    SUMS_8(c, d, i), SUMS_8(c, d, i + 8), SUMS_8(c, d, i + 16), SUMS_8(c, d, i + 24)

/* a and b are matrices in shared memory, both with the depth in their rows of 128 bytes. The first
 * product of a sum only writes: with "+f" the compiler would think that it also reads, and let
 * products wait for each other. */
INLINE void mma_first(float (&sums)[32], uint64_t a, uint64_t b) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" NAMES_32
                 "}, %32, %33, p, 1, 1, 0, 0;\n}\n"
                 : SUMS_32("=f", sums, 0)
                 : "l"(a), "l"(b));
}

INLINE void mma_next(float (&sums)[32], uint64_t a, uint64_t b) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" NAMES_32
                 "}, %32, %33, p, 1, 1, 0, 0;\n}\n"
                 : SUMS_32("+f", sums, 0)
                 : "l"(a), "l"(b));
}

INLINE void mma_first(float (&sums)[64], uint64_t a, uint64_t b) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" NAMES_64
                 "}, %64, %65, p, 1, 1, 0, 0;\n}\n"
                 : SUMS_32("=f", sums, 0), SUMS_32("=f", sums, 32)
                 : "l"(a), "l"(b));
}

INLINE void mma_next(float (&sums)[64], uint64_t a, uint64_t b) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" NAMES_64
                 "}, %64, %65, p, 1, 1, 0, 0;\n}\n"
                 : SUMS_32("+f", sums, 0), SUMS_32("+f", sums, 32)
                 : "l"(a), "l"(b));
}

/* a is in registers; b has the depth across its rows of 128 bytes. */
INLINE void mma_registers(float (&sums)[32], const uint32_t (&a)[4], uint64_t b) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" NAMES_32
                 "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}\n"
                 : SUMS_32("+f", sums, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

INLINE void mma_registers(float (&sums)[64], const uint32_t (&a)[4], uint64_t b) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" NAMES_64
                 "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}\n"
                 : SUMS_32("+f", sums, 0), SUMS_32("+f", sums, 32)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* ---- Numbers ---- */

INLINE float exp2_of(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Two bf16, rounded to nearest; `low` is in the lower half. */
INLINE uint32_t pack_of(float low, float high) {
    uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

#endif
