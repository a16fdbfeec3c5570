/* command_plan.c: `cairn plan MODEL`, from a budget to a plan and what it costs. */
#include "interrupt.h"
#include "picture.h"
#include "plan_report.h"
#include "planning.h"

#include <string.h>

static int run(const cli_args *args) {
    cli_model model;
    uint64_t slots, seed;
    if (!cli_number(args, "optimizer-slots", 0, 8, 1, &slots) ||
        !cli_number(args, "seed", 0, UINT64_MAX, 0, &seed))
        return CLI_USAGE;
    cli_catch_interrupts();
    int code = cli_model_open(args, cli_positional(args, 0), &model);
    if (code != CLI_DONE)
        return code;
    cairn_budget limit;
    cairn_solution *solution = NULL;
    code = cli_read_limits(args, &model, (uint32_t)slots, &limit);
    if (code == CLI_DONE)
        code = cli_make_plan(args, &model, &limit, seed, &solution);
    const char *output = cli_value(args, "output");
    bool to_stdout = output != NULL && strcmp(output, "-") == 0; /* then nothing else goes there */
    if (code == CLI_DONE)
        cli_model_sign(&model, solution->plan);
    if (code == CLI_DONE && !to_stdout)
        code = cli_report_plan(args, &model, solution, (uint32_t)slots, &limit);
    if (code == CLI_DONE && output != NULL)
        code = cli_write_plan(&model, solution->plan, output);
    if (code == CLI_DONE && cli_value(args, "picture") != NULL)
        code = cli_draw_checkpoints(&model, solution->plan->header->algorithm, seed,
                                    cli_value(args, "picture"));
    cairn_solution_destroy(solution);
    cli_model_close(&model);
    return code;
}

static const cli_option options[] = {
    CLI_PLANNING_OPTIONS,
    CLI_SEARCH_OPTIONS,
    CLI_MODEL_OPTIONS,
    CLI_COST_OPTIONS,
    {"cost-model", 0, "MODEL", "precise, or averages: uniform-time, uniform-memory, uniform"},
    CLI_SLOTS_OPTION,
    {"accumulate", 0, "K", "micro-batches of a step, whose gradients are added up (with --budget)"},
    {"clip-norm", 0, "X", "plan updates that clip the norm of all gradients (with --budget)"},
    {"seed", 0, "N", "seed of algorithms that use random numbers (default 0)"},
    {"output", 'o', "FILE",
     "write the plan: as text, or as JSON if FILE ends in .json; - prints it"},
    CLI_REPORT_OPTIONS,
    {"picture", 0, "FILE", "draw the network, checkpoints in green, Chen's in red: .svg or .dot"},
    {NULL, 0, NULL, NULL},
};

const cli_command cli_command_plan = {
    .name = "plan",
    .arguments = "MODEL",
    .summary = "plan a training step inside a memory budget",
    .details = "MODEL is a network of 'cairn zoo', your own (NAME.net) or a graph file. Prints the "
               "predicted peak, the time\n"
               "and its overhead over plain training, how much faster any plan could be, and what\n"
               "holds the memory at the peak.",
    .options = options,
    .lists = {{"Algorithms", cli_list_algorithms}, {"Machines", cli_list_machines}},
    .examples = "plan resnet50 --batch 64 --budget 8GiB -o resnet.plan\n"
                "plan my.net --batch 32 --budget 50% --html page.html\n"
                "plan vgg16 --backend cpu --budget 2G --top 20",
    .run = run,
};
