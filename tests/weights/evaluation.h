/* evaluation.h: a network of the zoo, possibly narrower, ready to run in evaluation mode. */
#ifndef EVALUATION_H
#define EVALUATION_H

#include "backend/fill.h"
#include "backend/narrow.h"
#include "cairn/weights.h"
#include "exec/subject.h"
#include "exec/test_backends.h"

static const char *evaluation_backend = "ref";

typedef struct evaluation {
    cairn_device *device;
    cairn_graph *graph;
    cairn_exec *exec;
    cairn_graph_summary summary;
    float *logits; /* of the last run; NULL: there was none */
} evaluation;

/* `solver` is "infer", or any other one for an executor that trains. */
static inline evaluation evaluation_open(const char *network, const cairn_zoo_options *options,
                                         uint32_t divisor, const char *solver, uint64_t seed) {
    evaluation e = {.summary = CAIRN_GRAPH_SUMMARY_INIT};
    cairn_error err = {0};
    cairn_exec_options exec_options = CAIRN_EXEC_OPTIONS_INIT;
    e.device = test_device(evaluation_backend, 2);
    exec_options.seed = seed;
    cairn_graph *forward = narrow_build(network, options, divisor);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &e.graph, &err), &err);
    cairn_graph_destroy(forward);
    e.exec = executor_of(e.device, e.graph, solver, &exec_options);
    cairn_graph_summarize(e.graph, &e.summary);
    return e;
}

static inline void evaluation_close(evaluation *e) {
    free(e->logits);
    cairn_exec_destroy(e->exec);
    cairn_device_close(e->device);
    cairn_graph_destroy(e->graph);
}

/* The logits of the images, until the next run. */
static inline const float *evaluation_run(evaluation *e, const float *images) {
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    cairn_error err = {0};
    free(e->logits);
    e->logits = malloc(cairn_graph_tensor(e->graph, e->summary.output)->bytes);
    CHECK_OK(cairn_exec_write(e->exec, e->summary.input, images, &err), &err);
    CHECK_OK(cairn_exec_run(e->exec, 0, &result, &err), &err);
    CHECK_OK(cairn_exec_read(e->exec, e->summary.output, e->logits, &err), &err);
    return e->logits;
}

/* Logits are compared relative to the largest one; `tolerance` allows for single precision. */
static inline void check_logits(const float *actual, const double *expected, uint64_t count,
                                double tolerance) {
    double size = 0, worst = 0;
    for (uint64_t i = 0; i < count; i++)
        size = fmax(size, fabs(expected[i]));
    for (uint64_t i = 0; i < count; i++)
        worst = fmax(worst, isfinite(actual[i]) ? fabs(actual[i] - expected[i]) / size : 1);
    printf("%u logits, up to %.1f; the worst is off by %.1e of that\n", (unsigned)count, size,
           worst);
    CHECK(count > 0 && size > 0 && worst <= tolerance);
}

#endif
