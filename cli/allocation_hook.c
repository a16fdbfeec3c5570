/* allocation_hook.c: see allocation_hook.h. The functions of the program come before those of the C
 * library, also for libraries that are loaded with it; these count and pass on. Blocks are counted
 * with the size that they really have, so that freeing needs no notes. */
#include "allocation_hook.h"

#include <stdlib.h>

static _Thread_local bool own; /* while Cairn's own allocator is at work */

static void *resize_own(void *context, void *block, size_t old_size, size_t new_size) {
    (void)context;
    (void)old_size;
    void *result = NULL;
    own = true;
    if (new_size == 0)
        free(block);
    else
        result = realloc(block, new_size);
    own = false;
    return result;
}

const cairn_allocator *cli_own_allocator(void) {
    static const cairn_allocator allocator = {.resize = resize_own};
    return &allocator;
}

#if defined(__GLIBC__) && !defined(CAIRN_SANITIZED)

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>

#define EXPORTED __attribute__((visibility("default")))

static _Atomic uint64_t live, peak, mark;

/* The C library's own, under names that it keeps for this. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

static void *count_taken(void *block) {
    if (block == NULL || own)
        return block;
    uint64_t bytes = malloc_usable_size(block);
    uint64_t now = atomic_fetch_add_explicit(&live, bytes, memory_order_relaxed) + bytes;
    uint64_t most = atomic_load_explicit(&peak, memory_order_relaxed);
    while (now > most && !atomic_compare_exchange_weak_explicit(
                             &peak, &most, now, memory_order_relaxed, memory_order_relaxed))
        continue;
    return block;
}

static void count_given(uint64_t bytes) {
    if (own)
        return;
    atomic_fetch_sub_explicit(&live, bytes, memory_order_relaxed);
}

EXPORTED void *malloc(size_t size) {
    return count_taken(__libc_malloc(size));
}

EXPORTED void *calloc(size_t count, size_t size) {
    return count_taken(__libc_calloc(count, size));
}

EXPORTED void free(void *block) {
    if (block != NULL)
        count_given(malloc_usable_size(block));
    __libc_free(block);
}

EXPORTED void *realloc(void *block, size_t size) {
    uint64_t before = block == NULL ? 0 : malloc_usable_size(block);
    void *moved = __libc_realloc(block, size);
    if (moved != NULL || size == 0)
        count_given(before);
    return count_taken(moved);
}

EXPORTED void *memalign(size_t alignment, size_t size) {
    return count_taken(__libc_memalign(alignment, size));
}

EXPORTED void *aligned_alloc(size_t alignment, size_t size) {
    return count_taken(__libc_memalign(alignment, size));
}

EXPORTED int posix_memalign(void **out, size_t alignment, size_t size) {
    if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0)
        return EINVAL;
    int before = errno; /* which this function leaves alone */
    void *block = count_taken(__libc_memalign(alignment, size));
    errno = before;
    if (block == NULL)
        return ENOMEM;
    *out = block;
    return 0;
}

bool cli_allocations_counted(void) {
    return true;
}

uint64_t cli_allocations_live(void) {
    return atomic_load_explicit(&live, memory_order_relaxed);
}

void cli_allocations_mark(void) {
    uint64_t now = cli_allocations_live();
    atomic_store_explicit(&mark, now, memory_order_relaxed);
    atomic_store_explicit(&peak, now, memory_order_relaxed);
}

uint64_t cli_allocations_peak(void) {
    return atomic_load_explicit(&peak, memory_order_relaxed) -
           atomic_load_explicit(&mark, memory_order_relaxed);
}

#else

bool cli_allocations_counted(void) {
    return false;
}

uint64_t cli_allocations_live(void) {
    return 0;
}

void cli_allocations_mark(void) {
}

uint64_t cli_allocations_peak(void) {
    return 0;
}

#endif
