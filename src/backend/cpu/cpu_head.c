/* cpu_head.c: the last linear layer with its loss (ref_head.c): products of oneDNN, and Cairn's own
 * softmax. */
#include "backend/cpu/cpu_internal.h"

static void multiply(const crn_head_chunk *c) {
    crn_cpu_product(c->queue, c->threads, false, true, c->rows, c->words, c->features, c->x,
                    c->weight, 0, c->logits);
}

static void weigh(const crn_head_chunk *c) {
    crn_cpu_product(c->queue, c->threads, true, false, c->words, c->features, c->rows, c->logits,
                    c->x, c->add ? 1 : 0, c->weight_gradient);
}

static void spread(const crn_head_chunk *c) {
    crn_cpu_product(c->queue, c->threads, false, false, c->rows, c->features, c->words, c->logits,
                    c->weight, 0, c->x_gradient);
}

static const crn_head_steps steps = {multiply, crn_cpu_head_lose, weigh, spread};

CRN_HEAD_FUNCTIONS(1)
CRN_HEAD_FUNCTIONS(2)
CRN_HEAD_FUNCTIONS(4)
CRN_HEAD_FUNCTIONS(8)
CRN_HEAD_FUNCTIONS(16)
CRN_HEAD_FUNCTIONS(32)

const crn_kernel crn_cpu_heads[CRN_HEAD_WAYS] = CRN_HEAD_KERNELS;
