/* fake_hopper.c: see fake_hopper.h. */
#include "fake_hopper.h"

#include "backend/cuda/cuda_abi.h"
#include "backend/cuda/kernels/numbers.h"

#include <math.h>
#include <string.h>

#define LOG2E 1.4426950408889634

/* ---- Maps: the address, four sizes, three strides in bytes ---- */

int fake_hopper_map(crn_tensor_map *map, int type, uint32_t rank, void *at, const uint64_t *sizes,
                    const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                    int interleave, int swizzle, int promotion, int outside) {
    bool aligned = (uintptr_t)map % 128 == 0 && (uintptr_t)at % 16 == 0;
    for (uint32_t i = 0; i < 3; i++)
        aligned = aligned && strides[i] % 16 == 0;
    if (!aligned || type != CRN_CUDA_MAP_BF16 || rank != 4 || box[0] != 64 || box[1] != 64 ||
        box[2] != 1 || box[3] != 1 || steps[0] != 1 || interleave != CRN_CUDA_MAP_PLAIN ||
        swizzle != CRN_CUDA_MAP_SWIZZLE_128 || outside != CRN_CUDA_MAP_ZEROS)
        return CRN_CUDA_INVALID_VALUE;
    (void)promotion;
    memset(map, 0, sizeof *map);
    map->opaque[0] = (uintptr_t)at;
    memcpy(map->opaque + 1, sizes, 4 * sizeof *sizes);
    memcpy(map->opaque + 5, strides, 3 * sizeof *strides);
    return 0;
}

static double get(const crn_tensor_map *map, uint32_t n, uint32_t head, uint32_t token,
                  uint32_t element) {
    const uint64_t *m = map->opaque;
    if (element >= m[1] || token >= m[2] || head >= m[3] || n >= m[4])
        return 0;
    const char *at = (const char *)(uintptr_t)m[0] + token * m[5] + head * m[6] + n * m[7];
    return (double)crn_from_bf16(((const uint16_t *)(const void *)at)[element]);
}

static double half(double x) {
    return (double)crn_from_bf16(crn_to_bf16((float)x));
}

/* ---- Kernels ---- */

static const float *rows_of(const crn_hopper_args *a, uint32_t n, uint32_t head, uint32_t token) {
    return a->rows + (((size_t)n * a->heads + head) * a->padded + token / 64 * 64) * 2 + token % 64;
}

static void make_rows(const crn_hopper_args *a, uint32_t n, uint32_t head, uint32_t token) {
    float *to = a->rows + (rows_of(a, n, head, token) - a->rows);
    double sum = 0;
    uint32_t size = (uint32_t)a->gy_map.opaque[1];
    size_t row = ((size_t)n * a->tokens + token) * a->heads + head;
    const uint16_t *y = a->y, *gy = a->gy;
    for (uint32_t k = 0; k < size && token < a->tokens; k++)
        sum += (double)crn_from_bf16(y[row * size + k]) * (double)crn_from_bf16(gy[row * size + k]);
    to[64] = (float)sum;
    to[0] = INFINITY;
    if (token < a->tokens)
        to[0] =
            (float)(LOG2E * (double)a->stats[((size_t)n * a->heads + head) * a->tokens + token]);
}

/* What one query and one key give: the probability and the gradient of the score. */
typedef struct pair {
    double p, d;
} pair;

static pair differentiate(const crn_hopper_args *a, uint32_t n, uint32_t head, uint32_t query,
                          uint32_t key) {
    uint32_t kv = a->heads + head / (a->heads / a->kv_heads);
    double score = 0, gp = 0;
    if (a->causal && key > query)
        return (pair){0, 0};
    for (uint32_t k = 0; k < a->x_map.opaque[1]; k++) {
        score += get(&a->x_map, n, head, query, k) * get(&a->x_map, n, kv, key, k);
        gp += get(&a->gy_map, n, head, query, k) * get(&a->x_map, n, kv + a->kv_heads, key, k);
    }
    const float *rows = rows_of(a, n, head, query);
    double p = exp2(score * (double)a->scale * LOG2E - (double)rows[0]);
    return (pair){p, p * (gp - (double)rows[64])};
}

static void store(const crn_hopper_args *a, uint32_t n, uint32_t token, uint32_t head,
                  const double *sums, double factor) {
    uint32_t size = (uint32_t)a->x_map.opaque[1], heads = a->heads + 2 * a->kv_heads;
    uint16_t *to = (uint16_t *)a->gx + (((size_t)n * a->tokens + token) * heads + head) * size;
    for (uint32_t k = 0; k < size; k++)
        to[k] = crn_to_bf16((float)(sums[k] * factor));
}

static void make_key(const crn_hopper_args *a, uint32_t n, uint32_t kv, uint32_t key) {
    double gk[128] = {0}, gv[128] = {0};
    uint32_t size = (uint32_t)a->x_map.opaque[1], group = a->heads / a->kv_heads;
    for (uint32_t head = kv * group; head < (kv + 1) * group; head++)
        for (uint32_t query = 0; query < a->tokens; query++) {
            pair at = differentiate(a, n, head, query, key);
            for (uint32_t k = 0; k < size; k++) {
                gk[k] += half(at.d) * get(&a->x_map, n, head, query, k);
                gv[k] += half(at.p) * get(&a->gy_map, n, head, query, k);
            }
        }
    store(a, n, key, a->heads + kv, gk, (double)a->scale);
    store(a, n, key, a->heads + a->kv_heads + kv, gv, 1);
}

static void make_query(const crn_hopper_args *a, uint32_t n, uint32_t head, uint32_t query) {
    double gq[128] = {0};
    uint32_t size = (uint32_t)a->x_map.opaque[1];
    uint32_t kv = a->heads + head / (a->heads / a->kv_heads);
    for (uint32_t key = 0; key < a->tokens; key++) {
        pair at = differentiate(a, n, head, query, key);
        for (uint32_t k = 0; k < size; k++)
            gq[k] += half(at.d) * get(&a->x_map, n, kv, key, k);
    }
    store(a, n, query, head, gq, (double)a->scale);
}

typedef void make_row(const crn_hopper_args *a, uint32_t n, uint32_t head, uint32_t token);

/* `given` is a copy that need not be aligned. */
static void run_all(const void *given, make_row *make, bool keys, bool padded) {
    crn_hopper_args a;
    memcpy(&a, given, sizeof a);
    for (uint32_t n = 0; n < a.batch; n++)
        for (uint32_t head = 0; head < (keys ? a.kv_heads : a.heads); head++)
            for (uint32_t token = 0; token < (padded ? a.padded : a.tokens); token++)
                make(&a, n, head, token);
}

static void run_rows(const void *args) {
    run_all(args, make_rows, false, true);
}

static void run_keys(const void *args) {
    run_all(args, make_key, true, false);
}

static void run_queries(const void *args) {
    run_all(args, make_query, false, false);
}

const fake_hopper_kernel fake_hopper_kernels[FAKE_HOPPER_KERNELS] = {
    {"crn_hopper_rows_64", run_rows, CRN_HOPPER_ROWS_THREADS, 0},
    {"crn_hopper_rows_128", run_rows, CRN_HOPPER_ROWS_THREADS, 0},
#define PASS(name, size, groups, met, stages, own)                                                 \
    {"crn_hopper_" #name "_" #size, run_##name, CRN_HOPPER_THREADS(groups),                        \
     CRN_HOPPER_BYTES(size, groups, met, stages, own)},
    CRN_HOPPER_PASSES(PASS)
#undef PASS
};
