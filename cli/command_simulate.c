/* command_simulate.c: `cairn simulate PLAN [MODEL]` and `cairn verify PLAN [MODEL]`: what a plan
 * costs, and whether it is legal. */
#include "plan_report.h"

#include <stdio.h>
#include <string.h>

/* A plan with the model that it, or the command line, names. */
static int open_plan(const cli_args *args, cli_model *model, cairn_plan **plan) {
    const char *path = cli_positional(args, 0), *name = cli_positional(args, 1);
    cairn_text text;
    cairn_error err = {0};
    cairn_plan_header header = CAIRN_PLAN_HEADER_INIT;
    *plan = NULL;
    *model = (cli_model){0};
    cairn_status status = cairn_text_load(NULL, path, &text, &err);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    int code = CLI_DONE;
    if (name == NULL) {
        status = cairn_plan_header_from_text(text.data, text.length, path, &header, &err);
        code =
            status == CAIRN_OK ? cli_model_of_plan(args, &header, model) : cli_fail(status, &err);
    } else {
        code = cli_model_open(args, name, model);
    }
    if (code == CLI_DONE) {
        status = cairn_plan_from_text(model->graph, text.data, text.length, path, plan, &err);
        if (status != CAIRN_OK)
            code = cli_fail(status, &err);
    }
    cairn_text_release(&text);
    return code;
}

static int report(const cli_args *args, const cli_model *model, const cairn_plan *plan,
                  uint32_t slots) {
    cairn_solution *solution;
    cairn_error err = {0};
    cairn_status status =
        cairn_solution_create(model->graph, model->costs, plan, &model->machine, &solution, &err);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    int code = cli_report_plan(args, model, solution, slots, 0);
    cairn_solution_destroy(solution);
    return code;
}

static int simulate(const cli_args *args) {
    cli_model model;
    cairn_plan *plan;
    uint64_t slots;
    if (!cli_number(args, "optimizer-slots", 0, 8, 1, &slots))
        return CLI_USAGE;
    int code = open_plan(args, &model, &plan);
    if (code == CLI_DONE)
        code = report(args, &model, plan, (uint32_t)slots);
    cairn_plan_destroy(plan);
    cli_model_close(&model);
    return code;
}

/* Whether the plan is legal and within the budget; the exit code says it too. */
static int judge(const cli_args *args, const cli_model *model, const cairn_plan *plan) {
    cairn_error err = {0};
    cairn_sim *sim = NULL;
    cli_size budget;
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    if (!cli_size_value(args, "activation-budget", &budget))
        return CLI_USAGE;
    if (budget.percent)
        return cli_usage_error(args, "--activation-budget must be a number of bytes here");
    options.machine = &model->machine;
    options.budget_bytes = budget.bytes;
    cairn_status status = cairn_simulate(model->graph, model->costs, plan, &options, &sim, &err);
    if (sim == NULL)
        return cli_fail(status, &err);
    const cairn_sim_summary *s = cairn_sim_result(sim);
    if (cli_flag(args, "json"))
        printf("{\"legal\": %s, \"rule\": \"%s\", \"step\": %u, \"predicted_peak_bytes\": %llu}\n",
               status == CAIRN_OK ? "true" : "false", cairn_rule_name(s->rule),
               status == CAIRN_OK ? 0 : s->broken_step, (unsigned long long)s->peak_bytes);
    else if (status == CAIRN_OK)
        printf("legal: %u runs, peak %s (%llu bytes)\n", s->runs, cli_bytes(s->peak_bytes),
               (unsigned long long)s->peak_bytes);
    int code = status == CAIRN_OK ? CLI_DONE : cli_fail(status, &err);
    cairn_sim_destroy(sim);
    return code;
}

static int verify(const cli_args *args) {
    cli_model model;
    cairn_plan *plan;
    int code = open_plan(args, &model, &plan);
    if (code == CLI_DONE)
        code = judge(args, &model, plan);
    cairn_plan_destroy(plan);
    cli_model_close(&model);
    return code;
}

static const cli_option simulate_options[] = {
    CLI_MODEL_OPTIONS,  CLI_COST_OPTIONS,      CLI_SLOTS_OPTION,
    CLI_REPORT_OPTIONS, {NULL, 0, NULL, NULL},
};

static const cli_option verify_options[] = {
    CLI_MODEL_OPTIONS,
    CLI_COST_OPTIONS,
    {"activation-budget", 0, "SIZE", "also refuse a plan that needs more than this"},
    {NULL, 0, NULL, NULL},
};

const cli_command cli_command_simulate = {
    .name = "simulate",
    .arguments = "PLAN [MODEL]",
    .least = 1,
    .most = 2,
    .summary = "say what a plan costs, in memory and time",
    .details =
        "PLAN is a file that 'cairn plan -o' wrote. MODEL is taken from it when absent; another\n"
        "batch or input of the same network may be given.",
    .options = simulate_options,
    .run = simulate,
};

const cli_command cli_command_verify = {
    .name = "verify",
    .arguments = "PLAN [MODEL]",
    .least = 1,
    .most = 2,
    .summary = "check that a plan is legal",
    .details =
        "Exits with 0 if the plan is legal; with 1, naming the broken rule, its step and the\n"
        "tensor, if it is not.",
    .options = verify_options,
    .run = verify,
};
