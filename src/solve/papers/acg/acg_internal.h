/* acg_internal.h: what the checkpoint searches share: the validated problem with its neighbour
 * lists, the two objectives, and the form of an algorithm. */
#ifndef CRN_ACG_INTERNAL_H
#define CRN_ACG_INTERNAL_H

#include "base/crn_base.h"
#include "cairn/acg.h"

/* Neighbours of all vertices, one after the other: those of v are
 * items[start[v]] .. items[start[v + 1] - 1]. */
typedef struct crn_neighbours {
    uint32_t *start, *items;
} crn_neighbours;

/* A DAG that was found valid. */
typedef struct crn_acg {
    const cairn_dag *dag;
    const uint32_t *names; /* NULL: a vertex is called by its number */
    crn_neighbours next, previous;
    uint32_t *order; /* vertices in topological order: source first, target last */
    uint32_t *rank;  /* its inverse */
    uint64_t total;  /* sum of all costs */
} crn_acg;

/* Validate and build. The problem lives in `arena` and borrows `dag` and `names`. O(n + m). */
CAIRN_MUST cairn_status crn_acg_prepare(crn_arena *arena, const cairn_dag *dag,
                                        const uint32_t *names, crn_acg *out, cairn_error *err);

static inline uint32_t crn_acg_name(const crn_acg *problem, uint32_t vertex) {
    return problem->names != NULL ? problem->names[vertex] : vertex;
}

/* Is the graph a chain: every vertex but the target has one successor? */
bool crn_acg_is_chain(const crn_acg *problem);

/* ---- Objectives ---- */

/* A set of checkpoints is one byte per vertex: not 0 if it is kept. */

/* CAIRN_ACG_SEGMENTS; false if a segment is not independent, `*culprit` then being one of its
 * vertices. Room for 2n numbers in `scratch`. */
bool crn_acg_segments_value(const crn_acg *problem, const uint8_t *chosen, uint32_t *scratch,
                            uint64_t *value, uint32_t *culprit);

/* ---- Algorithms ---- */

/* Choose checkpoints: set bytes of `chosen`, where those of source and target are set already.
 * Scratch memory comes from `arena`, which the caller frees: no cleanup code. */
typedef cairn_status crn_acg_run(const crn_acg *problem, const cairn_acg_options *options,
                                 crn_arena *arena, uint8_t *chosen, cairn_error *err);

#define X(id, name, objective, summary) crn_acg_run crn_acg_run_##id;
#include "solve/papers/acg/acg_algorithms.def"
#undef X

#endif
