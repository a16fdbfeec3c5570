/* optimizer.c: from gradients to new parameters, by PyTorch's formulas (torch.optim, version 2:
 * _single_tensor_sgd and _single_tensor_adam). Scalars are worked out in double and rounded once,
 * as there; elements are float.
 *
 * Every element depends on its own parameter, gradient and slots alone, so the work is cut into
 * chunks of one size, whatever the number of threads and however large a parameter is, and the
 * result has the same bits. */
#include "exec/exec_internal.h"

#include <math.h>

#define CHUNK 16384 /* elements: a few arrays of them fit a cache */

const char *cairn_optimizer_name(cairn_optimizer optimizer) {
    static const char *const names[] = {"sgd", "adam", "adamw"};
    return (unsigned)optimizer < CRN_LENGTH(names) ? names[optimizer] : NULL;
}

/* Slots of the optimiser itself. */
static uint32_t own_slots(const cairn_exec_options *options) {
    if (options->optimizer == CAIRN_SGD)
        return options->momentum != 0 ? 1 : 0;
    return 2;
}

uint32_t cairn_optimizer_slots(const cairn_exec_options *options) {
    return own_slots(options) + (options->micro_batches > 1 ? 1 : 0);
}

cairn_status crn_optimizer_init(cairn_exec *exec) {
    const crn_stationary *s = &exec->stationary;
    crn_optimizer_state *state = &exec->optimizer;
    uint64_t count = 0;
    if (!exec->training)
        return CAIRN_OK;
    for (uint32_t i = 0; i < s->parameter_count; i++)
        count += (s->parameters[i].elements + CHUNK - 1) / CHUNK;
    if (count > UINT32_MAX)
        return crn_fail_memory(NULL);
    CRN_TAKE(&exec->memory, state->chunks, count);
    for (uint32_t i = 0; i < s->parameter_count; i++) {
        const crn_parameter *p = &s->parameters[i];
        for (uint64_t first = 0; p->gradient != NULL && first < p->elements; first += CHUNK)
            state->chunks[state->chunk_count++] =
                (crn_chunk){i, (uint32_t)CRN_MIN(p->elements - first, CHUNK), first};
    }
    return CAIRN_OK;
}

/* ---- Adding up gradients ---- */

typedef struct gathering {
    const cairn_exec *exec;
    bool first;
} gathering;

static void gather_chunk(void *context, uint32_t index) {
    const gathering *at = context;
    const crn_chunk *chunk = &at->exec->optimizer.chunks[index];
    const crn_parameter *p = &at->exec->stationary.parameters[chunk->parameter];
    float *restrict sum = p->slots[at->exec->stationary.slot_count - 1] + chunk->first;
    const float *restrict g = p->gradient + chunk->first;
    for (uint32_t i = 0; i < chunk->count; i++)
        sum[i] = at->first ? g[i] : sum[i] + g[i];
}

void cairn_exec_accumulate(cairn_exec *exec) {
    if (!exec->training || exec->options.micro_batches <= 1)
        return;
    gathering at = {exec, exec->optimizer.gathered == 0};
    crn_pool_for(exec->backend->threads(exec->device), exec->optimizer.chunk_count, gather_chunk,
                 &at);
    exec->optimizer.gathered++;
}

/* ---- The formulas, on a chunk ---- */

/* The scalars of an update, rounded as PyTorch does. */
typedef struct update {
    const cairn_exec *exec;
    float rate, momentum, decay;
    float keep;       /* adamw: 1 - rate * decay */
    float beta1_rest; /* 1 - beta1 */
    float beta2, beta2_rest;
    float step_size, root_correction, epsilon;
    float mean; /* what a sum of gradients is divided by; 0: there is none */
} update;

static void sgd(const update *u, float *restrict p, const float *restrict g, float *restrict v,
                uint32_t count) {
    bool nesterov = u->exec->options.nesterov;
    for (uint32_t i = 0; i < count; i++) {
        float d = u->decay != 0 ? g[i] + u->decay * p[i] : g[i];
        if (v != NULL) {
            v[i] = u->momentum * v[i] + d;
            d = nesterov ? d + u->momentum * v[i] : v[i];
        }
        p[i] -= u->rate * d;
    }
}

static void adam(const update *u, float *restrict p, const float *restrict g, float *restrict m,
                 float *restrict v, uint32_t count) {
    bool decoupled = u->exec->options.optimizer == CAIRN_ADAMW;
    for (uint32_t i = 0; i < count; i++) {
        float value = decoupled ? p[i] * u->keep : p[i];
        float d = decoupled || u->decay == 0 ? g[i] : g[i] + u->decay * value;
        m[i] += u->beta1_rest * (d - m[i]);
        v[i] = u->beta2 * v[i] + u->beta2_rest * d * d;
        float spread = sqrtf(v[i]) / u->root_correction + u->epsilon;
        p[i] = value - u->step_size * (m[i] / spread);
    }
}

static void update_chunk(void *context, uint32_t index) {
    const update *u = context;
    const crn_stationary *s = &u->exec->stationary;
    const crn_chunk *chunk = &u->exec->optimizer.chunks[index];
    const crn_parameter *p = &s->parameters[chunk->parameter];
    float *slots[CRN_MOST_SLOTS] = {0};
    float *value = p->value + chunk->first;
    const float *gradient = p->gradient + chunk->first;
    for (uint32_t slot = 0; slot < s->slot_count; slot++)
        slots[slot] = p->slots[slot] + chunk->first;
    if (u->mean > 0) {
        float *sum = slots[s->slot_count - 1];
        for (uint32_t i = 0; i < chunk->count; i++)
            sum[i] /= u->mean;
        gradient = sum;
    }
    if (u->exec->options.optimizer == CAIRN_SGD)
        sgd(u, value, gradient, own_slots(&u->exec->options) > 0 ? slots[0] : NULL, chunk->count);
    else
        adam(u, value, gradient, slots[0], slots[1], chunk->count);
}

void cairn_exec_update_at(cairn_exec *exec, double rate) {
    if (!exec->training)
        return;
    const cairn_exec_options *o = &exec->options;
    crn_optimizer_state *state = &exec->optimizer;
    state->updates++;
    update u = {
        .exec = exec,
        .rate = (float)rate,
        .momentum = o->momentum,
        .decay = (float)o->weight_decay,
        .keep = (float)(1 - rate * o->weight_decay),
        .beta1_rest = (float)(1 - o->beta1),
        .beta2 = (float)o->beta2,
        .beta2_rest = (float)(1 - o->beta2),
        .step_size = (float)(rate / (1 - crn_power(o->beta1, state->updates))),
        .root_correction = (float)sqrt(1 - crn_power(o->beta2, state->updates)),
        .epsilon = (float)o->epsilon,
        .mean = (float)state->gathered,
    };
    crn_pool_for(exec->backend->threads(exec->device), state->chunk_count, update_chunk, &u);
    state->gathered = 0;
}

void cairn_exec_update(cairn_exec *exec) {
    cairn_exec_update_at(exec, (double)exec->options.learning_rate);
}

/* ---- What is kept ---- */

float *cairn_exec_slot(cairn_exec *exec, cairn_id parameter, uint32_t slot, const char **name) {
    static const char *const of_adam[] = {"exp_avg", "exp_avg_sq"};
    const crn_stationary *s = &exec->stationary;
    if (cairn_graph_tensor(exec->graph, parameter)->role != CAIRN_PARAMETER ||
        slot >= own_slots(&exec->options))
        return NULL;
    if (name != NULL)
        *name = exec->options.optimizer == CAIRN_SGD ? "momentum_buffer" : of_adam[slot];
    return s->parameters[s->parameter_of[parameter]].slots[slot];
}

uint64_t cairn_exec_updates(const cairn_exec *exec) {
    return exec->optimizer.updates;
}

void cairn_exec_set_updates(cairn_exec *exec, uint64_t updates) {
    exec->optimizer.updates = updates;
}
