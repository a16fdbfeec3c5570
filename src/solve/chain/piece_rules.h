/* piece_rules.h: the terms of the recurrence over pieces (see piece_chain.c), shared by the files
 * that evaluate it. */
#ifndef CRN_PIECE_RULES_H
#define CRN_PIECE_RULES_H

#include "solve/chain/piece_chain.h"

static inline uint64_t crn_max3(uint64_t x, uint64_t y, uint64_t z) {
    return CRN_MAX(CRN_MAX(x, y), z);
}

/* g_{a+1} */
static inline uint64_t crn_piece_gradient_after(const crn_piece_chain *chain, uint32_t a) {
    return a + 1 < chain->count ? chain->pieces[a + 1].gradient_bytes : chain->final_gradient;
}

/* The ways of a leaf: one, or, for the last piece, its ways of keeping. */
static inline uint32_t crn_piece_leaf_ways(const crn_piece_chain *chain, uint32_t a,
                                           const crn_piece_way **ways) {
    const crn_piece *piece = &chain->pieces[a];
    bool kept = a + 1 == chain->count && piece->way_count > 0;
    *ways = kept ? piece->ways : &piece->again;
    return kept ? piece->way_count : 1;
}

/* The memory to run and differentiate a piece this way while g_{b+1} is in memory. */
static inline uint64_t crn_piece_way_memory(const crn_piece_chain *chain, const crn_piece_way *way,
                                            uint32_t b) {
    return CRN_MAX(crn_piece_gradient_after(chain, b) + way->forward_peak, way->backward_peak);
}

static inline int64_t crn_piece_way_time(const crn_piece_way *way) {
    return way->forward_time + way->backward_time;
}

/* The forward peak of running a .. j-1, given that of running a .. j-2. */
static inline uint64_t crn_piece_sweep_peak(const crn_piece_chain *chain, uint32_t a, uint32_t j,
                                            uint64_t before) {
    return j == a + 1 ? chain->pieces[a].discard_peak
                      : CRN_MAX(before, chain->pieces[j - 1].pass_peak);
}

/* (*out)[a * n + length - 1]: where the leftmost sub-chain equal to a .. a+length-1 begins. */
CAIRN_MUST cairn_status crn_piece_homes(const crn_piece_chain *chain, crn_arena *arena,
                                        const uint32_t **out);

/* (*out)[a * n + b], for the leftmost of equal sub-chains: the memory at which a schedule of the
 * whole chain may use a..b, according to a table of upper and one of lower bounds. */
CAIRN_MUST cairn_status crn_piece_narrow(const crn_piece_chain *chain, const crn_piece_table *above,
                                         const crn_piece_table *below, crn_arena *arena,
                                         const crn_span **out);

#endif
