/* fit.c: the largest batch whose plan fits a budget.
 *
 *     fits                        fails
 *      |---------- guess ----------|      memory grows about as the batch does, so the first that
 *                                         does not fit tells nearly what will
 *
 * A solver can take seconds, and bisection would call it ten times. If guesses do not help, the
 * search falls back to bisection. */
#include "base/crn_base.h"
#include "cairn/budget.h"

#define LARGEST_BATCH ((uint32_t)1 << 24)
#define MOST_GUESSES 4u

/* The state of the search for the largest batch. */
typedef struct search {
    cairn_fit_options options;
    uint64_t budget;
    uint32_t fits, fails; /* 0: none yet */
    uint32_t tries, guesses;
} search;

/* Solve for one batch. CAIRN_OK: the result is filled in. CAIRN_INFEASIBLE: the error says why it
 * does not fit. */
static cairn_status try_batch(const search *s, uint32_t batch, cairn_fit_result *out,
                              cairn_error *err) {
    cairn_graph *graph = NULL;
    cairn_costs *costs = NULL;
    cairn_solution *solution = NULL;
    cairn_status status = s->options.open(s->options.context, batch, &graph, &costs, err);
    if (status == CAIRN_OK)
        status = cairn_solve(graph, costs, s->options.algorithm, s->options.solve, &solution, err);
    if (status == CAIRN_OK) {
        out->batch = batch;
        out->time_ns = solution->sim->summary->time_ns;
        out->arena_bytes = solution->layout->arena_bytes;
        out->lower_bound_ns = solution->lower_bound_ns;
        out->device_bytes = out->arena_bytes + cairn_stationary_bytes(graph, costs, 0) -
                            solution->sim->summary->home_bytes;
    } else if (status == CAIRN_INFEASIBLE) {
        out->next_bytes = err->smallest_budget;
        crn_copy_string(out->stopped_by, sizeof out->stopped_by, err->name);
    } else if (status == CAIRN_EOVERFLOW) {
        out->next_bytes = UINT64_MAX;
        status = CAIRN_INFEASIBLE;
    }
    cairn_solution_destroy(solution);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
    return status;
}

static uint32_t next_batch(search *s, const cairn_fit_result *known) {
    if (s->fails == 0)
        return s->tries == 0 ? s->options.hint : s->tries == 1 ? s->fits + 1 : 2 * s->fits;
    if (s->guesses++ >= MOST_GUESSES || known->next_bytes == UINT64_MAX)
        return s->fits + (s->fails - s->fits) / 2;
    double guess = (double)s->fails * (double)s->budget / (double)known->next_bytes;
    return CRN_MIN(CRN_MAX((uint32_t)guess, s->fits + 1), s->fails - 1);
}

static cairn_status find_largest(search *s, cairn_fit_result *out, cairn_error *err) {
    for (; (s->fails == 0 || s->fails > s->fits + 1) && s->fits < LARGEST_BATCH; s->tries++) {
        uint32_t batch = next_batch(s, out);
        cairn_status status = try_batch(s, batch, out, err);
        if (status == CAIRN_OK)
            s->fits = batch;
        else if (status == CAIRN_INFEASIBLE)
            s->fails = batch;
        else
            return status;
    }
    crn_error_clear(err);
    return CAIRN_OK;
}

cairn_status cairn_fit(const cairn_fit_options *given, cairn_fit_result *out, cairn_error *err) {
    cairn_error own;
    cairn_solve_options solve = CAIRN_SOLVE_OPTIONS_INIT;
    search s = {.options = CAIRN_FIT_OPTIONS_INIT};
    cairn_fit_result made = {0};
    err = err != NULL ? err : &own; /* needed here to tell why a batch does not fit */
    crn_error_clear(err);
    CRN_OPEN_OUTPUT(cairn_fit_result, out, err);
    CRN_READ_OPTIONS(cairn_fit_options, s.options, given, err);
    CRN_READ_OPTIONS(cairn_solve_options, solve, s.options.solve, err);
    if (s.options.open == NULL || (solve.budget_bytes == 0 && solve.device_bytes == 0))
        return crn_fail(
            err, CAIRN_EINVAL,
            "finding the largest batch needs a budget and a function that opens a batch");
    s.budget = CRN_MAX(solve.budget_bytes, solve.device_bytes);
    s.options.hint = CRN_MAX(s.options.hint, 1);
    CRN_TRY(find_largest(&s, &made, err));
    crn_write_output(out, &made, sizeof made);
    return CAIRN_OK;
}
