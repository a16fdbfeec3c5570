/* case_file.h: a file with cases of one of the papers' problems: one case, an array of cases, or
 * {"cases": [...]}. */
#ifndef CRN_CASE_FILE_H
#define CRN_CASE_FILE_H

#include "base/json.h"

/* It refers to itself, so it must not be copied or moved while it is open. */
typedef struct crn_case_file {
    crn_json_document document;
    crn_json root, list;
    uint32_t count; /* at least 1 */
    bool single;    /* the root is the only case */
} crn_case_file;

/* `file` is named in errors and may be NULL. Close it unless this fails. */
CAIRN_MUST cairn_status crn_case_file_open(const char *text, size_t length, const char *file,
                                           crn_case_file *out, cairn_error *err);
crn_json crn_case_file_get(const crn_case_file *file, uint32_t index);
void crn_case_file_close(crn_case_file *file);

#endif
