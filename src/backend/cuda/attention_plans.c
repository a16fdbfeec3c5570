/* attention_plans.c: see attention_plans.h. The graphs, with [b, h, rows, columns] tensors:
 *
 *     forward     S = Q K' * scale;  M = S, or -inf where the key is behind the query
 *                 stats = max M + log(sum of exp(M - max M));  P = exp(M - max M) / sum;  O = P V
 *     backward    D = sum of dO * O;  P = exp(mask(Q K' * scale - stats));  dV = P' dO
 *                 dS = (dO V' - D) * P * scale;  dK = dS' Q;  dQ = dS K
 *
 * cuDNN recognises these patterns, node by node, and makes one kernel of each. */
#include "backend/cuda/attention_plans.h"
#include "backend/cuda/dnn_graphs.h"

#include <math.h>

typedef cudnnBackendDescriptor_t descriptor;

enum { /* tensors with addresses; virtual ones follow */
       ID_Q = 1,
       ID_K,
       ID_V,
       ID_Y,
       ID_STATS,
       ID_GY,
       ID_GQ,
       ID_GK,
       ID_GV,
       ID_SUMS,
       ID_SCALE,
       ID_LOW,
       ID_ONE,
       ID_VIRTUAL = 100
};

#define MOST_OPS 32
#define ALIGNMENT 16 /* of addresses, bytes */

typedef struct graph {
    crn_dnn_work w;
    const crn_attention_shape *s;
    descriptor ops[MOST_OPS];
    uint32_t op_count;
    int64_t next_virtual;
} graph;

/* ---- Tensors ---- */

typedef struct tensor {
    descriptor at;
    int64_t sizes[4], strides[4];
} tensor;

enum { REAL, VIRTUAL, BY_VALUE };

static tensor make_tensor(graph *g, int64_t id, int type, int sort, const int64_t sizes[4],
                          const int64_t strides[4]) {
    static const int64_t alignment = ALIGNMENT;
    static const bool yes = true;
    crn_dnn_work *w = &g->w;
    tensor t = {.at = crn_dnn_make(w, CRN_DNN_TENSOR)};
    memcpy(t.sizes, sizes, sizeof t.sizes);
    memcpy(t.strides, strides, sizeof t.strides);
    if (sort == VIRTUAL)
        id = g->next_virtual++;
    crn_dnn_set(w, t.at, CRN_DNN_TENSOR_TYPE, CRN_DNN_DATA_TYPE, 1, &type);
    crn_dnn_set(w, t.at, CRN_DNN_TENSOR_DIMENSIONS, CRN_DNN_INT64, 4, sizes);
    crn_dnn_set(w, t.at, CRN_DNN_TENSOR_STRIDES, CRN_DNN_INT64, 4, strides);
    crn_dnn_set(w, t.at, CRN_DNN_TENSOR_ID, CRN_DNN_INT64, 1, &id);
    crn_dnn_set(w, t.at, CRN_DNN_TENSOR_ALIGNMENT, CRN_DNN_INT64, 1, &alignment);
    if (sort != REAL)
        crn_dnn_set(w, t.at, sort == VIRTUAL ? CRN_DNN_TENSOR_VIRTUAL : CRN_DNN_TENSOR_BY_VALUE,
                    CRN_DNN_BOOLEAN, 1, &yes);
    crn_dnn_finish(w, t.at);
    return t;
}

static tensor make_scalar(graph *g, int64_t id) {
    static const int64_t ones[4] = {1, 1, 1, 1};
    return make_tensor(g, id, CRN_DNN_DATA_FLOAT, BY_VALUE, ones, ones);
}

static tensor make_like(graph *g, tensor t, int type) {
    return make_tensor(g, 0, type, VIRTUAL, t.sizes, t.strides);
}

/* Heads of x, or of y, as [batch, heads, T, d]; turned: [batch, heads, d, T] over the same
 * memory. */
static tensor make_heads(graph *g, int64_t id, int64_t heads, bool of_y, bool turned) {
    const crn_attention_shape *s = g->s;
    int64_t pitch = (of_y ? s->all_heads : s->all_heads + 2 * s->all_kv_heads) * s->size;
    const int64_t sizes[4] = {s->batch, heads, turned ? s->size : s->tokens,
                              turned ? s->tokens : s->size};
    const int64_t strides[4] = {s->tokens * pitch, s->size, turned ? 1 : pitch, turned ? pitch : 1};
    return make_tensor(g, id, CRN_DNN_DATA_BF16, REAL, sizes, strides);
}

/* Virtual heads of queries without gaps. */
static tensor make_dense(graph *g, int type) {
    const crn_attention_shape *s = g->s;
    const int64_t sizes[4] = {s->batch, s->heads, s->tokens, s->size};
    const int64_t strides[4] = {s->heads * s->tokens * s->size, s->tokens * s->size, s->size, 1};
    return make_tensor(g, 0, type, VIRTUAL, sizes, strides);
}

/* Scores [batch, heads, T, T]; turned: by columns. */
static tensor make_square(graph *g, int type, bool turned) {
    const crn_attention_shape *s = g->s;
    int64_t square = s->tokens * s->tokens;
    const int64_t sizes[4] = {s->batch, s->heads, s->tokens, s->tokens};
    const int64_t strides[4] = {s->heads * square, square, turned ? 1 : s->tokens,
                                turned ? s->tokens : 1};
    return make_tensor(g, 0, type, VIRTUAL, sizes, strides);
}

/* A number for each query; those of `heads_apart` heads are a sequence's. */
static tensor make_rows(graph *g, int64_t id, int sort, int64_t heads_apart) {
    const crn_attention_shape *s = g->s;
    const int64_t sizes[4] = {s->batch, s->heads, s->tokens, 1};
    const int64_t strides[4] = {heads_apart * s->tokens, s->tokens, 1, 1};
    return make_tensor(g, id, CRN_DNN_DATA_FLOAT, sort, sizes, strides);
}

/* ---- Operations ---- */

static void add_op(graph *g, descriptor op) {
    crn_dnn_finish(&g->w, op);
    g->ops[g->op_count++] = op;
}

static void give(graph *g, descriptor op, int name, const descriptor *operand) {
    crn_dnn_set(&g->w, op, name, CRN_DNN_DESCRIPTOR, 1, operand);
}

/* y = mode(x), mode(x, b) or, with `t`, t ? x : b; the axis is that of an index. */
static void add_pointwise(graph *g, int mode, int compute, int64_t axis, tensor x, const tensor *b,
                          const tensor *t, tensor y) {
    crn_dnn_work *w = &g->w;
    descriptor sort = crn_dnn_make(w, CRN_DNN_POINTWISE);
    crn_dnn_set(w, sort, CRN_DNN_POINTWISE_MODE, CRN_DNN_POINTWISE_TYPE, 1, &mode);
    crn_dnn_set(w, sort, CRN_DNN_POINTWISE_COMPUTE, CRN_DNN_DATA_TYPE, 1, &compute);
    if (mode == CRN_DNN_DO_INDEX)
        crn_dnn_set(w, sort, CRN_DNN_POINTWISE_AXIS, CRN_DNN_INT64, 1, &axis);
    crn_dnn_finish(w, sort);
    descriptor op = crn_dnn_make(w, CRN_DNN_POINTWISE_OP);
    give(g, op, CRN_DNN_POINTWISE_OP_SORT, &sort);
    give(g, op, CRN_DNN_POINTWISE_OP_X, &x.at);
    if (b != NULL)
        give(g, op, CRN_DNN_POINTWISE_OP_B, &b->at);
    if (t != NULL)
        give(g, op, CRN_DNN_POINTWISE_OP_T, &t->at);
    give(g, op, CRN_DNN_POINTWISE_OP_Y, &y.at);
    add_op(g, op);
}

static void add_binary(graph *g, int mode, tensor x, tensor b, tensor y) {
    add_pointwise(g, mode, CRN_DNN_DATA_FLOAT, 0, x, &b, NULL, y);
}

static void add_unary(graph *g, int mode, tensor x, tensor y) {
    add_pointwise(g, mode, CRN_DNN_DATA_FLOAT, 0, x, NULL, NULL, y);
}

static void add_product(graph *g, tensor a, tensor b, tensor c) {
    static const int compute = CRN_DNN_DATA_FLOAT;
    crn_dnn_work *w = &g->w;
    descriptor sort = crn_dnn_make(w, CRN_DNN_PRODUCT);
    crn_dnn_set(w, sort, CRN_DNN_PRODUCT_COMPUTE, CRN_DNN_DATA_TYPE, 1, &compute);
    crn_dnn_finish(w, sort);
    descriptor op = crn_dnn_make(w, CRN_DNN_PRODUCT_OP);
    give(g, op, CRN_DNN_PRODUCT_OP_A, &a.at);
    give(g, op, CRN_DNN_PRODUCT_OP_B, &b.at);
    give(g, op, CRN_DNN_PRODUCT_OP_C, &c.at);
    give(g, op, CRN_DNN_PRODUCT_OP_SORT, &sort);
    add_op(g, op);
}

static void add_reduction(graph *g, int mode, tensor x, tensor y) {
    static const int compute = CRN_DNN_DATA_FLOAT;
    crn_dnn_work *w = &g->w;
    descriptor sort = crn_dnn_make(w, CRN_DNN_REDUCTION);
    crn_dnn_set(w, sort, CRN_DNN_REDUCTION_MODE, CRN_DNN_REDUCTION_TYPE, 1, &mode);
    crn_dnn_set(w, sort, CRN_DNN_REDUCTION_COMPUTE, CRN_DNN_DATA_TYPE, 1, &compute);
    crn_dnn_finish(w, sort);
    descriptor op = crn_dnn_make(w, CRN_DNN_REDUCTION_OP);
    give(g, op, CRN_DNN_REDUCTION_OP_X, &x.at);
    give(g, op, CRN_DNN_REDUCTION_OP_Y, &y.at);
    give(g, op, CRN_DNN_REDUCTION_OP_SORT, &sort);
    add_op(g, op);
}

static void add_reshape(graph *g, tensor x, tensor y) {
    descriptor op = crn_dnn_make(&g->w, CRN_DNN_RESHAPE_OP);
    give(g, op, CRN_DNN_RESHAPE_OP_X, &x.at);
    give(g, op, CRN_DNN_RESHAPE_OP_Y, &y.at);
    add_op(g, op);
}

/* ---- The graphs ---- */

static tensor new_square(graph *g) {
    return make_square(g, CRN_DNN_DATA_FLOAT, false);
}

static tensor new_rows(graph *g) {
    return make_rows(g, 0, VIRTUAL, g->s->heads);
}

static tensor scaled_scores(graph *g, tensor q, tensor k_turned, tensor scale) {
    tensor raw = new_square(g), scaled = new_square(g);
    add_product(g, q, k_turned, raw);
    add_binary(g, CRN_DNN_DO_MULTIPLY, raw, scale, scaled);
    return scaled;
}

/* -inf where the key comes after the query. */
static tensor mask(graph *g, tensor x) {
    if (!g->s->causal)
        return x;
    tensor query = make_like(g, x, CRN_DNN_DATA_INT32), key = make_like(g, x, CRN_DNN_DATA_INT32);
    tensor seen = make_like(g, x, CRN_DNN_DATA_BOOLEAN), masked = new_square(g);
    tensor low = make_scalar(g, ID_LOW);
    add_pointwise(g, CRN_DNN_DO_INDEX, CRN_DNN_DATA_FLOAT, 2, x, NULL, NULL, query);
    add_pointwise(g, CRN_DNN_DO_INDEX, CRN_DNN_DATA_FLOAT, 3, x, NULL, NULL, key);
    add_pointwise(g, CRN_DNN_DO_NOT_LESS, CRN_DNN_DATA_BOOLEAN, 0, query, &key, NULL, seen);
    add_pointwise(g, CRN_DNN_DO_SELECT, CRN_DNN_DATA_FLOAT, 0, x, &low, &seen, masked);
    return masked;
}

static void add_forward(graph *g) {
    const crn_attention_shape *s = g->s;
    tensor q = make_heads(g, ID_Q, s->heads, false, false);
    tensor k_turned = make_heads(g, ID_K, s->kv_heads, false, true);
    tensor v = make_heads(g, ID_V, s->kv_heads, false, false);
    tensor y = make_heads(g, ID_Y, s->heads, true, false);
    tensor stats = make_rows(g, ID_STATS, REAL, s->all_heads);
    tensor masked = mask(g, scaled_scores(g, q, k_turned, make_scalar(g, ID_SCALE)));
    tensor largest = new_rows(g), sum = new_rows(g), logarithm = new_rows(g);
    tensor less = new_square(g), power = new_square(g);
    tensor p = make_square(g, CRN_DNN_DATA_BF16, false);
    add_reduction(g, CRN_DNN_REDUCE_MAX, masked, largest);
    add_binary(g, CRN_DNN_DO_SUBTRACT, masked, largest, less);
    add_unary(g, CRN_DNN_DO_EXP, less, power);
    add_reduction(g, CRN_DNN_REDUCE_ADD, power, sum);
    add_unary(g, CRN_DNN_DO_LOG, sum, logarithm);
    add_binary(g, CRN_DNN_DO_ADD, largest, logarithm, stats);
    add_binary(g, CRN_DNN_DO_DIVIDE, power, sum, p);
    add_product(g, p, v, y);
}

/* The gradient of keys or values. The product is that of all heads of queries; heads that share
 * keys are added. */
static void add_shared_gradient(graph *g, tensor weights, tensor rows, tensor out) {
    if (g->s->heads == g->s->kv_heads) {
        add_product(g, weights, rows, out);
        return;
    }
    tensor apart = make_dense(g, CRN_DNN_DATA_BF16);
    add_product(g, weights, rows, apart);
    add_reduction(g, CRN_DNN_REDUCE_ADD, apart, out);
}

/* D = sum of dO * O; the factor 1 belongs to the pattern. */
static tensor add_sums(graph *g, tensor gy) {
    tensor y = make_heads(g, ID_Y, g->s->heads, true, false);
    tensor product = make_dense(g, CRN_DNN_DATA_FLOAT), sum = new_rows(g);
    tensor sums = make_rows(g, ID_SUMS, REAL, g->s->heads);
    add_binary(g, CRN_DNN_DO_MULTIPLY, gy, y, product);
    add_reduction(g, CRN_DNN_REDUCE_ADD, product, sum);
    add_binary(g, CRN_DNN_DO_MULTIPLY, sum, make_scalar(g, ID_ONE), sums);
    return sums;
}

static void add_backward(graph *g) {
    const crn_attention_shape *s = g->s;
    tensor q = make_heads(g, ID_Q, s->heads, false, false);
    tensor k_turned = make_heads(g, ID_K, s->kv_heads, false, true);
    tensor v_turned = make_heads(g, ID_V, s->kv_heads, false, true);
    tensor gy = make_heads(g, ID_GY, s->heads, true, false);
    tensor scale = make_scalar(g, ID_SCALE);
    tensor sums = add_sums(g, gy);
    tensor less = new_square(g), p = new_square(g);
    tensor p_turned = make_square(g, CRN_DNN_DATA_BF16, true);
    add_binary(g, CRN_DNN_DO_SUBTRACT, scaled_scores(g, q, k_turned, scale),
               make_rows(g, ID_STATS, REAL, s->all_heads), less);
    add_unary(g, CRN_DNN_DO_EXP, mask(g, less), p);
    add_reshape(g, p, p_turned);
    add_shared_gradient(g, p_turned, gy, make_heads(g, ID_GV, s->kv_heads, false, false));
    tensor gp = new_square(g), centred = new_square(g), weighted = new_square(g);
    tensor gs = new_square(g), gs_turned = make_square(g, CRN_DNN_DATA_BF16, true);
    add_product(g, gy, v_turned, gp);
    add_binary(g, CRN_DNN_DO_SUBTRACT, gp, sums, centred);
    add_binary(g, CRN_DNN_DO_MULTIPLY, centred, p, weighted);
    add_binary(g, CRN_DNN_DO_MULTIPLY, weighted, scale, gs);
    add_reshape(g, gs, gs_turned);
    add_shared_gradient(g, gs_turned, q, make_heads(g, ID_GK, s->kv_heads, false, false));
    const int64_t sizes[4] = {s->batch, s->kv_heads, s->tokens, s->size};
    const int64_t strides[4] = {k_turned.strides[0], s->size, k_turned.strides[3], 1};
    tensor k = make_tensor(g, 0, CRN_DNN_DATA_BF16, VIRTUAL, sizes, strides);
    add_reshape(g, k_turned, k);
    add_product(g, gs, k, make_heads(g, ID_GQ, s->heads, false, false));
}

cairn_status crn_attention_propose(const crn_dnn *dnn, const crn_attention_shape *shape,
                                   crn_dnn_plan *out, uint32_t most, uint32_t *count,
                                   cairn_error *err) {
    graph g = {.w = {.dnn = dnn}, .s = shape, .next_virtual = ID_VIRTUAL};
    descriptor configs[CRN_DNN_MOST_CONFIGS];
    int64_t notes;
    *count = 0;
    if (shape->backward)
        add_backward(&g);
    else
        add_forward(&g);
    descriptor made = crn_dnn_graph(&g.w, g.ops, g.op_count);
    if (g.w.failed != 0) { /* a shape that cuDNN refuses is not an error */
        crn_dnn_release(&g.w);
        return CAIRN_OK;
    }
    int64_t proposals = crn_dnn_configs(&g.w, made, configs);
    cairn_status status =
        g.w.failed == 0 ? CAIRN_OK : crn_dnn_fail(dnn, g.w.failed, "propose attention", err);
    for (int64_t i = 0; i < proposals; i++) {
        crn_dnn_plan *to = &out[*count];
        if (*count < most && crn_dnn_engine(dnn, configs[i], &to->engine, NULL, 0, &notes) &&
            crn_dnn_finish_plan(dnn, configs[i], to)) {
            to->rank = (uint32_t)i;
            ++*count;
        }
        crn_dnn_drop(dnn, configs[i]);
    }
    crn_dnn_release(&g.w);
    return status;
}

/* ---- Running ---- */

#define MOST_TENSORS 16

typedef struct addresses {
    int64_t ids[MOST_TENSORS];
    const void *at[MOST_TENSORS];
    int64_t count;
} addresses;

static void put(addresses *a, int64_t id, const void *at) {
    a->ids[a->count] = id;
    a->at[a->count++] = at;
}

int crn_attention_run_plan(const crn_dnn *dnn, const crn_dnn_plan *plan,
                           const crn_attention_shape *shape, const crn_attention_run *run) {
    const float scale = (float)(1 / sqrt((double)shape->size)), low = -INFINITY, one = 1;
    addresses a = {.count = 0}; /* cuDNN reads numbers that are given by value at once */
    put(&a, ID_Q, run->q);
    put(&a, ID_K, run->k);
    put(&a, ID_V, run->v);
    put(&a, ID_Y, run->y);
    put(&a, ID_STATS, run->stats);
    put(&a, ID_SCALE, &scale);
    if (shape->causal)
        put(&a, ID_LOW, &low);
    if (shape->backward) {
        put(&a, ID_GY, run->gy);
        put(&a, ID_GQ, run->gq);
        put(&a, ID_GK, run->gk);
        put(&a, ID_GV, run->gv);
        put(&a, ID_SUMS, run->sums);
        put(&a, ID_ONE, &one);
    }
    return crn_dnn_execute(dnn, plan, a.count, a.ids, a.at, run->workspace);
}
