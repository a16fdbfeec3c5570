/* import.h: a model by its name or its file, whatever made it.
 *
 *     "resnet50"   -> zoo     \
 *     "my.net"     -> network  > cairn_model_open() -> graph -> cairn_graph_differentiate()
 *     "net.json"   -> graph   /
 */
#ifndef CAIRN_IMPORT_H
#define CAIRN_IMPORT_H

#include "cairn/zoo.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kind of model that can be opened: one line of importers.def. */
typedef struct cairn_importer {
    const char *name;
    const char *suffix; /* of its files; NULL: its models are no files but go by name */
    const char *summary;
    bool sized; /* its models can be built for several sizes: see cairn_model_open() */
} cairn_importer;

/* Which importer would open `model`: one that knows it by name, else the one for the suffix, else
 * the one for graph files. Whether there is such a file is not looked at. */
CAIRN_API const cairn_importer *cairn_model_importer(const char *model);

/* The graph of a model as it stands: what is in a file; of a network of the zoo the forward pass,
 * loss included: input and label in, mean cross-entropy out. Transformers of the zoo come in sizes:
 * after their name there may be a colon and a list of sizes, such as "gpt2:1558M" or
 * "llama:layers=4,width=256,heads=8,kv_heads=2,ffn=704" (docs/transformers.md).
 *
 * `size`, which may be NULL, says for what size to build a model that has several. On success it
 * holds the size that was built; all of it is zero for a graph file, which has only one.
 *
 * CAIRN_EUNKNOWN: there is neither a model nor a file of that name; CAIRN_EINVAL: it cannot have
 * that input; CAIRN_EOVERFLOW: a tensor would be too large; otherwise as cairn_graph_from_json().
 */
CAIRN_API CAIRN_MUST cairn_status cairn_model_open(const cairn_allocator *allocator,
                                                   const char *model, cairn_zoo_options *size,
                                                   cairn_graph **out, cairn_error *err);

#ifdef __cplusplus
}
#endif
#endif
