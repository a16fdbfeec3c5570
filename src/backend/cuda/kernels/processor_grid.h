/* processor_grid.h: run a kernel on a processor. */
#ifndef CRN_PROCESSOR_GRID_H
#define CRN_PROCESSOR_GRID_H

#include "backend/cuda/kernels.h"

/* The order in which blocks, and threads within a phase, run. A correct kernel gives the same bits
 * in any order. */
typedef enum crn_grid_order { CRN_GRID_FORWARDS, CRN_GRID_BACKWARDS } crn_grid_order;

/* `args` is the argument of the kernel, after the launch function has filled it in. */
void crn_kernel_run(const crn_launch *launch, const void *args, crn_grid_order order);

#endif
