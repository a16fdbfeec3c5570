/* fingerprint.h: run a plan for some steps and keep what must not depend on the plan. */
#ifndef FINGERPRINT_H
#define FINGERPRINT_H

#include "cairn.h"
#include "check.h"
#include "exec/exec_internal.h"
#include "exec/test_backends.h"

#define FINGERPRINT_STEPS 2

typedef struct fingerprint {
    float losses[FINGERPRINT_STEPS];
    uint64_t hashes[FINGERPRINT_STEPS]; /* of parameters, state and gradients after each step */
    cairn_exec_figures figures;
    cairn_exec_result result; /* of the last step */
} fingerprint;

/* All elements of a tensor that can be read between steps. The caller frees them with free(). */
static inline void *read_tensor(cairn_exec *exec, cairn_id tensor) {
    uint64_t bytes = cairn_graph_tensor(exec->graph, tensor)->bytes;
    void *data = malloc(bytes > 0 ? bytes : 1);
    cairn_error err = {0};
    CHECK_OK(cairn_exec_read(exec, tensor, data, &err), &err);
    return data;
}

/* A quick hash of everything that stays from step to step; SHA-256 would take most of the time of a
 * test. */
static inline uint64_t fingerprint_hash(cairn_exec *exec) {
    const crn_stationary *s = &exec->stationary;
    uint64_t lanes[4] = {1, 2, 3, 4}, words[4];
    for (uint32_t i = 0; i < s->by_name_count; i++) {
        uint64_t bytes = cairn_graph_tensor(exec->graph, s->by_name[i])->bytes;
        char *at = read_tensor(exec, s->by_name[i]);
        for (uint64_t k = 0; k < bytes; k += sizeof words) {
            memset(words, 0, sizeof words);
            memcpy(words, at + k, CRN_MIN(bytes - k, sizeof words));
            for (int l = 0; l < 4; l++)
                lanes[l] = crn_mix(lanes[l], words[l]);
        }
        free(at);
    }
    return crn_mix(crn_mix(lanes[0], lanes[1]), crn_mix(lanes[2], lanes[3]));
}

static inline cairn_exec_result run_step(cairn_exec *exec, uint64_t data, uint64_t step) {
    cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
    cairn_error err = {0};
    CHECK_OK(cairn_exec_fill(exec, data, &err), &err);
    CHECK_OK(cairn_exec_run(exec, step, &result, &err), &err);
    return result;
}

/* Create an executor, run it, and destroy it. Check that the measured memory is the predicted
 * one. */
static inline fingerprint fingerprint_of(cairn_device *device, const cairn_graph *graph,
                                         const cairn_costs *costs, const cairn_solution *solution,
                                         const cairn_exec_options *options) {
    fingerprint f = {0};
    cairn_error err = {0};
    cairn_exec *exec;
    CHECK_OK(cairn_exec_create(graph, device, costs, solution, options, &exec, &err), &err);
    f.figures = *cairn_exec_get_figures(exec);
    for (int step = 0; step < FINGERPRINT_STEPS; step++) {
        f.result = run_step(exec, (uint64_t)step, (uint64_t)step);
        cairn_exec_update(exec);
        f.losses[step] = f.result.loss;
        f.hashes[step] = fingerprint_hash(exec);
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
