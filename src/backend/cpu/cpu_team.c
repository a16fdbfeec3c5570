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
int omp_get_dynamic(void);
void omp_set_dynamic(int dynamic);
int omp_get_active_level(void);

typedef struct loop {
    void (*body)(void *context, uint32_t index);
    void *context;
    uint32_t count;
    atomic_uint next, arrived; /* the next index; threads at work */
} loop;

/* The number of the calling thread among those at work. Not OpenMP's: a loop that the caller
 * runs alone may be inside of a parallel region of the program. */
static _Thread_local size_t place;

static void take_indices(void *data) {
    loop *l = data;
    place = atomic_fetch_add_explicit(&l->arrived, 1, memory_order_relaxed);
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

/* ---- What oneDNN gets ---- */

static void count_one(void *counter) {
    atomic_fetch_add_explicit((atomic_uint *)counter, 1, memory_order_relaxed);
}

uint32_t crn_cpu_granted(uint32_t threads) {
    atomic_uint count = 0;
    crn_cpu_region before = crn_cpu_enter((int)threads);
    GOMP_parallel(count_one, &count, threads, 0);
    crn_cpu_leave(before);
    return CRN_MAX(atomic_load(&count), 1);
}

bool crn_cpu_grants(int threads) {
    return threads == 1 || omp_get_active_level() == 0 ||
           crn_cpu_granted((uint32_t)threads) >= (uint32_t)threads;
}

crn_cpu_region crn_cpu_enter(int threads) {
    crn_cpu_region before = {omp_get_max_threads(), omp_get_dynamic()};
    omp_set_num_threads(threads);
    omp_set_dynamic(0);
    return before;
}

void crn_cpu_leave(crn_cpu_region before) {
    omp_set_num_threads(before.threads);
    omp_set_dynamic(before.dynamic);
}

size_t crn_cpu_thread(void) {
    return place;
}
