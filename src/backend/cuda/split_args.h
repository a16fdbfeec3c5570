/* split_args.h: the arguments of convolutions in fp32 by matrix units; included by kernels.h. */
#ifndef CRN_SPLIT_ARGS_H
#define CRN_SPLIT_ARGS_H

/* ---- Convolutions in fp32 by matrix units ----
 *
 *     split_gather     large, weight -> to, which is small
 *     split_scatter    small, weight -> to, which is large
 *     split_weigh      large, small -> to [slices, O, taps, C]
 *     hopper_gather, hopper_scatter    the same on compute capability 9.0
 *
 * large [N, H, W, C], small [N, P, Q, O], weight [O, taps, C]. C, O and pitches are multiples of
 * four, addresses of 16 bytes. The pitch of small is O; in a scatter that of large is C. Padding
 * may be negative. A weigh divides the pixels into `slices`, each with a sum of its own. */
typedef struct crn_split_args {
    uint32_t element; /* CRN_ELEMENT_F32 */
    uint32_t tile;    /* CRN_SPLIT_64x64, ... */
    uint32_t batch, channels, height, width, filters, small_height, small_width;
    uint32_t large_pitch, small_pitch;
    int32_t kernel[2], stride[2], pad[2], dilation[2];
    uint32_t slices, slice_blocks; /* by the launch: blocks of 16 pixels in a slice */
    const float *large, *small, *weight;
    const float *weight_big, *weight_small; /* hopper_...: instead of weight */
    uint32_t weight_pitch;
    float *to;
} crn_split_args;

/* For hopper_gather (split_weights) and hopper_scatter (turn_weights): the big and small terms of
 * weights, of which a row has the depth of the product. */
typedef struct crn_split_weights_args {
    uint32_t filters, taps, channels;
    uint32_t pitch; /* filled in: of a row */
    const float *weight;
    uint32_t *big, *small;
} crn_split_weights_args;

/* The tiles that the result is divided into: name, rows, columns; columns of a warp, which has 64
 * rows; how many blocks a multiprocessor holds. The last one is that of hopper_gather and
 * hopper_scatter.
 */
#define CRN_SPLIT_TILES(TILE)                                                                      \
    TILE(64x64, 64, 64, 32, 6)                                                                     \
    TILE(64x128, 64, 128, 64, 4)

enum { CRN_SPLIT_64x64, CRN_SPLIT_64x128, CRN_SPLIT_HOPPER, CRN_SPLIT_TILE_COUNT };
enum { CRN_SPLIT_GATHER, CRN_SPLIT_SCATTER, CRN_SPLIT_WEIGH };

#endif
