/* fuzz_problem.c: the readers of abstract problems. A case that is accepted can be solved, and the
 * value of the answer is what the solver claims. */
#include "cairn/papers/acg.h"
#include "cairn/papers/chain.h"
#include "fuzz.h"

#define MOST_VERTICES 64u /* larger inputs would take too long */

static void check_dag(const cairn_dag *dag) {
    const cairn_acg_algorithm *a;
    bool small = dag->vertex_count <= MOST_VERTICES;
    for (uint32_t i = 0; small && (a = cairn_acg_algorithm_list(i)) != NULL; i++) {
        cairn_acg_solution *result;
        cairn_acg_options options = CAIRN_ACG_OPTIONS_INIT;
        cairn_error err = {0};
        uint64_t value = 0;
        options.effort = 1;
        cairn_status status = cairn_acg_solve(NULL, dag, a->name, &options, &result, &err);
        if (status != CAIRN_OK) {
            fuzz_check_error(status, &err);
            continue;
        }
        FUZZ_CHECK(cairn_acg_value(NULL, dag, a->objective, result->checkpoints,
                                   result->checkpoint_count, &value, &err) == CAIRN_OK);
        FUZZ_CHECK(value == result->value);
        cairn_acg_solution_destroy(result);
    }
    cairn_text tree;
    cairn_error err = {0};
    FUZZ_CHECK(cairn_acg_tree_text(NULL, dag, NULL, &tree, &err) == CAIRN_OK);
    cairn_text_release(&tree);
}

static void check_chain(const cairn_chain_problem *problem) {
    const cairn_chain_algorithm *algorithm;
    bool small = problem->layers <= MOST_VERTICES / 4;
    for (uint32_t i = 0; small && (algorithm = cairn_chain_algorithm_list(i)) != NULL; i++) {
        cairn_chain_solution *solution;
        cairn_chain_options options = CAIRN_CHAIN_OPTIONS_INIT;
        cairn_chain_verdict verdict;
        cairn_error err = {0};
        options.max_states = 10000;
        cairn_status status =
            cairn_chain_solve(NULL, problem, algorithm->name, &options, &solution, &err);
        if (status != CAIRN_OK && status != CAIRN_INFEASIBLE) {
            fuzz_check_error(status, &err);
            continue;
        }
        if (solution->feasible) {
            FUZZ_CHECK(cairn_chain_judge(problem, solution->steps, solution->step_count, &verdict,
                                         &err) == CAIRN_OK);
            FUZZ_CHECK(verdict.cost == solution->cost && verdict.peak <= problem->budget);
        }
        cairn_chain_solution_destroy(solution);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cairn_acg_cases *graphs;
    cairn_chain_cases *chains;
    cairn_error err = {0};
    cairn_status status = cairn_acg_cases_read(NULL, (const char *)data, size, "f", &graphs, &err);
    if (status != CAIRN_OK)
        fuzz_check_error(status, &err);
    for (uint32_t i = 0; status == CAIRN_OK && i < cairn_acg_cases_count(graphs) && i < 4; i++)
        check_dag(cairn_acg_cases_get(graphs, i));
    cairn_acg_cases_destroy(graphs);

    status = cairn_chain_cases_read(NULL, (const char *)data, size, "f", &chains, &err);
    if (status != CAIRN_OK)
        fuzz_check_error(status, &err);
    for (uint32_t i = 0; status == CAIRN_OK && i < cairn_chain_cases_count(chains) && i < 4; i++)
        if (cairn_chain_check(cairn_chain_cases_get(chains, i), &err) == CAIRN_OK)
            check_chain(cairn_chain_cases_get(chains, i));
    cairn_chain_cases_destroy(chains);
    return 0;
}
