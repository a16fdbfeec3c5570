/* clang-format off: the table */
/* cairn.h: the public interface of libcairn.
 *
 *     model -> graph -> costs -> solver -> plan -> simulator -> layout -> executor -> report
 *
 * One header per stage; a program may include only those it needs. Conventions that hold
 * throughout:
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
 * - The library never prints and never exits. It keeps nothing between calls outside the objects
 *   that the caller holds. The libraries that it uses may: oneDNN, OpenMP, and NVIDIA's, which stay
 *   open once a GPU was opened.
 *
 * Threads:
 *
 *     graph, costs, plan, sim, layout,   once made, any number of threads may read one; a thread
 *     solution, views, report, curve,    that changes costs (set, merge) or a plan's header is
 *     safetensors, steps from arrays,    the only one that uses them
 *     cases of the papers' problems
 *     and their solutions
 *     builder, plan builder, page,       one thread at a time
 *     text, error
 *     device, and the executors,         one thread at a time for a device and everything made
 *     sessions and profiles on it        on it; different devices are independent
 *     data                               any number of sessions and evaluators at once; each
 *                                        starts another thread, which makes batches
 *     solving, simulating, laying out    may be called from several threads at once, on one
 *                                        graph */
/* clang-format on */
#ifndef CAIRN_H
#define CAIRN_H

/* In the order of the data flow: a header includes only those above it. The papers' problems, which
 * need no network, are in cairn/papers.h. */
/* clang-format off */
#include "cairn/base.h"
#include "cairn/graph.h"
#include "cairn/zoo.h"
#include "cairn/import.h"
#include "cairn/cost.h"
#include "cairn/device.h"
#include "cairn/optimizer.h"
#include "cairn/plan.h"
#include "cairn/sim.h"
#include "cairn/layout.h"
#include "cairn/solve.h"
#include "cairn/budget.h"
#include "cairn/arrays.h"
#include "cairn/data.h"
#include "cairn/exec.h"
#include "cairn/profile.h"
#include "cairn/weights.h"
#include "cairn/evaluate.h"
#include "cairn/train.h"
#include "cairn/report.h"
#include "cairn/page.h"
/* clang-format on */

#endif
