/* evaluation.h: a network of the zoo, perhaps narrower, ready to be run in evaluation mode. */
#ifndef EVALUATION_H
#define EVALUATION_H

#include "backend/fill.h"
#include "backend/narrow.h"
#include "cairn/weights.h"

typedef struct evaluation {
    cairn_graph *graph;
    cairn_exec *exec;
    cairn_graph_summary summary;
} evaluation;

/* `solver` "infer", or any other for an executor that trains. */
static inline evaluation evaluation_open(const char *network, const cairn_zoo_options *options,
                                         uint32_t divisor, const char *solver, uint64_t seed) {
    evaluation e = {0};
    cairn_error err = {0};
    cairn_costs *costs;
    cairn_solution *solution;
    cairn_exec_options exec_options = CAIRN_EXEC_OPTIONS_INIT;
    exec_options.threads = 2;
    exec_options.seed = seed;
    cairn_graph *forward = narrow_build(network, options, divisor);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &e.graph, &err), &err);
    cairn_graph_destroy(forward);
    CHECK_OK(cairn_bind(e.graph, "ref", exec_options.threads, &costs, &err), &err);
    CHECK_OK(cairn_solve(e.graph, costs, solver, NULL, &solution, &err), &err);
    CHECK_OK(cairn_exec_create(e.graph, costs, solution, &exec_options, &e.exec, &err), &err);
    cairn_solution_destroy(solution);
    cairn_costs_destroy(costs);
    cairn_graph_summarize(e.graph, &e.summary);
    return e;
}

static inline void evaluation_close(evaluation *e) {
    cairn_exec_destroy(e->exec);
    cairn_graph_destroy(e->graph);
}

/* The logits of the images; they lie in the executor. */
static inline const float *evaluation_run(evaluation *e, const float *images) {
    cairn_exec_result result;
    const cairn_tensor *input = cairn_graph_tensor(e->graph, e->summary.input);
    memcpy(cairn_exec_input(e->exec, e->summary.input), images, input->bytes);
    cairn_exec_run(e->exec, 0, &result);
    return cairn_exec_data(e->exec, e->summary.output);
}

/* Logits are compared relative to the largest; `tolerance` is what single precision leaves. */
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
