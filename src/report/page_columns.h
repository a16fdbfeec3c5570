/* page_columns.h: arrays of integers inside JSON, a few bytes for each number. Numbers are written
 * as variable-length integers (seven bits a byte, lowest first; the eighth bit says that more bytes
 * follow), and these as base64. */
#ifndef CRN_PAGE_COLUMNS_H
#define CRN_PAGE_COLUMNS_H

#include "base/crn_base.h"

typedef struct crn_column {
    cairn_text *text;
    uint32_t bits, held; /* bytes of an incomplete group of three, and how many */
} crn_column;

/* Begin a column: write ,"key":" (without the comma if it is the `first` member of its object). */
crn_column crn_column_begin(cairn_text *text, const char *key, bool first);
void crn_column_put(crn_column *column, uint64_t value);

/* Numbers that may be negative are numbered 0, -1, 1, -2, ... */
void crn_column_put_signed(crn_column *column, int64_t value);
void crn_column_end(crn_column *column);

/* `length` bytes in base64. */
void crn_text_base64(cairn_text *text, const uint8_t *bytes, size_t length);

/* Write a JSON string that is safe inside an HTML script element, whatever its bytes are: "<" and
 * characters that end a line in JavaScript are escaped, and bytes that are not UTF-8 become
 * U+FFFD. */
void crn_text_page_string(cairn_text *text, const char *string);

#endif
