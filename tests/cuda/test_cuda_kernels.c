/* test_cuda_kernels.c: the kernels of the backend cuda, run on the processor, against the ops of
 * the reference: over the cases of op_cases.json and random ones, for both element types, and for
 * pitches that allow 16-byte accesses and pitches that do not. */
#include "backend/attention_cases.h"
#include "backend/random_cases.h"
#include "cuda/attention_comparisons.h"
#include "cuda/image_comparisons.h"
#include "cuda/sequence_comparisons.h"

static uint32_t kinds_compared[CAIRN_OP_KINDS];

static bool compare_kernel(comparison *at, cairn_id id, float *state[2]) {
    const cairn_op *op = cairn_graph_op(at->ref.graph, id);
    switch (op->kind) {
    case CAIRN_OP_BATCH_NORM:
        return norm(at, op, state[0], state[1]), true;
    case CAIRN_OP_BATCH_NORM_BWD:
        return norm_bwd(at, op), true;
    case CAIRN_OP_RELU:
        return pointwise(at, op, CRN_RELU), true;
    case CAIRN_OP_RELU_BWD:
        return pointwise(at, op, CRN_RELU_BWD), true;
    case CAIRN_OP_ADD:
    case CAIRN_OP_ACCUMULATE:
        return pointwise(at, op, CRN_ADD), true;
    case CAIRN_OP_DROPOUT:
    case CAIRN_OP_DROPOUT_BWD:
        return dropout(at, op, id), true;
    case CAIRN_OP_CONCAT:
        return concat(at, op), true;
    case CAIRN_OP_CONCAT_BWD:
        return concat_bwd(at, op), true;
    case CAIRN_OP_SELECT_BWD:
        return select_bwd(at, op), true;
    case CAIRN_OP_MAX_POOL:
        return max_pool(at, op), true;
    case CAIRN_OP_MAX_POOL_BWD:
        return max_pool_bwd(at, op), true;
    case CAIRN_OP_AVG_POOL:
        return avg_pool(at, op, false, false), true;
    case CAIRN_OP_AVG_POOL_BWD:
        return avg_pool(at, op, false, true), true;
    case CAIRN_OP_ADAPTIVE_AVG_POOL:
        return avg_pool(at, op, true, false), true;
    case CAIRN_OP_ADAPTIVE_AVG_POOL_BWD:
        return avg_pool(at, op, true, true), true;
    case CAIRN_OP_CONV2D:
    case CAIRN_OP_CONV_TRANSPOSE2D_BWD_DATA:
        return conv_data(at, op, GATHER), true;
    case CAIRN_OP_CONV_TRANSPOSE2D:
    case CAIRN_OP_CONV2D_BWD_DATA:
        return conv_data(at, op, SCATTER), true;
    case CAIRN_OP_CONV2D_BWD_WEIGHT:
        return conv_weight(at, op, 0), true;
    case CAIRN_OP_CONV_TRANSPOSE2D_BWD_WEIGHT:
        return conv_weight(at, op, 1), true;
    case CAIRN_OP_LINEAR:
        return linear(at, op), true;
    case CAIRN_OP_LINEAR_BWD_DATA:
        return linear_bwd_data(at, op), true;
    case CAIRN_OP_LINEAR_BWD_WEIGHT:
        return linear_bwd_weight(at, op), true;
    case CAIRN_OP_RNN_CELL:
        return cell(at, op, 1), true;
    case CAIRN_OP_LSTM_CELL:
        return cell(at, op, 4), true;
    case CAIRN_OP_RNN_CELL_BWD_DATA:
        return cell_bwd(at, op, 1), true;
    case CAIRN_OP_LSTM_CELL_BWD_DATA:
        return cell_bwd(at, op, 4), true;
    case CAIRN_OP_RNN_CELL_BWD_WEIGHT:
    case CAIRN_OP_LSTM_CELL_BWD_WEIGHT:
        return cell_bwd_weight(at, op), true;
    case CAIRN_OP_CROSS_ENTROPY:
        return cross_entropy(at, op), true;
    case CAIRN_OP_CROSS_ENTROPY_BWD:
        return cross_entropy_bwd(at, op), true;
    case CAIRN_OP_ATTENTION:
        return attention(at, op), true;
    case CAIRN_OP_ATTENTION_BWD:
        return attention_bwd(at, op), true;
    default:
        return compare_sequence(at, op);
    }
}

/* Statistics of a norm or of attention are an operand that is always float. */
static bool is_statistics(const cairn_op *op, uint32_t input) {
    if (op->kind == CAIRN_OP_ATTENTION_BWD)
        return input == 2;
    return input == 1 && (op->kind == CAIRN_OP_BATCH_NORM_BWD ||
                          op->kind == CAIRN_OP_LAYER_NORM_BWD || op->kind == CAIRN_OP_RMS_NORM_BWD);
}

/* Round what an op reads to bf16, so that both compute from the same values. */
static void round_inputs(comparison *at, const cairn_op *op) {
    for (uint32_t i = 0; i < op->input_count && at->k.element == CRN_ELEMENT_BF16; i++) {
        const cairn_tensor *t = tensor_of(at, op->inputs[i]);
        if (t->dtype != CAIRN_DTYPE_F32 || is_statistics(op, i))
            continue;
        uint64_t count = fill_count(t);
        uint16_t *halves = malloc(count * sizeof *halves);
        crn_convert_args args = {.to_element = CRN_ELEMENT_BF16,
                                 .count = count,
                                 .from = at->ref.place[op->inputs[i]],
                                 .to = halves};
        kernel_rig_run(&at->k, crn_convert_launch(&args), &args);
        args = (crn_convert_args){.from_element = CRN_ELEMENT_BF16,
                                  .count = count,
                                  .from = halves,
                                  .to = at->ref.place[op->inputs[i]]};
        kernel_rig_run(&at->k, crn_convert_launch(&args), &args);
        free(halves);
    }
}

static void compare_op(comparison *at, cairn_id id) {
    const cairn_op *op = cairn_graph_op(at->ref.graph, id);
    float *state[2] = {0};
    round_inputs(at, op);
    for (uint32_t i = 0; op->kind == CAIRN_OP_BATCH_NORM && i < 2; i++)
        state[i] = floats(at, op->params[2 + i]); /* before the reference updates them */
    rig_run(&at->ref, id);
    kinds_compared[op->kind] += compare_kernel(at, id, state);
    kernel_rig_clear(&at->k);
}

static void test_case(const json_t *given, kernel_rig *k, bool training) {
    op_case c = case_build(given, true);
    comparison at = {.k = *k};
    rig_open(&at.ref, c.graph, "ref", 1);
    at.ref.training = training;
    case_fill(&c, &at.ref);
    for (cairn_id o = 0; o < cairn_graph_op_count(c.graph); o++) {
        if (o == c.behind)
            case_fill_gradient(&c, &at.ref);
        int failures = check_failures;
        compare_op(&at, o);
        if (check_failures > failures)
            fprintf(stderr, "in case %s, op %s, element %u, pitch %u\n", c.name,
                    cairn_op_kind_name(cairn_graph_op(c.graph, o)->kind), k->element, k->extra);
    }
    rig_close(&at.ref);
    cairn_graph_destroy(c.graph);
    *k = at.k;
}

/* A depthwise convolution, as the searched networks have it, with random sizes and attributes. */
static json_t *depthwise_case(crn_rng *rng) {
    uint32_t channels = draw(rng, 2, 90), kernel = 1 + 2 * draw(rng, 0, 3);
    uint32_t stride = draw(rng, 1, 2), dilation = draw(rng, 1, 3) / 2 + 1;
    uint32_t across = draw(rng, 0, 3) == 0 ? draw(rng, 1, 7) : kernel;
    uint32_t pad = dilation * (kernel - 1) / 2, size = (kernel - 1) * dilation + draw(rng, 1, 9);
    return json_pack("{s:s, s:s, s:[[i,i,i,i]], s:[[i,i,i,i],[i]], s:{s:[i,i], s:[i,i], "
                     "s:[i,i,i,i], s:[i,i], s:i}}",
                     "name", "depthwise", "kind", "conv2d", "inputs", draw(rng, 1, 3), channels,
                     size, size + draw(rng, 0, 3) + across * dilation, "params", channels, 1,
                     kernel, across, channels, "attributes", "kernel", kernel, across, "stride",
                     stride, stride, "pad", pad, pad, pad, pad, "dilation", dilation, dilation,
                     "groups", channels);
}

/* Norms of so many rows that a block has several chunks of them, and of rows with several tiles. */
static void test_large_norms(kernel_rig *k) {
    static const uint32_t sizes[][2] = {{8700, 24}, {40, 1101}, {70, 1600}};
    for (uint32_t i = 0; i < 12; i++) {
        json_t *given =
            json_pack("{s:s, s:s, s:[[i,i]], s:[[i]], s:{s:f}}", "name", "large norm", "kind",
                      i / 6 == 0 ? "layer_norm" : "rms_norm", "inputs", sizes[i % 3][0],
                      sizes[i % 3][1], "params", sizes[i % 3][1], "attributes", "epsilon", 1e-5);
        k->element = i / 3 % 2, k->extra = 0;
        test_case(given, k, true);
        json_decref(given);
    }
}

int main(void) {
    crn_rng rng = {0};
    kernel_rig *k = calloc(1, sizeof *k);
    json_t *cases = case_load(CAIRN_TEST_DATA "/op_cases.json");
    for (uint32_t form = 0; form < 8; form++) {
        k->element = form % 2, k->extra = form / 2;
        for (size_t i = 0; i < json_array_size(cases); i++)
            test_case(json_array_get(cases, i), k, true);
    }
    for (uint32_t i = 0; i < 360; i++) {
        json_t *given = i % 6 == 5 ? depthwise_case(&rng) : random_case(&rng, i);
        k->element = i % 2, k->extra = i / 2 % 4;
        test_case(given, k, i % 5 != 4);
        k->element = 0;
        test_case(given, k, i % 5 != 4);
        json_decref(given);
    }
    for (uint32_t i = 0; i < 120; i++) {
        json_t *given = random_sequence(&rng, i);
        k->element = i / RANDOM_SEQUENCES % 2;
        test_case(given, k, true);
        json_decref(given);
    }
    for (uint32_t i = 0; i < 2 * ATTENTION_CASES; i++) {
        json_t *given = attention_case(&rng, i);
        k->element = i / ATTENTION_CASES, k->extra = 0;
        test_case(given, k, true);
        json_decref(given);
    }
    test_large_norms(k);
    json_decref(cases);
    for (cairn_op_kind kind = 0; kind < CAIRN_OP_KINDS; kind++)
        CHECK(kinds_compared[kind] > 0 || kind == CAIRN_OP_OPAQUE || kind == CAIRN_OP_FLATTEN ||
              kind == CAIRN_OP_FLATTEN_BWD || kind == CAIRN_OP_SELECT ||
              kind >= CAIRN_OP_UPDATE /* test_cuda_update.c, test_head.c */);
    free(k);
    return check_result();
}
