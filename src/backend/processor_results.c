/* processor_results.c: the results of a step: the loss, and how often the label was the likeliest
 * class. That is read from the probabilities that a cross-entropy has just made, as plain [N, C,
 * S]; those of tokens are [N, C]. */
#include "backend/processor_internal.h"
#include "graph/head_chunks.h"

void crn_processor_take_loss(crn_queue *queue, const void *loss) {
    memcpy(&queue->results.loss, loss, sizeof queue->results.loss);
}

bool crn_is_likeliest(const float *p, uint32_t classes, uint64_t step, int32_t label) {
    if (label < 0 || (uint32_t)label >= classes)
        return false;
    float own = p[(uint64_t)label * step];
    for (uint32_t c = 0; c < classes; c++) {
        float other = p[c * step];
        if (!(c < (uint32_t)label ? own > other : own >= other))
            return false;
    }
    return true;
}

/* A head_loss has counted, and so has a loss of tokens in bf16: the hits follow the losses of the
 * tokens in the workspace. */
static void count_hits(crn_results *out, const crn_call *call) {
    uint64_t rows = crn_head_rows(call->graph, call->op);
    const int32_t *labels = call->inputs[1];
    const uint8_t *hits = (const uint8_t *)call->workspace + crn_align(rows * sizeof(double));
    for (uint64_t r = 0; r < rows; r++) {
        out->correct += hits[r];
        out->predictions += labels[r] >= 0;
    }
}

void crn_processor_count_correct(crn_queue *queue, const crn_call *call) {
    crn_results *out = &queue->results;
    if (call->op->kind == CAIRN_OP_HEAD_LOSS ||
        call->storage[call->op->inputs[0]].type == CRN_BF16) {
        count_hits(out, call);
        return;
    }
    const cairn_tensor *logits = cairn_graph_tensor(call->graph, call->op->inputs[0]);
    const float *p = call->outputs[1];
    const int32_t *labels = call->inputs[1];
    bool tokens = call->op->kind == CAIRN_OP_TOKEN_CROSS_ENTROPY;
    uint32_t classes = logits->shape[tokens ? logits->rank - 1 : 1];
    uint64_t pixels = 1, batch = logits->shape[0];
    for (uint32_t i = tokens ? 1 : 2; i < logits->rank - tokens; i++)
        *(tokens ? &batch : &pixels) *= logits->shape[i];
    for (uint64_t n = 0; p != NULL && n < batch; n++)
        for (uint64_t s = 0; s < pixels; s++) {
            int32_t label = labels[n * pixels + s];
            out->correct += crn_is_likeliest(p + n * classes * pixels + s, classes, pixels, label);
            out->predictions += !tokens || label >= 0; /* others are ignored */
        }
}
