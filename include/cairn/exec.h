/* exec.h: carry a plan out on a backend, inside the memory it was planned for.
 *
 *     graph, backend --cairn_bind--> costs as the backend really runs things --solver--> plan
 *     graph, costs, solution --cairn_exec_create--> executor --run, update, run, update ...-->
 *
 * An executor reserves all of its memory when it is made: one arena that holds everything a plan
 * controls, one pool for copies on the host, and the stationary memory (parameters, gradients,
 * state, the optimiser's slots) apart from both. Running a step allocates nothing. Any two legal
 * plans of one graph give the same bits: loss, gradients, updated parameters and running
 * statistics. */
#ifndef CAIRN_EXEC_H
#define CAIRN_EXEC_H

#include "cairn/solve.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Backends ---- */

/* The name of backend `index`, best first, and in `summary` (may be NULL) what it is; NULL past the
 * end. */
CAIRN_API const char *cairn_backend_list(uint32_t index, const char **summary);

/* How many threads `threads` asks for: 0 is one per processor. */
CAIRN_API uint32_t cairn_count_threads(uint32_t threads);

/* Costs as the backend stores and runs things on that many threads (0: as many as there are
 * processors): per op the implementations that fit it, best first, with their workspaces; bytes as
 * stored. Times are analytic, of the machine "cpu". CAIRN_EUNKNOWN: there is no such backend;
 * CAIRN_EINVAL: it has no implementation of an op. The costs are the caller's. O(ops). */
CAIRN_API CAIRN_MUST cairn_status cairn_bind(const cairn_graph *graph, const char *backend,
                                             uint32_t threads, cairn_costs **out, cairn_error *err);

/* ---- Optimisers ---- */

/* As in PyTorch, p a parameter, g its gradient, r the learning rate, n the number of the update:
 *
 *     sgd    g += decay p; v = momentum v + g; p -= r v, with nesterov p -= r (g + momentum v)
 *     adam   g += decay p; m += (1 - beta1) (g - m); v = beta2 v + (1 - beta2) g g;
 *            p -= r / (1 - beta1^n) m / (sqrt(v) / sqrt(1 - beta2^n) + epsilon)
 *     adamw  the same with p *= 1 - r decay in place of the first */
typedef enum cairn_optimizer { CAIRN_SGD, CAIRN_ADAM, CAIRN_ADAMW } cairn_optimizer;

/* "sgd", "adam", "adamw"; NULL past the end of the list. */
CAIRN_API const char *cairn_optimizer_name(cairn_optimizer optimizer);

/* ---- An executor ---- */

typedef struct cairn_exec cairn_exec;

/* Start from CAIRN_EXEC_OPTIONS_INIT; fields are only ever added at the end. */
typedef struct cairn_exec_options {
    uint32_t struct_size;
    const char *backend;            /* by name */
    uint32_t threads;               /* as given to cairn_bind(); 0: as many as processors */
    uint64_t budget_bytes;          /* of the arena; 0: none */
    uint64_t link_bytes_per_second; /* imitate a link of this bandwidth; 0: as fast as it goes */
    uint64_t seed;                  /* of parameters, data and dropout */
    float learning_rate, momentum;  /* of stochastic gradient descent */
    bool check; /* fill memory with NaNs when it is given back, and where whole pages of it are,
                   make them inaccessible: who reads what was freed does not go unnoticed */
    cairn_optimizer optimizer;
    bool nesterov;                /* of sgd */
    double weight_decay;          /* of all optimisers */
    double beta1, beta2, epsilon; /* of adam and adamw */
    uint32_t micro_batches;       /* whose gradients are averaged for an update; 0 is 1 */
    cairn_exec *share_with; /* for evaluation: work on this executor's stationary memory, and in its
                               arena where that is large enough; it has the same graph and backend,
                               outlives this one, and the two are never run at once */
} cairn_exec_options;
#define CAIRN_EXEC_OPTIONS_INIT                                                                    \
    {                                                                                              \
        .struct_size = sizeof(cairn_exec_options), .backend = "ref", .learning_rate = 0.01f,       \
        .momentum = 0.9f, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8                            \
    }

/* Tensors that the optimiser keeps per parameter, for cairn_stationary_bytes(): momentum of sgd 1,
 * adam and adamw 2, and 1 more where gradients of several micro-batches are added up. */
CAIRN_API uint32_t cairn_optimizer_slots(const cairn_exec_options *options);

/* Make ready to run the plan of `solution`, which was judged with `costs`, which cairn_bind() made
 * for the same backend and number of threads: a plan from elsewhere is judged by
 * cairn_solution_create(). All memory is reserved; parameters are drawn from the seed. The executor
 * borrows `graph`, which must outlive it; costs and solution may be destroyed afterwards.
 *
 * CAIRN_EINVAL: the solution is of another graph or of other costs, or needs more than the budget
 * (both peaks are named), or the costs are not of this backend. CAIRN_ESYSTEM: the
 * system refuses the memory. `*out` is NULL unless CAIRN_OK; release with cairn_exec_destroy(). */
CAIRN_API CAIRN_MUST cairn_status cairn_exec_create(const cairn_graph *graph,
                                                    const cairn_costs *costs,
                                                    const cairn_solution *solution,
                                                    const cairn_exec_options *options,
                                                    cairn_exec **out, cairn_error *err);
CAIRN_API void cairn_exec_destroy(cairn_exec *exec);

/* What is reserved and what was predicted. */
typedef struct cairn_exec_figures {
    uint64_t predicted_peak_bytes; /* by the simulator, with the costs bound here */
    uint64_t arena_bytes;          /* of what the plan controls, mapped or shared */
    uint64_t stationary_bytes;     /* parameters, gradients, state, optimiser; 0 where shared */
    uint64_t host_bytes;           /* copies on the host */
    uint32_t threads;              /* of the backend */
} cairn_exec_figures;
CAIRN_API cairn_exec_figures cairn_exec_get_figures(const cairn_exec *exec);

/* ---- A step: write the inputs, run, update ---- */

/* Where an input or label is to be written before each run; NULL: the tensor is neither, or the
 * plan has no use for it (a label in evaluation). What was written does not outlive the run. */
CAIRN_API void *cairn_exec_input(cairn_exec *exec, cairn_id tensor);

/* Write all inputs (normal) and labels (uniform), as a function of the executor's seed and `step`.
 */
CAIRN_API void cairn_exec_fill(cairn_exec *exec, uint64_t step);

/* What a run gave and took. */
typedef struct cairn_exec_result {
    float loss; /* 0 for plans of evaluation */
    int64_t time_ns;
    int64_t idle_ns;               /* of it, waiting for copies */
    uint64_t measured_peak_bytes;  /* largest union of the address ranges bound at any moment */
    uint32_t runs;                 /* kernels that were run */
    uint64_t correct, predictions; /* of all that the loss compared with a label, those where the
                                      label was the likeliest class; 0 for plans of evaluation */
} cairn_exec_result;

/* Run the plan once. Dropout draws from the executor's seed and `step`. Afterwards the gradients of
 * the parameters are in the stationary memory. Allocates nothing and cannot fail. */
CAIRN_API void cairn_exec_run(cairn_exec *exec, uint64_t step, cairn_exec_result *out);

/* Add the gradients of the last run to those of the runs before it, for an update over several
 * micro-batches. An executor with `micro_batches` of 1 has no memory for that; it does nothing. */
CAIRN_API void cairn_exec_accumulate(cairn_exec *exec);

/* One step of the optimiser for every parameter that has a gradient, by the mean of the gradients
 * that were accumulated since the last update, or by that of the last run where none were. With the
 * learning rate of the options, or with `rate`. The bits do not depend on the number of threads.
 * Nothing after evaluation. Allocates nothing. */
CAIRN_API void cairn_exec_update(cairn_exec *exec);
CAIRN_API void cairn_exec_update_at(cairn_exec *exec, double rate);

/* ---- Reading and writing what stays ---- */

/* The elements of a parameter, of state or of a parameter's gradient, in plain layout; after a run
 * of a plan for evaluation also of the network's output, until the next input is written. NULL for
 * any other tensor. */
CAIRN_API void *cairn_exec_data(cairn_exec *exec, cairn_id tensor);

/* What the optimiser keeps, for those who write it to a file and read it back: slot `slot` of a
 * parameter ("momentum_buffer" of sgd, "exp_avg" and "exp_avg_sq" of adam), with as many elements
 * as the parameter; NULL: the tensor is no parameter or there is no such slot. A sum of gradients
 * is not among them; it is empty after an update. */
CAIRN_API float *cairn_exec_slot(cairn_exec *exec, cairn_id parameter, uint32_t slot,
                                 const char **name);

/* How many updates there were, on which the optimiser's arithmetic may depend. */
CAIRN_API uint64_t cairn_exec_updates(const cairn_exec *exec);
CAIRN_API void cairn_exec_set_updates(cairn_exec *exec, uint64_t updates);

enum { CAIRN_EXEC_PARAMETERS = 1, CAIRN_EXEC_STATE = 2, CAIRN_EXEC_GRADIENTS = 4 };

/* SHA-256 over the tensors of these sorts, sorted by name, their elements in plain layout and
 * little-endian; as 64 hexadecimal digits. */
CAIRN_API void cairn_exec_sha256(const cairn_exec *exec, uint32_t sorts, char out[65]);

#ifdef __cplusplus
}
#endif
#endif
