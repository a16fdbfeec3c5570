/* ref_pointwise.c: ops that treat each element by itself, and ops that only move elements.
 *
 * Pointwise loops run over chunks of a fixed length. Each element is read before it is written, so
 * the result may be in place of any operand. */
#include "backend/ref/ref_kernels.h"
#include "backend/dropout_mask.h"

#include <assert.h>

/* ---- pointwise ---- */

#define CHUNK 16384u

typedef struct pointwise {
    const float *a, *b;
    float *to;
    size_t count;
    crn_dropout_mask mask;
} pointwise;

static size_t chunk_end(const pointwise *at, uint32_t chunk) {
    return CRN_MIN(at->count, ((size_t)chunk + 1) * CHUNK);
}

static void for_chunks(const crn_call *call, pointwise *at, void (*body)(void *, uint32_t)) {
    crn_team_for(call->threads, (uint32_t)((at->count + CHUNK - 1) / CHUNK), body, at);
}

/* Two operands of one shape. */
static void for_pairs(const crn_call *call, void (*body)(void *, uint32_t)) {
    pointwise at = {.a = call->inputs[0],
                    .b = call->inputs[1],
                    .to = call->outputs[0],
                    .count = crn_ref_elements(crn_ref_input(call, 0))};
    for_chunks(call, &at, body);
}

/* Not "x > 0 ? x : 0", so that a NaN stays a NaN, as in PyTorch. */
static void relu_chunk(void *context, uint32_t chunk) {
    const pointwise *at = context;
    for (size_t i = (size_t)chunk * CHUNK; i < chunk_end(at, chunk); i++)
        at->to[i] = at->a[i] <= 0 ? 0 : at->a[i];
}

/* x -> y */
void crn_ref_relu(const crn_call *call) {
    pointwise at = {.a = call->inputs[0],
                    .to = call->outputs[0],
                    .count = crn_ref_elements(crn_ref_input(call, 0))};
    for_chunks(call, &at, relu_chunk);
}

static void relu_bwd_chunk(void *context, uint32_t chunk) {
    const pointwise *at = context;
    for (size_t i = (size_t)chunk * CHUNK; i < chunk_end(at, chunk); i++)
        at->to[i] = at->a[i] <= 0 ? 0 : at->b[i];
}

/* y, gy -> gx */
void crn_ref_relu_bwd(const crn_call *call) {
    for_pairs(call, relu_bwd_chunk);
}

static void add_chunk(void *context, uint32_t chunk) {
    const pointwise *at = context;
    for (size_t i = (size_t)chunk * CHUNK; i < chunk_end(at, chunk); i++)
        at->to[i] = at->a[i] + at->b[i];
}

/* a, b -> a + b; add and accumulate */
void crn_ref_add(const crn_call *call) {
    for_pairs(call, add_chunk);
}

static void dropout_chunk(void *context, uint32_t chunk) {
    const pointwise *at = context;
    for (size_t i = (size_t)chunk * CHUNK; i < chunk_end(at, chunk); i++)
        at->to[i] = at->a[i] * crn_dropout_factor(&at->mask, i);
}

/* x -> y = x * mask / (1 - p), and likewise gy -> gx; without training y = x */
void crn_ref_dropout(const crn_call *call) {
    pointwise at = {.a = call->inputs[0],
                    .to = call->outputs[0],
                    .count = crn_ref_elements(crn_ref_input(call, 0)),
                    .mask = crn_dropout_mask_of(call)};
    if (call->training)
        for_chunks(call, &at, dropout_chunk);
    else if (at.to != at.a)
        memcpy(at.to, at.a, at.count * sizeof(float));
}

/* ---- moving ---- */

typedef struct moving {
    const crn_call *call;
    const cairn_tensor *large; /* the concatenation: [N, C, H, W] */
} moving;

/* The start of channel `first` of image n, in a tensor of `all` channels. */
static size_t planes_at(const moving *at, size_t n, size_t all, size_t first) {
    return (n * all + first) * crn_ref_size(at->large, 2, 4);
}

static void concat_image(void *context, uint32_t n) {
    const moving *at = context;
    const crn_call *call = at->call;
    size_t first = 0;
    for (uint32_t i = 0; i < call->op->input_count; i++) {
        size_t channels = crn_ref_input(call, i)->shape[1];
        memcpy((float *)call->outputs[0] + planes_at(at, n, at->large->shape[1], first),
               (const float *)call->inputs[i] + planes_at(at, n, channels, 0),
               planes_at(at, 0, 0, channels) * sizeof(float));
        first += channels;
    }
}

/* x0 [N, C0, H, W], x1 [N, C1, H, W], ... -> y [N, C0 + C1 + ..., H, W] */
void crn_ref_concat(const crn_call *call) {
    moving at = {call, crn_ref_output(call, 0)};
    crn_team_for(call->threads, at.large->shape[0], concat_image, &at);
}

static void crop_image(void *context, uint32_t n) {
    const moving *at = context;
    const crn_call *call = at->call;
    size_t channels = crn_ref_output(call, 0)->shape[1];
    size_t first = (size_t)call->op->attributes.index;
    memcpy((float *)call->outputs[0] + planes_at(at, n, channels, 0),
           (const float *)call->inputs[0] + planes_at(at, n, at->large->shape[1], first),
           planes_at(at, 0, 0, channels) * sizeof(float));
}

/* gy [N, C, H, W] -> gx [N, Ci, H, W], the channels from `index` on */
void crn_ref_concat_bwd(const crn_call *call) {
    moving at = {call, crn_ref_input(call, 0)};
    crn_team_for(call->threads, at.large->shape[0], crop_image, &at);
}

/* x -> y, an alias: the same address, so there is nothing to do. Its backward is the same. */
void crn_ref_flatten(const crn_call *call) {
    assert(call->outputs[0] == call->inputs[0]);
    (void)call;
}

/* x [D, ...] -> y = x[index] */
void crn_ref_select(const crn_call *call) {
    size_t count = crn_ref_elements(crn_ref_output(call, 0));
    size_t first = (size_t)call->op->attributes.index * count;
    memcpy(call->outputs[0], (const float *)call->inputs[0] + first, count * sizeof(float));
}

/* gy -> gx [D, ...], zero outside gx[index] */
void crn_ref_select_bwd(const crn_call *call) {
    size_t count = crn_ref_elements(crn_ref_input(call, 0));
    size_t first = (size_t)call->op->attributes.index * count;
    float *gx = call->outputs[0];
    memset(gx, 0, crn_ref_elements(crn_ref_output(call, 0)) * sizeof(float));
    memcpy(gx + first, call->inputs[0], count * sizeof(float));
}
