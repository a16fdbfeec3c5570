/* crn_cost.h: what backends know of costs beyond times and workspaces, and solvers ask for. */
#ifndef CRN_COST_H
#define CRN_COST_H

#include "cairn/cost.h"

/* How long copying `bytes` over the link takes, in ns. */
int64_t crn_machine_copy_ns(const cairn_machine *machine, uint64_t bytes);

/* How long updating all parameters of the graph takes; 0 where the origin does not say, or has no
 * struct_size. */
int64_t crn_costs_update_ns(const cairn_costs_origin *origin, const cairn_graph *graph);

/* The arithmetic and the traffic behind the analytic time of an op. */
void crn_op_work(const cairn_graph *graph, cairn_id op, uint64_t *flops, uint64_t *bytes);

/* A recomputation of the op takes `saving_ns` less than its first run; 0 after
 * cairn_costs_set_op(). `saving_ns` must not be negative. A backend may keep small results of the
 * first run, such as the statistics of a batch norm. */
void crn_costs_set_again(cairn_costs *costs, cairn_id op, int64_t saving_ns);

/* Of one op: what a backend may offer, and what a table of costs may have. */
#define CRN_MOST_IMPLEMENTATIONS 32

/* The time of a recomputation by implementation `k`. */
int64_t crn_costs_again_ns(const cairn_costs *costs, cairn_id op, uint32_t k);

/* The op that the device runs in one kernel with `op` if `op` comes directly after it; CAIRN_NONE:
 * none, which is the default. cairn_bind() sets it. Solvers then recompute outside of what is
 * fused, where the budget allows it. */
void crn_costs_set_fused(cairn_costs *costs, cairn_id op, cairn_id before);
cairn_id crn_costs_fused(const cairn_costs *costs, cairn_id op);

/* By how many percent a step with copies may take longer than simulated, because ops beside copies
 * are slower; 0 by default. cairn_bind() sets it. `auto` copies only where it gains more. */
void crn_costs_set_copy_slowdown(cairn_costs *costs, uint32_t percent);
uint32_t crn_costs_copy_slowdown(const cairn_costs *costs);

/* How many bytes at the beginning of a parameter only updates use; 0 by default. cairn_bind() sets
 * it. They are not fetched where ops only read the parameter. */
void crn_costs_set_unread(cairn_costs *costs, cairn_id tensor, uint64_t bytes);
uint64_t crn_costs_unread(const cairn_costs *costs, cairn_id tensor);

/* Whether a solver may choose any implementation of the op: they differ in the number of chunks,
 * to trade time for workspace, or the op is opaque, and its implementations are those that the
 * caller has for this. For other ops all but the usual one are a last resort. */
bool crn_op_has_chunks(const cairn_op *op);

/* See cairn_costs_set_same_bits(). */
bool crn_costs_same_bits(const cairn_costs *costs);

/* Over all that memory depends on: bytes and workspaces, not times. What was judged with one object
 * holds for another with the same hash. */
uint64_t crn_costs_memory_hash(const cairn_costs *costs);

/* Where a table is from. */
CAIRN_MUST cairn_status crn_costs_origin_from_json(const char *text, size_t length,
                                                   const char *file, cairn_costs_origin *out,
                                                   cairn_error *err);

/* The two sorts of cairn_costs_measured(). Replace the costs of the ops that the table knows: its
 * implementations take the place of theirs. `matched` (may be NULL) counts the ops. */
CAIRN_MUST cairn_status crn_costs_merge_json(cairn_costs *costs, const cairn_graph *graph,
                                             const char *text, size_t length, const char *file,
                                             uint32_t *matched, cairn_error *err);

/* The same for costs that a backend has bound: implementations and workspaces stay the backend's,
 * and only take the times that the table has under their names. `matched` counts the ops all of
 * whose implementations got one. */
CAIRN_MUST cairn_status crn_costs_merge_times_json(cairn_costs *costs, const cairn_graph *graph,
                                                   const char *text, size_t length,
                                                   const char *file, uint32_t *matched,
                                                   cairn_error *err);

#endif
