/* test_whole_zoo.c: every network of the zoo with every optimiser, narrow and small, in a budget
 * for everything on the device: it is held, the peak is the predicted one, and the bits are those
 * of the step without a budget. Every refusal names the smallest budget, with which there is a
 * plan. Argument: the backend. */
#include "exec/whole_step.h"

#define MANY_OPS 150

static const row optimizers[] = {
    {NULL, CAIRN_OPTIMIZER_SGD, 0, 0, 1, false, CAIRN_DECAY_ALL, 0},
    {NULL, CAIRN_OPTIMIZER_SGD, 0.9f, 0, 1, false, CAIRN_DECAY_ALL, 0},
    {NULL, CAIRN_OPTIMIZER_ADAM, 0, 0.01, 1, false, CAIRN_DECAY_ALL, 0},
    {NULL, CAIRN_OPTIMIZER_ADAMW, 0, 0.01, 1, false, CAIRN_DECAY_MATRICES, 0},
};

/* The smallest budget by a refusal of `bytes`. */
static uint64_t refusal(const subject *s, cairn_solve_options solve, uint64_t bytes) {
    cairn_error err = {0};
    cairn_solution *none;
    solve.device_bytes = bytes;
    CHECK(cairn_solve(s->graph, s->costs, NULL, &solve, &none, &err) == CAIRN_INFEASIBLE);
    CHECK(none == NULL && err.name[0] != '\0');
    return err.smallest_budget;
}

/* All refusals name one budget; a byte less is refused, and it is enough. */
static void test_refusals(const subject *s, cairn_solve_options solve) {
    cairn_error err = {0};
    cairn_solution *found;
    uint64_t least = refusal(s, solve, 1);
    CHECK_U64(refusal(s, solve, least / 2), least);
    CHECK_U64(refusal(s, solve, least - 1), least);
    solve.device_bytes = least;
    CHECK(cairn_solve(s->graph, s->costs, NULL, &solve, &found, &err) == CAIRN_OK);
    cairn_solution_destroy(found);
}

/* In three fifths of what the usual step takes, or in the smallest budget. */
static void test_budget(cairn_graph *step, const row *r, bool refusals) {
    cairn_exec_options options = options_of(r);
    cairn_graph *graph = with_updates(step, &options);
    subject usual = subject_of(test_device(backend, 1), graph, "none", &options), s = usual;
    outcome expected = train(&usual, 1);
    cairn_solve_options solve = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_machine machine = v100();
    cairn_error err = {0};
    solve.machine = &machine;
    if (refusals)
        test_refusals(&s, solve);
    solve.device_bytes = expected.bytes / 5 * 3;
    cairn_status status = cairn_solve(s.graph, s.costs, NULL, &solve, &s.solution, &err);
    cairn_solution_destroy(s.solution);
    if (status != CAIRN_OK) {
        CHECK(status == CAIRN_INFEASIBLE);
        CHECK(err.smallest_budget > solve.device_bytes && err.smallest_budget < expected.bytes);
        solve.device_bytes = err.smallest_budget;
    }
    train_within(&s, &solve, &options, &expected);
    close_subject(&usual);
}

static void test_network(const cairn_zoo_entry *entry, uint32_t turn) {
    bool recurrent = entry->defaults.steps > 0 && entry->small == NULL; /* cannot be narrower */
    for (uint32_t k = 0; k < CRN_LENGTH(optimizers); k++) {
        cairn_graph *step = small_network(entry->name, recurrent ? 1 : 4);
        bool small = cairn_graph_op_count(step) <= MANY_OPS;
        bool its_turn = turn % CRN_LENGTH(optimizers) == k;
        if (small || its_turn)
            test_budget(step, &optimizers[k], its_turn);
        else
            cairn_graph_destroy(step);
    }
}

int main(int count, char **arguments) {
    const cairn_zoo_entry *entry;
    if (count > 1)
        backend = arguments[1];
    for (uint32_t i = 0; (entry = cairn_zoo_list(i)) != NULL; i++)
        test_network(entry, i);
    return check_result();
}
