/* command_solve.c: `cairn solve PROBLEM FILE`, the papers' abstract problems; one file per problem,
 * listed in problems.def. */
#include "cli.h"

#include <string.h>

#define X(name) int cli_solve_##name(const cli_args *args);
#include "problems.def"
#undef X

static const struct {
    const char *name;
    int (*run)(const cli_args *args);
} problems[] = {
#define X(name) {#name, cli_solve_##name},
#include "problems.def"
#undef X
    {NULL, NULL},
};

static int run(const cli_args *args) {
    const char *name = cli_positional(args, 0);
    for (size_t i = 0; problems[i].name != NULL; i++)
        if (strcmp(problems[i].name, name) == 0)
            return problems[i].run(args);
    return cli_usage_error(args, "there is no problem \"%s\"", name);
}

static const cli_option options[] = {
    {"algorithm", 'a', "NAME", "the algorithm (default: the best of the problem)"},
    {"seed", 0, "N", "of algorithms that draw random numbers (default 1)"},
    {"tree", 0, NULL, "acg: print the division tree"},
    {"svg", 0, "FILE", "acg: draw the division tree"},
    {"budget", 'b', "N", "chain: memory; overrides the budget in the file"},
    {"curve", 0, NULL, "chain: also print the cost for every budget"},
    {"schedule", 0, NULL, "chain: also print the steps"},
    {"release", 0, "HOW", "offload: release of an offloaded tensor: whole (default) or fractional"},
    {"slots", 0, "N|exact", "offload-dynprog: memory is counted in N slots, or exactly"},
    {NULL, 0, NULL, NULL},
};

const cli_command cli_command_solve = {
    .name = "solve",
    .arguments = "PROBLEM FILE",
    .least = 2,
    .most = 2,
    .summary = "solve one of the papers' abstract problems",
    .details =
        "FILE holds one case, an array of cases, or {\"cases\": [...]}. The exit status is 3 "
        "if no\ncase at all has a solution within its budget.\n\n"
        "PROBLEM is one of:\n"
        "  acg      which tensors of a computation graph to keep (Feng and Huang); algorithms\n"
        "           feng, pieces, feng-linear, chen and random\n"
        "  chain    least time on a chain under a memory budget (Butt); algorithms precise,\n"
        "           exact, beam, revolve, gruslys, chen, recompute-all and none\n"
        "  offload  which activations of a chain to offload (Beaumont et al.);\n"
        "           algorithms offload-best, offload-dynprog, offload-greedy, vdnn, tflms and\n"
        "           autoswap",
    .options = options,
    .run = run,
};
