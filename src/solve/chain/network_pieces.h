/* network_pieces.h: a network as a chain of pieces with exact costs, and the schedules of such a
 * chain as run lists. */
#ifndef CRN_NETWORK_PIECES_H
#define CRN_NETWORK_PIECES_H

#include "cairn/papers/views.h"
#include "solve/chain/piece_chain.h"
#include "solve/solver.h"

/* The backward of a piece with its recomputations, in order. */
typedef struct crn_backward {
    const crn_decision *decisions;
    uint32_t count;
    const cairn_id *kept; /* the tensors that it needs from the forward run */
    uint32_t kept_count;
} crn_backward;

typedef struct crn_network_pieces {
    const crn_problem *problem;
    const cairn_chain_view *view;
    crn_piece_chain chain;
    crn_backward **ways; /* per piece and way of keeping: its backward */
    crn_backward *again; /* per piece: its backward after keeping nothing but its input */
    uint64_t always;     /* bytes that are always in use: inputs, labels, the loss */
} crn_network_pieces;

/* Measure every piece. `view` must outlive the result, which is allocated in the problem's scratch
 * arena. */
CAIRN_MUST cairn_status crn_network_pieces_build(const crn_problem *problem,
                                                 const cairn_chain_view *view,
                                                 crn_network_pieces *out);

/* Measure only the way that keeps everything that is read. The result cannot be expanded. */
CAIRN_MUST cairn_status crn_network_pieces_keep(const crn_problem *problem,
                                                const cairn_chain_view *view,
                                                crn_network_pieces *out);

/* The run list of a schedule of the whole chain. */
CAIRN_MUST cairn_status crn_network_pieces_expand(const crn_network_pieces *network,
                                                  const crn_piece_nodes *nodes,
                                                  crn_schedule *schedule);

#endif
