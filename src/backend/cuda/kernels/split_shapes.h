/* split_shapes.h: what the host has to know about convolutions in fp32 by matrix units. */
#ifndef CRN_SPLIT_SHAPES_H
#define CRN_SPLIT_SHAPES_H

#include "backend/cuda/kernels.h"

#include <stdbool.h>

extern const char *const crn_split_names[CRN_SPLIT_TILE_COUNT]; /* of implementations */

/* Whether the kernels with the tile of the arguments can do a pass. */
bool crn_split_fits(uint32_t pass, const crn_split_args *args);

/* The kernel and the grid of a pass with the tile of the arguments. It fills in slices, which
 * depend on the shape only. */
crn_launch crn_split_launch(uint32_t pass, crn_split_args *args);

#endif
