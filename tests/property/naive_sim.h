/* naive_sim.h: a second simulator, written from docs/plan-format.md and sim.h alone, to hold the
 * real one against.
 *
 * It is as plain as can be: flags per tensor, scanned from end to end; memory is summed anew at
 * every step; nothing is kept up to date that can be asked again. */
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
    /* Everything that is wrong at the first step where something is, in the order in which the
     * rules are asked; none: the plan is legal. */
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

/* Walk the steps. Ends the program when memory is out: it is a test. */
void naive_simulate(const cairn_graph *graph, const cairn_costs *costs, const cairn_step *steps,
                    uint32_t count, cairn_goal goal, const cairn_sim_options *options,
                    naive_sim *out);
void naive_release(naive_sim *sim);

#endif
