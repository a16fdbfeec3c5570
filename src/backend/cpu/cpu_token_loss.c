/* cpu_token_loss.c: softmax and the mean negative log likelihood of tokens, row by row. Formulas
 * are those of the reference (ref_loss.c). The losses of the rows are added up in order. */
#include "backend/cpu/cpu_internal.h"
#include "backend/cpu/cpu_math.h"

#include <math.h>

typedef struct token_loss {
    const float *from;     /* [R, V]: the logits; backward: the probabilities */
    const int32_t *labels; /* [R] */
    float *to;             /* [R, V]: the probabilities or NULL; backward: the gradient */
    double *parts;         /* [R] */
    size_t rows, words;
    double smoothing, count; /* of labels that are not ignored, at least 1 */
    uint8_t *hits;           /* of a head: [R] */
} token_loss;

static token_loss shape_of(const crn_call *call) {
    const cairn_tensor *logits = crn_ref_input(call, 0);
    token_loss at = {.from = call->inputs[0],
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

/* The sum of exp(x - largest), and of x. Parts of a row are summed in float, the row in double. */
#define PART 1024u

CRN_IN_LOOP void sums_of(const float *x, size_t count, float largest, double *powers,
                         double *values) {
    *powers = *values = 0;
    for (size_t from = 0; from < count; from += PART) {
        float power[CRN_CPU_LANES] = {0}, value[CRN_CPU_LANES] = {0};
        size_t end = CRN_MIN(count, from + PART), i = from;
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

CRN_VECTORISED static void row_loss(void *context, uint32_t r) {
    const token_loss *at = context;
    const float *x = at->from + r * at->words;
    int32_t label = at->labels[r];
    double powers, values, wanted = (double)NAN;
    float largest = largest_of(x, at->words);
    sums_of(x, at->words, largest, &powers, &values);
    if (label >= 0 && (size_t)label < at->words)
        wanted = (1 - at->smoothing) * x[label] +
                 (at->smoothing > 0 ? at->smoothing * (values / (double)at->words) : 0);
    at->parts[r] = label < 0 ? 0 : log(powers) - (wanted - largest);
    if (at->to == NULL)
        return;
    float *p = at->to + r * at->words, factor = (float)(1 / powers);
    for (size_t i = 0; i < at->words; i++)
        p[i] = crn_cpu_exp(x[i] - largest) * factor;
}

/* logits [..., V], labels [...] -> loss [1], probabilities [..., V] */
void crn_cpu_token_cross_entropy(const crn_call *call) {
    token_loss at = shape_of(call);
    at.to = crn_ref_out(call, 1);
    at.parts = call->workspace;
    crn_team_for(call->threads, (uint32_t)at.rows, row_loss, &at);
    double sum = 0;
    for (size_t r = 0; r < at.rows; r++)
        sum += at.parts[r];
    if (call->outputs[0] != NULL)
        *(float *)call->outputs[0] = (float)(sum / at.count);
}

CRN_VECTORISED static void row_bwd(void *context, uint32_t r) {
    const token_loss *at = context;
    const float *p = at->from + r * at->words;
    float *gx = at->to + r * at->words, count = (float)at->count;
    float spread = (float)(at->smoothing / (double)at->words);
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

/* probabilities [..., V], labels [...] -> gradient of the logits, which may be in their place */
void crn_cpu_token_cross_entropy_bwd(const crn_call *call) {
    token_loss at = shape_of(call);
    at.to = call->outputs[0];
    crn_team_for(call->threads, (uint32_t)at.rows, row_bwd, &at);
}

/* ---- A chunk of a head: the loss, and the gradient in place of the logits ---- */

static void lose_row(void *context, uint32_t r) {
    const token_loss *at = context;
    at->hits[r] = crn_is_likeliest(at->from + r * at->words, (uint32_t)at->words, 1, at->labels[r]);
    row_loss(context, r);
    row_bwd(context, r);
}

void crn_cpu_head_lose(const crn_head_chunk *chunk) {
    token_loss at = {.from = chunk->logits,
                     .labels = chunk->labels,
                     .to = chunk->logits,
                     .parts = chunk->parts,
                     .rows = chunk->rows,
                     .words = chunk->words,
                     .smoothing = chunk->smoothing,
                     .count = chunk->count,
                     .hits = chunk->hits};
    crn_team_for(chunk->threads, (uint32_t)chunk->rows, lose_row, &at);
}
