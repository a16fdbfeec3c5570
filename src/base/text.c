/* text.c: texts that grow, and files read and written whole. */
#include "base/save_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGEST_FILE ((off_t)1 << 30)
#define FAILED SIZE_MAX /* capacity of a text whose memory ran out */

void crn_text_init(cairn_text *text, const cairn_allocator *allocator) {
    *text = (cairn_text){.allocator = crn_allocator_or_default(allocator)};
}

void cairn_text_release(cairn_text *text) {
    if (text->data != NULL)
        crn_resize(&text->allocator, text->data, text->capacity, 0);
    text->data = NULL;
    text->length = text->capacity = 0;
}

static void fail(cairn_text *text) {
    cairn_text_release(text);
    text->capacity = FAILED;
}

/* Room for `more` bytes and the final NUL. */
static bool reserve(cairn_text *text, size_t more) {
    if (text->capacity == FAILED)
        return false;
    size_t need = text->length + more + 1;
    if (need <= text->capacity)
        return true;
    size_t capacity = CRN_MAX(need, 2 * text->capacity);
    char *data = crn_resize(&text->allocator, text->data, text->capacity, capacity);
    if (data == NULL) {
        fail(text);
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void crn_text_put(cairn_text *text, const char *bytes, size_t length) {
    if (!reserve(text, length))
        return;
    memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void crn_text_printf(cairn_text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    if (length >= 0 && reserve(text, (size_t)length)) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
    va_end(arguments);
}

void crn_text_json_string(cairn_text *text, const char *string) {
    crn_text_put(text, "\"", 1);
    for (const char *c = string; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            crn_text_printf(text, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            crn_text_printf(text, "\\u%04x", *c);
        else
            crn_text_put(text, c, 1);
    }
    crn_text_put(text, "\"", 1);
}

void crn_text_real(cairn_text *text, double value) {
    char digits[40];
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    /* A JSON integer would be read back as one: keep a mark of the real. */
    bool plain = strpbrk(digits, ".en") == NULL;
    crn_text_printf(text, "%s%s", digits, plain ? ".0" : "");
}

void crn_text_xml(cairn_text *text, const char *string) {
    for (const char *c = string; *c != '\0'; c++) {
        switch (*c) {
        case '&':
            crn_text_put(text, "&amp;", 5);
            break;
        case '<':
            crn_text_put(text, "&lt;", 4);
            break;
        case '>':
            crn_text_put(text, "&gt;", 4);
            break;
        case '"':
            crn_text_put(text, "&quot;", 6);
            break;
        default:
            crn_text_put(text, c, 1);
        }
    }
}

cairn_status crn_text_finish(cairn_text *text) {
    if (reserve(text, 0)) {
        text->data[text->length] = '\0';
        return CAIRN_OK;
    }
    *text = (cairn_text){.allocator = text->allocator};
    return CAIRN_ENOMEM;
}

cairn_status cairn_text_save(const cairn_text *text, const char *path, cairn_error *err) {
    crn_save save;
    CRN_TRY(crn_save_begin(&save, path, err));
    crn_save_put(&save, text->data, text->length);
    return crn_save_end(&save, err);
}

/* Read until the end, growing: the size that a file reports (a pipe, /proc) may be wrong. */
static cairn_status read_all(int fd, const char *path, cairn_text *out, cairn_error *err) {
    char buffer[65536];
    for (;;) {
        ssize_t got = read(fd, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return crn_fail_file(err, "read", path);
        if (got == 0)
            return crn_text_finish(out) == CAIRN_OK ? CAIRN_OK : crn_fail_memory(err);
        if (out->length + (size_t)got > (size_t)LARGEST_FILE)
            return crn_fail(err, CAIRN_EIO, "cannot read %s: it is larger than 1 GiB", path);
        crn_text_put(out, buffer, (size_t)got);
    }
}

cairn_status cairn_text_load(const cairn_allocator *allocator, const char *path, cairn_text *out,
                             cairn_error *err) {
    crn_text_init(out, allocator);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make us wait */
    if (fd < 0 && errno == ENOENT)
        return crn_fail(err, CAIRN_EUNKNOWN, "there is no file %s", path);
    if (fd < 0)
        return crn_fail_file(err, "open", path);
    struct stat facts;
    cairn_status status = CAIRN_OK;
    if (fstat(fd, &facts) == 0 && (S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode)))
        status = crn_fail(err, CAIRN_EINVAL, "%s is a pipe; give a file", path);
    if (status == CAIRN_OK)
        status = read_all(fd, path, out, err);
    if (status != CAIRN_OK)
        cairn_text_release(out);
    close(fd);
    return status;
}
