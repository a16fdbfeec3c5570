/* test_whole_step.c: a graph with updates trains with the bits of the step whose update comes at
 * the end, in less memory: over networks, optimisers, micro-batches, algorithms, and with a
 * parameter that is updated in parts. Argument: the backend. */
#include "exec/whole_step.h"
#include "graph/crn_graph.h"
#include "plan/crn_plan.h"

static void test_same_bits(const row *r) {
    cairn_exec_options options = options_of(r);
    subject usual = subject_of(test_device(backend, 2), r->make(), "none", &options);
    subject whole =
        subject_of(test_device(backend, 2), with_updates(r->make(), &options), "none", &options);
    outcome a = train(&usual, r->micro_batches), b = train(&whole, r->micro_batches);
    CHECK(same(&a, &b));
    CHECK(b.bytes < a.bytes); /* gradients are freed */
    close_subject(&whole);
    close_subject(&usual);
}

/* Every algorithm makes a legal plan of the whole step, inside four fifths of the usual arena. */
static void test_algorithms(void) {
    cairn_exec_options options = options_of(&rows[3]);
    subject usual =
        subject_of(test_device(backend, 2), with_updates(toy(), &options), "none", &options);
    outcome expected = train(&usual, rows[3].micro_batches);
    const cairn_solver *solver;
    uint32_t solved = 0;
    for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL; i++) {
        cairn_solve_options solve = CAIRN_SOLVE_OPTIONS_INIT;
        subject s = usual;
        cairn_error err = {0};
        cairn_machine machine = CAIRN_MACHINE_INIT;
        CHECK_OK(cairn_machine_find("v100", &machine, &err), &err);
        solve.machine = &machine;
        solve.budget_bytes = usual.solution->layout->arena_bytes * 4 / 5;
        if (solver->goal != CAIRN_GOAL_TRAIN)
            continue;
        cairn_status status =
            cairn_solve(s.graph, s.costs, solver->name, &solve, &s.solution, &err);
        bool applies = status != CAIRN_EINVAL || strstr(err.message, "does not apply") == NULL;
        if (status == CAIRN_INFEASIBLE || !applies)
            continue;
        CHECK_OK(status, &err);
        CHECK_OK(cairn_exec_create(s.graph, s.device, s.costs, s.solution, &options, &s.exec, &err),
                 &err);
        outcome made = train(&s, rows[3].micro_batches);
        CHECK(same(&expected, &made));
        cairn_exec_destroy(s.exec);
        cairn_solution_destroy(s.solution);
        solved++;
    }
    CHECK(solved >= 5);
    close_subject(&usual);
}

/* With a byte less than `none` needs, gradients wait: nothing is recomputed or copied, and updates
 * that follow each other are one launch at the end. */
static void test_delayed(void) {
    row r = {delayed, CAIRN_OPTIMIZER_SGD, 0.9f, 0, 1, true, CAIRN_DECAY_ALL, 0};
    cairn_exec_options options = options_of(&r);
    subject usual =
        subject_of(test_device(backend, 2), with_updates(delayed(), &options), "none", &options);
    outcome expected = train(&usual, 1);
    cairn_solve_options solve = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_error err = {0};
    subject s = usual;
    CHECK_OK(cairn_machine_find("v100", &machine, &err), &err);
    solve.machine = &machine;
    solve.device_bytes = expected.bytes - 1;
    CHECK_OK(cairn_solve(s.graph, s.costs, "auto", &solve, &s.solution, &err), &err);
    const cairn_sim_summary *summary = s.solution->sim->summary;
    CHECK(summary->reruns == 0 && summary->offloads == 0 && summary->fetches == 0);
    CHECK_OK(cairn_exec_create(s.graph, s.device, s.costs, s.solution, &options, &s.exec, &err),
             &err);
    outcome made = train(&s, 1);
    CHECK(same(&expected, &made));
    CHECK(made.bytes < expected.bytes);
    cairn_exec_destroy(s.exec);
    cairn_solution_destroy(s.solution);
    close_subject(&usual);
}

/* A recomputation must not read an updated parameter, and the slots must be those of the
 * optimiser. */
static void test_wrong(void) {
    cairn_exec_options options = options_of(&rows[0]);
    cairn_error err = {0};
    cairn_graph *graph = with_updates(toy(), &options), *again;
    cairn_costs *costs;
    crn_plan_builder *builder;
    cairn_plan_header header = CAIRN_PLAN_HEADER_INIT;
    cairn_plan *plan;
    CHECK(cairn_graph_add_updates(graph, UPDATES_OF(.slots = 1), &again, &err) == CAIRN_EINVAL &&
          again == NULL);
    CHECK_OK(cairn_costs_create(graph, &costs, &err), &err);
    CHECK_OK(crn_plan_builder_create(NULL, &builder), &err);
    cairn_id update = crn_graph_find_op(graph, "conv1.weight.update");
    CHECK(update != CAIRN_NONE);
    for (cairn_id o = 0; o <= update; o++)
        CHECK_OK(crn_plan_builder_add(builder, (cairn_step){.kind = CAIRN_STEP_RUN, .id = o}),
                 &err);
    cairn_step repeat = {.kind = CAIRN_STEP_RUN, .id = crn_graph_find_op(graph, "conv1")};
    CHECK_OK(crn_plan_builder_add(builder, repeat), &err);
    CHECK_OK(crn_plan_builder_finish(builder, graph, &header, &plan, &err), &err);
    CHECK(cairn_simulate(graph, costs, plan, NULL, NULL, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.message, "reads \"conv1.weight\" after its update") != NULL);
    cairn_plan_destroy(plan);
    crn_plan_builder_destroy(builder);

    cairn_device *device = test_device(backend, 1);
    cairn_solution *solution;
    cairn_exec *exec;
    options.optimizer = CAIRN_OPTIMIZER_ADAM;
    cairn_costs_destroy(costs);
    CHECK_OK(cairn_bind(graph, device, &costs, &err), &err);
    CHECK_OK(cairn_solve(graph, costs, "none", NULL, &solution, &err), &err);
    CHECK(cairn_exec_create(graph, device, costs, solution, &options, &exec, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.message, "have 1 slots, and the optimiser needs 2") != NULL);
    cairn_solution_destroy(solution);
    cairn_device_close(device);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
}

int main(int count, char **arguments) {
    if (count > 1)
        backend = arguments[1];
    for (size_t i = 0; i < CRN_LENGTH(rows); i++)
        test_same_bits(&rows[i]);
    test_algorithms();
    test_delayed();
    test_wrong();
    return check_result();
}
