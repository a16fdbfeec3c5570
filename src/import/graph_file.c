/* graph_file.c: imports graph files, docs/graph-format.md. */
#include "import/importer.h"

cairn_status crn_import_graph(const cairn_allocator *allocator, const char *model,
                              cairn_zoo_options *size, cairn_graph **out, cairn_error *err) {
    cairn_text text;
    cairn_status status = cairn_text_load(allocator, model, &text, err);
    if (status == CAIRN_EUNKNOWN)
        return crn_fail(err, status, "\"%.200s\" is neither a network of the zoo nor a file",
                        model);
    CRN_TRY(status);
    status = cairn_graph_from_json(allocator, text.data, text.length, model, out, err);
    cairn_text_release(&text);
    *size = (cairn_zoo_options)CAIRN_ZOO_OPTIONS_INIT; /* the file has the one it has */
    return status;
}
