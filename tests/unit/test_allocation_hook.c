/* test_allocation_hook.c: allocations by malloc and similar functions, in the program and in the
 * libraries that it loads, are counted, and so are releases. */
#include "../../cli/allocation_hook.h"
#include "check.h"

#include <jansson.h>
#include <pthread.h>

static void *volatile block; /* so that nothing is optimised away */

static void test_kinds(void) {
    uint64_t before = cli_allocations_live();
    cli_allocations_mark();
    CHECK_U64(cli_allocations_peak(), 0);
    block = malloc(100000);
    CHECK(cli_allocations_live() - before >= 100000 && cli_allocations_live() - before < 101000);
    block = realloc(block, 300000);
    CHECK(cli_allocations_live() - before >= 300000 && cli_allocations_live() - before < 310000);
    free(block);
    CHECK_U64(cli_allocations_live(), before);
    CHECK(cli_allocations_peak() >= 300000 && cli_allocations_peak() < 500000);

    void *aligned = NULL;
    CHECK(posix_memalign(&aligned, 4096, 50000) == 0 && (uintptr_t)aligned % 4096 == 0);
    CHECK(cli_allocations_live() - before >= 50000);
    free(aligned);
    CHECK(posix_memalign(&aligned, 24, 8) != 0);
    block = aligned_alloc(64, 6400);
    CHECK((uintptr_t)block % 64 == 0 && cli_allocations_live() - before >= 6400);
    free(block);
    block = calloc(1000, 10);
    CHECK(cli_allocations_live() - before >= 10000);
    free(block);
    free(NULL);
    CHECK_U64(cli_allocations_live(), before);
}

/* Cairn's own allocations are not counted. */
static void test_own(void) {
    const cairn_allocator *a = cli_own_allocator();
    uint64_t before = cli_allocations_live();
    cli_allocations_mark();
    block = a->resize(a->context, NULL, 0, 100000);
    block = a->resize(a->context, block, 100000, 200000);
    CHECK_U64(cli_allocations_live(), before);
    block = a->resize(a->context, block, 200000, 0);
    CHECK(block == NULL);
    CHECK_U64(cli_allocations_live(), before);
    CHECK_U64(cli_allocations_peak(), 0);
}

/* Allocations of a shared library are counted. */
static void test_library(void) {
    cli_allocations_mark();
    json_t *array = json_array();
    for (int i = 0; i < 1000; i++)
        json_array_append_new(array, json_integer(i));
    json_decref(array);
    CHECK(cli_allocations_peak() >= 1000 * sizeof(void *));
}

static void *churn(void *argument) {
    (void)argument;
    for (int i = 0; i < 10000; i++)
        free(malloc((size_t)(i % 512)));
    return NULL;
}

static void test_threads(void) {
    pthread_t threads[4];
    churn(NULL);
    uint64_t before = cli_allocations_live();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            CHECK(pthread_create(&threads[i], NULL, churn, NULL) == 0);
        for (int i = 0; i < 4; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(cli_allocations_live() < before + 10000); /* the C library keeps a little for threads */
}

int main(void) {
    if (!cli_allocations_counted()) {
        printf("allocations are not counted here\n");
        return 0;
    }
    test_kinds();
    test_own();
    test_library();
    test_threads();
    return check_result();
}
