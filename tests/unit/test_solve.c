/* test_solve.c: solutions: evaluating a plan, the best of all algorithms, wrong options. */
#include "cairn.h"
#include "check.h"
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"
#include "import/importer.h"

#include <stdlib.h>

typedef struct network {
    cairn_graph *graph;
    cairn_costs *costs;
    cairn_machine machine;
    cairn_solution *none;
} network;

static network open_network(const char *name) {
    network net;
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    cairn_graph *forward;
    cairn_error err = {0};
    options.batch = 4;
    options.steps = strcmp(name, "rnn") == 0 ? 6 : 0;
    CHECK_OK(crn_zoo_build(NULL, name, &options, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &net.graph, &err), &err);
    net.machine = (cairn_machine)CAIRN_MACHINE_INIT;
    CHECK_OK(cairn_machine_find("v100", &net.machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(net.graph, &net.machine, &net.costs, &err), &err);
    CHECK_OK(cairn_solve(net.graph, net.costs, "none", NULL, &net.none, &err), &err);
    cairn_graph_destroy(forward);
    return net;
}

static void close_network(network *net) {
    cairn_solution_destroy(net->none);
    cairn_costs_destroy(net->costs);
    cairn_graph_destroy(net->graph);
}

static const char *algorithm_of(const cairn_solution *solution) {
    return solution->plan->header->algorithm;
}

static int64_t time_of(const cairn_solution *solution) {
    return solution->sim->summary->time_ns;
}

/* ---- Evaluating a plan ---- */

/* A plan that is written as text, read and evaluated again gives the same figures. */
static void check_judgement(const network *net, const cairn_solution *solution) {
    cairn_text text;
    cairn_plan *plan;
    cairn_solution *again;
    cairn_error err = {0};
    CHECK_OK(cairn_plan_to_text(solution->plan, net->graph, &text), &err);
    CHECK_OK(cairn_plan_from_text(net->graph, text.data, text.length, "p", &plan, &err), &err);
    CHECK_OK(cairn_solution_create(net->graph, net->costs, plan, &net->machine, &again, &err),
             &err);
    cairn_plan_destroy(plan); /* a solution has its own copy */
    CHECK(memcmp(again->sim->summary, solution->sim->summary, sizeof(cairn_sim_summary)) == 0);
    CHECK_U64(again->layout->arena_bytes, solution->layout->arena_bytes);
    const uint64_t *offsets = solution->layout->offsets;
    uint32_t count = solution->layout->count;
    const uint64_t *again_offsets = again->layout->offsets;
    uint32_t again_count = again->layout->count;
    CHECK(count == again_count && memcmp(offsets, again_offsets, count * sizeof *offsets) == 0);
    CHECK_U64(again->costs_hash, solution->costs_hash);
    CHECK_STRING(algorithm_of(again), algorithm_of(solution));
    cairn_solution_destroy(again);
    cairn_text_release(&text);
}

/* The hash depends on what memory depends on, and on nothing else. */
static void check_costs_hash(const network *net) {
    cairn_costs *costs;
    cairn_error err = {0};
    uint32_t count;
    CHECK_OK(cairn_costs_analytic(net->graph, &net->machine, &costs, &err), &err);
    CHECK_U64(crn_costs_memory_hash(costs), net->none->costs_hash);
    cairn_implementation changed = *cairn_costs_op(costs, 0, &count);
    changed.time_ns += 1000;
    CHECK_OK(cairn_costs_set_op(costs, 0, &changed, 1), &err);
    CHECK_U64(crn_costs_memory_hash(costs), net->none->costs_hash);
    changed.workspace_bytes += 64;
    CHECK_OK(cairn_costs_set_op(costs, 0, &changed, 1), &err);
    uint64_t with_workspace = crn_costs_memory_hash(costs);
    CHECK(with_workspace != net->none->costs_hash);
    cairn_costs_set_bytes(costs, 0, cairn_costs_bytes(costs)[0] + 64);
    CHECK(crn_costs_memory_hash(costs) != with_workspace);
    cairn_costs_destroy(costs);
}

/* ---- The best of all ---- */

/* The least time of all algorithms; INT64_MAX if nothing fits. */
static int64_t best_of_all(const network *net, const cairn_solve_options *options) {
    int64_t least = INT64_MAX;
    const cairn_solver *solver;
    for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL; i++) {
        cairn_solution *solution;
        cairn_error err = {0};
        if (solver->goal != CAIRN_GOAL_TRAIN || (solver->offloads && options->no_offload) ||
            cairn_solve(net->graph, net->costs, solver->name, options, &solution, &err) != CAIRN_OK)
            continue;
        check_judgement(net, solution);
        CHECK_STRING(algorithm_of(solution), solver->name);
        CHECK(solution->lower_bound_ns > 0 && solution->lower_bound_ns <= time_of(solution));
        CHECK(solution->layout->arena_bytes <= options->budget_bytes);
        least = time_of(solution) < least ? time_of(solution) : least;
        cairn_solution_destroy(solution);
    }
    return least;
}

/* With a budget and no name the algorithm is `auto`, and no other one is better. */
static void check_best(const network *net, uint32_t percent, bool no_offload) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_solution *best;
    cairn_error err = {0};
    options.machine = &net->machine;
    options.budget_bytes = net->none->layout->arena_bytes / 100 * percent;
    options.no_offload = no_offload;
    int64_t least = best_of_all(net, &options);
    cairn_status status = cairn_solve(net->graph, net->costs, NULL, &options, &best, &err);
    if (least == INT64_MAX) {
        CHECK(status == CAIRN_INFEASIBLE && best == NULL);
        CHECK(crn_graph_find_op(net->graph, err.name) != CAIRN_NONE);
        options.budget_bytes = err.smallest_budget; /* which the error says is enough */
        status = cairn_solve(net->graph, net->costs, NULL, &options, &best, &err);
    }
    CHECK_OK(status, &err);
    CHECK_STRING(algorithm_of(best), "auto");
    CHECK(time_of(best) <= least);
    if (no_offload)
        CHECK_U64(best->sim->summary->offloads, 0);
    cairn_solution_destroy(best);
}

/* Without a budget nothing is faster than keeping everything. */
static void check_no_budget(const network *net) {
    cairn_solution *best;
    cairn_error err = {0};
    CHECK_OK(cairn_solve(net->graph, net->costs, NULL, NULL, &best, &err), &err);
    CHECK_STRING(algorithm_of(best), "none");
    cairn_solution_destroy(best);
}

/* An algorithm that only offloads still does so if it is asked for by name. */
static void check_named_offload(const network *net) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_solution *solution;
    cairn_error err = {0};
    options.machine = &net->machine;
    options.budget_bytes = net->none->layout->arena_bytes / 10 * 9;
    options.no_offload = true;
    CHECK_OK(cairn_solve(net->graph, net->costs, "offload-greedy", &options, &solution, &err),
             &err);
    CHECK(solution->sim->summary->offloads > 0);
    cairn_solution_destroy(solution);
}

/* ---- Options ---- */

static void check_options(const network *net) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_solution *solution;
    cairn_error err = {0};
    options.struct_size = 0;
    CHECK(cairn_solve(net->graph, net->costs, "none", &options, &solution, &err) == CAIRN_EINVAL);
    CHECK(solution == NULL && strstr(err.message, "cairn_solve_options") != NULL);

    /* An older caller knows only the budget; fields behind it are not read. */
    options.struct_size = offsetof(cairn_solve_options, machine);
    options.machine = &net->machine;
    options.budget_bytes = net->none->layout->arena_bytes / 10 * 9;
    CHECK(cairn_solve(net->graph, net->costs, "offload-greedy", &options, &solution, &err) ==
          CAIRN_EINVAL);
    CHECK(strstr(err.message, "machine") != NULL);

    /* A newer caller may have more fields, as long as they are 0. */
    struct {
        cairn_solve_options known;
        uint64_t more;
    } newer = {CAIRN_SOLVE_OPTIONS_INIT, 0};
    newer.known.struct_size = sizeof newer;
    CHECK_OK(cairn_solve(net->graph, net->costs, "none", &newer.known, &solution, &err), &err);
    cairn_solution_destroy(solution);
    newer.more = 1;
    CHECK(cairn_solve(net->graph, net->costs, "none", &newer.known, &solution, &err) ==
          CAIRN_EINVAL);
    CHECK(solution == NULL);
    CHECK(cairn_solve(net->graph, net->costs, "nobody", NULL, &solution, &err) == CAIRN_EUNKNOWN);
    cairn_solution_destroy(NULL);
}

/* ---- Ops that a device fuses ---- */

/* How often something is recomputed between a relu_bwd and the batch_norm_bwd that reads it. */
static uint32_t count_gaps(const network *net, const cairn_solution *solution) {
    uint32_t count, gaps = 0;
    const cairn_step *steps = solution->plan->steps;
    count = solution->plan->step_count;
    const cairn_op *last = NULL; /* the last op of the backward pass */
    bool recomputed = false;     /* after that */
    for (uint32_t i = 0; i < count; i++) {
        if (steps[i].kind != CAIRN_STEP_RUN)
            continue;
        const cairn_op *op = cairn_graph_op(net->graph, steps[i].id);
        if (op->phase == CAIRN_PHASE_FORWARD) {
            recomputed = true;
            continue;
        }
        gaps += op->kind == CAIRN_OP_BATCH_NORM_BWD && recomputed && last != NULL &&
                last->kind == CAIRN_OP_RELU_BWD && last->outputs[0] == op->inputs[2];
        last = op;
        recomputed = false;
    }
    return gaps;
}

/* Let the costs say that relu_bwd is fused with the batch_norm_bwd after it and the accumulate
 * before it, or that nothing is. */
static void set_fused(network *net, bool fused) {
    for (cairn_id o = 0; o < cairn_graph_op_count(net->graph); o++) {
        const cairn_op *op = cairn_graph_op(net->graph, o);
        bool norm = op->kind == CAIRN_OP_BATCH_NORM_BWD, relu = op->kind == CAIRN_OP_RELU_BWD;
        cairn_id with = !norm && !relu
                            ? CAIRN_NONE
                            : cairn_graph_tensor(net->graph, op->inputs[norm ? 2 : 1])->producer;
        crn_costs_set_fused(net->costs, o, fused ? with : CAIRN_NONE);
    }
}

/* With costs that say that ops are fused, fewer recomputations come between them, in the same time
 * and within the budget. */
static void check_fused(network *net) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_error err = {0};
    uint64_t all = net->none->layout->arena_bytes;
    /* In the least budget some of the moves do not fit. */
    static const uint32_t percents[] = {21, 30, 45, 60};
    uint32_t before = 0, after = 0;
    for (uint32_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        cairn_solution *plain, *fused;
        options.budget_bytes = all / 100 * percents[i];
        CHECK_OK(cairn_solve(net->graph, net->costs, "precise", &options, &plain, &err), &err);
        set_fused(net, true);
        CHECK_OK(cairn_solve(net->graph, net->costs, "precise", &options, &fused, &err), &err);
        set_fused(net, false);
        CHECK(fused->layout->arena_bytes <= options.budget_bytes);
        CHECK(time_of(fused) == time_of(plain));
        uint32_t left = count_gaps(net, fused);
        before += count_gaps(net, plain);
        after += left;
        CHECK(i > 0 || left > 0);
        cairn_solution_destroy(plain);
        cairn_solution_destroy(fused);
    }
    /* copies that gain little are not used, also where `auto` would */
    cairn_solution *copies, *none;
    options.budget_bytes = all / 2;
    options.machine = &net->machine;
    CHECK_OK(cairn_solve(net->graph, net->costs, "auto", &options, &copies, &err), &err);
    crn_costs_set_copy_slowdown(net->costs, 5);
    CHECK_OK(cairn_solve(net->graph, net->costs, "auto", &options, &none, &err), &err);
    crn_costs_set_copy_slowdown(net->costs, 0);
    bool gains = time_of(copies) * 21 / 20 < time_of(none);
    CHECK(copies->sim->summary->host_bytes > 0 && !gains);
    CHECK_U64(none->sim->summary->host_bytes, 0);
    CHECK(none->lower_bound_ns > 0 && none->lower_bound_ns <= time_of(copies));
    cairn_solution_destroy(copies);
    cairn_solution_destroy(none);
    printf("recomputations between fused ops: %u, %u of them are left\n", before, after);
    CHECK(before > 0 && after < before / 2);
}

/* ---- Progress and an early end ---- */

typedef struct patience {
    uint32_t asked, most;
} patience;

static bool is_patient(void *context, uint64_t done, uint64_t total) {
    patience *p = context;
    CHECK(done > 0 && total == 0);
    return p->asked++ < p->most;
}

/* Every solver ends when it is told to, and gives the same plan if it is only watched. */
static void check_progress(const network *net) {
    const cairn_solver *solver;
    for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL; i++) {
        cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
        cairn_error err = {0};
        cairn_solution *plain, *watched, *ended;
        patience endless = {0, UINT32_MAX}, none = {0, 0};
        options.machine = &net->machine;
        options.budget_bytes = net->none->layout->arena_bytes / 4 * 3;
        if (cairn_solve(net->graph, net->costs, solver->name, &options, &plain, &err) != CAIRN_OK)
            continue;
        options.progress = is_patient;
        options.progress_context = &endless;
        CHECK_OK(cairn_solve(net->graph, net->costs, solver->name, &options, &watched, &err), &err);
        CHECK(endless.asked > 0);
        CHECK(time_of(plain) == time_of(watched));
        options.progress_context = &none;
        CHECK(cairn_solve(net->graph, net->costs, solver->name, &options, &ended, &err) ==
              CAIRN_ECANCELED);
        CHECK(ended == NULL && none.asked > 0 && err.message[0] != '\0');
        cairn_solution_destroy(plain);
        cairn_solution_destroy(watched);
    }
}

int main(void) {
    static const char *const names[] = {"alexnet", "rnn"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        network net = open_network(names[i]);
        check_judgement(&net, net.none);
        check_costs_hash(&net);
        for (uint32_t percent = 1; percent <= 100; percent += 30) {
            check_best(&net, percent, false);
            check_best(&net, percent, true);
        }
        check_no_budget(&net);
        check_options(&net);
        close_network(&net);
    }
    network net = open_network("alexnet");
    check_named_offload(&net);
    check_progress(&net);
    close_network(&net);
    net = open_network("resnet50");
    check_fused(&net);
    close_network(&net);
    return check_result();
}
