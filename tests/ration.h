/* ration.h: an allocator that gives so many blocks and then none, and counts what is not given
 * back. */
#ifndef RATION_H
#define RATION_H

#include "cairn/base.h"

#include <stdlib.h>

typedef struct ration {
    long left; /* allocations that still succeed */
    long held; /* bytes that are not given back */
} ration;

static inline void *rationed(void *context, void *block, size_t old_size, size_t new_size) {
    ration *given = context;
    if (new_size == 0) {
        given->held -= (long)old_size;
        free(block);
        return NULL;
    }
    if (given->left-- <= 0)
        return NULL;
    given->held += (long)new_size - (long)old_size;
    return realloc(block, new_size);
}

#endif
