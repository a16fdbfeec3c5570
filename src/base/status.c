/* status.c: names and sentences of status codes; filling and printing errors. */
#include "base/crn_base.h"

#include <stdio.h>

#define STRING_OF(x) #x
#define VERSION_OF(major, minor, patch) STRING_OF(major) "." STRING_OF(minor) "." STRING_OF(patch)

const char *cairn_version(void) {
    return VERSION_OF(CAIRN_VERSION_MAJOR, CAIRN_VERSION_MINOR, CAIRN_VERSION_PATCH);
}

const char *crn_status_name(cairn_status status) {
    switch (status) {
#define X(name, value, message)                                                                    \
    case CAIRN_##name:                                                                             \
        return "CAIRN_" #name;
        CAIRN_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

const char *cairn_status_message(cairn_status status) {
    switch (status) {
#define X(name, value, message)                                                                    \
    case CAIRN_##name:                                                                             \
        return message;
        CAIRN_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

const char *cairn_error_text(const cairn_error *error, char *buffer, size_t size) {
    if (error->line > 0 && error->column == 0)
        snprintf(buffer, size, "%s:%u: %s", error->file[0] ? error->file : "input", error->line,
                 error->message);
    else if (error->line > 0)
        snprintf(buffer, size, "%s:%u:%u: %s", error->file[0] ? error->file : "input", error->line,
                 error->column, error->message);
    else
        snprintf(buffer, size, "%s%s%s%s%s", error->file, error->file[0] ? ": " : "", error->path,
                 error->path[0] ? ": " : "", error->message);
    return buffer;
}

void crn_copy_string(char *to, size_t size, const char *from) {
    size_t length = strlen(from);
    if (length >= size)
        length = size - 1;
    memcpy(to, from, length);
    to[length] = '\0';
}

void crn_error_clear(cairn_error *err) {
    if (err != NULL)
        memset(err, 0, sizeof *err);
}

static void fill(cairn_error *err, cairn_status status, const char *name, const char *format,
                 va_list arguments) {
    if (err == NULL)
        return;
    err->status = status;
    vsnprintf(err->message, sizeof err->message, format, arguments);
    crn_copy_string(err->name, sizeof err->name, name);
}

cairn_status crn_fail(cairn_error *err, cairn_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fill(err, status, "", format, arguments);
    va_end(arguments);
    return status;
}

cairn_status crn_fail_at(cairn_error *err, cairn_status status, const char *name,
                         const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fill(err, status, name, format, arguments);
    va_end(arguments);
    return status;
}

cairn_status crn_fail_memory(cairn_error *err) {
    return crn_fail(err, CAIRN_ENOMEM, "out of memory");
}

/* The size of a struct as its caller compiled it, which stands first in it. */
static cairn_status read_size(const void *given, const char *type, uint32_t *out,
                              cairn_error *err) {
    memcpy(out, given, sizeof *out);
    if (*out >= sizeof *out)
        return CAIRN_OK;
    return crn_fail(err, CAIRN_EINVAL,
                    "the struct_size of a %s is %u; it must be set, as its _INIT macro does", type,
                    *out);
}

cairn_status crn_read_options(void *local, size_t size, const void *given, const char *type,
                              cairn_error *err) {
    uint32_t given_size, own_size = (uint32_t)size;
    if (given == NULL)
        return CAIRN_OK;
    CRN_TRY(read_size(given, type, &given_size, err));
    const unsigned char *bytes = given;
    for (size_t i = size; i < given_size; i++)
        if (bytes[i] != 0)
            return crn_fail(err, CAIRN_EINVAL,
                            "a %s of a later version sets fields that this library does not know",
                            type);
    memcpy(local, given, CRN_MIN(given_size, own_size));
    memcpy(local, &own_size, sizeof own_size);
    return CAIRN_OK;
}

/* ---- Outputs ---- */

cairn_status crn_open_output(void *out, const char *type, cairn_error *err) {
    uint32_t size;
    CRN_TRY(read_size(out, type, &size, err));
    memset((char *)out + sizeof size, 0, size - sizeof size);
    return CAIRN_OK;
}

void crn_write_output(void *out, const void *made, size_t size) {
    uint32_t known;
    memcpy(&known, out, sizeof known);
    memcpy(out, made, CRN_MIN(known, size));
    memcpy(out, &known, sizeof known);
}

bool crn_printable(const char *string) {
    for (; *string != '\0'; string++)
        if ((unsigned char)*string < ' ' || *string == 0x7f)
            return false;
    return true;
}
