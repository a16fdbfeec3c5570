/* zoo_gpt2.c: GPT-2 of A. Radford and others, "Language models are unsupervised multitask learners"
 * (2019), with the names of Hugging Face's GPT2LMHeadModel; without dropout, as it is trained
 * today. The head is the table of the embedding.
 *
 *     tokens -> wte -> + wpe -> block x layers -> ln_f -> lm_head -> loss
 *     block:  x + c_proj(attention(c_attn(ln_1(x)))),  then x + c_proj(gelu(c_fc(ln_2(x)))) */
#include "import/zoo_internal.h"

#include <math.h>

static cairn_id attention(crn_zoo *net, const crn_zoo_sizes *s, cairn_id x, double last) {
    cairn_builder *b = net->builder;
    cairn_id y = crn_build_layer_norm(b, crn_zoo_name(net, "ln_1"), x, s->epsilon);
    uint32_t packed = s->width / s->heads * (s->heads + 2 * s->kv_heads);
    y = crn_zoo_linear(net, "attn.c_attn", y, packed, true, CRN_ZOO_DEVIATION);
    y = crn_build_attention(b, crn_zoo_name(net, "attn"), y, s->heads, s->kv_heads, true);
    y = crn_zoo_linear(net, "attn.c_proj", y, s->width, true, last);
    return crn_build_add(b, crn_zoo_name(net, "attn.sum"), x, y);
}

static cairn_id mlp(crn_zoo *net, const crn_zoo_sizes *s, cairn_id x, double last) {
    cairn_builder *b = net->builder;
    cairn_id y = crn_build_layer_norm(b, crn_zoo_name(net, "ln_2"), x, s->epsilon);
    y = crn_zoo_linear(net, "mlp.c_fc", y, s->ffn, true, CRN_ZOO_DEVIATION);
    y = crn_build_gelu(b, crn_zoo_name(net, "mlp.act"), y, true);
    y = crn_zoo_linear(net, "mlp.c_proj", y, s->width, true, last);
    return crn_build_add(b, crn_zoo_name(net, "mlp.sum"), x, y);
}

void crn_zoo_gpt2(crn_zoo *net) {
    crn_zoo_sizes s;
    cairn_builder *b = net->builder;
    if (!crn_zoo_read_sizes(net, "gpt2", &s))
        return;
    /* The sum of all blocks' results keeps its variance if their last weights are smaller. */
    double last = CRN_ZOO_DEVIATION / sqrt(2.0 * s.layers);
    size_t outside = crn_zoo_enter(net, "transformer");
    cairn_id table, x = crn_zoo_embedding(net, "wte", s.width, &table);
    uint32_t shape[] = {s.positions, s.width};
    cairn_id positions = crn_build_parameter(b, crn_zoo_name(net, "wpe.weight"), 2, shape);
    x = crn_build_add_positions(b, crn_zoo_name(net, "wpe"), x, positions, false,
                                CRN_ZOO_DEVIATION);
    for (uint32_t i = 0; i < s.layers && x != CAIRN_NONE; i++) {
        size_t block = crn_zoo_enter(net, "h.%u", i);
        x = attention(net, &s, x, last);
        x = mlp(net, &s, x, last);
        crn_zoo_leave(net, block);
    }
    x = crn_build_layer_norm(b, crn_zoo_name(net, "ln_f"), x, s.epsilon);
    crn_zoo_leave(net, outside);
    crn_zoo_token_loss(net, crn_build_linear_with(b, "lm_head", x, table, CAIRN_NONE, 0));
}
