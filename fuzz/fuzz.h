/* fuzz.h: what the targets share. A target is one file with fuzz_one(): given any bytes it must
 * neither crash nor break what it asserts. It is built twice: as a libFuzzer program (CAIRN_FUZZ),
 * and with replay.c as a test that feeds it the files of its corpus. */
#ifndef FUZZ_H
#define FUZZ_H

#include "cairn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libFuzzer's name for it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise: say which and stop, so that the fuzzer keeps the input. */
#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* An error is one sentence with a status. */
static inline void fuzz_check_error(cairn_status status, const cairn_error *err) {
    char text[1024];
    FUZZ_CHECK(status != CAIRN_OK && status != CAIRN_ENOMEM && err->status == status);
    FUZZ_CHECK(err->message[0] != '\0');
    FUZZ_CHECK(strlen(cairn_error_text(err, text, sizeof text)) > 0);
}

#endif
