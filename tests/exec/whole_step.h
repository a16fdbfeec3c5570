/* whole_step.h: steps with their updates: networks and optimisers to train them by, and what
 * training leaves. */
#ifndef WHOLE_STEP_H
#define WHOLE_STEP_H

#include "exec/crn_exec.h"
#include "exec/fingerprint.h"
#include "exec/small_networks.h"
#include "exec/subject.h"
#include "exec/toy_network.h"
#include "graph/layers.h"
#include "graph/crn_graph.h"

#define UPDATES 3

static const char *backend = "ref";

static inline cairn_graph *toy(void) {
    return toy_network(NULL, 2, 16);
}

static inline cairn_graph *recurrent(void) {
    return small_network("lstm", 1);
}

static inline cairn_graph *residual(void) {
    return small_network("resnet18", 16);
}

/* Gradients of its large layers wait until activations are freed. */
static inline cairn_graph *delayed(void) {
    return small_network("alexnet", 8);
}

/* Its words and its head have one weight. */
static inline cairn_graph *tokens(void) {
    return small_network("gpt2", 2);
}

/* A weight of 20 MB, which is updated in two parts. */
static inline cairn_graph *large(void) {
    cairn_builder *b;
    cairn_graph *forward, *graph;
    cairn_error err = {0};
    uint32_t batch = 2;
    CHECK_OK(cairn_builder_create(NULL, "large", &b), &err);
    cairn_id x = crn_build_input(b, "input", 2, (uint32_t[]){batch, 5000});
    x = crn_build_linear(b, "fc1", x, 1000);
    x = crn_build_linear(b, "fc2", x, 10);
    crn_build_cross_entropy(b, "loss", x, crn_build_label(b, "label", 1, &batch));
    CHECK_OK(cairn_builder_finish(b, &forward, &err), &err);
    cairn_builder_destroy(b);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &graph, &err), &err);
    cairn_graph_destroy(forward);
    return graph;
}

/* The same with its updates. */
static inline cairn_graph *with_updates(cairn_graph *step, const cairn_exec_options *options) {
    cairn_graph *whole;
    cairn_error err = {0};
    uint32_t slots = cairn_optimizer_slots(options);
    bool clip = options->clip_norm > 0, sums = clip && options->micro_batches > 1;
    CHECK_OK(cairn_graph_add_updates(step, UPDATES_OF(.slots = slots, .clip = clip, .sums = sums),
                                     &whole, &err),
             &err);
    CHECK(crn_graph_has_updates(whole) && !crn_graph_has_updates(step));
    cairn_graph_destroy(step);
    return whole;
}

/* ---- What training leaves ---- */

typedef struct outcome {
    float losses[UPDATES];
    char sha256[65]; /* of parameters and state */
    uint64_t slots;  /* a hash of what the optimiser keeps */
    uint64_t bytes;  /* arena and stationary memory */
} outcome;

static uint64_t hash_slots(const subject *s) {
    uint64_t hash = 1;
    cairn_error err = {0};
    for (cairn_id t = 0; t < cairn_graph_tensor_count(s->graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(s->graph, t);
        if (tensor->role != CAIRN_ROLE_PARAMETER)
            continue;
        float *data = malloc(tensor->bytes);
        for (uint32_t slot = 0; crn_exec_slot_name(s->exec, slot) != NULL; slot++) {
            CHECK_OK(crn_exec_read_slot(s->exec, t, slot, data, &err), &err);
            for (uint64_t i = 0; i < tensor->bytes / sizeof *data; i++) {
                uint32_t bits;
                memcpy(&bits, &data[i], sizeof bits);
                hash = crn_mix(hash, bits);
            }
            /* what is read can be written */
            CHECK_OK(crn_exec_write_slot(s->exec, t, slot, data, &err), &err);
        }
        free(data);
    }
    return hash;
}

static inline outcome train(subject *s, uint32_t micro_batches) {
    outcome out = {0};
    cairn_error err = {0};
    for (uint32_t i = 0; i < UPDATES * micro_batches; i++) {
        cairn_exec_result result = run_step(s->exec, i, i);
        out.losses[i / micro_batches] = result.loss;
        CHECK_U64(result.measured_peak_bytes, s->solution->sim->summary->peak_bytes);
    }
    CHECK_OK(cairn_exec_sha256(s->exec, CAIRN_EXEC_PARAMETERS | CAIRN_EXEC_STATE, out.sha256, &err),
             &err);
    out.slots = hash_slots(s);
    const cairn_exec_figures *f = cairn_exec_get_figures(s->exec);
    out.bytes = f->arena_bytes + f->stationary_bytes;
    CHECK_U64(crn_exec_updates(s->exec), UPDATES);
    return out;
}

static inline bool same(const outcome *a, const outcome *b) {
    return memcmp(a->losses, b->losses, sizeof a->losses) == 0 &&
           strcmp(a->sha256, b->sha256) == 0 && a->slots == b->slots;
}

/* ---- Networks, and how they are trained ---- */

typedef struct row {
    cairn_graph *(*make)(void);
    cairn_optimizer optimizer;
    float momentum;
    double weight_decay;
    uint32_t micro_batches;
    bool check;
    cairn_decay decay_on;
    double clip_norm;
} row;

static const row rows[] = {
    {toy, CAIRN_OPTIMIZER_SGD, 0.9f, 0, 1, false, CAIRN_DECAY_ALL, 0},
    {toy, CAIRN_OPTIMIZER_SGD, 0, 0.01, 1, true, CAIRN_DECAY_ALL, 0},
    {toy, CAIRN_OPTIMIZER_ADAM, 0, 0.01, 1, true, CAIRN_DECAY_ALL, 0},
    {toy, CAIRN_OPTIMIZER_ADAMW, 0, 0.01, 3, false, CAIRN_DECAY_ALL, 0},
    {residual, CAIRN_OPTIMIZER_ADAMW, 0, 0.01, 1, false, CAIRN_DECAY_MATRICES, 0},
    {recurrent, CAIRN_OPTIMIZER_SGD, 0.9f, 0, 1, true, CAIRN_DECAY_ALL, 0},
    {recurrent, CAIRN_OPTIMIZER_ADAM, 0, 0, 2, false, CAIRN_DECAY_ALL, 0},
    {large, CAIRN_OPTIMIZER_ADAM, 0, 0, 1, false, CAIRN_DECAY_ALL, 0},
    {large, CAIRN_OPTIMIZER_SGD, 0.9f, 0, 2, false, CAIRN_DECAY_ALL, 0},
    {delayed, CAIRN_OPTIMIZER_SGD, 0.9f, 0, 1, true, CAIRN_DECAY_ALL, 0},
    {tokens, CAIRN_OPTIMIZER_ADAMW, 0, 0.01, 1, false, CAIRN_DECAY_MATRICES, 0},
    {tokens, CAIRN_OPTIMIZER_ADAMW, 0, 0.01, 2, true, CAIRN_DECAY_ALL, 0},
};

/* The same with clipping, by less than the norm of most steps. */
static const row clipped_rows[] = {
    {toy, CAIRN_OPTIMIZER_SGD, 0.9f, 0, 1, false, CAIRN_DECAY_ALL, 0.01},
    {toy, CAIRN_OPTIMIZER_ADAMW, 0, 0.01, 3, true, CAIRN_DECAY_ALL, 0.01},
    {recurrent, CAIRN_OPTIMIZER_SGD, 0, 0, 2, true, CAIRN_DECAY_ALL, 0.01},
    {large, CAIRN_OPTIMIZER_ADAM, 0, 0, 1, false, CAIRN_DECAY_ALL, 0.01},
    {large, CAIRN_OPTIMIZER_SGD, 0.9f, 0, 2, false, CAIRN_DECAY_ALL, 0.01},
};

static inline cairn_exec_options options_of(const row *r) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    options.optimizer = r->optimizer;
    options.momentum = r->momentum;
    options.weight_decay = r->weight_decay;
    options.micro_batches = r->micro_batches;
    options.check = r->check;
    options.decay_on = r->decay_on;
    options.clip_norm = r->clip_norm;
    options.update_in_run = true;
    return options;
}

/* ---- A limit for everything on the device ---- */

static inline cairn_machine v100(void) {
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_error err = {0};
    CHECK_OK(cairn_machine_find("v100", &machine, &err), &err);
    return machine;
}

static inline cairn_exec *create(const subject *s, const cairn_solution *solution,
                                 const cairn_exec_options *options) {
    cairn_exec *exec;
    cairn_error err = {0};
    CHECK_OK(cairn_exec_create(s->graph, s->device, s->costs, solution, options, &exec, &err),
             &err);
    return exec;
}

/* Train with the plan of `auto` for solve->device_bytes: with the bits that are expected, and no
 * more memory. train() compares the peak of every step with the predicted one. */
static inline void train_within(subject *s, const cairn_solve_options *solve,
                                const cairn_exec_options *options, const outcome *expected) {
    cairn_error err = {0};
    CHECK_OK(cairn_solve(s->graph, s->costs, NULL, solve, &s->solution, &err), &err);
    CHECK(s->solution->lower_bound_ns > 0 &&
          s->solution->lower_bound_ns <= s->solution->sim->summary->time_ns);
    s->exec = create(s, s->solution, options);
    outcome made = train(s, 1);
    CHECK(same(expected, &made));
    CHECK(made.bytes <= solve->device_bytes);
    cairn_exec_destroy(s->exec);
    cairn_solution_destroy(s->solution);
}

#endif
