/* check.h: checks for test programs. A check that fails prints a message and is counted; the count
 * gives the exit status. */
#ifndef CHECK_H
#define CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/crn_base.h"

/* How many random cases, or failing calls, of `count` are tried: a quarter under sanitizers, which
 * judge how memory is used, not what comes out. */
#ifdef CAIRN_SANITIZED
#define CHECK_SHARE 4
#else
#define CHECK_SHARE 1
#endif
#define CHECK_ROUNDS(count) ((count) / CHECK_SHARE)

static int check_failures;
static long check_count;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        check_count++;                                                                             \
        if (!(condition)) {                                                                        \
            check_failures++;                                                                      \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                \
        }                                                                                          \
    } while (0)

#define CHECK_U64(actual, expected)                                                                \
    do {                                                                                           \
        uint64_t check_a = (actual), check_e = (expected);                                         \
        check_count++;                                                                             \
        if (check_a != check_e) {                                                                  \
            check_failures++;                                                                      \
            fprintf(stderr, "%s:%d: failed: %s is %" PRIu64 ", not %" PRIu64 "\n", __FILE__,       \
                    __LINE__, #actual, check_a, check_e);                                          \
        }                                                                                          \
    } while (0)

#define CHECK_STRING(actual, expected)                                                             \
    do {                                                                                           \
        const char *check_a = (actual), *check_e = (expected);                                     \
        check_count++;                                                                             \
        if (strcmp(check_a, check_e) != 0) {                                                       \
            check_failures++;                                                                      \
            fprintf(stderr, "%s:%d: failed: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__,       \
                    #actual, check_a, check_e);                                                    \
        }                                                                                          \
    } while (0)

/* The call must return CAIRN_OK. Otherwise print what it returned and end the program. */
#define CHECK_OK(call, err)                                                                        \
    do {                                                                                           \
        cairn_status check_s = (call);                                                             \
        check_count++;                                                                             \
        if (check_s != CAIRN_OK) {                                                                 \
            fprintf(stderr, "%s:%d: failed: %s: %s: %s\n", __FILE__, __LINE__, #call,              \
                    crn_status_name(check_s), (err)->message);                                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* The exit status of main. A program without any check has failed. */
static inline int check_result(void) {
    printf("%ld checks, %d failed\n", check_count, check_failures);
    return check_failures > 0 || check_count == 0;
}

/* Options for cairn_graph_add_updates(). */
#define UPDATES_OF(...)                                                                            \
    (&(cairn_updates_options){.struct_size = sizeof(cairn_updates_options), __VA_ARGS__})

#endif
