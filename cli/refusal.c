/* refusal.c: see refusal.h. */
#include "refusal.h"

#include "planning.h"
#include "terminal.h"

#include <stdio.h>
#include <string.h>

#define MOST_TRIES 12
#define MIB ((uint64_t)1 << 20)

/* The least that a plan by `algorithm` needs, in the terms of cli_solve(): one byte is refused, and
 * the refusal names it. 0: not known. */
static uint64_t least_of(const cli_model *model, const char *algorithm) {
    cairn_error err = {0};
    cairn_solution *none = NULL;
    cairn_status status = cli_solve(model, algorithm, 1, 1, &none, &err);
    cairn_solution_destroy(none);
    return status == CAIRN_INFEASIBLE ? err.smallest_budget : 0;
}

static uint64_t least_with(const cli_args *args, const cli_model *like, const char *algorithm,
                           uint32_t batch) {
    cairn_error err = {0};
    cli_model model;
    cli_progress(args, "does a batch of %u fit?", batch);
    uint64_t least = 0;
    if (cli_model_with_batch(args, like, batch, &model, &err) == CAIRN_OK)
        least = least_of(&model, algorithm);
    cli_model_close(&model);
    return least;
}

/* Whether there is a plan at this batch. What `auto` says that it needs is always enough; the
 * budgets that other algorithms name are not tried by them. */
static bool fits_with(const cli_args *args, const cli_model *like, const char *algorithm,
                      uint64_t limit, uint32_t batch) {
    cairn_error err = {0};
    cli_model model;
    cairn_solution *found = NULL;
    if (cli_plans_all(algorithm))
        return true;
    cairn_status status = cli_model_with_batch(args, like, batch, &model, &err);
    if (status == CAIRN_OK)
        status = cli_solve(&model, algorithm, limit, 1, &found, &err);
    cairn_solution_destroy(found);
    cli_model_close(&model);
    return status == CAIRN_OK;
}

/* What a batch needs. */
typedef struct need {
    uint32_t batch;
    uint64_t bytes;
} need;

/* The largest batch within `limit` on the line through two needs. */
static double guess_batch(need a, need b, uint64_t limit) {
    double slope = ((double)b.bytes - (double)a.bytes) / ((double)b.batch - (double)a.batch);
    return slope <= 0 ? a.batch : a.batch + ((double)limit - (double)a.bytes) / slope;
}

/* A batch that fits `limit`, in the terms of cli_solve(), 0: none. The batch of the model needs
 * `least`, which is more. Memory grows about as the batch does: where the line between a batch that
 * fits and one that does not says that the first is the largest, that is believed. */
static uint32_t largest_batch(const cli_args *args, const cli_model *model, const char *algorithm,
                              uint64_t limit, uint64_t least) {
    need fits = {0, 0}, fails = {model->header.batch, least}, other = fits;
    if (!cairn_model_importer(model->header.model)->sized || least <= limit)
        return 0;
    for (int tries = 0; tries < MOST_TRIES && fails.batch - fits.batch > 1; tries++) {
        double guess = guess_batch(other, fails, limit);
        if (fits.batch > 0 && guess < fits.batch + 1)
            break;
        need next = {guess <= fits.batch + 1 ? fits.batch + 1
                     : guess >= fails.batch  ? fails.batch - 1
                                             : (uint32_t)guess,
                     0};
        next.bytes = least_with(args, model, algorithm, next.batch);
        if (next.bytes == 0)
            break;
        if (next.bytes <= limit)
            other = fits = next;
        else {
            other = fits.batch > 0 ? fits : fails; /* two that fail are a line, too */
            fails = next;
        }
    }
    while (fits.batch > 0 && !fits_with(args, model, algorithm, limit, fits.batch))
        fits.batch -= 1 + fits.batch / 16;
    cli_progress_clear(args);
    return fits.batch;
}

static void advise_batch(const cli_args *args, uint32_t batch, const char *option,
                         const char *budget) {
    char number[16];
    const char *const changes[][2] = {{"batch", number}, {option, budget}, {NULL, NULL}};
    snprintf(number, sizeof number, "%u", batch);
    if (batch == 0)
        return;
    fprintf(stderr, "  a smaller batch:  ");
    cli_print_command(stderr, args, changes);
}

static void advise_budget(const cli_args *args, const char *label, const char *option,
                          const char *budget) {
    const char *const changes[][2] = {{option, budget}, {NULL, NULL}};
    fprintf(stderr, "  %s:  ", label);
    cli_print_command(stderr, args, changes);
}

int cli_refuse_budget(const cli_args *args, const cli_model *model, const cairn_budget *limit,
                      const char *algorithm, cairn_error *err) {
    if (err->smallest_budget == 0)
        return cli_fail(CAIRN_INFEASIBLE, err);
    uint64_t smallest = err->smallest_budget + limit->stationary_bytes;
    const char *option = cli_value(args, "budget") != NULL ? "budget" : "activation-budget";
    char by[64] = "";
    if (algorithm != NULL)
        snprintf(by, sizeof by, " by \"%.50s\"", algorithm);
    fprintf(stderr,
            "cairn: no plan%s fits a budget of %s; the smallest possible budget is %s, %llu bytes",
            by, cli_bytes(limit->given_bytes), cli_bytes(smallest), (unsigned long long)smallest);
    if (limit->stationary_bytes > 0)
        fprintf(stderr, ": %s for parameters, gradients and optimiser state, %s for the rest",
                cli_bytes(limit->stationary_bytes), cli_bytes(err->smallest_budget));
    if (err->name[0] != '\0')
        fprintf(stderr, ", set by op \"%s\"", err->name);
    fprintf(stderr, "\n");
    advise_budget(args, "a larger budget", option, cli_budget_above(smallest));
    cli_size given;
    const char *budget = cli_value(args, option);
    uint64_t room = limit->plan_bytes;
    if (cli_size_value(args, option, &given) && given.percent) { /* of another whole */
        uint64_t typed = limit->given_bytes / MIB * MIB;
        budget = cli_budget_below(typed);
        room -= limit->given_bytes - typed < room ? limit->given_bytes - typed : room;
    }
    advise_batch(args, largest_batch(args, model, algorithm, room, err->smallest_budget), option,
                 budget);
    return CLI_NO_FIT;
}

int cli_refuse_machine(const cli_args *args, const cli_model *model, const char *algorithm,
                       uint64_t needed, uint64_t stationary, uint64_t memory) {
    uint64_t most = memory / 10 * 9; /* the rest is for the system and libraries */
    fprintf(stderr, "cairn: a step needs %s, and this machine has %s\n", cli_bytes(needed),
            cli_bytes(memory));
    uint64_t least = least_of(model, "auto");
    if (least > 0 && least + stationary <= most)
        advise_budget(args, "inside a budget", "budget", cli_budget_below(most));
    if (stationary < most)
        advise_batch(args,
                     largest_batch(args, model, algorithm, most - stationary, needed - stationary),
                     "budget", cli_value(args, "budget"));
    return CLI_NO_FIT;
}
