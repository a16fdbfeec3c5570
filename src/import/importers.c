/* importers.c: finds the importer of a model. */
#include "import/importer.h"

static const cairn_importer importers[] = {
#define X(identifier, name, suffix, sized, summary) {name, suffix, summary, sized},
#include "import/importers.def"
#undef X
};

static const crn_import functions[] = {
#define X(identifier, name, suffix, sized, summary) crn_import_##identifier,
#include "import/importers.def"
#undef X
};

const cairn_importer *crn_importer_list(uint32_t index) {
    return index < CRN_LENGTH(importers) ? &importers[index] : NULL;
}

static bool has_suffix(const char *model, const char *suffix) {
    size_t length = strlen(model), end = strlen(suffix);
    return length > end && strcmp(model + length - end, suffix) == 0;
}

const cairn_importer *cairn_model_importer(const char *model) {
    const cairn_importer *graph = NULL;
    for (size_t i = 0; i < CRN_LENGTH(importers); i++) {
        const cairn_importer *importer = &importers[i];
        if (importer->suffix == NULL ? crn_zoo_find(model) != UINT32_MAX
                                     : has_suffix(model, importer->suffix))
            return importer;
        if (functions[i] == crn_import_graph)
            graph = importer;
    }
    return graph;
}

cairn_status cairn_model_open(const cairn_allocator *allocator, const char *model,
                              cairn_zoo_options *size, cairn_graph **out, cairn_error *err) {
    cairn_zoo_options used = CAIRN_ZOO_OPTIONS_INIT;
    *out = NULL;
    crn_error_clear(err);
    CRN_READ_OPTIONS(cairn_zoo_options, used, size, err);
    CRN_TRY(functions[cairn_model_importer(model) - importers](allocator, model, &used, out, err));
    if (size != NULL) {
        used.struct_size = size->struct_size;
        memcpy(size, &used, CRN_MIN(size->struct_size, sizeof used));
    }
    return CAIRN_OK;
}
