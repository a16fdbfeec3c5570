/* embedded_kernels.c: the kernels that nvcc compiled, included by the assembler. */
#include "backend/cuda/cuda_device.h"

#define EMBED(name, file)                                                                          \
    __asm__(".section .rodata\n"                                                                   \
            ".balign 64\n"                                                                         \
            ".global " #name "\n"                                                                  \
            ".hidden " #name "\n" #name ":\n"                                                      \
            ".incbin \"" file "\"\n"                                                               \
            ".previous\n");                                                                        \
    extern const unsigned char name[]

EMBED(crn_cuda_fatbin_bytes, CRN_CUDA_FATBIN);
EMBED(crn_cuda_hopper_bytes, CRN_CUDA_HOPPER);

const unsigned char *const crn_cuda_fatbin = crn_cuda_fatbin_bytes;
const unsigned char *const crn_cuda_hopper = crn_cuda_hopper_bytes;
const char crn_cuda_fatbin_missing[] = "";
