/* pointwise_ops.c: ops on each element by itself, ops that only copy elements, and the loss. */
#include "backend/cuda/cuda_internal.h"

/* ---- Element by element; operands have the same format, so their layout does not matter ---- */

/* A gate is an op of the kernel `gate`, others are of the kernel `pointwise`. */
#define GATE 0x100u

static void launch(crn_work *work, crn_pointwise_args *args) {
    bool gate = (args->op & GATE) != 0;
    args->op &= ~GATE;
    if (!work->preparing)
        crn_cuda_launch(work, gate ? crn_gate_launch(args) : crn_pointwise_launch(args), args);
}

/* Run on one row of all stored elements. */
static void run_pointwise(crn_work *work, uint32_t op, const void *a, const void *b, const void *c,
                          void *to) {
    uint32_t count = (uint32_t)crn_cuda_elements(work, work->call->op->outputs[0]);
    crn_site site = crn_site_of(work->call);
    crn_pointwise_args args = {.op = op,
                               .element = crn_cuda_element(&site),
                               .rows = 1,
                               .channels = count,
                               .a_pitch = count,
                               .b_pitch = count,
                               .c_pitch = count,
                               .to_pitch = count,
                               .a = a,
                               .b = b,
                               .c = c,
                               .to = to};
    launch(work, &args);
}

static bool are_alike(const crn_work *work, cairn_id a, cairn_id b) {
    const crn_storage *s = work->call->storage;
    return s[a].format == s[b].format && s[a].block == s[b].block && s[a].type == s[b].type;
}

/* Operands with different formats are converted to images. */
static void run_images(crn_work *work, uint32_t op) {
    const cairn_op *at = work->call->op;
    crn_view a = crn_cuda_view_in(work, 0), b = a, to;
    if (at->input_count > 1)
        b = crn_cuda_view_in(work, 1);
    to = crn_cuda_view_out(work, 0);
    crn_pointwise_args args = {.op = op,
                               .element = to.element,
                               .rows = to.rows,
                               .channels = to.channels,
                               .a_pitch = a.pitch,
                               .b_pitch = b.pitch,
                               .to_pitch = to.pitch,
                               .a = a.at,
                               .b = b.at,
                               .to = to.at};
    launch(work, &args);
    crn_cuda_view_done(work, 0, &to);
}

static void pointwise(crn_work *work, uint32_t op, void *to) {
    const cairn_op *at = work->call->op;
    bool alike = true;
    for (uint32_t i = 0; i < at->input_count; i++)
        alike = alike && are_alike(work, at->inputs[i], at->outputs[0]);
    if (alike)
        run_pointwise(work, op, crn_cuda_in(work, 0),
                      at->input_count > 1 ? crn_cuda_in(work, 1) : NULL, NULL, to);
    else
        run_images(work, op);
}

void crn_cuda_relu(crn_work *work) {
    pointwise(work, CRN_RELU, crn_cuda_out(work, 0));
}

/* y, gy -> gx */
void crn_cuda_relu_bwd(crn_work *work) {
    pointwise(work, CRN_RELU_BWD, crn_cuda_out(work, 0));
}

/* The gradient is the sum that `accumulate` would have made; all lie alike. */
void crn_cuda_relu_bwd_with(crn_work *work, const crn_call *accumulate) {
    run_pointwise(work, CRN_RELU_BWD_ADD, crn_cuda_in(work, 0), accumulate->inputs[0],
                  accumulate->inputs[1], crn_cuda_out(work, 0));
}

/* a, b -> a + b */
void crn_cuda_add(crn_work *work) {
    pointwise(work, CRN_ADD, crn_cuda_out(work, 0));
}

void crn_cuda_pointwise_with(crn_work *work, const crn_call *relu) {
    if (relu != NULL)
        pointwise(work, CRN_ADD_RELU, relu->outputs[0]);
    else
        pointwise(work, CRN_ADD, crn_cuda_out(work, 0));
}

/* x -> y */
void crn_cuda_gelu(crn_work *work) {
    bool tanh = work->call->op->attributes.tanh != 0;
    pointwise(work, GATE | (tanh ? CRN_GELU_TANH : CRN_GELU), crn_cuda_out(work, 0));
}

/* x, gy -> gx */
void crn_cuda_gelu_bwd(crn_work *work) {
    bool tanh = work->call->op->attributes.tanh != 0;
    pointwise(work, GATE | (tanh ? CRN_GELU_TANH_BWD : CRN_GELU_BWD), crn_cuda_out(work, 0));
}

void crn_cuda_silu(crn_work *work) {
    pointwise(work, GATE | CRN_SILU, crn_cuda_out(work, 0));
}

void crn_cuda_silu_bwd(crn_work *work) {
    pointwise(work, GATE | CRN_SILU_BWD, crn_cuda_out(work, 0));
}

/* a, b -> a * b */
void crn_cuda_multiply_op(crn_work *work) {
    pointwise(work, GATE | CRN_MULTIPLY, crn_cuda_out(work, 0));
}

/* One gradient of a product: output `index` = inputs[other] * gy */
static void multiply_gradient(crn_work *work, uint32_t index, uint32_t other) {
    if (!crn_cuda_wants(work, index))
        return;
    const crn_call *call = work->call;
    cairn_op op = *call->op;
    const cairn_id inputs[] = {op.inputs[other], op.inputs[2]}, outputs[] = {op.outputs[index]};
    const void *from[] = {crn_cuda_in(work, other), crn_cuda_in(work, 2)};
    void *to[] = {crn_cuda_out(work, index)};
    crn_call one = *call;
    op.inputs = inputs;
    op.outputs = outputs;
    op.input_count = 2;
    op.output_count = 1;
    one.op = &op;
    one.inputs = from;
    one.outputs = to;
    work->call = &one;
    pointwise(work, GATE | CRN_MULTIPLY, to[0]);
    work->call = call;
}

/* a, b, gy -> ga, gb; ga, which may be in place of gy, comes last */
void crn_cuda_multiply_bwd(crn_work *work) {
    multiply_gradient(work, 1, 0);
    multiply_gradient(work, 0, 1);
}

/* x -> y = x * mask / (1 - p), and likewise gy -> gx; without training y = x */
void crn_cuda_dropout(crn_work *work) {
    const crn_call *call = work->call;
    if (!work->preparing && !call->training) {
        if (call->outputs[0] != call->inputs[0])
            pointwise(work, CRN_COPY, call->outputs[0]);
        return;
    }
    double p = call->op->attributes.probability;
    crn_view x = crn_cuda_view_in(work, 0), y = crn_cuda_view_out(work, 0);
    crn_dropout_args args = {.op = call->op->of != CAIRN_NONE ? call->op->of : call->op_id,
                             .element = x.element,
                             .batch = x.batch,
                             .channels = x.channels,
                             .plane = x.plane,
                             .x_pitch = x.pitch,
                             .y_pitch = y.pitch,
                             .scale = (float)(1.0 / (1.0 - p)),
                             .threshold = (uint64_t)(p * 4294967296.0),
                             .x = x.at,
                             .y = y.at,
                             .values = (const crn_step_values *)(const void *)call->values};
    if (!work->preparing)
        crn_cuda_launch(work, crn_dropout_launch(&args), &args);
    crn_cuda_view_done(work, 0, &y);
}

/* ---- Copying ---- */

/* An alias has the same address, so there is nothing to do. */
void crn_cuda_flatten(crn_work *work) {
    (void)work;
}

/* x [D, ...] -> y = x[index] */
void crn_cuda_select(crn_work *work) {
    float *x = crn_cuda_plain_in(work, 0), *y = crn_cuda_plain_out(work, 0);
    uint64_t count = crn_cuda_tensor(work, work->call->op->outputs[0])->bytes / sizeof(float);
    if (!work->preparing) {
        crn_place_args args = {.all = count,
                               .count = count,
                               .from = x + (uint64_t)work->call->op->attributes.index * count,
                               .to = y};
        crn_cuda_launch(work, crn_place_launch(&args), &args);
    }
    crn_cuda_plain_done(work, 0, y);
}

/* gy -> gx [D, ...], zero outside gx[index] */
void crn_cuda_select_bwd(crn_work *work) {
    float *gy = crn_cuda_plain_in(work, 0), *gx = crn_cuda_plain_out(work, 0);
    uint64_t count = crn_cuda_tensor(work, work->call->op->inputs[0])->bytes / sizeof(float);
    crn_place_args args = {.all = crn_cuda_tensor(work, work->call->op->outputs[0])->bytes /
                                  sizeof(float),
                           .first = (uint64_t)work->call->op->attributes.index * count,
                           .count = count,
                           .from = gy,
                           .to = gx};
    if (!work->preparing)
        crn_cuda_launch(work, crn_place_launch(&args), &args);
    crn_cuda_plain_done(work, 0, gx);
}

/* ---- Loss ---- */

static crn_loss_args loss_args(const crn_work *work) {
    const cairn_tensor *t = crn_cuda_tensor(work, work->call->op->inputs[0]);
    uint32_t pixels = 1;
    for (uint32_t i = 2; i < t->rank; i++)
        pixels *= t->shape[i];
    return (crn_loss_args){.batch = t->shape[0],
                           .classes = t->shape[1],
                           .pixels = pixels,
                           .smoothing = (float)work->call->op->attributes.smoothing,
                           .labels = crn_cuda_in(work, 1),
                           .tickets = crn_cuda_tickets(work)};
}

/* logits [N, C, S], labels [N, S] -> loss [1], probabilities [N, C, S] */
void crn_cuda_cross_entropy(crn_work *work) {
    crn_loss_args args = loss_args(work);
    bool wanted = crn_cuda_wants(work, 1);
    args.logits = crn_cuda_plain_in(work, 0);
    args.probabilities = wanted ? crn_cuda_plain_out(work, 1) : NULL;
    args.loss = crn_cuda_out(work, 0);
    args.partial = crn_cuda_scratch(work, crn_loss_workspace(&args));
    if (!work->preparing)
        crn_cuda_launch(work, crn_cross_entropy_launch(&args), &args);
    if (wanted)
        crn_cuda_plain_done(work, 1, args.probabilities);
}

/* probabilities [N, C, S], labels [N, S] -> gradient of the logits */
void crn_cuda_cross_entropy_bwd(crn_work *work) {
    crn_loss_args args = loss_args(work);
    args.probabilities = crn_cuda_plain_in(work, 0);
    args.gradient = crn_cuda_plain_out(work, 0);
    if (!work->preparing)
        crn_cuda_launch(work, crn_cross_entropy_bwd_launch(&args), &args);
    crn_cuda_plain_done(work, 0, args.gradient);
}

/* Count with the probabilities, or with the logits if there are none. */
void crn_cuda_count_hits(crn_work *work, uint64_t *correct) {
    const crn_call *call = work->call;
    if (call->op->kind == CAIRN_OP_TOKEN_CROSS_ENTROPY) {
        crn_cuda_count_token_hits(work, correct);
        return;
    }
    crn_loss_args args = loss_args(work);
    crn_call seen = *call;
    if (crn_cuda_wants(work, 1)) { /* use them like the logits */
        cairn_op op = *call->op;
        const cairn_id inputs[] = {op.outputs[1], op.inputs[1]};
        const void *addresses[] = {call->outputs[1], call->inputs[1]};
        op.inputs = inputs;
        seen.op = &op;
        seen.inputs = addresses;
        work->call = &seen;
        args.probabilities = crn_cuda_plain_in(work, 0);
        work->call = call;
    } else {
        args.probabilities = crn_cuda_plain_in(work, 0);
    }
    args.correct = correct;
    args.partial = crn_cuda_scratch(work, crn_loss_workspace(&args));
    crn_cuda_launch(work, crn_count_correct_launch(&args), &args);
}
