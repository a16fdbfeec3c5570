/* fingerprint.h: run a plan for some steps and keep what must not depend on the plan. */
#ifndef FINGERPRINT_H
#define FINGERPRINT_H

#include "cairn.h"
#include "check.h"
#include "exec/exec_internal.h"

#define FINGERPRINT_STEPS 2

typedef struct fingerprint {
    float losses[FINGERPRINT_STEPS];
    char hashes[FINGERPRINT_STEPS][65]; /* of parameters, state and gradients after each step */
    cairn_exec_figures figures;
    cairn_exec_result result; /* of the last step */
} fingerprint;

/* Makes an executor, runs, and destroys it. Checks that what was measured is what was predicted. */
static inline fingerprint fingerprint_of(const crn_backend *backend, const cairn_graph *graph,
                                         const cairn_costs *costs, const cairn_plan *plan,
                                         const cairn_exec_options *options) {
    fingerprint f = {0};
    cairn_error err = {0};
    cairn_exec *exec;
    CHECK_OK(crn_exec_create(backend, graph, costs, plan, options, &exec, &err), &err);
    f.figures = cairn_exec_get_figures(exec);
    for (int step = 0; step < FINGERPRINT_STEPS; step++) {
        cairn_exec_fill(exec, (uint64_t)step);
        cairn_exec_run(exec, (uint64_t)step, &f.result);
        cairn_exec_update(exec);
        f.losses[step] = f.result.loss;
        cairn_exec_sha256(
            exec, CAIRN_EXEC_PARAMETERS | CAIRN_EXEC_STATE | CAIRN_EXEC_GRADIENTS, f.hashes[step]);
        CHECK_U64(f.result.measured_peak_bytes, f.figures.predicted_peak_bytes);
    }
    CHECK(f.figures.arena_bytes >= f.figures.predicted_peak_bytes);
    CHECK_U64(f.figures.stationary_bytes, cairn_stationary_bytes(graph, costs, 1));
    cairn_exec_destroy(exec);
    return f;
}

static inline bool same_fingerprint(const fingerprint *a, const fingerprint *b) {
    return memcmp(a->losses, b->losses, sizeof a->losses) == 0 &&
           memcmp(a->hashes, b->hashes, sizeof a->hashes) == 0;
}

#endif
