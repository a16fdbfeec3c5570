/* command_plan.c: `cairn plan MODEL`, from a budget to a plan and what it costs. */
#include "model.h"
#include "picture.h"
#include "plan_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which limit was asked for. */
typedef struct limits {
    uint64_t arena;      /* of the memory a plan controls; 0: none */
    uint64_t given;      /* what the option said, in bytes */
    uint64_t stationary; /* the part of it that is spent already; 0 for --activation-budget */
} limits;

/* That nothing fits, in the terms of the option that was given. */
static int no_fit(const limits *limit, const char *algorithm, const cairn_error *err) {
    if (err->smallest_budget == 0)
        return cli_fail(CAIRN_INFEASIBLE, err);
    char by[64] = "";
    if (algorithm != NULL)
        snprintf(by, sizeof by, " by \"%.50s\"", algorithm);
    fprintf(stderr,
            "cairn: no plan%s fits a budget of %s; the smallest that would do is %llu bytes", by,
            cli_bytes(limit->given),
            (unsigned long long)(err->smallest_budget + limit->stationary));
    if (limit->stationary > 0)
        fprintf(stderr, ": %s for parameters, gradients and optimiser state, %s for the rest",
                cli_bytes(limit->stationary), cli_bytes(err->smallest_budget));
    fprintf(stderr, ", set by op \"%s\"\n", err->name);
    return CLI_NO_FIT;
}

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
    *out = (limits){0};
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
    out->given = given->bytes;
    out->stationary = total.given ? stationary : 0;
    /* Where nothing is left, one byte is: then the algorithms say how much would do. */
    out->arena = out->given > out->stationary ? out->given - out->stationary : 1;
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
        if (status == CAIRN_ENOMEM || status == CAIRN_ESYSTEM) {
            cairn_plan_destroy(plan);
            return cli_fail(status, &err);
        }
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
    return *out != NULL ? CLI_DONE : no_fit(limit, NULL, &first);
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
        fprintf(stderr, "cairn: %s; the algorithms are", err.message);
        const cairn_solver *solver;
        for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL; i++)
            fprintf(stderr, "%s %s", i > 0 ? "," : "", solver->name);
        fprintf(stderr, "\n");
        return CLI_WRONG_INPUT;
    }
    if (status == CAIRN_INFEASIBLE)
        return no_fit(limit, algorithm, &err);
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
    const char *output = cli_value(args, "output");
    bool to_stdout = output != NULL && strcmp(output, "-") == 0; /* then nothing else goes there */
    if (code == CLI_DONE)
        cli_model_sign(&model, plan);
    if (code == CLI_DONE && !to_stdout)
        code = cli_report_plan(args, &model, plan, (uint32_t)slots, limit.arena);
    if (code == CLI_DONE && output != NULL)
        code = cli_write_plan(&model, plan, output);
    if (code == CLI_DONE && cli_value(args, "picture") != NULL)
        code = cli_draw_checkpoints(&model, cairn_plan_get_header(plan)->algorithm, seed,
                                    cli_value(args, "picture"));
    cairn_plan_destroy(plan);
    cli_model_close(&model);
    return code;
}

static bool list_algorithms(uint32_t index, cli_named *out) {
    const cairn_solver *solver = cairn_solver_list(index);
    if (solver != NULL)
        *out = (cli_named){solver->name, solver->summary};
    return solver != NULL;
}

static const cli_option options[] = {
    {"algorithm", 'a', "NAME", "see below; without it the fastest plan that fits is taken"},
    {"budget", 0, "SIZE", "limit for everything: 8GiB, 500MB, or 40% of what none needs"},
    {"activation-budget", 0, "SIZE", "limit without parameters, their gradients, optimiser state"},
    CLI_MODEL_OPTIONS,
    CLI_COST_OPTIONS,
    {"optimizer-slots", 0, "N", "tensors per parameter that the optimiser keeps (default 1)"},
    {"seed", 0, "N", "of algorithms that draw random numbers"},
    {"output", 'o', "FILE",
     "write the plan: as text, or as JSON where FILE ends in .json; - prints it"},
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
    .list_title = "Algorithms",
    .list = list_algorithms,
    .run = run,
};
