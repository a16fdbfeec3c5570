/* test_zoo.c: the networks are the published ones: parameter counts, names and shapes; they accept
 * any possible input size, and refuse others with a message. */
#include "base/crn_base.h"
#include "cairn/zoo.h"
#include "check.h"
#include "graph/crn_graph.h"
#include "ration.h"
#include "import/importer.h"

#include <limits.h>

static cairn_graph *build(const char *name, cairn_zoo_options options) {
    cairn_error err = {0};
    cairn_graph *graph = NULL;
    options.struct_size = sizeof(options);
    CHECK_OK(crn_zoo_build(NULL, name, &options, &graph, &err), &err);
    return graph;
}

static bool reads_tokens(const cairn_zoo_entry *entry) {
    return entry->defaults.input[0] == 0;
}

static bool recurrent(const cairn_zoo_entry *entry) {
    return entry->defaults.steps > 0 && !reads_tokens(entry);
}

/* ---- the list ---- */

static void test_list(void) {
    uint32_t count = 0;
    for (const cairn_zoo_entry *entry; (entry = cairn_zoo_list(count)) != NULL; count++) {
        CHECK(entry->name[0] != '\0' && entry->summary[0] != '\0');
        CHECK_U64(entry->defaults.batch, 32);
        for (uint32_t i = 0; i < count; i++)
            CHECK(strcmp(cairn_zoo_list(i)->name, entry->name) != 0);
    }
    CHECK_U64(count, 27);
    CHECK(cairn_zoo_list(UINT32_MAX) == NULL);
}

static void test_options(void) {
    cairn_error err = {0};
    cairn_graph *graph = NULL;
    CHECK_OK(crn_zoo_build(NULL, "resnet18", NULL, &graph, &err), &err);
    const cairn_tensor *input = cairn_graph_tensor(graph, cairn_graph_find_tensor(graph, "input"));
    CHECK(input->shape[0] == 32 && input->shape[1] == 3 && input->shape[2] == 224);
    CHECK_STRING(cairn_graph_name(graph), "resnet18");
    cairn_graph_destroy(graph);

    /* a caller that knows only the first two fields */
    cairn_zoo_options older = {.struct_size = 8, .batch = 5, .classes = 77};
    CHECK_OK(crn_zoo_build(NULL, "resnet18", &older, &graph, &err), &err);
    CHECK_U64(cairn_graph_tensor(graph, cairn_graph_find_tensor(graph, "fc"))->shape[0], 5);
    CHECK_U64(cairn_graph_tensor(graph, cairn_graph_find_tensor(graph, "fc"))->shape[1], 1000);
    cairn_graph_destroy(graph);
}

/* ---- parameters ---- */

static void test_parameter_counts(void) {
    static const struct {
        const char *name;
        uint32_t classes;
        uint64_t parameters;
    } known[] = {
        {"alexnet", 0, 61100840},
        {"vgg11", 0, 132863336},
        {"vgg13", 0, 133047848},
        {"vgg16", 0, 138357544},
        {"vgg19", 0, 143667240},
        {"resnet18", 0, 11689512},
        {"resnet34", 0, 21797672},
        {"resnet50", 0, 25557032},
        {"resnet101", 0, 44549160},
        {"resnet152", 0, 60192808},
        {"densenet121", 0, 7978856},
        {"densenet161", 0, 28681000},
        {"densenet169", 0, 14149480},
        {"densenet201", 0, 20013928},
        {"inception_v3", 0, 23834568},
        {"unet", 1, 31037633},
        {"nasnet", 0, 3830950},
        {"amoebanet", 0, 3145078},
        {"darts", 0, 3349342},
        {"rnn", 0, (128 + 256 + 2) * 256 + 257 * 10},
        {"lstm", 0, (128 + 256 + 2) * 1024 + 257 * 10},
        {"convnet", 0, 18626},
        {"gpt2", 0, 124439808},
        {"gpt2:124M", 0, 124439808},
        {"gpt2:355M", 0, 354823168},
        {"gpt2:774M", 0, 774030080},
        {"gpt2:1558M", 0, 1557611200},
        {"llama", 0, 1235814400},
        {"llama:llama-2-7b", 0, 6738415616},
        {"llama:qwen2.5-0.5b", 0, 494032768},
        {"llama:qwen2.5-1.5b", 0, 1543714304},
        {"llama:qwen2.5-7b", 0, 7615616512},
        {"bert_base", 0, 109514298},
        {"vit_b_16", 0, 86567656},
        {"vit_l_16", 0, 304326632},
    };
    for (size_t i = 0; i < CRN_LENGTH(known); i++) {
        cairn_graph *graph = build(known[i].name, (cairn_zoo_options){.classes = known[i].classes});
        cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
        cairn_graph_summarize(graph, &summary);
        if (summary.parameters != known[i].parameters)
            fprintf(stderr, "%s:\n", known[i].name);
        CHECK_U64(summary.parameters, known[i].parameters);
        cairn_graph_destroy(graph);
    }
}

static void test_parameter_names(void) {
    static const struct {
        const char *network, *parameter;
        uint32_t rank, shape[4];
    } known[] = {
        {"alexnet", "features.0.weight", 4, {64, 3, 11, 11}},
        {"alexnet", "classifier.6.bias", 1, {1000}},
        {"vgg16", "features.28.weight", 4, {512, 512, 3, 3}},
        {"vgg16", "classifier.0.weight", 2, {4096, 25088}},
        {"resnet50", "conv1.weight", 4, {64, 3, 7, 7}},
        {"resnet50", "layer1.0.conv1.weight", 4, {64, 64, 1, 1}},
        {"resnet50", "layer2.0.downsample.0.weight", 4, {512, 256, 1, 1}},
        {"resnet50", "layer4.2.bn3.bias", 1, {2048}},
        {"resnet50", "fc.weight", 2, {1000, 2048}},
        {"resnet18", "layer3.1.conv2.weight", 4, {256, 256, 3, 3}},
        {"densenet161", "features.denseblock1.denselayer1.norm1.weight", 1, {96}},
        {"densenet161", "features.denseblock4.denselayer24.conv2.weight", 4, {48, 192, 3, 3}},
        {"densenet161", "features.transition1.conv.weight", 4, {192, 384, 1, 1}},
        {"densenet161", "features.norm5.weight", 1, {2208}},
        {"inception_v3", "Mixed_5b.branch1x1.conv.weight", 4, {64, 192, 1, 1}},
        {"inception_v3", "Mixed_6c.branch7x7dbl_2.conv.weight", 4, {160, 160, 7, 1}},
        {"inception_v3", "Mixed_7c.branch3x3dbl_3a.conv.weight", 4, {384, 384, 1, 3}},
        {"inception_v3", "Mixed_7c.branch_pool.bn.weight", 1, {192}},
        {"darts", "stem.0.weight", 4, {108, 3, 3, 3}},
        {"darts", "cells.0._ops.0.op.1.weight", 4, {36, 1, 3, 3}},
        {"darts", "cells.7.preprocess0.conv_1.weight", 4, {36, 144, 1, 1}},
        {"amoebanet", "cells.6._ops.8.op.1.weight", 4, {72, 72, 1, 7}},
        {"lstm", "rnn.weight_ih_l0", 2, {1024, 128}},
        {"rnn", "rnn.bias_hh_l0", 1, {256}},
        {"unet", "up1.up.weight", 4, {1024, 512, 2, 2}},
        {"unet", "down4.maxpool_conv.1.double_conv.3.weight", 4, {1024, 1024, 3, 3}},
        {"unet", "outc.conv.bias", 1, {2}},
        {"convnet", "stage1.conv2.weight", 4, {8, 8, 3, 3}},
        {"convnet", "stage3.bn1.bias", 1, {32}},
        {"convnet", "fc.weight", 2, {10, 32}},
        {"gpt2", "transformer.wte.weight", 2, {50257, 768}},
        {"gpt2", "transformer.wpe.weight", 2, {1024, 768}},
        {"gpt2:355M", "transformer.h.23.attn.c_attn.bias", 1, {3072}},
        {"gpt2", "transformer.h.11.mlp.c_fc.weight", 2, {3072, 768}},
        {"gpt2", "transformer.ln_f.bias", 1, {768}},
        {"llama", "model.layers.15.self_attn.qkv_proj.weight", 2, {3072, 2048}},
        {"llama:llama-2-7b", "lm_head.weight", 2, {32000, 4096}},
        {"llama:qwen2.5-0.5b", "model.layers.0.self_attn.qkv_proj.bias", 1, {1152}},
        {"llama:layers=1,ffn=100", "model.layers.0.mlp.gate_up_proj.weight", 2, {200, 2048}},
        {"bert_base", "bert.embeddings.token_type_embeddings.weight", 2, {2, 768}},
        {"bert_base", "cls.predictions.bias", 1, {30522}},
        {"vit_b_16", "encoder.pos_embedding", 2, {197, 768}},
        {"vit_b_16",
         "encoder.layers.encoder_layer_3.self_attention.in_proj_weight",
         2,
         {2304, 768}},
        {"vit_l_16", "heads.head.weight", 2, {1000, 1024}},
    };
    for (size_t i = 0; i < CRN_LENGTH(known); i++) {
        cairn_graph *graph = build(known[i].network, (cairn_zoo_options){0});
        cairn_id id = cairn_graph_find_tensor(graph, known[i].parameter);
        if (id == CAIRN_NONE)
            fprintf(stderr, "%s: no %s\n", known[i].network, known[i].parameter);
        CHECK(id != CAIRN_NONE);
        if (id != CAIRN_NONE) {
            const cairn_tensor *tensor = cairn_graph_tensor(graph, id);
            CHECK(tensor->role == CAIRN_ROLE_PARAMETER);
            CHECK_U64(tensor->rank, known[i].rank);
            for (uint32_t d = 0; d < known[i].rank; d++)
                CHECK_U64(tensor->shape[d], known[i].shape[d]);
        }
        cairn_graph_destroy(graph);
    }
}

/* ---- what sizes and counts do not show ---- */

static const cairn_op *op_of(const cairn_graph *graph, const char *name) {
    cairn_id id = crn_graph_find_op(graph, name);
    if (id == CAIRN_NONE) {
        fprintf(stderr, "%s has no op %s\n", cairn_graph_name(graph), name);
        exit(1);
    }
    return cairn_graph_op(graph, id);
}

static void check_input(const cairn_graph *graph, const char *op, uint32_t index,
                        const char *expected) {
    const cairn_op *reader = op_of(graph, op);
    CHECK(index < reader->input_count);
    CHECK_STRING(cairn_graph_tensor(graph, reader->inputs[index])->name, expected);
}

static void check_pad(const cairn_op *op, int top, int left, int bottom, int right) {
    const int32_t *pad = op->attributes.pad;
    CHECK(pad[0] == top && pad[1] == left && pad[2] == bottom && pad[3] == right);
}

/* The order of concatenations. */
static void test_order(void) {
    cairn_graph *graph = build("densenet121", (cairn_zoo_options){0});
    check_input(graph, "features.denseblock1.denselayer2.concat", 0,
                "features.denseblock1.denselayer1.concat");
    check_input(graph, "features.denseblock1.denselayer2.concat", 1,
                "features.denseblock1.denselayer2.conv2");
    cairn_graph_destroy(graph);

    graph = build("unet", (cairn_zoo_options){0});
    check_input(graph, "up4.concat", 0, "inc.double_conv.5");
    check_input(graph, "up4.concat", 1, "up4.up");
    cairn_graph_destroy(graph);

    graph = build("inception_v3", (cairn_zoo_options){0});
    check_input(graph, "Mixed_7b.concat", 0, "Mixed_7b.branch1x1.relu");
    check_input(graph, "Mixed_7b.concat", 1, "Mixed_7b.branch3x3_concat");
    check_input(graph, "Mixed_7b.concat", 2, "Mixed_7b.branch3x3dbl_concat");
    check_input(graph, "Mixed_7b.concat", 3, "Mixed_7b.branch_pool.relu");
    check_input(graph, "Mixed_7b.branch3x3_concat", 0, "Mixed_7b.branch3x3_2a.relu");
    cairn_graph_destroy(graph);

    graph = build("amoebanet", (cairn_zoo_options){0});
    check_input(graph, "cells.6.concat", 0, "cells.6.states.3");
    check_input(graph, "cells.6.concat", 2, "cells.6.states.6");
    check_input(graph, "cells.2.preprocess0.op.0", 0, "cells.0.concat");
    check_input(graph, "cells.2.preprocess1.op.0", 0, "cells.1.concat");
    cairn_graph_destroy(graph);
}

static void test_attributes(void) {
    cairn_graph *graph = build("inception_v3", (cairn_zoo_options){0});
    CHECK(op_of(graph, "Mixed_5b.branch1x1.bn")->attributes.epsilon == 1e-3);
    CHECK(op_of(graph, "Mixed_5b.avg_pool")->attributes.count_padding == 1);
    CHECK(op_of(graph, "dropout")->attributes.probability == 0.5);
    check_pad(op_of(graph, "Mixed_6b.branch7x7_2.conv"), 0, 3, 0, 3);
    cairn_graph_destroy(graph);

    graph = build("darts", (cairn_zoo_options){0});
    CHECK(op_of(graph, "cells.0._ops.7.op.1")->attributes.dilation[0] == 2);
    CHECK(op_of(graph, "cells.0._ops.7.op.1")->attributes.groups == 36);
    check_pad(op_of(graph, "cells.0._ops.7.op.1"), 2, 2, 2, 2);
    check_pad(op_of(graph, "cells.7.preprocess0.conv_1"), 0, 0, 0, 0);
    check_pad(op_of(graph, "cells.7.preprocess0.conv_2"), -1, -1, 0, 0);
    cairn_graph_destroy(graph);

    graph = build("nasnet", (cairn_zoo_options){.input = {3, 33, 40}});
    CHECK(op_of(graph, "cells.0._ops.4.pool")->attributes.count_padding == 0);
    check_pad(op_of(graph, "cells.7.preprocess0.conv_2"), -1, -1, 1, 0);
    cairn_graph_destroy(graph);

    graph = build("resnet50", (cairn_zoo_options){0});
    CHECK(op_of(graph, "layer2.0.conv1")->attributes.stride[0] == 1);
    CHECK(op_of(graph, "layer2.0.conv2")->attributes.stride[0] == 2);
    CHECK(op_of(graph, "bn1")->attributes.epsilon == 1e-5);
    cairn_graph_destroy(graph);
}

/* ---- any batch, input and number of classes ---- */

static void check_output(const cairn_graph *graph, const cairn_zoo_options *options) {
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(graph, &summary);
    const cairn_tensor *output = cairn_graph_tensor(graph, summary.output);
    bool pixels = output->rank == 4, tokens = output->rank == 3;
    CHECK(output->rank == 2 || pixels || tokens);
    CHECK_U64(output->shape[0], options->batch);
    CHECK_U64(output->shape[tokens ? 2 : 1], options->classes);
    if (tokens)
        CHECK_U64(output->shape[1], options->steps);
    if (pixels)
        CHECK(output->shape[2] == options->input[1] && output->shape[3] == options->input[2]);
    const cairn_tensor *label = cairn_graph_tensor(graph, cairn_graph_find_tensor(graph, "label"));
    CHECK(label->role == CAIRN_ROLE_LABEL && label->rank == (pixels ? 3u : tokens ? 2u : 1u));
    CHECK_STRING(cairn_graph_tensor(graph, summary.loss)->name, "loss");
    CHECK(cairn_graph_tensor(graph, summary.loss)->role == CAIRN_ROLE_LOSS);
}

/* The network can be built and differentiated, and every parameter has a gradient. */
static void check_whole(const char *name, cairn_zoo_options options) {
    cairn_graph *forward = build(name, options), *step = NULL;
    cairn_error err = {0};
    check_output(forward, &options);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &step, &err), &err);
    uint64_t parameters = 0, gradients = 0;
    for (cairn_id i = 0; i < cairn_graph_tensor_count(step); i++) {
        const cairn_tensor *tensor = cairn_graph_tensor(step, i);
        parameters += tensor->role == CAIRN_ROLE_PARAMETER;
        if (tensor->role == CAIRN_ROLE_GRADIENT && tensor->alias_of == CAIRN_NONE &&
            cairn_graph_tensor(step, tensor->gradient_of)->role == CAIRN_ROLE_PARAMETER &&
            tensor->producer != CAIRN_NONE)
            gradients++;
    }
    CHECK(gradients >= parameters && parameters > 0);
    cairn_graph_destroy(step);
    cairn_graph_destroy(forward);
}

static void test_batches(void) {
    const cairn_zoo_entry *entry;
    for (uint32_t i = 0; (entry = cairn_zoo_list(i)) != NULL; i++) {
        cairn_zoo_options options = entry->defaults;
        const uint32_t batches[] = {1, 3, 32, 1000};
        for (size_t k = 0; k < CRN_LENGTH(batches); k++) {
            options.batch = batches[k];
            check_whole(entry->name, options);
        }
    }
}

static void test_odd_inputs(void) {
    const cairn_zoo_entry *entry;
    for (uint32_t i = 0; (entry = cairn_zoo_list(i)) != NULL; i++) {
        cairn_zoo_options options = entry->defaults;
        options.batch = 3;
        options.classes = 1;
        if (reads_tokens(entry)) {
            options.steps = 7;
            check_whole(entry->name, options);
            continue;
        }
        options.input[0] = 5;
        bool unet = strcmp(entry->name, "unet") == 0;
        options.input[1] = unet ? 16 : 97;
        if (recurrent(entry))
            options.steps = 1;
        else
            options.input[2] = unet ? 48 : 131;
        check_whole(entry->name, options);
    }
}

static void test_recurrent(void) {
    cairn_graph *graph =
        build("lstm", (cairn_zoo_options){.batch = 2, .input = {3, 4, 0}, .steps = 7});
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(graph, &summary);
    CHECK_STRING(cairn_graph_tensor(graph, summary.input)->name, "state.0");
    const cairn_tensor *state = cairn_graph_tensor(graph, summary.input);
    CHECK(state->rank == 3 && state->shape[0] == 2 && state->shape[1] == 2 && state->shape[2] == 4);
    CHECK(cairn_graph_find_tensor(graph, "x.7") != CAIRN_NONE);
    CHECK(cairn_graph_find_tensor(graph, "x.8") == CAIRN_NONE);
    CHECK_U64(summary.forward_ops, 7 + 3);
    cairn_graph_destroy(graph);
}

/* The structure is the same for every size: a plan for one size works for another. */
static void test_structure(void) {
    cairn_graph *small = build("densenet121", (cairn_zoo_options){.batch = 1});
    cairn_graph *large = build("densenet121", (cairn_zoo_options){.batch = 64, .classes = 5});
    CHECK(crn_graph_hash(small) == crn_graph_hash(large));
    cairn_graph_destroy(small);
    cairn_graph_destroy(large);
}

/* ---- refusals ---- */

/* The network is refused with `status` and a message that contains `part`. */
static void check_refused(const char *name, cairn_zoo_options options, cairn_status status,
                          const char *part) {
    cairn_error err = {0};
    cairn_graph *graph = (cairn_graph *)&err;
    options.struct_size = sizeof(options);
    cairn_status given = crn_zoo_build(NULL, name, &options, &graph, &err);
    if (given != status || strstr(err.message, part) == NULL)
        fprintf(stderr, "%s: %s: %s\n", name, crn_status_name(given), err.message);
    CHECK(given == status && graph == NULL);
    CHECK(strstr(err.message, part) != NULL);
    CHECK(err.message[0] != '\0' && strchr(err.message, '\n') == NULL);
}

static void test_refusals(void) {
    check_refused("resnet51", (cairn_zoo_options){0}, CAIRN_EUNKNOWN, "resnet50");
    check_refused("", (cairn_zoo_options){0}, CAIRN_EUNKNOWN, "alexnet");
    check_refused("resnet50", (cairn_zoo_options){.steps = 3}, CAIRN_EINVAL, "reads no tokens");
    check_refused("rnn", (cairn_zoo_options){.label_smoothing = 1}, CAIRN_EINVAL, "smoothing");
    check_refused("rnn", (cairn_zoo_options){.input = {3, 4, 5}}, CAIRN_EINVAL, "hidden");
    check_refused("rnn", (cairn_zoo_options){.steps = UINT32_MAX}, CAIRN_EINVAL, "steps");
    check_refused("resnet50:large", (cairn_zoo_options){0}, CAIRN_EINVAL, "one size only");
    check_refused("gpt2:117M", (cairn_zoo_options){0}, CAIRN_EINVAL, "1558M");
    check_refused("gpt2:layers=0", (cairn_zoo_options){0}, CAIRN_EINVAL, "layers=0");
    check_refused("gpt2:layers=2,heads", (cairn_zoo_options){0}, CAIRN_EINVAL, "\"heads\"");
    check_refused("gpt2:width=4294967296", (cairn_zoo_options){0}, CAIRN_EINVAL, "not a size");
    check_refused("gpt2:width=100", (cairn_zoo_options){0}, CAIRN_EINVAL, "multiple");
    check_refused("gpt2:", (cairn_zoo_options){.input = {3}}, CAIRN_EINVAL, "reads tokens");
    check_refused("gpt2", (cairn_zoo_options){.steps = 1025}, CAIRN_EINVAL, "fewer positions");
    check_refused("vit_b_16", (cairn_zoo_options){.input = {3, 15, 16}}, CAIRN_EINVAL, "conv_proj");
    check_refused("unet", (cairn_zoo_options){.input = {3, 97, 131}}, CAIRN_EINVAL,
                  "multiples of 16");
    /* too small: the op at which the image vanishes is named */
    check_refused("alexnet", (cairn_zoo_options){.input = {3, 6, 224}}, CAIRN_EINVAL, "features.");
    check_refused("alexnet", (cairn_zoo_options){.input = {3, 62, 62}}, CAIRN_EINVAL,
                  "features.12");
    check_refused("vgg16", (cairn_zoo_options){.input = {3, 31, 224}}, CAIRN_EINVAL, "features.30");
    check_refused("densenet121", (cairn_zoo_options){.input = {3, 28, 28}}, CAIRN_EINVAL,
                  "features.transition3.pool");
    check_refused("inception_v3", (cairn_zoo_options){.input = {3, 74, 74}}, CAIRN_EINVAL,
                  "Mixed_7a.");
    check_refused("darts", (cairn_zoo_options){.input = {3, 2, 2}}, CAIRN_EINVAL,
                  "cells.14.preprocess0");
    /* too large */
    check_refused("resnet18",
                  (cairn_zoo_options){.batch = UINT32_MAX, .input = {3, UINT_MAX, UINT_MAX}},
                  CAIRN_EOVERFLOW, "large");
    check_refused("lstm", (cairn_zoo_options){.input = {3, UINT32_MAX, 0}}, CAIRN_EINVAL, "hidden");
}

/* The smallest inputs that are not refused. */
static void test_smallest(void) {
    static const struct {
        const char *name;
        uint32_t side;
    } smallest[] = {{"alexnet", 63},     {"vgg16", 32},        {"resnet18", 1},
                    {"densenet121", 29}, {"darts", 3},         {"nasnet", 3},
                    {"amoebanet", 3},    {"inception_v3", 75}, {"unet", 16}};
    for (size_t i = 0; i < CRN_LENGTH(smallest); i++)
        check_whole(smallest[i].name,
                    (cairn_zoo_options){.batch = 2,
                                        .input = {3, smallest[i].side, smallest[i].side},
                                        .classes = 2});
}

/* ---- memory that runs out ---- */

static void test_out_of_memory(void) {
    const char *const names[] = {"alexnet", "inception_v3", "lstm", "llama:layers=2"};
    for (size_t i = 0; i < CRN_LENGTH(names); i++) {
        cairn_status status = CAIRN_ENOMEM;
        for (long allowed = 0; status != CAIRN_OK && allowed < 10000; allowed++) {
            ration given = {.left = allowed};
            cairn_allocator allocator = {rationed, &given};
            cairn_error err = {0};
            cairn_graph *graph = NULL;
            status = crn_zoo_build(&allocator, names[i], NULL, &graph, &err);
            CHECK(status == CAIRN_OK || (status == CAIRN_ENOMEM && graph == NULL));
            cairn_graph_destroy(graph);
            CHECK(given.held == 0);
        }
        CHECK(status == CAIRN_OK);
    }
}

int main(void) {
    test_list();
    test_options();
    test_parameter_counts();
    test_parameter_names();
    test_order();
    test_attributes();
    test_batches();
    test_odd_inputs();
    test_recurrent();
    test_structure();
    test_refusals();
    test_smallest();
    test_out_of_memory();
    return check_result();
}
