/* dnn_plans.h: the three passes of a convolution through cuDNN's backend interface.
 *
 * cuDNN proposes configurations of engines for a shape (heuristic mode A), best first. Those that
 * are not deterministic are dropped; the K-th of the rest that can be finished is what `impl K`
 * means. A plan knows no addresses and serves all runs of all ops of the same shape. */
#ifndef DNN_PLANS_H
#define DNN_PLANS_H

#include "backend/cuda/cuda_abi.h"
#include "base/crn_base.h"

typedef enum crn_dnn_pass { CRN_DNN_Y, CRN_DNN_GX, CRN_DNN_GW } crn_dnn_pass;

/* Images are channels-last, weights [filters][kernel][channels / groups]. Rows and pixels of x may
 * lie further apart than it has: a negative padding is a crop. All fields count; compare bytes. */
typedef struct crn_dnn_shape {
    int64_t pass; /* crn_dnn_pass: which of y, gradient of x, gradient of w is made */
    int64_t batch, channels, filters, groups;
    int64_t x[2], y[2];   /* height, width */
    int64_t x_strides[3]; /* elements from image to image, row to row, pixel to pixel */
    int64_t kernel[2], stride[2], dilation[2], before[2], after[2]; /* paddings, not negative */
    int64_t alignment;                                              /* of x, bytes */
    int64_t exact; /* products in full fp32, not TF32 */
} crn_dnn_shape;

typedef struct crn_dnn_plan {
    cudnnBackendDescriptor_t plan;
    int64_t engine;
    uint32_t rank; /* its place among the proposals */
    uint64_t workspace;
} crn_dnn_plan;

/* Where plans are made: with a handle on a device, or from a description of one. */
typedef struct crn_dnn {
    const crn_cuda_api *api;
    cudnnHandle_t handle;            /* NULL: there is no device, nothing can be run */
    cudnnBackendDescriptor_t device; /* NULL: the handle's */
} crn_dnn;

/* A description of a device, as cuDNN writes it, in JSON. */
CAIRN_MUST cairn_status crn_dnn_describe(crn_dnn *dnn, const char *json, cairn_error *err);

/* At most `most` plans, best first, to `out`; `*count` may be 0: cuDNN cannot do this shape.
 * CAIRN_ESYSTEM: cuDNN fails. The plans belong to the caller: crn_dnn_drop(). */
CAIRN_MUST cairn_status crn_dnn_propose(const crn_dnn *dnn, const crn_dnn_shape *shape,
                                        crn_dnn_plan *out, uint32_t most, uint32_t *count,
                                        cairn_error *err);

/* Put the plan to use first: cuDNN's order, but for what was measured to be otherwise (TF32,
 * channels-last, on Hopper). `count` plans in the order of crn_dnn_propose(). */
void crn_dnn_prefer(const crn_dnn_shape *shape, crn_dnn_plan *plans, uint32_t count);

/* Run on the handle's stream; a status of cuDNN, 0: done. */
int crn_dnn_run(const crn_dnn *dnn, const crn_dnn_plan *plan, const void *x, const void *w,
                const void *y, void *workspace);

void crn_dnn_drop(const crn_dnn *dnn, cudnnBackendDescriptor_t descriptor);

#endif
