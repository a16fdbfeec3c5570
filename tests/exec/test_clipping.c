/* test_clipping.c: gradients clipped by the norm of all of them: the values, over micro-batches
 * too; a norm that is not reached changes no bit; plans inside a budget give the bits of `none`.
 * Argument: the backend. */
#include "exec/whole_step.h"

#include <math.h>

#define RATE 0.25f

static cairn_exec_options plain_sgd(uint32_t micro_batches, double clip_norm) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    options.momentum = 0;
    options.learning_rate = RATE;
    options.micro_batches = micro_batches;
    options.clip_norm = clip_norm;
    options.update_in_run = true;
    return options;
}

/* The parameters after one update, one after the other, in the order of the graph. */
static float *one_update(double clip_norm, uint32_t micro_batches, uint64_t *count) {
    cairn_exec_options options = plain_sgd(micro_batches, clip_norm);
    subject s =
        subject_of(test_device(backend, 2), with_updates(toy(), &options), "none", &options);
    float *out = NULL;
    *count = 0;
    for (uint32_t i = 0; i < micro_batches; i++)
        run_step(s.exec, i, i);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(s.graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(s.graph, t);
        if (tensor->role != CAIRN_ROLE_PARAMETER)
            continue;
        float *data = read_tensor(s.exec, t);
        uint64_t elements = tensor->bytes / sizeof *data;
        out = realloc(out, (*count + elements) * sizeof *out);
        memcpy(out + *count, data, tensor->bytes);
        *count += elements;
        free(data);
    }
    close_subject(&s);
    return out;
}

/* The start, which a rate of nearly 0 leaves as it is, the usual update and the clipped one. */
static void test_values(uint32_t micro_batches) {
    uint64_t count;
    float *start = one_update(1e-30, micro_batches, &count); /* all gradients become nearly 0 */
    float *usual = one_update(0, micro_batches, &count);
    double squares = 0;
    for (uint64_t i = 0; i < count; i++) {
        double g = ((double)start[i] - (double)usual[i]) / (double)RATE;
        squares += g * g;
    }
    double norm = sqrt(squares);
    float *clipped = one_update(norm / 3, micro_batches, &count);
    float *same = one_update(norm * 3, micro_batches, &count);
    CHECK(norm > 0.01);
    CHECK(memcmp(usual, same, count * sizeof *usual) == 0);
    for (uint64_t i = 0; i < count; i++) {
        double expected = (double)start[i] + ((double)usual[i] - (double)start[i]) / 3;
        CHECK(fabs((double)clipped[i] - expected) <= 1e-6 * fmax(fabs(expected), 0.1));
    }
    free(start);
    free(usual);
    free(clipped);
    free(same);
}

/* Inside two thirds of the memory or, where that is too little, inside the smallest budget; with
 * homes on the host where they are needed. */
static void test_budget(const row *r) {
    cairn_exec_options options = options_of(r);
    subject usual =
        subject_of(test_device(backend, 2), with_updates(r->make(), &options), "none", &options);
    subject s = usual;
    outcome expected = train(&usual, r->micro_batches);
    cairn_solve_options solve = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_error err = {0};
    CHECK_OK(cairn_machine_find("v100", &machine, &err), &err);
    solve.machine = &machine;
    solve.device_bytes = expected.bytes / 3 * 2;
    cairn_status status = cairn_solve(s.graph, s.costs, NULL, &solve, &s.solution, &err);
    if (status == CAIRN_INFEASIBLE) {
        solve.device_bytes = err.smallest_budget;
        status = cairn_solve(s.graph, s.costs, NULL, &solve, &s.solution, &err);
    }
    CHECK_OK(status, &err);
    CHECK(solve.device_bytes < expected.bytes);
    CHECK_OK(cairn_exec_create(s.graph, s.device, s.costs, s.solution, &options, &s.exec, &err),
             &err);
    outcome made = train(&s, r->micro_batches);
    CHECK(same(&expected, &made));
    CHECK(made.bytes <= solve.device_bytes);
    cairn_exec_destroy(s.exec);
    cairn_solution_destroy(s.solution);
    close_subject(&usual);
}

static void refused(cairn_graph *graph, const cairn_exec_options *options, const char *message) {
    subject s = {.device = test_device(backend, 1), .graph = graph};
    cairn_error err = {0};
    CHECK_OK(cairn_bind(graph, s.device, &s.costs, &err), &err);
    CHECK_OK(cairn_solve(graph, s.costs, "none", NULL, &s.solution, &err), &err);
    CHECK(cairn_exec_create(graph, s.device, s.costs, s.solution, options, &s.exec, &err) ==
          CAIRN_EINVAL);
    CHECK(strstr(err.message, message) != NULL);
    close_subject(&s);
}

static void test_wrong(void) {
    cairn_exec_options clips = plain_sgd(1, 1), usual = plain_sgd(1, 0), sums = plain_sgd(2, 1);
    refused(toy(), &clips, "clipping needs the updates of cairn_graph_add_updates() with `clip`");
    refused(with_updates(toy(), &usual), &clips, "clipping needs the updates");
    refused(with_updates(toy(), &clips), &usual, "need clip_norm");
    cairn_graph *step = toy(), *whole;
    cairn_error err = {0};
    CHECK(cairn_graph_add_updates(step, UPDATES_OF(.clip = true, .sums = true), &whole, &err) ==
          CAIRN_EINVAL);
    CHECK(strstr(err.message, "needs a slot for sums") != NULL);
    CHECK_OK(cairn_graph_add_updates(step, UPDATES_OF(.slots = 1, .clip = true), &whole, &err),
             &err);
    cairn_graph_destroy(step);
    refused(whole, &sums, "is not for sums of gradients of several micro-batches");
}

int main(int count, char **arguments) {
    if (count > 1)
        backend = arguments[1];
    test_values(1);
    test_values(3);
    for (size_t i = 0; i < CRN_LENGTH(clipped_rows); i++)
        test_budget(&clipped_rows[i]);
    test_wrong();
    return check_result();
}
