/* kernels.h: Cairn's own kernels for a GPU: the interface for the host.
 *
 * A kernel takes one argument, a struct by value. To run it, fill the struct, let its launch
 * function compute the form and the grid, and start the kernel of that id with the struct:
 *
 *     crn_norm_args args = {...};
 *     crn_launch launch = crn_norm_statistics_launch(&args);   (may fill in fields, see `tiling`)
 *     start crn_kernel_list[launch.kernel].name with launch.blocks, launch.threads and args
 *
 * There is one source for two targets: kernels/all_kernels.c is CUDA for nvcc, and C11 for other
 * compilers, where crn_kernel_run() (kernels/processor_grid.h) runs blocks and threads one after
 * the other. Both give the same bits: the order of sums is fixed, products and sums are not
 * contracted, and exp, log and tanh are Cairn's own. Launches depend only on shapes, not on the
 * device.
 *
 * Images are stored channels-last: rows (pixels, N*H*W) of `channels` elements, `pitch` elements
 * from one row to the next, pitch >= channels. The padding between rows is not read as a value. A
 * kernel that works on 16 bytes at a time writes it as zero if it was zero in the operands. A
 * matrix [N, F] is an image of N rows. Elements are float or bf16; parameters, gradients of
 * parameters and statistics always float.
 *
 * A kernel works on 16 bytes at a time if all its addresses and pitches are multiples of 16 bytes,
 * and element by element otherwise ("narrow"). The bits may differ between the two, so the same op
 * must always have the same pitches.
 *
 * Scratch: `partial`, of as many bytes as crn_NAME_workspace() says, with any content. `tickets`:
 * as many counters as crn_launch says, zero before the first launch that uses them, and zero again
 * after each; launches that may run at the same time need different ones.
 *
 * nvcc reads this header too: so it has no designated initialisers and includes nothing else of
 * Cairn. */
#ifndef CRN_CUDA_KERNELS_H
#define CRN_CUDA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum crn_element { CRN_ELEMENT_F32, CRN_ELEMENT_BF16 } crn_element;

/* ---- What changes from step to step, in device memory: crn_values of backend.h ---- */

typedef struct crn_step_values {
    uint64_t seed, step;   /* for dropout */
    float rate;            /* sgd */
    float keep;            /* adamw: 1 - rate * decay */
    float step_size;       /* adam: rate / (1 - beta1^t) */
    float root_correction; /* adam: sqrt(1 - beta2^t) */
    float gathered;        /* divisor of a sum of gradients; 0: there is no sum */
    uint32_t first;        /* gather_gradients: begin a new sum */
    uint32_t reserved[4];
} crn_step_values;

/* ---- How a matrix of rows x channels is divided into blocks; filled in by launch functions ----
 *
 *            tile 0         tile 1          a block: `lanes` packs of channels side by side,
 *     strip 0 | block 0    | block 1  |     `groups` rows at a time, until its `strip` rows
 *     strip 1 | block 2    | block 3  |     are done
 */
typedef struct crn_tiling {
    uint32_t rows, channels;
    uint32_t packs; /* of a row; a thread takes one at a time: 16 bytes or one element */
    uint32_t lanes, tiles;
    uint32_t groups, strip, strips;
} crn_tiling;

/* ---- Batch-norm ----
 *
 *     training, first run    statistics, apply
 *     run again              apply alone, with the statistics that were kept (CRN_NORM_KEPT)
 *     inference              apply with CRN_NORM_RUNNING; norm_running makes `stats` where wanted
 *     backward               reduce, spread
 *
 * If there are few rows, one block has all rows of its channels: then `whole` is statistics and
 * apply in one kernel, and `bwd_whole` is reduce and spread, with the same bits. */
enum {
    CRN_NORM_RELU = 1,    /* apply: y = max(0, ...) */
    CRN_NORM_ADD = 2,     /* apply: ... + added, before the ReLU */
    CRN_NORM_RUNNING = 4, /* apply: with the running statistics, not `stats` */
    CRN_NORM_MOVE = 8,    /* statistics: update the running ones */
    CRN_NORM_KEPT = 16,   /* apply: with `kept`, which becomes `stats` too */
};

typedef struct crn_norm_args {
    crn_tiling tiling; /* the caller gives rows and channels */
    uint32_t element, flags;
    uint32_t x_pitch, y_pitch, added_pitch;
    float epsilon, momentum, keep; /* keep: 1 - momentum, rounded once */
    const void *x;
    const void *added; /* CRN_NORM_ADD */
    void *y;           /* may be x or added */
    const float *gamma, *beta;
    float *running_mean, *running_var;
    float *stats; /* [2, C]: mean, 1/deviation; written by statistics and running, read by apply */
    float *kept;  /* [2, C], or NULL: a copy of `stats` that statistics makes */
    void *partial;
    uint32_t *tickets;
} crn_norm_args;

/* The mask of the gradient: which elements the ReLU after the batch-norm let through. */
enum {
    CRN_MASK_NONE,
    CRN_MASK_Y, /* by the output y of the ReLU: y > 0 */
    CRN_MASK_X, /* y is computed from x, gamma, beta and the statistics, as in apply */
};

/* g = mask(gy + gy2); gx = other + gamma / deviation * (g - mean of g - xhat * mean of g * xhat).
 *
 * reduce makes the sums, and writes g to `masked` if that is given; then spread reads it there and
 * does not mask again. `masked` may be gy, gy2 or y; gx may be gy, x, masked or other. */
typedef struct crn_norm_bwd_args {
    crn_tiling tiling; /* the caller gives rows and channels */
    uint32_t element, mask;
    uint32_t fixed; /* the statistics do not depend on x (inference): no means are subtracted */
    uint32_t x_pitch, gy_pitch, gy2_pitch, y_pitch, masked_pitch, gx_pitch, other_pitch;
    const void *x, *gy;
    const void *gy2; /* or NULL */
    const void *y;   /* CRN_MASK_Y */
    void *masked;    /* or NULL; required if gy2 is given */
    void *gx;
    const void *other; /* or NULL */
    const float *gamma;
    const float *beta; /* CRN_MASK_X */
    const float *stats;
    float *ggamma, *gbeta; /* [C], or NULL */
    float *sums;           /* [2, C] scratch: ggamma and gbeta, for spread */
    void *partial;
    uint32_t *tickets;
} crn_norm_bwd_args;

/* ---- Element by element ---- */

typedef enum crn_pointwise {
    CRN_COPY,         /* a */
    CRN_RELU,         /* max(0, a) */
    CRN_RELU_BWD,     /* b where a > 0, a = y; else 0 */
    CRN_ADD,          /* a + b */
    CRN_ADD_RELU,     /* max(0, a + b) */
    CRN_RELU_BWD_ADD, /* b + c where a > 0 */
} crn_pointwise;

/* `to` may be a, b or c. If all pitches are equal to the channels, one row of all elements gives
 * the same result faster. */
typedef struct crn_pointwise_args {
    uint32_t op, element;
    uint32_t rows, channels;
    uint32_t a_pitch, b_pitch, c_pitch, to_pitch;
    uint32_t packs; /* filled in */
    const void *a, *b, *c;
    void *to;
} crn_pointwise_args;

/* y = x + bias, or max(0, x + bias); y may be x */
typedef struct crn_bias_args {
    crn_tiling tiling; /* the caller gives rows and channels */
    uint32_t element, relu;
    uint32_t x_pitch, y_pitch;
    const void *x;
    const float *bias;
    void *y;
} crn_bias_args;

/* sums[c] = sum over the rows of gy, the gradient of a bias. With a `gate` behind the bias gy is
 * the gradient behind that, and the one before it is summed and written to `masked`, which may be
 * gy or y: of a ReLU, where its output y > 0; of a CRN_GELU_BWD or CRN_GELU_TANH_BWD, whose input
 * is y. */
#define CRN_SUMS_RELU 1u

typedef struct crn_column_sums_args {
    crn_tiling tiling; /* the caller gives rows and channels */
    uint32_t element;
    uint32_t gate; /* or 0 */
    uint32_t gy_pitch, y_pitch, masked_pitch;
    const void *gy;
    const void *y; /* with a gate */
    void *masked;  /* likewise */
    float *sums;
    void *partial;
    uint32_t *tickets;
} crn_column_sums_args;

/* y = x * mask / (1 - p); mask and scale as in dropout_mask.h, whose elements are numbered as in a
 * plain tensor [batch, channels, plane]. y may be x. */
typedef struct crn_dropout_args {
    uint32_t element, op; /* op: the id of the forward op */
    uint32_t batch, channels, plane;
    uint32_t x_pitch, y_pitch;
    uint32_t packs; /* filled in */
    float scale;
    uint64_t threshold;
    const void *x;
    void *y;
    const crn_step_values *values;
} crn_dropout_args;

#define CRN_CONCAT_MOST 16u /* more sources need more launches */

typedef struct crn_concat_source {
    const void *from;
    uint32_t channels, pitch;
    uint32_t first; /* channel of the result where this source begins */
} crn_concat_source;

typedef struct crn_concat_args {
    uint32_t element, rows, count, to_pitch;
    void *to;
    crn_concat_source sources[CRN_CONCAT_MOST];
} crn_concat_args;

/* to[i] = from[i - first] for `count` elements from `first` on, and 0 elsewhere: select_bwd. */
typedef struct crn_place_args {
    uint32_t element;
    uint64_t all, first, count;
    const void *from;
    void *to;
} crn_place_args;

/* ---- Pooling ----
 *
 * Forward: from [N, H, W], to and places [N, P, Q]. Backward: from and places [N, P, Q], to
 * [N, H, W]. */
typedef struct crn_pool_args {
    uint32_t element, place_bytes; /* 1 or 4 */
    uint32_t channels, from_pitch, to_pitch, places_pitch;
    uint32_t batch, height, width, small_height, small_width;
    int32_t kernel[2], stride[2], pad[2];
    uint32_t adaptive, count_padding; /* average only */
    /* filled in: */
    uint32_t packs;
    uint32_t patch; /* side of the square of the large image that a thread makes */
    float share;    /* the divisor of every average; 0: they differ */
    const void *from;
    void *to;
    void *places; /* maximum: row * KW + column in its window; forward: or NULL */
} crn_pool_args;

/* ---- Depthwise convolution, one filter per channel: groups = channels = filters ----
 *
 *     depthwise           large, weight (, bias) -> small
 *     depthwise_data      small, weight -> large
 *     depthwise_weight    large, small -> weight_to
 *
 * The images are large [N, H, W] and small [N, P, Q]; weights [C, KH, KW], KW at most
 * CRN_DEPTHWISE_WIDE, KH * KW at most CRN_DEPTHWISE_TAPS: others are for conv_gather and so on. */
#define CRN_DEPTHWISE_WIDE 7u
#define CRN_DEPTHWISE_TAPS 49u

typedef struct crn_depthwise_args {
    crn_tiling tiling; /* filled in */
    uint32_t element, channels;
    uint32_t batch, height, width, small_height, small_width;
    uint32_t large_pitch, small_pitch;
    int32_t kernel[2], stride[2], pad[2], dilation[2];
    uint32_t packs, close; /* filled in */
    void *large, *small;
    const float *weight;
    const float *bias; /* or NULL */
    float *weight_to;
    void *partial;
    uint32_t *tickets;
} crn_depthwise_args;

/* ---- Any convolution, directly: for convolutions that no library supports ----
 *
 *     conv_gather     large, weight -> small    conv2d, conv_transpose2d_bwd_data
 *     conv_scatter    small, weight -> large    conv2d_bwd_data, conv_transpose2d
 *     conv_weigh      large, small -> weight_to
 *
 * large [N, H, W, C], small [N, P, Q, O]; weight (o, c of the group, tap) is at o * weight_o + c *
 * weight_c + tap * weight_tap. Padding may be negative. */
typedef struct crn_conv_args {
    uint32_t element, groups;
    uint32_t batch, channels, height, width, filters, small_height, small_width;
    uint32_t large_pitch, small_pitch;
    int32_t kernel[2], stride[2], pad[2], dilation[2];
    uint32_t weight_o, weight_c, weight_tap;
    void *large, *small;
    const float *weight;
    const float *bias; /* of the output image, or NULL */
    float *weight_to;
} crn_conv_args;

/* c[m, n] (+)= sum over k of a[m, k] * b[k, n] (+ bias[n]), `batch` times; element (i, j) of an
 * operand is at i * row + j * column; each batch is `next` elements further. */
typedef struct crn_matrix {
    void *at;
    uint64_t row, column, next;
    uint32_t element;
} crn_matrix;

typedef struct crn_matmul_args {
    uint32_t m, n, k, batch;
    uint32_t add; /* to the old contents of c */
    crn_matrix a, b, c;
    const float *bias; /* or NULL */
} crn_matmul_args;

/* ---- Layout ----
 *
 * plain [batch, channels, plane] <-> image [batch, plane, pitch]; to_image fills up with zeros.
 * Weights are images of filters: batch O, channels I, plane KH*KW. */
typedef struct crn_layout_args {
    uint32_t element, plain_element; /* of the image; of the plain tensor */
    uint32_t batch, channels, plane, pitch;
    void *plain, *image;
} crn_layout_args;

typedef struct crn_convert_args {
    uint32_t from_element, to_element;
    uint64_t count;
    const void *from;
    void *to;
} crn_convert_args;

/* Unfold images: a row of the result has what the filters see of one pixel of the small image.
 *
 *     large [images, height, width, large_pitch] -> to [images * small pixels, taps, pitch]
 *
 * What lies outside of the image, and channels from `channels` to `pitch`, are zero. */
typedef struct crn_unfold_args {
    uint32_t element;
    uint32_t height, width, small_height, small_width;
    uint32_t channels, large_pitch, pitch;
    int32_t kernel[2], stride[2], pad[2], dilation[2];
    uint32_t count; /* elements of the result */
    const void *large;
    void *to;
} crn_unfold_args;

/* to[i] = the sum over all slices of from[slice * count + i], in their order */
typedef struct crn_add_slices_args {
    uint32_t count, slices;
    const float *from;
    float *to;
} crn_add_slices_args;

/* ---- Loss ----
 *
 * Plain [batch, classes, pixels] and labels [batch, pixels]. */
typedef struct crn_loss_args {
    uint32_t element;
    uint32_t batch, classes, pixels;
    uint32_t by_block; /* filled in */
    float smoothing;
    /* Counting in gradients, where the label has `label_share` / *label_count less; NULL: in
     * probabilities. */
    float label_share;
    const float *label_count;
    const void *logits;    /* forward */
    void *probabilities;   /* forward: made, may be logits, or NULL; backward and counting: read */
    const int32_t *labels; /* if one is outside the classes, the loss is NaN */
    float *loss;           /* forward: the mean, or NULL */
    void *gradient;        /* backward: of the logits; may be probabilities */
    uint64_t *correct;     /* counting: adds how often the label was the likeliest class */
    void *partial;
    uint32_t *tickets;
} crn_loss_args;

/* ---- The pointwise ops of recurrent cells ----
 *
 * Forward: z [N, G*H] are the products x W_ih', and z2 [N, G*H] those with h, or NULL if z is the
 * sum of both. Backward: makes the gradient before the activations, [G, N, H]. `before` may be gh
 * (rnn) or values (lstm). */
typedef struct crn_cell_args {
    uint32_t element, batch, hidden;
    const float *z, *z2;
    const float *b_ih, *b_hh;
    const void *c; /* [N, H], lstm */
    void *new_h, *new_c;
    void *values; /* [4, N, H]: i, f, g, o; forward: or NULL */
    const void *gh, *gc;
    void *before;
    void *old_gc; /* or NULL */
} crn_cell_args;

/* ---- Optimisers, over all parameters in one launch ----
 *
 * The table of chunks is in device memory. A chunk has at most CRN_CHUNK elements; its addresses
 * are multiples of 16 bytes. gather_gradients adds gradients of micro-batches to `sum`, or copies
 * them if values->first is set. sgd and adam use sum / gathered instead of the gradient if
 * values->gathered > 0, multiplied by clip / (sqrt(*squares) + 1e-6) if there are squares and that
 * is less than 1. square_chunks sums the squares of each chunk into `chunk_squares`; add_squares,
 * in one block, adds them to *squares into *squares_out. */
#define CRN_CHUNK 4096u

typedef struct crn_chunk_addresses {
    float *value;
    const float *gradient;
    float *slots[2]; /* momentum or exp_avg, exp_avg_sq; NULL: not there */
    float *sum;      /* or NULL */
    uint32_t count;
    uint32_t no_decay;
    uint16_t *copy; /* of the value in bf16, or NULL */
} crn_chunk_addresses;

typedef struct crn_update_args {
    const crn_chunk_addresses *chunks;
    uint32_t count;
    uint32_t nesterov;  /* sgd */
    uint32_t decoupled; /* adam: adamw */
    float momentum, decay;
    float beta1_rest, beta2, beta2_rest, epsilon; /* rest: 1 - beta, rounded once */
    const crn_step_values *values;
    float clip;
    const float *squares; /* or NULL */
    float *squares_out;
    double *chunk_squares; /* per chunk */
} crn_update_args;

/* ---- Patterns and checks ----
 *
 * fill: every word becomes `pattern`. count_changed adds to *found how many words differ from it.
 * count_nan adds how many elements are NaN. The caller makes *found zero. */
typedef struct crn_fill_args {
    uint32_t element; /* count_nan */
    uint32_t pattern;
    uint64_t count; /* words of 4 bytes; count_nan: elements */
    void *at;
    uint32_t *found;
} crn_fill_args;

#include "backend/cuda/kernels/sequence_args.h"
#include "backend/cuda/attention_args.h"
#include "backend/cuda/split_args.h"

/* ---- The list ---- */

typedef enum crn_kernel_id {
#define IMAGE(name, args)                                                                          \
    CRN_K_##name, CRN_K_##name##_bf16, CRN_K_##name##_f32_narrow, CRN_K_##name##_bf16_narrow,
#define TYPED(name, args) CRN_K_##name, CRN_K_##name##_bf16,
#define PLAIN(name, args) CRN_K_##name,
#include "backend/cuda/kernels.def"
#undef IMAGE
#undef TYPED
#undef PLAIN
    CRN_KERNELS
} crn_kernel_id;

typedef struct crn_kernel_entry {
    const char *name;    /* of the device function */
    uint32_t args_bytes; /* of its only argument */
} crn_kernel_entry;

extern const crn_kernel_entry crn_kernel_list[CRN_KERNELS];

typedef struct crn_launch {
    crn_kernel_id kernel;
    uint32_t blocks[2]; /* x, y; one is 0: there is nothing to do */
    uint32_t threads;
    uint32_t tickets;      /* how many it uses; 0: none */
    uint32_t shared_bytes; /* of CRN_SHARED_ALL, see grid.h */
} crn_launch;

/* The most shared_bytes of launches of a kernel. */
uint32_t crn_kernel_shared_bytes(crn_kernel_id kernel);

/* For each kernel: its form and grid for these arguments. */
#define LAUNCH(name, args) crn_launch crn_##name##_launch(crn_##args *given);
#define IMAGE(name, args) LAUNCH(name, args)
#define TYPED(name, args) LAUNCH(name, args)
#define PLAIN(name, args) LAUNCH(name, args)
#include "backend/cuda/kernels.def"
#undef IMAGE
#undef TYPED
#undef PLAIN
#undef LAUNCH

/* Whether the two kernels of a pass can be one: there are few rows, and what the second writes
 * overlaps what the first reads only element by element. */
int crn_norm_is_whole(const crn_norm_args *given);
int crn_norm_bwd_is_whole(const crn_norm_bwd_args *given);

/* Bytes that `partial` must have, a multiple of 16; needs no addresses, only shapes and pitches. */
uint64_t crn_norm_workspace(const crn_norm_args *given);         /* statistics */
uint64_t crn_norm_bwd_workspace(const crn_norm_bwd_args *given); /* reduce */
uint64_t crn_column_sums_workspace(const crn_column_sums_args *given);
uint64_t crn_depthwise_weight_workspace(const crn_depthwise_args *given);
uint64_t crn_loss_workspace(const crn_loss_args *given);         /* forward and counting */
uint64_t crn_row_norm_workspace(const crn_row_norm_args *given); /* backward */
int crn_row_norm_can_sum(uint32_t element, uint32_t width);      /* gsum */
uint64_t crn_token_loss_workspace(const crn_token_loss_args *given);

#ifdef __cplusplus
}
#endif

#endif
