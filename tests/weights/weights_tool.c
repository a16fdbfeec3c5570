/* weights_tool.c: the part of the tests with Python that is written in C.
 *
 *   weights_tool copy IN OUT             every tensor and word of IN, written again
 *   weights_tool network DIVISOR IN OUT  IN loaded into a ResNet-18 of ten classes, then saved
 *   weights_tool tokens NAME WEIGHTS DATA OUT  the same for a transformer and its "tokens"
 *   weights_tool logits WEIGHTS DATA OUT WEIGHTS loaded into a ResNet-18, "input" of DATA run, and
 *                                        the result compared with its "logits"; then saved */
#include "cairn/safetensors.h"
#include "weights/crn_weights.h"
#include "weights/evaluation.h"

#define TOLERANCE 1e-4 /* single precision on both sides */
#define STEPS 7

static void save(evaluation *e, const char *path) {
    cairn_error err = {0};
    cairn_weights_save_options options = CAIRN_WEIGHTS_SAVE_OPTIONS_INIT;
    options.steps = STEPS;
    CHECK_OK(cairn_weights_save(e->exec, e->graph, path, &options, &err), &err);
}

static void load(evaluation *e, const char *path) {
    cairn_error err = {0};
    cairn_text notices;
    CHECK_OK(cairn_weights_load(e->exec, e->graph, path, &notices, &err), &err);
    if (notices.length > 0)
        printf("%s", notices.data);
    cairn_text_release(&notices);
}

static cairn_safetensors *open_file(const char *path) {
    cairn_safetensors *file;
    cairn_error err = {0};
    CHECK_OK(cairn_safetensors_load(NULL, path, &file, &err), &err);
    return file;
}

static void copy(const char *in, const char *out) {
    cairn_safetensors *file = open_file(in);
    cairn_error err = {0};
    uint32_t tensor_count, metadata_count;
    const cairn_named_tensor *tensors = cairn_safetensors_tensors(file, &tensor_count);
    const cairn_pair *metadata = crn_safetensors_metadata(file, &metadata_count);
    CHECK_OK(
        cairn_safetensors_save(NULL, out, tensors, tensor_count, metadata, metadata_count, &err),
        &err);
    cairn_safetensors_destroy(file);
}

static void network(const char *divisor, const char *in, const char *out) {
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    options.batch = 1;
    options.classes = 10;
    evaluation e =
        evaluation_open("resnet18", &options, (uint32_t)strtoul(divisor, NULL, 10), "none", 1);
    load(&e, in);
    save(&e, out);
    evaluation_close(&e);
}

static const cairn_named_tensor *floats(const cairn_safetensors *file, const char *name) {
    const cairn_named_tensor *tensor = crn_safetensors_find(file, name);
    if (tensor == NULL || tensor->element != CAIRN_ELEMENT_F32) {
        fprintf(stderr, "%s is missing\n", name);
        exit(1);
    }
    return tensor;
}

static void logits(const char *weights, const char *data, const char *out) {
    cairn_safetensors *file = open_file(data);
    const cairn_named_tensor *input = floats(file, "input"), *wanted = floats(file, "logits");
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    CHECK(input->rank == 4 && wanted->rank == 2);
    options.batch = (uint32_t)input->shape[0];
    options.classes = (uint32_t)wanted->shape[1];
    for (int i = 0; i < 3; i++)
        options.input[i] = (uint32_t)input->shape[i + 1];
    evaluation e = evaluation_open("resnet18", &options, 1, "infer", 1);
    load(&e, weights);
    const float *given = wanted->data, *actual = evaluation_run(&e, input->data);
    uint64_t count = wanted->bytes / sizeof *given;
    CHECK_U64(fill_count(cairn_graph_tensor(e.graph, e.summary.output)), count);
    double *expected = malloc(count * sizeof *expected);
    for (uint64_t i = 0; i < count; i++)
        expected[i] = given[i];
    check_logits(actual, expected, count, TOLERANCE);
    free(expected);
    save(&e, out);
    evaluation_close(&e);
    cairn_safetensors_destroy(file);
}

static void tokens(const char *name, const char *weights, const char *data, const char *out) {
    cairn_safetensors *file = open_file(data);
    const cairn_named_tensor *input = crn_safetensors_find(file, "tokens");
    const cairn_named_tensor *wanted = floats(file, "logits");
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    CHECK(input != NULL && input->element == CAIRN_ELEMENT_I32 && input->rank == 2);
    options.batch = (uint32_t)input->shape[0];
    options.steps = (uint32_t)input->shape[1];
    options.classes = (uint32_t)wanted->shape[2];
    evaluation e = evaluation_open(name, &options, 1, "infer", 1);
    load(&e, weights);
    const float *given = wanted->data, *actual = evaluation_run(&e, input->data);
    uint64_t count = wanted->bytes / sizeof *given;
    double *expected = malloc(count * sizeof *expected);
    for (uint64_t i = 0; i < count; i++)
        expected[i] = given[i];
    check_logits(actual, expected, count, TOLERANCE);
    free(expected);
    save(&e, out);
    evaluation_close(&e);
    cairn_safetensors_destroy(file);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (argc == 4 && strcmp(what, "copy") == 0)
        copy(argv[2], argv[3]);
    else if (argc == 5 && strcmp(what, "network") == 0)
        network(argv[2], argv[3], argv[4]);
    else if (argc == 5 && strcmp(what, "logits") == 0)
        logits(argv[2], argv[3], argv[4]);
    else if (argc == 6 && strcmp(what, "tokens") == 0)
        tokens(argv[2], argv[3], argv[4], argv[5]);
    return check_result();
}
