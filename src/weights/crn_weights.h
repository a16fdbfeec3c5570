/* crn_weights.h: what the rest of the library does with files of weights and embedders need not. */
#ifndef CRN_WEIGHTS_H
#define CRN_WEIGHTS_H

#include "base/crn_base.h"
#include "cairn/safetensors.h"
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

/* ---- Writing more than the weights, as snapshots do ---- */

/* A tensor to be written: from memory, or read from an executor when it is written, so that no
 * second copy of all tensors exists. */
typedef struct crn_saved_tensor {
    cairn_named_tensor as; /* its data is NULL where it is read */
    cairn_id from;         /* of the executor's graph; CAIRN_NONE: from memory */
    uint32_t slot;         /* 0: the tensor itself; else 1 + the optimiser's slot */
    /* A parameter in another form (weights_forms.c): the bytes of the whole tensor, where the
     * member begins, and the columns of a matrix that is written transposed. All 0: as it is. */
    uint64_t whole, offset;
    uint32_t columns;
} crn_saved_tensor;

/* The elements of a tensor: its data, or `room`, which is large enough for them. */
CAIRN_MUST cairn_status crn_saved_data(cairn_exec *exec, const crn_saved_tensor *tensor, void *room,
                                       const void **out, cairn_error *err);

/* Bytes of the largest that is read. */
uint64_t crn_saved_room(const crn_saved_tensor *tensors, uint32_t count);

/* cairn_weights_save() with more tensors of the executor. */
CAIRN_MUST cairn_status crn_weights_save(cairn_exec *exec, const cairn_graph *graph,
                                         const char *path,
                                         const cairn_weights_save_options *options,
                                         const crn_saved_tensor *more, uint32_t count,
                                         cairn_error *err);

/* ---- Parameters that files have in another form ---- */

#define CRN_MOST_PACKED 3

/* How a file has a parameter: as several tensors, its members, by rows; or transposed. */
typedef struct crn_form {
    uint32_t count; /* of members */
    const char *names[CRN_MOST_PACKED];
    uint64_t rows[CRN_MOST_PACKED];
    size_t before; /* the length of the name before that of a member, and the name after it */
    const char *after;
    bool transposed;
    uint32_t ones; /* leading dimensions of length 1 that the file has and the network has not */
} crn_form;

/* False: the file has it as the network does. */
bool crn_form_of(const cairn_graph *graph, cairn_id tensor, crn_form *out);

/* Replace the tensors of a file that are members of the network's by those. */
CAIRN_MUST cairn_status crn_forms_gather(const cairn_graph *graph, crn_arena *arena,
                                         const cairn_named_tensor **tensors, uint32_t *count,
                                         cairn_error *err);

#endif
