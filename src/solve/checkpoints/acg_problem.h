/* acg_problem.h: a valid vertex-weighted DAG with its neighbour lists. The division tree and the
 * checkpoint searches use it. */
#ifndef CRN_ACG_PROBLEM_H
#define CRN_ACG_PROBLEM_H

#include "base/crn_base.h"
#include "cairn/papers/acg.h"

/* Neighbours of all vertices, one after the other: those of v are
 * items[start[v]] .. items[start[v + 1] - 1]. */
typedef struct crn_neighbours {
    uint32_t *start, *items;
} crn_neighbours;

/* A DAG that has passed validation. */
typedef struct crn_acg {
    const cairn_dag *dag;
    const uint32_t *names; /* ids for messages; NULL: the number of the vertex */
    crn_neighbours next, previous;
    uint32_t *order; /* vertices in topological order: source first, target last */
    uint32_t *rank;  /* its inverse */
    uint64_t total;  /* sum of all costs */
} crn_acg;

/* Validate and build. The problem is allocated in `arena` and borrows `dag` and `names`. O(n +
 * m). */
CAIRN_MUST cairn_status crn_acg_prepare(crn_arena *arena, const cairn_dag *dag,
                                        const uint32_t *names, crn_acg *out, cairn_error *err);

static inline uint32_t crn_acg_name(const crn_acg *problem, uint32_t vertex) {
    return problem->names != NULL ? problem->names[vertex] : vertex;
}

/* Whether the graph is a chain: every vertex but the target has one successor. */
bool crn_acg_is_chain(const crn_acg *problem);

#endif
