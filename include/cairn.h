/* cairn.h: the whole public interface of libcairn.
 *
 *     model -> graph -> costs -> solver -> plan -> simulator -> layout -> executor -> report
 *
 * One header per stage; a program may include only those it needs. Conventions that hold
 * throughout:
 *
 * - Functions that can fail return cairn_status and fill an optional cairn_error. See base.h.
 * - `const T *` arguments are borrowed for the call. `T **out` is the caller's, and NULL on
 * failure. A returned `const T *` lives as long as the object it came from.
 * - Bytes are uint64_t, times int64_t nanoseconds, ids uint32_t.
 * - The library keeps no global state, never prints and never exits. Objects that are not being
 *   changed may be read from several threads. */
#ifndef CAIRN_H
#define CAIRN_H

#include "cairn/base.h"
#include "cairn/acg.h"
#include "cairn/arrays.h"
#include "cairn/budget.h"
#include "cairn/chain.h"
#include "cairn/cost.h"
#include "cairn/dag.h"
#include "cairn/data.h"
#include "cairn/device.h"
#include "cairn/exec.h"
#include "cairn/graph.h"
#include "cairn/layout.h"
#include "cairn/import.h"
#include "cairn/offload.h"
#include "cairn/offload_view.h"
#include "cairn/optimizer.h"
#include "cairn/page.h"
#include "cairn/plan.h"
#include "cairn/profile.h"
#include "cairn/report.h"
#include "cairn/sim.h"
#include "cairn/solve.h"
#include "cairn/train.h"
#include "cairn/views.h"
#include "cairn/weights.h"
#include "cairn/zoo.h"

#endif
