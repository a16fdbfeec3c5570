/* cairn.h: plan a training step inside a memory budget, and run it there.
 *
 *     model -> graph -> costs -> solver -> plan -> simulator -> layout -> executor -> report
 *
 * In short, a ResNet-50 with batch 32 in 4 GiB (examples/train_in_budget.c is a whole program):
 *
 *     cairn_model_open(NULL, "resnet50", &size, &forward, &err);            a network
 *     cairn_graph_differentiate(forward, NULL, &graph, &err);               its training step
 *     cairn_device_open(NULL, NULL, &device, &err);                         where it runs
 *     cairn_bind(graph, device, &costs, &err);                              what it costs there
 *     cairn_solve(graph, costs, NULL, &options, &solution, &err);           the plan
 *     cairn_train_create(graph, device, costs, solution, NULL, &train, &err);
 *     cairn_train_step(train, &result, &err);                               again and again
 *
 * A program that has its own kernels describes its step (graph.h), gives costs, solves, and carries
 * the plan out itself: docs/embedding.md.
 *
 * ---- Conventions ----
 *
 * - Functions that can fail return cairn_status and fill an optional cairn_error. See base.h.
 * - `const T *` arguments are borrowed for the call. `T **out` is the caller's, and NULL on
 *   failure. A returned `const T *` lives as long as the object it came from.
 * - Bytes are uint64_t, times int64_t nanoseconds, ids uint32_t.
 * - Structs of options, and structs that a function fills in for the caller, begin with struct_size
 *   and start from a macro that ends in _INIT. Structs that only the library makes grow at their
 *   end; numbers of enums are frozen.
 * - The values of an enum bear its name (CAIRN_ROLE_INPUT, CAIRN_STEP_RUN); those of cairn_status
 *   do not.
 * - Lists (cairn_solver_list(), cairn_zoo_list(), ...) are indexed from 0 and end with NULL; an
 *   entry has a name and a summary.
 * - The library never prints and never exits. Between calls it keeps, outside the objects that the
 *   caller holds, only what it works out once and never changes: tables of kernels, the number of
 *   GPUs, oneDNN's engine. The libraries that it uses keep more: oneDNN, OpenMP, and NVIDIA's,
 *   which stay open once a GPU was opened.
 *
 * ---- Threads ----
 *
 * - Graphs, costs, plans, simulations, layouts, solutions, reports and the papers' problems: once
 *   made, any number of threads may read one. A thread that changes costs or the header of a plan
 *   is the only one that uses them.
 * - Builders, memos, pages, texts and errors: one thread at a time.
 * - A device and everything made on it (executors, sessions, evaluators): one thread at a time.
 *   Different devices are independent.
 * - Data: any number of sessions and evaluators at once. Each starts a thread that makes batches.
 * - Solving, simulating and laying out may be called from several threads at once on one graph. */
#ifndef CAIRN_H
#define CAIRN_H

/* A program may include only the headers that it needs; each includes only those above it. */
/* clang-format off */

/* Plan */
#include "cairn/base.h"      /* status, errors, the caller's allocator, texts, progress */
#include "cairn/graph.h"     /* a training step: tensors and ops */
#include "cairn/zoo.h"       /* networks that are built in */
#include "cairn/import.h"    /* networks from files */
#include "cairn/cost.h"      /* what ops cost: machines, analytic costs, measured tables */
#include "cairn/device.h"    /* devices, and what ops cost on one */
#include "cairn/optimizer.h" /* the optimisers */
#include "cairn/plan.h"      /* the list of steps, and its text */
#include "cairn/sim.h"       /* the judge: legality, memory, time */
#include "cairn/layout.h"    /* an address for every tensor */
#include "cairn/solve.h"     /* from a budget to a plan */

/* Run */
#include "cairn/data.h"      /* samples */
#include "cairn/exec.h"      /* carry a plan out */
#include "cairn/profile.h"   /* measure what ops cost */
#include "cairn/weights.h"   /* safetensors in and out */
#include "cairn/evaluate.h"  /* accuracy */
#include "cairn/train.h"     /* a session: optimiser, learning rate, history, snapshots */

/* Not included, because few programs need them:
 *     cairn/budget.h       budgets as people give them; the largest batch; sweeps
 *     cairn/safetensors.h  files of named tensors
 *     cairn/arrays.h       a step that is given as arrays, for fronts in other languages
 *     cairn/report.h       what is shown of a plan: figures, pictures, traces
 *     cairn/page.h         plans as a page for the browser
 *     cairn/papers.h       the abstract problems of the papers and the bounds, for research */
/* clang-format on */

#endif
