/* sweeping.h: memory against time for every algorithm. Algorithms that look at a budget get a row
 * of budgets; the others give one point each. */
#ifndef CLI_SWEEPING_H
#define CLI_SWEEPING_H

#include "planning.h"

#include <stdatomic.h>

#define CLI_MOST_POINTS 64
#define CLI_MOST_CURVES 32

typedef struct cli_point {
    uint64_t budget; /* 0: none was given */
    uint64_t peak, arena;
    uint64_t memory; /* what is compared: the arena or, if everything counts, all on the device */
    int64_t time;
    int64_t bound;            /* no plan takes less in the budget, or in the same arena */
    cairn_solution *solution; /* NULL unless `keep` */
} cli_point;

typedef struct cli_curve {
    const cairn_solver *solver;
    cli_point points[CLI_MOST_POINTS];
    uint32_t count, tried; /* points; budgets */
    uint64_t floor;        /* the smallest possible budget, where one did not do; else 0 */
    char floor_op[128];
} cli_curve;

typedef struct cli_sweep {
    const cli_model *model;
    uint32_t step; /* between budgets, in percent of what none needs */
    bool keep;     /* keep the solutions */
    const cli_args
        *args;           /* of the command, to show progress on a terminal; NULL: it is not shown */
    uint64_t stationary; /* what counts beside the arena, less what a plan has on the host */
    uint64_t none_memory;
    int64_t none_time;
    cli_curve *curves; /* of the algorithms that apply */
    uint32_t count;
    atomic_uint done; /* plans, of `total` */
    uint32_t total;
} cli_sweep;

/* Fill in the curves. Several algorithms run at a time, one per processor; what is found does not
 * depend on how many. Release it also after an error. */
CAIRN_MUST cairn_status cli_sweep_run(cli_sweep *sweep, cairn_error *err);
void cli_sweep_release(cli_sweep *sweep);

#endif
