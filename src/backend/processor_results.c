/* processor_results.c: the results of a step: the loss, and how often the label was the likeliest
 * class. That is read from the probabilities that a cross-entropy has just made, as plain [N, C,
 * S]. */
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
    uint32_t batch = logits->shape[0], classes = logits->shape[1];
    uint64_t pixels = 1;
    for (uint32_t i = 2; i < logits->rank; i++)
        pixels *= logits->shape[i];
    for (uint32_t n = 0; p != NULL && n < batch; n++)
        for (uint64_t s = 0; s < pixels; s++)
            out->correct +=
                is_likeliest(p + n * classes * pixels + s, classes, pixels, labels[n * pixels + s]);
    out->predictions += p != NULL ? batch * pixels : 0;
}
