/* processor_results.c: the results of a step: the loss, and how often the label was the likeliest
 * class. That is read from the probabilities that a cross-entropy has just made, as plain [N, C,
 * S]; those of tokens are [N, C]. */
#include "backend/processor_internal.h"

void crn_processor_take_loss(crn_queue *queue, const void *loss) {
    memcpy(&queue->results.loss, loss, sizeof queue->results.loss);
}

/* Of equal classes the first counts as the likeliest. If there are NaNs, no class does. */
static bool is_likeliest(const float *p, uint32_t classes, uint64_t step, int32_t label) {
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

void crn_processor_count_correct(crn_queue *queue, const crn_call *call) {
    crn_results *out = &queue->results;
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
            out->correct += is_likeliest(p + n * classes * pixels + s, classes, pixels, label);
            out->predictions += !tokens || label >= 0; /* others are ignored */
        }
}
