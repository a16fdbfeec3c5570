/* importer.h: what an importer is. */
#ifndef CRN_IMPORTER_H
#define CRN_IMPORTER_H

#include "base/crn_base.h"
#include "cairn/import.h"

/* `size` is complete, and both what is asked for and, on success, what was made. */
typedef cairn_status (*crn_import)(const cairn_allocator *allocator, const char *model,
                                   cairn_zoo_options *size, cairn_graph **out, cairn_error *err);

#define X(identifier, name, suffix, sized, summary)                                                \
    CAIRN_MUST cairn_status crn_import_##identifier(const cairn_allocator *allocator,              \
                                                    const char *model, cairn_zoo_options *size,    \
                                                    cairn_graph **out, cairn_error *err);
#include "import/importers.def"
#undef X

/* Importer `index`, or NULL past the end. */
const cairn_importer *crn_importer_list(uint32_t index);

/* A network file that is in memory; `file` is named in errors. */
CAIRN_MUST cairn_status crn_network_from_text(const cairn_allocator *allocator, const char *text,
                                              size_t length, const char *file,
                                              cairn_zoo_options *size, cairn_graph **out,
                                              cairn_error *err);

/* The forward graph of a network of the zoo, loss included: input and label in, mean cross-entropy
 * out. CAIRN_EUNKNOWN: there is no network of that name; CAIRN_EINVAL: it cannot have that input;
 * CAIRN_EOVERFLOW: a tensor would be too large. */
CAIRN_MUST cairn_status crn_zoo_build(const cairn_allocator *allocator, const char *name,
                                      const cairn_zoo_options *options, cairn_graph **out,
                                      cairn_error *err);

/* The place in the zoo's list of the network that a name, with or without sizes, means; UINT32_MAX:
 * there is none. */
uint32_t crn_zoo_find(const char *name);

#endif
