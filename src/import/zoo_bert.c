/* zoo_bert.c: BERT of J. Devlin and others (2019) that predicts masked words, with the names of
 * Hugging Face's BertForMaskedLM; without dropout. The projections to queries, keys and values are
 * one linear layer, qkv. All tokens are of the first segment. Labels of words that are not masked
 * are below 0.
 *
 *     tokens -> words + positions + segment -> norm -> layer x layers -> transform -> decoder
 *            -> loss
 *     layer:  x = norm(x + dense(attention(x))),  then norm(x + output(gelu(intermediate(x)))) */
#include "import/zoo_internal.h"

#define SEGMENTS 2

static cairn_id add_table(crn_zoo *net, const char *name, cairn_id x, uint32_t rows, uint32_t width,
                          bool same_row) {
    uint32_t shape[] = {rows, width};
    cairn_id weight =
        crn_build_parameter(net->builder, crn_zoo_name(net, "%s.weight", name), 2, shape);
    return crn_build_add_positions(net->builder, crn_zoo_name(net, "%s", name), x, weight, same_row,
                                   CRN_ZOO_DEVIATION);
}

static cairn_id embed(crn_zoo *net, const crn_zoo_sizes *s, cairn_id *table) {
    size_t outside = crn_zoo_enter(net, "bert.embeddings");
    cairn_id x = crn_zoo_embedding(net, "word_embeddings", s->width, table);
    x = add_table(net, "position_embeddings", x, s->positions, s->width, false);
    x = add_table(net, "token_type_embeddings", x, SEGMENTS, s->width, true);
    x = crn_build_layer_norm(net->builder, crn_zoo_name(net, "LayerNorm"), x, s->epsilon);
    crn_zoo_leave(net, outside);
    return x;
}

/* norm(x + dense(y)) */
static cairn_id add_and_norm(crn_zoo *net, const crn_zoo_sizes *s, const char *module, cairn_id x,
                             cairn_id y) {
    size_t outside = crn_zoo_enter(net, "%s", module);
    y = crn_zoo_linear(net, "dense", y, s->width, true, CRN_ZOO_DEVIATION);
    x = crn_build_add(net->builder, crn_zoo_name(net, "sum"), x, y);
    x = crn_build_layer_norm(net->builder, crn_zoo_name(net, "LayerNorm"), x, s->epsilon);
    crn_zoo_leave(net, outside);
    return x;
}

static cairn_id layer(crn_zoo *net, const crn_zoo_sizes *s, cairn_id x) {
    cairn_builder *b = net->builder;
    cairn_id y =
        crn_zoo_linear(net, "attention.self.qkv", x, 3 * s->width, true, CRN_ZOO_DEVIATION);
    y = crn_build_attention(b, crn_zoo_name(net, "attention.self"), y, s->heads, s->heads, false);
    x = add_and_norm(net, s, "attention.output", x, y);
    y = crn_zoo_linear(net, "intermediate.dense", x, s->ffn, true, CRN_ZOO_DEVIATION);
    y = crn_build_gelu(b, crn_zoo_name(net, "intermediate"), y, false);
    return add_and_norm(net, s, "output", x, y);
}

void crn_zoo_bert(crn_zoo *net) {
    crn_zoo_sizes s;
    cairn_builder *b = net->builder;
    if (!crn_zoo_read_sizes(net, "bert", &s))
        return;
    cairn_id table, x = embed(net, &s, &table);
    for (uint32_t i = 0; i < s.layers && x != CAIRN_NONE; i++) {
        size_t outside = crn_zoo_enter(net, "bert.encoder.layer.%u", i);
        x = layer(net, &s, x);
        crn_zoo_leave(net, outside);
    }
    size_t outside = crn_zoo_enter(net, "cls.predictions");
    x = crn_zoo_linear(net, "transform.dense", x, s.width, true, CRN_ZOO_DEVIATION);
    x = crn_build_gelu(b, crn_zoo_name(net, "transform.act"), x, false);
    x = crn_build_layer_norm(b, crn_zoo_name(net, "transform.LayerNorm"), x, s.epsilon);
    cairn_id bias = crn_build_parameter(b, crn_zoo_name(net, "bias"), 1, &net->classes);
    x = crn_build_linear_with(b, crn_zoo_name(net, "decoder"), x, table, bias, 0);
    crn_zoo_leave(net, outside);
    crn_zoo_token_loss(net, x);
}
