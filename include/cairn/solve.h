/* solve.h: turn a graph with costs and a budget into a solution: a plan, judged. */
#ifndef CAIRN_SOLVE_H
#define CAIRN_SOLVE_H

#include "cairn/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The costs with which `precise` solves; the plan is still judged by the real costs. Averages
 * are over the pieces of the chain, to compare precise with uniform costs as in Butt's thesis. */
typedef enum cairn_cost_model {
    CAIRN_COST_MODEL_PRECISE = 0,
    CAIRN_COST_MODEL_UNIFORM_TIME = 1,
    CAIRN_COST_MODEL_UNIFORM_MEMORY = 2,
    CAIRN_COST_MODEL_UNIFORM = 3
} cairn_cost_model;

/* Start from CAIRN_SOLVE_OPTIONS_INIT; fields are only ever added at the end. */
typedef struct cairn_solve_options {
    uint32_t struct_size;         /* sizeof as the caller compiled it */
    uint64_t budget_bytes;        /* of the memory a plan controls, see sim.h; 0: none */
    const cairn_machine *machine; /* for copies; NULL: algorithms that copy do not apply */
    uint64_t seed;                /* of algorithms that draw random numbers */
    cairn_cost_model cost_model;  /* of `precise` */
    bool no_offload;              /* do not copy to the host, for example because host and device
                                     share one memory; algorithms that only offload ignore this */
    bool live_peak;               /* the budget bounds the live peak, not the arena: for runtimes
                                     whose allocator places storages itself */
    uint32_t effort;              /* of `auto`: how much work it does, in multiples of the usual; 0:
                                     the usual. A larger effort never gives a slower plan. */
    const cairn_plan *start;      /* a known plan of the graph, or NULL: it is the answer if it
                                     fits and is faster than what is found. Start each call of a
                                     sweep from the plan for less memory, and times never rise. */
    cairn_memo *memo;             /* what this call shares with others, or NULL */
    cairn_progress progress;      /* may end the call, or NULL */
    void *progress_context;
    uint64_t device_bytes;   /* instead of budget_bytes, for a graph with updates: the most for
                                everything on the device, the arena and what stays there. Where
                                needed, and if copies are allowed, parameters and slots have their
                                home on the host. 0: none */
    const cairn_plan *homes; /* of `infer`: parameters are at home where this plan has them,
                                of the graph or of the step whose network it is
                                (cairn_graph_network()); NULL: on the device */
    uint32_t micro_batches; /* of a graph with updates, whose last slots are sums of gradients: this
                               many runs of the plan make a step. All but the last only add up
                               gradients (`gathers` of cairn_sim_options). The time of the step is
                               what counts. 0, 1: one */
} cairn_solve_options;
#define CAIRN_SOLVE_OPTIONS_INIT CAIRN_INIT_SIZED(cairn_solve_options)

typedef struct cairn_solver {
    const char *name;
    const char *summary;
    cairn_goal goal;
    bool budgeted; /* it looks at the budget: more memory may give a faster plan */
    bool offloads; /* it copies tensors to the memory of a host and back */
    bool searches; /* more effort may give a faster plan */
} cairn_solver;

/* Solver `index` of solvers.def, or NULL past the end. */
CAIRN_API const cairn_solver *cairn_solver_list(uint32_t index);

/* ---- Solutions ---- */

/* A plan with its simulation and its layout: for reports, the executor and other runtimes. It keeps
 * no reference to the graph or the costs that it was made with; what takes it together with a graph
 * and costs expects the same ones. Only the library makes one; fields are only ever added at the
 * end. It does not change, except for the header of its plan, and so may be read from several
 * threads. */
typedef struct cairn_solution {
    cairn_plan *plan;
    cairn_sim *sim; /* with the machine that was given */
    cairn_layout *layout;
    int64_t lower_bound_ns; /* no plan takes less within the budget, or, where none was given,
                               within this plan's own arena; 0: not known. Over micro-batches: the
                               step takes no less */
    uint64_t costs_hash;    /* over the bytes and workspaces of the costs it was judged with */
    void *memory;           /* the solution's own */
    uint32_t micro_batches; /* for how many it was made, at least 1 */
    int64_t gather_ns;      /* if these are several: the time of one before the last; else 0 */
} cairn_solution;

CAIRN_API void cairn_solution_destroy(cairn_solution *solution);

/* Solve with the algorithm called `name`; NULL: with `auto`, or without a budget with `none`,
 * the fastest possible plan.
 *
 * On CAIRN_OK `*out` is a new solution: its plan is legal and within the budget, as is its arena;
 * release it with cairn_solution_destroy(). Otherwise `*out` is NULL. CAIRN_INFEASIBLE: nothing
 * fits; `err` then holds the smallest budget that would, and the op that sets it. CAIRN_EUNKNOWN:
 * there is no such algorithm; CAIRN_EINVAL: it does not apply to this graph, or the options are
 * not valid. Safe to call concurrently on one graph.
 *
 * `auto`, for budgets B1 < B2 and otherwise the same options: if B1 can be solved, so can B2, and
 * all refusals name the same smallest budget. The plan for B2 takes at most (1 + its gap) times the
 * time of the plan for B1; with options->start set to that plan, at most its time. */
CAIRN_API CAIRN_MUST cairn_status cairn_solve(const cairn_graph *graph, const cairn_costs *costs,
                                              const char *name, const cairn_solve_options *options,
                                              cairn_solution **out, cairn_error *err);

/* A plan that was read from a file as a solution: a copy of it, simulated and laid out.
 * `machine` is for copies and may be NULL, as in cairn_sim_options. CAIRN_EINVAL: it is not legal;
 * `err` says which rule it breaks. */
CAIRN_API CAIRN_MUST cairn_status cairn_solution_create(const cairn_graph *graph,
                                                        const cairn_costs *costs,
                                                        const cairn_plan *plan,
                                                        const cairn_machine *machine,
                                                        cairn_solution **out, cairn_error *err);

#ifdef __cplusplus
}
#endif
#endif
