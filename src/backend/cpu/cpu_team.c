/* cpu_team.c: loops on the threads of GNU OpenMP, which Debian's oneDNN runs on. Two sets of
 * threads that wait actively would compete for the processors, so there is only one.
 *
 * libgomp is called directly and not through pragmas: clang would use its own runtime, which has a
 * second set of threads. */
#include "backend/cpu/cpu_internal.h"

#include <stdatomic.h>

/* Entry points of libgomp. A compiler turns "omp parallel" into the first one. */
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
int omp_get_thread_num(void);

typedef struct loop {
    void (*body)(void *context, uint32_t index);
    void *context;
    uint32_t count;
    atomic_uint next;
} loop;

static void take_indices(void *data) {
    loop *l = data;
    for (;;) {
        uint32_t index = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed);
        if (index >= l->count)
            return;
        l->body(l->context, index);
    }
}

void crn_cpu_team(uint32_t threads, uint32_t count, void (*body)(void *context, uint32_t index),
                  void *context) {
    loop l = {.body = body, .context = context, .count = count};
    if (threads == 1 || count <= 1)
        take_indices(&l);
    else
        GOMP_parallel(take_indices, &l, threads, 0);
}

int crn_cpu_set_threads(int threads) {
    int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    return before;
}

size_t crn_cpu_thread(void) {
    return (size_t)omp_get_thread_num();
}
