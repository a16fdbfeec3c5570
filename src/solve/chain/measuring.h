/* measuring.h: shared by the files that measure the pieces of a network.
 *
 *     backward_of_piece.c   the backward of a piece, with recomputations
 *     measure_piece.c       memory and time of a piece alone
 *     piece_options.c       ways of keeping less
 *     network_pieces.c      all pieces, and their schedules as run lists */
#ifndef CRN_MEASURING_H
#define CRN_MEASURING_H

#include "solve/chain/network_pieces.h"

typedef struct crn_measuring {
    const crn_problem *problem;
    const cairn_chain_view *view;
    crn_arena *arena;
    const cairn_graph *graph;
    crn_lower_tables tables;
    uint32_t *epoch_of; /* per tensor: the run of crn_backward_make() that has it available */
    bool *keepable;     /* per tensor: kept from the forward run if the backward needs it */
    uint32_t epoch;
    bool recomputes;                         /* whether recomputing pieces is measured too */
    bool *wanted_op;                         /* per op: it must be recomputed; while collecting */
    uint32_t *first_backward, *backward_ops; /* backward ops by piece */
    cairn_id *constant; /* inputs and labels that the piece being measured reads; all stay */
    uint32_t constant_count;
    uint64_t constant_bytes;
} crn_measuring;

/* The size of a tensor in the arena. */
static inline uint64_t crn_measured_bytes(const crn_measuring *m, cairn_id tensor) {
    return crn_align(cairn_costs_bytes(m->problem->costs)[tensor]);
}

/* ---- backward_of_piece.c ---- */

/* Sort the backward ops by piece. */
CAIRN_MUST cairn_status crn_backward_index(crn_measuring *m);

/* The backward of a piece. Tensors that are marked as keepable are kept if it needs them. */
CAIRN_MUST cairn_status crn_backward_make(crn_measuring *m, uint32_t piece, crn_backward *out);

/* ---- measure_piece.c ---- */

/* Find the inputs and labels that the piece reads. The others would be added to its peaks and
 * subtracted again, and a long chain has many of them. */
void crn_find_constants(crn_measuring *m, uint32_t piece);
bool crn_is_constant(const crn_measuring *m, cairn_id tensor);

/* Measure running the piece while keeping what `back` needs, and then its backward. */
CAIRN_MUST cairn_status crn_measure_way(crn_measuring *m, uint32_t piece, const crn_backward *back,
                                        crn_piece_way *out);

/* Measure running the piece while keeping nothing, and recomputing what `back` needs with the
 * backward. */
CAIRN_MUST cairn_status crn_measure_again(crn_measuring *m, uint32_t piece,
                                          const crn_backward *back, crn_piece *out);

/* The bytes of the gradients that later pieces pass to this piece. */
CAIRN_MUST cairn_status crn_incoming_bytes(crn_measuring *m, uint32_t piece, uint64_t *out);

/* ---- piece_options.c ---- */

/* The useful ways of keeping: first everything that the backward reads, then, if asked for, less
 * and less of it. `*backs` has the backward of each way. */
CAIRN_MUST cairn_status crn_find_ways(crn_measuring *m, uint32_t piece, crn_backward **backs,
                                      crn_piece *out);

#endif
