/* layers.h: layers of networks, for the zoo, network files and tests.
 *
 * Each function adds one forward op with its parameters to a builder and returns its output, which
 * bears the op's name; a parameter is called NAME.weight and so on, as in PyTorch. After the
 * builder's first error they do nothing and return CAIRN_NONE. */
#ifndef CRN_LAYERS_H
#define CRN_LAYERS_H

#include "cairn/graph.h"

cairn_id crn_build_input(cairn_builder *builder, const char *name, uint32_t rank,
                         const uint32_t *shape);
/* The same with integers: numbers of tokens. */
cairn_id crn_build_tokens(cairn_builder *builder, const char *name, uint32_t rank,
                          const uint32_t *shape);
cairn_id crn_build_label(cairn_builder *builder, const char *name, uint32_t rank,
                         const uint32_t *shape);
/* A parameter by itself, for layers that share one. */
cairn_id crn_build_parameter(cairn_builder *builder, const char *name, uint32_t rank,
                             const uint32_t *shape);

typedef struct crn_conv {
    uint32_t channels; /* of the output */
    uint32_t kernel[2], stride[2];
    int32_t pad[4]; /* top, left, bottom, right */
    uint32_t dilation[2], groups;
    bool bias;
} crn_conv;

/* x is [N, C, H, W]. Zero strides, dilations and groups mean 1. */
cairn_id crn_build_conv2d(cairn_builder *builder, const char *name, cairn_id x,
                          const crn_conv *conv);
/* Kernel and stride `factor`, with bias: enlarges by the factor. */
cairn_id crn_build_conv_transpose2d(cairn_builder *builder, const char *name, cairn_id x,
                                    uint32_t channels, uint32_t factor);
/* x is [..., F]. */
cairn_id crn_build_linear(cairn_builder *builder, const char *name, cairn_id x, uint32_t features);
/* The same with parameters that the caller made: weight [O, F]; bias [O], or CAIRN_NONE for none.
 * They start normal with `deviation`; 0: as the others do. */
cairn_id crn_build_linear_with(cairn_builder *builder, const char *name, cairn_id x,
                               cairn_id weight, cairn_id bias, double deviation);
cairn_id crn_build_batch_norm(cairn_builder *builder, const char *name, cairn_id x, double epsilon);
cairn_id crn_build_relu(cairn_builder *builder, const char *name, cairn_id x);
cairn_id crn_build_dropout(cairn_builder *builder, const char *name, cairn_id x,
                           double probability);
cairn_id crn_build_max_pool(cairn_builder *builder, const char *name, cairn_id x, uint32_t kernel,
                            uint32_t stride, uint32_t pad);
cairn_id crn_build_avg_pool(cairn_builder *builder, const char *name, cairn_id x, uint32_t kernel,
                            uint32_t stride, uint32_t pad, bool count_padding);
cairn_id crn_build_adaptive_avg_pool(cairn_builder *builder, const char *name, cairn_id x,
                                     uint32_t height, uint32_t width);
cairn_id crn_build_add(cairn_builder *builder, const char *name, cairn_id a, cairn_id b);
/* Along the channels. */
cairn_id crn_build_concat(cairn_builder *builder, const char *name, const cairn_id *inputs,
                          uint32_t count);
cairn_id crn_build_flatten(cairn_builder *builder, const char *name, cairn_id x);
/* Slice `index` of the first dimension, copied. */
cairn_id crn_build_select(cairn_builder *builder, const char *name, cairn_id x, uint32_t index);
/* `params` are weight_ih, weight_hh, bias_ih, bias_hh; x is [N, F], state [N, H] for an rnn, and
 * [2, N, H] holding h and c for an lstm. */
cairn_id crn_build_rnn_cell(cairn_builder *builder, const char *name, cairn_id x, cairn_id state,
                            const cairn_id params[4]);
cairn_id crn_build_lstm_cell(cairn_builder *builder, const char *name, cairn_id x, cairn_id state,
                             const cairn_id params[4]);
/* Softmax and the mean negative log likelihood. logits [N, C] or [N, C, H, W]. */
cairn_id crn_build_cross_entropy(cairn_builder *builder, const char *name, cairn_id logits,
                                 cairn_id labels);
/* The same with smoothed labels: the target is 1 - smoothing at the label, and smoothing / C more
 * at every class; 0 <= smoothing < 1. */
cairn_id crn_build_smoothed_cross_entropy(cairn_builder *builder, const char *name, cairn_id logits,
                                          cairn_id labels, double smoothing);

/* ---- Sequences of tokens: x is [N, T, D] unless said otherwise; see docs/ops.md ---- */

/* Rows of `weight` [V, D] for tokens [N, T]. */
cairn_id crn_build_embedding(cairn_builder *builder, const char *name, cairn_id tokens,
                             cairn_id weight, double deviation);
/* Row t of `weight` [L, D] is added to token t. `same_row`: row 0 is added to all. */
cairn_id crn_build_add_positions(cairn_builder *builder, const char *name, cairn_id x,
                                 cairn_id weight, bool same_row, double deviation);
/* The pixels of x [N, C, H, W] as tokens [N, H*W, C]. `class_token` [C], or CAIRN_NONE for none,
 * comes before them. */
cairn_id crn_build_image_tokens(cairn_builder *builder, const char *name, cairn_id x,
                                cairn_id class_token);
/* Token `index` of every sequence: [N, D]. */
cairn_id crn_build_select_token(cairn_builder *builder, const char *name, cairn_id x,
                                uint32_t index);
/* Of the last dimension of an x of any shape. */
cairn_id crn_build_layer_norm(cairn_builder *builder, const char *name, cairn_id x, double epsilon);
cairn_id crn_build_rms_norm(cairn_builder *builder, const char *name, cairn_id x, double epsilon);
/* x is [N, T, (heads + 2 kv_heads) * d]: queries, keys, values. */
cairn_id crn_build_rotary(cairn_builder *builder, const char *name, cairn_id x, uint32_t heads,
                          uint32_t kv_heads, double theta);
/* The same with the scaled angles of Llama 3. */
cairn_id crn_build_scaled_rotary(cairn_builder *builder, const char *name, cairn_id x,
                                 uint32_t heads, uint32_t kv_heads, double theta, double scaling);
cairn_id crn_build_attention(cairn_builder *builder, const char *name, cairn_id x, uint32_t heads,
                             uint32_t kv_heads, bool causal);
cairn_id crn_build_gelu(cairn_builder *builder, const char *name, cairn_id x, bool tanh);
cairn_id crn_build_silu(cairn_builder *builder, const char *name, cairn_id x);
cairn_id crn_build_multiply(cairn_builder *builder, const char *name, cairn_id a, cairn_id b);
/* x is [..., 2F]: silu of the first half times the second one. */
cairn_id crn_build_swiglu(cairn_builder *builder, const char *name, cairn_id x);
/* Logits [N, T, V], labels [N, T]; labels below 0 are ignored. */
cairn_id crn_build_token_cross_entropy(cairn_builder *builder, const char *name, cairn_id logits,
                                       cairn_id labels, double smoothing);

#endif
