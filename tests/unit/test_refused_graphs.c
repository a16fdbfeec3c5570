/* test_refused_graphs.c: graphs that are refused. Each case is a small graph with one mistake, and
 * the words that the error must contain. */
#include "cairn/graph.h"
#include "check.h"

#include <string.h>

#define TENSOR(name, role, more) "{\"name\": \"" name "\", \"role\": \"" role "\", " more "}"
#define SHAPED(name, role, shape) TENSOR(name, role, "\"shape\": " shape)
#define BYTES(name, role, bytes) TENSOR(name, role, "\"bytes\": " bytes)
#define OP(name, kind, phase, more)                                                                \
    "{\"name\": \"" name "\", \"kind\": \"" kind "\", \"phase\": \"" phase "\", " more "}"
#define FORWARD(kind, more) OP("a", kind, "forward", more)
#define OPAQUE(name, more) OP(name, "opaque", "forward", more)
#define ONE_TO_ONE "\"inputs\": [0], \"outputs\": [1]"

/* An image of 4 channels, and outputs. */
#define IMAGE SHAPED("x", "input", "[2, 4, 8, 8]")
#define ROWS SHAPED("x", "input", "[2, 4]")
#define OUTPUT SHAPED("y", "activation", "[2, 4, 8, 8]")
#define WINDOW(kernel, stride, pad, more)                                                          \
    ", \"attributes\": {\"kernel\": " kernel ", \"stride\": " stride ", \"pad\": " pad more "}"
#define DILATION(d, g) ", \"dilation\": " d ", \"groups\": " g
#define NUMBERS(name, role, shape) TENSOR(name, role, "\"dtype\": \"i32\", \"shape\": " shape)

/* A recurrent cell of 2 rows, 3 features and a state of 5. */
#define CELL(x, state, w, u, b, c)                                                                 \
    x "," state "," SHAPED("w", "parameter", w) "," SHAPED("u", "parameter", u) "," SHAPED(        \
        "b", "parameter", b) "," SHAPED("c", "parameter", c) "," SHAPED("y", "activation", "[5]")
#define OPERANDS(outputs) "\"inputs\": [0, 1], \"outputs\": " outputs ", \"params\": [2, 3, 4, 5]"
#define RNN(x, state, w, u, b, c) CELL(x, state, w, u, b, c), FORWARD("rnn_cell", OPERANDS("[6]"))
#define LSTM(x, state, w, u, b, c)                                                                 \
    CELL(x, state, w, u, b, c)                                                                     \
    "," SHAPED("g", "internal", "[5]"), FORWARD("lstm_cell", OPERANDS("[6, 7]"))
#define FEATURES(shape) SHAPED("x", "input", shape)
#define STATE(shape) SHAPED("s", "input", shape)
#define LOSS(logits, labels)                                                                       \
    logits "," OUTPUT "," labels "," SHAPED("p", "internal", "[2, 4]"),                            \
        FORWARD("cross_entropy", "\"inputs\": [0, 2], \"outputs\": [1, 3]")

typedef struct refused {
    const char *tensors, *ops, *words;
} refused;

static const refused shapes[] = {
    {ROWS "," OUTPUT "," SHAPED("w", "parameter", "[4, 4, 1, 1]"),
     FORWARD("conv2d", ONE_TO_ONE ", \"params\": [2]" WINDOW("[1, 1]", "[1, 1]", "[0, 0, 0, 0]",
                                                             DILATION("[1, 1]", "1"))),
     "needs an input of shape [N, C, H, W]"},
    {IMAGE "," OUTPUT "," SHAPED("w", "parameter", "[4, 4, 1, 1]"),
     FORWARD("conv2d", ONE_TO_ONE ", \"params\": [2]" WINDOW("[1, 1]", "[0, 1]", "[0, 0, 0, 0]",
                                                             DILATION("[1, 1]", "1"))),
     "stride or dilation below 1"},
    {IMAGE "," OUTPUT "," SHAPED("w", "parameter", "[4, 4, 1, 1]"),
     FORWARD("conv2d", ONE_TO_ONE ", \"params\": [2]" WINDOW("[1, 1]", "[70000, 1]", "[0, 0, 0, 0]",
                                                             DILATION("[1, 1]", "1"))),
     "stride or dilation above 65536"},
    {IMAGE "," OUTPUT "," SHAPED("w", "parameter", "[4, 4, 1, 1]"),
     FORWARD("conv2d", ONE_TO_ONE ", \"params\": [2]" WINDOW("[1, 1]", "[1, 1]", "[0, 70000, 0, 0]",
                                                             DILATION("[1, 1]", "1"))),
     "padding beyond 65536"},
    {IMAGE "," OUTPUT "," SHAPED("w", "parameter", "[4, 4, 1, 1]"),
     FORWARD("conv2d", ONE_TO_ONE ", \"params\": [2]" WINDOW("[1, 1]", "[1, 1]", "[0, 0, 0, 0]",
                                                             DILATION("[1, 1]", "3"))),
     "groups that do not divide its channels"},
    {IMAGE "," OUTPUT "," SHAPED("w", "parameter", "[4, 3, 1, 1]"),
     FORWARD("conv2d", ONE_TO_ONE ", \"params\": [2]" WINDOW("[1, 1]", "[1, 1]", "[0, 0, 0, 0]",
                                                             DILATION("[1, 1]", "1"))),
     "weight of the wrong shape"},
    {IMAGE "," OUTPUT
           "," SHAPED("w", "parameter", "[4, 4, 1, 1]") "," SHAPED("b", "parameter", "[5]"),
     FORWARD("conv2d", ONE_TO_ONE ", \"params\": [2, 3]" WINDOW("[1, 1]", "[1, 1]", "[0, 0, 0, 0]",
                                                                DILATION("[1, 1]", "1"))),
     "bias of the wrong shape"},
    {IMAGE "," OUTPUT "," SHAPED("w", "parameter", "[4, 4, 9, 9]"),
     FORWARD("conv2d", ONE_TO_ONE ", \"params\": [2]" WINDOW("[9, 9]", "[1, 1]", "[0, 0, 0, 0]",
                                                             DILATION("[1, 1]", "1"))),
     "9x9 window that does not fit its 8x8 input"},
    {IMAGE "," OUTPUT "," SHAPED("w", "parameter", "[3, 4, 2, 2]"),
     FORWARD("conv_transpose2d", ONE_TO_ONE
             ", \"params\": [2], \"attributes\": {\"kernel\": [2, 2], \"stride\": [2, 2]}"),
     "weight of the wrong shape"},
    {IMAGE "," OUTPUT "," SHAPED("w", "parameter", "[4, 4]"),
     FORWARD("linear", ONE_TO_ONE ", \"params\": [2]"), "weight of the wrong shape"},
    {ROWS "," OUTPUT "," SHAPED("w", "parameter", "[4, 5]"),
     FORWARD("linear", ONE_TO_ONE ", \"params\": [2]"), "weight of the wrong shape"},
    {BYTES("x", "input", "64") "," BYTES("y", "activation", "64"), FORWARD("relu", ONE_TO_ONE),
     "needs an input with a shape"},
    {IMAGE "," OUTPUT, FORWARD("dropout", ONE_TO_ONE ", \"attributes\": {\"probability\": 1.0}"),
     "probability outside 0 <= p < 1"},
    {IMAGE "," OUTPUT "," SHAPED("i", "internal", "[2, 4, 8, 8]"),
     FORWARD("max_pool",
             "\"inputs\": [0], \"outputs\": [1, 2]" WINDOW("[2, 2]", "[2, 2]", "[2, 0, 0, 0]", "")),
     "padding of more than half of its kernel"},
    {IMAGE "," OUTPUT,
     FORWARD("avg_pool",
             ONE_TO_ONE WINDOW("[2, 2]", "[2, 2]", "[-1, 0, 0, 0]", ", \"count_padding\": 0")),
     "padding of more than half of its kernel"},
    {IMAGE "," OUTPUT,
     FORWARD("adaptive_avg_pool", ONE_TO_ONE ", \"attributes\": {\"size\": [0, 1]}"),
     "output size below 1"},
    {IMAGE "," SHAPED("x2", "input", "[2, 4, 8, 7]") "," OUTPUT,
     FORWARD("add", "\"inputs\": [0, 1], \"outputs\": [2]"), "adds tensors of different shapes"},
    {IMAGE "," SHAPED("x2", "input", "[2, 4, 8, 7]") "," OUTPUT,
     FORWARD("concat", "\"inputs\": [0, 1], \"outputs\": [2]"),
     "differ in more than their channels"},
    {SHAPED("x", "input", "[8]") "," SHAPED("y", "activation", "[8]"),
     FORWARD("flatten", ONE_TO_ONE), "at least two dimensions"},
    {ROWS "," SHAPED("y", "activation", "[4]"),
     FORWARD("select", ONE_TO_ONE ", \"attributes\": {\"index\": 2}"),
     "selects a slice that its input does not have"},
    {LOSS(ROWS, SHAPED("l", "label", "[2]")), "needs logits [N, C, ...] and integer labels"},
    {LOSS(ROWS, NUMBERS("l", "label", "[3]")), "needs logits [N, C, ...] and integer labels"},
    {LOSS(ROWS, NUMBERS("l", "label", "[2, 4]")), "needs logits [N, C, ...] and integer labels"},
    {LOSS(FEATURES("[2]"), NUMBERS("l", "label", "[2]")), "needs logits [N, C, ...]"},
    {LOSS(NUMBERS("x", "input", "[2, 4]"), NUMBERS("l", "label", "[2]")), "needs logits"},
    {LOSS(IMAGE, NUMBERS("l", "label", "[2, 7, 8]")), "needs logits [N, C, ...]"},
    {LOSS(IMAGE, NUMBERS("l", "label", "[2, 8, 7]")), "needs logits [N, C, ...]"},
    {IMAGE "," OUTPUT "," SHAPED("w", "parameter", "[4, 4, 1, 1]"),
     FORWARD("conv2d", ONE_TO_ONE ", \"params\": [2]" WINDOW(
                           "[1, 1]", "[1, 1]", "[0, 0, -70000, 0]", DILATION("[1, 1]", "1"))),
     "padding beyond 65536"},
    {SHAPED("x", "input", "[1, 1, 70000, 1]") "," OUTPUT
                                              "," SHAPED("w", "parameter", "[1, 1, 1, 1]"),
     FORWARD("conv_transpose2d", ONE_TO_ONE
             ", \"params\": [2], \"attributes\": {\"kernel\": [1, 1], \"stride\": [65536, 1]}"),
     "makes an image that is too large"},
    {SHAPED("x", "input", "[1, 1, 1, 70000]") "," OUTPUT
                                              "," SHAPED("w", "parameter", "[1, 1, 1, 1]"),
     FORWARD("conv_transpose2d", ONE_TO_ONE
             ", \"params\": [2], \"attributes\": {\"kernel\": [1, 1], \"stride\": [1, 65536]}"),
     "makes an image that is too large"},
    {NUMBERS("x", "input", "[2, 4]") "," OUTPUT "," SHAPED("w", "parameter", "[4, 4]"),
     FORWARD("linear", ONE_TO_ONE ", \"params\": [2]"), "needs an input of shape [..., F]"},
    {NUMBERS("x", "input", "[2, 4]") "," OUTPUT, FORWARD("relu", ONE_TO_ONE),
     "needs an input with a shape"},
    {IMAGE "," OUTPUT, FORWARD("dropout", ONE_TO_ONE ", \"attributes\": {\"probability\": -0.5}"),
     "probability outside 0 <= p < 1"},
    {ROWS "," OUTPUT,
     FORWARD("adaptive_avg_pool", ONE_TO_ONE ", \"attributes\": {\"size\": [1, 1]}"),
     "needs an input of shape [N, C, H, W]"},
    {IMAGE "," OUTPUT,
     FORWARD("adaptive_avg_pool", ONE_TO_ONE ", \"attributes\": {\"size\": [1, 0]}"),
     "output size below 1"},
    {ROWS "," OUTPUT,
     FORWARD("avg_pool",
             ONE_TO_ONE WINDOW("[2, 2]", "[2, 2]", "[0, 0, 0, 0]", ", \"count_padding\": 0")),
     "needs an input of shape [N, C, H, W]"},
    {ROWS "," SHAPED("x2", "input", "[2, 4]") "," OUTPUT,
     FORWARD("concat", "\"inputs\": [0, 1], \"outputs\": [2]"),
     "needs an input of shape [N, C, H, W]"},
    {SHAPED("x", "input", "[2, 65536, 65536]") "," OUTPUT, FORWARD("flatten", ONE_TO_ONE),
     "makes a row that is too long"},
    {FEATURES("[2]") "," OUTPUT, FORWARD("select", ONE_TO_ONE ", \"attributes\": {\"index\": 0}"),
     "selects a slice that its input does not have"},
    {ROWS "," OUTPUT, FORWARD("select", ONE_TO_ONE ", \"attributes\": {\"index\": -1}"),
     "selects a slice that its input does not have"},
    {NUMBERS("x", "input", "[2, 4]") "," OUTPUT,
     FORWARD("select", ONE_TO_ONE ", \"attributes\": {\"index\": 0}"),
     "selects a slice that its input does not have"},
    {RNN(FEATURES("[2, 3]"), STATE("[2, 5, 1]"), "[5, 3]", "[5, 5]", "[5]", "[5]"),
     "needs a state of shape [N, H]"},
    {RNN(FEATURES("[2, 3]"), NUMBERS("s", "input", "[2, 5]"), "[5, 3]", "[5, 5]", "[5]", "[5]"),
     "needs a state of shape [N, H]"},
    {RNN(FEATURES("[2, 3, 1]"), STATE("[2, 5]"), "[5, 3]", "[5, 5]", "[5]", "[5]"),
     "a state for as many rows"},
    {RNN(FEATURES("[3, 3]"), STATE("[2, 5]"), "[5, 3]", "[5, 5]", "[5]", "[5]"),
     "a state for as many rows"},
    {RNN(FEATURES("[2, 3]"), STATE("[2, 5]"), "[5, 4]", "[5, 5]", "[5]", "[5]"),
     "weights of the wrong shape"},
    {RNN(FEATURES("[2, 3]"), STATE("[2, 5]"), "[5, 3]", "[5, 4]", "[5]", "[5]"),
     "weights of the wrong shape"},
    {RNN(FEATURES("[2, 3]"), STATE("[2, 5]"), "[5, 3]", "[5, 5]", "[4]", "[5]"),
     "weights of the wrong shape"},
    {RNN(FEATURES("[2, 3]"), STATE("[2, 5]"), "[5, 3]", "[5, 5]", "[5]", "[4]"),
     "weights of the wrong shape"},
    {LSTM(FEATURES("[2, 3]"), STATE("[2, 5]"), "[20, 3]", "[20, 5]", "[20]", "[20]"),
     "needs a state of shape [2, N, H]"},
    {LSTM(FEATURES("[2, 3]"), STATE("[3, 2, 5]"), "[20, 3]", "[20, 5]", "[20]", "[20]"),
     "needs a state of shape [2, N, H]"},
    {LSTM(FEATURES("[2, 3]"), STATE("[2, 2, 5]"), "[5, 3]", "[20, 5]", "[20]", "[20]"),
     "weights of the wrong shape"},
    {IMAGE "," SHAPED("y", "activation", "[2, 4, 8, 7]"), FORWARD("relu", ONE_TO_ONE),
     "with the shape, role and storage that it is said to have"},
    {IMAGE "," OUTPUT, OP("a", "relu", "backward", ONE_TO_ONE), "is not of the backward phase"},
};

static const refused structures[] = {
    {BYTES("x y", "input", "64") "," BYTES("y", "activation", "64"), OPAQUE("a", ONE_TO_ONE),
     "tensor 0 needs a name"},
    {BYTES("x", "input", "64") "," BYTES("x", "activation", "64"), OPAQUE("a", ONE_TO_ONE),
     "two tensors are called \"x\""},
    {BYTES("x", "input", "64") "," BYTES("y", "activation", "64"), OPAQUE("a b", ONE_TO_ONE),
     "op 0 needs a name"},
    {BYTES("x", "input", "64") "," BYTES("y", "activation", "64") "," BYTES("z", "activation",
                                                                            "64"),
     OPAQUE("a", ONE_TO_ONE) "," OPAQUE("a", "\"inputs\": [0], \"outputs\": [2]"),
     "two ops are called \"a\""},
    {BYTES("x", "input", "64") "," BYTES("y", "activation", "64"),
     FORWARD("relu", "\"inputs\": [0, 0], \"outputs\": [1]"), "which a relu cannot have"},
    {BYTES("x", "input", "64") "," BYTES("y", "activation", "64"),
     OPAQUE("a", ONE_TO_ONE ", \"params\": [0]"), "but its role is input"},
    {BYTES("x", "parameter", "64") "," BYTES("y", "activation", "64"), OPAQUE("a", ONE_TO_ONE),
     "list it in params"},
    {BYTES("x", "input", "64") "," BYTES("y", "activation", "64"),
     OPAQUE("a", ONE_TO_ONE ", \"inplace\": [[1, 0]]"), "operands that it does not have"},
    {BYTES("x", "input", "64") "," BYTES("y", "activation", "128"),
     OPAQUE("a", ONE_TO_ONE ", \"inplace\": [[0, 0]]"), "differ in size or in kind of storage"},
    {BYTES("x", "input", "64") "," BYTES("y", "activation", "64") "," BYTES("z", "activation",
                                                                            "64"),
     OP("b", "opaque", "backward", ONE_TO_ONE) "," OPAQUE("a", "\"inputs\": [0], \"outputs\": [2]"),
     "stands after one of the backward phase"},
    {BYTES("x", "input", "64") "," BYTES("y", "activation", "64"),
     OP("b", "opaque", "backward", ONE_TO_ONE ", \"of\": 0"), "which is not a forward op"},
    {BYTES("x", "input", "64") "," BYTES("y", "activation", "64"),
     OPAQUE("a", ONE_TO_ONE) "," OPAQUE("b", ONE_TO_ONE), "has two producers"},
    {BYTES("x", "input", "64") "," BYTES("y", "input", "64"), OPAQUE("a", ONE_TO_ONE),
     "cannot be produced by an op"},
    {BYTES("x", "input", "64") "," BYTES("y", "activation", "64") "," BYTES("z", "activation",
                                                                            "64"),
     OPAQUE("a", ONE_TO_ONE), "no op produces the activation \"z\""},
    {BYTES("x", "input", "64"), "", "has no ops"},
    {BYTES("y", "activation", "64") "," BYTES("z", "activation", "64"),
     OPAQUE("a", ONE_TO_ONE) "," OPAQUE("b", "\"inputs\": [1], \"outputs\": [0]"),
     "the graph has a cycle"},
    {BYTES("x", "input", "64") "," BYTES("y", "activation", "64") "," BYTES("z", "activation",
                                                                            "64"),
     OPAQUE("b", "\"inputs\": [2], \"outputs\": [1]") "," OPAQUE(
         "a", "\"inputs\": [0], \"outputs\": [2]"),
     "put the ops in topological order"},
    {BYTES("x", "input", "64") "," TENSOR("y", "activation", "\"bytes\": 64, \"alias_of\": 1"),
     OPAQUE("a", ONE_TO_ONE), "an alias of a tensor that does not exist"},
    {BYTES("x", "input", "64") "," TENSOR("y", "activation", "\"bytes\": 128, \"alias_of\": 0"),
     OPAQUE("a", ONE_TO_ONE), "not of the same size or storage"},
    {BYTES("x", "input", "64") "," TENSOR(
         "y", "activation", "\"bytes\": 64, \"alias_of\": 2") "," BYTES("w", "input", "64"),
     OPAQUE("a", ONE_TO_ONE), "which its producer does not read"},
    {BYTES("x", "input", "64") "," TENSOR(
         "y", "activation",
         "\"bytes\": 64, \"alias_of\": 0") "," TENSOR("z", "activation",
                                                      "\"bytes\": 64, \"alias_of\": 1"),
     OPAQUE("a", ONE_TO_ONE) "," OPAQUE("b", "\"inputs\": [1], \"outputs\": [2]"),
     "which is an alias itself"},
    {BYTES("x", "input", "64") "," TENSOR("y", "activation", "\"bytes\": 64, \"stationary\": true"),
     OPAQUE("a", ONE_TO_ONE), "cannot be stationary"},
    {TENSOR("x", "input", "\"bytes\": 64, \"result\": true") "," BYTES("y", "activation", "64"),
     OPAQUE("a", ONE_TO_ONE), "cannot be a result"},
    {BYTES("x", "input", "64") "," TENSOR("y", "gradient", "\"shape\": [4], \"gradient_of\": 0"),
     OPAQUE("a", ONE_TO_ONE), "does not exist or has another shape"},
    {BYTES("x", "input", "2305843009213693952") "," BYTES("y", "activation", "64"),
     OPAQUE("a", ONE_TO_ONE), "the graph is too large"},
};

static void check_refused(const refused *c) {
    char text[4096];
    int length = snprintf(text, sizeof text,
                          "{\"format\": \"cairn-graph\", \"version\": 1, \"name\": \"t\", "
                          "\"tensors\": [%s], \"ops\": [%s]}",
                          c->tensors, c->ops);
    CHECK(length > 0 && (size_t)length < sizeof text);
    cairn_graph *graph = NULL;
    cairn_error err = {0};
    cairn_status status = cairn_graph_from_json(NULL, text, (size_t)length, "t.json", &graph, &err);
    CHECK(status == CAIRN_EINVAL || status == CAIRN_EOVERFLOW);
    CHECK(graph == NULL);
    if (strstr(err.message, c->words) == NULL)
        fprintf(stderr, "\"%s\"\n    does not say \"%s\"\n", err.message, c->words);
    CHECK(strstr(err.message, c->words) != NULL);
    cairn_graph_destroy(graph);
}

int main(void) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_refused(&shapes[i]);
    for (size_t i = 0; i < sizeof structures / sizeof *structures; i++)
        check_refused(&structures[i]);
    return check_result();
}
