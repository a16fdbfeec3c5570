/* zoo_recurrent.c: one recurrent layer, unrolled, that classifies a sequence by its last state: the
 * tanh cell of J. Elman, "Finding structure in time" (1990), and the LSTM of S. Hochreiter and J.
 * Schmidhuber (1997) with forget gates, as PyTorch has them.
 *
 *     state.0 -> cell.1 -> cell.2 -> ... -> cell.T -> fc -> loss
 *                 x.1       x.2              x.T
 *
 * All cells share one set of parameters. The initial state is the primary input, so the network is
 * a chain; an LSTM's state holds h and c together. */
#include "import/zoo_internal.h"

#define MOST_STEPS 1000000 /* a longer one is probably a typing error */

typedef cairn_id (*cell_builder)(cairn_builder *builder, const char *name, cairn_id x,
                                 cairn_id state, const cairn_id params[4]);

/* weight_ih, weight_hh, bias_ih, bias_hh, with the rows of all gates on top of each other. */
static void parameters(crn_zoo *net, uint32_t gates, cairn_id params[4]) {
    cairn_builder *b = net->builder;
    uint32_t rows = gates * net->height;
    params[0] = crn_build_parameter(b, "rnn.weight_ih_l0", 2, (uint32_t[]){rows, net->channels});
    params[1] = crn_build_parameter(b, "rnn.weight_hh_l0", 2, (uint32_t[]){rows, net->height});
    params[2] = crn_build_parameter(b, "rnn.bias_ih_l0", 1, &rows);
    params[3] = crn_build_parameter(b, "rnn.bias_hh_l0", 1, &rows);
}

static cairn_id unroll(crn_zoo *net, cell_builder cell, cairn_id state, uint32_t gates) {
    if (net->height > UINT32_MAX / gates)
        crn_zoo_fail(net, "a hidden size of %u is too large; give a smaller one", net->height);
    if (net->steps > MOST_STEPS)
        crn_zoo_fail(net, "%u steps are too many to unroll; give at most %u", net->steps,
                     MOST_STEPS);
    cairn_id params[4];
    parameters(net, gates, params);
    uint32_t shape[2] = {net->batch, net->channels};
    for (uint32_t t = 1; t <= net->steps; t++) {
        cairn_id x = crn_build_input(net->builder, crn_zoo_name(net, "x.%u", t), 2, shape);
        state = cell(net->builder, crn_zoo_name(net, "cell.%u", t), x, state, params);
        if (state == CAIRN_NONE) /* an error, or memory is out: the other steps add nothing */
            break;
    }
    return state;
}

static void classify(crn_zoo *net, cairn_id hidden) {
    crn_zoo_loss(net, crn_build_linear(net->builder, "fc", hidden, net->classes));
}

void crn_zoo_rnn(crn_zoo *net) {
    uint32_t shape[2] = {net->batch, net->height};
    cairn_id state = crn_build_input(net->builder, "state.0", 2, shape);
    classify(net, unroll(net, crn_build_rnn_cell, state, 1));
}

void crn_zoo_lstm(crn_zoo *net) {
    uint32_t shape[3] = {2, net->batch, net->height};
    cairn_id state = crn_build_input(net->builder, "state.0", 3, shape);
    state = unroll(net, crn_build_lstm_cell, state, 4);
    classify(net, crn_build_select(net->builder, "hidden", state, 0));
}
