/* planning.h: from the options of a command line to a plan: budgets, the choice of algorithm, files
 * that hold a plan. */
#ifndef CLI_PLANNING_H
#define CLI_PLANNING_H

#include "cairn/budget.h"
#include "model.h"

/* Rows for the option tables of commands that make a plan. */
#define CLI_PLANNING_OPTIONS                                                                       \
    {"algorithm", 'a', "NAME", "see below; with a budget auto, without one none"},                 \
        {"budget", 0, "SIZE", "limit for everything: 8GiB, 500MB, or 40% of what none needs"}, {   \
        "activation-budget", 0, "SIZE",                                                            \
            "limit without parameters, their gradients and optimiser state"                        \
    }

/* And of those that search. */
#define CLI_SEARCH_OPTIONS                                                                         \
    {"no-offload", 0, NULL, "auto: copy nothing to the host; the bound is that of such plans"},    \
        {"same-bits", 0, NULL, "auto: run every op as none does, so that results have its bits"},  \
    {                                                                                              \
        "effort", 0, "N", "auto: search up to N times as long for a faster plan"                   \
    }

/* For the lists under the help of such commands. */
bool cli_list_algorithms(uint32_t index, cli_named *out);
bool cli_list_machines(uint32_t index, cli_named *out);
bool cli_list_backends(uint32_t index, cli_named *out);

/* Which limit was asked for; zero: none. `slots` tensors per parameter are the optimiser's. Returns
 * an exit code, after saying what is wrong. */
int cli_read_limits(const cli_args *args, cli_model *model, uint32_t slots, cairn_budget *out);

/* A plan by the algorithm that was asked for, or, with a limit and none named, by `auto`. It is the
 * caller's. A limit of everything is divided into what stays and what the plan has. Returns an exit
 * code, after saying what is wrong. */
int cli_make_plan(const cli_args *args, const cli_model *model, cairn_budget *limit, uint64_t seed,
                  cairn_solution **out);

/* By one algorithm (NULL: `auto`, or `none` without a limit) within `arena` bytes (0: no limit). */
CAIRN_MUST cairn_status cli_solve(const cli_model *model, const char *algorithm, uint64_t arena,
                                  uint64_t seed, cairn_solution **out, cairn_error *err);

/* A file that holds a plan. `*header` says which model it is for; `*text` is the whole file, to be
 * released by the caller. Returns an exit code, after saying what is wrong. */
int cli_load_plan(const char *path, cairn_text *text, cairn_plan_header *header);

/* The plan of such a file for a model, judged with the model's costs. */
CAIRN_MUST cairn_status cli_judge_plan(const cli_model *model, const char *path,
                                       const cairn_text *text, cairn_solution **out,
                                       cairn_error *err);

/* "at most 0.2% from optimal", for a time and what no plan takes less than (0: not known). Points
 * to a static buffer. */
const char *cli_gap(int64_t time_ns, int64_t bound_ns);

/* The same for a column of a table: "0.2%", "0%" if it is optimal, "?" if it is not known. */
const char *cli_gap_percent(int64_t time_ns, int64_t bound_ns);

#endif
