/* test_weights.c: saves parameters and state of an executor to a file and loads them. A file that
 * does not fit is refused with a message and changes nothing. Argument: the backend. */
#include "cairn/safetensors.h"
#include "exec/small_networks.h"
#include "exec/toy_network.h"
#include "weights/crn_weights.h"
#include "weights/evaluation.h"
#include "import/importer.h"

#include <unistd.h>

#define EVERYTHING (CAIRN_EXEC_PARAMETERS | CAIRN_EXEC_STATE)

static char path[] = "test_weights.XXXXXX";

/* ---- A toy ---- */

static evaluation open_toy(uint64_t seed) {
    evaluation e = {.graph = toy_network(NULL, 2, 8), .device = test_device(evaluation_backend, 1)};
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    options.seed = seed;
    e.exec = executor_of(e.device, e.graph, "none", &options);
    return e;
}

static void train(evaluation *e, uint64_t steps) {
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    for (uint64_t step = 0; step < steps; step++) {
        cairn_error err = {0};
        CHECK_OK(cairn_exec_fill(e->exec, step, &err), &err);
        CHECK_OK(cairn_exec_run(e->exec, step, &result, &err), &err);
        cairn_exec_update(e->exec);
    }
}

static void hash(evaluation *e, char out[65]) {
    cairn_error err = {0};
    CHECK_OK(cairn_exec_sha256(e->exec, EVERYTHING, out, &err), &err);
}

static float *read_weight(evaluation *e, cairn_id t) {
    cairn_error err = {0};
    float *data = malloc(cairn_graph_tensor(e->graph, t)->bytes);
    CHECK_OK(cairn_exec_read(e->exec, t, data, &err), &err);
    return data;
}

/* Add 1 to its first element. */
static void move_first(evaluation *e, cairn_id t) {
    cairn_error err = {0};
    float *data = read_weight(e, t);
    data[0] += 1;
    CHECK_OK(cairn_exec_write(e->exec, t, data, &err), &err);
    free(data);
}

/* ---- From memory ---- */

/* Tensors that another program has in its memory, without a file. */
static void test_from_memory(void) {
    evaluation a = open_toy(1), b = open_toy(2);
    cairn_error err = {0};
    cairn_named_tensor tensors[64];
    char from[65], to[65];
    uint32_t count = 0;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(a.graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(a.graph, t);
        if (tensor->role != CAIRN_ROLE_PARAMETER && tensor->role != CAIRN_ROLE_STATE)
            continue;
        tensors[count] = (cairn_named_tensor){
            .name = tensor->name, .element = CAIRN_ELEMENT_F32, .rank = tensor->rank};
        for (uint32_t i = 0; i < tensor->rank; i++)
            tensors[count].shape[i] = tensor->shape[i];
        tensors[count++].data = read_weight(&a, t);
    }
    hash(&a, from);
    CHECK_OK(cairn_weights_assign(b.exec, b.graph, tensors, count, NULL, NULL, &err), &err);
    hash(&b, to);
    CHECK_STRING(to, from);
    CHECK(cairn_weights_assign(b.exec, b.graph, tensors, count - 1, "memory", NULL, &err) ==
          CAIRN_EINVAL);
    CHECK(strstr(err.message, "lacks 1 of the") != NULL);
    CHECK_STRING(err.file, "memory");
    for (uint32_t i = 0; i < count; i++)
        free((void *)tensors[i].data);
    evaluation_close(&b);
    evaluation_close(&a);
}

/* ---- Round trip ---- */

static void test_round_trip(void) {
    evaluation a = open_toy(1), b = open_toy(2);
    cairn_error err = {0};
    cairn_text notices;
    char before[65], after[65];
    train(&a, 2);
    cairn_weights_save_options options = CAIRN_WEIGHTS_SAVE_OPTIONS_INIT;
    const float slot[] = {1, 2};
    cairn_named_tensor extra = {
        .name = "cairn.slot", .element = CAIRN_ELEMENT_F32, .rank = 1, .shape = {2}, .data = slot};
    cairn_pair word = {"epoch", "3"};
    options.steps = 2;
    options.metadata = &word;
    options.metadata_count = 1;
    options.extra = &extra;
    options.extra_count = 1;
    CHECK_OK(cairn_weights_save(a.exec, a.graph, path, &options, &err), &err);
    CHECK_OK(cairn_weights_load(b.exec, b.graph, path, &notices, &err), &err);
    CHECK_U64(notices.length, 0);
    cairn_text_release(&notices);
    hash(&a, before);
    hash(&b, after);
    CHECK_STRING(after, before);

    cairn_safetensors *file;
    CHECK_OK(cairn_safetensors_load(NULL, path, &file, &err), &err);
    const cairn_named_tensor *tracked = crn_safetensors_find(file, "bn7.num_batches_tracked");
    CHECK(tracked != NULL && tracked->element == CAIRN_ELEMENT_I64 && tracked->rank == 0);
    CHECK_U64(*(const uint64_t *)tracked->data, 2);
    const cairn_named_tensor *weight = crn_safetensors_find(file, "conv2.weight");
    CHECK(weight != NULL && weight->rank == 4 && weight->shape[0] == 16 && weight->shape[1] == 8);
    CHECK(crn_safetensors_find(file, "cairn.slot") != NULL);
    CHECK_STRING(cairn_safetensors_value(file, "format"), "pt");
    CHECK_STRING(cairn_safetensors_value(file, "network"), "toy");
    CHECK_STRING(cairn_safetensors_value(file, "epoch"), "3");
    cairn_safetensors_destroy(file);

    /* The caller's metadata overrides the default; an extra tensor with the name of a weight is
     * refused. */
    word = (cairn_pair){"format", "mine"};
    extra.name = "conv1.weight";
    CHECK(cairn_weights_save(a.exec, a.graph, path, &options, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.message, "two tensors are called conv1.weight") != NULL);
    options.extra_count = 0;
    CHECK_OK(cairn_weights_save(a.exec, a.graph, path, &options, &err), &err);
    CHECK_OK(cairn_safetensors_load(NULL, path, &file, &err), &err);
    CHECK_STRING(cairn_safetensors_value(file, "format"), "mine");
    cairn_safetensors_destroy(file);
    CHECK(cairn_weights_load(b.exec, b.graph, "no/such/file", &notices, &err) == CAIRN_EUNKNOWN);
    CHECK_U64(notices.length, 0);
    evaluation_close(&a);
    evaluation_close(&b);
}

/* ---- Files that were changed ---- */

#define MOST 128

/* The toy's file with its tensors in a list that can be changed. */
typedef struct edited {
    evaluation toy;
    cairn_safetensors *file;
    cairn_named_tensor tensors[MOST];
    uint32_t count;
    char fingerprint[65];
} edited;

static void open_edited(edited *e) {
    cairn_error err = {0};
    e->toy = open_toy(1);
    CHECK_OK(cairn_weights_save(e->toy.exec, e->toy.graph, path, NULL, &err), &err);
    CHECK_OK(cairn_safetensors_load(NULL, path, &e->file, &err), &err);
    const cairn_named_tensor *tensors = cairn_safetensors_tensors(e->file, &e->count);
    CHECK(e->count < MOST - 8);
    memcpy(e->tensors, tensors, e->count * sizeof *tensors);
    hash(&e->toy, e->fingerprint);
}

static void close_edited(edited *e) {
    cairn_safetensors_destroy(e->file);
    evaluation_close(&e->toy);
}

static cairn_named_tensor *entry(edited *e, const char *name) {
    for (uint32_t i = 0; i < e->count; i++)
        if (strcmp(e->tensors[i].name, name) == 0)
            return &e->tensors[i];
    fprintf(stderr, "there is no %s\n", name);
    exit(1);
}

static cairn_named_tensor *add(edited *e, const char *name) {
    cairn_named_tensor *added = &e->tensors[e->count++];
    *added = *entry(e, "fc2.bias");
    added->name = name;
    return added;
}

static void drop(edited *e, const char *name) {
    *entry(e, name) = e->tensors[--e->count];
}

/* Write the list and load it. */
static cairn_status load(edited *e, cairn_text *notices, cairn_error *err) {
    CHECK_OK(cairn_safetensors_save(NULL, path, e->tensors, e->count, NULL, 0, err), err);
    return cairn_weights_load(e->toy.exec, e->toy.graph, path, notices, err);
}

/* The file must be refused with these words, and nothing may change. */
static void refuse(edited *e, const char *says) {
    cairn_error err = {0};
    char text[1024], after[65];
    cairn_text notices;
    cairn_status status = load(e, &notices, &err);
    cairn_error_text(&err, text, sizeof text);
    CHECK(status == CAIRN_EINVAL && strstr(text, says) != NULL && strstr(text, path) == text);
    if (strstr(text, says) == NULL)
        fprintf(stderr, "  \"%s\" does not say \"%s\"\n", text, says);
    CHECK(notices.data == NULL);
    hash(&e->toy, after);
    CHECK_STRING(after, e->fingerprint);
    cairn_text_release(&notices);
    close_edited(e);
}

static void test_refusals(void) {
    static edited e;
    open_edited(&e);
    drop(&e, "bn3.running_var");
    drop(&e, "conv1.weight");
    refuse(&e, "lacks 2 of the ");
    open_edited(&e);
    drop(&e, "conv1.weight");
    refuse(&e, " of toy, the first conv1.weight");
    open_edited(&e);
    add(&e, "fc3.bias");
    add(&e, "fc4.bias");
    refuse(&e, "has 2 tensors that toy does not have, the first fc3.bias");
    open_edited(&e);
    entry(&e, "fc2.bias")->name = "head.bias";
    refuse(&e, "does not belong to toy: it lacks 1 of the 41 tensors, the first fc2.bias, and "
               "has 1 of another network, the first head.bias");
    open_edited(&e);
    entry(&e, "conv2.weight")->shape[0] = 8;
    entry(&e, "conv2.weight")->shape[1] = 16;
    refuse(&e, "conv2.weight is [8, 16, 3, 3] in the file and [16, 8, 3, 3] in toy");
    open_edited(&e);
    entry(&e, "bn1.bias")->rank = 2;
    entry(&e, "bn1.bias")->shape[1] = 1;
    refuse(&e, "bn1.bias is [8, 1] in the file and [8] in toy");
    open_edited(&e);
    entry(&e, "fc2.bias")->shape[0] = 7;
    refuse(&e, "fc2.bias is [7] in the file and [10] in toy: the file is for 7 classes, the "
               "network has 10");
    open_edited(&e);
    entry(&e, "fc2.bias")->element = CAIRN_ELEMENT_I32;
    refuse(&e, "fc2.bias has elements of I32, where F32, F64, F16 or BF16 are expected");
    open_edited(&e);
    add(&e, "module.fc2.bias");
    refuse(&e, "has both fc2.bias and module.fc2.bias, which are the same tensor");
}

/* The file must be accepted with this notice, or without one if it is empty. */
static void accept(edited *e, const char *notice) {
    cairn_error err = {0};
    cairn_text notices;
    char after[65];
    for (cairn_id t = 0; t < cairn_graph_tensor_count(e->toy.graph); t++)
        if (cairn_graph_tensor(e->toy.graph, t)->role == CAIRN_ROLE_PARAMETER)
            move_first(&e->toy, t);
    CHECK_OK(load(e, &notices, &err), &err);
    CHECK_STRING(notices.data, notice);
    hash(&e->toy, after);
    CHECK_STRING(after, e->fingerprint);
    cairn_text_release(&notices);
    close_edited(e);
}

static void test_ignored(void) {
    static edited e;
    open_edited(&e);
    accept(&e, "");
    open_edited(&e);
    add(&e, "cairn.momentum.conv1.weight");
    add(&e, "other.num_batches_tracked");
    drop(&e, "bn1.num_batches_tracked");
    accept(&e, "");
    open_edited(&e);
    add(&e, "AuxLogits.conv0.conv.weight");
    add(&e, "aux1.fc.weight");
    add(&e, "auxiliary_head.classifier.bias");
    accept(&e, "an auxiliary head is left out: 3 tensors that toy does not have, the first "
               "AuxLogits.conv0.conv.weight\n");
    open_edited(&e);
    entry(&e, "conv1.weight")->name = "module._orig_mod.conv1.weight";
    add(&e, "module.aux");
    accept(&e,
           "an auxiliary head is left out: 1 tensors that toy does not have, the first module.aux\n"
           "1 names are read without what stands in front: module._orig_mod.conv1.weight as "
           "conv1.weight\n");
}

/* ---- Other precisions ---- */

static void test_conversion(void) {
    static edited e;
    cairn_error err = {0};
    cairn_text notices;
    const uint16_t half[10] = {0x3c00, 0xc000, 0x0001, 0x8001, 0x03ff,
                               0x0400, 0x7bff, 0x7c00, 0xfc00, 0x8000};
    const float of_half[10] = {1.0f,          -2.0f,         5.9604645e-8f, -5.9604645e-8f,
                               6.0975552e-5f, 6.1035156e-5f, 65504.0f,      INFINITY,
                               -INFINITY,     -0.0f};
    const uint16_t brain[10] = {0x3f80, 0xc000, 0x0001, 0x7f80, 0x8000, 0x4049, 0, 1, 2, 3};
    const double wide[10] = {1.0 / 3, 1e-300, -2, 1e300, 0, 16777217, 3, 4, 5, 6};
    open_edited(&e);
    cairn_named_tensor *bias = entry(&e, "fc2.bias");
    cairn_id id = cairn_graph_find_tensor(e.toy.graph, "fc2.bias");
    float to[10];

    bias->element = CAIRN_ELEMENT_F16;
    bias->data = half;
    CHECK_OK(load(&e, &notices, &err), &err);
    CHECK_STRING(notices.data, "1 tensors become F32, the first fc2.bias\n");
    CHECK_OK(cairn_exec_read(e.toy.exec, id, to, &err), &err);
    CHECK(memcmp(to, of_half, sizeof of_half) == 0);
    cairn_text_release(&notices);

    bias->element = CAIRN_ELEMENT_BF16;
    bias->data = brain;
    CHECK_OK(load(&e, NULL, &err), &err);
    CHECK_OK(cairn_exec_read(e.toy.exec, id, to, &err), &err);
    for (int i = 0; i < 10; i++) {
        uint32_t bits;
        memcpy(&bits, &to[i], sizeof bits);
        CHECK_U64(bits, (uint32_t)brain[i] << 16);
    }

    bias->element = CAIRN_ELEMENT_F64;
    bias->data = wide;
    CHECK_OK(load(&e, NULL, &err), &err);
    CHECK_OK(cairn_exec_read(e.toy.exec, id, to, &err), &err);
    CHECK(to[0] == 1.0f / 3 && to[1] == 0 && to[2] == -2 && to[3] == INFINITY);
    CHECK(to[5] == 16777216);
    close_edited(&e);
}

/* ---- Names ---- */

/* An early file of DenseNet: a dot before the number of a layer's norms and convolutions. */
static void test_old_densenet(void) {
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    options.batch = 1;
    options.input[0] = 3;
    options.input[1] = options.input[2] = 32;
    evaluation a = evaluation_open("densenet121", &options, 8, "infer", 1);
    evaluation b = evaluation_open("densenet121", &options, 8, "infer", 2);
    cairn_error err = {0};
    cairn_safetensors *file;
    cairn_text notices;
    uint32_t count, changed = 0;
    CHECK_OK(cairn_weights_save(a.exec, a.graph, path, NULL, &err), &err);
    CHECK_OK(cairn_safetensors_load(NULL, path, &file, &err), &err);
    const cairn_named_tensor *tensors = cairn_safetensors_tensors(file, &count);
    cairn_named_tensor *old = calloc(count, sizeof *old);
    char(*names)[128] = calloc(count, sizeof *names);
    for (uint32_t i = 0; i < count; i++) {
        const char *layer = strstr(tensors[i].name, "denselayer");
        const char *split = layer == NULL ? NULL : strchr(layer, '.') + 5; /* after .norm, .conv */
        old[i] = tensors[i];
        if (split == NULL || fill_ends(tensors[i].name, "tracked"))
            continue;
        snprintf(names[i], sizeof names[i], "%.*s.%s", (int)(split - tensors[i].name),
                 tensors[i].name, split);
        old[i].name = names[i];
        changed++;
    }
    CHECK_OK(cairn_safetensors_save(NULL, path, old, count, NULL, 0, &err), &err);
    CHECK_OK(cairn_weights_load(b.exec, b.graph, path, &notices, &err), &err);
    char words[64], first[65], second[65];
    snprintf(words, sizeof words, "%u names are of the old form", changed);
    CHECK(changed == 58 * 10 && strstr(notices.data, words) == notices.data);
    CHECK(strstr(notices.data, "features.denseblock1.denselayer1.conv.1.weight\n") != NULL);
    hash(&a, first);
    hash(&b, second);
    CHECK_STRING(second, first);
    cairn_text_release(&notices);
    free(names);
    free(old);
    cairn_safetensors_destroy(file);
    evaluation_close(&a);
    evaluation_close(&b);
}

/* The number of tensors in a file of each network. Networks of torchvision have as many as its
 * state_dict(); inception_v3 is without its auxiliary head, which has 14 more. */
static const struct {
    const char *network;
    uint32_t tensors;
} tensor_counts[] = {
    {"alexnet", 16},
    {"vgg11", 22},
    {"vgg13", 26},
    {"vgg16", 32},
    {"vgg19", 38},
    {"resnet18", 122},
    {"resnet34", 218},
    {"resnet50", 320},
    {"resnet101", 626},
    {"resnet152", 932},
    {"densenet121", 727},
    {"densenet161", 967},
    {"densenet169", 1015},
    {"densenet201", 1207},
    {"inception_v3", 566},
    {"nasnet", 1650},
    {"amoebanet", 1384},
    {"darts", 1636},
    {"rnn", 6},
    {"lstm", 6},
    {"unet", 118},
};

static uint32_t tensors_in_file(void) {
    cairn_safetensors *file;
    cairn_error err = {0};
    uint32_t count;
    CHECK_OK(cairn_safetensors_load(NULL, path, &file, &err), &err);
    cairn_safetensors_tensors(file, &count);
    cairn_safetensors_destroy(file);
    return count;
}

static void check_tensors_of(const char *network) {
    for (size_t i = 0; i < sizeof tensor_counts / sizeof *tensor_counts; i++)
        if (strcmp(tensor_counts[i].network, network) == 0)
            CHECK_U64(tensors_in_file(), tensor_counts[i].tensors);
}

/* Every network of the zoo, as narrow as possible: what is saved can be loaded again. */
static void test_zoo(void) {
    const cairn_zoo_entry *network;
    for (uint32_t i = 0; (network = cairn_zoo_list(i)) != NULL; i++) {
        cairn_zoo_options options = small_options(network);
        bool recurrent = network->defaults.steps > 0 && network->small == NULL;
        uint32_t divisor = recurrent ? 1 : 12;
        options.batch = 1;
        evaluation a = evaluation_open(network->name, &options, divisor, "none", 1);
        evaluation b = evaluation_open(network->name, &options, divisor, "infer", 2);
        cairn_error err = {0};
        char first[65], second[65];
        CHECK_OK(cairn_weights_save(a.exec, a.graph, path, NULL, &err), &err);
        check_tensors_of(network->name);
        CHECK_OK(cairn_weights_load(b.exec, b.graph, path, NULL, &err), &err);
        hash(&a, first);
        hash(&b, second);
        CHECK_STRING(second, first);
        evaluation_close(&a);
        evaluation_close(&b);
    }
}

/* ---- Hugging Face's form of transformers ---- */

static const cairn_named_tensor *check_form(const cairn_safetensors *file, const char *name,
                                            uint64_t rows, uint64_t columns) {
    const cairn_named_tensor *found = crn_safetensors_find(file, name);
    CHECK(found != NULL);
    if (found != NULL)
        CHECK(found->shape[0] == rows && (found->rank == 1 || found->shape[1] == columns));
    return found;
}

/* Packed projections are parts in a file, and GPT-2's matrices are transposed. Files with a head
 * that is the table, or without the outer module's name, load too. */
static void test_forms(void) {
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    cairn_error err = {0};
    cairn_safetensors *file;
    uint32_t count;
    options.batch = 1;
    options.steps = 3;
    options.classes = 11;
    evaluation e = evaluation_open("llama", &options, 2, "none", 1);
    CHECK_OK(cairn_weights_save(e.exec, e.graph, path, NULL, &err), &err);
    CHECK_OK(cairn_safetensors_load(NULL, path, &file, &err), &err);
    check_form(file, "model.layers.1.self_attn.q_proj.weight", 32, 32);
    check_form(file, "model.layers.1.self_attn.k_proj.weight", 16, 32);
    check_form(file, "model.layers.0.mlp.up_proj.weight", 48, 32);
    CHECK(crn_safetensors_find(file, "model.layers.0.mlp.gate_up_proj.weight") == NULL);
    cairn_named_tensor tensors[64];
    const cairn_named_tensor *all = cairn_safetensors_tensors(file, &count);
    memcpy(tensors, all, count * sizeof *all);
    tensors[count] = *check_form(file, "model.embed_tokens.weight", 11, 32);
    tensors[count].name = "lm_head.weight"; /* the same elements: harmless */
    CHECK_OK(cairn_weights_assign(e.exec, e.graph, tensors, count + 1, NULL, NULL, &err), &err);
    tensors[count].data = crn_safetensors_find(file, "model.layers.0.mlp.up_proj.weight")->data;
    CHECK(cairn_weights_assign(e.exec, e.graph, tensors, count + 1, NULL, NULL, &err) ==
          CAIRN_EINVAL); /* another head than the network's */
    CHECK(cairn_weights_assign(e.exec, e.graph, tensors, count - 1, NULL, NULL, &err) ==
          CAIRN_EINVAL);
    cairn_safetensors_destroy(file);
    evaluation_close(&e);

    e = evaluation_open("gpt2", &options, 2, "none", 1);
    CHECK_OK(cairn_weights_save(e.exec, e.graph, path, NULL, &err), &err);
    CHECK_OK(cairn_safetensors_load(NULL, path, &file, &err), &err);
    const cairn_named_tensor *fc = check_form(file, "transformer.h.0.mlp.c_fc.weight", 32, 128);
    cairn_id own = cairn_graph_find_tensor(e.graph, "transformer.h.0.mlp.c_fc.weight");
    float *plain = malloc(fc->bytes);
    CHECK_OK(cairn_exec_read(e.exec, own, plain, &err), &err);
    CHECK(plain[5 * 32 + 7] == ((const float *)fc->data)[7 * 128 + 5]);
    free(plain);
    all = cairn_safetensors_tensors(file, &count);
    memcpy(tensors, all, count * sizeof *all);
    for (uint32_t i = 0; i < count; i++)
        tensors[i].name += strlen("transformer.");
    CHECK_OK(cairn_weights_assign(e.exec, e.graph, tensors, count, NULL, NULL, &err), &err);
    cairn_safetensors_destroy(file);
    evaluation_close(&e);
}

/* Names and shapes of torchvision's state_dict(), some of each family: those that show how layers
 * are numbered and nested. */
static const struct {
    const char *network, *name;
    uint32_t shape[5]; /* ended by 0 */
} known_names[] = {
    {"alexnet", "features.10.weight", {256, 256, 3, 3}},
    {"alexnet", "classifier.1.weight", {4096, 9216}},
    {"alexnet", "classifier.6.bias", {1000}},
    {"vgg11", "features.18.weight", {512, 512, 3, 3}},
    {"vgg13", "features.22.bias", {512}},
    {"vgg16", "features.28.weight", {512, 512, 3, 3}},
    {"vgg16", "classifier.0.weight", {4096, 25088}},
    {"vgg19", "features.34.weight", {512, 512, 3, 3}},
    {"resnet18", "conv1.weight", {64, 3, 7, 7}},
    {"resnet18", "layer2.0.downsample.1.running_var", {128}},
    {"resnet34", "layer3.5.bn2.bias", {256}},
    {"resnet50", "layer1.0.downsample.0.weight", {256, 64, 1, 1}},
    {"resnet101", "layer3.22.conv3.weight", {1024, 256, 1, 1}},
    {"resnet152", "layer2.7.conv2.weight", {128, 128, 3, 3}},
    {"resnet152", "fc.weight", {1000, 2048}},
    {"densenet121", "features.norm0.running_mean", {64}},
    {"densenet121", "features.denseblock3.denselayer24.conv2.weight", {32, 128, 3, 3}},
    {"densenet161", "features.transition1.conv.weight", {192, 384, 1, 1}},
    {"densenet169", "features.transition3.norm.weight", {1280}},
    {"densenet201", "features.norm5.weight", {1920}},
    {"densenet201", "classifier.weight", {1000, 1920}},
    {"inception_v3", "Conv2d_1a_3x3.conv.weight", {32, 3, 3, 3}},
    {"inception_v3", "Mixed_5b.branch5x5_2.bn.running_mean", {64}},
    {"inception_v3", "Mixed_5c.branch_pool.conv.weight", {64, 256, 1, 1}},
    {"inception_v3", "Mixed_6a.branch3x3dbl_3.conv.weight", {96, 96, 3, 3}},
    {"inception_v3", "Mixed_6d.branch7x7dbl_2.conv.weight", {160, 160, 7, 1}},
    {"inception_v3", "Mixed_7a.branch7x7x3_4.conv.weight", {192, 192, 3, 3}},
    {"inception_v3", "Mixed_7c.branch3x3_2a.conv.weight", {384, 384, 1, 3}},
    {"inception_v3", "Mixed_7c.branch3x3dbl_3b.conv.weight", {384, 384, 3, 1}},
    {"inception_v3", "fc.bias", {1000}},
};

static void test_known_names(void) {
    for (size_t i = 0; i < sizeof known_names / sizeof *known_names; i++) {
        cairn_graph *graph;
        cairn_error err = {0};
        CHECK_OK(crn_zoo_build(NULL, known_names[i].network, NULL, &graph, &err), &err);
        cairn_id t = cairn_graph_find_tensor(graph, known_names[i].name);
        uint32_t rank = 0;
        while (known_names[i].shape[rank] > 0)
            rank++;
        bool there = t != CAIRN_NONE && cairn_graph_tensor(graph, t)->rank == rank;
        CHECK(there);
        CHECK(there && memcmp(cairn_graph_tensor(graph, t)->shape, known_names[i].shape,
                              rank * sizeof(uint32_t)) == 0);
        if (!there)
            fprintf(stderr, "  %s: %s\n", known_names[i].network, known_names[i].name);
        cairn_graph_destroy(graph);
    }
}

int main(int argc, char **argv) {
    if (argc > 1)
        evaluation_backend = argv[1];
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    test_from_memory();
    test_round_trip();
    test_refusals();
    test_ignored();
    test_conversion();
    test_old_densenet();
    test_zoo();
    test_forms();
    test_known_names();
    unlink(path);
    return check_result();
}
