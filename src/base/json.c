/* json.c: cursors over Jansson's values. */
#include "base/json.h"

#include <jansson.h>
#include <stdio.h>

cairn_status crn_json_parse(const char *text, size_t length, const char *file,
                            crn_json_document *out, cairn_error *err) {
    crn_error_clear(err);
    out->root = NULL;
    crn_copy_string(out->file, sizeof out->file, file == NULL ? "" : file);
    json_error_t reason;
    out->root = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &reason);
    if (out->root != NULL)
        return CAIRN_OK;
    if (json_error_code(&reason) == json_error_out_of_memory)
        return crn_fail_memory(err);
    if (err != NULL) {
        crn_copy_string(err->file, sizeof err->file, out->file);
        err->line = reason.line > 0 ? (uint32_t)reason.line : 1;
        err->column = reason.column > 0 ? (uint32_t)reason.column : 1;
    }
    return crn_fail(err, CAIRN_ESYNTAX, "not valid JSON: %s", reason.text);
}

void crn_json_release(crn_json_document *document) {
    json_decref(document->root);
    document->root = NULL;
}

crn_json crn_json_root(const crn_json_document *document) {
    return (crn_json){.document = document, .value = document->root};
}

static void write_path(const crn_json *at, char *path, size_t size) {
    path[0] = '\0';
    if (at->parent == NULL)
        return;
    write_path(at->parent, path, size);
    size_t used = strlen(path);
    if (at->key == NULL)
        snprintf(path + used, size - used, "[%zu]", at->index);
    else
        snprintf(path + used, size - used, "%s%s", used > 0 ? "." : "", at->key);
}

cairn_status crn_json_fail(const crn_json *at, cairn_error *err, cairn_status status,
                           const char *format, ...) {
    if (err == NULL)
        return status;
    crn_error_clear(err);
    err->status = status;
    crn_copy_string(err->file, sizeof err->file, at->document->file);
    write_path(at, err->path, sizeof err->path);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    return status;
}

crn_json crn_json_member(const crn_json *object, const char *key) {
    return (crn_json){.document = object->document,
                      .parent = object,
                      .key = key,
                      .value = json_object_get(object->value, key)};
}

crn_json crn_json_element(const crn_json *array, size_t index) {
    return (crn_json){.document = array->document,
                      .parent = array,
                      .index = index,
                      .value = json_array_get(array->value, index)};
}

bool crn_json_next(const crn_json *object, void **place, crn_json *out) {
    *place = *place == NULL ? json_object_iter(object->value)
                            : json_object_iter_next(object->value, *place);
    if (*place == NULL)
        return false;
    *out = (crn_json){.document = object->document,
                      .parent = object,
                      .key = json_object_iter_key(*place),
                      .value = json_object_iter_value(*place)};
    return true;
}

bool crn_json_is_array(const crn_json *at) {
    return json_is_array(at->value);
}

bool crn_json_is_object(const crn_json *at) {
    return json_is_object(at->value);
}

bool crn_json_is_string(const crn_json *at) {
    return json_is_string(at->value);
}

bool crn_json_is_null(const crn_json *at) {
    return json_is_null(at->value);
}

static cairn_status wrong_kind(const crn_json *at, cairn_error *err, const char *wanted) {
    if (at->value == NULL)
        return crn_json_fail(at, err, CAIRN_EINVAL, "is missing; %s is expected", wanted);
    return crn_json_fail(at, err, CAIRN_EINVAL, "must be %s", wanted);
}

cairn_status crn_json_object(const crn_json *at, cairn_error *err) {
    return json_is_object(at->value) ? CAIRN_OK : wrong_kind(at, err, "an object");
}

cairn_status crn_json_array(const crn_json *at, size_t *count, cairn_error *err) {
    if (!json_is_array(at->value))
        return wrong_kind(at, err, "an array");
    *count = json_array_size(at->value);
    return CAIRN_OK;
}

cairn_status crn_json_string(const crn_json *at, const char **out, cairn_error *err) {
    if (!json_is_string(at->value))
        return wrong_kind(at, err, "a string");
    *out = json_string_value(at->value);
    return CAIRN_OK;
}

cairn_status crn_json_integer(const crn_json *at, int64_t low, int64_t high, int64_t *out,
                              cairn_error *err) {
    if (!json_is_integer(at->value))
        return wrong_kind(at, err, "a whole number");
    json_int_t value = json_integer_value(at->value);
    if (value < low || value > high)
        return crn_json_fail(at, err, CAIRN_EINVAL, "is %lld; it must be from %lld to %lld",
                             (long long)value, (long long)low, (long long)high);
    *out = value;
    return CAIRN_OK;
}

cairn_status crn_json_boolean(const crn_json *at, bool *out, cairn_error *err) {
    if (!json_is_boolean(at->value))
        return wrong_kind(at, err, "true or false");
    *out = json_is_true(at->value);
    return CAIRN_OK;
}

cairn_status crn_json_real(const crn_json *at, double *out, cairn_error *err) {
    if (!json_is_number(at->value))
        return wrong_kind(at, err, "a number");
    *out = json_number_value(at->value);
    return CAIRN_OK;
}

cairn_status crn_json_only(const crn_json *object, const char *const *keys, cairn_error *err) {
    const char *key;
    json_t *value;
    json_object_foreach(object->value, key, value) {
        bool known = false;
        for (const char *const *k = keys; *k != NULL && !known; k++)
            known = strcmp(*k, key) == 0;
        if (!known)
            return crn_json_fail(object, err, CAIRN_EINVAL, "has an unknown member \"%.64s\"", key);
    }
    return CAIRN_OK;
}

cairn_status crn_json_format(const crn_json *root, const char *format, int version,
                             cairn_error *err) {
    if (!json_is_object(root->value))
        return crn_json_fail(root, err, CAIRN_EINVAL, "the file must hold an object, a %s", format);
    crn_json name = crn_json_member(root, "format"), number = crn_json_member(root, "version");
    const char *string = "";
    int64_t value = 0;
    CRN_TRY(crn_json_string(&name, &string, err));
    if (strcmp(string, format) != 0)
        return crn_json_fail(&name, err, CAIRN_EINVAL, "is \"%.32s\", not \"%s\"", string, format);
    CRN_TRY(crn_json_integer(&number, 0, INT64_MAX, &value, err));
    if (value != version)
        return crn_json_fail(&number, err, CAIRN_EINVAL, "is %lld; this program reads version %d",
                             (long long)value, version);
    return CAIRN_OK;
}
