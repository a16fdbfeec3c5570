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
 * With several slices there are as many of each, one behind the other. */
typedef enum crn_blas_pass { CRN_BLAS_Y, CRN_BLAS_GX, CRN_BLAS_GW } crn_blas_pass;

/* There is no padding: shapes can be compared as bytes. */
typedef struct crn_blas_shape {
    int64_t pass, rows, in, out;
    int64_t y_stride; /* elements from row to row of y */
    int64_t exact;    /* products in full fp32, not TF32 */
    int64_t slices;   /* 0 is 1 */
    int64_t half;     /* the factors are bf16 */
    int64_t half_result;
    int64_t bias; /* CRN_BLAS_Y: add a bias [out] of the type of the result */
} crn_blas_shape;

#define CRN_BLAS_MOST_RANKS 8

typedef struct crn_blas_plan {
    crn_blas_object product, a, b, d;
    crn_blas_algorithm algorithm;
    uint64_t workspace;
    int64_t pass;
    uint32_t rank; /* its place among the proposals */
} crn_blas_plan;

/* Take proposal `rank` of cuBLASLt's heuristic, or the last one if there are fewer. Those with bf16
 * factors say that they need the same workspace, so that a slower one is never preferred for its
 * few bytes. CAIRN_ESYSTEM: there is no algorithm, or cuBLASLt fails; then nothing was created. */
CAIRN_MUST cairn_status crn_blas_prepare(const crn_cuda_api *api, cublasLtHandle_t handle,
                                         const crn_blas_shape *shape, uint32_t rank,
                                         crn_blas_plan *out, cairn_error *err);
void crn_blas_drop(const crn_cuda_api *api, crn_blas_plan *plan);

/* Run on the stream; with `add` the product is added to the old contents; `bias` for a shape that
 * has one. Returns a status of cuBLASLt. */
int crn_blas_run(const crn_cuda_api *api, cublasLtHandle_t handle, const crn_blas_plan *plan,
                 void *x, void *w, void *y, const void *bias, bool add, void *workspace,
                 CUstream stream);

#endif
