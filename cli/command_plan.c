/* command_plan.c: `cairn plan MODEL`, from a budget to a plan and what it costs. */
#include "model.h"
#include "picture.h"
#include "plan_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which limit was asked for, in bytes of the arena; 0: none. */
typedef struct limits {
    uint64_t arena;
    const char *words; /* what limits it, for a person */
} limits;

static cairn_status solve(const cli_model *model, const char *algorithm, uint64_t budget,
                          uint64_t seed, cairn_plan **out, cairn_error *err) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.budget_bytes = budget;
    options.machine = &model->machine;
    options.seed = seed;
    return cairn_solve(model->graph, model->costs, algorithm, &options, out, err);
}

/* The arena that `none` needs, of which percentages are. */
static int none_arena(const cli_model *model, uint64_t *out) {
    cairn_error err = {0};
    cairn_plan *plan = NULL;
    cairn_report *report = NULL;
    cairn_status status = solve(model, "none", 0, 0, &plan, &err);
    if (status == CAIRN_OK)
        status = cairn_report_create(model->graph, model->costs, plan, NULL, 0, &report, &err);
    if (status == CAIRN_OK)
        *out = report->arena_bytes;
    cairn_report_destroy(report);
    cairn_plan_destroy(plan);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}

static uint64_t share(uint64_t whole, uint64_t ppm) {
    return whole / 1000000 * ppm + whole % 1000000 * ppm / 1000000;
}

static int read_limits(const cli_args *args, const cli_model *model, uint32_t slots, limits *out) {
    cli_size total, activation;
    *out = (limits){0, ""};
    if (!cli_size_value(args, "budget", &total) ||
        !cli_size_value(args, "activation-budget", &activation))
        return CLI_USAGE;
    if (total.given && activation.given)
        return cli_usage_error(args, "--budget and --activation-budget exclude each other");
    if (!total.given && !activation.given)
        return CLI_DONE;
    uint64_t none = 0, stationary = cairn_stationary_bytes(model->graph, model->costs, slots);
    cli_size *given = total.given ? &total : &activation;
    if (given->percent) {
        int code = none_arena(model, &none);
        if (code != CLI_DONE)
            return code;
        given->bytes = share(total.given ? none + stationary : none, given->bytes);
    }
    if (total.given && total.bytes <= stationary) {
        fprintf(stderr,
                "cairn: the budget of %s is used up by parameters, gradients and optimiser state, "
                "which take %s\n",
                cli_bytes(total.bytes), cli_bytes(stationary));
        return CLI_NO_FIT;
    }
    out->arena = total.given ? total.bytes - stationary : activation.bytes;
    if (out->arena == 0) {
        fprintf(stderr, "cairn: a budget of 0 bytes fits nothing\n");
        return CLI_NO_FIT;
    }
    return CLI_DONE;
}

/* Try every algorithm that trains and take the fastest plan that fits. */
static int solve_best(const cli_model *model, const limits *limit, uint64_t seed,
                      cairn_plan **out) {
    cairn_error err = {0}, first = {0};
    const cairn_solver *solver;
    int64_t best = INT64_MAX;
    for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL; i++) {
        cairn_plan *plan = NULL;
        cairn_report *report = NULL;
        if (solver->goal != CAIRN_TRAIN)
            continue;
        cairn_status status = solve(model, solver->name, limit->arena, seed, &plan, &err);
        if (status == CAIRN_OK)
            status = cairn_report_create(model->graph, model->costs, plan, &model->machine, 0,
                                         &report, &err);
        if (status == CAIRN_ENOMEM || status == CAIRN_ESYSTEM)
            return cli_fail(status, &err);
        if (status == CAIRN_INFEASIBLE &&
            (first.smallest_budget == 0 || err.smallest_budget < first.smallest_budget))
            first = err;
        int64_t time = report == NULL ? INT64_MAX : cairn_sim_result(report->sim)->time_ns;
        cairn_report_destroy(report);
        if (time < best) {
            best = time;
            cairn_plan_destroy(*out);
            *out = plan;
            plan = NULL;
        }
        cairn_plan_destroy(plan);
    }
    return *out != NULL ? CLI_DONE : cli_fail(CAIRN_INFEASIBLE, &first);
}

static int make_plan(const cli_args *args, const cli_model *model, const limits *limit,
                     uint64_t seed, cairn_plan **out) {
    *out = NULL;
    const char *algorithm = cli_value(args, "algorithm");
    if (algorithm == NULL && limit->arena > 0)
        return solve_best(model, limit, seed, out);
    cairn_error err = {0};
    cairn_status status =
        solve(model, algorithm == NULL ? "none" : algorithm, limit->arena, seed, out, &err);
    if (status == CAIRN_EUNKNOWN) {
        fprintf(stderr, "cairn: %s; there are", err.message);
        const cairn_solver *solver;
        for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL; i++)
            fprintf(stderr, "%s %s", i > 0 ? "," : "", solver->name);
        fprintf(stderr, "\n");
        return CLI_WRONG_INPUT;
    }
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}

static int run(const cli_args *args) {
    cli_model model;
    uint64_t slots, seed;
    if (!cli_number(args, "optimizer-slots", 0, 8, 1, &slots) ||
        !cli_number(args, "seed", 0, UINT64_MAX, 0, &seed))
        return CLI_USAGE;
    int code = cli_model_open(args, cli_positional(args, 0), &model);
    if (code != CLI_DONE)
        return code;
    limits limit;
    cairn_plan *plan = NULL;
    code = read_limits(args, &model, (uint32_t)slots, &limit);
    if (code == CLI_DONE)
        code = make_plan(args, &model, &limit, seed, &plan);
    if (code == CLI_DONE) {
        cli_model_sign(&model, plan);
        code = cli_report_plan(args, &model, plan, (uint32_t)slots, limit.arena);
    }
    if (code == CLI_DONE && cli_value(args, "output") != NULL)
        code = cli_write_plan(&model, plan, cli_value(args, "output"));
    if (code == CLI_DONE && cli_value(args, "picture") != NULL)
        code = cli_draw_checkpoints(&model, cairn_plan_get_header(plan)->algorithm, seed,
                                    cli_value(args, "picture"));
    cairn_plan_destroy(plan);
    cli_model_close(&model);
    return code;
}

static const cli_option options[] = {
    {"algorithm", 'a', "NAME", "see below; without it the fastest plan that fits is taken"},
    {"budget", 0, "SIZE", "limit for everything: 8GiB, 500MB, or 40% of what none needs"},
    {"activation-budget", 0, "SIZE", "limit without parameters, their gradients, optimiser state"},
    CLI_MODEL_OPTIONS,
    CLI_COST_OPTIONS,
    {"optimizer-slots", 0, "N", "tensors per parameter that the optimiser keeps (default 1)"},
    {"seed", 0, "N", "of algorithms that draw random numbers"},
    {"output", 'o', "FILE", "write the plan: as text, or as JSON where FILE ends in .json"},
    CLI_REPORT_OPTIONS,
    {"picture", 0, "FILE", "draw the network, checkpoints in green, Chen's in red: .svg or .dot"},
    {NULL, 0, NULL, NULL},
};

const cli_command cli_command_plan = {
    .name = "plan",
    .arguments = "MODEL",
    .least = 1,
    .most = 1,
    .summary = "plan a training step inside a memory budget",
    .details =
        "MODEL is a network of 'cairn zoo' or a graph file. Prints the predicted peak, the time\n"
        "and its overhead over plain training, and what holds the memory at the peak.",
    .options = options,
    .run = run,
};
