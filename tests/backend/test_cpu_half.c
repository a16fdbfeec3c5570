/* test_cpu_half.c: the ops of transformers on the backend cpu with sequences in bf16, against the
 * reference, which gets the same rounded operands: over the cases of op_cases.json, random ones,
 * attention, and linear layers of which any of both sides is bf16. Also: a second run and a run in
 * place give the same bits. */
#include "backend/attention_cases.h"
#include "backend/compare_ops.h"
#include "backend/random_cases.h"

#define TOLERANCE 5e-3 /* of the largest element: a result is rounded by up to 2^-9 of itself */

/* ---- Which tensors are bf16 ---- */

enum { BOTH, INPUT, OUTPUT, MODES };

static bool is_linear(cairn_op_kind kind) {
    return kind == CAIRN_OP_LINEAR || kind == CAIRN_OP_LINEAR_BWD_DATA ||
           kind == CAIRN_OP_LINEAR_BWD_WEIGHT;
}

static bool is_pointwise(cairn_op_kind kind) {
    return kind == CAIRN_OP_RELU || kind == CAIRN_OP_RELU_BWD || kind == CAIRN_OP_ADD ||
           kind == CAIRN_OP_DROPOUT || kind == CAIRN_OP_DROPOUT_BWD;
}

static void halve(rig *r, cairn_id t) {
    r->storage[t] = crn_storage_of(cairn_graph_tensor(r->graph, t), CRN_PLAIN, 1, CRN_BF16);
    sequences_half++;
}

static bool is_of(const cairn_graph *graph, cairn_id t, cairn_id of) {
    return t == of || cairn_graph_tensor(graph, t)->gradient_of == of;
}

/* Operands of the op under test that are no sequences by their kind. */
static void halve_operands(rig *r, const op_case *c, int mode) {
    const cairn_op *op = cairn_graph_op(r->graph, c->op);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(r->graph); t++) {
        bool input = is_of(r->graph, t, op->inputs[0]) ||
                     is_of(r->graph, t, op->inputs[op->input_count - 1]);
        bool output = is_of(r->graph, t, c->y);
        bool wanted = (input && mode != OUTPUT) || (output && mode != INPUT);
        if ((is_linear(c->kind) || is_pointwise(c->kind)) && wanted && is_sequence(r->graph, t))
            halve(r, t);
    }
}

/* ---- A case ---- */

/* Only ops that meet bf16 are compared; those behind the case belong to its loss. */
static bool is_compared(const rig *r, const cairn_op *op) {
    bool any = false;
    for (uint32_t i = 0; i < op->input_count; i++)
        any = any || r->storage[op->inputs[i]].type == CRN_BF16;
    for (uint32_t i = 0; i < op->output_count; i++)
        any = any || (op->outputs[i] != CAIRN_NONE && r->storage[op->outputs[i]].type == CRN_BF16);
    return any && (is_of_sequences(op->kind) || is_linear(op->kind) || is_pointwise(op->kind));
}

static void test_case(const json_t *given, int mode, uint32_t threads) {
    op_case c = case_build(given, true);
    rig ref, cpu;
    rig_open(&ref, c.graph, "ref", 1);
    rig_open_with(&cpu, c.graph, "cpu", threads);
    halve_sequences(&cpu);
    halve_operands(&cpu, &c, mode);
    rig_place(&cpu);
    case_fill(&c, &ref);
    for (cairn_id o = 0; o < cairn_graph_op_count(c.graph); o++) {
        if (o == c.behind)
            case_fill_gradient(&c, &ref);
        if (is_compared(&cpu, cairn_graph_op(c.graph, o)))
            compare_op(&cpu, &ref, &c, o, TOLERANCE);
        else
            rig_run(&ref, o);
    }
    rig_close(&ref);
    rig_close(&cpu);
    cairn_graph_destroy(c.graph);
}

static json_t *random_linear(crn_rng *rng) {
    uint32_t features = draw(rng, 1, 70), outputs = draw(rng, 1, 90);
    json_t *params = json_pack("[[i,i]]", outputs, features);
    if (draw(rng, 0, 1) == 1)
        json_array_append_new(params, json_pack("[i]", outputs));
    return json_pack("{s:s, s:s, s:[[i,i,i]], s:o}", "name", "random_linear", "kind", "linear",
                     "inputs", draw(rng, 1, 3), draw(rng, 1, 40), features, "params", params);
}

static json_t *sequence_pointwise(crn_rng *rng, const char *kind) {
    json_t *shape = json_pack("[i,i,i]", draw(rng, 1, 3), draw(rng, 1, 40), draw(rng, 1, 70));
    json_t *inputs = json_pack("[O]", shape);
    if (strcmp(kind, "add") == 0)
        json_array_append(inputs, shape);
    json_decref(shape);
    return json_pack("{s:s, s:s, s:o, s:{s:f}}", "name", "sequence_pointwise", "kind", kind,
                     "inputs", inputs, "attributes", "probability", 0.3);
}

static void test_drawn(json_t *given, int mode, uint32_t threads) {
    test_case(given, mode, threads);
    json_decref(given);
}

static bool has_bf16(void) {
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    cairn_device *device;
    cairn_error err = {0};
    options.math = CAIRN_MATH_BF16;
    bool has = cairn_device_open("cpu", &options, &device, &err) == CAIRN_OK;
    if (!has)
        printf("%s\n", err.message);
    cairn_device_close(device);
    return has;
}

int main(void) {
    static const char *const pointwise[] = {"relu", "add", "dropout"};
    crn_rng rng = {0};
    if (!has_bf16())
        return 77;
    json_t *cases = case_load(CAIRN_TEST_DATA "/op_cases.json");
    for (size_t i = 0; i < json_array_size(cases); i++)
        test_case(json_array_get(cases, i), BOTH, 1 + (uint32_t)i % 3);
    for (uint32_t i = 0; i < 96; i++)
        test_drawn(random_sequence(&rng, i), BOTH, 2);
    for (uint32_t i = 0; i < 2 * ATTENTION_CASES; i++)
        test_drawn(attention_case(&rng, i), BOTH, 1 + i % 3);
    for (uint32_t i = 0; i < 30; i++)
        test_drawn(random_linear(&rng), (int)(i % MODES), 2);
    for (uint32_t i = 0; i < 12; i++)
        test_drawn(sequence_pointwise(&rng, pointwise[i % 3]), BOTH, 2);
    CHECK(sequences_half > 300 && permissions_tried > 100);
    for (cairn_op_kind kind = 0; kind < CAIRN_OP_KINDS; kind++)
        if (is_of_sequences(kind) || is_linear(kind) || is_pointwise(kind))
            CHECK(kinds_compared[kind] > 0);
    json_decref(cases);
    return check_result();
}
