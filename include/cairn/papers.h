/* papers.h: the abstract problems of the papers, for research: they need no network, and cairn.h
 * does not include them. Each has a list of algorithms, a reader for files of cases, and a judge.
 *
 *     acg.h            checkpoints on any graph: least memory with one recomputation
 *     chain.h          a chain of layers: least time under a budget
 *     offload.h        copies to the host on a chain: least idle time
 *     views.h, offload_view.h    a network as such a problem
 *     budget_curve.h   the least time on a network for every budget at once
 *     bounds.h         the time and the memory that every plan of a network takes at least */
#ifndef CAIRN_PAPERS_H
#define CAIRN_PAPERS_H

#include "cairn/papers/acg.h"
#include "cairn/papers/bounds.h"
#include "cairn/papers/budget_curve.h"
#include "cairn/papers/chain.h"
#include "cairn/papers/offload.h"
#include "cairn/papers/offload_view.h"
#include "cairn/papers/views.h"

#endif
