/* embedded_kernels.c: the kernels that nvcc compiled, included by the assembler. */
#include "backend/cuda/cuda_device.h"

__asm__(".section .rodata\n"
        ".balign 64\n"
        ".global crn_cuda_fatbin_bytes\n"
        ".hidden crn_cuda_fatbin_bytes\n"
        "crn_cuda_fatbin_bytes:\n"
        ".incbin \"" CRN_CUDA_FATBIN "\"\n"
        ".previous\n");

extern const unsigned char crn_cuda_fatbin_bytes[];

const unsigned char *const crn_cuda_fatbin = crn_cuda_fatbin_bytes;
const char crn_cuda_fatbin_missing[] = "";
