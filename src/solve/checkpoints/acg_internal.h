/* acg_internal.h: shared by the checkpoint searches: the objective of the paper, and the type of an
 * algorithm. */
#ifndef CRN_ACG_INTERNAL_H
#define CRN_ACG_INTERNAL_H

#include "solve/checkpoints/acg_problem.h"

/* ---- Objectives ---- */

/* A set of checkpoints has one byte per vertex, which is not 0 if the vertex is kept. */

/* CAIRN_ACG_OBJECTIVE_SEGMENTS. Returns false if a segment is not independent; `*culprit` is then
 * one of its vertices. `scratch` has room for 2n numbers. */
bool crn_acg_segments_value(const crn_acg *problem, const uint8_t *chosen, uint32_t *scratch,
                            uint64_t *value, uint32_t *culprit);

/* ---- Algorithms ---- */

/* Choose checkpoints: set bytes of `chosen`. Those of source and target are set already. Scratch
 * memory comes from `arena`, which the caller frees, so that algorithms need no cleanup code. */
typedef cairn_status crn_acg_run(const crn_acg *problem, const cairn_acg_options *options,
                                 crn_arena *arena, uint8_t *chosen, cairn_error *err);

#define X(id, name, objective, summary) crn_acg_run crn_acg_run_##id;
#include "solve/checkpoints/acg_algorithms.def"
#undef X

#endif
