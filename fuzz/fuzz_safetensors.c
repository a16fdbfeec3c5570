/* fuzz_safetensors.c: the reader of weight files. A file that is accepted can be listed, searched,
 * read to the last byte and written again. Loading it into a network works or gives an error
 * message. */
#include "cairn/safetensors.h"
#include "fuzz.h"
#include "graph/layers.h"
#include "weights/crn_weights.h"

/* Two linear layers and a batch-norm: small enough that a file can fit it. */
static cairn_exec *tiny_network(cairn_graph **graph) {
    cairn_error err = {0};
    cairn_builder *b;
    cairn_graph *forward;
    cairn_costs *costs;
    cairn_solution *solution;
    cairn_exec *exec;
    cairn_device *device; /* stays open as long as the program runs */
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    options.threads = 1;
    FUZZ_CHECK(cairn_builder_create(NULL, "tiny", &b) == CAIRN_OK);
    cairn_id x = crn_build_input(b, "input", 4, (uint32_t[]){2, 1, 2, 2});
    x = crn_build_batch_norm(b, "bn", x, 1e-5);
    x = crn_build_linear(b, "fc", crn_build_flatten(b, "flatten", x), 2);
    crn_build_cross_entropy(b, "loss", x, crn_build_label(b, "label", 1, (uint32_t[]){2}));
    FUZZ_CHECK(cairn_builder_finish(b, &forward, &err) == CAIRN_OK);
    cairn_builder_destroy(b);
    FUZZ_CHECK(cairn_graph_differentiate(forward, NULL, graph, &err) == CAIRN_OK);
    cairn_graph_destroy(forward);
    FUZZ_CHECK(cairn_device_open("ref", &options, &device, &err) == CAIRN_OK);
    FUZZ_CHECK(cairn_bind(*graph, device, &costs, &err) == CAIRN_OK);
    FUZZ_CHECK(cairn_solve(*graph, costs, "infer", NULL, &solution, &err) == CAIRN_OK);
    FUZZ_CHECK(cairn_exec_create(*graph, device, costs, solution, NULL, &exec, &err) == CAIRN_OK);
    cairn_solution_destroy(solution);
    cairn_costs_destroy(costs);
    return exec;
}

static void check_tensor(const cairn_safetensors *file, const cairn_named_tensor *tensor) {
    static volatile uint8_t sum;
    const uint8_t *data = tensor->data;
    uint64_t bytes = crn_element_bytes(tensor->element);
    FUZZ_CHECK(bytes > 0 && tensor->rank <= CAIRN_NAMED_TENSOR_RANK);
    FUZZ_CHECK((uintptr_t)data % bytes == 0);
    for (uint32_t i = 0; i < tensor->rank; i++)
        bytes *= tensor->shape[i];
    FUZZ_CHECK(bytes == tensor->bytes);
    for (uint64_t i = 0; i < bytes; i++)
        sum = (uint8_t)(sum + data[i]);
    FUZZ_CHECK(crn_safetensors_find(file, tensor->name) == tensor);
}

static void check_file(const cairn_safetensors *file) {
    uint32_t count, pairs;
    cairn_error err = {0};
    const cairn_named_tensor *tensors = cairn_safetensors_tensors(file, &count);
    for (uint32_t i = 0; i < count; i++) {
        check_tensor(file, &tensors[i]);
        FUZZ_CHECK(i == 0 || strcmp(tensors[i - 1].name, tensors[i].name) < 0);
    }
    const cairn_pair *metadata = crn_safetensors_metadata(file, &pairs);
    for (uint32_t i = 0; i < pairs; i++)
        FUZZ_CHECK(cairn_safetensors_value(file, metadata[i].key) == metadata[i].value);
    FUZZ_CHECK(cairn_safetensors_save(NULL, "/dev/null", tensors, count, metadata, pairs, &err) ==
               CAIRN_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static cairn_graph *graph;
    static cairn_exec *exec;
    cairn_error err = {0};
    cairn_safetensors *file;
    cairn_text notices;
    if (exec == NULL)
        exec = tiny_network(&graph);
    cairn_status status = crn_safetensors_from_bytes(NULL, data, size, "f", &file, &err);
    FUZZ_CHECK((status == CAIRN_OK) == (file != NULL));
    if (status != CAIRN_OK) {
        fuzz_check_error(status, &err);
        return 0;
    }
    check_file(file);
    uint32_t count;
    const cairn_named_tensor *tensors = cairn_safetensors_tensors(file, &count);
    status = cairn_weights_assign(exec, graph, tensors, count, "f", &notices, &err);
    if (status != CAIRN_OK)
        fuzz_check_error(status, &err);
    cairn_text_release(&notices);
    cairn_safetensors_destroy(file);
    return 0;
}
