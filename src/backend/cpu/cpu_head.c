/* cpu_head.c: the last linear layer with its loss (ref_head.c): products of oneDNN, and Cairn's own
 * softmax.
 *
 * In bf16 the weight [V, D] is rounded in slices of words, because it is larger than the rest:
 *
 *     logits [R, slice] = x slice'        gx [R, D] += g [R, slice] slice,  in fp32, rounded at the
 * end
 */
#include "backend/cpu/cpu_reals.h"

#define SLICE 2048u /* words */

/* What follows the logits in the workspace of a head in bf16. */
typedef struct rooms {
    uint64_t slice; /* [SLICE, D] in bf16 */
    uint64_t sum;   /* [R, D] in fp32 */
    uint64_t rows;  /* [V] in fp32 for each thread */
} rooms;

static rooms sizes_of(size_t rows, size_t features, size_t words, uint32_t threads) {
    return (rooms){.slice = crn_align(CRN_MIN(SLICE, words) * features * sizeof(uint16_t)),
                   .sum = crn_align(rows * features * sizeof(float)),
                   .rows = threads * words * sizeof(float)};
}

static uint64_t bytes_of_rooms(const crn_site *site, uint32_t chunks) {
    const uint32_t *weight = cairn_graph_tensor(site->graph, site->op->params[0])->shape;
    if (!crn_is_half(site->storage, site->op->inputs[0]))
        return 0;
    rooms of = sizes_of(crn_head_rows(site->graph, site->op) / chunks, weight[1], weight[0],
                        site->threads);
    /* a row of logits is used at other times than the rest */
    return CRN_MAX(of.slice + of.sum, of.rows);
}

/* ---- Slices of the weight ---- */

typedef struct slice {
    const float *weight;
    uint16_t *to;
    size_t first, words, features; /* of the slice */
} slice;

CRN_VECTORISED static void round_word(void *context, uint32_t word) {
    const slice *at = context;
    const float *from = at->weight + (at->first + word) * at->features;
    crn_reals_store((crn_reals){at->to, true}, word * at->features, at->features, from);
}

/* The slice that begins at word `first`, rounded. */
static slice round_slice(const crn_head_chunk *c, size_t first) {
    slice s = {c->weight, c->rooms, first, CRN_MIN(SLICE, c->words - first), c->features};
    crn_team_for(c->threads, (uint32_t)s.words, round_word, &s);
    return s;
}

/* The logits of the words from `first` on. */
static uint16_t *column(const crn_head_chunk *c, size_t first) {
    return (uint16_t *)c->logits + first;
}

static void multiply_half(const crn_head_chunk *c) {
    for (size_t first = 0; first < c->words; first += SLICE) {
        slice s = round_slice(c, first);
        crn_cpu_half_product(c->queue, c->threads,
                             (crn_half_product){.m = c->rows,
                                                .n = s.words,
                                                .k = c->features,
                                                .a = {c->x, c->features, false},
                                                .b = {s.to, c->features, true},
                                                .c = column(c, first),
                                                .c_pitch = c->words,
                                                .c_half = true});
    }
}

static void weigh_half(const crn_head_chunk *c) {
    crn_cpu_half_product(c->queue, c->threads,
                         (crn_half_product){.m = c->words,
                                            .n = c->features,
                                            .k = c->rows,
                                            .a = {c->logits, c->words, true},
                                            .b = {c->x, c->features, false},
                                            .c = c->weight_gradient,
                                            .c_pitch = c->features,
                                            .add = c->add});
}

typedef struct rounding {
    const float *from;
    crn_reals to;
    size_t width;
} rounding;

CRN_VECTORISED static void round_row(void *context, uint32_t r) {
    const rounding *at = context;
    crn_reals_store(at->to, r * at->width, at->width, at->from + r * at->width);
}

static void spread_half(const crn_head_chunk *c) {
    rooms of = sizes_of(c->rows, c->features, c->words, 0);
    float *sum = (void *)((char *)c->rooms + of.slice);
    for (size_t first = 0; first < c->words; first += SLICE) {
        slice s = round_slice(c, first);
        crn_cpu_half_product(c->queue, c->threads,
                             (crn_half_product){.m = c->rows,
                                                .n = c->features,
                                                .k = s.words,
                                                .a = {column(c, first), c->words, false},
                                                .b = {s.to, c->features, false},
                                                .c = sum,
                                                .c_pitch = c->features,
                                                .add = first > 0});
    }
    rounding at = {sum, {c->x_gradient, true}, c->features};
    crn_team_for(c->threads, (uint32_t)c->rows, round_row, &at);
}

/* ---- The steps ---- */

static void multiply(const crn_head_chunk *c) {
    if (c->half)
        multiply_half(c);
    else
        crn_cpu_product(c->queue, c->threads, false, true, c->rows, c->words, c->features, c->x,
                        c->weight, 0, c->logits);
}

static void weigh(const crn_head_chunk *c) {
    if (c->half)
        weigh_half(c);
    else
        crn_cpu_product(c->queue, c->threads, true, false, c->words, c->features, c->rows,
                        c->logits, c->x, c->add ? 1 : 0, c->weight_gradient);
}

static void spread(const crn_head_chunk *c) {
    if (c->half)
        spread_half(c);
    else
        crn_cpu_product(c->queue, c->threads, false, false, c->rows, c->features, c->words,
                        c->logits, c->weight, 0, c->x_gradient);
}

static const crn_head_steps steps = {multiply, crn_cpu_head_lose, weigh, spread, bytes_of_rooms};

CRN_HEAD_FUNCTIONS(1)
CRN_HEAD_FUNCTIONS(2)
CRN_HEAD_FUNCTIONS(4)
CRN_HEAD_FUNCTIONS(8)
CRN_HEAD_FUNCTIONS(16)
CRN_HEAD_FUNCTIONS(32)

const crn_kernel crn_cpu_heads[CRN_HEAD_CHOICES] = CRN_HEAD_KERNELS;
