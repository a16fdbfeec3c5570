/* tensor_map.h: how the copy engine of a GPU sees a tensor; a CUtensorMap of NVIDIA's driver. */
#ifndef CRN_TENSOR_MAP_H
#define CRN_TENSOR_MAP_H

#include <stdint.h>

typedef struct crn_tensor_map {
    uint64_t opaque[16];
} __attribute__((aligned(128))) crn_tensor_map;

#endif
