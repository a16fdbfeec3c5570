/* cpu_attention.c: attention by oneDNN's matrix products over blocks of queries. Layouts and
 * formulas are those of the reference (ref_attention.c).
 *
 *     forward    a block of queries:  S = Q K'  ->  P, in place  ->  Y = P V
 *     backward   a head of keys with its queries, block by block:
 *                P = exp(S - stats),  dP = gY V',  dS = P (dP - gY.Y) / sqrt(d)
 *                gQ = dS K,  gK += dS' Q,  gV += P' gY
 *
 * A thread works in one or two tiles of BLOCK rows of scores: the workspace is linear in the
 * length. A causal block reads only the keys up to its last query. The order of all sums depends on
 * shapes only. */
#include "backend/cpu/cpu_internal.h"
#include "backend/cpu/cpu_math.h"

#include <math.h>
#include <oneapi/dnnl/dnnl.h>

#define BLOCK 64u /* queries */

typedef struct attention {
    const crn_call *call;
    const float *x, *y, *gy, *stats;
    float *to, *to_stats;
    float *tiles; /* of all threads */
    size_t batch, tokens, heads, kv_heads, size, pitch, blocks;
    float scale;
    bool causal;
} attention;

static attention shape_of(const crn_call *call) {
    const cairn_tensor *x = crn_ref_input(call, 0);
    const cairn_attributes *a = &call->op->attributes;
    size_t heads = (size_t)a->heads, kv_heads = (size_t)a->kv_heads;
    size_t size = x->shape[2] / (heads + 2 * kv_heads);
    return (attention){.call = call,
                       .x = call->inputs[0],
                       .to = call->outputs[0],
                       .tiles = call->workspace,
                       .batch = x->shape[0],
                       .tokens = x->shape[1],
                       .heads = heads,
                       .kv_heads = kv_heads,
                       .size = size,
                       .pitch = x->shape[2],
                       .blocks = (x->shape[1] + BLOCK - 1) / BLOCK,
                       .scale = (float)(1 / sqrt((double)size)),
                       .causal = a->causal != 0};
}

static uint64_t tile_bytes(const crn_site *site) {
    const cairn_tensor *x = cairn_graph_tensor(site->graph, site->op->inputs[0]);
    return (uint64_t)BLOCK * x->shape[1] * sizeof(float);
}

uint64_t crn_cpu_attention_workspace(const crn_site *site) {
    return site->threads * tile_bytes(site);
}

uint64_t crn_cpu_attention_bwd_workspace(const crn_site *site) {
    return 2 * site->threads * tile_bytes(site);
}

/* Head `head` of token t of sequence n: of queries below H, then of keys, then of values. */
static size_t head_at(const attention *at, size_t n, size_t t, size_t head) {
    return (n * at->tokens + t) * at->pitch + head * at->size;
}

static size_t result_at(const attention *at, size_t n, size_t t, size_t head) {
    return ((n * at->tokens + t) * at->heads + head) * at->size;
}

/* A matrix in memory, stored as its transpose or not. */
typedef struct matrix {
    const float *at;
    size_t pitch;
    bool transposed;
} matrix;

/* c [m, n] = factor * a [m, k] b [k, n] + keep * c, on the calling thread. */
static void multiply(const attention *at, size_t m, size_t n, size_t k, float factor, matrix a,
                     matrix b, float keep, float *c, size_t c_pitch) {
    dnnl_status_t status =
        dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', (dnnl_dim_t)m, (dnnl_dim_t)n,
                   (dnnl_dim_t)k, factor, a.at, (dnnl_dim_t)a.pitch, b.at, (dnnl_dim_t)b.pitch,
                   keep, c, (dnnl_dim_t)c_pitch);
    if (status != dnnl_success)
        crn_queue_fail(at->call->queue, CAIRN_ESYSTEM, "oneDNN cannot multiply matrices: status %d",
                       (int)status);
}

/* A block of queries of one head: its first token, how many there are, and the keys they see. */
typedef struct span {
    size_t n, head, key, value, first, count, keys;
} span;

static span span_of(const attention *at, size_t n, size_t head, size_t block) {
    size_t first = block * BLOCK, end = CRN_MIN(at->tokens, first + BLOCK);
    size_t key = at->heads + head / (at->heads / at->kv_heads);
    return (span){.n = n,
                  .head = head,
                  .key = key,
                  .value = key + at->kv_heads,
                  .first = first,
                  .count = end - first,
                  .keys = at->causal ? end : at->tokens};
}

/* The keys that row i of a block sees. */
static size_t seen(const attention *at, const span *s, size_t i) {
    return at->causal ? s->first + i + 1 : s->keys;
}

static void score(const attention *at, const span *s, float *tile) {
    matrix q = {at->x + head_at(at, s->n, s->first, s->head), at->pitch, false};
    matrix k = {at->x + head_at(at, s->n, 0, s->key), at->pitch, true};
    multiply(at, s->count, s->keys, at->size, at->scale, q, k, 0, tile, s->keys);
}

/* ---- forward ---- */

/* A row of scores becomes probabilities; returns the logarithm of the sum. */
CRN_VECTORISED static float soften(float *row, size_t seen_keys, size_t keys) {
    float lane[CRN_CPU_LANES] = {0}, largest = row[0];
    for (size_t i = 1; i < seen_keys; i++)
        largest = row[i] > largest ? row[i] : largest;
    size_t whole = seen_keys / CRN_CPU_LANES * CRN_CPU_LANES;
    for (size_t i = 0; i < whole; i += CRN_CPU_LANES)
        for (size_t l = 0; l < CRN_CPU_LANES; l++) {
            row[i + l] = crn_cpu_exp(row[i + l] - largest);
            lane[l] += row[i + l];
        }
    for (size_t i = whole; i < seen_keys; i++) {
        row[i] = crn_cpu_exp(row[i] - largest);
        lane[i - whole] += row[i];
    }
    float sum = crn_cpu_total(lane), factor = 1 / sum;
    for (size_t i = 0; i < seen_keys; i++)
        row[i] *= factor;
    for (size_t i = seen_keys; i < keys; i++)
        row[i] = 0;
    return largest + logf(sum);
}

static void attend_block(void *context, uint32_t index) {
    const attention *at = context;
    /* The last blocks of a causal sequence are the longest: they come first. */
    size_t block = at->blocks - 1 - index / (at->batch * at->heads);
    size_t pair = index % (at->batch * at->heads);
    span s = span_of(at, pair / at->heads, pair % at->heads, block);
    float *tile = at->tiles + crn_cpu_thread() * BLOCK * at->tokens;
    crn_cpu_region before = crn_cpu_enter(1);
    score(at, &s, tile);
    for (size_t i = 0; i < s.count; i++) {
        float stats = soften(tile + i * s.keys, seen(at, &s, i), s.keys);
        if (at->to_stats != NULL)
            at->to_stats[pair * at->tokens + s.first + i] = stats;
    }
    multiply(at, s.count, at->size, s.keys, 1, (matrix){tile, s.keys, false},
             (matrix){at->x + head_at(at, s.n, 0, s.value), at->pitch, false}, 0,
             at->to + result_at(at, s.n, s.first, s.head), at->heads * at->size);
    crn_cpu_leave(before);
}

/* x [N, T, (H + 2K) * d] -> y [N, T, H * d], stats [N, H, T] */
void crn_cpu_attention(const crn_call *call) {
    attention at = shape_of(call);
    at.to_stats = crn_ref_out(call, 1);
    crn_team_for(call->threads, (uint32_t)(at.batch * at.heads * at.blocks), attend_block, &at);
}

/* ---- backward ---- */

/* A row of scores becomes probabilities, and its gradient that of the scores. */
CRN_VECTORISED static void differentiate_row(float *restrict p, float *restrict g, float stats,
                                             float along, float scale, size_t seen_keys,
                                             size_t keys) {
    for (size_t i = 0; i < seen_keys; i++) {
        p[i] = crn_cpu_exp(p[i] - stats);
        g[i] = p[i] * (g[i] - along) * scale;
    }
    for (size_t i = seen_keys; i < keys; i++)
        p[i] = g[i] = 0;
}

static void differentiate_block(const attention *at, const span *s, float *p, float *g) {
    size_t result = result_at(at, s->n, s->first, s->head), wide = at->heads * at->size;
    size_t own = head_at(at, s->n, s->first, s->head);
    size_t key = head_at(at, s->n, 0, s->key), value = head_at(at, s->n, 0, s->value);
    const float *stats = at->stats + (s->n * at->heads + s->head) * at->tokens + s->first;
    matrix gy = {at->gy + result, wide, false};
    score(at, s, p);
    multiply(at, s->count, s->keys, at->size, 1, gy, (matrix){at->x + value, at->pitch, true}, 0, g,
             s->keys);
    for (size_t i = 0; i < s->count; i++) {
        float along = crn_ref_dot(at->gy + result + i * wide, at->y + result + i * wide, at->size);
        differentiate_row(p + i * s->keys, g + i * s->keys, stats[i], along, at->scale,
                          seen(at, s, i), s->keys);
    }
    multiply(at, s->count, at->size, s->keys, 1, (matrix){g, s->keys, false},
             (matrix){at->x + key, at->pitch, false}, 0, at->to + own, at->pitch);
    multiply(at, s->keys, at->size, s->count, 1, (matrix){g, s->keys, true},
             (matrix){at->x + own, at->pitch, false}, 1, at->to + key, at->pitch);
    multiply(at, s->keys, at->size, s->count, 1, (matrix){p, s->keys, true}, gy, 1, at->to + value,
             at->pitch);
}

/* A head of keys and values, with all heads of queries that share it. */
static void differentiate_group(void *context, uint32_t index) {
    const attention *at = context;
    size_t n = index / at->kv_heads, kv = index % at->kv_heads, group = at->heads / at->kv_heads;
    float *p = at->tiles + 2 * crn_cpu_thread() * BLOCK * at->tokens;
    for (size_t t = 0; t < at->tokens; t++) {
        memset(at->to + head_at(at, n, t, at->heads + kv), 0, at->size * sizeof *at->to);
        memset(at->to + head_at(at, n, t, at->heads + at->kv_heads + kv), 0,
               at->size * sizeof *at->to);
    }
    crn_cpu_region before = crn_cpu_enter(1);
    for (size_t head = kv * group; head < (kv + 1) * group; head++)
        for (size_t block = 0; block < at->blocks; block++) {
            span s = span_of(at, n, head, block);
            differentiate_block(at, &s, p, p + BLOCK * at->tokens);
        }
    crn_cpu_leave(before);
}

/* x, y, stats, gy -> gx */
void crn_cpu_attention_bwd(const crn_call *call) {
    attention at = shape_of(call);
    at.y = call->inputs[1];
    at.stats = call->inputs[2];
    at.gy = call->inputs[3];
    crn_team_for(call->threads, (uint32_t)(at.batch * at.kv_heads), differentiate_group, &at);
}
