/* dnn_plans.h: the three passes of a convolution through cuDNN's backend interface.
 *
 * cuDNN proposes configurations of engines for a shape (heuristic mode A), best first. Those that
 * are not deterministic are dropped. `impl K` is the K-th of the others that can be finished. A
 * plan has no addresses and serves all runs of all ops of the same shape. */
#ifndef DNN_PLANS_H
#define DNN_PLANS_H

#include "backend/cuda/cuda_abi.h"
#include "base/crn_base.h"

typedef enum crn_dnn_pass { CRN_DNN_Y, CRN_DNN_GX, CRN_DNN_GW } crn_dnn_pass;

/* Images are channels-last, weights [filters][kernel][channels / groups]. The strides of x may be
 * larger than its sizes: a negative padding is a crop. There is no padding in the struct: shapes
 * can be compared as bytes. */
typedef struct crn_dnn_shape {
    int64_t pass; /* crn_dnn_pass: which of y, gradient of x, gradient of w is made */
    int64_t batch, channels, filters, groups;
    int64_t x[2], y[2];   /* height, width */
    int64_t x_strides[3]; /* elements from image to image, row to row, pixel to pixel */
    int64_t kernel[2], stride[2], dilation[2], before[2], after[2]; /* paddings, not negative */
    int64_t alignment;                                              /* of x, bytes */
    int64_t exact; /* products in full fp32, not TF32 */
    int64_t half;  /* images and weights are bf16, not fp32; sums are fp32 */
} crn_dnn_shape;

typedef struct crn_dnn_plan {
    cudnnBackendDescriptor_t plan;
    int64_t engine;
    uint32_t rank; /* its place among the proposals */
    uint64_t workspace;
} crn_dnn_plan;

/* The context of plans: a handle on a device, or a description of a device. */
typedef struct crn_dnn {
    const crn_cuda_api *api;
    cudnnHandle_t handle;            /* NULL: there is no device, and nothing can be run */
    cudnnBackendDescriptor_t device; /* NULL: the device of the handle */
} crn_dnn;

/* Use the description of a device, in JSON as cuDNN writes it. */
CAIRN_MUST cairn_status crn_dnn_describe(crn_dnn *dnn, const char *json, cairn_error *err);

/* Write at most `most` plans to `out`, best first; `*count` may be 0: cuDNN cannot do this shape.
 * CAIRN_ESYSTEM: cuDNN fails. The plans belong to the caller: crn_dnn_drop(). */
CAIRN_MUST cairn_status crn_dnn_propose(const crn_dnn *dnn, const crn_dnn_shape *shape,
                                        crn_dnn_plan *out, uint32_t most, uint32_t *count,
                                        cairn_error *err);

/* Move the best plan to the front: cuDNN's first one, except where measurements showed otherwise
 * (TF32, channels-last, on Hopper). `plans` are `count` plans in the order of crn_dnn_propose(). */
void crn_dnn_prefer(const crn_dnn_shape *shape, crn_dnn_plan *plans, uint32_t count);

/* Run on the stream of the handle; returns a status of cuDNN, 0 for success. */
int crn_dnn_run(const crn_dnn *dnn, const crn_dnn_plan *plan, const void *x, const void *w,
                const void *y, void *workspace);

void crn_dnn_drop(const crn_dnn *dnn, cudnnBackendDescriptor_t descriptor);

#endif
