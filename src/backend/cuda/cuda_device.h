/* cuda_device.h: the kernels that nvcc compiled, embedded by the build (embedded_kernels.c, or
 * no_kernels.c if there is no nvcc). */
#ifndef CUDA_DEVICE_H
#define CUDA_DEVICE_H

extern const unsigned char *const crn_cuda_fatbin; /* NULL: there are no kernels */
extern const char crn_cuda_fatbin_missing[];       /* why there are none */

/* Those for compute capability 9.0 only, or NULL. */
extern const unsigned char *const crn_cuda_hopper;

#endif
