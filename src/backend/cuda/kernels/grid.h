/* grid.h: a kernel as one source for two targets.
 *
 * A kernel is a function for a block. It consists of phases; in each phase every thread of the
 * block does its work, and between two phases there is a barrier. Local variables of a thread end
 * at the barrier: only shared memory stays. So the same text is
 *
 *     for nvcc           threads side by side, barriers as they are
 *     for a C compiler   a loop over the threads in each phase, and barriers are nothing
 *
 *     CRN_KERNEL(name, args_type) {
 *         CRN_SHARED(float, sums, 256);
 *         CRN_EACH_THREAD(t) {
 *             sums[t] = ...;             `continue` ends a thread's phase
 *         }
 *         CRN_BARRIER();
 *         CRN_EACH_THREAD(t) { ... sums[t + 1] ... }
 *     }
 *
 * CRN_FIRST_THREADS(t, count) is a phase of the first threads only, at least one. A
 * CRN_WARP_BARRIER() is enough where only threads of the same 32 read what others wrote.
 * CRN_KEPT(type, name, count) declares values of a thread that outlive a phase: `count` of them are
 * at CRN_OWN(name, t), in registers on a GPU, where all indices must be constants after unrolling.
 * CRN_SHARED_ALL is shared memory of any size; its launch says how much.
 * Blocks have at most 512 threads.
 *
 * All threads of a block must reach a barrier. Within a phase no thread may read what another
 * writes. On a processor the order of the threads and of the blocks can be reversed
 * (processor_grid.h), which must not change a bit, and shared memory is filled with NaNs at
 * first. */
#ifndef CRN_GRID_H
#define CRN_GRID_H

#include "backend/cuda/kernels.h"

typedef struct crn_grid {
    uint32_t x, y;   /* of this block */
    uint32_t blocks; /* in x */
    uint32_t threads;
    uint32_t backwards; /* a processor runs the last thread first */
} crn_grid;

#ifdef __CUDACC__

#define CRN_DEVICE static __device__ __forceinline__
#define CRN_RESTRICT __restrict__
#define CRN_UNROLL _Pragma("unroll")
#define CRN_UNROLL_BY(count) _Pragma(CRN_TEXT(unroll count))
#define CRN_TEXT(...) #__VA_ARGS__
#define CRN_SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define CRN_SHARED_ALL(type, name, count) extern __shared__ __align__(1024) type name[]
#define CRN_EACH_THREAD(t) for (uint32_t t = threadIdx.x, once_##t = 1; once_##t != 0; once_##t = 0)
#define CRN_FIRST_THREADS(t, count)                                                                \
    for (uint32_t t = threadIdx.x, once_##t = t < (count); once_##t != 0; once_##t = 0)
#define CRN_KEPT(type, name, count) type name[count]
#define CRN_OWN(name, t) (name + 0 * (t))
#define CRN_BARRIER() __syncthreads()
#define CRN_WARP_BARRIER() __syncwarp()

/* A kernel with blocks of `most` threads; a multiprocessor should hold `blocks_held` of them at a
 * time. */
#define CRN_KERNEL_OF(name, args_type, most, blocks_held)                                          \
    CRN_KERNEL_NAMED(name, args_type, most, blocks_held)
#define CRN_KERNEL_NAMED(name, args_type, most, blocks_held)                                       \
    CRN_DEVICE void name##_block(const args_type *CRN_RESTRICT p, crn_grid g);                     \
    extern "C" __global__ void __launch_bounds__(most, blocks_held)                                \
        name(const __grid_constant__ args_type p) {                                                \
        crn_grid g = {blockIdx.x, blockIdx.y, gridDim.x, blockDim.x, 0};                           \
        name##_block(&p, g);                                                                       \
    }                                                                                              \
    CRN_DEVICE void name##_block(const args_type *CRN_RESTRICT p, crn_grid g)

/* One of `count` blocks has written its results; all its threads did so before the last barrier.
 * True for the last block, which may read the results of all. */
CRN_DEVICE uint32_t crn_take_ticket(uint32_t *ticket, uint32_t count) {
    __threadfence();
    uint32_t before = atomicInc(ticket, count - 1); /* wraps around to zero */
    __threadfence();
    return before == count - 1;
}

CRN_DEVICE void crn_count_up(uint32_t *counter, uint32_t by) {
    atomicAdd(counter, by);
}

CRN_DEVICE void crn_count_up_long(uint64_t *counter, uint32_t by) {
    atomicAdd((unsigned long long *)counter, (unsigned long long)by);
}

/* Access what other blocks of the same launch write or read, without the first-level cache. */
CRN_DEVICE float crn_read_shared_partial(const float *at) {
    return __ldcg(at);
}

CRN_DEVICE void crn_write_shared_partial(float *at, float value) {
    __stcg(at, value);
}

/* Copy 16 bytes to shared memory in the background. */
CRN_DEVICE void crn_copy_ahead(void *to, const void *from) {
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
        "l"(from)
        : "memory");
}

/* All such copies of a thread since the last call are a group; wait until at most `left` groups of
 * the thread are in flight. */
#define CRN_COPIES_END() asm volatile("cp.async.commit_group;\n" ::: "memory")
#define CRN_COPIES_WAIT(left) asm volatile("cp.async.wait_group %0;\n" ::"n"(left) : "memory")

#else

#include <math.h>
#include <string.h>

#define CRN_DEVICE static inline
#define CRN_RESTRICT restrict
#define CRN_UNROLL
#define CRN_UNROLL_BY(count)
#define CRN_SHARED(type, name, count)                                                              \
    type name[count];                                                                              \
    memset(name, 0xff, sizeof name)
#define CRN_SHARED_ALL(type, name, count) CRN_SHARED(type, name, count)
#define CRN_EACH_THREAD(t) CRN_FIRST_THREADS(t, g.threads)
#define CRN_FIRST_THREADS(t, count)                                                                \
    for (uint32_t i_##t = 0, t = g.backwards ? (count)-1 : 0; i_##t < (count);                     \
         i_##t++, t = g.backwards ? t - 1 : t + 1)
#define CRN_KEPT(type, name, count) type name[512][count]
#define CRN_OWN(name, t) ((name)[t])
#define CRN_BARRIER() ((void)0)
#define CRN_WARP_BARRIER() ((void)0)

#define CRN_KERNEL_OF(name, args_type, most, blocks_held) CRN_KERNEL_NAMED(name, args_type)
#define CRN_KERNEL_NAMED(name, args_type)                                                          \
    void name##_block(const args_type *CRN_RESTRICT p, crn_grid g);                                \
    void name##_block(const args_type *CRN_RESTRICT p, crn_grid g)

CRN_DEVICE uint32_t crn_take_ticket(uint32_t *ticket, uint32_t count) {
    *ticket = *ticket + 1 == count ? 0 : *ticket + 1;
    return *ticket == 0;
}

CRN_DEVICE void crn_count_up(uint32_t *counter, uint32_t by) {
    *counter += by;
}

CRN_DEVICE void crn_count_up_long(uint64_t *counter, uint32_t by) {
    *counter += by;
}

CRN_DEVICE float crn_read_shared_partial(const float *at) {
    return *at;
}

CRN_DEVICE void crn_write_shared_partial(float *at, float value) {
    *at = value;
}

CRN_DEVICE void crn_copy_ahead(void *to, const void *from) {
    memcpy(to, from, 16);
}

#define CRN_COPIES_END() ((void)0)
#define CRN_COPIES_WAIT(left) ((void)0)

#endif

#define CRN_KERNEL(name, args_type) CRN_KERNEL_OF(name, args_type, 256, 4)

CRN_DEVICE uint32_t crn_min_u32(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

#endif
