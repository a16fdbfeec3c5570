/* attention_ops.c: attention and its gradient: by cuDNN for bf16, or by kernels for this GPU
 * (hopper_ops.c), else by Cairn's own kernels for all. */
#include "backend/cuda/cuda_internal.h"

#include <math.h>

#define MOST_SIZE 256 /* of a head, for cuDNN */

bool crn_cuda_attention_shape(const crn_site *site, crn_attention_shape *out) {
    const cairn_op *op = site->op;
    const cairn_attributes *a = &op->attributes;
    if (op->kind != CAIRN_OP_ATTENTION && op->kind != CAIRN_OP_ATTENTION_BWD)
        return false;
    const cairn_tensor *x = cairn_graph_tensor(site->graph, op->inputs[0]);
    *out = (crn_attention_shape){.backward = op->kind == CAIRN_OP_ATTENTION_BWD,
                                 .causal = a->causal != 0,
                                 .tokens = x->shape[1],
                                 .size = x->shape[2] / (uint32_t)(a->heads + 2 * a->kv_heads),
                                 .all_heads = a->heads,
                                 .all_kv_heads = a->kv_heads,
                                 .batch = x->shape[0],
                                 .heads = a->heads,
                                 .kv_heads = a->kv_heads};
    return true;
}

bool crn_cuda_attention_by_dnn(const crn_device *device, const crn_site *site,
                               const crn_attention_shape *shape) {
    return device->dnn.handle != NULL && crn_cuda_element(site) == CRN_ELEMENT_BF16 &&
           shape->size % 8 == 0 && shape->size <= MOST_SIZE;
}

/* ---- By cuDNN ---- */

static const void *after(const void *at, int64_t elements, int64_t size) {
    return at == NULL ? NULL : (const char *)at + elements * size;
}

/* The addresses of the run that begins with sequence n and head kv of the keys. */
static crn_attention_run run_at(const crn_work *work, const crn_attention_shape *s, int64_t n,
                                int64_t kv) {
    const int64_t half = sizeof(uint16_t), group = s->all_heads / s->all_kv_heads;
    int64_t row = (s->all_heads + 2 * s->all_kv_heads) * s->size;
    int64_t q = n * s->tokens * row + kv * group * s->size;
    int64_t k = n * s->tokens * row + (s->all_heads + kv) * s->size;
    int64_t v = k + s->all_kv_heads * s->size;
    int64_t y = (n * s->tokens * s->all_heads + kv * group) * s->size;
    int64_t stats = (n * s->all_heads + kv * group) * s->tokens;
    const void *x = crn_cuda_in(work, 0);
    crn_attention_run run = {
        .q = after(x, q, half), .k = after(x, k, half), .v = after(x, v, half)};
    const void *to = crn_cuda_out(work, 0);
    if (!s->backward) {
        run.y = after(to, y, half);
        run.stats = after(crn_cuda_out(work, 1), stats, sizeof(float));
        return run;
    }
    run.y = after(crn_cuda_in(work, 1), y, half);
    run.stats = after(crn_cuda_in(work, 2), stats, sizeof(float));
    run.gy = after(crn_cuda_in(work, 3), y, half);
    run.gq = after(to, q, half);
    run.gk = after(to, k, half);
    run.gv = after(to, v, half);
    return run;
}

static void run_by_dnn(crn_work *work, const crn_attention_shape *whole) {
    crn_device *device = work->device;
    const crn_cuda_recipe *recipe = work->recipe;
    const crn_attention_shape *s = &recipe->attention;
    void *space = crn_cuda_library_scratch(work, recipe->plan.workspace);
    void *sums =
        s->backward
            ? crn_cuda_scratch(work, (uint64_t)(s->batch * s->heads * s->tokens) * sizeof(float))
            : NULL;
    for (int64_t n = 0; n < whole->batch && !work->preparing; n += s->batch)
        for (int64_t kv = 0; kv < whole->kv_heads; kv += s->kv_heads) {
            crn_attention_run run = run_at(work, s, n, kv);
            run.sums = sums;
            run.workspace = space;
            (void)crn_cuda_dnn_ok(device,
                                  crn_attention_run_plan(&device->dnn, &recipe->plan, s, &run),
                                  work->call->op->name);
        }
}

/* ---- By Cairn's own kernels ---- */

static crn_attention_args args_of(const crn_work *work, const crn_attention_shape *s) {
    crn_site site = crn_site_of(work->call);
    return (crn_attention_args){.element = crn_cuda_element(&site),
                                .batch = (uint32_t)s->batch,
                                .tokens = (uint32_t)s->tokens,
                                .heads = (uint32_t)s->heads,
                                .kv_heads = (uint32_t)s->kv_heads,
                                .size = (uint32_t)s->size,
                                .causal = s->causal,
                                .scale = (float)(1 / sqrt((double)s->size)),
                                .x = crn_cuda_in(work, 0)};
}

/* x -> y, stats */
void crn_cuda_attention(crn_work *work) {
    crn_site site = crn_site_of(work->call);
    crn_attention_shape shape;
    if (!crn_cuda_attention_shape(&site, &shape))
        return;
    if (work->recipe->plan.plan != NULL) {
        run_by_dnn(work, &shape);
        return;
    }
    crn_attention_args args = args_of(work, &shape);
    args.y = crn_cuda_out(work, 0);
    args.stats = crn_cuda_out(work, 1);
    crn_cuda_launch(work, crn_attention_launch(&args), &args);
}

/* x, y, stats, gy -> gx */
void crn_cuda_attention_bwd(crn_work *work) {
    crn_site site = crn_site_of(work->call);
    crn_attention_shape shape;
    if (!crn_cuda_attention_shape(&site, &shape))
        return;
    if (work->recipe->hopper) {
        crn_hopper_attention_bwd(work, &shape);
        return;
    }
    if (work->recipe->plan.plan != NULL) {
        run_by_dnn(work, &shape);
        return;
    }
    crn_attention_args args = args_of(work, &shape);
    args.y = crn_cuda_writable(crn_cuda_in(work, 1));
    args.stats = crn_cuda_writable(crn_cuda_in(work, 2));
    args.gy = crn_cuda_in(work, 3);
    args.gx = crn_cuda_out(work, 0);
    args.along = crn_cuda_scratch(work, (uint64_t)(shape.batch * shape.heads * shape.tokens) *
                                            sizeof(float));
    crn_cuda_launch(work, crn_attention_along_launch(&args), &args);
    crn_cuda_launch(work, crn_attention_keys_launch(&args), &args);
    crn_cuda_launch(work, crn_attention_queries_launch(&args), &args);
}
