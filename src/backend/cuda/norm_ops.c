/* norm_ops.c: batch normalisation, alone and fused with its neighbours: the addition and the ReLU
 * after it, and the ReLU's backward and the sum of gradients before its backward. */
#include "backend/cuda/cuda_internal.h"

/* ---- Forward ---- */

static crn_norm_args forward_args(const crn_work *work, const crn_view *x, const crn_view *y) {
    const cairn_attributes *a = &work->call->op->attributes;
    return (crn_norm_args){.tiling = {.rows = x->rows, .channels = x->channels},
                           .element = x->element,
                           .x_pitch = x->pitch,
                           .y_pitch = y->pitch,
                           .epsilon = (float)a->epsilon,
                           .momentum = (float)a->momentum,
                           .keep = (float)(1 - a->momentum),
                           .x = x->at,
                           .y = y->at,
                           .gamma = crn_cuda_param(work, 0),
                           .beta = crn_cuda_param(work, 1),
                           .running_mean = crn_cuda_param(work, 2),
                           .running_var = crn_cuda_param(work, 3),
                           .tickets = crn_cuda_tickets(work)};
}

/* x -> y, stats [2, C] */
void crn_cuda_norm_with(crn_work *work, const crn_call *add, const crn_call *relu) {
    bool training = work->call->training;
    crn_view x = crn_cuda_view_in(work, 0), y = crn_cuda_view_out(work, 0);
    crn_norm_args args = forward_args(work, &x, &y);
    float *spare = crn_cuda_scratch(work, 2 * (uint64_t)x.channels * sizeof(float));
    args.partial = crn_cuda_scratch(work, crn_norm_workspace(&args));
    if (work->preparing)
        return;
    args.stats = crn_cuda_out(work, 1) != NULL ? crn_cuda_out(work, 1) : spare;
    args.flags = !training ? CRN_NORM_RUNNING : work->call->again ? 0 : CRN_NORM_MOVE;
    if (add != NULL) { /* add the operand of the sum that is not y */
        args.flags |= CRN_NORM_ADD;
        args.added = add->inputs[0] == y.at ? add->inputs[1] : add->inputs[0];
        args.added_pitch = y.pitch;
        args.y = add->outputs[0];
    }
    if (relu != NULL) {
        args.flags |= CRN_NORM_RELU;
        args.y = relu->outputs[0];
    }
    args.kept = work->kept;
    bool known = work->kept != NULL && work->call->again;
    if (known) {
        args.flags |= CRN_NORM_KEPT;
        crn_cuda_launch(work, crn_norm_apply_launch(&args), &args);
    } else if (training && crn_norm_is_whole(&args)) {
        crn_cuda_launch(work, crn_norm_whole_launch(&args), &args);
    } else {
        if (training)
            crn_cuda_launch(work, crn_norm_statistics_launch(&args), &args);
        else
            crn_cuda_launch(work, crn_norm_running_launch(&args), &args);
        crn_cuda_launch(work, crn_norm_apply_launch(&args), &args);
    }
    crn_cuda_view_done(work, 0, &y);
}

void crn_cuda_batch_norm(crn_work *work) {
    crn_cuda_norm_with(work, NULL, NULL);
}

/* ---- Backward ---- */

/* x, stats [2, C], gy -> gx, gradients of gamma and beta [C]. With `relu`, gy is the output of that
 * relu_bwd, made from y and its gradient; with `accumulate`, that gradient is the sum of two. `sum`
 * adds another tensor to gx. */
void crn_cuda_norm_bwd_with(crn_work *work, const crn_call *accumulate, const crn_call *relu,
                            const crn_call *sum) {
    crn_view x = crn_cuda_view_in(work, 0), gy = crn_cuda_view_in(work, 2), gx = x;
    bool wanted = crn_cuda_wants(work, 0);
    if (wanted)
        gx = crn_cuda_view_out(work, 0);
    crn_norm_bwd_args args = {.tiling = {.rows = x.rows, .channels = x.channels},
                              .element = x.element,
                              .fixed = !work->call->training,
                              .x_pitch = x.pitch,
                              .gy_pitch = gy.pitch,
                              .gy2_pitch = gy.pitch,
                              .y_pitch = gy.pitch,
                              .masked_pitch = gy.pitch,
                              .gx_pitch = gx.pitch,
                              .x = x.at,
                              .gy = gy.at,
                              .gx = gx.at,
                              .gamma = crn_cuda_param(work, 0),
                              .stats = crn_cuda_in(work, 1),
                              .ggamma = crn_cuda_out(work, 1),
                              .gbeta = crn_cuda_out(work, 2),
                              .tickets = crn_cuda_tickets(work)};
    args.sums = crn_cuda_scratch(work, 2 * (uint64_t)x.channels * sizeof(float));
    args.partial = crn_cuda_scratch(work, crn_norm_bwd_workspace(&args));
    if (relu != NULL) {
        args.mask = CRN_MASK_Y;
        args.y = relu->inputs[0];
        args.gy = relu->inputs[1];
        args.masked = relu->outputs[0];
        if (work->beta != NULL) {
            args.mask = CRN_MASK_X;
            args.beta = work->beta;
            args.masked = NULL;
        }
        if (accumulate != NULL) {
            args.gy = accumulate->inputs[0];
            args.gy2 = accumulate->inputs[1];
        }
    }
    if (sum != NULL) { /* add the operand of the sum that is not gx */
        args.other = sum->inputs[0] == gx.at ? sum->inputs[1] : sum->inputs[0];
        args.other_pitch = gx.pitch;
        args.gx = sum->outputs[0];
    }
    if (!work->preparing && wanted && crn_norm_bwd_is_whole(&args)) {
        crn_cuda_launch(work, crn_norm_bwd_whole_launch(&args), &args);
    } else if (!work->preparing) {
        crn_cuda_launch(work, crn_norm_reduce_launch(&args), &args);
        if (wanted)
            crn_cuda_launch(work, crn_norm_spread_launch(&args), &args);
    }
    if (wanted)
        crn_cuda_view_done(work, 0, &gx);
}

void crn_cuda_batch_norm_bwd(crn_work *work) {
    crn_cuda_norm_bwd_with(work, NULL, NULL, NULL);
}
