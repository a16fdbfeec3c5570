/* crn_sim.h: which lifetime an operand of a step is in. */
#ifndef CRN_SIM_H
#define CRN_SIM_H

#include "cairn/sim.h"

const char *crn_rule_name(cairn_rule rule); /* "READ_AFTER_FREE"; NULL past the end */

/* The lifetime in which operand `operand` of step `step` is: its place in its lifetimes.
 * The operands of a run are its op's inputs, its outputs, its workspace and its params, one after
 * the other; any other step has one, its tensor. CAIRN_NONE: it is in none: it is at home on the
 * device, an output that is not wanted, a workspace of no bytes, or there is no such operand. O(1).
 */
uint32_t crn_sim_operand(const cairn_sim *sim, uint32_t step, uint32_t operand);

/* The time that updates save in a micro-batch before the last. */
int64_t crn_sim_gather_saves(const cairn_graph *graph, const cairn_costs *costs);

#endif
