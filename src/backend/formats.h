/* formats.h: stored forms of tensors, in memory that the host can address. */
#ifndef CRN_FORMATS_H
#define CRN_FORMATS_H

#include "backend/backend.h"

/* Rows of a tensor: of its first dimension; one where it has no shape. */
uint64_t crn_tensor_rows(const cairn_tensor *tensor);

/* The stored form of a tensor in a format; `block` as in crn_storage. */
crn_storage crn_storage_of(const cairn_tensor *tensor, crn_format format, uint32_t block,
                           crn_type type);

/* Elements of a tensor as it is stored, those that fill up blocks among them. */
uint64_t crn_stored_elements(const cairn_tensor *tensor, crn_storage storage);

/* Do a conversion whose stored side the host can address. Reals are rounded to the nearest, of two
 * equally near to the even one. */
void crn_convert_rows(const crn_conversion *conversion);

#endif
