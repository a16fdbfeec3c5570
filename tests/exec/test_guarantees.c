/* test_guarantees.c: the guarantees of the executor, for networks, algorithms and budgets:
 *
 *     the measured peak is the predicted one
 *     loss, gradients, updated parameters and running statistics are bitwise those of `none`
 *
 * Networks of the zoo run on the mixing backend with shifted addresses. Small ones also run on
 * every backend that computes, in check mode, and some behind shifted addresses; `cairn-bench
 * table2 --run` does this for all networks. The algorithms are those of the list. Those that take
 * budgets get 75, 50 and 30% of what `none` needs, or their smallest budget. */
#include "exec/fingerprint.h"
#include "exec/small_networks.h"
#include "exec/toy_network.h"

typedef struct subject {
    const char *network;
    const char *backend;
    cairn_device *device;
    cairn_graph *graph;
    cairn_costs *costs;
    cairn_machine machine;
    fingerprint none;
    uint32_t plans;
} subject;

/* Check one algorithm within a budget (0: none). Returns the smallest budget if it does not fit,
 * else 0. */
static uint64_t check_plan(subject *s, const char *algorithm, uint64_t budget) {
    cairn_solve_options solve = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_error err = {0};
    cairn_solution *solution;
    solve.budget_bytes = budget;
    solve.machine = &s->machine;
    solve.seed = 1;
    cairn_status status = cairn_solve(s->graph, s->costs, algorithm, &solve, &solution, &err);
    if (status == CAIRN_INFEASIBLE)
        return err.smallest_budget;
    if (status ==
        CAIRN_EINVAL) /* it does not apply, for example chen to a graph that is not a chain */
        return 0;
    CHECK_OK(status, &err);
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    options.budget_bytes = budget;
    options.check = true;
    fingerprint f = fingerprint_of(s->device, s->graph, s->costs, solution, &options);
    if (!same_fingerprint(&f, &s->none)) {
        fprintf(stderr, "%s, %s by %s at %" PRIu64 ": other bits than none\n", s->network,
                s->backend, algorithm, budget);
        check_failures++;
    }
    if (budget > 0)
        CHECK(f.figures.arena_bytes <= budget);
    cairn_solution_destroy(solution);
    s->plans++;
    return 0;
}

static void check_budgets(subject *s, const char *algorithm) {
    static const uint64_t percent[] = {75, 50, 30};
    for (size_t i = 0; i < CRN_LENGTH(percent); i++) {
        uint64_t budget = s->none.figures.arena_bytes * percent[i] / 100;
        uint64_t least = check_plan(s, algorithm, budget);
        if (least > 0) {
            CHECK(least > budget);
            CHECK_U64(check_plan(s, algorithm, least), 0);
            return;
        }
    }
}

/* Evaluation, with and without check mode, changes nothing that stays. */
static void check_evaluation(const subject *s) {
    cairn_error err = {0};
    cairn_solution *solution;
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    CHECK_OK(cairn_solve(s->graph, s->costs, "infer", NULL, &solution, &err), &err);
    fingerprint plain = fingerprint_of(s->device, s->graph, s->costs, solution, &options);
    options.check = true;
    fingerprint checked = fingerprint_of(s->device, s->graph, s->costs, solution, &options);
    CHECK(same_fingerprint(&plain, &checked));
    CHECK_U64(plain.hashes[0], plain.hashes[1]);
    cairn_solution_destroy(solution);
}

/* Networks for images are narrow, so that a step is quick; their graphs stay what they are. */
static cairn_graph *network(const char *name) {
    if (strcmp(name, "toy") == 0)
        return toy_network(NULL, 2, 16);
    const cairn_zoo_entry *entry = zoo_entry(name);
    return small_network(name, entry->defaults.steps > 0 && entry->small == NULL ? 1 : 8);
}

static void check_network(const char *name, const char *backend) {
    subject s = {.network = name, .backend = backend, .device = test_device(backend, 2)};
    cairn_error err = {0};
    const cairn_solver *solver;
    cairn_solution *none;
    s.graph = network(name);
    CHECK_OK(cairn_bind(s.graph, s.device, &s.costs, &err), &err);
    s.machine = (cairn_machine)CAIRN_MACHINE_INIT;
    CHECK_OK(cairn_machine_find("cpu", &s.machine, &err), &err);
    CHECK_OK(cairn_solve(s.graph, s.costs, "none", NULL, &none, &err), &err);
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    s.none = fingerprint_of(s.device, s.graph, s.costs, none, &options);
    for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL; i++) {
        if (solver->goal != CAIRN_GOAL_TRAIN)
            continue;
        if (solver->budgeted)
            check_budgets(&s, solver->name);
        else
            check_plan(&s, solver->name, 0);
    }
    check_evaluation(&s);
    printf("%-14s %-12s %2u plans\n", name, backend, s.plans);
    fflush(stdout);
    CHECK(s.plans >= 3);
    cairn_solution_destroy(none);
    cairn_costs_destroy(s.costs);
    cairn_device_close(s.device);
    cairn_graph_destroy(s.graph);
}

/* Without arguments: the list. Otherwise the networks that are named, on the best backend. */
int main(int argc, char **argv) {
    static const char *const by_mixing[] = {"resnet18", "densenet121", "rnn",
                                            "lstm",     "gpt2",        "toy"};
    static const char *const by_all[] = {"lstm", "gpt2", "llama", "toy"};
    static const char *const by_offset[] = {"resnet18", "rnn", "vit_b_16", "bert_base", "toy"};
    const cairn_device_entry *backend;
    for (int i = 1; i < argc; i++)
        check_network(argv[i], cairn_device_list(0)->name);
    if (argc > 1)
        return check_result();
    for (size_t i = 0; i < CRN_LENGTH(by_mixing); i++)
        check_network(by_mixing[i], i % 2 == 0 ? "mixing-late" : "mixing-early");
    for (uint32_t b = 0; (backend = cairn_device_list(b)) != NULL; b++)
        for (size_t i = 0; i < CRN_LENGTH(by_all); i++)
            check_network(by_all[i], backend->name);
    for (size_t i = 0; i < CRN_LENGTH(by_offset); i++)
        check_network(by_offset[i], "offset");
    return check_result();
}
