/* derivative_rules.c: the table of rules.
 *
 * A rule says what a backward op reads of the forward pass (its needs) and what it writes.
 * op_kinds.def says where an op may work in place. Everything else follows:
 *
 *     forward op   y = f(x; w)              X(i) inputs, Y(i) outputs, W(i) parameters
 *     backward op  gx, gw = f'(x?, y?, gy)  GY(i), GX(i), GW(i) their gradients
 *
 * SW(i) is the gradient of a parameter so far: where another op has made a term of it, this one
 * adds its own instead of making a tensor to be added.
 *
 * T(0) is a tensor that one rule of an op passes to the next rule (the gradient before a cell's
 * activation). The rules of an op are applied in order. Weight gradients come before data
 * gradients: an input that only the weight gradient reads is then freed before the data gradient is
 * made. */
#include "graph/derivative_rules.h"

#define X(i)                                                                                       \
    { CRN_FORWARD_INPUT, i }
#define Y(i)                                                                                       \
    { CRN_FORWARD_OUTPUT, i }
#define W(i)                                                                                       \
    { CRN_PARAM, i }
#define GY(i)                                                                                      \
    { CRN_GRAD_OUTPUT, i }
#define GX(i)                                                                                      \
    { CRN_GRAD_INPUT, i }
#define GW(i)                                                                                      \
    { CRN_GRAD_PARAM, i }
#define SW(i)                                                                                      \
    { CRN_SUM_PARAM, i }
#define T(i)                                                                                       \
    { CRN_HANDED, i }

const crn_rule crn_rules[] = {
    {CAIRN_OP_CONV2D, CAIRN_OP_CONV2D_BWD_WEIGHT, .reads = {X(0), GY(0)}, .writes = {GW(0), GW(1)}},
    {CAIRN_OP_CONV2D, CAIRN_OP_CONV2D_BWD_DATA, .reads = {GY(0)}, .params = {W(0)},
     .writes = {GX(0)}},
    {CAIRN_OP_CONV_TRANSPOSE2D, CAIRN_OP_CONV_TRANSPOSE2D_BWD_WEIGHT, .reads = {X(0), GY(0)},
     .writes = {GW(0), GW(1)}},
    {CAIRN_OP_CONV_TRANSPOSE2D, CAIRN_OP_CONV_TRANSPOSE2D_BWD_DATA, .reads = {GY(0)},
     .params = {W(0)}, .writes = {GX(0)}},
    {CAIRN_OP_LINEAR, CAIRN_OP_LINEAR_BWD_WEIGHT, .reads = {X(0), GY(0)}, .writes = {GW(0), GW(1)}},
    {CAIRN_OP_LINEAR, CAIRN_OP_LINEAR_BWD_DATA, .reads = {GY(0)}, .params = {W(0)},
     .writes = {GX(0)}},
    {CAIRN_OP_BATCH_NORM, CAIRN_OP_BATCH_NORM_BWD, .reads = {X(0), Y(1), GY(0)}, .params = {W(0)},
     .writes = {GX(0), GW(0), GW(1)}},
    {CAIRN_OP_RELU, CAIRN_OP_RELU_BWD, .reads = {Y(0), GY(0)}, .writes = {GX(0)}},
    {CAIRN_OP_DROPOUT, CAIRN_OP_DROPOUT_BWD, .reads = {GY(0)}, .writes = {GX(0)}},
    {CAIRN_OP_MAX_POOL, CAIRN_OP_MAX_POOL_BWD, .reads = {Y(1), GY(0)}, .writes = {GX(0)}},
    {CAIRN_OP_AVG_POOL, CAIRN_OP_AVG_POOL_BWD, .reads = {GY(0)}, .writes = {GX(0)}},
    {CAIRN_OP_ADAPTIVE_AVG_POOL, CAIRN_OP_ADAPTIVE_AVG_POOL_BWD, .reads = {GY(0)},
     .writes = {GX(0)}},
    {CAIRN_OP_CONCAT, CAIRN_OP_CONCAT_BWD, .reads = {GY(0)}, .writes = {GX(0)}, .each_input = true},
    {CAIRN_OP_FLATTEN, CAIRN_OP_FLATTEN_BWD, .reads = {GY(0)}, .writes = {GX(0)}, .alias = true},
    {CAIRN_OP_SELECT, CAIRN_OP_SELECT_BWD, .reads = {GY(0)}, .writes = {GX(0)}},
    {CAIRN_OP_RNN_CELL, CAIRN_OP_RNN_CELL_BWD_DATA, .reads = {Y(0), GY(0)}, .params = {W(0), W(1)},
     .writes = {T(0), GX(1), GX(0)}, .handed_like = Y(0)},
    {CAIRN_OP_RNN_CELL, CAIRN_OP_RNN_CELL_BWD_WEIGHT, .reads = {X(0), X(1), T(0)},
     .writes = {GW(0), GW(1), GW(2), GW(3)}},
    {CAIRN_OP_LSTM_CELL, CAIRN_OP_LSTM_CELL_BWD_DATA, .reads = {X(1), Y(0), Y(1), GY(0)},
     .params = {W(0), W(1)}, .writes = {T(0), GX(1), GX(0)}, .handed_like = Y(1)},
    {CAIRN_OP_LSTM_CELL, CAIRN_OP_LSTM_CELL_BWD_WEIGHT, .reads = {X(0), X(1), T(0)},
     .writes = {GW(0), GW(1), GW(2), GW(3)}},
    {CAIRN_OP_CROSS_ENTROPY, CAIRN_OP_CROSS_ENTROPY_BWD, .reads = {Y(1), X(1)}, .writes = {GX(0)}},
    {CAIRN_OP_EMBEDDING, CAIRN_OP_EMBEDDING_BWD, .reads = {X(0), GY(0), SW(0)}, .writes = {GW(0)}},
    {CAIRN_OP_ADD_POSITIONS, CAIRN_OP_ADD_POSITIONS_BWD, .reads = {GY(0)}, .writes = {GW(0)}},
    {CAIRN_OP_IMAGE_TOKENS, CAIRN_OP_IMAGE_TOKENS_BWD, .reads = {GY(0)}, .writes = {GX(0), GW(0)}},
    {CAIRN_OP_SELECT_TOKEN, CAIRN_OP_SELECT_TOKEN_BWD, .reads = {GY(0)}, .writes = {GX(0)}},
    {CAIRN_OP_LAYER_NORM, CAIRN_OP_LAYER_NORM_BWD, .reads = {X(0), Y(1), GY(0)}, .params = {W(0)},
     .writes = {GX(0), GW(0), GW(1)}},
    {CAIRN_OP_RMS_NORM, CAIRN_OP_RMS_NORM_BWD, .reads = {X(0), Y(1), GY(0)}, .params = {W(0)},
     .writes = {GX(0), GW(0)}},
    {CAIRN_OP_ROTARY, CAIRN_OP_ROTARY_BWD, .reads = {GY(0)}, .writes = {GX(0)}},
    {CAIRN_OP_ATTENTION, CAIRN_OP_ATTENTION_BWD, .reads = {X(0), Y(0), Y(1), GY(0)},
     .writes = {GX(0)}},
    {CAIRN_OP_GELU, CAIRN_OP_GELU_BWD, .reads = {X(0), GY(0)}, .writes = {GX(0)}},
    {CAIRN_OP_SILU, CAIRN_OP_SILU_BWD, .reads = {X(0), GY(0)}, .writes = {GX(0)}},
    {CAIRN_OP_MULTIPLY, CAIRN_OP_MULTIPLY_BWD, .reads = {X(0), X(1), GY(0)},
     .writes = {GX(0), GX(1)}},
    {CAIRN_OP_SWIGLU, CAIRN_OP_SWIGLU_BWD, .reads = {X(0), GY(0)}, .writes = {GX(0)}},
    {CAIRN_OP_TOKEN_CROSS_ENTROPY, CAIRN_OP_TOKEN_CROSS_ENTROPY_BWD, .reads = {Y(1), X(1)},
     .writes = {GX(0)}},
};
/* An op that passes gradients (op_kinds.def) needs no rule for its inputs: the gradient of its
 * output is theirs. An addition has no backward op at all. */

#undef X
#undef Y
#undef W
#undef GY
#undef GX
#undef GW
#undef SW
#undef T

const size_t crn_rule_count = CRN_LENGTH(crn_rules);

cairn_id crn_rule_target(const cairn_op *op, crn_operand written, uint32_t input) {
    if (written.what == CRN_GRAD_INPUT)
        return op->inputs[written.index + input];
    return written.index < op->param_count ? op->params[written.index] : CAIRN_NONE;
}

int32_t crn_channel_offset(const cairn_graph *graph, const cairn_op *concat, uint32_t input) {
    uint32_t offset = 0;
    for (uint32_t i = 0; i < input; i++)
        offset += graph->tensors.data[concat->inputs[i]].shape[1];
    return (int32_t)offset;
}
