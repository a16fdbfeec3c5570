/* test_graph.c: building, differentiating, refusing. */
#include "cairn.h"
#include "check.h"
#include "graph/crn_graph.h"
#include "graph/layers.h"
#include "import/importer.h"

static cairn_graph *finish(cairn_builder *builder) {
    cairn_error err = {0};
    cairn_graph *graph;
    CHECK_OK(cairn_builder_finish(builder, &graph, &err), &err);
    cairn_builder_destroy(builder);
    return graph;
}

static cairn_builder *start(const char *name) {
    cairn_builder *builder;
    cairn_error err = {0};
    CHECK_OK(cairn_builder_create(NULL, name, &builder), &err);
    return builder;
}

/* A residual block: conv, batch-norm, relu, conv, batch-norm, add, relu, pool, linear, loss. */
static cairn_graph *residual(void) {
    cairn_builder *b = start("residual");
    crn_conv conv = {.channels = 8, .kernel = {3, 3}, .pad = {1, 1, 1, 1}};
    cairn_id x = crn_build_input(b, "input", 4, (uint32_t[]){2, 8, 6, 6});
    cairn_id stem = crn_build_conv2d(b, "stem", x, &conv);
    cairn_id y = crn_build_batch_norm(b, "bn", stem, 1e-5);
    y = crn_build_relu(b, "relu", y);
    y = crn_build_conv2d(b, "conv", y, &conv);
    y = crn_build_add(b, "add", y, stem);
    y = crn_build_relu(b, "relu2", y);
    y = crn_build_adaptive_avg_pool(b, "pool", y, 1, 1);
    y = crn_build_flatten(b, "flat", y);
    y = crn_build_linear(b, "fc", y, 10);
    cairn_id label = crn_build_label(b, "label", 1, (uint32_t[]){2});
    crn_build_cross_entropy(b, "loss", y, label);
    return finish(b);
}

static const cairn_op *op_named(const cairn_graph *g, const char *name) {
    cairn_id id = crn_graph_find_op(g, name);
    if (id == CAIRN_NONE) {
        fprintf(stderr, "no op %s\n", name);
        exit(1);
    }
    return cairn_graph_op(g, id);
}

static const char *input_name(const cairn_graph *g, const char *op, uint32_t i) {
    return cairn_graph_tensor(g, op_named(g, op)->inputs[i])->name;
}

static void test_differentiate(void) {
    cairn_graph *forward = residual(), *g;
    cairn_error err = {0};
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &g, &err), &err);
    /* What each backward op reads from the forward pass. */
    CHECK_STRING(input_name(g, "conv.bwd_weight", 0), "relu");
    CHECK_STRING(input_name(g, "relu.bwd", 0), "relu");
    CHECK_STRING(input_name(g, "bn.bwd", 0), "stem");
    CHECK_STRING(input_name(g, "bn.bwd", 1), "bn.stats");
    CHECK_U64(op_named(g, "conv.bwd_data")->input_count, 1);
    /* An add has no backward op: both branches read the same gradient tensor. */
    CHECK(crn_graph_find_op(g, "add.bwd") == CAIRN_NONE);
    CHECK_STRING(input_name(g, "conv.bwd_data", 0), "add.grad");
    /* stem has two readers: the add's gradient and batch-norm's are summed by an op. */
    CHECK_STRING(input_name(g, "stem.grad.sum2", 0), "add.grad");
    CHECK_STRING(input_name(g, "stem.grad.sum2", 1), "stem.grad.2");
    CHECK_STRING(input_name(g, "stem.bwd_weight", 1), "stem.grad.sum2");
    /* The input has no gradient. */
    CHECK(crn_graph_find_op(g, "stem.bwd_data") == CAIRN_NONE);
    CHECK(op_named(g, "stem.bwd_weight")->flags & CAIRN_OP_FLAG_NEVER_AGAIN);
    CHECK(op_named(g, "bn")->flags & CAIRN_OP_FLAG_ONCE);
    const cairn_tensor *flat = cairn_graph_tensor(g, cairn_graph_find_tensor(g, "flat.grad"));
    CHECK(flat->alias_of == CAIRN_NONE);
    const cairn_tensor *pool = cairn_graph_tensor(g, cairn_graph_find_tensor(g, "pool.grad"));
    CHECK(pool->alias_of == cairn_graph_find_tensor(g, "flat.grad"));

    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(g, &summary);
    CHECK_U64(summary.parameters, 2 * 8 * 8 * 9 + 16 + 90);
    CHECK_U64(summary.gradient_bytes, 4 * summary.parameters);
    CHECK_STRING(cairn_graph_tensor(g, summary.output)->name, "fc");

    cairn_graph *again;
    CHECK(cairn_graph_differentiate(g, NULL, &again, &err) == CAIRN_EINVAL && again == NULL);
    cairn_differentiate_options options = CAIRN_DIFFERENTIATE_OPTIONS_INIT;
    options.input_gradients = true;
    CHECK_OK(cairn_graph_differentiate(forward, &options, &again, &err), &err);
    CHECK(crn_graph_find_op(again, "stem.bwd_data") != CAIRN_NONE);
    CHECK(crn_graph_hash(again) != crn_graph_hash(g));
    cairn_graph_destroy(again);
    cairn_graph_destroy(g);
    cairn_graph_destroy(forward);
}

/* Weights that are used twice: one stationary gradient, one temporary contribution, one sum. */
static void test_shared_weights(void) {
    cairn_builder *b = start("rnn");
    cairn_id params[4];
    params[0] = crn_build_parameter(b, "w_ih", 2, (uint32_t[]){5, 3});
    params[1] = crn_build_parameter(b, "w_hh", 2, (uint32_t[]){5, 5});
    params[2] = crn_build_parameter(b, "b_ih", 1, (uint32_t[]){5});
    params[3] = crn_build_parameter(b, "b_hh", 1, (uint32_t[]){5});
    cairn_id h = crn_build_input(b, "h0", 2, (uint32_t[]){2, 5});
    for (int t = 0; t < 3; t++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", t);
        cairn_id x = crn_build_input(b, name, 2, (uint32_t[]){2, 3});
        snprintf(name, sizeof name, "cell%d", t);
        h = crn_build_rnn_cell(b, name, x, h, params);
    }
    cairn_id label = crn_build_label(b, "label", 1, (uint32_t[]){2});
    crn_build_cross_entropy(b, "loss", h, label);
    cairn_graph *forward = finish(b), *g;
    cairn_error err = {0};
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &g, &err), &err);
    CHECK(cairn_graph_tensor(g, cairn_graph_find_tensor(g, "w_hh.grad"))->stationary);
    CHECK(!cairn_graph_tensor(g, cairn_graph_find_tensor(g, "w_hh.grad.2"))->stationary);
    CHECK(cairn_graph_tensor(g, cairn_graph_find_tensor(g, "w_hh.grad.sum3"))->stationary);
    CHECK_STRING(input_name(g, "cell0.bwd_weight", 2), "cell0.pregrad");
    CHECK(op_named(g, "cell0.bwd_data")->outputs[1] ==
          CAIRN_NONE); /* the gradient of h0 is not computed */
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(g, &summary);
    CHECK_U64(summary.parameters, 15 + 25 + 10);
    CHECK_U64(summary.gradient_bytes, 4 * 50);
    cairn_graph_destroy(g);
    cairn_graph_destroy(forward);
}

/* Helpers for wrong graphs of opaque ops. */
static cairn_id tensor(cairn_builder *b, const char *name, cairn_role role) {
    cairn_tensor t = CAIRN_TENSOR_INIT;
    t.name = name;
    t.role = role;
    t.bytes = 64;
    return cairn_builder_tensor(b, &t);
}

static void op(cairn_builder *b, const char *name, cairn_id in, cairn_id out) {
    cairn_op o = {.name = name, .kind = CAIRN_OP_OPAQUE, .of = CAIRN_NONE};
    o.inputs = &in;
    o.input_count = 1;
    o.outputs = &out;
    o.output_count = 1;
    cairn_builder_op(b, &o);
}

static void refused(cairn_builder *b, cairn_status expected, const char *name, const char *part) {
    cairn_error err = {0};
    cairn_graph *graph;
    CHECK(cairn_builder_finish(b, &graph, &err) == expected && graph == NULL);
    CHECK_STRING(err.name, name);
    CHECK(strstr(err.message, part) != NULL);
    cairn_builder_destroy(b);
}

static void test_refusals(void) {
    cairn_builder *b = start("cycle");
    cairn_id x = tensor(b, "x", CAIRN_ROLE_INPUT), y = tensor(b, "y", CAIRN_ROLE_ACTIVATION);
    cairn_id z = tensor(b, "z", CAIRN_ROLE_ACTIVATION);
    op(b, "f", z, y);
    op(b, "g", y, z);
    refused(b, CAIRN_EINVAL, "f", "cycle");

    b = start("order");
    x = tensor(b, "x", CAIRN_ROLE_INPUT), y = tensor(b, "y", CAIRN_ROLE_ACTIVATION);
    z = tensor(b, "z", CAIRN_ROLE_ACTIVATION);
    op(b, "f", y, z);
    op(b, "g", x, y);
    refused(b, CAIRN_EINVAL, "f", "topological order");

    b = start("dangling");
    y = tensor(b, "y", CAIRN_ROLE_ACTIVATION);
    op(b, "f", 17, y);
    refused(b, CAIRN_EINVAL, "f", "no such tensor");

    b = start("two producers");
    x = tensor(b, "x", CAIRN_ROLE_INPUT), y = tensor(b, "y", CAIRN_ROLE_ACTIVATION);
    op(b, "f", x, y);
    op(b, "g", x, y);
    refused(b, CAIRN_EINVAL, "y", "two producers");

    b = start("no producer");
    x = tensor(b, "x", CAIRN_ROLE_INPUT), y = tensor(b, "y", CAIRN_ROLE_ACTIVATION);
    z = tensor(b, "z", CAIRN_ROLE_ACTIVATION);
    op(b, "f", x, y);
    refused(b, CAIRN_EINVAL, "z", "no op produces");

    b = start("twice");
    x = tensor(b, "x", CAIRN_ROLE_INPUT), y = tensor(b, "x", CAIRN_ROLE_ACTIVATION);
    op(b, "f", x, y);
    refused(b, CAIRN_EINVAL, "x", "two tensors are called");

    b = start("space");
    x = tensor(b, "a b", CAIRN_ROLE_INPUT), y = tensor(b, "y", CAIRN_ROLE_ACTIVATION);
    op(b, "f", x, y);
    refused(b, CAIRN_EINVAL, "a b", "white space");

    b = start("alias of an alias");
    x = tensor(b, "x", CAIRN_ROLE_INPUT);
    cairn_tensor t = CAIRN_TENSOR_INIT;
    t.role = CAIRN_ROLE_ACTIVATION;
    t.bytes = 64;
    t.name = "y";
    t.alias_of = x;
    y = cairn_builder_tensor(b, &t);
    t.name = "z";
    t.alias_of = y;
    z = cairn_builder_tensor(b, &t);
    op(b, "f", x, y);
    op(b, "g", y, z);
    refused(b, CAIRN_EINVAL, "z", "alias itself");

    b = start("overflow");
    crn_build_input(b, "x", 4, (uint32_t[]){UINT32_MAX, UINT32_MAX, 2, 2});
    refused(b, CAIRN_EOVERFLOW, "x", "too large");

    b = start("sum overflow");
    t = (cairn_tensor)CAIRN_TENSOR_INIT;
    t.bytes = (uint64_t)INT64_MAX / 5;
    t.name = "x";
    x = cairn_builder_tensor(b, &t);
    t.name = "y";
    t.role = CAIRN_ROLE_ACTIVATION;
    y = cairn_builder_tensor(b, &t);
    op(b, "f", x, y);
    refused(b, CAIRN_EOVERFLOW, "y", "too large");

    b = start("empty");
    refused(b, CAIRN_EINVAL, "", "no ops");

    b = start("window");
    x = crn_build_input(b, "x", 4, (uint32_t[]){1, 3, 2, 2});
    crn_conv conv = {.channels = 4, .kernel = {5, 5}};
    x = crn_build_conv2d(b, "conv", x, &conv);
    CHECK(x == CAIRN_NONE);
    CHECK(crn_build_relu(b, "relu", x) == CAIRN_NONE);
    refused(b, CAIRN_EINVAL, "conv", "larger input");

    b = start("shapes");
    x = crn_build_input(b, "x", 2, (uint32_t[]){2, 3});
    y = crn_build_input(b, "y", 2, (uint32_t[]){3, 2});
    crn_build_add(b, "sum", x, y);
    refused(b, CAIRN_EINVAL, "sum", "different shapes");
}

/* ---- Smoothed labels ---- */

/* The smoothing is kept in files, and left out of them if it is 0. A backward op must have the
 * same. */
static void test_smoothing(void) {
    for (int i = 0; i < 2; i++) {
        cairn_builder *b = start("smoothed");
        cairn_error err = {0};
        cairn_id x = crn_build_input(b, "input", 2, (uint32_t[]){2, 4});
        x = crn_build_linear(b, "fc", x, 3);
        cairn_id label = crn_build_label(b, "label", 1, (uint32_t[]){2});
        crn_build_smoothed_cross_entropy(b, "loss", x, label, i == 0 ? 0 : 0.125);
        cairn_graph *forward = finish(b), *g, *back;
        cairn_text text, again;
        CHECK_OK(cairn_graph_differentiate(forward, NULL, &g, &err), &err);
        CHECK(op_named(g, "loss.bwd")->attributes.smoothing == (i == 0 ? 0 : 0.125));
        CHECK_OK(cairn_graph_to_json(g, &text), &err);
        CHECK((strstr(text.data, "smoothing") != NULL) == (i == 1));
        CHECK_OK(cairn_graph_from_json(NULL, text.data, text.length, "a", &back, &err), &err);
        CHECK_OK(cairn_graph_to_json(back, &again), &err);
        CHECK_STRING(again.data, text.data);
        cairn_graph_destroy(back);
        if (i == 1) {
            *strstr(text.data, "0.125") = '1'; /* 1.125, in the forward op only */
            CHECK(cairn_graph_from_json(NULL, text.data, text.length, "a", &back, &err) ==
                  CAIRN_EINVAL);
            CHECK(strstr(err.message, "smoothing") != NULL);
            *strstr(text.data, "1.125") = '0';
            strstr(text.data, "0.125")[2] = '2'; /* 0.225 */
            CHECK(cairn_graph_from_json(NULL, text.data, text.length, "a", &back, &err) ==
                  CAIRN_EINVAL);
            CHECK(strstr(err.message, "does not have the smoothing") != NULL);
        }
        cairn_text_release(&again);
        cairn_text_release(&text);
        cairn_graph_destroy(g);
        cairn_graph_destroy(forward);
    }
}

/* ---- The order of a step with updates ---- */

static cairn_id place_of(const cairn_graph *g, const char *op) {
    cairn_id place = crn_graph_find_op(g, op);
    CHECK(place != CAIRN_NONE);
    return place;
}

/* A gradient of 392 MiB, made of 7 MiB, waits with its updates until activations are freed. What it
 * is made of was computed with parameters that are updated by then, so it is not recomputed.
 * Clipping needs all gradients at once, so nothing waits there. */
static void test_delayed(bool clip) {
    cairn_zoo_options size = CAIRN_ZOO_OPTIONS_INIT;
    cairn_updates_options options = CAIRN_UPDATES_OPTIONS_INIT;
    cairn_graph *forward, *step, *whole, *delayed;
    cairn_error err = {0};
    crn_arena scratch;
    cairn_allocator allocator;
    size.batch = 64;
    options.slots = 1;
    options.clip = clip;
    CHECK_OK(cairn_model_open(NULL, "vgg11", &size, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &step, &err), &err);
    CHECK_OK(cairn_graph_add_updates(step, &options, &whole, &err), &err);
    allocator = crn_graph_allocator(whole);
    crn_arena_init(&scratch, &allocator);
    cairn_id *order = crn_arena_take(&scratch, cairn_graph_op_count(whole), sizeof *order);
    CHECK(order != NULL);
    CHECK_OK(crn_graph_delay(whole, &scratch, order, &delayed, &err), &err);
    CHECK((delayed == NULL) == clip);
    if (delayed != NULL) {
        cairn_id moved = place_of(delayed, "classifier.0.bwd_weight");
        CHECK(place_of(whole, "classifier.0.bwd_weight") < place_of(whole, "features.18.bwd_data"));
        CHECK(moved > place_of(delayed, "features.18.bwd_data"));
        CHECK_U64(place_of(delayed, "classifier.0.bias.update"), moved + 1);
        CHECK_U64(place_of(delayed, "classifier.0.weight.update.row0"), moved + 2);
        CHECK_U64(order[moved], place_of(whole, "classifier.0.bwd_weight"));
        CHECK(op_named(delayed, "avgpool")->flags & CAIRN_OP_FLAG_NEVER_AGAIN);
        CHECK(!(op_named(whole, "avgpool")->flags & CAIRN_OP_FLAG_NEVER_AGAIN));
        CHECK_U64(cairn_graph_op_count(delayed), cairn_graph_op_count(whole));
    }
    crn_arena_release(&scratch);
    cairn_graph_destroy(delayed);
    cairn_graph_destroy(whole);
    cairn_graph_destroy(step);
    cairn_graph_destroy(forward);
}

int main(void) {
    test_smoothing();
    test_delayed(false);
    test_delayed(true);
    test_differentiate();
    test_shared_weights();
    test_refusals();
    return check_result();
}
