/* train_page.c: `cairn train --html`: the page of the plan that was carried out, with the times
 * that the last step took. */
#include "training.h"

#include <stdlib.h>

/* From how long the compute lane spent on every step to when it began and ended. Copies have lanes
 * of their own, which are not timed: they begin as measured and last as predicted. */
static void place_steps(const cairn_solution *solution, const int64_t *times, uint32_t count,
                        cairn_sim_step *out) {
    const cairn_step *steps = solution->plan->steps;
    count = solution->plan->step_count;
    const cairn_sim_step *predicted = solution->sim->steps;
    int64_t now = 0, free_at[2] = {0, 0}; /* of the lanes out and in */
    for (uint32_t i = 0; i < count; i++) {
        out[i] = (cairn_sim_step){.start_ns = now, .end_ns = now + times[i]};
        now = out[i].end_ns;
        if (steps[i].kind != CAIRN_STEP_OFFLOAD && steps[i].kind != CAIRN_STEP_FETCH)
            continue;
        int64_t *lane = &free_at[steps[i].kind == CAIRN_STEP_FETCH];
        if (out[i].start_ns < *lane)
            out[i].start_ns = *lane;
        out[i].end_ns = out[i].start_ns + predicted[i].end_ns - predicted[i].start_ns;
        *lane = out[i].end_ns;
    }
}

int cli_train_write_page(const cli_training *t) {
    cairn_exec_figures figures = *cairn_exec_get_figures(cairn_train_exec(t->train));
    if (cli_value(t->args, "html") == NULL && cli_value(t->args, "against") == NULL)
        return CLI_DONE;
    cairn_sim_step *measured = calloc((size_t)figures.time_count + 1, sizeof *measured);
    if (measured == NULL)
        return cli_fail(CAIRN_ENOMEM, NULL);
    bool ran = cli_train_steps(t) > t->first_step; /* a finished run may be resumed */
    place_steps(t->solution, figures.times, figures.time_count, measured);
    int code = cli_write_page(t->args, &t->model, t->solution, figures.stationary_bytes,
                              t->limit.plan_bytes, ran ? measured : NULL);
    free(measured);
    return code;
}
