/* sweeping.c: see sweeping.h.
 *
 *     none        auto ...........................
 *     (first)     precise, offload-best, vdnn, ...   each thread takes the next algorithm
 *
 * `auto` takes the longest, so it is the first. Each thread has a memo of its own. */
#include "sweeping.h"

#include "cairn/budget.h"

#include "terminal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_THREADS 8

/* Plans that were made, of all that may be: an algorithm that ends early counts as done. */
static void show_progress(cli_sweep *s, const char *algorithm, uint32_t plans) {
    uint32_t done = atomic_fetch_add(&s->done, plans) + plans;
    if (s->args != NULL && s->total > 0)
        cli_progress(s->args, "sweep: %u%%, %s", 100 * done / s->total, algorithm);
}

/* ---- One algorithm ---- */

/* One plan. CAIRN_INFEASIBLE and CAIRN_EINVAL (it does not apply) leave no point. */
static cairn_status try_budget(const cli_sweep *s, const cli_model *model, cli_curve *c,
                               uint64_t budget, cairn_error *err) {
    cairn_solution *solution;
    cairn_status status = cli_solve(model, c->solver->name, budget, 1, &solution, err);
    if (status == CAIRN_OK && c->count < CLI_MOST_POINTS) {
        const cairn_sim_summary *result = solution->sim->summary;
        cli_model_sign(model, solution->plan);
        cli_point *point = &c->points[c->count++];
        *point = (cli_point){.budget = budget,
                             .peak = result->peak_bytes,
                             .arena = solution->layout->arena_bytes,
                             .time = result->time_ns,
                             .bound = solution->lower_bound_ns};
        point->memory = point->arena;
        if (s->stationary > 0)
            point->memory += s->stationary - result->home_bytes;
        if (s->keep) {
            c->points[c->count - 1].solution = solution;
            solution = NULL;
        }
    }
    if (status == CAIRN_INFEASIBLE) {
        c->floor = err->smallest_budget;
        snprintf(c->floor_op, sizeof c->floor_op, "%s", err->name);
    }
    cairn_solution_destroy(solution);
    return status;
}

/* From all that none needs downwards, and the floor itself where a budget is below it. */
static cairn_status sweep_budgets(cli_sweep *s, const cli_model *model, cli_curve *c,
                                  cairn_error *err) {
    for (uint32_t percent = 100; percent >= s->step; percent -= s->step) {
        c->tried++;
        show_progress(s, c->solver->name, 1);
        cairn_status status = try_budget(s, model, c, s->none_memory / 100 * percent, err);
        if (status == CAIRN_INFEASIBLE)
            return try_budget(s, model, c, c->floor, err);
        if (status != CAIRN_OK)
            return status;
    }
    return CAIRN_OK;
}

/* A plan for less memory is a plan for more. Budgets fall. */
static void keep_faster(cli_curve *c) {
    for (uint32_t i = c->count; i-- > 1;) {
        cli_point *more = &c->points[i - 1];
        const cli_point *less = &c->points[i];
        if (more->time <= less->time)
            continue;
        more->peak = less->peak;
        more->arena = less->arena;
        more->memory = less->memory;
        more->time = less->time;
    }
}

/* That an algorithm does not apply, or not to a budget, is no error. */
static cairn_status sweep_curve(cli_sweep *s, const cli_model *model, cli_curve *c,
                                cairn_error *err) {
    cairn_status status =
        c->solver->budgeted ? sweep_budgets(s, model, c, err) : try_budget(s, model, c, 0, err);
    show_progress(s, c->solver->name, 100 / s->step - c->tried);
    keep_faster(c);
    return status == CAIRN_EINVAL || status == CAIRN_INFEASIBLE ? CAIRN_OK : status;
}

/* ---- All of them ---- */

typedef struct work {
    cli_sweep *sweep;
    pthread_mutex_t lock; /* of what follows */
    cli_curve *waiting[CLI_MOST_CURVES];
    uint32_t next, count;
    cairn_status status; /* the first that is not CAIRN_OK, and its error */
    cairn_error *err;
} work;

static cli_curve *next_curve(work *w) {
    pthread_mutex_lock(&w->lock);
    cli_curve *next = w->status == CAIRN_OK && w->next < w->count ? w->waiting[w->next++] : NULL;
    pthread_mutex_unlock(&w->lock);
    return next;
}

static void report(work *w, cairn_status status, const cairn_error *err) {
    pthread_mutex_lock(&w->lock);
    if (w->status == CAIRN_OK && status != CAIRN_OK) {
        w->status = status;
        *w->err = *err;
    }
    pthread_mutex_unlock(&w->lock);
}

static void *sweep_some(void *context) {
    work *w = context;
    cli_model own = *w->sweep->model;
    cairn_error err = {0};
    cli_curve *c;
    cairn_status status = cairn_memo_create(NULL, &own.memo, &err);
    while (status == CAIRN_OK && (c = next_curve(w)) != NULL)
        status = sweep_curve(w->sweep, &own, c, &err);
    report(w, status, &err);
    cairn_memo_destroy(own.memo);
    return NULL;
}

/* Where there are too few threads, those that there are do more. */
static cairn_status sweep_waiting(work *w) {
    pthread_t threads[MOST_THREADS];
    uint32_t processors = cairn_count_threads(0);
    uint32_t started = 0;
    pthread_mutex_init(&w->lock, NULL);
    while (started + 1 < MOST_THREADS && started + 1 < processors &&
           pthread_create(&threads[started], NULL, sweep_some, w) == 0)
        started++;
    sweep_some(w);
    while (started > 0)
        pthread_join(threads[--started], NULL);
    pthread_mutex_destroy(&w->lock);
    return w->status;
}

/* Add the curve of a solver. One that searches takes the longest and goes to the front. */
static void add_curve(cli_sweep *s, work *w, const cairn_solver *solver) {
    cli_curve *c = &s->curves[s->count++];
    *c = (cli_curve){.solver = solver};
    w->waiting[w->count++] = c;
    if (solver->searches) {
        w->waiting[w->count - 1] = w->waiting[0];
        w->waiting[0] = c;
    }
}

/* All others need to know what none needs. */
static cairn_status sweep_none(cli_sweep *s, cli_curve *none, cairn_error *err) {
    cairn_status status = sweep_curve(s, s->model, none, err);
    s->none_memory = none->points[0].memory;
    s->none_time = none->points[0].time;
    return status;
}

static void leave_out_empty(cli_sweep *s) {
    uint32_t count = s->count;
    s->count = 0;
    for (uint32_t k = 0; k < count; k++)
        if (s->curves[k].count > 0)
            s->curves[s->count++] = s->curves[k];
}

cairn_status cli_sweep_run(cli_sweep *s, cairn_error *err) {
    const cairn_solver *solver;
    work w = {.sweep = s, .err = err};
    s->count = 0;
    s->curves = calloc(CLI_MOST_CURVES, sizeof *s->curves);
    if (s->curves == NULL)
        return CAIRN_ENOMEM;
    cairn_status status = CAIRN_OK;
    for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL && s->count < CLI_MOST_CURVES; i++)
        if (solver->goal == CAIRN_GOAL_TRAIN && !(solver->offloads && cli_model_stays(s->model)))
            add_curve(s, &w, solver);
    s->total = w.count * (100 / s->step);
    for (uint32_t k = 0; k < w.count && status == CAIRN_OK; k++)
        if (strcmp(w.waiting[k]->solver->name, "none") == 0) {
            status = sweep_none(s, w.waiting[k], err);
            w.waiting[k] = w.waiting[--w.count];
        }
    if (status == CAIRN_OK)
        status = sweep_waiting(&w);
    if (s->args != NULL)
        cli_progress_clear(s->args);
    leave_out_empty(s);
    return status;
}

void cli_sweep_release(cli_sweep *s) {
    for (uint32_t k = 0; k < s->count; k++)
        for (uint32_t i = 0; i < s->curves[k].count; i++)
            cairn_solution_destroy(s->curves[k].points[i].solution);
    free(s->curves);
    *s = (cli_sweep){0};
}
