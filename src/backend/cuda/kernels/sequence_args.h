/* sequence_args.h: the arguments of the kernels for sequences of tokens; included by kernels.h,
 * which includes it. Sequences are matrices without padding: a row of `width` elements for each
 * token. */
#ifndef CRN_SEQUENCE_ARGS_H
#define CRN_SEQUENCE_ARGS_H

/* ---- Norms of rows: layer norm (centred) and RMS norm ----
 *
 *     row_norm           x (, added) -> y, mean, inverse (, sum)
 *     row_norm_bwd       x, gy, mean, inverse (, other) -> gx, partial
 *     row_norm_finish    partial -> ggamma, gbeta (, gsum)
 *
 * Those called `wide` are for rows too long for a block: row_norm can have 4 packs of a row for
 * each of 256 threads, row_norm_bwd one for each of 512. With `added` the norm is that of sum = x +
 * added. With `other` that is added to gx. y and sum may be x or added, gx may be x, gy or other.
 */
#define CRN_ROW_HELD 4u     /* packs of a thread of row_norm */
#define CRN_ROW_CHUNK 32u   /* rows that a block of row_norm_bwd_wide has at a time */
#define CRN_ROW_WARPS 8u    /* of such a block */
#define CRN_STRIP_STAGES 3u /* of row_norm_bwd: the rows at hand, and those that are fetched */
#define CRN_STRIP_BYTES (CRN_STRIP_STAGES * 3 * 512 * 16) /* of its shared memory for them */

typedef struct crn_row_norm_args {
    crn_tiling tiling; /* the caller gives rows and channels; the launch fills in the rest */
    uint32_t element, centred;
    float epsilon;
    const void *x, *gy;
    const void *added, *other; /* or NULL */
    void *y, *gx;              /* gx: or NULL */
    void *sum;                 /* with `added` */
    const float *gamma;
    const float *beta;     /* or NULL */
    float *mean, *inverse; /* [rows]; mean: only if centred; forward: or NULL */
    float *ggamma, *gbeta; /* [width], or NULL */
    float *gsum;           /* likewise: the sums of the columns of gx, of rows that are not wide */
    void *partial;         /* NULL: none of them is wanted */
    uint32_t alone;        /* 1: only gsum is made, of gy instead of gx */
} crn_row_norm_args;

/* ---- Gates, element by element: the arguments are crn_pointwise_args ---- */
enum {
    CRN_GELU,          /* a * Phi(a) */
    CRN_GELU_TANH,     /* its approximation */
    CRN_SILU,          /* a / (1 + exp(-a)) */
    CRN_MULTIPLY,      /* a * b */
    CRN_GELU_BWD,      /* b times the slope at a */
    CRN_GELU_TANH_BWD, /* likewise */
    CRN_SILU_BWD,      /* likewise */
    CRN_GATES
};

#define CRN_SWIGLU_ROWS 2u /* of a thread */

/* swiglu: x [rows, 2 width] -> y [rows, width] = silu(first half) * second half;
 * swiglu_bwd: x, gy -> gx, which may be x. */
typedef struct crn_swiglu_args {
    uint32_t element, rows, width;
    const void *x, *gy;
    void *y, *gx;
} crn_swiglu_args;

/* ---- Rotary embedding ----
 *
 * Element i < `half` of every head of queries and keys, and element i + half, are rotated by the
 * angle of the token times frequency[i]. A launch has pairs from `first` on, `pairs` of them; the
 * first launch copies the values. y may be x. */
#define CRN_ROTARY_PAIRS 64u
#define CRN_ROTARY_ROWS 4u /* of a block */

typedef struct crn_rotary_args {
    uint32_t element, rows, tokens;
    uint32_t rotated, copied; /* heads */
    uint32_t half, pitch;
    uint32_t first, pairs;
    uint32_t inverse; /* the other direction: backward */
    const void *x;
    void *y;
    double frequency[CRN_ROTARY_PAIRS];
} crn_rotary_args;

/* ---- Embedding ----
 *
 *     embedding        tokens, table -> y; the row of a token outside the vocabulary is NaN
 *     token_lists      tokens -> starts, list
 *     embedding_bwd    gy, starts, list, sum -> gradient
 *
 * The rows of word v are list[starts[v]] to list[starts[v + 1] - 1], in their order, which is also
 * the order of the sums; if there are many, eight sums are made side by side. */
typedef struct crn_embedding_args {
    uint32_t element, rows, words, width;
    const int32_t *tokens;
    const float *table;
    const void *gy;
    void *y;
    float *gradient;  /* [words, width] */
    const float *sum; /* or NULL: what the gradient is added to, may be `gradient` */
    uint32_t *starts; /* [words + 1] */
    uint32_t *list;   /* [rows] */
} crn_embedding_args;

/* positions: y = x + weight[token], y may be x; positions_bwd: gradient[token] = the sum over all
 * sequences. Rows of the weight from `tokens` on have no gradient. */
typedef struct crn_positions_args {
    uint32_t element, batch, tokens, width;
    uint32_t weights;  /* rows of the weight */
    uint32_t same_row; /* forward: every token takes row 0 */
    const void *x;     /* backward: gy */
    const float *weight;
    void *y;
    float *gradient;
} crn_positions_args;

/* Copy rows: to(n, first + r, c) = from(n, r, c) for r < count; all other rows of `to` become
 * `fill`, or 0. Element (n, r, c) of either side is at n * next + r * row + c * column. */
typedef struct crn_copy_rows_args {
    uint32_t batch, rows, width; /* of `to` */
    uint32_t first, count;
    crn_matrix from, to;
    const float *fill; /* [width], or NULL */
} crn_copy_rows_args;

/* ---- Loss of tokens: logits [rows, words], labels [rows] ----
 *
 *     count_labels      labels -> count, at least 1
 *     token_loss        logits, labels -> loss, probabilities
 *     token_loss_bwd    probabilities, labels, count -> gradient
 *
 * Where the logits are those of a chunk of the rows, `before` rows come before it: labels and
 * partial sums are those of all rows, and the launch for the last chunk makes the loss.
 *
 * Labels below 0 are ignored; with one outside the words the loss is NaN. In bf16 token_loss takes
 * the count too and writes the gradient instead of the probabilities; token_loss_bwd copies it. Of
 * equal logits the first is the largest. */
#define CRN_TOKEN_HELD 11u                          /* packs of a row that a thread reads once */
#define CRN_TOKEN_BYTES (CRN_TOKEN_HELD * 512 * 16) /* of shared memory for them */

typedef struct crn_token_loss_args {
    uint32_t element, rows, words;
    uint32_t before;
    float smoothing;
    const void *logits;
    void *probabilities; /* forward: may be logits, or NULL */
    const int32_t *labels;
    float *loss;    /* forward: or NULL */
    void *gradient; /* may be probabilities */
    float *count;
    uint64_t *hits; /* forward: or NULL; adds how often the label has the largest logit */
    void *partial;
    uint32_t *tickets;
} crn_token_loss_args;

#endif
