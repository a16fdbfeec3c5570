/* test_zoo_reference.c: the networks against the eighteen reference graphs (tests/data/feng): the
 * sizes of all tensors, and vertex by vertex the edges.
 *
 * A vertex of the reference is a tensor at batch 1, its cost the number of elements; vertices are
 * in the order of execution, as ops are. The reference is coarser: for example, batch-norm and ReLU
 * are one vertex (see `folded`). In the searched cells it is finer: a skip connection is a separate
 * vertex, while in Cairn the reader reads the state. */
#include "base/json.h"
#include "cairn/zoo.h"
#include "check.h"
#include "graph/crn_graph.h"
#include "import/importer.h"

typedef struct reference {
    uint32_t vertices, edges;
    uint64_t *costs;
    uint32_t (*edge)[2];
} reference;

static int64_t read_integer(const crn_json *at) {
    cairn_error err = {0};
    int64_t value = 0;
    CHECK_OK(crn_json_integer(at, 0, INT64_MAX, &value, &err), &err);
    return value;
}

static uint32_t read_count(const crn_json *array) {
    cairn_error err = {0};
    size_t count = 0;
    CHECK_OK(crn_json_array(array, &count, &err), &err);
    return (uint32_t)count;
}

static reference read_reference(const char *network) {
    char path[512];
    snprintf(path, sizeof(path), "%s/feng/%s.json", CAIRN_TEST_DATA, network);
    cairn_error err = {0};
    cairn_text text;
    crn_json_document document;
    CHECK_OK(cairn_text_load(NULL, path, &text, &err), &err);
    CHECK_OK(crn_json_parse(text.data, text.length, path, &document, &err), &err);
    crn_json root = crn_json_root(&document), costs = crn_json_member(&root, "costs");
    crn_json edges = crn_json_member(&root, "edges");

    reference read = {.vertices = read_count(&costs), .edges = read_count(&edges)};
    read.costs = calloc(read.vertices + 1, sizeof(*read.costs));
    read.edge = calloc(read.edges + 1, sizeof(*read.edge));
    for (uint32_t i = 0; i < read.vertices; i++) {
        crn_json cost = crn_json_element(&costs, i);
        read.costs[i] = (uint64_t)read_integer(&cost);
    }
    for (uint32_t i = 0; i < read.edges; i++) {
        crn_json edge = crn_json_element(&edges, i);
        for (uint32_t end = 0; end < 2; end++) {
            crn_json vertex = crn_json_element(&edge, end);
            read.edge[i][end] = (uint32_t)read_integer(&vertex);
            CHECK(read.edge[i][end] < read.vertices);
        }
    }
    crn_json_release(&document);
    cairn_text_release(&text);
    return read;
}

static void release(reference *read) {
    free(read->costs);
    free(read->edge);
}

static uint64_t elements(const cairn_tensor *tensor) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++)
        count *= tensor->shape[i];
    return count;
}

/* ---- sizes ---- */

typedef struct sizes {
    uint64_t *data;
    uint32_t length;
} sizes;

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static sizes sizes_of_reference(const reference *read) {
    sizes found = {malloc((read->vertices + 1) * sizeof(uint64_t)), read->vertices};
    memcpy(found.data, read->costs, read->vertices * sizeof(uint64_t));
    qsort(found.data, found.length, sizeof(uint64_t), by_size);
    return found;
}

/* The sizes of the input and of what forward ops make, without aliases and the loss. */
static sizes sizes_of(const cairn_graph *graph) {
    uint32_t tensors = cairn_graph_tensor_count(graph);
    sizes found = {malloc((tensors + 1) * sizeof(uint64_t)), 0};
    for (cairn_id i = 0; i < tensors; i++) {
        const cairn_tensor *tensor = cairn_graph_tensor(graph, i);
        if ((tensor->role == CAIRN_ROLE_INPUT || tensor->role == CAIRN_ROLE_ACTIVATION) &&
            tensor->alias_of == CAIRN_NONE)
            found.data[found.length++] = elements(tensor);
    }
    qsort(found.data, found.length, sizeof(uint64_t), by_size);
    return found;
}

/* The sizes that are in `part` more often than in `whole`. */
static sizes missing_from(sizes whole, sizes part) {
    sizes missing = {malloc((part.length + 1) * sizeof(uint64_t)), 0};
    uint32_t at = 0;
    for (uint32_t i = 0; i < part.length; i++) {
        while (at < whole.length && whole.data[at] < part.data[i])
            at++;
        if (at < whole.length && whole.data[at] == part.data[i])
            at++;
        else
            missing.data[missing.length++] = part.data[i];
    }
    return missing;
}

/* Skip connections with stride 1 in the 20 cells, by the size of a state: two in each of the six
 * normal cells of a size, `in_reduction` in each of the two reduction cells. */
static void check_skips(sizes missing, uint32_t in_reduction) {
    const uint64_t size[3] = {9216, 18432, 36864};
    const uint32_t expected[3] = {12 + in_reduction, 12 + in_reduction, 12};
    uint32_t at = 0;
    for (int i = 0; i < 3; i++)
        for (uint32_t k = 0; k < expected[i] && at < missing.length; k++)
            CHECK_U64(missing.data[at++], size[i]);
    CHECK_U64(missing.length, expected[0] + expected[1] + expected[2]);
}

static void check_sizes(const cairn_graph *graph, const reference *read, bool searched,
                        uint32_t in_reduction) {
    sizes ours = sizes_of(graph), theirs = sizes_of_reference(read);
    sizes missing = missing_from(ours, theirs);
    CHECK(theirs.length > 12);
    if (searched) {
        check_skips(missing, in_reduction);
        CHECK_U64(ours.length + missing.length, theirs.length);
    } else {
        CHECK_U64(missing.length, 0);
    }
    free(ours.data);
    free(theirs.data);
    free(missing.data);
}

/* ---- edges ---- */

/* Whether the reference has no vertex for the output of this op, because it is merged with its
 * reader. */
static bool folded(const cairn_graph *graph, const cairn_op *op, bool searched) {
    const char *network = cairn_graph_name(graph);
    bool plain = strcmp(network, "alexnet") == 0 || strncmp(network, "vgg", 3) == 0;
    if (op->kind == CAIRN_OP_FLATTEN || op->kind == CAIRN_OP_CROSS_ENTROPY ||
        (plain && op->kind == CAIRN_OP_DROPOUT) ||
        (strncmp(network, "vgg", 3) == 0 && op->kind == CAIRN_OP_ADAPTIVE_AVG_POOL))
        return true;
    uint32_t count;
    const cairn_id *readers = crn_graph_readers(graph, op->outputs[0], &count);
    if (searched || count != 1)
        return false;
    cairn_op_kind reader = cairn_graph_op(graph, readers[0])->kind;
    return reader == CAIRN_OP_RELU || (reader == CAIRN_OP_ADD && op->kind == CAIRN_OP_BATCH_NORM);
}

#define MOST_SOURCES 8

/* The tensors with a vertex, or the input, that an op depends on; sorted. */
typedef struct sources {
    cairn_id tensor[MOST_SOURCES];
    uint32_t count;
} sources;

static void add_source(sources *to, cairn_id tensor) {
    CHECK(to->count < MOST_SOURCES);
    uint32_t at = to->count++;
    for (; at > 0 && to->tensor[at - 1] > tensor; at--)
        to->tensor[at] = to->tensor[at - 1];
    to->tensor[at] = tensor;
}

static void collect(const cairn_graph *graph, const cairn_op *op, bool searched, sources *to) {
    for (uint32_t i = 0; i < op->input_count; i++) {
        cairn_id producer = cairn_graph_tensor(graph, op->inputs[i])->producer;
        const cairn_op *from = producer == CAIRN_NONE ? NULL : cairn_graph_op(graph, producer);
        if (from != NULL && folded(graph, from, searched))
            collect(graph, from, searched, to);
        else
            add_source(to, op->inputs[i]);
    }
}

static bool same(const sources *a, const sources *b) {
    return a->count == b->count && memcmp(a->tensor, b->tensor, a->count * sizeof(cairn_id)) == 0;
}

/* The next op from `op` on that has a vertex; past the end if there is none. */
static cairn_id next_vertex(const cairn_graph *graph, cairn_id op, bool searched) {
    while (op < cairn_graph_op_count(graph) && folded(graph, cairn_graph_op(graph, op), searched))
        op++;
    return op;
}

/* Walk over both in order. `tensor_of` is the tensor of each vertex. A vertex with one source which
 * is not that of the next op can only be a skip connection; the sizes have shown how many there
 * are. */
static void check_edges(const cairn_graph *graph, const reference *read, bool searched) {
    cairn_id *tensor_of = calloc(read->vertices, sizeof(*tensor_of));
    sources *wanted = calloc(read->vertices, sizeof(*wanted));
    tensor_of[0] = cairn_graph_find_tensor(graph, "input");
    cairn_id op = 0;
    uint32_t wrong = 0;
    for (uint32_t vertex = 1; vertex < read->vertices; vertex++) {
        for (uint32_t e = 0; e < read->edges; e++)
            if (read->edge[e][1] == vertex)
                add_source(&wanted[vertex], tensor_of[read->edge[e][0]]);
        op = next_vertex(graph, op, searched);
        sources ours = {.count = 0};
        if (op < cairn_graph_op_count(graph))
            collect(graph, cairn_graph_op(graph, op), searched, &ours);
        if (searched && wanted[vertex].count == 1 && !same(&wanted[vertex], &ours)) {
            tensor_of[vertex] = wanted[vertex].tensor[0];
            continue;
        }
        if (op == cairn_graph_op_count(graph) || !same(&wanted[vertex], &ours)) {
            wrong++;
            break;
        }
        tensor_of[vertex] = cairn_graph_op(graph, op++)->outputs[0];
        wrong += elements(cairn_graph_tensor(graph, tensor_of[vertex])) != read->costs[vertex];
    }
    CHECK_U64(wrong, 0);
    CHECK(next_vertex(graph, op, searched) == cairn_graph_op_count(graph));
    free(tensor_of);
    free(wanted);
}

static void test_network(const char *network, uint32_t side, bool searched,
                         uint32_t skips_in_reduction) {
    int failures = check_failures;
    cairn_error err = {0};
    cairn_graph *graph = NULL;
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    options.batch = 1;
    options.input[1] = options.input[2] = side;
    CHECK_OK(crn_zoo_build(NULL, network, &options, &graph, &err), &err);
    reference read = read_reference(network);
    check_sizes(graph, &read, searched, skips_in_reduction);
    check_edges(graph, &read, searched);
    release(&read);
    cairn_graph_destroy(graph);
    if (check_failures != failures)
        fprintf(stderr, "  in %s\n", network);
}

int main(void) {
    const char *const usual[] = {"alexnet",     "vgg11",      "vgg13",       "vgg16",
                                 "vgg19",       "resnet18",   "resnet34",    "resnet50",
                                 "resnet101",   "resnet152",  "densenet121", "densenet161",
                                 "densenet169", "densenet201"};
    for (size_t i = 0; i < CRN_LENGTH(usual); i++)
        test_network(usual[i], 224, false, 0);
    test_network("inception_v3", 300, false, 0);
    test_network("nasnet", 32, true, 1);
    test_network("amoebanet", 32, true, 0);
    test_network("darts", 32, true, 3);
    return check_result();
}
