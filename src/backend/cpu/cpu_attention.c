/* cpu_attention.c: attention by oneDNN's matrix products over blocks of queries. Layouts and
 * formulas are those of the reference (ref_attention.c).
 *
 *     forward    a block of queries:  S = Q K'  ->  P, in place  ->  Y = P V
 *     backward   a head of keys with its queries, block by block:
 *                P = exp(S - stats),  dP = gY V',  dS = P (dP - gY.Y) / sqrt(d)
 *                gQ = dS K,  gK += dS' Q,  gV += P' gY
 *
 * A thread works in one or two tiles of BLOCK rows of scores: the workspace is linear in the
 * length. Heads that are stored as bf16 are copied behind the tiles as fp32, and so are the results
 * until they are rounded; products of such numbers are exact in fp32. A causal block reads only the
 * keys up to its last query. The order of all sums depends on shapes only. */
#include "backend/cpu/cpu_reals.h"

#include <math.h>
#include <oneapi/dnnl/dnnl.h>

#define BLOCK 64u /* queries */

typedef struct attention {
    const crn_call *call;
    crn_reals x, y, gy, to; /* of one type */
    const float *stats;
    float *to_stats;
    float *rooms; /* of all threads, each of `room` floats: tiles, then copies */
    size_t room;
    size_t batch, tokens, heads, kv_heads, size, pitch, blocks;
    float scale;
    bool causal;
} attention;

/* The floats of a thread: `tiles` of them, and copies of so many heads and of so many blocks. */
static size_t room_of(const cairn_tensor *x, const cairn_attributes *a, bool half, size_t tiles,
                      size_t heads, size_t blocks) {
    size_t size = x->shape[2] / (size_t)(a->heads + 2 * a->kv_heads), tokens = x->shape[1];
    return tiles * BLOCK * tokens + (half ? (heads * tokens + blocks * BLOCK) * size : 0);
}

static size_t forward_room(const cairn_tensor *x, const cairn_attributes *a, bool half) {
    return room_of(x, a, half, 1, 2, 2); /* keys, values; queries, the result */
}

static size_t backward_room(const cairn_tensor *x, const cairn_attributes *a, bool half) {
    /* keys, values, their gradients; queries, their gradient, the result, its gradient */
    return room_of(x, a, half, 2, 4, 4);
}

static attention shape_of(const crn_call *call) {
    const cairn_tensor *x = crn_ref_input(call, 0);
    const cairn_attributes *a = &call->op->attributes;
    size_t heads = (size_t)a->heads, kv_heads = (size_t)a->kv_heads;
    size_t size = x->shape[2] / (heads + 2 * kv_heads);
    return (attention){.call = call,
                       .x = crn_reals_input(call, 0),
                       .to = crn_reals_output(call, 0),
                       .rooms = call->workspace,
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

uint64_t crn_cpu_attention_workspace(const crn_site *site) {
    const cairn_id x = site->op->inputs[0];
    return site->threads * sizeof(float) *
           forward_room(cairn_graph_tensor(site->graph, x), &site->op->attributes,
                        crn_is_half(site->storage, x));
}

uint64_t crn_cpu_attention_bwd_workspace(const crn_site *site) {
    const cairn_id x = site->op->inputs[0];
    return site->threads * sizeof(float) *
           backward_room(cairn_graph_tensor(site->graph, x), &site->op->attributes,
                         crn_is_half(site->storage, x));
}

/* Head `head` of token t of sequence n: of queries below H, then of keys, then of values. */
static size_t head_at(const attention *at, size_t n, size_t t, size_t head) {
    return (n * at->tokens + t) * at->pitch + head * at->size;
}

static size_t result_at(const attention *at, size_t n, size_t t, size_t head) {
    return ((n * at->tokens + t) * at->heads + head) * at->size;
}

/* Rows of floats in memory. */
typedef struct matrix {
    float *at;
    size_t pitch;
} matrix;

/* Rows of one head, from an element on, as they are stored. */
typedef struct head_rows {
    crn_reals of;
    size_t first, pitch, count;
} head_rows;

/* Where to compute such rows: in their place, or in the next free rows of the room. */
static matrix room_for(const attention *at, head_rows rows, float **room) {
    if (!rows.of.half)
        return (matrix){(float *)rows.of.at + rows.first, rows.pitch};
    matrix m = {*room, at->size};
    *room += rows.count * at->size;
    return m;
}

/* The rows as floats. */
CRN_VECTORISED static matrix load(const attention *at, head_rows rows, float **room) {
    matrix m = room_for(at, rows, room);
    for (size_t i = 0; i < rows.count && rows.of.half; i++)
        (void)crn_reals_load(rows.of, rows.first + i * rows.pitch, at->size, m.at + i * m.pitch);
    return m;
}

CRN_VECTORISED static void store(const attention *at, head_rows rows, matrix from) {
    for (size_t i = 0; i < rows.count && rows.of.half; i++)
        crn_reals_store(rows.of, rows.first + i * rows.pitch, at->size, from.at + i * from.pitch);
}

/* c [m, n] = factor * a [m, k] b [k, n] + keep * c, on the calling thread. 'T': the operand is
 * stored as its transpose. */
static void multiply(const attention *at, size_t m, size_t n, size_t k, float factor, char a_form,
                     matrix a, char b_form, matrix b, float keep, matrix c) {
    dnnl_status_t status =
        dnnl_sgemm(a_form, b_form, (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, factor, a.at,
                   (dnnl_dim_t)a.pitch, b.at, (dnnl_dim_t)b.pitch, keep, c.at, (dnnl_dim_t)c.pitch);
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

/* The queries of a block, keys and values of its head, and what they make; also their gradients. */
static head_rows queries_of(const attention *at, crn_reals of, const span *s) {
    return (head_rows){of, head_at(at, s->n, s->first, s->head), at->pitch, s->count};
}

static head_rows keys_of(const attention *at, crn_reals of, size_t n, size_t head, size_t count) {
    return (head_rows){of, head_at(at, n, 0, head), at->pitch, count};
}

static head_rows results_of(const attention *at, crn_reals of, const span *s) {
    return (head_rows){of, result_at(at, s->n, s->first, s->head), at->heads * at->size, s->count};
}

static void score(const attention *at, const span *s, matrix q, matrix k, matrix tile) {
    multiply(at, s->count, s->keys, at->size, at->scale, 'N', q, 'T', k, 0, tile);
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
    float *room = at->rooms + crn_cpu_thread() * at->room;
    matrix tile = {room, s.keys};
    room += BLOCK * at->tokens;
    matrix q = load(at, queries_of(at, at->x, &s), &room);
    matrix k = load(at, keys_of(at, at->x, s.n, s.key, s.keys), &room);
    matrix v = load(at, keys_of(at, at->x, s.n, s.value, s.keys), &room);
    head_rows results = results_of(at, at->to, &s);
    matrix y = room_for(at, results, &room);
    crn_cpu_region before = crn_cpu_enter(1);
    score(at, &s, q, k, tile);
    for (size_t i = 0; i < s.count; i++) {
        float stats = soften(tile.at + i * s.keys, seen(at, &s, i), s.keys);
        if (at->to_stats != NULL)
            at->to_stats[pair * at->tokens + s.first + i] = stats;
    }
    multiply(at, s.count, at->size, s.keys, 1, 'N', tile, 'N', v, 0, y);
    crn_cpu_leave(before);
    store(at, results, y);
}

/* x [N, T, (H + 2K) * d] -> y [N, T, H * d], stats [N, H, T] */
void crn_cpu_attention(const crn_call *call) {
    attention at = shape_of(call);
    at.to_stats = crn_ref_out(call, 1);
    at.room = forward_room(crn_ref_input(call, 0), &call->op->attributes, at.x.half);
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

/* Keys and values of a head, and their gradients so far. */
typedef struct shared_head {
    matrix k, v, gk, gv;
} shared_head;

static void differentiate_block(const attention *at, const span *s, const shared_head *h,
                                float *tiles, float *room) {
    const float *stats = at->stats + (s->n * at->heads + s->head) * at->tokens + s->first;
    matrix p = {tiles, s->keys}, g = {tiles + BLOCK * at->tokens, s->keys};
    matrix q = load(at, queries_of(at, at->x, s), &room);
    matrix y = load(at, results_of(at, at->y, s), &room);
    matrix gy = load(at, results_of(at, at->gy, s), &room);
    head_rows queries = queries_of(at, at->to, s);
    matrix gq = room_for(at, queries, &room);
    score(at, s, q, h->k, p);
    multiply(at, s->count, s->keys, at->size, 1, 'N', gy, 'T', h->v, 0, g);
    for (size_t i = 0; i < s->count; i++) {
        float along = crn_ref_dot(gy.at + i * gy.pitch, y.at + i * y.pitch, at->size);
        differentiate_row(p.at + i * s->keys, g.at + i * s->keys, stats[i], along, at->scale,
                          seen(at, s, i), s->keys);
    }
    multiply(at, s->count, at->size, s->keys, 1, 'N', g, 'N', h->k, 0, gq);
    multiply(at, s->keys, at->size, s->count, 1, 'T', g, 'N', q, 1, h->gk);
    multiply(at, s->keys, at->size, s->count, 1, 'T', p, 'N', gy, 1, h->gv);
    store(at, queries, gq);
}

/* A head of keys and values, with all heads of queries that share it. */
static void differentiate_group(void *context, uint32_t index) {
    const attention *at = context;
    size_t n = index / at->kv_heads, kv = index % at->kv_heads, group = at->heads / at->kv_heads;
    size_t key = at->heads + kv, value = key + at->kv_heads;
    float *tiles = at->rooms + crn_cpu_thread() * at->room, *room = tiles + 2 * BLOCK * at->tokens;
    head_rows keys = keys_of(at, at->to, n, key, at->tokens),
              values = keys_of(at, at->to, n, value, at->tokens);
    shared_head h = {.k = load(at, keys_of(at, at->x, n, key, at->tokens), &room),
                     .v = load(at, keys_of(at, at->x, n, value, at->tokens), &room),
                     .gk = room_for(at, keys, &room),
                     .gv = room_for(at, values, &room)};
    for (size_t t = 0; t < at->tokens; t++) {
        memset(h.gk.at + t * h.gk.pitch, 0, at->size * sizeof *h.gk.at);
        memset(h.gv.at + t * h.gv.pitch, 0, at->size * sizeof *h.gv.at);
    }
    crn_cpu_region before = crn_cpu_enter(1);
    for (size_t head = kv * group; head < (kv + 1) * group; head++)
        for (size_t block = 0; block < at->blocks; block++) {
            span s = span_of(at, n, head, block);
            differentiate_block(at, &s, &h, tiles, room);
        }
    crn_cpu_leave(before);
    store(at, keys, h.gk);
    store(at, values, h.gv);
}

/* x, y, stats, gy -> gx */
void crn_cpu_attention_bwd(const crn_call *call) {
    attention at = shape_of(call);
    at.y = crn_reals_input(call, 1);
    at.stats = call->inputs[2];
    at.gy = crn_reals_input(call, 3);
    at.room = backward_room(crn_ref_input(call, 0), &call->op->attributes, at.x.half);
    crn_team_for(call->threads, (uint32_t)(at.batch * at.kv_heads), differentiate_group, &at);
}
