/* crn_weights.h: more of a safetensors file than embedders need. */
#ifndef CRN_WEIGHTS_H
#define CRN_WEIGHTS_H

#include "cairn/weights.h"

/* "F32" and 4; NULL and 0 past the end of the list. */
const char *crn_element_name(cairn_element element);
uint32_t crn_element_bytes(cairn_element element);

/* cairn_safetensors_load() from memory, which may be freed afterwards; `file` is named in errors.
 */
CAIRN_MUST cairn_status crn_safetensors_from_bytes(const cairn_allocator *allocator,
                                                   const void *bytes, size_t length,
                                                   const char *file, cairn_safetensors **out,
                                                   cairn_error *err);

/* A tensor by name, or NULL. O(log n). */
const cairn_named_tensor *crn_safetensors_find(const cairn_safetensors *file, const char *name);

/* All of the metadata, sorted by key. */
const cairn_pair *crn_safetensors_metadata(const cairn_safetensors *file, uint32_t *count);

#endif
