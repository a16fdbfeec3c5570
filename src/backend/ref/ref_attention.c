/* ref_attention.c: rotary embedding and attention.
 *
 * Queries, keys and values are one tensor [N, T, (H + 2K) * d]: H heads of queries, then K of keys,
 * then K of values. H is a multiple of K, and heads h of the queries share head h / (H / K) of keys
 * and values. With s the scaled score of a query and a key, and the sum over the keys that the
 * query sees:
 *
 *     stats = log(sum of exp(s))        P = exp(s - stats)        y = sum of P * v
 *     gs = P * (gy . v - gy . y) / sqrt(d)     gq = sum of gs * k;  over queries: gk = sum of gs *
 * q gv = sum of P * gy
 *
 * Scores are computed where they are used and never stored: the memory is linear in T. */
#include "backend/ref/ref_kernels.h"
#include "backend/rotary_frequency.h"

#include <math.h>

typedef struct attention {
    const float *x, *y, *gy, *stats; /* y, gy: [N, T, H*d]; stats [N, H, T] */
    float *to, *to_stats;            /* y; backward: gx */
    size_t tokens, heads, kv_heads, size, pitch;
    const cairn_attributes *attributes;
    float scale;
    bool causal, inverse;
} attention;

static attention shape_of(const crn_call *call, const cairn_tensor *x) {
    const cairn_attributes *a = &call->op->attributes;
    size_t heads = (size_t)a->heads, kv_heads = (size_t)a->kv_heads;
    size_t size = x->shape[2] / (heads + 2 * kv_heads);
    return (attention){.x = call->inputs[0],
                       .to = call->outputs[0],
                       .tokens = x->shape[1],
                       .heads = heads,
                       .kv_heads = kv_heads,
                       .size = size,
                       .pitch = x->shape[2],
                       .attributes = a,
                       .scale = (float)(1 / sqrt((double)size)),
                       .causal = a->causal != 0};
}

/* ---- Rotary embedding ---- */

/* Token t: the pair (x[i], x[i + d/2]) of each head of queries and keys is rotated by the angle
 * t * theta^(-2i/d), or a scaled one (rotary_frequency.h). */
static void rotate_token(void *context, uint32_t r) {
    const attention *at = context;
    const float *x = at->x + r * at->pitch;
    float *y = at->to + r * at->pitch;
    size_t half = at->size / 2, rotated = at->heads + at->kv_heads;
    for (size_t i = 0; i < half; i++) {
        double angle = (double)(r % at->tokens) *
                       crn_rotary_frequency(at->attributes, (uint32_t)i, (uint32_t)half);
        float c = (float)cos(angle), s = (float)(at->inverse ? -sin(angle) : sin(angle));
        for (size_t h = 0; h < rotated; h++) {
            size_t k = h * at->size + i;
            float a = x[k], b = x[k + half];
            y[k] = a * c - b * s;
            y[k + half] = b * c + a * s;
        }
    }
    if (y != x)
        memcpy(y + rotated * at->size, x + rotated * at->size, at->kv_heads * at->size * sizeof *y);
}

static void rotate(const crn_call *call, bool inverse) {
    attention at = shape_of(call, crn_ref_input(call, 0));
    at.inverse = inverse;
    crn_team_for(call->threads, (uint32_t)crn_ref_rows(crn_ref_input(call, 0)), rotate_token, &at);
}

/* x [N, T, (H + 2K) * d] -> y; values are copied */
void crn_ref_rotary(const crn_call *call) {
    rotate(call, false);
}

/* gy -> gx */
void crn_ref_rotary_bwd(const crn_call *call) {
    rotate(call, true);
}

/* ---- Attention ---- */

/* Head `head` of token t of sequence n: of queries below H, then of keys, then of values. */
static size_t head_at(const attention *at, size_t n, size_t t, size_t head) {
    return (n * at->tokens + t) * at->pitch + head * at->size;
}

static size_t result_at(const attention *at, size_t n, size_t t, size_t head) {
    return ((n * at->tokens + t) * at->heads + head) * at->size;
}

static size_t keys_of(const attention *at, size_t t) {
    return at->causal ? t + 1 : at->tokens;
}

/* One query. */
static void attend_query(const attention *at, size_t n, size_t head, size_t t) {
    size_t key = at->heads + head / (at->heads / at->kv_heads), value = key + at->kv_heads;
    const float *q = at->x + head_at(at, n, t, head);
    float *y = at->to + result_at(at, n, t, head), largest = -INFINITY;
    for (size_t s = 0; s < keys_of(at, t); s++)
        largest =
            fmaxf(largest, at->scale * crn_ref_dot(q, at->x + head_at(at, n, s, key), at->size));
    double sum = 0;
    for (size_t s = 0; s < keys_of(at, t); s++)
        sum += expf(at->scale * crn_ref_dot(q, at->x + head_at(at, n, s, key), at->size) - largest);
    memset(y, 0, at->size * sizeof *y);
    for (size_t s = 0; s < keys_of(at, t); s++) {
        float score = at->scale * crn_ref_dot(q, at->x + head_at(at, n, s, key), at->size);
        crn_ref_add_scaled(y, at->x + head_at(at, n, s, value),
                           (float)(expf(score - largest) / sum), at->size);
    }
    if (at->to_stats != NULL)
        at->to_stats[(n * at->heads + head) * at->tokens + t] = (float)(largest + log(sum));
}

static void attend_head(void *context, uint32_t index) {
    const attention *at = context;
    for (size_t t = 0; t < at->tokens; t++)
        attend_query(at, index / at->heads, index % at->heads, t);
}

/* x [N, T, (H + 2K) * d] -> y [N, T, H * d], stats [N, H, T] */
void crn_ref_attention(const crn_call *call) {
    const cairn_tensor *x = crn_ref_input(call, 0);
    attention at = shape_of(call, x);
    at.to_stats = crn_ref_out(call, 1);
    crn_team_for(call->threads, x->shape[0] * (uint32_t)at.heads, attend_head, &at);
}

/* What one query adds to the gradients of itself, of the keys and of the values. */
static void differentiate_query(const attention *at, size_t n, size_t head, size_t t) {
    size_t key = at->heads + head / (at->heads / at->kv_heads), value = key + at->kv_heads;
    size_t own = head_at(at, n, t, head), result = result_at(at, n, t, head);
    const float *q = at->x + own, *gy = at->gy + result;
    float stats = at->stats[(n * at->heads + head) * at->tokens + t];
    float along = crn_ref_dot(gy, at->y + result, at->size);
    for (size_t s = 0; s < keys_of(at, t); s++) {
        size_t k = head_at(at, n, s, key), v = head_at(at, n, s, value);
        float p = expf(at->scale * crn_ref_dot(q, at->x + k, at->size) - stats);
        float gs = p * (crn_ref_dot(gy, at->x + v, at->size) - along) * at->scale;
        crn_ref_add_scaled(at->to + own, at->x + k, gs, at->size);
        crn_ref_add_scaled(at->to + k, q, gs, at->size);
        crn_ref_add_scaled(at->to + v, gy, p, at->size);
    }
}

/* A head of keys and values with all heads of queries that share it. */
static void differentiate_group(void *context, uint32_t index) {
    const attention *at = context;
    size_t n = index / at->kv_heads, kv = index % at->kv_heads, group = at->heads / at->kv_heads;
    for (size_t t = 0; t < at->tokens; t++) {
        memset(at->to + head_at(at, n, t, kv * group), 0, group * at->size * sizeof *at->to);
        memset(at->to + head_at(at, n, t, at->heads + kv), 0, at->size * sizeof *at->to);
        memset(at->to + head_at(at, n, t, at->heads + at->kv_heads + kv), 0,
               at->size * sizeof *at->to);
    }
    for (size_t head = kv * group; head < (kv + 1) * group; head++)
        for (size_t t = 0; t < at->tokens; t++)
            differentiate_query(at, n, head, t);
}

/* x, y, stats, gy -> gx */
void crn_ref_attention_bwd(const crn_call *call) {
    const cairn_tensor *x = crn_ref_input(call, 0);
    attention at = shape_of(call, x);
    at.y = call->inputs[1];
    at.stats = call->inputs[2];
    at.gy = call->inputs[3];
    crn_team_for(call->threads, x->shape[0] * (uint32_t)at.kv_heads, differentiate_group, &at);
}
