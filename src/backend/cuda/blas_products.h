/* blas_products.h: matrix products through cuBLASLt, by the same rules as dnn_plans.h: an algorithm
 * is chosen once for a shape, it adds in a fixed order, and the caller provides its workspace. */
#ifndef BLAS_PRODUCTS_H
#define BLAS_PRODUCTS_H

#include "backend/cuda/cuda_abi.h"
#include "base/crn_base.h"

/* The products of x [rows, in], w [out, in] and y [rows, out], all by rows:
 *
 *     CRN_BLAS_Y    y = x w'        CRN_BLAS_GX    x = y w        CRN_BLAS_GW    w = y' x
 *
 * With several parts there are as many of each, one behind the other. */
typedef enum crn_blas_pass { CRN_BLAS_Y, CRN_BLAS_GX, CRN_BLAS_GW } crn_blas_pass;

/* There is no padding: shapes can be compared as bytes. */
typedef struct crn_blas_shape {
    int64_t pass, rows, in, out;
    int64_t y_stride; /* elements from row to row of y */
    int64_t exact;    /* products in full fp32, not TF32 */
    int64_t parts;    /* 0 is 1 */
} crn_blas_shape;

typedef struct crn_blas_plan {
    crn_blas_object product, a, b, d;
    crn_blas_algorithm algorithm;
    uint64_t workspace;
    int64_t pass;
} crn_blas_plan;

/* CAIRN_ESYSTEM: there is no algorithm, or cuBLASLt fails; then nothing was created. */
CAIRN_MUST cairn_status crn_blas_prepare(const crn_cuda_api *api, cublasLtHandle_t handle,
                                         const crn_blas_shape *shape, crn_blas_plan *out,
                                         cairn_error *err);
void crn_blas_drop(const crn_cuda_api *api, crn_blas_plan *plan);

/* Run on the stream; with `add` the product is added to the old contents. Returns a status of
 * cuBLASLt. */
int crn_blas_run(const crn_cuda_api *api, cublasLtHandle_t handle, const crn_blas_plan *plan,
                 void *x, void *w, void *y, bool add, void *workspace, CUstream stream);

#endif
