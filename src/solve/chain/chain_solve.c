/* chain_solve.c: finds the algorithm, gives it a scratch arena, and simulates its answer. */
#include "solve/chain/chain_solve.h"

#include <assert.h>
#include <stdlib.h>

static const cairn_chain_algorithm algorithms[] = {
#define X(function, name, summary) {name, summary},
#include "solve/chain/chain_algorithms.def"
#undef X
};

static const crn_chain_solver solvers[] = {
#define X(function, name, summary) crn_chain_##function,
#include "solve/chain/chain_algorithms.def"
#undef X
};

const cairn_chain_algorithm *cairn_chain_algorithm_list(uint32_t index) {
    return index < CRN_LENGTH(algorithms) ? &algorithms[index] : NULL;
}

static crn_chain_solver find_solver(const char *name) {
    for (size_t i = 0; i < CRN_LENGTH(algorithms); i++)
        if (name == NULL || strcmp(algorithms[i].name, name) == 0)
            return solvers[i];
    return NULL;
}

/* What is public comes first, so that a pointer to it is a pointer to the whole. */
typedef struct solution {
    cairn_chain_solution public;
    crn_arena arena; /* this struct, the steps and the curve are allocated in it */
} solution;

void cairn_chain_solution_destroy(cairn_chain_solution *made) {
    if (made != NULL)
        crn_arena_destroy(&((solution *)made)->arena);
}

/* ---- Curves ---- */

static int by_budget(const void *x, const void *y) {
    const cairn_chain_point *p = x, *q = y;
    if (p->budget != q->budget)
        return p->budget < q->budget ? -1 : 1;
    return (p->cost > q->cost) - (p->cost < q->cost);
}

/* Make a falling step function of points in any order, in the solution's arena. */
static cairn_status fill_curve(crn_chain_points *points, solution *made) {
    cairn_chain_point *curve;
    CRN_TAKE(&made->arena, curve, points->length);
    if (points->length > 0)
        qsort(points->data, points->length, sizeof *points->data, by_budget);
    size_t count = 0;
    for (uint32_t i = 0; i < points->length; i++)
        if (count == 0 || points->data[i].cost < curve[count - 1].cost)
            curve[count++] = points->data[i];
    made->public.curve = curve;
    made->public.curve_count = count;
    return CAIRN_OK;
}

/* The curve of an algorithm that solves for one budget at a time: start where everything fits, and
 * solve again just below the peak of each answer until nothing fits. */
static cairn_status trace_curve(crn_chain_job *job, crn_chain_solver solve,
                                crn_chain_points *points) {
    crn_chain_job ask = *job;
    crn_arena arena; /* for one call of the algorithm */
    cairn_status status = CAIRN_OK;
    bool feasible = true;
    ask.budget = CRN_CHAIN_LIMIT;
    ask.options.curve = false;
    ask.arena = &arena;
    while (status == CAIRN_OK && feasible) {
        crn_arena_init(&arena, &job->arena->allocator);
        crn_chain_answer answer = {0};
        cairn_chain_verdict verdict = {0, 0};
        status = solve(&ask, &answer);
        feasible = answer.feasible;
        if (status == CAIRN_OK && feasible)
            status = cairn_chain_judge(job->problem, answer.steps.data, answer.steps.length,
                                       &verdict, job->err);
        crn_arena_release(&arena);
        if (status == CAIRN_OK && feasible) {
            CRN_PUSH(job->arena, *points, ((cairn_chain_point){verdict.peak, verdict.cost}));
            feasible = verdict.peak > 0;
            ask.budget = verdict.peak - 1;
        }
    }
    return status;
}

/* ---- Solving ---- */

/* Fill in the solution, with cost and peak from the simulation. */
static cairn_status fill_solution(crn_chain_job *job, const crn_chain_answer *answer,
                                  solution *made) {
    cairn_chain_solution *out = &made->public;
    out->feasible = answer->feasible;
    out->min_budget = answer->min_budget;
    if (!answer->feasible)
        return CAIRN_OK;
    cairn_chain_verdict verdict;
    cairn_chain_step *steps;
    CRN_TRY(cairn_chain_judge(job->problem, answer->steps.data, answer->steps.length, &verdict,
                              job->err));
    assert(verdict.peak <= job->budget && answer->min_budget <= verdict.peak);
    out->cost = verdict.cost;
    out->peak = verdict.peak;
    out->bracketed = answer->bracketed;
    out->lower_bound = answer->bracketed ? answer->lower_bound : verdict.cost;
    CRN_TAKE(&made->arena, steps, answer->steps.length);
    memcpy(steps, answer->steps.data, answer->steps.length * sizeof *steps);
    out->steps = steps;
    out->step_count = answer->steps.length;
    return CAIRN_OK;
}

static cairn_status solve_in(crn_chain_job *job, crn_chain_solver solve, solution *made) {
    crn_chain_answer answer = {0};
    CRN_TRY(solve(job, &answer));
    CRN_TRY(fill_solution(job, &answer, made));
    if (!job->options.curve)
        return CAIRN_OK;
    if (!answer.has_curve)
        CRN_TRY(trace_curve(job, solve, &answer.curve));
    return fill_curve(&answer.curve, made);
}

static cairn_status refuse(const cairn_chain_problem *problem, uint64_t least, cairn_error *err) {
    crn_fail(err, CAIRN_INFEASIBLE,
             "no schedule fits a budget of %llu; the smallest possible budget is %llu",
             (unsigned long long)problem->budget, (unsigned long long)least);
    if (err != NULL)
        err->smallest_budget = least;
    return CAIRN_INFEASIBLE;
}

cairn_status cairn_chain_solve(const cairn_allocator *allocator, const cairn_chain_problem *problem,
                               const char *algorithm, const cairn_chain_options *options,
                               cairn_chain_solution **out, cairn_error *err) {
    *out = NULL;
    crn_error_clear(err);
    crn_chain_solver solve = find_solver(algorithm);
    if (solve == NULL)
        return crn_fail(err, CAIRN_EUNKNOWN, "there is no algorithm \"%.64s\" for chains",
                        algorithm);
    crn_arena scratch;
    crn_chain_job job = {
        .problem = problem, .arena = &scratch, .options = CAIRN_CHAIN_OPTIONS_INIT, .err = err};
    CRN_READ_OPTIONS(cairn_chain_options, job.options, options, err);
    CRN_TRY(cairn_chain_check(problem, err));
    crn_arena_init(&scratch, allocator);
    job.budget = CRN_MIN(problem->budget, (uint64_t)CRN_CHAIN_LIMIT);
    solution *made = CRN_OBJECT(allocator, solution, arena);
    cairn_status status = made == NULL ? CAIRN_ENOMEM : solve_in(&job, solve, made);
    crn_arena_release(&scratch);
    if (status != CAIRN_OK) {
        if (made != NULL)
            cairn_chain_solution_destroy(&made->public);
        return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
    }
    *out = &made->public;
    return made->public.feasible ? CAIRN_OK : refuse(problem, made->public.min_budget, err);
}
