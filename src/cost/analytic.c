/* analytic.c: the number of arithmetic operations of an op, and the bytes that it moves.
 *
 * A gradient with respect to data or to weights costs as much as the forward op: each is a product
 * of the same three extents. Every other op is limited by memory, so its operations are only
 * estimated, at a few per element. */
#include "base/crn_base.h"
#include "cairn/cost.h"
#include "cost/crn_cost.h"
#include "graph/op_kinds.h"

static uint64_t multiply(uint64_t a, uint64_t b) {
    uint64_t product;
    return crn_mul_u64(a, b, &product) ? product : UINT64_MAX;
}

static uint64_t elements(const cairn_tensor *tensor) {
    uint64_t count = tensor->rank == 0 ? tensor->bytes / 4 : 1;
    for (uint32_t i = 0; i < tensor->rank; i++)
        count *= tensor->shape[i]; /* cannot overflow: the graph was validated */
    return count;
}

static const cairn_tensor *tensor_of(const cairn_graph *graph, cairn_id id) {
    return cairn_graph_tensor(graph, id);
}

/* Multiply-adds of a forward op that is a product; 0 for other ops. */
static uint64_t products(const cairn_graph *graph, const cairn_op *op) {
    const cairn_tensor *weight, *output = tensor_of(graph, op->outputs[0]);
    switch (op->kind) {
    case CAIRN_OP_CONV2D: /* every output element sums over a window of the weight */
    case CAIRN_OP_LINEAR:
        weight = tensor_of(graph, op->params[0]);
        return multiply(elements(output), elements(weight) / weight->shape[0]);
    case CAIRN_OP_CONV_TRANSPOSE2D: /* every input element is spread over such a window */
        weight = tensor_of(graph, op->params[0]);
        return multiply(elements(tensor_of(graph, op->inputs[0])),
                        elements(weight) / weight->shape[0]);
    case CAIRN_OP_RNN_CELL:
    case CAIRN_OP_LSTM_CELL: {
        uint64_t weights =
            elements(tensor_of(graph, op->params[0])) + elements(tensor_of(graph, op->params[1]));
        return multiply(tensor_of(graph, op->inputs[0])->shape[0], weights);
    }
    case CAIRN_OP_ATTENTION: { /* the products of queries and keys, probabilities and values */
        const cairn_tensor *stats = tensor_of(graph, op->outputs[1]);
        uint64_t scores = multiply(elements(stats), stats->shape[2]);
        uint64_t size = output->shape[2] / stats->shape[1];
        return multiply(scores, op->attributes.causal ? size : 2 * size);
    }
    default:
        return 0;
    }
}

/* Operations per element of an op that is not a product. */
static uint64_t per_element(const cairn_op *op) {
    uint32_t work = crn_op_kinds[op->kind].work;
    const int32_t *window = op->attributes.kernel;
    return work > 0 ? work : (uint64_t)window[0] * (uint64_t)window[1];
}

static uint64_t sum_bytes(const cairn_graph *graph, const cairn_id *ids, uint32_t count) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] != CAIRN_NONE)
            sum += tensor_of(graph, ids[i])->bytes;
    return sum;
}

/* What an op of the optimiser moves; 0: it is none. An update reads the gradient, and reads and
 * writes the others. An addition of squares reads the gradient, or adds to its sum and reads that.
 */
static uint64_t optimizer_bytes(const cairn_graph *graph, const cairn_op *op) {
    if (op->kind == CAIRN_OP_UPDATE)
        return multiply(tensor_of(graph, op->params[op->param_count - 1])->bytes,
                        1 + 2 * (uint64_t)op->param_count);
    if (op->kind != CAIRN_OP_SQUARE_SUM)
        return 0;
    return op->param_count > 0 ? multiply(tensor_of(graph, op->params[0])->bytes, 4)
                               : tensor_of(graph, op->inputs[0])->bytes;
}

/* The three products of a head and the passes of its loss: logits are written and read three times.
 */
static void head_work(const cairn_graph *graph, const cairn_op *op, uint64_t *flops,
                      uint64_t *bytes) {
    const cairn_tensor *x = tensor_of(graph, op->inputs[0]), *w = tensor_of(graph, op->params[0]);
    uint64_t rows = elements(x) / x->shape[x->rank - 1];
    *flops = multiply(multiply(rows, elements(w)), 6);
    uint64_t logits = multiply(multiply(rows, w->shape[0]), 6 * sizeof(float));
    *bytes = logits > UINT64_MAX - *bytes ? UINT64_MAX : *bytes + logits;
}

void crn_op_work(const cairn_graph *graph, cairn_id id, uint64_t *flops, uint64_t *bytes) {
    const cairn_op *op = cairn_graph_op(graph, id);
    *flops = *bytes = 0;
    if (op->output_count == 1 && op->outputs[0] != CAIRN_NONE &&
        tensor_of(graph, op->outputs[0])->alias_of != CAIRN_NONE)
        return; /* an alias: no bytes are moved */
    *bytes = optimizer_bytes(graph, op);
    if (*bytes > 0)
        return;
    *bytes = sum_bytes(graph, op->inputs, op->input_count) +
             sum_bytes(graph, op->outputs, op->output_count) +
             (op->kind == CAIRN_OP_EMBEDDING /* reads only the rows that it copies */
                  ? sum_bytes(graph, op->outputs, op->output_count)
                  : sum_bytes(graph, op->params, op->param_count));
    if (op->kind == CAIRN_OP_HEAD_LOSS)
        head_work(graph, op, flops, bytes);
    if (op->kind == CAIRN_OP_OPAQUE || op->kind == CAIRN_OP_HEAD_LOSS)
        return;
    bool backward_product = op->of != CAIRN_NONE && op->kind != CAIRN_OP_ACCUMULATE;
    const cairn_op *product = backward_product ? cairn_graph_op(graph, op->of) : op;
    uint64_t count =
        op->phase == CAIRN_PHASE_FORWARD || backward_product ? products(graph, product) : 0;
    if (count > 0) {
        /* Attention's backward has five products, its forward two. */
        *flops = op->kind == CAIRN_OP_ATTENTION_BWD ? multiply(count, 5) : multiply(count, 2);
        return;
    }
    uint64_t largest = 0;
    for (uint32_t i = 0; i < op->output_count; i++)
        if (op->outputs[i] != CAIRN_NONE)
            largest = CRN_MAX(largest, elements(tensor_of(graph, op->outputs[i])));
    *flops = multiply(largest, per_element(op));
}
