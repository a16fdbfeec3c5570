/* safetensors.h: files of named tensors and metadata, for programs that read or write such files
 * themselves. To save and load the weights of an executor, weights.h is enough. */
#ifndef CAIRN_SAFETENSORS_H
#define CAIRN_SAFETENSORS_H

#include "cairn/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

/* It is read and validated as a whole when it is made, so that nothing can fail or change
 * afterwards. It is not mapped, because a program crashes when a mapped file becomes shorter. It
 * takes as much memory as the tensors of the file. */
typedef struct cairn_safetensors cairn_safetensors;

/* Read a file. CAIRN_EUNKNOWN: there is none; CAIRN_EIO: it cannot be read; CAIRN_ESYNTAX or
 * CAIRN_EINVAL: it is not a safetensors file: truncated, too long, offsets that overlap, leave a
 * hole or do not fit the shape, a name twice, an element type that is not in the list. `*out` is
 * NULL unless CAIRN_OK; release with cairn_safetensors_destroy(). O(bytes + n log n). */
CAIRN_API CAIRN_MUST cairn_status cairn_safetensors_load(const cairn_allocator *allocator,
                                                         const char *path, cairn_safetensors **out,
                                                         cairn_error *err);
CAIRN_API void cairn_safetensors_destroy(cairn_safetensors *file);

/* Its tensors, sorted by name. */
CAIRN_API const cairn_named_tensor *cairn_safetensors_tensors(const cairn_safetensors *file,
                                                              uint32_t *count);

/* A value of its metadata by key, or NULL. O(log n). */
CAIRN_API const char *cairn_safetensors_value(const cairn_safetensors *file, const char *key);

/* Write tensors and metadata to `path`, completely or not at all, as cairn_text_save() does. The
 * bytes depend on names, shapes, data and metadata alone, not on the order in which they are given.
 * CAIRN_EINVAL: a name or key twice, not UTF-8, or "__metadata__"; a rank above
 * CAIRN_NAMED_TENSOR_RANK. CAIRN_EIO: it cannot be written; an existing file is unchanged.
 *
 * Either array may be NULL where its count is 0. */
CAIRN_API CAIRN_MUST cairn_status cairn_safetensors_save(
    const cairn_allocator *allocator, const char *path, const cairn_named_tensor *tensors,
    uint32_t tensor_count, const cairn_pair *metadata, uint32_t metadata_count, cairn_error *err);

#ifdef __cplusplus
}
#endif
#endif
