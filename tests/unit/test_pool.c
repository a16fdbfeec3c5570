/* test_pool.c: the thread pool runs every index once, whatever the number of threads. */
#include "base/pool.h"
#include "check.h"

static void square(void *context, uint32_t index) {
    ((uint64_t *)context)[index] += (uint64_t)index * index;
}

static void test_pool(void) {
    cairn_error err = {0};
    static uint64_t values[10000];
    for (uint32_t threads = 0; threads <= 8; threads++) {
        crn_pool *pool;
        CHECK_OK(crn_pool_create(NULL, threads, &pool, &err), &err);
        CHECK(threads == 0 || crn_pool_threads(pool) == threads);
        memset(values, 0, sizeof values);
        for (int round = 1; round <= 50; round++)
            crn_pool_for(pool, round % 7 == 0 ? 0 : 10000, square, values);
        bool right = true;
        for (uint64_t i = 0; i < 10000; i++)
            right = right && values[i] == 43 * i * i;
        CHECK(right);
        crn_pool_destroy(pool);
    }
    crn_pool_destroy(NULL);
}

int main(void) {
    test_pool();
    return check_result();
}
