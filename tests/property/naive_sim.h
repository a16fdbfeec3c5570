/* naive_sim.h: a second simulator, written only from docs/plan-format.md and sim.h, to compare with
 * the real one.
 *
 * It is as simple as possible: it has flags per tensor and scans all of them, and it adds up all
 * memory again at every step. It stores nothing that can be computed again. */
#ifndef NAIVE_SIM_H
#define NAIVE_SIM_H

#include "cairn/sim.h"

#define NAIVE_MOST_BROKEN 64

typedef struct naive_broken {
    cairn_rule rule;
    cairn_id culprit;
} naive_broken;

typedef struct naive_holder {
    cairn_id tensor; /* the lowest in the storage; CAIRN_NONE: workspace */
    uint64_t bytes;
} naive_holder;

typedef struct naive_sim {
    /* All rules that the first wrong step breaks, in the order in which rules are checked. None:
     * the plan is legal. */
    naive_broken broken[NAIVE_MOST_BROKEN];
    uint32_t broken_count;
    uint32_t broken_step;

    uint64_t start_bytes; /* before the first step */
    uint64_t peak_bytes;
    uint32_t peak_step;
    naive_holder *holders; /* at the peak; largest first, then by tensor, workspace last */
    uint32_t holder_count;

    uint32_t step_count; /* steps walked without a broken rule */
    cairn_sim_step *steps;

    uint64_t host_bytes;
    int64_t time_ns, compute_ns, idle_ns, copy_out_ns, copy_in_ns, rerun_ns;
    uint32_t runs, reruns, offloads, fetches;
} naive_sim;

/* Walk over the steps. Ends the program if memory runs out. */
void naive_simulate(const cairn_graph *graph, const cairn_costs *costs, const cairn_step *steps,
                    uint32_t count, cairn_goal goal, const cairn_sim_options *options,
                    naive_sim *out);
void naive_release(naive_sim *sim);

#endif
