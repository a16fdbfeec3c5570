/* command_solve.c: `cairn solve PROBLEM FILE`, the papers' abstract problems; one file per problem,
 * listed in problems.def. */
#include "problems.h"

#include <string.h>

static const struct {
    const char *name;
    int (*run)(const cli_args *args, const cairn_text *file);
} problems[] = {
#define X(name) {#name, cli_solve_##name},
#include "problems.def"
#undef X
    {NULL, NULL},
};

static int run(const cli_args *args) {
    const char *name = cli_positional(args, 0);
    cairn_error err = {0};
    cairn_text file;
    size_t i = 0;
    while (problems[i].name != NULL && strcmp(problems[i].name, name) != 0)
        i++;
    if (problems[i].name == NULL)
        return cli_usage_error(args, "there is no problem \"%s\"", name);
    cairn_status status = cairn_text_load(NULL, cli_case_file(args), &file, &err);
    if (status != CAIRN_OK)
        return cli_fail(status, &err);
    int code = problems[i].run(args, &file);
    cairn_text_release(&file);
    return code;
}

static const cli_option options[] = {
    {"algorithm", 'a', "NAME", "the algorithm (default: the best of the problem)"},
    {"seed", 0, "N", "seed of algorithms that use random numbers (default 1)"},
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
    .summary = "solve one of the papers' abstract problems",
    .details =
        "FILE holds one case, an array of cases, or {\"cases\": [...]}. The exit status is 3 if\n"
        "none of the cases has a solution within its budget.\n\n"
        "PROBLEM is one of:\n"
        "  acg      which tensors of a computation graph to keep (Feng and\n"
        "           Huang); algorithms feng, pieces, feng-linear, chen, random\n"
        "  chain    least time on a chain under a memory budget (Butt);\n"
        "           algorithms precise, exact, beam, revolve, gruslys, chen,\n"
        "           recompute-all and none\n"
        "  offload  which activations of a chain to offload (Beaumont et al.);\n"
        "           algorithms offload-best, offload-dynprog, offload-greedy,\n"
        "           vdnn, tflms and autoswap",
    .examples = "solve chain cases.json --algorithm exact",
    .options = options,
    .run = run,
};
