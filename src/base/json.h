/* json.h: reading JSON, with errors that name the position.
 *
 * A cursor is a value together with how it was reached, so that a wrong value can be named by its
 * path ("ops[17].inputs[0]") without the code that reads keeping track of it. Cursors live on the
 * stack; the document owns the values. Jansson parses; it allocates with malloc. */
#ifndef CRN_JSON_H
#define CRN_JSON_H

#include "base/crn_base.h"

typedef struct json_t json_t;

typedef struct crn_json_document {
    json_t *root;
    char file[256];
} crn_json_document;

typedef struct crn_json {
    const crn_json_document *document;
    const struct crn_json *parent; /* NULL at the root */
    const char *key;               /* member of an object, or NULL */
    size_t index;                  /* element of an array where key is NULL */
    json_t *value;                 /* NULL: absent */
} crn_json;

/* Parse `length` bytes; `file` is named in errors and may be NULL. Duplicate keys are errors. */
CAIRN_MUST cairn_status crn_json_parse(const char *text, size_t length, const char *file,
                                       crn_json_document *out, cairn_error *err);
void crn_json_release(crn_json_document *document);
crn_json crn_json_root(const crn_json_document *document);

/* Fail with the cursor's file and path in `err`. */
#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
cairn_status
crn_json_fail(const crn_json *at, cairn_error *err, cairn_status status, const char *format, ...);

/* A member that may be absent (value NULL), and an element. The result points at `object`. */
crn_json crn_json_member(const crn_json *object, const char *key);
crn_json crn_json_element(const crn_json *array, size_t index);

/* The members one after the other, as they stand in the file: `*place` is NULL before the first,
 * false is returned after the last. */
bool crn_json_next(const crn_json *object, void **place, crn_json *out);

bool crn_json_is_array(const crn_json *at);
bool crn_json_is_object(const crn_json *at);
bool crn_json_is_string(const crn_json *at);
bool crn_json_is_null(const crn_json *at);

/* Each says "is missing" or "must be ..." when the value is not of the kind. Strings belong to the
 * document. */
CAIRN_MUST cairn_status crn_json_object(const crn_json *at, cairn_error *err);
CAIRN_MUST cairn_status crn_json_array(const crn_json *at, size_t *count, cairn_error *err);
CAIRN_MUST cairn_status crn_json_string(const crn_json *at, const char **out, cairn_error *err);
CAIRN_MUST cairn_status crn_json_integer(const crn_json *at, int64_t low, int64_t high,
                                         int64_t *out, cairn_error *err);
CAIRN_MUST cairn_status crn_json_boolean(const crn_json *at, bool *out, cairn_error *err);
CAIRN_MUST cairn_status crn_json_real(const crn_json *at, double *out, cairn_error *err);

/* Fail on any member that is not in the NULL-terminated list: a misspelt key is not ignored. */
CAIRN_MUST cairn_status crn_json_only(const crn_json *object, const char *const *keys,
                                      cairn_error *err);

/* The root of a file of ours: an object whose "format" and "version" are these. */
CAIRN_MUST cairn_status crn_json_format(const crn_json *root, const char *format, int version,
                                        cairn_error *err);

#endif
