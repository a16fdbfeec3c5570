/* test_cpu_threads.c: the backend cpu where OpenMP grants fewer threads than are asked for: it uses
 * those, or says that it cannot run; it never waits forever. tests/CMakeLists.txt also runs this
 * under OMP_THREAD_LIMIT, OMP_DYNAMIC and OMP_NUM_THREADS. */
#include "base/processors.h"
#include "cairn.h"
#include "check.h"
#include "exec/toy_network.h"

#include <stdlib.h>

void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);
int omp_get_thread_num(void);
void omp_set_dynamic(int dynamic);

#define WANTED 4

typedef struct trained {
    cairn_graph *graph;
    cairn_device *device;
    cairn_train *train;
} trained;

static trained make(void) {
    cairn_error err = {0};
    trained t = {.graph = toy_network(NULL, 8, 16)};
    cairn_device_options options = CAIRN_DEVICE_OPTIONS_INIT;
    cairn_costs *costs;
    cairn_solution *none;
    options.threads = WANTED;
    CHECK_OK(cairn_device_open("cpu", &options, &t.device, &err), &err);
    CHECK_OK(cairn_bind(t.graph, t.device, &costs, &err), &err);
    CHECK_OK(cairn_solve(t.graph, costs, "none", NULL, &none, &err), &err);
    CHECK_OK(cairn_train_create(t.graph, t.device, costs, none, NULL, &t.train, &err), &err);
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    return t;
}

static cairn_status step(const trained *t, cairn_error *err) {
    cairn_train_result result = CAIRN_TRAIN_RESULT_INIT;
    return cairn_train_step(t->train, &result, err);
}

static void destroy(trained *t) {
    cairn_train_destroy(t->train);
    cairn_device_close(t->device);
    cairn_graph_destroy(t->graph);
}

static uint32_t units(const trained *t) {
    cairn_device_facts facts = CAIRN_DEVICE_FACTS_INIT;
    cairn_device_describe(t->device, &facts);
    return facts.compute_units;
}

/* Opened in a region, a device gets the one thread that calls. */
static void open_inside(void *unused) {
    cairn_error err = {0};
    (void)unused;
    if (omp_get_thread_num() != 0)
        return;
    trained t = make();
    CHECK_U64(units(&t), 1);
    CHECK_OK(step(&t, &err), &err);
    destroy(&t);
}

/* Opened outside with several, it refuses to run inside. */
static void run_inside(void *context) {
    cairn_error err = {0};
    if (omp_get_thread_num() != 0)
        return;
    CHECK(step(context, &err) == CAIRN_ESYSTEM);
    CHECK(strstr(err.message, "parallel region") != NULL);
}

static void test_counts(void) {
    const char *asked = getenv("OMP_NUM_THREADS");
    CHECK(crn_processors() >= 1 && crn_processors() <= 256);
    CHECK(asked == NULL || crn_processors() == (uint32_t)atoi(asked));
    CHECK_U64(cairn_count_threads(0), crn_processors());
    CHECK_U64(cairn_count_threads(7), 7);
}

int main(void) {
    const char *limit = getenv("OMP_THREAD_LIMIT");
    cairn_error err = {0};
    test_counts();
    trained t = make();
    CHECK_U64(units(&t), limit != NULL ? (uint32_t)atoi(limit) : WANTED);
    CHECK_OK(step(&t, &err), &err);
    omp_set_dynamic(0); /* the regions below are to have two threads */
    if (limit == NULL)
        GOMP_parallel(run_inside, &t, 2, 0);
    destroy(&t);
    if (limit == NULL)
        GOMP_parallel(open_inside, NULL, 2, 0);
    return check_result();
}
