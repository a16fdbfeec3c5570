/* processor_grid.h: run a kernel on a processor. */
#ifndef CRN_PROCESSOR_GRID_H
#define CRN_PROCESSOR_GRID_H

#include "backend/cuda/kernels.h"

/* In what order blocks, and threads within a phase, run. A kernel that is right gives the same bits
 * in any. */
typedef enum crn_grid_order { CRN_GRID_FORWARDS, CRN_GRID_BACKWARDS } crn_grid_order;

/* `args`: the struct that the kernel takes, as the launch function left it. */
void crn_kernel_run(const crn_launch *launch, const void *args, crn_grid_order order);

#endif
