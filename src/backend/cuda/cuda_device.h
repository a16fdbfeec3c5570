/* cuda_device.h: the kernels as nvcc compiled them, embedded by the build (embedded_kernels.c, or
 * no_kernels.c where there is no nvcc). */
#ifndef CUDA_DEVICE_H
#define CUDA_DEVICE_H

extern const unsigned char *const crn_cuda_fatbin; /* NULL: there are none */
extern const char crn_cuda_fatbin_missing[];       /* why */

#endif
