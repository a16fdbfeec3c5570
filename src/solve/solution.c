/* solution.c: a plan together with its simulation and its layout. */
#include "cairn/papers/bounds.h"
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"
#include "plan/crn_plan.h"
#include "solve/solution.h"

#include "layout/crn_layout.h"
#include "sim/crn_sim.h"
#include "solve/problem_key.h"

typedef struct solution_memory {
    cairn_solution solution;
    cairn_allocator allocator;
} solution_memory;

void cairn_solution_destroy(cairn_solution *solution) {
    if (solution == NULL)
        return;
    solution_memory *memory = solution->memory;
    cairn_allocator allocator = memory->allocator;
    cairn_layout_destroy(solution->layout);
    cairn_sim_destroy(solution->sim);
    cairn_plan_destroy(solution->plan);
    crn_resize(&allocator, memory, sizeof *memory, 0);
}

int64_t crn_solution_step_ns(const cairn_solution *solution, uint32_t micro_batches,
                             int64_t update_ns) {
    int64_t time = solution->sim->summary->time_ns;
    int64_t before = solution->gather_ns > 0 ? solution->gather_ns : time;
    if (micro_batches == 0)
        return update_ns;
    if (before > INT64_MAX / micro_batches)
        return INT64_MAX;
    return crn_add_time(crn_add_time(before * (micro_batches - 1), time), update_ns);
}

int64_t crn_solution_time(const cairn_solution *solution) {
    return crn_solution_step_ns(solution, solution->micro_batches, 0);
}

cairn_status crn_solution_gather(const cairn_graph *graph, const cairn_costs *costs,
                                 const cairn_solve_options *given, cairn_solution *solution,
                                 cairn_error *err) {
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    cairn_sim *sim;
    if (given->micro_batches < 2 || solution->gather_ns > 0 || !crn_graph_has_updates(graph) ||
        solution->plan->header->goal != CAIRN_GOAL_TRAIN)
        return CAIRN_OK;
    options.machine = given->machine;
    options.no_holders = true;
    options.gathers = true;
    CRN_TRY(cairn_simulate(graph, costs, solution->plan, &options, &sim, err));
    solution->micro_batches = given->micro_batches;
    solution->gather_ns = sim->summary->time_ns;
    cairn_sim_destroy(sim);
    if (solution->lower_bound_ns > 0) {
        int64_t before = solution->lower_bound_ns - crn_sim_gather_saves(graph, costs);
        solution->lower_bound_ns = crn_add_time(
            solution->lower_bound_ns, CRN_MAX(before, 0) * (int64_t)(given->micro_batches - 1));
    }
    return CAIRN_OK;
}

int64_t crn_solution_gap_ppm(const cairn_solution *solution) {
    int64_t time = crn_solution_time(solution), bound = solution->lower_bound_ns;
    if (bound <= 0 || time <= bound)
        return 0;
    uint64_t gap = crn_mul_div_up((uint64_t)(time - bound), 1000000, (uint64_t)bound);
    return (int64_t)CRN_MIN(gap, (uint64_t)INT64_MAX);
}

static cairn_status judge(const cairn_graph *graph, const cairn_costs *costs,
                          const cairn_machine *machine, bool brief, cairn_memo *memo,
                          cairn_solution *s, cairn_error *err) {
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    cairn_allocator allocator = crn_graph_allocator(graph);
    options.machine = machine;
    CRN_TRY(cairn_simulate(graph, costs, s->plan, &options, &s->sim, err));
    const cairn_lifetime *lifetimes = s->sim->lifetimes;
    uint32_t count = s->sim->lifetime_count;
    return crn_layout_within(&allocator, lifetimes, count, brief ? UINT64_MAX : 0, brief, memo,
                             &s->layout, err);
}

cairn_status crn_solution_take(const cairn_graph *graph, const cairn_costs *costs, cairn_plan *plan,
                               const cairn_machine *machine, bool brief, cairn_memo *memo,
                               cairn_solution **out, cairn_error *err) {
    *out = NULL;
    cairn_allocator allocator = crn_graph_allocator(graph);
    solution_memory *memory = crn_resize(&allocator, NULL, 0, sizeof *memory);
    if (memory == NULL) {
        cairn_plan_destroy(plan);
        return crn_fail_memory(err);
    }
    *memory = (solution_memory){.solution = {.plan = plan, .memory = memory, .micro_batches = 1},
                                .allocator = allocator};
    memory->solution.costs_hash = crn_costs_memory_hash(costs);
    cairn_status status = judge(graph, costs, machine, brief, memo, &memory->solution, err);
    if (status == CAIRN_OK)
        *out = &memory->solution;
    else
        cairn_solution_destroy(&memory->solution);
    return status;
}

/* As cairn_time_bound(); the memo is asked first, if there is one. */
static cairn_status find_bound(const cairn_graph *graph, const cairn_costs *costs,
                               const cairn_solve_options *options, int64_t *out, cairn_error *err) {
    size_t bytes;
    void *place;
    if (options->memo == NULL)
        return cairn_time_bound(graph, costs, options, out, err);
    crn_key key = crn_problem_key(CRN_KEY_TIME_BOUND, graph, costs, options->machine);
    crn_key_add(&key, options->budget_bytes);
    crn_key_add(&key, options->no_offload);
    const int64_t *known = crn_memo_find(options->memo, key, &bytes);
    if (known != NULL) {
        *out = *known;
        return CAIRN_OK;
    }
    CRN_TRY(cairn_time_bound(graph, costs, options, out, err));
    if (crn_memo_add(options->memo, key, sizeof *out, &place) != CAIRN_OK)
        return crn_fail_memory(err);
    *(int64_t *)place = *out;
    return CAIRN_OK;
}

cairn_status crn_solution_certify(const cairn_graph *graph, const cairn_costs *costs,
                                  const cairn_solve_options *given, cairn_solution *solution,
                                  cairn_error *err) {
    cairn_solve_options options = *given;
    if (solution->plan->header->goal != CAIRN_GOAL_TRAIN)
        return CAIRN_OK;
    if (options.budget_bytes == 0)
        options.budget_bytes = CRN_MAX(solution->layout->arena_bytes, 1);
    return find_bound(graph, costs, &options, &solution->lower_bound_ns, err);
}

cairn_status cairn_solution_create(const cairn_graph *graph, const cairn_costs *costs,
                                   const cairn_plan *plan, const cairn_machine *given,
                                   cairn_solution **out, cairn_error *err) {
    cairn_plan *copy;
    cairn_machine machine = CAIRN_MACHINE_INIT;
    *out = NULL;
    crn_error_clear(err);
    CRN_READ_LOCAL(cairn_machine, machine, &given, err);
    if (crn_plan_copy(plan, &copy) != CAIRN_OK)
        return crn_fail_memory(err);
    CRN_TRY(crn_solution_take(graph, costs, copy, given, false, NULL, out, err));
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.machine = given;
    cairn_status status = crn_solution_certify(graph, costs, &options, *out, err);
    if (status != CAIRN_OK) {
        cairn_solution_destroy(*out);
        *out = NULL;
    }
    return status;
}
