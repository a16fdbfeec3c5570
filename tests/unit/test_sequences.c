/* test_sequences.c: networks of ops on sequences as graphs: tied weights, what backward ops read,
 * files, and what is refused. */
#include "cairn/cost.h"
#include "cairn/graph.h"
#include "check.h"
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"
#include "graph/layers.h"

#define BATCH 2u
#define TOKENS 4u
#define WIDTH 6u
#define WORDS 10u

static cairn_builder *builder(void) {
    cairn_builder *b;
    cairn_error err = {0};
    CHECK_OK(cairn_builder_create(NULL, "small", &b), &err);
    return b;
}

/* A transformer of one block whose head is the table of its embedding. */
static cairn_graph *tied_network(void) {
    cairn_builder *b = builder();
    cairn_error err = {0};
    cairn_graph *forward, *step;
    uint32_t table[] = {WORDS, WIDTH}, wide[] = {3 * WIDTH, WIDTH};
    cairn_id tokens = crn_build_tokens(b, "input", 2, (uint32_t[]){BATCH, TOKENS});
    cairn_id labels = crn_build_label(b, "label", 2, (uint32_t[]){BATCH, TOKENS});
    cairn_id words = crn_build_parameter(b, "wte", 2, table);
    cairn_id packed = crn_build_parameter(b, "qkv", 2, wide);
    cairn_id x = crn_build_embedding(b, "embedding", tokens, words, 0.02);
    cairn_id positions = crn_build_parameter(b, "positions", 2, (uint32_t[]){9, WIDTH});
    x = crn_build_add_positions(b, "wpe", x, positions, false, 0.02);
    cairn_id y = crn_build_layer_norm(b, "norm", x, 1e-5);
    y = crn_build_linear_with(b, "packed", y, packed, CAIRN_NONE, 0.02);
    y = crn_build_rotary(b, "rotary", y, 1, 1, 10000);
    y = crn_build_attention(b, "attention", y, 1, 1, true);
    y = crn_build_linear(b, "out", y, WIDTH);
    x = crn_build_add(b, "sum", x, y);
    x = crn_build_linear_with(b, "head", x, words, CAIRN_NONE, 0);
    crn_build_token_cross_entropy(b, "loss", x, labels, 0);
    CHECK_OK(cairn_builder_finish(b, &forward, &err), &err);
    cairn_builder_destroy(b);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &step, &err), &err);
    cairn_graph_destroy(forward);
    return step;
}

static const cairn_op *op_named(const cairn_graph *g, const char *name) {
    cairn_id op = crn_graph_find_op(g, name);
    CHECK(op != CAIRN_NONE);
    return cairn_graph_op(g, op);
}

/* The head's gradient of the table is written first, that of the embedding is added to it. */
static void test_tied(const cairn_graph *g) {
    const cairn_op *head = op_named(g, "head.bwd_weight"), *table = op_named(g, "embedding.bwd");
    CHECK(cairn_graph_tensor(g, head->outputs[0])->stationary);
    CHECK_U64(table->input_count, 3);
    CHECK_U64(table->inputs[2], head->outputs[0]); /* the gradient so far, which it adds to */
    CHECK(table->inplace_count == 1 && table->inplace[0].input == 2);
    CHECK((table->flags & CAIRN_OP_FLAG_NEVER_AGAIN) != 0);
    CHECK(cairn_graph_tensor(g, table->outputs[0])->stationary);
    CHECK(crn_graph_is_result(g, table->outputs[0]));
    CHECK(crn_graph_is_summed(g, head->outputs[0]));
    CHECK(crn_graph_find_op(g, "wte.grad.sum2") == CAIRN_NONE);
}

/* Positions pass the gradient on: the embedding's backward reads that of their result. */
static void test_passed(const cairn_graph *g) {
    CHECK_U64(op_named(g, "embedding.bwd")->inputs[1], op_named(g, "wpe.bwd")->inputs[0]);
    CHECK_U64(cairn_graph_find_tensor(g, "input.grad"), CAIRN_NONE);
}

/* Nothing that attention makes or reads is quadratic in the length. */
static void test_attention(const cairn_graph *g) {
    const cairn_op *forward = op_named(g, "attention"), *backward = op_named(g, "attention.bwd");
    CHECK_U64(cairn_graph_tensor(g, forward->outputs[1])->bytes, 4 * BATCH * TOKENS);
    CHECK_U64(backward->input_count, 4);
    CHECK_U64(backward->inputs[2], forward->outputs[1]);
    uint64_t flops, more, bytes;
    crn_op_work(g, crn_graph_find_op(g, "attention"), &flops, &bytes);
    crn_op_work(g, crn_graph_find_op(g, "attention.bwd"), &more, &bytes);
    CHECK_U64(flops, 2 * BATCH * TOKENS * TOKENS * WIDTH); /* two causal products, one head */
    CHECK_U64(more * 2, flops * 5);
}

static void test_file(const cairn_graph *g) {
    cairn_text text, again;
    cairn_graph *back;
    cairn_error err = {0};
    CHECK_OK(cairn_graph_to_json(g, &text), &err);
    CHECK(strstr(text.data, "\"heads\": 1, \"kv_heads\": 1, \"causal\": 1}") != NULL);
    CHECK(strstr(text.data, "same_row") == NULL); /* 0 is left out */
    CHECK_OK(cairn_graph_from_json(NULL, text.data, text.length, "a", &back, &err), &err);
    CHECK_OK(cairn_graph_to_json(back, &again), &err);
    CHECK_STRING(again.data, text.data);
    cairn_graph_destroy(back);
    char *heads = strstr(strstr(text.data, "attention_bwd"), "\"heads\": 1");
    memcpy(heads, "\"heads\": 0", 10);
    CHECK(cairn_graph_from_json(NULL, text.data, text.length, "a", &back, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.message, "does not have the heads of \"attention\"") != NULL);
    cairn_text_release(&again);
    cairn_text_release(&text);
}

/* ---- What is refused ---- */

static cairn_id sequence(cairn_builder *b, uint32_t width) {
    return crn_build_input(b, "x", 3, (uint32_t[]){BATCH, TOKENS, width});
}

static void refuse_heads(cairn_builder *b) {
    crn_build_attention(b, "y", sequence(b, 12), 3, 2, false);
}
static void refuse_width(cairn_builder *b) {
    crn_build_attention(b, "y", sequence(b, 13), 2, 1, false);
}
static void refuse_odd_rotation(cairn_builder *b) {
    crn_build_rotary(b, "y", sequence(b, 9), 1, 1, 10000);
}
static void refuse_theta(cairn_builder *b) {
    crn_build_rotary(b, "y", sequence(b, 12), 1, 1, 0);
}
static void refuse_positions(cairn_builder *b) {
    cairn_id rows = crn_build_parameter(b, "rows", 2, (uint32_t[]){TOKENS - 1, 5});
    crn_build_add_positions(b, "y", sequence(b, 5), rows, false, 0);
}
static void refuse_token(cairn_builder *b) {
    crn_build_select_token(b, "y", sequence(b, 5), TOKENS);
}
static void refuse_square(cairn_builder *b) {
    cairn_id x = sequence(b, 5);
    crn_build_multiply(b, "y", x, x);
}
static void refuse_odd_rows(cairn_builder *b) {
    crn_build_swiglu(b, "y", sequence(b, 5));
}
static void refuse_real_tokens(cairn_builder *b) {
    cairn_id table = crn_build_parameter(b, "table", 2, (uint32_t[]){WORDS, WIDTH});
    crn_build_embedding(b, "y", sequence(b, 5), table, 0);
}
static void refuse_labels(cairn_builder *b) {
    cairn_id labels = crn_build_label(b, "label", 2, (uint32_t[]){BATCH, TOKENS + 1});
    crn_build_token_cross_entropy(b, "y", sequence(b, 5), labels, 0);
}

static void test_refusals(void) {
    static const struct {
        void (*build)(cairn_builder *b);
        const char *message;
    } cases[] = {
        {refuse_heads, "heads that are a multiple"},
        {refuse_width, "its heads do not divide"},
        {refuse_odd_rotation, "heads of even size"},
        {refuse_theta, "theta above 0"},
        {refuse_positions, "fewer positions"},
        {refuse_token, "a token that its input does not have"},
        {refuse_square, "by itself"},
        {refuse_odd_rows, "rows of even length"},
        {refuse_real_tokens, "integer tokens"},
        {refuse_labels, "integer labels [N, T]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cairn_builder *b = builder();
        cairn_graph *g = NULL;
        cairn_error err = {0};
        cases[i].build(b);
        CHECK(cairn_builder_finish(b, &g, &err) == CAIRN_EINVAL);
        CHECK(g == NULL && strstr(err.message, cases[i].message) != NULL);
        cairn_builder_destroy(b);
    }
}

int main(void) {
    cairn_graph *g = tied_network();
    test_tied(g);
    test_passed(g);
    test_attention(g);
    test_file(g);
    test_refusals();
    cairn_graph_destroy(g);
    return check_result();
}
