/* agree.h: both simulators on one plan. */
#ifndef AGREE_H
#define AGREE_H

#include "property/naive_sim.h"

/* Make a plan of the steps; ends the program if they name what the graph does not have. */
cairn_plan *agree_plan(const cairn_graph *graph, const cairn_step *steps, uint32_t count,
                       cairn_goal goal);

/* Simulate with both and compare all results: also the bytes and times of every step and the
 * tensors at the peak. The lifetimes must add up to the bytes of every step. If they differ, print
 * it and return false. `rule` receives the rule that is broken. `out`, if not NULL, receives the
 * result of the naive simulator; the caller releases it. */
bool agree(const cairn_graph *graph, const cairn_costs *costs, const cairn_plan *plan,
           const cairn_sim_options *options, cairn_rule *rule, naive_sim *out);

#endif
