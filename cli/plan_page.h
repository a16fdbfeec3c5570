/* plan_page.h: --html and --against: a plan as a page for the browser. */
#ifndef CLI_PLAN_PAGE_H
#define CLI_PLAN_PAGE_H

#include "model.h"

#define CLI_PAGE_OPTIONS                                                                           \
    {"html", 0, "FILE", "write a page for the browser: where the memory goes"}, {                  \
        "against", 0, "PLAN", "with --html: compare with the plan in this file"                    \
    }

/* Write the page of a plan to where --html says, beside plain training and the plan of --against;
 * nothing without --html. `stationary` is shown beside it; `budget` is of the arena, 0 for none.
 * `measured` has the times of the plan's steps, NULL: as simulated. Returns an exit code. */
int cli_write_page(const cli_args *args, const cli_model *model, const cairn_solution *solution,
                   uint64_t stationary, uint64_t budget, const cairn_sim_step *measured);

#endif
