/* agree.h: both simulators on one plan. */
#ifndef AGREE_H
#define AGREE_H

#include "property/naive_sim.h"

/* Make a plan of the steps; ends the program if they name what the graph does not have. */
cairn_plan *agree_plan(const cairn_graph *graph, const cairn_step *steps, uint32_t count,
                       cairn_goal goal);

/* Simulate by both and compare everything that they say, down to the bytes and times of every step
 * and the holders of the peak; the lifetimes must add up to the bytes of every step. Prints and
 * returns false where they differ. `rule`: the one that is broken. `out`, if wanted, is the naive
 * one's account, to be released by the caller. */
bool agree(const cairn_graph *graph, const cairn_costs *costs, const cairn_plan *plan,
           const cairn_sim_options *options, cairn_rule *rule, naive_sim *out);

#endif
