/* fuzz.h: shared by the targets. A target is one file with fuzz_one(). For any bytes it must not
 * crash, and its checks must hold. It is built twice: as a libFuzzer program (CAIRN_FUZZ), and with
 * replay.c as a test that runs it on the files of its corpus. */
#ifndef FUZZ_H
#define FUZZ_H

#include "cairn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The name that libFuzzer requires. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* If the check fails, print it and abort, so that the fuzzer keeps the input. */
#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* An error has a status and a message. */
static inline void fuzz_check_error(cairn_status status, const cairn_error *err) {
    char text[1024];
    FUZZ_CHECK(status != CAIRN_OK && status != CAIRN_ENOMEM && err->status == status);
    FUZZ_CHECK(err->message[0] != '\0');
    FUZZ_CHECK(strlen(cairn_error_text(err, text, sizeof text)) > 0);
}

#endif
