/* base.h: what every stage shares: status codes, errors, the caller's allocator, texts. */
#ifndef CAIRN_BASE_H
#define CAIRN_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CAIRN_API __attribute__((visibility("default")))
#define CAIRN_MUST __attribute__((warn_unused_result))
#else
#define CAIRN_API
#define CAIRN_MUST
#endif

#define CAIRN_VERSION_MAJOR 0
#define CAIRN_VERSION_MINOR 1
#define CAIRN_VERSION_PATCH 0

/* "0.1.0". The version of the library that runs, not of the header that was compiled. */
CAIRN_API const char *cairn_version(void);

/* Whether the headers are at least of this version, for #if. */
#define CAIRN_VERSION_AT_LEAST(major, minor, patch)                                                \
    (CAIRN_VERSION_MAJOR > (major) ||                                                              \
     (CAIRN_VERSION_MAJOR == (major) &&                                                            \
      (CAIRN_VERSION_MINOR > (minor) ||                                                            \
       (CAIRN_VERSION_MINOR == (minor) && CAIRN_VERSION_PATCH >= (patch)))))

/* Every status a function can return: name, value, what it means. The values are frozen, as those
 * of every enum of this interface: new ones are only ever added. Negative values are errors.
 * CAIRN_INFEASIBLE is a result: the input was valid, and no plan fits. */
#define CAIRN_STATUS_LIST(X)                                                                       \
    X(OK, 0, "success")                                                                            \
    X(INFEASIBLE, 1, "no plan fits the budget")                                                    \
    X(ENOMEM, -1, "out of memory")                                                                 \
    X(EINVAL, -2, "the input is wrong")                                                            \
    X(ESYNTAX, -3, "the file is malformed")                                                        \
    X(EIO, -4, "a file could not be read or written")                                              \
    X(EUNKNOWN, -5, "there is nothing of that name")                                               \
    X(EOVERFLOW, -6, "a size or time is too large to represent")                                   \
    X(ESYSTEM, -7, "the system refused")                                                           \
    X(ECANCELED, -8, "the caller ended the call")

typedef enum cairn_status {
#define X(name, value, message) CAIRN_##name = value,
    CAIRN_STATUS_LIST(X)
#undef X
} cairn_status;

/* "the input is wrong"; never NULL. */
CAIRN_API const char *cairn_status_message(cairn_status status);

/* Progress of a long call, and how to end it. It is called now and then by the thread that made
 * the call: `done` of `total` units are done; a total of 0 is not known. Return false to end the
 * call: it then returns CAIRN_ECANCELED, usually within a tenth of a second; training and profiling
 * first finish the step they are in. `context` is the caller's. */
typedef bool (*cairn_progress)(void *context, uint64_t done, uint64_t total);

/* What went wrong, in words. Owned by the caller; NULL may be passed instead. Filled
 * only when a function does not return CAIRN_OK. Strings are always terminated; empty or zero means
 * that the field does not apply. */
typedef struct cairn_error {
    cairn_status status;
    char message[640];        /* one sentence, without the place */
    char file[256];           /* the input file */
    uint32_t line, column;    /* of a syntax error, from 1; column 0: the whole line */
    char path[128];           /* of a wrong value: ops[17].inputs[0] */
    char name[128];           /* the op, tensor or vertex at fault */
    uint64_t smallest_budget; /* with CAIRN_INFEASIBLE: the smallest possible budget in bytes */
} cairn_error;

/* "file:3:14: message", "file:3: message", "file: ops[2].kind: message" or just "message", into
 * `buffer`. Returns `buffer`. */
CAIRN_API const char *cairn_error_text(const cairn_error *error, char *buffer, size_t size);

/* Where memory comes from. One function does everything: `old_size` 0 with `block` NULL allocates,
 * `new_size` 0 frees and returns NULL, else the block is resized and keeps its contents. It may
 * return NULL when `new_size` > 0; the old block is then untouched. Results are aligned for any C
 * type. Must be safe to call from the threads that use the objects made with it. The struct is
 * copied; `context` must outlive every object made with it. NULL in place of an allocator means the
 * C library's. */
typedef struct cairn_allocator {
    void *(*resize)(void *context, void *block, size_t old_size, size_t new_size);
    void *context;
} cairn_allocator;

/* Structs of options begin with their size as the caller compiled it, and fields are only ever
 * added at the end. Each is started from a macro that ends in _INIT; functions take NULL for all
 * defaults. A size of 0 was never set and is refused with CAIRN_EINVAL; the fields that a
 * shorter struct of an older caller lacks have their defaults; a longer one of a newer caller is
 * refused if it asks for what this library does not know.
 *
 * Structs that a function fills in for the caller are versioned alike: they begin with their size
 * and start from their _INIT macro. A size of 0 is refused; a function without a status then fills
 * in nothing. A shorter struct of an older caller is filled as far as it goes. In a longer struct
 * of a newer caller, the fields that this library does not know are zeroed. What a function returns
 * as `const T *` belongs to the library and may be longer than the caller knows.
 *
 * All other structs that a caller makes never change: elements of arrays, the papers' problems and
 * their solutions, errors, texts, allocators. */
#ifdef __cplusplus
extern "C++" template <typename T> inline T cairn_init_sized() {
    T options = T();
    options.struct_size = sizeof(T);
    return options;
}
#define CAIRN_INIT_SIZED(type) cairn_init_sized<type>()
#define CAIRN_INIT_FIELD(field, value) made.field = value;
#define CAIRN_INIT_WITH(type, defaults)                                                            \
    ([]() -> type {                                                                                \
        type made = cairn_init_sized<type>();                                                      \
        defaults return made;                                                                      \
    }())
#else
#define CAIRN_INIT_SIZED(type)                                                                     \
    { .struct_size = sizeof(type) }
#define CAIRN_INIT_FIELD(field, value) .field = value,
#define CAIRN_INIT_WITH(type, defaults)                                                            \
    { .struct_size = sizeof(type), defaults }
#endif

/* A text made by the library: JSON, a plan, a picture. `data` is terminated by a NUL that `length`
 * does not count. Functions with a `cairn_text *out` make a new one: what it held before is neither
 * read nor released. Release with cairn_text_release(); a zeroed text is empty and may be
 * released. */
typedef struct cairn_text {
    char *data;
    size_t length;
    size_t capacity;
    cairn_allocator allocator;
} cairn_text;

CAIRN_API void cairn_text_release(cairn_text *text);

/* Write to `path` completely or not at all: a temporary file beside it, PATH.tmp.PID, is written,
 * flushed and renamed, and the folder is flushed. CAIRN_EIO names the path and the system's reason,
 * and leaves an existing file unchanged. Anything but a regular file (a pipe, a device) is written
 * to directly.
 */
CAIRN_API CAIRN_MUST cairn_status cairn_text_save(const cairn_text *text, const char *path,
                                                  cairn_error *err);

/* Read a whole file, at most 1 GiB. CAIRN_EUNKNOWN: there is none; CAIRN_EIO: it cannot be read. */
CAIRN_API CAIRN_MUST cairn_status cairn_text_load(const cairn_allocator *allocator,
                                                  const char *path, cairn_text *out,
                                                  cairn_error *err);

#ifdef __cplusplus
}
#endif
#endif
