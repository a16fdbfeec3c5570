/* test_cuda_faults.c: every call of the driver fails once, in a session from opening a device to
 * closing it: then the session says so, or its results are those of a session without failure (a
 * name, an attribute or freed memory may be missed). Nothing is left behind. */
#include "cairn.h"
#include "exec/toy_network.h"
#include "fake_driver.h"
#include "fake_libraries.h"
#include "graph/layers.h"

#include <malloc.h>
#include <math.h>

/* Convolution, batch-norm, ReLU, dropout, linear layer, loss: as few calls as a step can have. */
static cairn_graph *small_network(void) {
    cairn_builder *b;
    cairn_graph *forward, *graph;
    cairn_error err = {0};
    const uint32_t batch = 2;
    CHECK_OK(cairn_builder_create(NULL, "small", &b), &err);
    cairn_id x = crn_build_input(b, "input", 4, (uint32_t[]){batch, 3, 8, 8});
    cairn_id label = crn_build_label(b, "label", 1, &batch);
    x = toy_block(b, 1, x, 4);
    x = crn_build_dropout(b, "drop", x, 0.3);
    x = crn_build_linear(b, "fc", crn_build_flatten(b, "flat", x), 3);
    crn_build_cross_entropy(b, "loss", x, label);
    CHECK_OK(cairn_builder_finish(b, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &graph, &err), &err);
    cairn_builder_destroy(b);
    cairn_graph_destroy(forward);
    return graph;
}

typedef struct outcome {
    float losses[2];
    char hash[65];
} outcome;

typedef struct session {
    cairn_graph *graph;
    cairn_device *device;
    cairn_costs *costs;
    cairn_solution *solution;
    cairn_exec *exec;
    cairn_data *data;
    cairn_train *train;
    outcome outcome;
} session;

typedef struct kind {
    const char *name;
    const crn_backend *backend;
    bool timed, profiled, trained;
    uint64_t stride; /* how far apart the calls are that fail; more than 1 where calls repeat each
                        other */
} kind;

static cairn_status open_session(session *s, const kind *k, cairn_error *err) {
    cairn_exec_options exec = CAIRN_EXEC_OPTIONS_INIT;
    CRN_TRY(crn_device_open(k->backend, NULL, &s->device, err));
    CRN_TRY(cairn_bind(s->graph, s->device, &s->costs, err));
    CRN_TRY(cairn_solve(s->graph, s->costs, "none", NULL, &s->solution, err));
    exec.timed = k->timed;
    exec.micro_batches = 2;
    return cairn_exec_create(s->graph, s->device, s->costs, s->solution, &exec, &s->exec, err);
}

/* Two micro-batches, an update, and what came of it. */
static cairn_status train(session *s, cairn_error *err) {
    for (uint64_t step = 0; step < 2; step++) {
        cairn_exec_result result = CAIRN_EXEC_RESULT_INIT;
        CRN_TRY(cairn_exec_fill(s->exec, step, err));
        CRN_TRY(cairn_exec_run(s->exec, step, &result, err));
        cairn_exec_update(s->exec);
        s->outcome.losses[step] = result.loss;
    }
    return cairn_exec_sha256(s->exec, CAIRN_EXEC_PARAMETERS | CAIRN_EXEC_STATE, s->outcome.hash,
                             err);
}

static cairn_status profile(session *s, cairn_error *err) {
    cairn_profile_options options = CAIRN_PROFILE_OPTIONS_INIT;
    options.repetitions = 1;
    return cairn_profile(s->graph, s->device, &options, s->costs, NULL, err);
}

/* A session of training: two steps and an evaluation. */
static cairn_status train_on_data(session *s, cairn_error *err) {
    cairn_data_options data = CAIRN_DATA_OPTIONS_INIT;
    cairn_train_options how = CAIRN_TRAIN_OPTIONS_INIT;
    cairn_train_result result = CAIRN_TRAIN_RESULT_INIT;
    cairn_train_score score;
    data.input[0] = 3;
    data.input[1] = data.input[2] = 8;
    data.classes = 3;
    data.count = 16;
    data.validation = 0.25;
    CRN_TRY(cairn_data_open("synthetic", &data, &s->data, err));
    how.data = s->data;
    CRN_TRY(cairn_train_create(s->graph, s->device, s->costs, s->solution, &how, &s->train, err));
    for (uint64_t step = 0; step < 2; step++) {
        CRN_TRY(cairn_train_step(s->train, &result, err));
        s->outcome.losses[step] = (float)result.loss;
    }
    return cairn_train_evaluate(s->train, &score, err);
}

static void close_session(session *s) {
    cairn_train_destroy(s->train);
    cairn_data_destroy(s->data);
    cairn_exec_destroy(s->exec);
    cairn_solution_destroy(s->solution);
    cairn_costs_destroy(s->costs);
    cairn_device_close(s->device);
    CHECK_U64(fake_driver_counts().allocated, 0);
    CHECK_U64(fake_driver_counts().pinned, 0);
    CHECK_U64(fake_driver_counts().graphs, 0);
    CHECK_U64(fake_libraries_objects(), 0);
}

static cairn_status run(const kind *k, const cairn_graph *graph, outcome *out, cairn_error *err) {
    session s = {.graph = (cairn_graph *)graph};
    cairn_status status = open_session(&s, k, err);
    if (status == CAIRN_OK)
        status = k->profiled  ? profile(&s, err)
                 : k->trained ? train_on_data(&s, err)
                              : train(&s, err);
    *out = s.outcome;
    close_session(&s);
    return status;
}

/* If a library refuses, Cairn's own kernels replace it and round differently. */
static bool are_same(const kind *k, const outcome *a, const outcome *b) {
    if (k->backend == &fake_backend_cuda_host)
        return memcmp(a, b, sizeof *a) == 0;
    return fabsf(a->losses[0] - b->losses[0]) < 1e-4f && fabsf(a->losses[1] - b->losses[1]) < 1e-4f;
}

static void test_faults(const kind *which, const cairn_graph *graph, bool and_all_later) {
    outcome usual, other;
    cairn_error err = {0};
    fake_driver_fail_call(0, false);
    CHECK_OK(run(which, graph, &usual, &err), &err);
    uint64_t stride = which->stride * CHECK_SHARE, k = 1 - stride, told = 0;
    do {
        int before = check_failures;
        err = (cairn_error){0};
        fake_driver_fail_call(k += stride, and_all_later);
        cairn_status status = run(which, graph, &other, &err);
        if (status == CAIRN_OK) {
            CHECK(are_same(which, &usual, &other));
        } else {
            CHECK(status == CAIRN_ESYSTEM && err.status == status && err.message[0] != '\0');
            told++;
        }
        if (check_failures > before) {
            fprintf(stderr, "that was call %" PRIu64 " of %s%s: %s\n", k, which->name,
                    and_all_later ? " and all later ones" : "", err.message);
            return;
        }
    } while (fake_driver_call_failed());
    printf("%-10s %" PRIu64 " calls, %" PRIu64 " failures told\n", which->name, k, told);
    CHECK(told > 0);
}

int main(void) {
    /* regions of device memory come back at once, with their pages */
    mallopt(M_MMAP_THRESHOLD, 1 << 28);
    mallopt(M_TRIM_THRESHOLD, 1 << 28);
    static const kind kinds[] = {
        {"recorded", &fake_backend_cuda_host, false, false, false, 1},
        {"timed", &fake_backend_cuda_host, true, false, false, 1},
        {"libraries", &fake_backend_cuda_libraries, false, false, false, 1},
        {"training", &fake_backend_cuda_host, false, false, true, 5},
        {"profile", &fake_backend_cuda_host, false, true, false, 7},
    };
    cairn_graph *graph = small_network();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        test_faults(&kinds[i], graph, false);
    test_faults(&kinds[0], graph, true);
    cairn_graph_destroy(graph);
    return check_result();
}
