/* image_ops.c: pooling and concatenation. */
#include "backend/cuda/cuda_internal.h"

/* ---- Pooling ---- */

static crn_pool_args pool_args(const crn_work *work, const crn_view *large, const crn_view *small) {
    const cairn_attributes *a = &work->call->op->attributes;
    return (crn_pool_args){CRN_WINDOW_OF(large, small, a), .places_pitch = large->channels,
                           .count_padding = (uint32_t)a->count_padding};
}

static void set_images(crn_pool_args *args, const crn_view *from, const crn_view *to) {
    args->from = from->at;
    args->from_pitch = from->pitch;
    args->to = to->at;
    args->to_pitch = to->pitch;
}

static uint32_t place_bytes(const crn_work *work, cairn_id places) {
    return crn_cuda_tensor(work, places)->dtype == CAIRN_DTYPE_U8 ? 1 : 4;
}

/* x [N, C, H, W] -> y [N, C, P, Q], places likewise */
void crn_cuda_max_pool(crn_work *work) {
    crn_view x = crn_cuda_view_in(work, 0), y = crn_cuda_view_out(work, 0);
    crn_pool_args args = pool_args(work, &x, &y);
    set_images(&args, &x, &y);
    if (crn_cuda_wants(work, 1)) {
        args.places = crn_cuda_out(work, 1);
        args.place_bytes = place_bytes(work, work->call->op->outputs[1]);
    }
    if (!work->preparing)
        crn_cuda_launch(work, crn_max_pool_launch(&args), &args);
    crn_cuda_view_done(work, 0, &y);
}

/* places, gy [N, C, P, Q] -> gx [N, C, H, W] */
void crn_cuda_max_pool_bwd(crn_work *work) {
    crn_view gy = crn_cuda_view_in(work, 1), gx = crn_cuda_view_out(work, 0);
    crn_pool_args args = pool_args(work, &gx, &gy);
    set_images(&args, &gy, &gx);
    args.places = crn_cuda_writable(crn_cuda_in(work, 0));
    args.place_bytes = place_bytes(work, work->call->op->inputs[0]);
    if (!work->preparing)
        crn_cuda_launch(work, crn_max_pool_bwd_launch(&args), &args);
    crn_cuda_view_done(work, 0, &gx);
}

static void average(crn_work *work, bool adaptive, bool backward) {
    crn_view from = crn_cuda_view_in(work, 0), to = crn_cuda_view_out(work, 0);
    crn_pool_args args = pool_args(work, backward ? &to : &from, backward ? &from : &to);
    set_images(&args, &from, &to);
    args.adaptive = adaptive;
    if (!work->preparing)
        crn_cuda_launch(
            work, backward ? crn_avg_pool_bwd_launch(&args) : crn_avg_pool_launch(&args), &args);
    crn_cuda_view_done(work, 0, &to);
}

void crn_cuda_avg_pool(crn_work *work) {
    average(work, false, false);
}

void crn_cuda_avg_pool_bwd(crn_work *work) {
    average(work, false, true);
}

void crn_cuda_adaptive_avg_pool(crn_work *work) {
    average(work, true, false);
}

void crn_cuda_adaptive_avg_pool_bwd(crn_work *work) {
    average(work, true, true);
}

/* ---- Concatenation ---- */

/* x0, x1, ... -> y along channels */
void crn_cuda_concat(crn_work *work) {
    crn_view y = crn_cuda_view_out(work, 0);
    uint32_t first = 0;
    for (uint32_t i = 0; i < work->call->op->input_count;) {
        crn_concat_args args = {
            .element = y.element, .rows = y.rows, .to_pitch = y.pitch, .to = y.at};
        for (; i < work->call->op->input_count && args.count < CRN_CONCAT_MOST; i++) {
            crn_view x = crn_cuda_view_in(work, i);
            args.sources[args.count++] = (crn_concat_source){x.at, x.channels, x.pitch, first};
            first += x.channels;
        }
        if (!work->preparing)
            crn_cuda_launch(work, crn_concat_launch(&args), &args);
    }
    crn_cuda_view_done(work, 0, &y);
}

/* gy -> gx, its channels from `index` on */
void crn_cuda_concat_bwd(crn_work *work) {
    crn_view gy = crn_cuda_view_in(work, 0), gx = crn_cuda_view_out(work, 0);
    crn_pointwise_args args = {.op = CRN_COPY,
                               .element = gx.element,
                               .rows = gx.rows,
                               .channels = gx.channels,
                               .a_pitch = gy.pitch,
                               .to_pitch = gx.pitch,
                               .to = gx.at};
    if (!work->preparing) {
        args.a = (const char *)gy.at +
                 (uint64_t)work->call->op->attributes.index * crn_cuda_size(gy.element);
        crn_cuda_launch(work, crn_pointwise_launch(&args), &args);
    }
    crn_cuda_view_done(work, 0, &gx);
}
