/* test_network.c: networks as people write them: every network of the zoo, written as source and
 * read again, is the same graph, in its own size and in another one; and what is refused. */
#include "cairn.h"
#include "cairn/report.h"
#include "check.h"
#include "import/importer.h"
#include "graph/crn_graph.h"

#include <stdio.h>
#include <stdlib.h>

static cairn_text json_of(cairn_graph *graph) {
    cairn_text text;
    CHECK(cairn_graph_to_json(graph, &text) == CAIRN_OK);
    cairn_graph_destroy(graph);
    return text;
}

/* The graph of a text in a size. */
static cairn_graph *read_in(const cairn_text *source, cairn_zoo_options size) {
    cairn_graph *graph = NULL;
    cairn_error err = {0};
    CHECK_OK(
        crn_network_from_text(NULL, source->data, source->length, "source", &size, &graph, &err),
        &err);
    return graph;
}

static void check_same(const char *name, const cairn_text *source, cairn_zoo_options size) {
    cairn_graph *wanted;
    cairn_error err = {0};
    CHECK_OK(crn_zoo_build(NULL, name, &size, &wanted, &err), &err);
    cairn_graph *found = read_in(source, size);
    if (found == NULL) {
        cairn_graph_destroy(wanted);
        return;
    }
    cairn_text a = json_of(wanted), b = json_of(found);
    if (strcmp(a.data, b.data) != 0)
        fprintf(stderr, "%s is another network when it is read again\n", name);
    CHECK(strcmp(a.data, b.data) == 0);
    cairn_text_release(&a);
    cairn_text_release(&b);
}

/* Steps of a recurrent network are its own: they are written out. */
static void test_zoo(void) {
    const cairn_zoo_entry *entry;
    cairn_error err = {0};
    for (uint32_t i = 0; (entry = cairn_zoo_list(i)) != NULL; i++) {
        cairn_zoo_options size = CAIRN_ZOO_OPTIONS_INIT;
        cairn_text source;
        CHECK_OK(cairn_model_source(NULL, entry->name, NULL, &source, &err), &err);
        check_same(entry->name, &source, size);
        size.batch = 7;
        check_same(entry->name, &source, size);
        size.classes = 13;
        check_same(entry->name, &source, size);
        if (entry->defaults.input[2] > 0 && entry->small == NULL) {
            size.input[0] = 2;
            size.input[1] = entry->defaults.input[1] + 32;
            size.input[2] = entry->defaults.input[2];
            check_same(entry->name, &source, size);
        }
        size_t lines = 0;
        for (const char *c = source.data; (c = strchr(c, '\n')) != NULL; c++)
            lines++;
        printf("%s: %zu lines\n", entry->name, lines);
        cairn_text_release(&source);
    }
}

/* ---- What a person may write ---- */

static const char small[] = "# my own\n"
                            "network tiny\n"
                            "input 1x8x8\n"
                            "classes 4\n"
                            "\n"
                            "block twice width stride=1   # a block with a default\n"
                            "    a conv2d channels=width kernel=3 pad=1 stride=stride\n"
                            "    b conv2d channels=2*width kernel=1,1 bias=no\n"
                            "    sum add from=a,in2\n"
                            "end\n";

static const struct {
    const char *lines, *says;
    uint32_t line;
} refused[] = {
    {"", "network NAME", 0},
    {"layers", "network NAME", 1},
    {"network a\nrelu relu", "begin with \"input", 2},
    {"network a\ninput 3x", "input must be a size", 2},
    {"network a\ninput 3x8x8\nclasses none", "classes must be", 3},
    {"network a\ninput 3x8x8\nc conv2d kernel=3", "needs channels", 3},
    {"network a\ninput 3x8x8\nc conv2d channels=4", "needs kernel", 3},
    {"network a\ninput 3x8x8\nc conv2d channels=0 kernel=1", "from 1 on", 3},
    {"network a\ninput 3x8x8\nc conv2d channels=4 kernel=1 pads=1", "\"pads=1\" means nothing", 3},
    {"network a\ninput 3x8x8\nc conv2d channels=4 kernel=1,2,3", "one or two whole numbers", 3},
    {"network a\ninput 3x8x8\nc conv2d channels=width kernel=1", "channels must be", 3},
    {"network a\ninput 3x8x8\nc conv9d", "neither a kind of layer", 3},
    {"network a\ninput 3x8x8\nc relu_bwd", "neither a kind of layer", 3},
    {"network a\ninput 3x8x8\nc", "a line is NAME KIND", 3},
    {"network a\ninput 3x8x8\nc add", "reads 2 tensors", 3},
    {"network a\ninput 3x8x8\nc add from=input,nothing", "no layer \"nothing\"", 3},
    {"network a\ninput 6\nc batch_norm", "needs an input of shape [N, C, H, W]; it reads [32, 6]",
     3},
    {"network a\ninput 3x8x8\nc conv2d channels=4 kernel=9", "does not fit", 3},
    {"network a\ninput 3x8x8\nc conv2d channels=5 kernel=1\nd add from=c,input",
     "different shapes; it reads [32, 5, 8, 8] [32, 3, 8, 8]", 4},
    {"network a\ninput 3x8x8\nb{3..1} relu", "must count as in", 3},
    {"network a\ninput 3x8x8\nblock b\nr relu", "no \"end\"", 3},
    {"network a\ninput 3x8x8\nblock b width\nr relu\nend\nx b", "block b needs width", 6},
    {"network a\ninput 3x8x8\nblock b\nr relu\nend\nx b width=3", "means nothing to block b", 6},
    {"network a\ninput 3x8x8\nblock b\nr b\nend\nx b", "neither a kind of layer", 4},
    {"network a\ninput 3x8x8\na relu\na relu", "", 0},
};

static void test_refused(void) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        cairn_zoo_options size = CAIRN_ZOO_OPTIONS_INIT;
        cairn_error err = {0};
        cairn_graph *graph;
        cairn_status status = crn_network_from_text(
            NULL, refused[i].lines, strlen(refused[i].lines), "f", &size, &graph, &err);
        CHECK(status == CAIRN_EINVAL && graph == NULL);
        if (strstr(err.message, refused[i].says) == NULL ||
            (refused[i].line > 0 && err.line != refused[i].line)) {
            fprintf(stderr, "%zu: line %u: %s\n", i, err.line, err.message);
            CHECK(false);
        }
    }
}

/* Sizes that the file does not have are refused; defaults and expressions of blocks. */
static void test_small(void) {
    cairn_error err = {0};
    char text[2000];
    cairn_graph *graph;
    cairn_zoo_options size = CAIRN_ZOO_OPTIONS_INIT;
    snprintf(text, sizeof text, "%s%s", small,
             "in2 conv2d channels=3 kernel=1\n"
             "x{1..2} twice width=3 from=in2\n");
    CHECK_OK(crn_network_from_text(NULL, text, strlen(text), "f", &size, &graph, &err), &err);
    CHECK(crn_graph_find_op(graph, "x2.sum") != CAIRN_NONE);
    cairn_id wide = cairn_graph_find_tensor(graph, "x1.b");
    CHECK(cairn_graph_tensor(graph, wide)->shape[1] == 6);
    size = (cairn_zoo_options)CAIRN_ZOO_OPTIONS_INIT;
    cairn_graph_destroy(graph);
    snprintf(text, sizeof text,
             "network t\ninput 6\nblock b width\n  f linear features=width*2/3 bias=no\nend\n"
             "u b width=9\nv linear features=classes\nclasses 4\nloss cross_entropy\n");
    CHECK(crn_network_from_text(NULL, text, strlen(text), "f", &size, &graph, &err) ==
          CAIRN_EINVAL); /* classes are not known yet */
    snprintf(text, sizeof text,
             "network t\ninput 6\nclasses 4\nblock b width\n  f linear features=width*2/3 bias=no\n"
             "end\nu b width=9\nv linear features=classes\nloss cross_entropy\n");
    size = (cairn_zoo_options)CAIRN_ZOO_OPTIONS_INIT;
    CHECK_OK(crn_network_from_text(NULL, text, strlen(text), "f", &size, &graph, &err), &err);
    CHECK(size.batch == 32 && size.classes == 4 && size.input[0] == 6 && size.input[1] == 0);
    cairn_id weight = cairn_graph_find_tensor(graph, "u.f.weight");
    CHECK(weight != CAIRN_NONE && cairn_graph_tensor(graph, weight)->shape[0] == 6);
    cairn_graph_destroy(graph);
    size = (cairn_zoo_options)CAIRN_ZOO_OPTIONS_INIT;
    size.steps = 3;
    CHECK(crn_network_from_text(NULL, text, strlen(text), "f", &size, &graph, &err) ==
          CAIRN_EINVAL);
}

int main(void) {
    test_zoo();
    test_refused();
    test_small();
    return check_result();
}
