/* memory.c: the default allocator, arenas, growing arrays. */
#include "base/watch.h"

#include <stdlib.h>

static void *default_resize(void *context, void *block, size_t old_size, size_t new_size) {
    (void)context;
    (void)old_size;
    if (new_size == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, new_size);
}

cairn_allocator crn_allocator_or_default(const cairn_allocator *allocator) {
    if (allocator != NULL && allocator->resize != NULL)
        return *allocator;
    return (cairn_allocator){default_resize, NULL};
}

void *crn_resize(const cairn_allocator *allocator, void *block, size_t old_size, size_t new_size) {
    return allocator->resize(allocator->context, block, old_size, new_size);
}

/* An arena is a list of blocks, newest first; memory is taken from the newest.
 *
 *     blocks -> [head|used....|free....] -> [head|used.........] -> NULL
 */
struct crn_arena_block {
    crn_arena_block *next;
    size_t size;        /* of the whole block */
    max_align_t data[]; /* so that data is aligned for any type */
};

#ifndef CRN_LARGEST_BLOCK /* tests/oom gives every allocation a separate block */
#define CRN_FIRST_BLOCK 4096u
#define CRN_LARGEST_BLOCK (1u << 20)
#endif

void crn_arena_init(crn_arena *arena, const cairn_allocator *allocator) {
    *arena = (crn_arena){.allocator = crn_allocator_or_default(allocator)};
}

void crn_arena_release(crn_arena *arena) {
    crn_arena_block *block = arena->blocks;
    while (block != NULL) {
        crn_arena_block *next = block->next;
        crn_resize(&arena->allocator, block, block->size, 0);
        block = next;
    }
    arena->blocks = NULL;
    arena->used = arena->size = 0;
}

/* Blocks double up to a limit, so that small arenas stay small and large ones take few blocks. */
static bool add_block(crn_arena *arena, size_t need) {
    size_t size =
        arena->blocks == NULL ? CRN_FIRST_BLOCK : CRN_MIN(2 * arena->size, CRN_LARGEST_BLOCK);
    size = CRN_MAX(size, need);
    size_t whole = sizeof(crn_arena_block) + size;
    crn_arena_block *block = crn_resize(&arena->allocator, NULL, 0, whole);
    if (block == NULL)
        return false;
    block->next = arena->blocks;
    block->size = whole;
    arena->blocks = block;
    arena->used = 0;
    arena->size = size;
    return true;
}

void *crn_arena_object(const cairn_allocator *allocator, size_t size, size_t member) {
    crn_arena arena;
    crn_arena_init(&arena, allocator);
    char *object = crn_arena_take(&arena, 1, size);
    if (object != NULL)
        memcpy(object + member, &arena, sizeof arena);
    return object;
}

crn_arena *crn_arena_create(const cairn_allocator *allocator) {
    return crn_arena_object(allocator, sizeof(crn_arena), 0);
}

void crn_arena_destroy(crn_arena *arena) {
    if (arena == NULL)
        return;
    crn_arena own = *arena;
    crn_arena_release(&own);
}

void *crn_arena_take(crn_arena *arena, size_t count, size_t size) {
    uint64_t bytes;
    if (!crn_mul_u64(count, size, &bytes) || bytes > SIZE_MAX / 4 || crn_arena_ended(arena))
        return NULL;
    size_t unit = sizeof(max_align_t);
    size_t need = ((size_t)bytes + unit - 1) / unit * unit;
    if (arena->blocks == NULL || need > arena->size - arena->used)
        if (!add_block(arena, need))
            return NULL;
    void *taken = (char *)arena->blocks->data + arena->used;
    arena->used += need;
    memset(taken, 0, need);
    return taken;
}

char *crn_arena_string(crn_arena *arena, const char *string) {
    size_t size = strlen(string) + 1;
    char *copy = crn_arena_take(arena, size, 1);
    if (copy != NULL)
        memcpy(copy, string, size);
    return copy;
}

bool crn_array_grow(crn_arena *arena, void *data_pointer, uint32_t length, uint32_t *capacity,
                    size_t element) {
    if (length < *capacity)
        return true;
    if (length > UINT32_MAX / 2)
        return false;
    uint32_t wanted = CRN_MAX(2 * length, 8);
    void *grown = crn_arena_take(arena, wanted, element);
    if (grown == NULL)
        return false;
    void *old;
    memcpy(&old, data_pointer, sizeof old);
    if (length > 0)
        memcpy(grown, old, length * element);
    memcpy(data_pointer, &grown, sizeof grown);
    *capacity = wanted;
    return true;
}

uint64_t crn_mul_div_up(uint64_t a, uint64_t b, uint64_t c) {
    __extension__ typedef unsigned __int128 wide;
    wide quotient = ((wide)a * b + (c - 1)) / c;
    return quotient > UINT64_MAX ? UINT64_MAX : (uint64_t)quotient;
}
