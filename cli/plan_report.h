/* plan_report.h: what the commands that have a plan show and write of it. */
#ifndef CLI_PLAN_REPORT_H
#define CLI_PLAN_REPORT_H

#include "cairn/budget.h"
#include "plan_page.h"

#define CLI_REPORT_OPTIONS                                                                         \
    CLI_PAGE_OPTIONS, {"svg", 0, "FILE", "draw memory over time"},                                 \
        {"trace", 0, "FILE", "write a trace for Perfetto or Chrome"}, {                            \
        "top", 0, "N", "how many tensors at the peak to list (default 8)"                          \
    }

/* Print (text, or JSON with --json), draw what was asked for. `budget` of the arena, 0
 * for none, is only shown. Returns an exit code. */
int cli_report_plan(const cli_args *args, const cli_model *model, const cairn_solution *solution,
                    uint32_t slots, const cairn_budget *limit);

/* As text, or as JSON where the path ends in .json. */
int cli_write_plan(const cli_model *model, const cairn_plan *plan, const char *path);

#endif
