/* split_forms.h: convolutions in fp32 by matrix units: split_kernels.h with every tile of
 * CRN_SPLIT_TILES, and hopper_kernels.h. */
#include "backend/cuda/kernels/hopper_kernels.h"
#include "backend/cuda/kernels/split_walks.h"

#define SPLIT_PASTE_AGAIN(a, b) crn_##a##_##b
#define SPLIT_PASTE(a, b) SPLIT_PASTE_AGAIN(a, b)
#define FORM(name) SPLIT_PASTE(name, TILE_NAME)

#define TILE_NAME 64x64
#define TM 64
#define TN 64
#define WARP_N 32
#define HELD 6
#include "backend/cuda/kernels/split_kernels.h"
#undef TILE_NAME
#undef TM
#undef TN
#undef WARP_N
#undef HELD

#define TILE_NAME 64x128
#define TM 64
#define TN 128
#define WARP_N 64
#define HELD 4
#include "backend/cuda/kernels/split_kernels.h"
#undef TILE_NAME
#undef TM
#undef TN
#undef WARP_N
#undef HELD

#undef FORM
