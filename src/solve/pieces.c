/* pieces.c */
#include "solve/pieces.h"
cairn_status crn_acg_run_pieces(const crn_acg *problem, const cairn_acg_options *options,
                                crn_arena *arena, uint8_t *chosen, cairn_error *err) {
    return crn_acg_run_feng(problem, options, arena, chosen, err);
}
