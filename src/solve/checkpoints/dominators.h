/* dominators.h: the vertices that every path from the source passes through. */
#ifndef CRN_DOMINATORS_H
#define CRN_DOMINATORS_H

#include "solve/checkpoints/acg_problem.h"

/* A vertex dominates another if every path from the source to the other goes through it. The
 * dominators of a vertex lie one after the other on all these paths; the last one is its parent
 * here, and all of them are its ancestors. */
typedef struct crn_dominators {
    uint32_t *parent; /* per vertex; UINT32_MAX at the source */
    uint32_t *depth;  /* per vertex; 1 at the source */
} crn_dominators;

/* O((n + m) log n), in linear memory. */
CAIRN_MUST cairn_status crn_dominators_build(crn_arena *arena, const crn_acg *problem,
                                             crn_dominators *out);

#endif
