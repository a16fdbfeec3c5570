/* fake_hopper.h: the kernels for compute capability 9.0 (hopper_args.h) on the processor, for
 * tests of the code that starts them. They use other instructions there, so these are plain loops
 * in double with the same roundings to bf16: the bits differ. They see x and gy through their
 * maps. */
#ifndef FAKE_HOPPER_H
#define FAKE_HOPPER_H

#include "backend/cuda/hopper_args.h"

#include <stdbool.h>
#include <stddef.h>

#define FAKE_HOPPER_KERNELS 6u

typedef struct fake_hopper_kernel {
    const char *name;
    void (*run)(const void *args); /* crn_hopper_args */
    uint32_t threads, shared_bytes;
} fake_hopper_kernel;

extern const fake_hopper_kernel fake_hopper_kernels[FAKE_HOPPER_KERNELS];

int fake_hopper_map(crn_tensor_map *map, int type, uint32_t rank, void *at, const uint64_t *sizes,
                    const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                    int interleave, int swizzle, int promotion, int outside);

#endif
