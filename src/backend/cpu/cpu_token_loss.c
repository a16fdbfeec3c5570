/* cpu_token_loss.c: softmax and the mean negative log likelihood of tokens, row by row. Formulas
 * are those of the reference (ref_loss.c). The losses of the rows are added up in order.
 *
 * If the logits are bf16, the forward op makes their gradient in the place of the probabilities, so
 * that it is rounded once, and the backward op only moves it. */
#include "backend/cpu/cpu_reals.h"

#include <math.h>

typedef struct token_loss {
    crn_reals from;        /* [R, V]: the logits; backward: the probabilities */
    const int32_t *labels; /* [R] */
    crn_reals to;          /* [R, V]: the probabilities, if wanted; backward: the gradient */
    double *losses;        /* [R] */
    size_t rows, words;
    double smoothing, count; /* of labels that are not ignored, at least 1 */
    uint8_t *hits;           /* [R], where the gradient is made with the loss */
    float *rooms;            /* of bf16: a row of each thread */
} token_loss;

static token_loss shape_of(const crn_call *call) {
    const cairn_tensor *logits = crn_ref_input(call, 0);
    token_loss at = {.from = crn_reals_input(call, 0),
                     .labels = call->inputs[1],
                     .rows = crn_ref_rows(logits),
                     .words = logits->shape[logits->rank - 1],
                     .smoothing = call->op->attributes.smoothing};
    size_t ignored = 0;
    for (size_t r = 0; r < at.rows; r++)
        ignored += at.labels[r] < 0;
    at.count = (double)CRN_MAX(at.rows - ignored, 1);
    return at;
}

CRN_IN_LOOP float largest_of(const float *x, size_t count) {
    float lane[CRN_CPU_LANES], largest;
    for (size_t l = 0; l < CRN_CPU_LANES; l++)
        lane[l] = x[0];
    size_t i = 0;
    for (; i + CRN_CPU_LANES <= count; i += CRN_CPU_LANES)
        for (size_t l = 0; l < CRN_CPU_LANES; l++)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (size_t l = 0; i + l < count; l++)
        lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    largest = lane[0];
    for (size_t l = 1; l < CRN_CPU_LANES; l++)
        largest = lane[l] > largest ? lane[l] : largest;
    return largest;
}

/* The sum of exp(x - largest), and of x. Chunks of a row are summed in float, the row in double. */
#define CHUNK 1024u

CRN_IN_LOOP void sums_of(const float *x, size_t count, float largest, double *powers,
                         double *values) {
    *powers = *values = 0;
    for (size_t from = 0; from < count; from += CHUNK) {
        float power[CRN_CPU_LANES] = {0}, value[CRN_CPU_LANES] = {0};
        size_t end = CRN_MIN(count, from + CHUNK), i = from;
        for (; i + CRN_CPU_LANES <= end; i += CRN_CPU_LANES)
            for (size_t l = 0; l < CRN_CPU_LANES; l++) {
                power[l] += crn_cpu_exp(x[i + l] - largest);
                value[l] += x[i + l];
            }
        for (size_t l = 0; i + l < end; l++) {
            power[l] += crn_cpu_exp(x[i + l] - largest);
            value[l] += x[i + l];
        }
        *powers += crn_cpu_total(power);
        *values += crn_cpu_total(value);
    }
}

/* The loss of a row of logits, and their probabilities unless `p` is NULL. */
CRN_VECTORISED static void lose(const token_loss *at, size_t r, const float *x, float *p) {
    int32_t label = at->labels[r];
    double powers, values, wanted = (double)NAN;
    float largest = largest_of(x, at->words);
    sums_of(x, at->words, largest, &powers, &values);
    if (label >= 0 && (size_t)label < at->words)
        wanted = (1 - at->smoothing) * x[label] +
                 (at->smoothing > 0 ? at->smoothing * (values / (double)at->words) : 0);
    at->losses[r] = label < 0 ? 0 : log(powers) - (wanted - largest);
    if (p == NULL)
        return;
    float factor = (float)(1 / powers);
    for (size_t i = 0; i < at->words; i++)
        p[i] = crn_cpu_exp(x[i] - largest) * factor;
}

/* The gradient of a row from its probabilities, which may be in its place. */
CRN_VECTORISED static void differentiate(const token_loss *at, size_t r, const float *p,
                                         float *gx) {
    float count = (float)at->count, spread = (float)(at->smoothing / (double)at->words);
    int32_t label = at->labels[r];
    if (label < 0) {
        memset(gx, 0, at->words * sizeof *gx);
        return;
    }
    float hit = (size_t)label < at->words ? p[label] : 0;
    for (size_t i = 0; i < at->words; i++)
        gx[i] = (p[i] - spread) / count;
    if ((size_t)label < at->words)
        gx[label] = (hit - ((float)(1 - at->smoothing) + spread)) / count;
}

static void forward_row(void *context, uint32_t r) {
    const token_loss *at = context;
    const float *x = (const float *)at->from.at + r * at->words;
    lose(at, r, x, at->to.at != NULL ? (float *)at->to.at + r * at->words : NULL);
}

static void backward_row(void *context, uint32_t r) {
    const token_loss *at = context;
    size_t first = r * at->words;
    differentiate(at, r, (const float *)at->from.at + first, (float *)at->to.at + first);
}

/* The loss and the gradient. */
CRN_VECTORISED static void whole_row(void *context, uint32_t r) {
    const token_loss *at = context;
    size_t first = r * at->words;
    float *room = at->from.half ? at->rooms + crn_cpu_thread() * at->words : NULL;
    const float *x = crn_reals_load(at->from, first, at->words, room);
    float *to = at->to.at != NULL ? crn_reals_room(at->to, first, room) : NULL;
    at->hits[r] = crn_is_likeliest(x, (uint32_t)at->words, 1, at->labels[r]);
    lose(at, r, x, to);
    if (to == NULL)
        return;
    differentiate(at, r, to, to);
    crn_reals_store(at->to, first, at->words, to);
}

/* ---- ops ---- */

/* The losses of the rows; of bf16 also the hits, and the rooms. */
uint64_t crn_cpu_token_loss_workspace(const crn_site *site) {
    const cairn_tensor *logits = cairn_graph_tensor(site->graph, site->op->inputs[0]);
    if (!crn_is_half(site->storage, site->op->inputs[0]))
        return crn_ref_cross_entropy_workspace(site);
    uint64_t rows = crn_ref_rows(logits), words = logits->shape[logits->rank - 1];
    return crn_align(rows * sizeof(double)) + crn_align(rows) +
           site->threads * words * sizeof(float);
}

/* logits [..., V], labels [...] -> loss [1], probabilities [..., V] */
void crn_cpu_token_cross_entropy(const crn_call *call) {
    token_loss at = shape_of(call);
    at.to = crn_reals_output(call, 1);
    at.losses = call->workspace;
    at.hits = (uint8_t *)call->workspace + crn_align(at.rows * sizeof(double));
    at.rooms = (void *)(at.hits + crn_align(at.rows));
    crn_team_for(call->threads, (uint32_t)at.rows, at.from.half ? whole_row : forward_row, &at);
    double sum = 0;
    for (size_t r = 0; r < at.rows; r++)
        sum += at.losses[r];
    if (call->outputs[0] != NULL)
        *(float *)call->outputs[0] = (float)(sum / at.count);
}

/* probabilities [..., V], labels [...] -> gradient of the logits, which may be in their place */
void crn_cpu_token_cross_entropy_bwd(const crn_call *call) {
    token_loss at = shape_of(call);
    at.to = crn_reals_output(call, 0);
    if (!at.from.half)
        crn_team_for(call->threads, (uint32_t)at.rows, backward_row, &at);
    else if (at.to.at != at.from.at)
        memcpy(at.to.at, at.from.at, call->storage[call->op->inputs[0]].bytes);
}

/* A chunk of a head: the loss, and the gradient in place of the logits. */
void crn_cpu_head_lose(const crn_head_chunk *chunk) {
    token_loss at = {.from = {chunk->logits, chunk->half},
                     .labels = chunk->labels,
                     .to = {chunk->logits, chunk->half},
                     .losses = chunk->losses,
                     .rows = chunk->rows,
                     .words = chunk->words,
                     .smoothing = chunk->smoothing,
                     .count = chunk->count,
                     .hits = chunk->hits,
                     .rooms = chunk->rooms};
    crn_team_for(chunk->threads, (uint32_t)chunk->rows, whole_row, &at);
}
