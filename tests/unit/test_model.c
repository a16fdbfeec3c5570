/* test_model.c: opening models by name and by file. */
#include "cairn.h"
#include "check.h"
#include "graph/crn_graph.h"
#include "import/importer.h"

#include <unistd.h>

static void test_importers(void) {
    const cairn_importer *importer;
    uint32_t count = 0, by_name = 0;
    for (; (importer = crn_importer_list(count)) != NULL; count++)
        by_name += importer->suffix == NULL;
    CHECK(count >= 2 && by_name == 1);
    CHECK_STRING(cairn_model_importer("resnet50")->name, "zoo");
    CHECK_STRING(cairn_model_importer("resnet51")->name, "graph");
    CHECK_STRING(cairn_model_importer("folder/net.json")->name, "graph");
    CHECK_STRING(cairn_model_importer("net")->name, "graph");
}

/* A network of the zoo: as crn_zoo_build() makes it, and the options receive the defaults. */
static void test_zoo(void) {
    cairn_zoo_options size = CAIRN_ZOO_OPTIONS_INIT;
    cairn_graph *opened, *built;
    cairn_error err = {0};
    size.batch = 3;
    CHECK_OK(cairn_model_open(NULL, "alexnet", &size, &opened, &err), &err);
    CHECK_OK(crn_zoo_build(NULL, "alexnet", &size, &built, &err), &err);
    CHECK(size.batch == 3 && size.classes == 1000 && size.steps == 0);
    CHECK(size.input[0] == 3 && size.input[1] == 224 && size.input[2] == 224);
    CHECK_U64(size.struct_size, sizeof size);
    CHECK_U64(crn_graph_hash(opened), crn_graph_hash(built));
    CHECK_U64(cairn_graph_tensor(opened, 0)->shape[0], 3);
    cairn_graph_destroy(built);
    cairn_graph_destroy(opened);

    /* An older caller, whose options end after the batch. */
    size = (cairn_zoo_options){.struct_size = 8, .batch = 2, .classes = 77};
    CHECK_OK(cairn_model_open(NULL, "alexnet", &size, &opened, &err), &err);
    CHECK(size.batch == 2 && size.classes == 77 && size.struct_size == 8);
    cairn_graph_destroy(opened);
    CHECK_OK(cairn_model_open(NULL, "convnet", NULL, &opened, &err), &err);
    cairn_graph_destroy(opened);
}

static void test_file(void) {
    char path[] = "model-XXXXXX";
    cairn_zoo_options size = CAIRN_ZOO_OPTIONS_INIT;
    cairn_graph *graph, *read;
    cairn_text text;
    cairn_error err = {0};
    int file = mkstemp(path);
    CHECK(file >= 0);
    CHECK_OK(cairn_model_open(NULL, "convnet", &size, &graph, &err), &err);
    CHECK_OK(cairn_graph_to_json(graph, &text), &err);
    CHECK_OK(cairn_text_save(&text, path, &err), &err);
    CHECK_OK(cairn_model_open(NULL, path, &size, &read, &err), &err);
    CHECK_U64(crn_graph_hash(read), crn_graph_hash(graph));
    CHECK(size.batch == 0 && size.classes == 0 &&
          size.input[0] == 0); /* a file has only one size */
    close(file);
    remove(path);
    CHECK(cairn_model_open(NULL, path, NULL, &read, &err) == CAIRN_EUNKNOWN);
    CHECK(read == NULL && strstr(err.message, "neither a network of the zoo nor a file") != NULL);
    cairn_text_release(&text);
    cairn_graph_destroy(graph);
}

int main(void) {
    test_importers();
    test_zoo();
    test_file();
    return check_result();
}
