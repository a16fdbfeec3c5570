/* piece_grid.h: the recurrence of piece_chain.h on a grid of memory, for long chains.
 *
 * The exact step functions of a long chain have many thousand points. Here memory is counted in
 * slots. Sizes are rounded up, so that every value belongs to a real schedule, or rounded down for
 * a lower bound. A query for a schedule makes up for the rounding: it also tries schedules of
 * somewhat more slots and checks them in bytes. */
#ifndef CRN_PIECE_GRID_H
#define CRN_PIECE_GRID_H

#include "solve/chain/piece_chain.h"

typedef struct crn_piece_grid crn_piece_grid;

/* Solve every sub-chain for `memory` and less (UINT64_MAX: the whole curve) with about `slots`
 * slots. The chain must have passed crn_piece_check() and outlive the grid, which is allocated in
 * `arena`. O(n^3 slots) simple operations, O(n^2 slots) memory; both with small factors, as short
 * sub-chains use few slots. */
CAIRN_MUST cairn_status crn_piece_grid_solve(const crn_piece_chain *chain, uint64_t memory,
                                             uint32_t slots, bool downwards, crn_arena *arena,
                                             crn_piece_grid **out);

/* The time as a function of memory. Schedules attain it; with `downwards` it is a lower bound. */
CAIRN_MUST cairn_status crn_piece_grid_curve(const crn_piece_grid *grid, crn_arena *arena,
                                             crn_curve *out);
int64_t crn_piece_grid_time(const crn_piece_grid *grid, uint64_t memory);

/* The best schedule found that needs at most `memory`. `*found` is false if the grid has none.
 * `*time` is at most crn_piece_grid_time(). Not for a lower bound. */
CAIRN_MUST cairn_status crn_piece_grid_schedule(const crn_piece_grid *grid, uint64_t memory,
                                                crn_arena *arena, crn_piece_nodes *out,
                                                int64_t *time, bool *found);

#endif
