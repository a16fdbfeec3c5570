/* acg_internal.h: what the checkpoint searches share: the objective of the paper, and the form of
 * an algorithm. */
#ifndef CRN_ACG_INTERNAL_H
#define CRN_ACG_INTERNAL_H

#include "solve/tree/acg_problem.h"

/* ---- Objectives ---- */

/* A set of checkpoints is one byte per vertex: not 0 if it is kept. */

/* CAIRN_ACG_OBJECTIVE_SEGMENTS; false if a segment is not independent, `*culprit` then being one of
 * its vertices. Room for 2n numbers in `scratch`. */
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
