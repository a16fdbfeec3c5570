/* planning.c: budgets, percentages and the choice among algorithms. */
#include "planning.h"

#include <stdio.h>

bool cli_list_algorithms(uint32_t index, cli_named *out) {
    const cairn_solver *solver = cairn_solver_list(index);
    if (solver != NULL)
        *out = (cli_named){solver->name, solver->summary};
    return solver != NULL;
}

cairn_status cli_solve(const cli_model *model, const char *algorithm, uint64_t arena, uint64_t seed,
                       cairn_plan **out, cairn_error *err) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.budget_bytes = arena;
    options.machine = &model->machine;
    options.seed = seed;
    options.cost_model = model->believed;
    return cairn_solve(model->graph, model->costs, algorithm, &options, out, err);
}

/* ---- Budgets ---- */

cairn_status cli_none_arena(const cli_model *model, uint64_t *out, cairn_error *err) {
    cairn_plan *plan = NULL;
    cairn_report *report = NULL;
    *out = 0;
    cairn_status status = cli_solve(model, "none", 0, 0, &plan, err);
    if (status == CAIRN_OK)
        status = cairn_report_create(model->graph, model->costs, plan, NULL, 0, &report, err);
    if (status == CAIRN_OK)
        *out = report->arena_bytes;
    cairn_report_destroy(report);
    cairn_plan_destroy(plan);
    return status;
}

uint64_t cli_share(uint64_t whole, uint64_t ppm) {
    return whole / 1000000 * ppm + whole % 1000000 * ppm / 1000000;
}

int cli_read_limits(const cli_args *args, const cli_model *model, uint32_t slots, cli_limits *out) {
    cli_size total, activation;
    *out = (cli_limits){0};
    if (!cli_size_value(args, "budget", &total) ||
        !cli_size_value(args, "activation-budget", &activation))
        return CLI_USAGE;
    if (total.given && activation.given)
        return cli_usage_error(args, "--budget and --activation-budget exclude each other");
    if (!total.given && !activation.given)
        return CLI_DONE;
    const cli_size *given = total.given ? &total : &activation;
    if (total.given)
        out->stationary = cairn_stationary_bytes(model->graph, model->costs, slots);
    out->given = given->bytes;
    if (given->percent) {
        cairn_error err = {0};
        uint64_t none;
        cairn_status status = cli_none_arena(model, &none, &err);
        if (status != CAIRN_OK)
            return cli_fail(status, &err);
        out->given = cli_share(none + out->stationary, given->bytes);
    }
    /* Where nothing is left, one byte is: then the algorithms say how much would do. */
    out->arena = out->given > out->stationary ? out->given - out->stationary : 1;
    return CLI_DONE;
}

/* That nothing fits, in the terms of the option that was given. */
static int no_fit(const cli_limits *limit, const char *algorithm, const cairn_error *err) {
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

/* ---- Algorithms ---- */

/* One algorithm's plan and its time. */
static cairn_status try_solver(const cli_model *model, const char *name, uint64_t arena,
                               uint64_t seed, cairn_plan **plan, int64_t *time, cairn_error *err) {
    cairn_report *report = NULL;
    *time = INT64_MAX;
    cairn_status status = cli_solve(model, name, arena, seed, plan, err);
    if (status == CAIRN_OK)
        status = cairn_report_create(model->graph, model->costs, *plan, &model->machine, 0, &report,
                                     err);
    if (status == CAIRN_OK)
        *time = cairn_sim_result(report->sim)->time_ns;
    cairn_report_destroy(report);
    return status;
}

/* A plan that fits joins the comparison; true if it is the fastest so far. */
static bool compare(cli_choice *choice, const char *name, int64_t time, const char **best) {
    choice->fitting++;
    bool faster = *best == NULL || time < choice->time;
    if (faster ? *best != NULL : choice->second == NULL || time < choice->second_time) {
        choice->second = faster ? *best : name;
        choice->second_time = faster ? choice->time : time;
    }
    if (faster) {
        *best = name;
        choice->time = time;
    }
    return faster;
}

cairn_status cli_solve_best(const cli_model *model, uint64_t arena, uint64_t seed, cairn_plan **out,
                            cli_choice *choice, cairn_error *err) {
    cairn_error smallest = {.status = CAIRN_INFEASIBLE};
    const cairn_solver *solver;
    const char *best = NULL;
    int64_t time;
    *out = NULL;
    *choice = (cli_choice){0};
    for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL; i++) {
        cairn_plan *plan = NULL;
        if (solver->goal != CAIRN_TRAIN || (solver->offloads && model->one_memory))
            continue;
        cairn_status status = try_solver(model, solver->name, arena, seed, &plan, &time, err);
        if (status == CAIRN_INFEASIBLE &&
            (smallest.smallest_budget == 0 || err->smallest_budget < smallest.smallest_budget))
            smallest = *err;
        if (status == CAIRN_OK && compare(choice, solver->name, time, &best)) {
            cairn_plan_destroy(*out);
            *out = plan;
            plan = NULL;
        }
        cairn_plan_destroy(plan);
        if (status == CAIRN_ENOMEM || status == CAIRN_ESYSTEM) {
            cairn_plan_destroy(*out);
            *out = NULL;
            return status;
        }
    }
    if (*out != NULL)
        return CAIRN_OK;
    *err = smallest;
    return CAIRN_INFEASIBLE;
}

static int name_algorithms(const cairn_error *err) {
    const cairn_solver *solver;
    fprintf(stderr, "cairn: %s; the algorithms are", err->message);
    for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL; i++)
        fprintf(stderr, "%s %s", i > 0 ? "," : "", solver->name);
    fprintf(stderr, "\n");
    return CLI_WRONG_INPUT;
}

/* Which algorithm was taken, and by how much it is ahead. */
static void print_choice(const cairn_plan *plan, const cli_choice *choice) {
    double behind = 0;
    if (choice->second != NULL)
        behind = 100.0 * (double)choice->second_time / (double)choice->time - 100.0;
    if (choice->fitting == 1) {
        printf("%s gives the only plan that fits\n", cairn_plan_get_header(plan)->algorithm);
        return;
    }
    printf("%s gives the fastest of %u plans that fit", cairn_plan_get_header(plan)->algorithm,
           choice->fitting);
    if (behind >= 0.05)
        printf("; %s would take %.1f%% longer", choice->second, behind);
    else if (choice->second != NULL)
        printf("; %s is as fast", choice->second);
    printf("\n");
}

int cli_make_plan(const cli_args *args, const cli_model *model, const cli_limits *limit,
                  uint64_t seed, cairn_plan **out) {
    cairn_error err = {0};
    cairn_status status;
    const char *algorithm = cli_value(args, "algorithm");
    *out = NULL;
    if (algorithm == NULL && limit->arena > 0) {
        cli_choice choice;
        status = cli_solve_best(model, limit->arena, seed, out, &choice, &err);
        if (status == CAIRN_OK && !cli_flag(args, "json"))
            print_choice(*out, &choice);
    } else
        status =
            cli_solve(model, algorithm == NULL ? "none" : algorithm, limit->arena, seed, out, &err);
    if (status == CAIRN_EUNKNOWN)
        return name_algorithms(&err);
    if (status == CAIRN_INFEASIBLE)
        return no_fit(limit, algorithm, &err);
    return status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
}
