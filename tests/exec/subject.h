/* subject.h: a network with everything that it takes to run it. */
#ifndef SUBJECT_H
#define SUBJECT_H

#include "cairn.h"
#include "check.h"

typedef struct subject {
    cairn_device *device;
    cairn_graph *graph;
    cairn_costs *costs;
    cairn_solution *solution;
    cairn_exec *exec;
} subject;

/* Bind a network, solve it without a budget, and create an executor. The subject owns the device
 * and the graph from now on; `options` may be NULL. */
static inline subject subject_of(cairn_device *device, cairn_graph *graph, const char *algorithm,
                                 const cairn_exec_options *options) {
    subject s = {.device = device, .graph = graph};
    cairn_error err = {0};
    CHECK_OK(cairn_bind(graph, device, &s.costs, &err), &err);
    CHECK_OK(cairn_solve(graph, s.costs, algorithm, NULL, &s.solution, &err), &err);
    CHECK_OK(cairn_exec_create(graph, device, s.costs, s.solution, options, &s.exec, &err), &err);
    return s;
}

static inline void close_subject(subject *s) {
    cairn_exec_destroy(s->exec);
    cairn_solution_destroy(s->solution);
    cairn_costs_destroy(s->costs);
    cairn_device_close(s->device);
    cairn_graph_destroy(s->graph);
}

/* Only the executor, where the test keeps the device and the graph itself. */
static inline cairn_exec *executor_of(cairn_device *device, cairn_graph *graph,
                                      const char *algorithm, const cairn_exec_options *options) {
    subject s = subject_of(device, graph, algorithm, options);
    cairn_solution_destroy(s.solution);
    cairn_costs_destroy(s.costs);
    return s.exec;
}

#endif
