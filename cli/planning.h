/* planning.h: from the options of a command line to a plan: budgets, and the choice of algorithm.
 */
#ifndef CLI_PLANNING_H
#define CLI_PLANNING_H

#include "model.h"

/* Rows for the option tables of commands that make a plan. */
#define CLI_PLANNING_OPTIONS                                                                       \
    {"algorithm", 'a', "NAME", "see below; without it the fastest plan that fits is taken"},       \
        {"budget", 0, "SIZE", "limit for everything: 8GiB, 500MB, or 40% of what none needs"}, {   \
        "activation-budget", 0, "SIZE",                                                            \
            "limit without parameters, their gradients, optimiser state"                           \
    }

/* For the lists under the help of such commands. */
bool cli_list_algorithms(uint32_t index, cli_named *out);

/* Which limit was asked for; zero: none. `slots` tensors per parameter are the optimiser's. Returns
 * an exit code, after saying what is wrong. */
int cli_read_limits(const cli_args *args, const cli_model *model, uint32_t slots,
                    cairn_budget *out);

/* A plan by the algorithm that was asked for, or, with a limit and none named, the fastest that
 * fits. It is the caller's. Returns an exit code, after saying what is wrong. */
int cli_make_plan(const cli_args *args, const cli_model *model, const cairn_budget *limit,
                  uint64_t seed, cairn_solution **out);

/* By one algorithm (NULL: the best of all) within `arena` bytes (0: no limit). */
CAIRN_MUST cairn_status cli_solve(const cli_model *model, const char *algorithm, uint64_t arena,
                                  uint64_t seed, cairn_solution **out, cairn_error *err);

#endif
