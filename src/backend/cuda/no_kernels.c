/* no_kernels.c: replaces the embedded kernels in a build without nvcc. */
#include "backend/cuda/cuda_device.h"

#include <stddef.h>

const unsigned char *const crn_cuda_fatbin = NULL;
const unsigned char *const crn_cuda_hopper = NULL;
const char crn_cuda_fatbin_missing[] = CRN_CUDA_WHY;
