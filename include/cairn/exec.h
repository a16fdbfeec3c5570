/* exec.h: carry a plan out on a device, inside the memory it was planned for.
 *
 *     graph, device --cairn_bind--> costs as the device really runs things --solver--> solution
 *     graph, device, costs, solution --cairn_exec_create--> executor --run, update, run, ...-->
 *
 * An executor reserves all of its memory when it is made: one arena that holds everything a plan
 * controls, host memory for copies, and the stationary memory (parameters, gradients,
 * state, the optimiser's slots) apart from both. Running a step allocates nothing. Any two legal
 * plans of one graph give the same bits: loss, gradients, updated parameters and running
 * statistics.
 *
 * The memory of a device is not the host's: what goes in and comes out is written and read here, in
 * the plain layout of the graph, whatever form the device stores it in. An executor is used by one
 * thread at a time, and so are all executors of one device together. */
#ifndef CAIRN_EXEC_H
#define CAIRN_EXEC_H

#include "cairn/device.h"
#include "cairn/optimizer.h"
#include "cairn/solve.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- An executor ---- */

typedef struct cairn_exec cairn_exec;

/* Start from CAIRN_EXEC_OPTIONS_INIT; fields are only ever added at the end. */
typedef struct cairn_exec_options {
    uint32_t struct_size;
    uint64_t budget_bytes;         /* of the arena; 0: none */
    uint64_t seed;                 /* of parameters, data and dropout */
    float learning_rate, momentum; /* of stochastic gradient descent */
    bool check; /* fill freed memory with NaNs and, where the device can, make whole pages of it
                   inaccessible, so that reading freed memory is detected */
    cairn_optimizer optimizer;
    bool nesterov;                /* of sgd */
    double weight_decay;          /* of all optimisers */
    double beta1, beta2, epsilon; /* of adam and adamw */
    uint32_t micro_batches;       /* whose gradients are averaged for an update; 0 is 1 */
    cairn_exec *share_with; /* for evaluation: work on this executor's stationary memory, and in its
                               arena where that is large enough; it has the same graph, or one with
                               the same parameters (cairn_graph_network()), and the same device,
                               outlives this one, and the two are never run at once */
    bool timed; /* note how long every step takes, see cairn_exec_figures; a device that records
                   runs then runs one action after the other, and is slower */
    bool update_in_run;   /* a run ends with the update; a device that records runs replays both as
                             one. With several micro-batches each run adds to the sum of gradients,
                             and   the last of them ends with the update. Not for evaluation. A graph
                             that   has updates is always run with them */
    cairn_decay decay_on; /* the parameters that have weight decay */
    double clip_norm;     /* gradients are multiplied by clip_norm / (norm + 1e-6) if that is less
                             than 1, with the norm of all gradients of an update together; 0: never.
                             The graph then has updates with `clip` */
} cairn_exec_options;
#define CAIRN_EXEC_OPTIONS_INIT                                                                    \
    CAIRN_INIT_WITH(cairn_exec_options,                                                            \
                    CAIRN_INIT_FIELD(learning_rate, 0.01f) CAIRN_INIT_FIELD(momentum, 0.9f)        \
                        CAIRN_INIT_FIELD(beta1, 0.9) CAIRN_INIT_FIELD(beta2, 0.999)                \
                            CAIRN_INIT_FIELD(epsilon, 1e-8))

/* Tensors that the optimiser keeps per parameter, for cairn_stationary_bytes(): momentum of sgd 1,
 * adam and adamw 2, and 1 more where gradients of several micro-batches are added up. */
CAIRN_API uint32_t cairn_optimizer_slots(const cairn_exec_options *options);

/* Make ready to run the plan of `solution`. It was judged with `costs`, which cairn_bind() made for
 * the same device or one like it. A plan from elsewhere becomes a solution by
 * cairn_solution_create(). All memory is reserved; parameters are drawn from the seed. The executor
 * borrows `graph` and `device`, which must outlive it; costs and solution may be destroyed
 * afterwards.
 *
 * CAIRN_EINVAL: the solution is of another graph or of other costs, or needs more than the budget
 * (both peaks are named), or the costs are not of this backend. CAIRN_ESYSTEM: the system refuses
 * the memory. `*out` is NULL unless CAIRN_OK; release with cairn_exec_destroy(). */
CAIRN_API CAIRN_MUST cairn_status cairn_exec_create(const cairn_graph *graph, cairn_device *device,
                                                    const cairn_costs *costs,
                                                    const cairn_solution *solution,
                                                    const cairn_exec_options *options,
                                                    cairn_exec **out, cairn_error *err);
CAIRN_API void cairn_exec_destroy(cairn_exec *exec);

/* What is reserved and what was predicted. Only the library makes one; fields are only ever added
 * at the end. */
typedef struct cairn_exec_figures {
    uint64_t predicted_peak_bytes; /* by the simulator, with the costs bound here */
    uint64_t arena_bytes;          /* of what the plan controls, mapped or shared */
    uint64_t stationary_bytes;     /* what stays on the device: parameters, state, optimiser, and
                                      gradients if the graph has no updates; 0 where shared */
    uint64_t host_bytes;           /* copies on the host */
    uint32_t threads;              /* compute units of the device */
    uint64_t home_bytes;           /* of host_bytes: stationary tensors whose home is the host */
    const int64_t *times; /* of a `timed` executor, else NULL: how long the compute lane spent on
                             each step of the plan in the last run, in ns: a wait until its copy had
                             ended, the start of a copy next to nothing */
    uint32_t time_count;
} cairn_exec_figures;
CAIRN_API const cairn_exec_figures *cairn_exec_get_figures(const cairn_exec *exec);

/* ---- A step: write the inputs, run, update ---- */

/* Write a tensor: an input or label, before each run, because a run may overwrite it; or a
 * stationary tensor: a parameter, state, a parameter's gradient. `data` is all of its elements in
 * plain layout. CAIRN_EINVAL: the plan has no place for the tensor between steps, for example for a
 * label in evaluation. Other failures are the device's, also of earlier calls that did not wait for
 * it. */
CAIRN_API CAIRN_MUST cairn_status cairn_exec_write(cairn_exec *exec, cairn_id tensor,
                                                   const void *data, cairn_error *err);

/* The same without waiting: `data` must stay as it is until the next run has ended, and then any
 * failure shows. On a GPU it is fastest from pinned memory. */
CAIRN_API CAIRN_MUST cairn_status cairn_exec_feed(cairn_exec *exec, cairn_id tensor,
                                                  const void *data, cairn_error *err);

/* Write all inputs (normal) and labels (uniform), as a function of the executor's seed and `step`.
 */
CAIRN_API CAIRN_MUST cairn_status cairn_exec_fill(cairn_exec *exec, uint64_t step,
                                                  cairn_error *err);

/* The result of a run. Start from CAIRN_EXEC_RESULT_INIT; fields are only ever added at the
 * end. */
typedef struct cairn_exec_result {
    uint32_t struct_size;
    float loss; /* 0 for plans of evaluation */
    int64_t time_ns;
    int64_t idle_ns;               /* of it, waiting for copies */
    uint64_t measured_peak_bytes;  /* counted: the largest union of the address ranges that were
                                      bound at any moment, in the arena */
    uint32_t runs;                 /* kernels that were run */
    uint64_t correct, predictions; /* of all that the loss compared with a label, those where the
                                      label was the likeliest class; 0 for plans of evaluation */
} cairn_exec_result;
#define CAIRN_EXEC_RESULT_INIT CAIRN_INIT_SIZED(cairn_exec_result)

/* Run the plan once, with `update_in_run` also the update, and wait for the end. Dropout draws from
 * the executor's seed and `step`. Afterwards the gradients of the parameters are in the stationary
 * memory, unless the graph has updates. Allocates nothing.
 * CAIRN_ESYSTEM: the device failed, now or since the last call that waited for it; only
 * cairn_exec_destroy() may follow. */
CAIRN_API CAIRN_MUST cairn_status cairn_exec_run(cairn_exec *exec, uint64_t step,
                                                 cairn_exec_result *out, cairn_error *err);

/* The learning rate of the updates that follow; before the first call it is that of the options. */
CAIRN_API void cairn_exec_set_rate(cairn_exec *exec, double rate);

/* Without `update_in_run` the caller asks for the update, after each run. The gradients of the run
 * are added to those of the micro-batches before it. After the last of `micro_batches` runs, every
 * parameter that has a gradient gets one step of the optimiser, by the mean of the gradients. The
 * bits do not depend on the number of threads.
 *
 * It does nothing with `update_in_run`, for a graph that has updates, and after evaluation. It
 * allocates nothing and does not wait for the device; a failure shows in the next call that
 * does. */
CAIRN_API void cairn_exec_update(cairn_exec *exec);

/* ---- Reading what stays ---- */

/* Read a tensor into `data`, which has room for all of its elements in plain layout: a parameter,
 * state, a parameter's gradient; after a run also what the plan leaves in memory: the loss,
 * results, in evaluation the network's output, until the next input is written. CAIRN_EINVAL: any
 * other. */
CAIRN_API CAIRN_MUST cairn_status cairn_exec_read(cairn_exec *exec, cairn_id tensor, void *data,
                                                  cairn_error *err);

enum { CAIRN_EXEC_PARAMETERS = 1, CAIRN_EXEC_STATE = 2, CAIRN_EXEC_GRADIENTS = 4 };

/* SHA-256 over the tensors of these sorts, sorted by name, their elements in plain layout and
 * little-endian; as 64 hexadecimal digits. */
CAIRN_API CAIRN_MUST cairn_status cairn_exec_sha256(cairn_exec *exec, uint32_t sorts, char out[65],
                                                    cairn_error *err);

#ifdef __cplusplus
}
#endif
#endif
