/* formats.h: storage formats of tensors, in memory that the host can access. */
#ifndef CRN_FORMATS_H
#define CRN_FORMATS_H

#include "backend/backend.h"

/* The number of rows of a tensor: its first dimension; 1 if it has no shape. */
uint64_t crn_tensor_rows(const cairn_tensor *tensor);

/* The stored form of a tensor in a format; `block` as in crn_storage. */
crn_storage crn_storage_of(const cairn_tensor *tensor, crn_format format, uint32_t block,
                           crn_type type);

/* How what belongs to a tensor, its slots, is stored: like it, but not twice. */
crn_storage crn_storage_once(const cairn_tensor *tensor, crn_storage storage);

/* The number of stored elements of a tensor, including those that fill up blocks. */
uint64_t crn_stored_elements(const cairn_tensor *tensor, crn_storage storage);

/* Run a conversion whose stored side the host can access. Real numbers are rounded to nearest, ties
 * to even. */
void crn_convert_rows(const crn_conversion *conversion);

#endif
