/* case_file.h: a file with cases of one of the papers' problems: one case, an array of cases, or
 * {"cases": [...]}. */
#ifndef CRN_CASE_FILE_H
#define CRN_CASE_FILE_H

#include "base/json.h"

/* Read one case into `item`, which is zeroed; what it refers to is taken from `arena`. */
typedef cairn_status crn_case_reader(crn_arena *arena, const crn_json *at, void *item,
                                     cairn_error *err);

/* The cases of a file. The type of an item belongs to the problem. */
typedef struct crn_cases {
    crn_arena arena; /* this struct is allocated in it */
    uint32_t count;  /* at least 1 */
    size_t size;     /* of an item */
    char *items;
} crn_cases;

/* `file` is named in errors and may be NULL. On CAIRN_OK release `*out` with crn_cases_destroy();
 * otherwise it is NULL. */
CAIRN_MUST cairn_status crn_cases_read(const cairn_allocator *allocator, const char *text,
                                       size_t length, const char *file, size_t size,
                                       crn_case_reader *read, crn_cases **out, cairn_error *err);
void crn_cases_destroy(crn_cases *cases); /* NULL: nothing */

/* Item `index`, or NULL past the end. */
const void *crn_cases_get(const crn_cases *cases, uint32_t index);

#endif
