/* solve.c: finds the algorithm, and checks that its plan fits the budget.
 *
 *     algorithm -> schedule -> lower -> simulate -> layout -> within the budget?
 *         ^                                                        | no: take the excess off
 *         +--------------------------------------------------------+
 *
 * The figures of a solver are never used: the peak in a plan's header is the one that the simulator
 * found. */
#include "cairn/budget.h"
#include "plan/crn_plan.h"
#include "solve/solver.h"

#include "base/watch.h"
#include "layout/crn_layout.h"
#include "solve/solve_homes.h"
#include "solve/solve_whole.h"
#include "solve/keep_fused.h"
#include "solve/solution.h"

static const cairn_solver solvers[] = {
#define X(identifier, name, goal, budgeted, offloads, searches, summary)                           \
    {name, summary, goal, budgeted, offloads, searches},
#include "solve/solvers.def"
#undef X
};

#define X(identifier, name, goal, budgeted, offloads, searches, summary)                           \
    crn_solver crn_solve_##identifier;
#include "solve/solvers.def"
#undef X

static crn_solver *const functions[] = {
#define X(identifier, name, goal, budgeted, offloads, searches, summary) crn_solve_##identifier,
#include "solve/solvers.def"
#undef X
};

const cairn_solver *cairn_solver_list(uint32_t index) {
    return index < CRN_LENGTH(solvers) ? &solvers[index] : NULL;
}

/* The bytes of an arena for what a simulation found to live, with little effort if `brief`. */
static cairn_status judge_arena(const crn_problem *problem, const cairn_sim *sim, bool brief,
                                uint64_t *out) {
    cairn_allocator allocator = crn_graph_allocator(problem->graph);
    uint64_t enough = problem->limit;
    uint64_t promise = crn_layout_promise(sim->summary->peak_bytes);
    if (brief && (enough == 0 || !problem->for_start))
        enough = enough == 0 ? promise : CRN_MIN(enough, promise);
    const cairn_lifetime *lifetimes = sim->lifetimes;
    uint32_t count = sim->lifetime_count;
    return crn_layout_size(&allocator, lifetimes, count, enough, brief, problem->memo, out,
                           problem->err);
}

cairn_status crn_judge(const crn_problem *problem, const cairn_plan *plan, bool brief,
                       crn_judgement *out) {
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    options.machine = problem->machine;
    options.no_holders = true;
    cairn_sim *sim = NULL;
    cairn_status status =
        cairn_simulate(problem->graph, problem->costs, plan, &options, &sim, problem->err);
    if (status == CAIRN_OK) {
        const cairn_sim_summary *summary = sim->summary;
        *out = (crn_judgement){.peak = summary->peak_bytes,
                               .arena = summary->peak_bytes,
                               .peak_step = summary->peak_step,
                               .time = summary->time_ns};
        if (!problem->live_peak)
            status = judge_arena(problem, sim, brief, &out->arena);
    }
    cairn_sim_destroy(sim);
    return status;
}

/* ---- One algorithm ---- */

static cairn_status solve_once(const crn_problem *problem, uint32_t which, cairn_solution **out,
                               bool *last) {
    crn_schedule schedule = {0};
    cairn_plan *plan;
    CRN_TRY(functions[which](problem, &schedule));
    /* What the algorithm has judged is lowered alike, for no budget. */
    uint64_t budget = problem->budget == UINT64_MAX || schedule.last ? 0 : problem->budget;
    CRN_TRY(crn_lower(problem->graph, problem->costs, &schedule, solvers[which].goal, budget, &plan,
                      problem->err));
    CRN_TRY(crn_solution_take(problem->graph, problem->costs, plan, problem->machine,
                              problem->live_peak, problem->memo, out, problem->err));
    CRN_TRY(crn_keep_fused(problem, &schedule, solvers[which].goal, out));
    (*out)->lower_bound_ns = schedule.lower_bound_ns;
    *last = schedule.last;
    return CAIRN_OK;
}

/* The memory of a solution that must be within the budget. */
static uint64_t memory_of(const crn_problem *problem, const cairn_solution *solution) {
    return problem->live_peak ? solution->sim->summary->peak_bytes : solution->layout->arena_bytes;
}

static cairn_status refuse(const crn_problem *problem, const cairn_solution *best, const char *name,
                           uint64_t budget) {
    const cairn_step *steps = best->plan->steps;
    uint32_t count = best->plan->step_count;
    uint64_t needed = memory_of(problem, best);
    /* The peak is at a run, or at a step before one. Then the next run is the op to name. */
    uint32_t peak = best->sim->summary->peak_step;
    while (peak + 1 < count && steps[peak].kind != CAIRN_STEP_RUN)
        peak++;
    const char *op = steps[peak].kind == CAIRN_STEP_RUN
                         ? cairn_graph_op(problem->graph, steps[peak].id)->name
                         : cairn_graph_tensor(problem->graph, steps[peak].id)->name;
    cairn_status status =
        crn_fail_at(problem->err, CAIRN_INFEASIBLE, op,
                    "\"%s\" cannot fit \"%s\" into %llu bytes; the smallest possible budget is "
                    "%llu bytes, set by op \"%s\"",
                    name, cairn_graph_name(problem->graph), (unsigned long long)budget,
                    (unsigned long long)needed, op);
    if (problem->err != NULL)
        problem->err->smallest_budget = needed;
    return status;
}

/* How much to subtract from the budget: the excess, and more in every round, because a layout may
 * not shrink. */
uint64_t crn_less_after(uint32_t round, uint64_t excess) {
    uint64_t less;
    return crn_mul_u64(excess, CRN_MAX(round + 1, 2), &less) ? less / 2 : excess;
}

/* Solve again with less memory while the arena exceeds the budget. */
static cairn_status solve_within(crn_problem *problem, uint32_t which, cairn_solution **out) {
    uint64_t budget = problem->budget;
    bool last = false;
    for (uint32_t round = 0; round < CRN_MOST_ROUNDS; round++) {
        cairn_solution_destroy(*out);
        *out = NULL;
        CRN_TRY(solve_once(problem, which, out, &last));
        uint64_t needed = memory_of(problem, *out);
        if (needed <= budget)
            return CAIRN_OK;
        uint64_t less = crn_less_after(round, needed - budget);
        uint64_t peak = (*out)->sim->summary->peak_bytes;
        if (last || peak <= 1 || peak > problem->budget)
            break; /* less memory will not help */
        /* below the plan's peak, or the plan would not change */
        problem->budget = peak - CRN_MIN(less, peak - 1);
    }
    return refuse(problem, *out, solvers[which].name, budget);
}

/* Write the name of the algorithm into the plan's header. */
static void sign(cairn_solution *solution, const char *algorithm) {
    cairn_plan_header header = *solution->plan->header;
    crn_copy_string(header.algorithm, sizeof header.algorithm, algorithm);
    header.predicted_peak_bytes = solution->sim->summary->peak_bytes;
    (void)!cairn_plan_set_header(solution->plan, &header, NULL); /* its size is set */
}

/* If no plan fits, `*out` is nevertheless the one that needs the least memory; the caller destroys
 * it. */
static cairn_status solve_by(const cairn_graph *graph, const cairn_costs *costs, uint32_t which,
                             const cairn_solve_options *options, uint32_t share,
                             cairn_solution **out, cairn_error *err) {
    crn_arena scratch;
    cairn_allocator allocator = crn_graph_allocator(graph);
    crn_watch watch;
    crn_arena_init(&scratch, &allocator);
    crn_watch_begin(&watch, options->progress, options->progress_context, &scratch);
    void *kept = NULL;
    crn_problem problem = {.algorithm = solvers[which].name,
                           .graph = graph,
                           .costs = costs,
                           .machine = options->machine,
                           .budget =
                               options->budget_bytes == 0 ? UINT64_MAX : options->budget_bytes,
                           .limit = options->budget_bytes,
                           .seed = options->seed,
                           .cost_model = options->cost_model,
                           .no_offload = options->no_offload,
                           .live_peak = options->live_peak,
                           .effort = CRN_MAX(options->effort, 1),
                           .share = share,
                           .memo = options->memo,
                           .scratch = &scratch,
                           .kept = &kept,
                           .err = err};
    *out = NULL;
    crn_error_clear(err);
    cairn_status status = crn_watch_status(&watch, solve_within(&problem, which, out), err);
    crn_arena_release(&scratch);
    if (status == CAIRN_OK && (*out)->lower_bound_ns == 0)
        status = crn_solution_certify(graph, costs, options, *out, err);
    if (*out != NULL)
        sign(*out, solvers[which].name);
    return status;
}

static int64_t time_of(const cairn_solution *solution) {
    return crn_solution_time(solution);
}

/* If the plan to start from fits and the new one is not faster, keep the plan to start from. */
static cairn_status compare_with_start(const cairn_graph *graph, const cairn_costs *costs,
                                       const cairn_solve_options *options, cairn_status status,
                                       cairn_solution **out, cairn_error *err) {
    cairn_solution *start;
    cairn_plan *copy;
    cairn_error own;
    if (crn_plan_copy(options->start, &copy) != CAIRN_OK)
        return crn_fail_memory(err);
    cairn_status legal =
        crn_solution_take(graph, costs, copy, options->machine, false, options->memo, &start, &own);
    if (legal != CAIRN_OK)
        return legal == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
    uint64_t needed =
        options->live_peak ? start->sim->summary->peak_bytes : start->layout->arena_bytes;
    bool fits = options->budget_bytes == 0 || needed <= options->budget_bytes;
    bool faster = fits && (status != CAIRN_OK || time_of(start) < time_of(*out));
    cairn_solution *other = faster ? *out : start;
    if (faster) {
        *out = start;
        crn_error_clear(err);
        status = crn_solution_certify(graph, costs, options, start, err);
    }
    cairn_solution_destroy(other);
    return status;
}

static cairn_status find_solver(const char *name, uint32_t *out, cairn_error *err) {
    for (uint32_t i = 0; i < CRN_LENGTH(solvers); i++)
        if (strcmp(solvers[i].name, name) == 0) {
            *out = i;
            return CAIRN_OK;
        }
    return crn_fail_at(err, CAIRN_EUNKNOWN, name, "there is no algorithm \"%s\"", name);
}

cairn_status crn_solve_round(const cairn_graph *graph, const cairn_costs *costs, const char *name,
                             const cairn_solve_options *options, uint32_t share,
                             cairn_solution **out, cairn_error *err) {
    uint32_t which = 0;
    *out = NULL;
    CRN_TRY(find_solver(name, &which, err));
    cairn_status status = options->device_bytes > 0
                              ? crn_solve_whole(graph, costs, name, options, out, err)
                              : solve_by(graph, costs, which, options, share, out, err);
    if (status == CAIRN_OK && options->homes != NULL)
        status = crn_solve_with_homes(graph, costs, options, out, err);
    if (options->start != NULL && options->device_bytes == 0 &&
        (status == CAIRN_OK || status == CAIRN_INFEASIBLE))
        status = compare_with_start(graph, costs, options, status, out, err);
    if (status == CAIRN_OK)
        status = crn_solution_gather(graph, costs, options, *out, err);
    if (status == CAIRN_OK)
        return CAIRN_OK;
    cairn_solution_destroy(*out);
    *out = NULL;
    return status;
}

cairn_status crn_solve_least(const cairn_graph *graph, const cairn_costs *costs, const char *name,
                             const cairn_solve_options *given, cairn_solution **out,
                             cairn_error *err) {
    cairn_solve_options options = *given;
    uint32_t which = 0;
    *out = NULL;
    options.budget_bytes = 1;
    options.effort = 1; /* of every refusal, or they would name different budgets */
    CRN_TRY(find_solver(name, &which, err));
    cairn_status status = solve_by(graph, costs, which, &options, 1, out, err);
    if (status == CAIRN_OK || (status == CAIRN_INFEASIBLE && *out != NULL))
        return CAIRN_OK;
    cairn_solution_destroy(*out);
    *out = NULL;
    return status;
}

/* Keep the faster one of two solutions, and what either knows about all plans. */
static void keep_faster(cairn_solution **best, cairn_solution *other) {
    int64_t bound = CRN_MAX((*best)->lower_bound_ns, other->lower_bound_ns);
    bool faster = time_of(other) < time_of(*best);
    cairn_solution_destroy(faster ? *best : other);
    *best = faster ? other : *best;
    (*best)->lower_bound_ns = CRN_MIN(bound, time_of(*best));
}

/* A longer search is another search, which may find a slower plan. So there is a search of effort
 * 1, of 2, of 4, and so on while their sum is within the given effort, and the fastest plan counts:
 * a larger effort does all that a smaller one does. */
static cairn_status solve_rounds(const cairn_graph *graph, const cairn_costs *costs,
                                 const char *name, cairn_solve_options *options,
                                 cairn_solution **out, cairn_error *err) {
    uint64_t effort = options->effort, spent = 1;
    options->effort = 1;
    CRN_TRY(crn_solve_round(graph, costs, name, options, 1, out, err));
    for (uint64_t next = 2; spent + next <= effort; next *= 2) {
        cairn_solution *other;
        if (time_of(*out) == (*out)->lower_bound_ns)
            return CAIRN_OK;
        if (options->progress != NULL &&
            !options->progress(options->progress_context, spent, effort))
            return crn_fail_cancelled(err);
        options->effort = (uint32_t)next;
        cairn_status status = crn_solve_round(graph, costs, name, options, 1, &other, err);
        if (status == CAIRN_OK)
            keep_faster(out, other);
        else if (status != CAIRN_INFEASIBLE)
            return status;
        spent += next;
    }
    crn_error_clear(err);
    return CAIRN_OK;
}

cairn_status cairn_solve(const cairn_graph *graph, const cairn_costs *costs, const char *name,
                         const cairn_solve_options *given, cairn_solution **out, cairn_error *err) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_machine machine = CAIRN_MACHINE_INIT;
    *out = NULL;
    crn_error_clear(err);
    CRN_READ_OPTIONS(cairn_solve_options, options, given, err);
    CRN_READ_LOCAL(cairn_machine, machine, &options.machine, err);
    if (name == NULL)
        name = options.budget_bytes > 0 || options.device_bytes > 0 ? "auto" : "none";
    uint32_t which = 0;
    CRN_TRY(find_solver(name, &which, err));
    if (!solvers[which].searches)
        options.effort = 1;
    cairn_allocator allocator = crn_graph_allocator(graph);
    cairn_memo *own = NULL; /* layouts are judged and made in several places */
    if (options.memo == NULL)
        CRN_TRY(cairn_memo_create(&allocator, &own, err));
    options.memo = own != NULL ? own : options.memo;
    cairn_status status = solve_rounds(graph, costs, name, &options, out, err);
    if (status != CAIRN_OK) {
        cairn_solution_destroy(*out);
        *out = NULL;
    }
    cairn_memo_destroy(own);
    return status;
}
