/* kernels.cu: what nvcc compiles: every kernel of the backend cuda. The kernels themselves are in
 * the headers beside this file (norm_kernels.h, pool_kernels.h, ...), which a C compiler reads too:
 * the tests run them on the processor. ../kernels.def lists them. */
#include "backend/cuda/kernels/all_kernels.c"
