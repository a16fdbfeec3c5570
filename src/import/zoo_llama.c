/* zoo_llama.c: Llama of H. Touvron and others (2023) and networks of its form, such as Qwen2, with
 * the names of Hugging Face's LlamaForCausalLM. The projections to queries, keys and values are one
 * linear layer, qkv_proj, and gate_proj and up_proj another, gate_up_proj.
 *
 *     tokens -> embed_tokens -> block x layers -> norm -> lm_head -> loss
 *     block:  x + o_proj(attention(rotary(qkv_proj(norm(x))))),
 *             then x + down_proj(swiglu(gate_up_proj(norm(x)))) */
#include "import/zoo_internal.h"

#include <math.h>

static cairn_id attention(crn_zoo *net, const crn_zoo_sizes *s, cairn_id x, double last) {
    cairn_builder *b = net->builder;
    cairn_id y = crn_build_rms_norm(b, crn_zoo_name(net, "input_layernorm"), x, s->epsilon);
    uint32_t packed = s->width / s->heads * (s->heads + 2 * s->kv_heads);
    y = crn_zoo_linear(net, "self_attn.qkv_proj", y, packed, s->biased, CRN_ZOO_DEVIATION);
    y = crn_build_scaled_rotary(b, crn_zoo_name(net, "self_attn.rotary"), y, s->heads, s->kv_heads,
                                s->theta, s->scaling);
    y = crn_build_attention(b, crn_zoo_name(net, "self_attn"), y, s->heads, s->kv_heads, true);
    y = crn_zoo_linear(net, "self_attn.o_proj", y, s->width, false, last);
    return crn_build_add(b, crn_zoo_name(net, "self_attn.sum"), x, y);
}

static cairn_id mlp(crn_zoo *net, const crn_zoo_sizes *s, cairn_id x, double last) {
    cairn_builder *b = net->builder;
    cairn_id y =
        crn_build_rms_norm(b, crn_zoo_name(net, "post_attention_layernorm"), x, s->epsilon);
    y = crn_zoo_linear(net, "mlp.gate_up_proj", y, 2 * s->ffn, false, CRN_ZOO_DEVIATION);
    y = crn_build_swiglu(b, crn_zoo_name(net, "mlp.act"), y);
    y = crn_zoo_linear(net, "mlp.down_proj", y, s->width, false, last);
    return crn_build_add(b, crn_zoo_name(net, "mlp.sum"), x, y);
}

void crn_zoo_llama(crn_zoo *net) {
    crn_zoo_sizes s;
    if (!crn_zoo_read_sizes(net, "llama", &s))
        return;
    double last = CRN_ZOO_DEVIATION / sqrt(2.0 * s.layers);
    size_t outside = crn_zoo_enter(net, "model");
    cairn_id table, x = crn_zoo_embedding(net, "embed_tokens", s.width, &table);
    for (uint32_t i = 0; i < s.layers && x != CAIRN_NONE; i++) {
        size_t block = crn_zoo_enter(net, "layers.%u", i);
        x = attention(net, &s, x, last);
        x = mlp(net, &s, x, last);
        crn_zoo_leave(net, block);
    }
    x = crn_build_rms_norm(net->builder, crn_zoo_name(net, "norm"), x, s.epsilon);
    crn_zoo_leave(net, outside);
    if (s.tied)
        x = crn_build_linear_with(net->builder, "lm_head", x, table, CAIRN_NONE, 0);
    else
        x = crn_zoo_linear(net, "lm_head", x, net->classes, false, CRN_ZOO_DEVIATION);
    crn_zoo_token_loss(net, x);
}
