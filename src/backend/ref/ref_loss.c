/* ref_loss.c: softmax and the mean negative log likelihood.
 *
 * The logits are [N, C, S] and the labels [N, S], where S is the product of the dimensions after
 * the classes. Those of tokens are [N, C] and [N], where N is the number of all tokens, and labels
 * below 0 are ignored: they have no loss and no gradient, and do not count in the mean. The loss of
 * each image is stored in the workspace, and the calling thread adds them up in order. A label
 * outside the classes gives a loss of NaN and is not used as an index.
 *
 * With smoothing s the target is t[c] = (1 - s at the label) + s/C, and the loss
 * log(sum of exp(x - largest)) - sum over c of t[c] (x[c] - largest). */
#include "backend/ref/ref_kernels.h"

#include <math.h>

typedef struct loss {
    const float *from;     /* [N, C, S]: the logits; backward: the probabilities */
    const int32_t *labels; /* [N, S] */
    float *to;             /* [N, C, S]: the probabilities or NULL; backward: the gradient */
    double *losses;        /* [N] */
    size_t batch, classes, pixels;
    double smoothing;
    double count; /* labels that are not ignored, at least 1 */
    bool ignores;
} loss;

static loss shape_of(const crn_call *call) {
    const cairn_tensor *logits = crn_ref_input(call, 0);
    bool tokens = call->op->kind == CAIRN_OP_TOKEN_CROSS_ENTROPY ||
                  call->op->kind == CAIRN_OP_TOKEN_CROSS_ENTROPY_BWD;
    loss at = {.from = call->inputs[0],
               .labels = call->inputs[1],
               .batch = tokens ? crn_ref_rows(logits) : logits->shape[0],
               .classes = logits->shape[tokens ? logits->rank - 1 : 1],
               .pixels = tokens ? 1 : crn_ref_size(logits, 2, logits->rank),
               .smoothing = call->op->attributes.smoothing,
               .ignores = tokens};
    size_t ignored = 0;
    for (size_t i = 0; i < at.batch && tokens; i++)
        ignored += at.labels[i] < 0;
    at.count = (double)CRN_MAX(at.batch * at.pixels - ignored, 1);
    return at;
}

static bool is_ignored(const loss *at, size_t label) {
    return at->ignores && at->labels[label] < 0;
}

/* The logits weighted with the target: the one at the label, or, with smoothing, also a little of
 * each. */
static double wanted_logit(const loss *at, const float *x, int32_t label) {
    if (label < 0 || (size_t)label >= at->classes)
        return (double)NAN;
    double hit = x[(size_t)label * at->pixels];
    if (at->smoothing == 0)
        return hit;
    double sum = 0;
    for (size_t c = 0; c < at->classes; c++)
        sum += x[c * at->pixels];
    return (1 - at->smoothing) * hit + at->smoothing * (sum / (double)at->classes);
}

/* -log(probability of the label) = log(sum of exp(x - largest)) - (x[label] - largest) */
static double pixel_loss(const loss *at, const float *x, float *probabilities, int32_t label) {
    size_t step = at->pixels;
    float largest = x[0];
    for (size_t c = 1; c < at->classes; c++)
        largest = x[c * step] > largest ? x[c * step] : largest;
    double wanted = wanted_logit(at, x, label);
    double sum = 0;
    for (size_t c = 0; c < at->classes; c++)
        sum += expf(x[c * step] - largest);
    for (size_t c = 0; c < at->classes && probabilities != NULL; c++)
        probabilities[c * step] = (float)(expf(x[c * step] - largest) / sum);
    return at->ignores && label < 0 ? 0 : log(sum) - (wanted - largest);
}

static void image_loss(void *context, uint32_t n) {
    const loss *at = context;
    size_t first = n * at->classes * at->pixels;
    double sum = 0;
    for (size_t s = 0; s < at->pixels; s++)
        sum += pixel_loss(at, at->from + first + s, at->to != NULL ? at->to + first + s : NULL,
                          at->labels[n * at->pixels + s]);
    at->losses[n] = sum;
}

uint64_t crn_ref_cross_entropy_workspace(const crn_site *site) {
    const cairn_tensor *labels = cairn_graph_tensor(site->graph, site->op->inputs[1]);
    bool tokens = site->op->kind == CAIRN_OP_TOKEN_CROSS_ENTROPY;
    return (tokens ? crn_ref_elements(labels) : labels->shape[0]) * sizeof(double);
}

/* logits [N, C, S], labels [N, S] -> loss [1], probabilities [N, C, S] */
void crn_ref_cross_entropy(const crn_call *call) {
    loss at = shape_of(call);
    at.to = crn_ref_out(call, 1);
    at.losses = call->workspace;
    crn_team_for(call->threads, (uint32_t)at.batch, image_loss, &at);
    double sum = 0;
    for (size_t n = 0; n < at.batch; n++)
        sum += at.losses[n];
    if (call->outputs[0] != NULL)
        *(float *)call->outputs[0] = (float)(sum / at.count);
}

/* (p - target) / count; without smoothing the target is 1 at the label */
static void image_bwd(void *context, uint32_t n) {
    const loss *at = context;
    const float *p = at->from + n * at->classes * at->pixels;
    float *gx = at->to + n * at->classes * at->pixels;
    float count = (float)at->count;
    if (is_ignored(at, n)) { /* of tokens, which have one label each */
        memset(gx, 0, at->classes * sizeof *gx);
        return;
    }
    float spread = (float)(at->smoothing / (double)at->classes);
    float peak = (float)(1 - at->smoothing) + spread;
    for (size_t c = 0; c < at->classes; c++)
        for (size_t s = 0; s < at->pixels; s++) {
            size_t i = c * at->pixels + s;
            bool hit = at->labels[n * at->pixels + s] == (int64_t)c;
            gx[i] = (p[i] - (hit ? peak : spread)) / count;
        }
}

/* probabilities [N, C, S], labels [N, S] -> gradient of the logits, which may be in place of the
 * probabilities */
void crn_ref_cross_entropy_bwd(const crn_call *call) {
    loss at = shape_of(call);
    at.to = call->outputs[0];
    crn_team_for(call->threads, (uint32_t)at.batch, image_bwd, &at);
}

/* ---- The loss of a chunk of tokens, in place of the logits ---- */

typedef struct lost_rows {
    loss at;
    uint8_t *hits;
} lost_rows;

static void lose_row(void *context, uint32_t r) {
    lost_rows *rows = context;
    const float *x = rows->at.from + r * rows->at.classes;
    rows->hits[r] = crn_is_likeliest(x, (uint32_t)rows->at.classes, 1, rows->at.labels[r]);
    image_loss(&rows->at, r);
    image_bwd(&rows->at, r);
}

void crn_ref_head_lose(const crn_head_chunk *chunk) {
    lost_rows rows = {.at = {.from = chunk->logits,
                             .labels = chunk->labels,
                             .to = chunk->logits,
                             .losses = chunk->losses,
                             .batch = chunk->rows,
                             .classes = chunk->words,
                             .pixels = 1,
                             .smoothing = chunk->smoothing,
                             .count = chunk->count,
                             .ignores = true},
                      .hits = chunk->hits};
    crn_team_for(chunk->threads, (uint32_t)chunk->rows, lose_row, &rows);
}
