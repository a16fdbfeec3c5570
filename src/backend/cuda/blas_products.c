/* blas_products.c: see blas_products.h. cuBLASLt stores matrices by columns: a matrix by rows has
 * the same memory as its transpose by columns. */
#include "backend/cuda/blas_products.h"

#define MOST_WORKSPACE (4u << 20) /* bytes; more is not faster at the sizes of linear layers */
#define REDUCTIONS 6u             /* all schemes except those that use atomics in place */

/* One layout; `next` elements lead from a slice to the next; `pass` is the one that makes it. */
static int make_layout(const crn_cuda_api *api, const crn_blas_shape *s, crn_blas_pass pass,
                       uint64_t rows, uint64_t columns, int64_t stride, int64_t next,
                       crn_blas_object *out) {
    int32_t slices = (int32_t)s->slices;
    bool half = s->pass == (int64_t)pass ? s->half_result != 0 : s->half != 0;
    int failed = api->cublasLtMatrixLayoutCreate(out, half ? CRN_BLAS_BF16 : CRN_BLAS_FLOAT, rows,
                                                 columns, stride);
    if (failed == 0 && slices > 1)
        failed = api->cublasLtMatrixLayoutSetAttribute(*out, CRN_BLAS_BATCH_COUNT, &slices,
                                                       sizeof slices);
    if (failed == 0 && slices > 1)
        failed =
            api->cublasLtMatrixLayoutSetAttribute(*out, CRN_BLAS_BATCH_STRIDE, &next, sizeof next);
    return failed;
}

static int make_operands(const crn_cuda_api *api, const crn_blas_shape *s, crn_blas_plan *out) {
    crn_blas_object x = NULL, w = NULL, y = NULL;
    uint64_t rows = (uint64_t)s->rows, in = (uint64_t)s->in, outs = (uint64_t)s->out;
    int failed = make_layout(api, s, CRN_BLAS_GX, in, rows, s->in, s->rows * s->in, &x);
    if (failed == 0)
        failed = make_layout(api, s, CRN_BLAS_GW, in, outs, s->in, s->in * s->out, &w);
    if (failed == 0)
        failed =
            make_layout(api, s, CRN_BLAS_Y, outs, rows, s->y_stride, s->rows * s->y_stride, &y);
    out->a = s->pass == CRN_BLAS_GW ? x : w;
    out->b = s->pass == CRN_BLAS_Y ? x : y;
    out->d = s->pass == CRN_BLAS_Y ? y : s->pass == CRN_BLAS_GX ? x : w;
    return failed;
}

static int make_product(const crn_cuda_api *api, const crn_blas_shape *s, crn_blas_plan *out) {
    static const int transposed = CRN_BLAS_TRANSPOSED, epilogue = CRN_BLAS_ADD_BIAS;
    int compute = s->exact || s->half ? CRN_BLAS_COMPUTE_FP32 : CRN_BLAS_COMPUTE_TF32;
    int failed = api->cublasLtMatmulDescCreate(&out->product, compute, CRN_BLAS_FLOAT);
    if (failed == 0 && s->pass == CRN_BLAS_Y)
        failed = api->cublasLtMatmulDescSetAttribute(out->product, CRN_BLAS_TRANSPOSE_A,
                                                     &transposed, sizeof transposed);
    if (failed == 0 && s->pass == CRN_BLAS_GW)
        failed = api->cublasLtMatmulDescSetAttribute(out->product, CRN_BLAS_TRANSPOSE_B,
                                                     &transposed, sizeof transposed);
    if (failed == 0 && s->bias)
        failed = api->cublasLtMatmulDescSetAttribute(out->product, CRN_BLAS_EPILOGUE, &epilogue,
                                                     sizeof epilogue);
    return failed;
}

/* The alignment of the operands, which start at multiples of their rows. */
static uint32_t alignment_of(const crn_blas_shape *s) {
    if (s->half)
        return (s->in | s->out | s->y_stride) % 8 == 0 ? 16 : 2;
    return (s->in | s->out | s->y_stride) % 4 == 0 ? 16 : 4;
}

static int choose(const crn_cuda_api *api, cublasLtHandle_t handle, const crn_blas_shape *shape,
                  uint32_t rank, crn_blas_plan *out) {
    static const size_t most = MOST_WORKSPACE;
    static const uint32_t reductions = REDUCTIONS;
    uint32_t alignment = alignment_of(shape);
    crn_blas_object preference = NULL;
    crn_blas_heuristic found[CRN_BLAS_MOST_RANKS];
    int count = 0;
    int failed = api->cublasLtMatmulPreferenceCreate(&preference);
    if (failed != 0)
        return failed;
    failed = api->cublasLtMatmulPreferenceSetAttribute(preference, CRN_BLAS_MOST_WORKSPACE, &most,
                                                       sizeof most);
    if (failed == 0)
        failed = api->cublasLtMatmulPreferenceSetAttribute(preference, CRN_BLAS_REDUCTIONS,
                                                           &reductions, sizeof reductions);
    for (int operand = 0; operand < 4 && failed == 0; operand++)
        failed = api->cublasLtMatmulPreferenceSetAttribute(
            preference, CRN_BLAS_ALIGNMENT_A + operand, &alignment, sizeof alignment);
    if (failed == 0)
        failed =
            api->cublasLtMatmulAlgoGetHeuristic(handle, out->product, out->a, out->b, out->d,
                                                out->d, preference, (int)rank + 1, found, &count);
    (void)api->cublasLtMatmulPreferenceDestroy(preference);
    while (failed == 0 && count > 1 && found[count - 1].status != 0)
        count--;
    if (failed == 0 && (count == 0 || found[count - 1].status != 0))
        failed = count == 0 ? -1 : found[0].status;
    if (failed == 0) {
        out->rank = (uint32_t)count - 1;
        out->algorithm = found[out->rank].algorithm;
        out->workspace = shape->half ? MOST_WORKSPACE : found[out->rank].workspace;
    }
    return failed;
}

cairn_status crn_blas_prepare(const crn_cuda_api *api, cublasLtHandle_t handle,
                              const crn_blas_shape *shape, uint32_t rank, crn_blas_plan *out,
                              cairn_error *err) {
    *out = (crn_blas_plan){.pass = shape->pass};
    int failed = make_operands(api, shape, out);
    if (failed == 0)
        failed = make_product(api, shape, out);
    if (failed == 0)
        failed = choose(api, handle, shape, rank, out);
    if (failed == 0)
        return CAIRN_OK;
    crn_blas_drop(api, out);
    return crn_fail(err, CAIRN_ESYSTEM,
                    "cuBLASLt has no product of %lld rows, %lld inputs and %lld outputs (status "
                    "%d)",
                    (long long)shape->rows, (long long)shape->in, (long long)shape->out, failed);
}

void crn_blas_drop(const crn_cuda_api *api, crn_blas_plan *plan) {
    crn_blas_object *layouts[] = {&plan->a, &plan->b, &plan->d};
    for (size_t i = 0; i < CRN_LENGTH(layouts); i++)
        if (*layouts[i] != NULL)
            (void)api->cublasLtMatrixLayoutDestroy(*layouts[i]);
    if (plan->product != NULL)
        (void)api->cublasLtMatmulDescDestroy(plan->product);
    *plan = (crn_blas_plan){0};
}

int crn_blas_run(const crn_cuda_api *api, cublasLtHandle_t handle, const crn_blas_plan *plan,
                 void *x, void *w, void *y, const void *bias, bool add, void *workspace,
                 CUstream stream) {
    const float one = 1, rest = add ? 1.0f : 0.0f;
    int failed = bias == NULL ? 0
                              : api->cublasLtMatmulDescSetAttribute(plan->product, CRN_BLAS_BIAS,
                                                                    &bias, sizeof bias);
    if (failed != 0)
        return failed;
    void *a = plan->pass == CRN_BLAS_GW ? x : w;
    void *b = plan->pass == CRN_BLAS_Y ? x : y;
    void *d = plan->pass == CRN_BLAS_Y ? y : plan->pass == CRN_BLAS_GX ? x : w;
    return api->cublasLtMatmul(handle, plan->product, &one, a, plan->a, b, plan->b, &rest, d,
                               plan->d, d, plan->d, &plan->algorithm, workspace, plan->workspace,
                               stream);
}
