/* crn_base.h: what every folder uses: errors, arenas, growing arrays,
 * checked arithmetic, texts.
 *
 * Memory is held in arenas. An object that a caller gets (a graph, a plan) owns one; an algorithm
 * works in a scratch arena that its caller frees on every path. So code that allocates holds no
 * cleanup code: it takes from its arena and returns on failure. */
#ifndef CRN_BASE_H
#define CRN_BASE_H

#include "cairn/base.h"

#include <stdarg.h>
#include <string.h>

#define CRN_LENGTH(array) (sizeof(array) / sizeof(*(array)))
#define CRN_MIN(a, b) ((a) < (b) ? (a) : (b))
#define CRN_MAX(a, b) ((a) > (b) ? (a) : (b))

/* ---- Errors ---- */

#define CRN_TRY(call)                                                                              \
    do {                                                                                           \
        cairn_status crn_try_status = (call);                                                      \
        if (crn_try_status != CAIRN_OK)                                                            \
            return crn_try_status;                                                                 \
    } while (0)

/* Fill `err` (which may be NULL) with a status and a sentence; returns the status. The place fields
 * (file, path, line, column) are left as they were, so that outer code may set them first. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
cairn_status
crn_fail(cairn_error *err, cairn_status status, const char *format, ...);

/* The same, naming the op, tensor or vertex at fault as well. */
#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
cairn_status
crn_fail_at(cairn_error *err, cairn_status status, const char *name, const char *format, ...);

cairn_status crn_fail_memory(cairn_error *err);

/* "CAIRN_EINVAL"; never NULL. */
const char *crn_status_name(cairn_status status);

/* Whether a string has no control characters, which a terminal would obey. */
bool crn_printable(const char *string);

/* Copy a string into a fixed field, truncated to fit. */
void crn_copy_string(char *to, size_t size, const char *from);

/* Clear an error: all fields become empty. */
void crn_error_clear(cairn_error *err);

/* ---- Options ---- */

/* Complete `local`, which holds the defaults, from `given` (which may be NULL): as much of it as
 * the caller compiled. CAIRN_EINVAL: its struct_size was never set, or it is of a later version and
 * sets a field that this one does not know. */
CAIRN_MUST cairn_status crn_read_options(void *local, size_t size, const void *given,
                                         const char *type, cairn_error *err);

/* How every function reads a struct of options whose first field is struct_size. */
#define CRN_READ_OPTIONS(type, local, given, err)                                                  \
    do {                                                                                           \
        _Static_assert(offsetof(type, struct_size) == 0, "struct_size comes first");               \
        const type *crn_given_options = (given);                                                   \
        CRN_TRY(crn_read_options(&(local), sizeof(type), crn_given_options, #type, (err)));        \
    } while (0)

/* The same for a struct that a caller hands over by pointer: `*(pointer)` is read into `local`, to
 * which it then points. NULL stays NULL. */
#define CRN_READ_LOCAL(type, local, pointer, err)                                                  \
    do {                                                                                           \
        CRN_READ_OPTIONS(type, local, *(pointer), err);                                            \
        if (*(pointer) != NULL)                                                                    \
            *(pointer) = &(local);                                                                 \
    } while (0)

/* ---- Outputs ---- */

/* Check the struct that a caller wants filled in, and empty it as far as its size goes.
 * CAIRN_EINVAL: its struct_size was never set. */
CAIRN_MUST cairn_status crn_open_output(void *out, const char *type, cairn_error *err);

/* Fill it in: as much of what was `made` as the caller compiled. */
void crn_write_output(void *out, const void *made, size_t size);

/* How every function begins to fill in a struct whose first field is struct_size; it ends with
 * crn_write_output(). */
#define CRN_OPEN_OUTPUT(type, out, err)                                                            \
    do {                                                                                           \
        _Static_assert(offsetof(type, struct_size) == 0, "struct_size comes first");               \
        type *crn_given_output = (out);                                                            \
        CRN_TRY(crn_open_output(crn_given_output, #type, (err)));                                  \
    } while (0)

/* ---- Allocation ---- */

cairn_allocator crn_allocator_or_default(const cairn_allocator *allocator);
void *crn_resize(const cairn_allocator *allocator, void *block, size_t old_size, size_t new_size);

/* An arena gives out zeroed memory and takes it back all at once. */
typedef struct crn_arena_block crn_arena_block;
typedef struct crn_arena {
    cairn_allocator allocator;
    crn_arena_block *blocks;
    size_t used, size;       /* of the newest block */
    struct crn_watch *watch; /* NULL, or an arena that gives nothing out once this has ended */
} crn_arena;

void crn_arena_init(crn_arena *arena, const cairn_allocator *allocator);
void crn_arena_release(crn_arena *arena);

/* An arena that lies in itself, for an object that needs nothing else to be released; NULL when
 * memory is out. */
crn_arena *crn_arena_create(const cairn_allocator *allocator);
void crn_arena_destroy(crn_arena *arena); /* NULL: nothing */

/* A zeroed object that lies in an arena which is its `member`; NULL when memory is out.
 * crn_arena_destroy() of that member releases it. */
void *crn_arena_object(const cairn_allocator *allocator, size_t size, size_t member);
#define CRN_OBJECT(allocator, type, member)                                                        \
    crn_arena_object((allocator), sizeof(type), offsetof(type, member))

/* Zeroed, aligned for any type; NULL when memory is out or count * size overflows. A count of 0
 * gives a valid pointer. */
void *crn_arena_take(crn_arena *arena, size_t count, size_t size);
char *crn_arena_string(crn_arena *arena, const char *string);

/* Take `count` zeroed elements for the pointer `target`, or return CAIRN_ENOMEM. */
#define CRN_TAKE(arena, target, count)                                                             \
    do {                                                                                           \
        if (((target) = crn_arena_take((arena), (count), sizeof(*(target)))) == NULL)              \
            return crn_fail_memory(NULL);                                                          \
    } while (0)

/* A growing array in an arena: struct { T *data; uint32_t length, capacity; }. Growth copies, so
 * an arena holds at most twice what its arrays need. */
/* Define a function from a value of an enum to its name in the enum's list; NULL past the end. */
#define CRN_NAMES(function, type, LIST)                                                            \
    const char *function(type value) {                                                             \
        static const char *const names[] = {LIST(CRN_NAME_OF)};                                    \
        return (unsigned)value < CRN_LENGTH(names) ? names[value] : NULL;                          \
    }
#define CRN_NAME_OF(name, number, text) [number] = text,

#define CRN_ARRAY(type)                                                                            \
    struct {                                                                                       \
        type *data;                                                                                \
        uint32_t length, capacity;                                                                 \
    }

/* Make room for one more element; false when memory is out. */
bool crn_array_grow(crn_arena *arena, void *data_pointer, uint32_t length, uint32_t *capacity,
                    size_t element);

/* Append, or return CAIRN_ENOMEM. */
#define CRN_PUSH(arena, array, value)                                                              \
    do {                                                                                           \
        if (!crn_array_grow((arena), &(array).data, (array).length, &(array).capacity,             \
                            sizeof(*(array).data)))                                                \
            return crn_fail_memory(NULL);                                                          \
        (array).data[(array).length++] = (value);                                                  \
    } while (0)

/* ---- Checked arithmetic: false on overflow, `*out` then untouched. ---- */

static inline bool crn_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    if (a > UINT64_MAX - b)
        return false;
    *out = a + b;
    return true;
}

static inline bool crn_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    if (b != 0 && a > UINT64_MAX / b)
        return false;
    *out = a * b;
    return true;
}

/* Times add up to at most INT64_MAX and stay there: no sum of costs can wrap around. */
static inline int64_t crn_add_time(int64_t a, int64_t b) {
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* a * b / c rounded up, exact inside; UINT64_MAX if the result does not fit. c > 0. */
uint64_t crn_mul_div_up(uint64_t a, uint64_t b, uint64_t c);

/* base^n by squaring: the same everywhere, which a library's pow() need not be. */
static inline double crn_power(double base, uint64_t n) {
    double result = 1;
    for (; n > 0; n >>= 1, base *= base)
        if (n & 1)
            result *= base;
    return result;
}

/* `bytes` rounded up to a multiple of 64, what a tensor takes in an arena. */
#define CRN_ALIGNMENT 64u
static inline uint64_t crn_align(uint64_t bytes) {
    return (bytes + (CRN_ALIGNMENT - 1)) & ~(uint64_t)(CRN_ALIGNMENT - 1);
}

/* ---- Texts ---- */

void crn_text_init(cairn_text *text, const cairn_allocator *allocator);

/* Append. When memory is out the text becomes failed: further appends do nothing, and
 * crn_text_finish() reports it. So code that writes need not check each call. */
void crn_text_put(cairn_text *text, const char *bytes, size_t length);
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void crn_text_printf(cairn_text *text, const char *format, ...);

/* A JSON string with its quotes. */
void crn_text_json_string(cairn_text *text, const char *string);

/* A real number such that reading it back gives the same bits, in the fewest digits. */
void crn_text_real(cairn_text *text, double value);

/* Text as XML character data: &, <, > and quotes escaped. */
void crn_text_xml(cairn_text *text, const char *string);

/* CAIRN_OK, or CAIRN_ENOMEM after releasing a failed text. */
CAIRN_MUST cairn_status crn_text_finish(cairn_text *text);

#endif
