/* budget.c: computes the memory that a user's limit leaves for a plan. */
#include "base/crn_base.h"
#include "cairn/budget.h"
#include "solve/solution.h"

uint64_t crn_share_of(uint64_t whole, uint64_t millionths) {
    return whole / 1000000 * millionths + whole % 1000000 * millionths / 1000000;
}

/* The arena of `none`. A limit in percent is a share of it. */
static cairn_status find_whole(const cairn_graph *graph, const cairn_costs *costs,
                               const cairn_solution *none, uint64_t *out, cairn_error *err) {
    cairn_solution *own = NULL;
    if (none == NULL)
        CRN_TRY(cairn_solve(graph, costs, "none", NULL, &own, err));
    *out = (none != NULL ? none->layout : own->layout)->arena_bytes;
    cairn_solution_destroy(own);
    return CAIRN_OK;
}

cairn_status cairn_budget_resolve(const cairn_graph *graph, const cairn_costs *costs,
                                  const cairn_budget_options *given, cairn_budget *out,
                                  cairn_error *err) {
    cairn_budget_options options = CAIRN_BUDGET_OPTIONS_INIT;
    cairn_budget made = {0};
    crn_error_clear(err);
    CRN_OPEN_OUTPUT(cairn_budget, out, err);
    CRN_READ_OPTIONS(cairn_budget_options, options, given, err);
    made.given_bytes = options.amount;
    if (options.total)
        made.stationary_bytes = cairn_stationary_bytes(graph, costs, options.optimizer_slots);
    if (options.share) {
        uint64_t whole;
        CRN_TRY(find_whole(graph, costs, options.none, &whole, err));
        made.given_bytes = crn_share_of(whole + made.stationary_bytes, options.amount);
    }
    made.plan_bytes =
        made.given_bytes > made.stationary_bytes ? made.given_bytes - made.stationary_bytes : 1;
    crn_write_output(out, &made, sizeof made);
    return CAIRN_OK;
}
