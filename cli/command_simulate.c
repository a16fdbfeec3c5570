/* command_simulate.c: `cairn simulate PLAN [MODEL]` and `cairn verify PLAN [MODEL]`: what a plan
 * costs, and whether it is legal. */
#include "plan_report.h"
#include "planning.h"

#include <stdio.h>
#include <string.h>

/* A plan's file, and the model that it or the command line names. */
static int open_plan(const cli_args *args, cli_model *model, cairn_text *text) {
    const char *path = cli_positional(args, 0), *name = cli_positional(args, 1);
    cairn_plan_header header;
    int code = cli_load_plan(path, text, &header);
    if (code != CLI_DONE)
        return code;
    code =
        name == NULL ? cli_model_of_plan(args, &header, model) : cli_model_open(args, name, model);
    if (code != CLI_DONE)
        cairn_text_release(text);
    return code;
}

static int simulate(const cli_args *args) {
    cli_model model;
    cairn_text text;
    cairn_solution *solution;
    cairn_error err = {0};
    uint64_t slots;
    const cairn_budget none = CAIRN_BUDGET_INIT;
    if (!cli_number(args, "optimizer-slots", 0, 8, 1, &slots))
        return CLI_USAGE;
    int code = open_plan(args, &model, &text);
    if (code != CLI_DONE)
        return code;
    cairn_status status = cli_judge_plan(&model, cli_positional(args, 0), &text, &solution, &err);
    if (status == CAIRN_OK)
        cli_model_sign(&model, solution->plan);
    code = status == CAIRN_OK ? cli_report_plan(args, &model, solution, (uint32_t)slots, &none)
                              : cli_fail(status, &err);
    cairn_solution_destroy(solution);
    cairn_text_release(&text);
    cli_model_close(&model);
    return code;
}

static const char *const rule_names[] = {
#define X(name, number, words) [number] = #name,
    CAIRN_RULE_LIST(X)
#undef X
};

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
    const cairn_sim_summary *s = sim->summary;
    if (cli_flag(args, "json"))
        printf("{\"legal\": %s, \"rule\": \"%s\", \"step\": %u, \"predicted_peak_bytes\": %llu}\n",
               status == CAIRN_OK ? "true" : "false", rule_names[s->rule],
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
    cairn_text text;
    cairn_plan *plan;
    cairn_error err = {0};
    int code = open_plan(args, &model, &text);
    if (code != CLI_DONE)
        return code;
    cairn_status status = cairn_plan_from_text(model.graph, text.data, text.length,
                                               cli_positional(args, 0), &plan, &err);
    code = status == CAIRN_OK ? judge(args, &model, plan) : cli_fail(status, &err);
    cairn_plan_destroy(plan);
    cairn_text_release(&text);
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
    .summary = "say what a plan costs, in memory and time",
    .details =
        "PLAN is a file that 'cairn plan -o' wrote. Without MODEL, the plan is for the model that\n"
        "its file names. Another batch or input of the same network may be given.",
    .lists = {{"Machines", cli_list_machines}},
    .examples = "simulate resnet.plan --html page.html\n"
                "simulate resnet.plan --batch 32 --machine h200",
    .options = simulate_options,
    .run = simulate,
};

const cli_command cli_command_verify = {
    .name = "verify",
    .arguments = "PLAN [MODEL]",
    .summary = "check that a plan is legal",
    .details =
        "PLAN and MODEL are those of 'cairn simulate'. The exit status is 0 if the plan is legal.\n"
        "If it is not, the status is 1, and a message names the broken rule, the step and the\n"
        "tensor.",
    .examples = "verify resnet.plan && echo legal",
    .options = verify_options,
    .run = verify,
};
