/* attention_plans.h: attention and its gradient through cuDNN's backend interface, in bf16 with
 * fp32 sums.
 *
 * The graph decides whether the gradient is repeatable, not cuDNN's notes: that of the queries is
 * made by one product, not added up in memory. For that it needs a workspace of the square of the
 * tokens. Plans have no addresses, so one for a share of the sequences and heads can be run once
 * for each share, in less workspace. */
#ifndef ATTENTION_PLANS_H
#define ATTENTION_PLANS_H

#include "backend/cuda/dnn_plans.h"

/* What one run of a plan does: some sequences and some heads of keys, with the heads of queries
 * that share them. See attention_args.h for the tensors. */
typedef struct crn_attention_shape {
    bool backward, causal;
    int64_t tokens, size;            /* T, d */
    int64_t all_heads, all_kv_heads; /* H, K of the tensors */
    int64_t batch, heads, kv_heads;  /* of a run */
} crn_attention_shape;

/* At most `most` plans, best first; `*count` may be 0: cuDNN cannot do this shape. CAIRN_ESYSTEM:
 * cuDNN fails. The plans belong to the caller: crn_dnn_drop(). */
CAIRN_MUST cairn_status crn_attention_propose(const crn_dnn *dnn, const crn_attention_shape *shape,
                                              crn_dnn_plan *out, uint32_t most, uint32_t *count,
                                              cairn_error *err);

/* Addresses of the first sequence and the first heads of a run. */
typedef struct crn_attention_run {
    const void *q, *k, *v, *y, *stats;
    const void *gy, *gq, *gk, *gv; /* backward */
    void *sums;                    /* backward: batch * heads * tokens floats */
    void *workspace;
} crn_attention_run;

/* Run on the stream of the handle; returns a status of cuDNN. */
int crn_attention_run_plan(const crn_dnn *dnn, const crn_dnn_plan *plan,
                           const crn_attention_shape *shape, const crn_attention_run *run);

#endif
