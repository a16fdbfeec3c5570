/* test_weights_logits.c: a ResNet-18 from a safetensors file gives PyTorch's logits.
 *
 * tests/data/resnet18_logits.json has the logits. torch_resnet18.py made them from weights that are
 * functions of name and index. Here the same weights are saved to a file and loaded from it. */
#include "cairn/safetensors.h"
#include "weights/evaluation.h"

#include <jansson.h>
#include <unistd.h>

#define TOLERANCE 1e-5 /* double precision there, single here */

/* As formula() in torch_resnet18.py. */
static void fill_weight(float *to, const cairn_tensor *tensor) {
    if (fill_ends(tensor->name, "running_mean"))
        fill_values(to, fill_count(tensor), tensor->name, 0, 0.1f);
    else if (fill_ends(tensor->name, "running_var"))
        fill_values(to, fill_count(tensor), tensor->name, 1, 0.5f);
    else
        fill_parameter(to, tensor);
}

static uint32_t setting(const json_t *root, const char *name) {
    return (uint32_t)json_integer_value(json_object_get(root, name));
}

static double number(const json_t *root, const char *list, size_t index) {
    return json_number_value(json_array_get(json_object_get(root, list), index));
}

static evaluation open_network(const json_t *root, const char *solver) {
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    options.batch = setting(root, "batch");
    options.classes = setting(root, "classes");
    for (size_t i = 0; i < 3; i++)
        options.input[i] = (uint32_t)number(root, "input", i);
    return evaluation_open("resnet18", &options, setting(root, "divisor"), solver, 1);
}

/* The weights by formula, saved by an executor that trains; returns how many tensors there are. */
static uint32_t write_weights(const json_t *root, const char *path) {
    evaluation e = open_network(root, "none");
    cairn_error err = {0};
    cairn_safetensors *file;
    uint32_t count;
    for (cairn_id t = 0; t < cairn_graph_tensor_count(e.graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(e.graph, t);
        if (tensor->role != CAIRN_ROLE_PARAMETER && tensor->role != CAIRN_ROLE_STATE)
            continue;
        float *weight = malloc(tensor->bytes);
        fill_weight(weight, tensor);
        CHECK_OK(cairn_exec_write(e.exec, t, weight, &err), &err);
        free(weight);
    }
    CHECK_OK(cairn_weights_save(e.exec, e.graph, path, NULL, &err), &err);
    CHECK_OK(cairn_safetensors_load(NULL, path, &file, &err), &err);
    cairn_safetensors_tensors(file, &count);
    cairn_safetensors_destroy(file);
    evaluation_close(&e);
    return count;
}

int main(void) {
    json_error_t error;
    json_t *root = json_load_file(CAIRN_TEST_DATA "/resnet18_logits.json", 0, &error);
    CHECK(root != NULL);
    char path[] = "test_logits.XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    CHECK_U64(write_weights(root, path), setting(root, "tensors")); /* as many as PyTorch's */

    evaluation e = open_network(root, "infer");
    cairn_error err = {0};
    cairn_text notices;
    CHECK_OK(cairn_weights_load(e.exec, e.graph, path, &notices, &err), &err);
    CHECK_U64(notices.length, 0);
    const cairn_tensor *input = cairn_graph_tensor(e.graph, e.summary.input);
    float *images = malloc(input->bytes);
    fill_input(images, input, 0);
    const float *logits = evaluation_run(&e, images);
    double expected[64];
    size_t count = json_array_size(json_object_get(root, "logits"));
    CHECK_U64(count, fill_count(cairn_graph_tensor(e.graph, e.summary.output)));
    for (size_t i = 0; i < count && i < 64; i++)
        expected[i] = number(root, "logits", i);
    check_logits(logits, expected, count, TOLERANCE);
    free(images);
    cairn_text_release(&notices);
    evaluation_close(&e);
    json_decref(root);
    unlink(path);
    return check_result();
}
