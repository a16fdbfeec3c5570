/* cpu_pointwise.c: ops that treat each element by itself, and ops that move channels. Pointwise ops
 * work with any storage format if all operands have the same; channels that fill up a block stay
 * zero. */
#include "backend/cpu/cpu_elements.h"
#include "backend/dropout_mask.h"

/* ---- pointwise ---- */

/* Not "x > 0 ? x : 0", so that a NaN stays a NaN. */
CRN_IN_LOOP float passed(float y, float through) {
    return y <= 0 ? 0 : through;
}

CRN_ELEMENTS_CHUNK(relu_chunk, passed(a[k], a[k]))
CRN_ELEMENTS_CHUNK(relu_bwd_chunk, passed(a[k], b[k]))
CRN_ELEMENTS_CHUNK(add_chunk, a[k] + b[k])

/* x -> y */
void crn_cpu_relu(const crn_call *call) {
    crn_run_elements(call, relu_chunk);
}

/* y, gy -> gx */
void crn_cpu_relu_bwd(const crn_call *call) {
    crn_run_elements(call, relu_bwd_chunk);
}

/* a, b -> a + b; add and accumulate */
void crn_cpu_add(const crn_call *call) {
    crn_run_elements(call, add_chunk);
}

/* ---- dropout ---- */

typedef struct dropping {
    crn_reals from, to;
    size_t count;
    crn_image image; /* if it is in blocks */
    crn_dropout_mask mask;
} dropping;

static void drop_chunk(void *context, uint32_t chunk) {
    const dropping *at = context;
    CRN_FOR_STEPS(at, chunk, i, length) {
        float room[CRN_STEP], value[CRN_STEP];
        const float *x = crn_reals_load(at->from, i, length, room);
        for (size_t k = 0; k < length; k++)
            value[k] = x[k] * crn_dropout_factor(&at->mask, i + k);
        crn_reals_store(at->to, i, length, value);
    }
}

/* The mask depends on the place of the element in plain layout. */
static void drop_block(void *context, uint32_t index) {
    const dropping *at = context;
    const crn_image *image = &at->image;
    size_t n = index / image->blocks, channel = index % image->blocks * image->block;
    size_t begin = index * image->plane * image->block;
    const float *from = at->from.at;
    float *to = at->to.at;
    for (size_t i = 0; i < image->plane; i++)
        for (size_t l = 0; l < image->block; l++) {
            size_t element = ((n * image->channels) + channel + l) * image->plane + i;
            float factor = crn_dropout_factor(&at->mask, element);
            size_t k = begin + i * image->block + l;
            to[k] = channel + l < image->channels ? from[k] * factor : 0;
        }
}

/* x -> y = x * mask / (1 - p), and likewise gy -> gx; without training y = x */
void crn_cpu_dropout(const crn_call *call) {
    cairn_id tensor = call->op->inputs[0];
    crn_elements all = crn_elements_of(call);
    dropping at = {
        .from = all.a, .to = all.to, .count = all.count, .mask = crn_dropout_mask_of(call)};
    if (call->training && call->storage[tensor].block == 1) {
        crn_for_chunks(call, &at, at.count, drop_chunk);
    } else if (call->training) {
        at.image = crn_image_of(call, tensor);
        crn_team_for(call->threads, crn_image_blocks(&at.image), drop_block, &at);
    } else if (at.to.at != at.from.at) {
        memcpy(at.to.at, at.from.at, call->storage[tensor].bytes);
    }
}

/* ---- moving channels ---- */

/* Copy planes of channels from one image to another; they may start inside a block. */
typedef struct moving {
    const float *from;
    float *to;
    crn_image source, target;
    size_t from_channel, to_channel, channels;
} moving;

/* Copy the channels of one block of the target that come from this source. */
static void move_lanes(const moving *at, const float *from, float *to, size_t channel, size_t end) {
    size_t block = at->target.block, plane = at->target.plane;
    for (; channel < end; channel++) {
        size_t source = channel - at->to_channel + at->from_channel;
        const float *x = from + source / block * plane * block + source % block;
        float *y = to + channel / block * plane * block + channel % block;
        for (size_t i = 0; i < plane; i++)
            y[i * block] = x[i * block];
    }
}

static void move_image(const moving *at, size_t n) {
    size_t block = at->target.block, plane = at->target.plane;
    const float *from = at->from + n * at->source.blocks * plane * block;
    float *to = at->to + n * at->target.blocks * plane * block;
    size_t first = at->to_channel, end = first + at->channels;
    if (at->from_channel % block == 0 && first % block == 0) { /* whole blocks: one copy */
        size_t whole = at->channels / block * block;
        memcpy(to + first * plane, from + at->from_channel * plane, whole * plane * sizeof *to);
        first += whole;
    }
    move_lanes(at, from, to, first, end);
}

/* Set the unused channels of the last block to zero. */
static void fill_up(const crn_image *image, float *to, size_t n) {
    size_t block = image->block, plane = image->plane;
    to += (n * image->blocks + image->blocks - 1) * plane * block;
    for (size_t l = image->channels % block; l > 0 && l < block; l++)
        for (size_t i = 0; i < plane; i++)
            to[i * block + l] = 0;
}

static void concat_image(void *context, uint32_t n) {
    const crn_call *call = context;
    moving at = {.to = call->outputs[0], .target = crn_image_of(call, call->op->outputs[0])};
    for (uint32_t i = 0; i < call->op->input_count; i++) {
        at.from = call->inputs[i];
        at.source = crn_image_of(call, call->op->inputs[i]);
        at.channels = at.source.channels;
        move_image(&at, n);
        at.to_channel += at.channels;
    }
    fill_up(&at.target, at.to, n);
}

/* x0 [N, C0, H, W], x1 [N, C1, H, W], ... -> y [N, C0 + C1 + ..., H, W] */
void crn_cpu_concat(const crn_call *call) {
    crn_team_for(call->threads, crn_ref_output(call, 0)->shape[0], concat_image,
                 (void *)(uintptr_t)call);
}

static void crop_image(void *context, uint32_t n) {
    const crn_call *call = context;
    moving at = {.from = call->inputs[0],
                 .to = call->outputs[0],
                 .source = crn_image_of(call, call->op->inputs[0]),
                 .target = crn_image_of(call, call->op->outputs[0]),
                 .from_channel = (size_t)call->op->attributes.index};
    at.channels = at.target.channels;
    move_image(&at, n);
    fill_up(&at.target, at.to, n);
}

/* gy [N, C, H, W] -> gx [N, Ci, H, W], the channels from `index` on */
void crn_cpu_concat_bwd(const crn_call *call) {
    crn_team_for(call->threads, crn_ref_output(call, 0)->shape[0], crop_image,
                 (void *)(uintptr_t)call);
}
