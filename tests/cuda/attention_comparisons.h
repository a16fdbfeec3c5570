/* attention_comparisons.h: the kernels of attention against `ref`. */
#ifndef ATTENTION_COMPARISONS_H
#define ATTENTION_COMPARISONS_H

#include "cuda/kernel_comparison.h"

static crn_attention_args attention_args(comparison *at, const cairn_op *op) {
    const cairn_attributes *a = &op->attributes;
    const cairn_tensor *x = tensor_of(at, op->inputs[0]);
    uint32_t size = x->shape[2] / (uint32_t)(a->heads + 2 * a->kv_heads);
    return (crn_attention_args){.element = at->k.element,
                                .batch = x->shape[0],
                                .tokens = x->shape[1],
                                .heads = (uint32_t)a->heads,
                                .kv_heads = (uint32_t)a->kv_heads,
                                .size = size,
                                .causal = (uint32_t)a->causal,
                                .scale = 1 / sqrtf((float)size),
                                .x = plain(at, op->inputs[0])};
}

static void attention(comparison *at, const cairn_op *op) {
    crn_attention_args args = attention_args(at, op);
    args.y = empty(at, op->outputs[0], kernel_rig_element(&at->k));
    args.stats = empty(at, op->outputs[1], 4);
    kernel_rig_run(&at->k, crn_attention_launch(&args), &args);
    compare_plain(at, args.y, op->outputs[0], false);
    compare_floats(at, args.stats, op->outputs[1], F32_TOLERANCE);
}

static void attention_bwd(comparison *at, const cairn_op *op) {
    crn_attention_args args = attention_args(at, op);
    args.y = plain(at, op->inputs[1]);
    args.stats = floats(at, op->inputs[2]);
    args.gy = plain(at, op->inputs[3]);
    args.along = empty(at, op->inputs[2], 4);
    args.gx = empty(at, op->outputs[0], kernel_rig_element(&at->k));
    kernel_rig_run(&at->k, crn_attention_along_launch(&args), &args);
    kernel_rig_run(&at->k, crn_attention_keys_launch(&args), &args);
    kernel_rig_run(&at->k, crn_attention_queries_launch(&args), &args);
    compare_plain(at, args.gx, op->outputs[0], false);
}

#endif
