/* ref_sequence.c: how sequences of tokens begin and end: embeddings, positions, images as
 * sequences, and single tokens.
 *
 * A token outside the vocabulary is not used as an index: its row is NaN, and it has no gradient.
 */
#include "backend/ref/ref_kernels.h"

#include <math.h>

/* ---- Embedding ---- */

#define ROWS 64u /* of the table, which one index owns */

typedef struct embedding {
    const int32_t *tokens; /* [R] */
    const float *table;    /* [V, D] */
    const float *gy;       /* [R, D] */
    const float *sum;      /* [V, D] or NULL: what the gradient is added to, may be `to` */
    float *to;             /* [R, D]; backward: the gradient of the table, [V, D] */
    size_t count, vocabulary, width;
} embedding;

static void embed_chunk(void *context, uint32_t chunk) {
    const embedding *at = context;
    for (size_t r = (size_t)chunk * ROWS; r < CRN_MIN(at->count, ((size_t)chunk + 1) * ROWS); r++) {
        int32_t token = at->tokens[r];
        float *to = at->to + r * at->width;
        if (token >= 0 && (size_t)token < at->vocabulary)
            memcpy(to, at->table + (size_t)token * at->width, at->width * sizeof *to);
        else
            for (size_t i = 0; i < at->width; i++)
                to[i] = NAN;
    }
}

static uint32_t chunks_of(size_t count) {
    return (uint32_t)((count + ROWS - 1) / ROWS);
}

/* tokens [...] -> y [..., D], rows of the table [V, D] */
void crn_ref_embedding(const crn_call *call) {
    const cairn_tensor *table = crn_ref_param(call, 0);
    embedding at = {.tokens = call->inputs[0],
                    .table = call->params[0],
                    .to = call->outputs[0],
                    .count = crn_ref_elements(crn_ref_input(call, 0)),
                    .vocabulary = table->shape[0],
                    .width = table->shape[1]};
    crn_team_for(call->threads, chunks_of(at.count), embed_chunk, &at);
}

/* A chunk of the table, with the tokens in order: the order of a sum depends on the tokens only. */
static void gather_chunk(void *context, uint32_t chunk) {
    const embedding *at = context;
    size_t first = (size_t)chunk * ROWS, end = CRN_MIN(at->vocabulary, first + ROWS);
    size_t at_first = first * at->width, bytes = (end - first) * at->width * sizeof *at->to;
    if (at->sum == NULL)
        memset(at->to + at_first, 0, bytes);
    else if (at->sum != at->to)
        memcpy(at->to + at_first, at->sum + at_first, bytes);
    for (size_t r = 0; r < at->count; r++) {
        int64_t token = at->tokens[r];
        if (token >= (int64_t)first && token < (int64_t)end)
            crn_ref_add_scaled(at->to + (size_t)token * at->width, at->gy + r * at->width, 1,
                               at->width);
    }
}

/* tokens [...], gy [..., D], the gradient so far -> gradient of the table [V, D] */
void crn_ref_embedding_bwd(const crn_call *call) {
    const cairn_tensor *table = crn_ref_output(call, 0);
    embedding at = {.tokens = call->inputs[0],
                    .gy = call->inputs[1],
                    .sum = call->op->input_count > 2 ? call->inputs[2] : NULL,
                    .to = call->outputs[0],
                    .count = crn_ref_elements(crn_ref_input(call, 0)),
                    .vocabulary = table->shape[0],
                    .width = table->shape[1]};
    crn_team_for(call->threads, chunks_of(at.vocabulary), gather_chunk, &at);
}

/* ---- Positions ---- */

typedef struct positions {
    const float *x; /* [N, T, D]; backward: gy */
    const float *weight;
    float *to;
    size_t batch, tokens, width, rows;
    bool same_row;
} positions;

static void add_row(void *context, uint32_t r) {
    const positions *at = context;
    const float *x = at->x + r * at->width;
    const float *row = at->weight + (at->same_row ? 0 : r % at->tokens) * at->width;
    float *y = at->to + r * at->width;
    for (size_t i = 0; i < at->width; i++)
        y[i] = x[i] + row[i];
}

static positions positions_of(const crn_call *call, const cairn_tensor *weight) {
    const cairn_tensor *x = crn_ref_input(call, 0);
    return (positions){.x = call->inputs[0],
                       .to = call->outputs[0],
                       .batch = x->shape[0],
                       .tokens = x->shape[1],
                       .width = x->shape[2],
                       .rows = weight->shape[0],
                       .same_row = call->op->attributes.same_row != 0};
}

/* x [N, T, D] -> y = x + weight[t], or x + weight[0] */
void crn_ref_add_positions(const crn_call *call) {
    positions at = positions_of(call, crn_ref_param(call, 0));
    at.weight = call->params[0];
    crn_team_for(call->threads, (uint32_t)(at.batch * at.tokens), add_row, &at);
}

/* Row `row` of the gradient: the sum over the sequences of token `row`; of all tokens, if all have
 * the same row. */
static void sum_row(void *context, uint32_t row) {
    const positions *at = context;
    float *to = at->to + row * at->width;
    memset(to, 0, at->width * sizeof *to);
    if (row >= (at->same_row ? 1 : at->tokens))
        return;
    for (size_t r = row; r < at->batch * at->tokens; r += at->same_row ? 1 : at->tokens)
        crn_ref_add_scaled(to, at->x + r * at->width, 1, at->width);
}

/* gy [N, T, D] -> gradient of the weight */
void crn_ref_add_positions_bwd(const crn_call *call) {
    positions at = positions_of(call, crn_ref_output(call, 0));
    crn_team_for(call->threads, (uint32_t)at.rows, sum_row, &at);
}

/* ---- Images as sequences ---- */

typedef struct image {
    const float *from, *token;
    float *to, *token_gradient;
    size_t batch, channels, pixels, first; /* `first`: 1 with a class token */
} image;

static void image_to_tokens(void *context, uint32_t n) {
    const image *at = context;
    const float *x = at->from + n * at->channels * at->pixels;
    float *y = at->to + n * (at->pixels + at->first) * at->channels;
    if (at->first > 0)
        memcpy(y, at->token, at->channels * sizeof *y);
    for (size_t p = 0; p < at->pixels; p++)
        for (size_t c = 0; c < at->channels; c++)
            y[(p + at->first) * at->channels + c] = x[c * at->pixels + p];
}

static image image_of(const crn_call *call, const cairn_tensor *pixels,
                      const cairn_tensor *tokens) {
    size_t count = crn_ref_size(pixels, 2, 4);
    return (image){.from = call->inputs[0],
                   .to = crn_ref_out(call, 0),
                   .batch = tokens->shape[0],
                   .channels = tokens->shape[2],
                   .pixels = count,
                   .first = tokens->shape[1] - count};
}

/* x [N, C, H, W] -> y [N, H*W, C], with the class token [C] before them */
void crn_ref_image_tokens(const crn_call *call) {
    image at = image_of(call, crn_ref_input(call, 0), crn_ref_output(call, 0));
    at.token = at.first > 0 ? call->params[0] : NULL;
    crn_team_for(call->threads, (uint32_t)at.batch, image_to_tokens, &at);
}

static void tokens_to_image(void *context, uint32_t n) {
    const image *at = context;
    const float *gy = at->from + (n * (at->pixels + at->first) + at->first) * at->channels;
    float *gx = at->to + n * at->channels * at->pixels;
    for (size_t c = 0; c < at->channels; c++)
        for (size_t p = 0; p < at->pixels; p++)
            gx[c * at->pixels + p] = gy[p * at->channels + c];
}

/* gy [N, T, C] -> gx [N, C, H, W], gradient of the class token */
void crn_ref_image_tokens_bwd(const crn_call *call) {
    /* The image may be unwanted; the forward op has its shape. */
    const cairn_op *forward = cairn_graph_op(call->graph, call->op->of);
    image at =
        image_of(call, cairn_graph_tensor(call->graph, forward->inputs[0]), crn_ref_input(call, 0));
    if (at.to != NULL)
        crn_team_for(call->threads, (uint32_t)at.batch, tokens_to_image, &at);
    float *token = crn_ref_out(call, 1);
    if (token == NULL)
        return;
    memset(token, 0, at.channels * sizeof *token);
    for (size_t n = 0; n < at.batch; n++)
        crn_ref_add_scaled(token, at.from + n * (at.pixels + 1) * at.channels, 1, at.channels);
}

/* ---- Single tokens ---- */

/* x [N, T, D] -> y [N, D] = x[:, index] */
void crn_ref_select_token(const crn_call *call) {
    const cairn_tensor *x = crn_ref_input(call, 0);
    size_t width = x->shape[2], index = (size_t)call->op->attributes.index;
    for (size_t n = 0; n < x->shape[0]; n++)
        memcpy((float *)call->outputs[0] + n * width,
               (const float *)call->inputs[0] + (n * x->shape[1] + index) * width,
               width * sizeof(float));
}

/* gy [N, D] -> gx [N, T, D], zero outside gx[:, index] */
void crn_ref_select_token_bwd(const crn_call *call) {
    const cairn_tensor *gx = crn_ref_output(call, 0);
    size_t width = gx->shape[2], index = (size_t)call->op->attributes.index;
    memset(call->outputs[0], 0, crn_ref_elements(gx) * sizeof(float));
    for (size_t n = 0; n < gx->shape[0]; n++)
        memcpy((float *)call->outputs[0] + (n * gx->shape[1] + index) * width,
               (const float *)call->inputs[0] + n * width, width * sizeof(float));
}
