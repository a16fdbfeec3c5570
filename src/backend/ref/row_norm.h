/* row_norm.h: what the layer norms and RMS norms of both processor backends share: everything but
 * the loops over a row and over columns. */
#ifndef CRN_ROW_NORM_H
#define CRN_ROW_NORM_H

#include "backend/ref/ref_kernels.h"

#define CRN_NORM_COLUMNS 64u /* that one index of sum_columns owns */

typedef struct crn_row_norm {
    const float *x, *gy, *gamma, *beta;      /* beta may be NULL */
    const float *given_mean, *given_inverse; /* [R]; the mean of an RMS norm is NULL */
    float *y, *mean, *inverse;               /* the last two may be NULL */
    float *gx, *ggamma, *gbeta;              /* each may be NULL */
    size_t rows, width;
    double epsilon;
    bool centred; /* a layer norm */
    /* cpu: x, y, gy and gx are bf16, and a thread has two rows of floats */
    bool half;
    float *rooms;
} crn_row_norm;

/* Each worker gets a crn_row_norm and a row, or in sum_columns a block of columns. */
typedef struct crn_row_norm_workers {
    void (*normalise_row)(void *context, uint32_t row);
    void (*sum_columns)(void *context, uint32_t block);
    void (*differentiate_row)(void *context, uint32_t row);
} crn_row_norm_workers;

/* x [..., D] -> y, stats [2, R]: mean, 1 / deviation; or [R] of an RMS norm: 1 / root mean square
 */
void crn_row_norm_forward(const crn_call *call, bool centred, const crn_row_norm_workers *workers);

/* x, stats, gy -> gx, gradients of gamma and beta [D]. Those are made before gx, which may be in
 * place of gy. */
void crn_row_norm_backward(const crn_call *call, bool centred, const crn_row_norm_workers *workers);

static inline float crn_row_norm_mean(const crn_row_norm *at, size_t row) {
    return at->given_mean != NULL ? at->given_mean[row] : 0;
}

#endif
