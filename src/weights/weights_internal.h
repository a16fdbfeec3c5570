/* weights_internal.h: what the files of weights/ share. */
#ifndef CRN_WEIGHTS_INTERNAL_H
#define CRN_WEIGHTS_INTERNAL_H

#include "base/crn_base.h"
#include "cairn/weights.h"
#include "weights/crn_weights.h"

/* The format's own library reads no larger header. */
#define CRN_LARGEST_HEADER 100000000u
#define CRN_METADATA "__metadata__"

/* ---- elements.c ---- */

/* CAIRN_ELEMENTS if there is none of that name. */
cairn_element crn_element_find(const char *name);

/* The bytes of a tensor's elements; false if they overflow. */
bool crn_named_tensor_bytes(const cairn_named_tensor *tensor, uint64_t *bytes);

/* Files are little-endian: swap the bytes of elements of that size, from file to machine or back;
 * nothing is done on a little-endian machine. */
bool crn_is_little_endian(void);
void crn_reverse_elements(uint8_t *data, uint64_t bytes, uint32_t element);

/* Whether elements of one kind can be read as another: the same, or real numbers as F32; and doing
 * the latter, for all elements of a tensor. */
bool crn_can_convert(cairn_element from, cairn_element to);
void crn_convert(const cairn_named_tensor *tensor, float *to);

/* ---- safetensors_write.c ---- */

/* cairn_safetensors_save() of such tensors; `exec` may be NULL where none is read. */
CAIRN_MUST cairn_status crn_safetensors_save(const cairn_allocator *allocator, const char *path,
                                             cairn_exec *exec, const crn_saved_tensor *tensors,
                                             uint32_t tensor_count, const cairn_pair *metadata,
                                             uint32_t metadata_count, cairn_error *err);

/* ---- weights_forms.c ---- */

/* A member as it is saved; its name is in the arena. */
CAIRN_MUST cairn_status crn_form_saved(const cairn_graph *graph, cairn_id tensor,
                                       const crn_form *form, uint32_t member, crn_arena *arena,
                                       crn_saved_tensor *out);

/* [rows, columns] -> [columns, rows] */
void crn_transpose(const float *from, float *to, uint64_t rows, uint64_t columns);

/* ---- weights_save.c ---- */

/* A parameter or state tensor as a file has it, all but its data. */
cairn_named_tensor crn_weight_described(const cairn_tensor *tensor);

static inline bool crn_is_weight(const cairn_tensor *tensor) {
    return tensor->role == CAIRN_ROLE_PARAMETER || tensor->role == CAIRN_ROLE_STATE;
}

static inline bool crn_begins(const char *name, const char *with) {
    return strncmp(name, with, strlen(with)) == 0;
}

static inline bool crn_ends(const char *name, const char *with) {
    size_t length = strlen(name), want = strlen(with);
    return length >= want && strcmp(name + length - want, with) == 0;
}

#endif
