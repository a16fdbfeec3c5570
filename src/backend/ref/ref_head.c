/* ref_head.c: the last linear layer, its loss over tokens and the gradients of both, in chunks of
 * tokens.
 *
 *     for each chunk:  logits = x W'    losses, and the gradient g in place of the logits
 *                      gW += g' x       gx = g W
 *
 * Only the logits of one chunk exist. The losses of all tokens are added up in order at the end, so
 * that the loss does not depend on the chunks. The reference also adds up the gradient of the
 * weight in the order of the tokens, whatever the chunks are. */
#include "backend/ref/ref_kernels.h"

static uint64_t bytes_of_losses(const crn_site *site) {
    return crn_align(crn_head_rows(site->graph, site->op) * sizeof(double));
}

static uint64_t bytes_of_hits(const crn_site *site) {
    return crn_align(crn_head_rows(site->graph, site->op));
}

bool crn_ref_head_fits(const crn_site *site, uint32_t chunks) {
    return crn_head_can_have_chunks(site->graph, site->op, chunks);
}

static uint32_t size_of_real(const crn_site *site) {
    return site->storage[site->op->inputs[0]].type == CRN_BF16 ? 2 : 4;
}

static uint64_t bytes_of_logits(const crn_site *site, uint32_t chunks) {
    return crn_align(crn_head_logits(site->graph, site->op, chunks) * size_of_real(site));
}

uint64_t crn_ref_head_workspace(const crn_site *site, uint32_t chunks,
                                const crn_head_steps *steps) {
    return bytes_of_losses(site) + bytes_of_hits(site) + bytes_of_logits(site, chunks) +
           (steps->rooms != NULL ? steps->rooms(site, chunks) : 0);
}

static double count_labels(const int32_t *labels, size_t rows) {
    size_t count = 0;
    for (size_t r = 0; r < rows; r++)
        count += labels[r] >= 0;
    return (double)CRN_MAX(count, 1);
}

/* x [..., D], labels [...]; weight [V, D] -> loss [1], gradients of x and of the weight */
void crn_ref_head_by(const crn_call *call, uint32_t chunks, const crn_head_steps *steps) {
    const cairn_tensor *weight = crn_ref_param(call, 0);
    crn_site site = crn_site_of(call);
    size_t rows = crn_head_rows(call->graph, call->op);
    double *losses = call->workspace, sum = 0;
    char *hits = (char *)call->workspace + bytes_of_losses(&site),
         *logits = hits + bytes_of_hits(&site);
    crn_head_chunk chunk = {.queue = call->queue,
                            .threads = call->threads,
                            .rows = rows / chunks,
                            .features = weight->shape[1],
                            .words = weight->shape[0],
                            .x = call->inputs[0],
                            .weight = call->params[0],
                            .labels = call->inputs[1],
                            .logits = logits,
                            .x_gradient = call->outputs[1],
                            .weight_gradient = call->outputs[2],
                            .losses = losses,
                            .hits = (uint8_t *)hits,
                            .smoothing = call->op->attributes.smoothing,
                            .count = count_labels(call->inputs[1], rows),
                            .half = size_of_real(&site) == 2,
                            .rooms = logits + bytes_of_logits(&site, chunks)};
    size_t bytes = chunk.rows * chunk.features * size_of_real(&site);
    for (uint32_t c = 0; c < chunks; c++) {
        steps->multiply(&chunk);
        steps->lose(&chunk);
        steps->weigh(&chunk);
        steps->spread(&chunk);
        chunk.add = true;
        chunk.x = (const char *)chunk.x + bytes;
        chunk.x_gradient = (char *)chunk.x_gradient + bytes;
        chunk.labels += chunk.rows;
        chunk.losses += chunk.rows;
        chunk.hits += chunk.rows;
    }
    for (size_t r = 0; r < rows; r++)
        sum += losses[r];
    *(float *)call->outputs[0] = (float)(sum / count_labels(call->inputs[1], rows));
}

/* ---- The reference's steps ---- */

static crn_ref_product product_of(const crn_head_chunk *chunk) {
    return (crn_ref_product){.queue = chunk->queue,
                             .gates = 1,
                             .batch = (uint32_t)chunk->rows,
                             .hidden = (uint32_t)chunk->words,
                             .features = (uint32_t)chunk->features,
                             .gradient = chunk->logits,
                             .weight = chunk->weight,
                             .x = chunk->x,
                             .x_gradient = chunk->x_gradient,
                             .weight_gradient = chunk->weight_gradient,
                             .add = chunk->add};
}

static void weigh(const crn_head_chunk *chunk) {
    crn_ref_product product = product_of(chunk);
    crn_ref_product_weight(chunk->threads, &product);
}

static void spread(const crn_head_chunk *chunk) {
    crn_ref_product product = product_of(chunk);
    crn_ref_product_data(chunk->threads, &product);
}

static const crn_head_steps steps = {crn_ref_head_multiply, crn_ref_head_lose, weigh, spread, NULL};

CRN_HEAD_FUNCTIONS(1)
CRN_HEAD_FUNCTIONS(2)
CRN_HEAD_FUNCTIONS(4)
CRN_HEAD_FUNCTIONS(8)
CRN_HEAD_FUNCTIONS(16)
CRN_HEAD_FUNCTIONS(32)

const crn_kernel crn_ref_heads[CRN_HEAD_CHOICES] = CRN_HEAD_KERNELS;
