/* row_comparisons.h: the kernels for rows against `ref`: products, cells, the loss. */
#ifndef ROW_COMPARISONS_H
#define ROW_COMPARISONS_H

#include "cuda/kernel_comparison.h"

/* ---- Products ---- */

/* z [n, rows] (+)= x [n, features] weight' (+ bias); z, weight and bias are floats */
static void product(comparison *at, float *z, const void *x, const float *weight, uint32_t n,
                    uint32_t rows, uint32_t features, const float *bias, bool add) {
    crn_matmul_args args = {.m = n,
                            .n = rows,
                            .k = features,
                            .batch = 1,
                            .add = add,
                            .a = {(void *)x, features, 1, 0, at->k.element},
                            .b = {(void *)weight, 1, features, 0, CRN_ELEMENT_F32},
                            .c = {z, rows, 1, 0, CRN_ELEMENT_F32},
                            .bias = bias};
    kernel_rig_run(&at->k, crn_matmul_launch(&args), &args);
}

/* gx [n, features] = sum over gates of gradient [g, n, hidden] weight [g*hidden, features] */
static void product_data(comparison *at, const void *gradient, const float *weight, float *gx,
                         uint32_t gates, uint32_t n, uint32_t hidden, uint32_t features) {
    for (uint32_t gate = 0; gate < gates; gate++) {
        size_t first = (size_t)gate * n * hidden * kernel_rig_element(&at->k);
        crn_matmul_args args = {.m = n,
                                .n = features,
                                .k = hidden,
                                .batch = 1,
                                .add = gate > 0,
                                .a = {(char *)gradient + first, hidden, 1, 0, at->k.element},
                                .b = {(void *)(weight + (size_t)gate * hidden * features), features,
                                      1, 0, CRN_ELEMENT_F32},
                                .c = {gx, features, 1, 0, CRN_ELEMENT_F32}};
        kernel_rig_run(&at->k, crn_matmul_launch(&args), &args);
    }
}

/* weight [g*hidden, features] = gradient' [g, n, hidden] x [n, features], all gates at once */
static void product_weight(comparison *at, const void *gradient, const void *x, float *weight,
                           uint32_t gates, uint32_t n, uint32_t hidden, uint32_t features) {
    crn_matmul_args args = {
        .m = hidden,
        .n = features,
        .k = n,
        .batch = gates,
        .a = {(void *)gradient, 1, hidden, (uint64_t)n * hidden, at->k.element},
        .b = {(void *)x, features, 1, 0, at->k.element},
        .c = {weight, features, 1, (uint64_t)hidden * features, CRN_ELEMENT_F32}};
    kernel_rig_run(&at->k, crn_matmul_launch(&args), &args);
}

static uint32_t rows_of(const cairn_tensor *tensor) {
    return (uint32_t)(fill_count(tensor) / tensor->shape[tensor->rank - 1]);
}

static void linear(comparison *at, const cairn_op *op) {
    const cairn_tensor *x = tensor_of(at, op->inputs[0]), *w = tensor_of(at, op->params[0]);
    float *y = empty(at, op->outputs[0], 4);
    product(at, y, plain(at, op->inputs[0]), floats(at, op->params[0]), rows_of(x), w->shape[0],
            w->shape[1], op->param_count > 1 ? floats(at, op->params[1]) : NULL, false);
    compare_floats(at, y, op->outputs[0], F32_TOLERANCE);
}

static void linear_bwd_data(comparison *at, const cairn_op *op) {
    const cairn_tensor *gy = tensor_of(at, op->inputs[0]), *w = tensor_of(at, op->params[0]);
    float *gx = empty(at, op->outputs[0], 4);
    product_data(at, plain(at, op->inputs[0]), floats(at, op->params[0]), gx, 1, rows_of(gy),
                 w->shape[0], w->shape[1]);
    compare_floats(at, gx, op->outputs[0], F32_TOLERANCE);
}

static void linear_bwd_weight(comparison *at, const cairn_op *op) {
    const cairn_tensor *x = tensor_of(at, op->inputs[0]), *gy = tensor_of(at, op->inputs[1]);
    if (!wanted(op, 0))
        return;
    float *weight = empty(at, op->outputs[0], 4);
    product_weight(at, plain(at, op->inputs[1]), plain(at, op->inputs[0]), weight, 1, rows_of(x),
                   gy->shape[gy->rank - 1], x->shape[x->rank - 1]);
    compare_floats(at, weight, op->outputs[0], F32_TOLERANCE);
}

/* ---- Cells ---- */

static void cell(comparison *at, const cairn_op *op, uint32_t gates) {
    const cairn_tensor *x = tensor_of(at, op->inputs[0]), *w = tensor_of(at, op->params[1]);
    uint32_t batch = x->shape[0], hidden = w->shape[1];
    size_t half = (size_t)batch * hidden * kernel_rig_element(&at->k);
    const void *old = plain(at, op->inputs[1]);
    void *made = empty(at, op->outputs[0], kernel_rig_element(&at->k));
    crn_cell_args args = {.element = at->k.element,
                          .batch = batch,
                          .hidden = hidden,
                          .b_ih = floats(at, op->params[2]),
                          .b_hh = floats(at, op->params[3]),
                          .c = (const char *)old + half,
                          .new_h = made,
                          .new_c = (char *)made + half};
    float *z = kernel_rig_make(&at->k, (size_t)batch * gates * hidden * 4);
    float *z2 = kernel_rig_make(&at->k, (size_t)batch * gates * hidden * 4);
    bool one = at->k.extra % 2 == 0;
    product(at, z, plain(at, op->inputs[0]), floats(at, op->params[0]), batch, gates * hidden,
            x->shape[1], NULL, false);
    product(at, one ? z : z2, old, floats(at, op->params[1]), batch, gates * hidden, hidden, NULL,
            one);
    args.z = z;
    args.z2 = one ? NULL : z2;
    if (gates == 1) {
        kernel_rig_run(&at->k, crn_rnn_cell_launch(&args), &args);
    } else {
        args.values = wanted(op, 1) ? empty(at, op->outputs[1], kernel_rig_element(&at->k)) : NULL;
        kernel_rig_run(&at->k, crn_lstm_cell_launch(&args), &args);
        if (args.values != NULL)
            compare_plain(at, args.values, op->outputs[1], false);
    }
    compare_plain(at, made, op->outputs[0], false);
}

static void cell_bwd(comparison *at, const cairn_op *op, uint32_t gates) {
    const cairn_tensor *w_ih = tensor_of(at, op->params[0]), *w = tensor_of(at, op->params[1]);
    const cairn_tensor *state = tensor_of(at, op->inputs[0]);
    uint32_t batch = state->shape[gates == 1 ? 0 : 1], hidden = w->shape[1];
    size_t half = (size_t)batch * hidden, bytes = half * kernel_rig_element(&at->k);
    crn_cell_args args = {.element = at->k.element, .batch = batch, .hidden = hidden};
    args.before = empty(at, op->outputs[0], kernel_rig_element(&at->k));
    float *gh = kernel_rig_make(&at->k, half * 4);
    void *old_gc = kernel_rig_make(&at->k, bytes);
    if (gates == 1) {
        args.new_h = plain(at, op->inputs[0]);
        args.gh = plain(at, op->inputs[1]);
        kernel_rig_run(&at->k, crn_rnn_cell_bwd_launch(&args), &args);
    } else {
        args.c = (char *)plain(at, op->inputs[0]) + bytes;
        args.new_c = (char *)plain(at, op->inputs[1]) + bytes;
        args.values = plain(at, op->inputs[2]);
        args.gh = plain(at, op->inputs[3]);
        args.gc = (const char *)args.gh + bytes;
        args.old_gc = old_gc;
        kernel_rig_run(&at->k, crn_lstm_cell_bwd_launch(&args), &args);
    }
    compare_plain(at, args.before, op->outputs[0], false);
    product_data(at, args.before, floats(at, op->params[1]), gh, gates, batch, hidden, hidden);
    if (wanted(op, 1))
        CHECK(kernel_rig_equal(gh, at->ref.place[op->outputs[1]], half, tolerance_of(at, false),
                               "gh"));
    if (wanted(op, 1) && gates == 4 && at->k.element == CRN_ELEMENT_F32)
        CHECK(kernel_rig_equal(old_gc, (float *)at->ref.place[op->outputs[1]] + half, half,
                               F32_TOLERANCE, "gc"));
    if (!wanted(op, 2))
        return;
    float *gx = empty(at, op->outputs[2], 4);
    product_data(at, args.before, floats(at, op->params[0]), gx, gates, batch, hidden,
                 w_ih->shape[1]);
    compare_floats(at, gx, op->outputs[2], tolerance_of(at, false));
}

static void cell_bwd_weight(comparison *at, const cairn_op *op) {
    const cairn_tensor *x = tensor_of(at, op->inputs[0]), *before = tensor_of(at, op->inputs[2]);
    uint32_t gates = before->rank == 3 ? before->shape[0] : 1, batch = x->shape[0];
    uint32_t hidden = before->shape[before->rank - 1];
    const void *gradient = plain(at, op->inputs[2]);
    for (uint32_t i = 0; i < 2; i++) {
        if (!wanted(op, i))
            continue;
        float *weight = empty(at, op->outputs[i], 4);
        product_weight(at, gradient, plain(at, op->inputs[i]), weight, gates, batch, hidden,
                       i == 0 ? x->shape[1] : hidden);
        compare_floats(at, weight, op->outputs[i], F32_TOLERANCE);
    }
}

/* ---- Loss ---- */

static crn_loss_args loss_of(comparison *at, const cairn_op *op) {
    const cairn_tensor *logits = tensor_of(at, op->inputs[0]);
    crn_loss_args args = {.element = at->k.element,
                          .batch = logits->shape[0],
                          .classes = logits->shape[1],
                          .pixels = plane_of(logits),
                          .smoothing = (float)op->attributes.smoothing,
                          .labels = floats(at, op->inputs[1]),
                          .tickets = kernel_rig_tickets(&at->k)};
    args.partial = kernel_rig_make(&at->k, crn_loss_workspace(&args));
    return args;
}

/* As processor_results.c counts. */
static uint64_t count_by_hand(const crn_loss_args *a, const float *p) {
    uint64_t correct = 0;
    for (size_t i = 0; i < (size_t)a->batch * a->pixels; i++) {
        const float *first = p + i / a->pixels * a->classes * a->pixels + i % a->pixels;
        uint32_t best = 0;
        for (uint32_t c = 1; c < a->classes; c++)
            if (first[c * a->pixels] > first[best * a->pixels])
                best = c;
        correct += a->labels[i] == (int32_t)best;
    }
    return correct;
}

static void cross_entropy(comparison *at, const cairn_op *op) {
    crn_loss_args args = loss_of(at, op);
    args.logits = plain(at, op->inputs[0]);
    args.loss = kernel_rig_make(&at->k, 4);
    args.probabilities = empty(at, op->outputs[1], kernel_rig_element(&at->k));
    kernel_rig_run(&at->k, crn_cross_entropy_launch(&args), &args);
    compare_floats(at, args.loss, op->outputs[0], F32_TOLERANCE);
    compare_plain(at, args.probabilities, op->outputs[1], false);
    uint64_t *correct = kernel_rig_make(&at->k, sizeof *correct);
    *correct = 7;
    args.correct = correct;
    args.probabilities = plain(at, op->outputs[1]);
    kernel_rig_run(&at->k, crn_count_correct_launch(&args), &args);
    if (at->k.element == CRN_ELEMENT_F32)
        CHECK_U64(*correct, 7 + count_by_hand(&args, at->ref.place[op->outputs[1]]));
}

static void cross_entropy_bwd(comparison *at, const cairn_op *op) {
    crn_loss_args args = loss_of(at, op);
    args.probabilities = plain(at, op->inputs[0]);
    args.gradient = empty(at, op->outputs[0], kernel_rig_element(&at->k));
    kernel_rig_run(&at->k, crn_cross_entropy_bwd_launch(&args), &args);
    compare_plain(at, args.gradient, op->outputs[0], false);
}

#endif
