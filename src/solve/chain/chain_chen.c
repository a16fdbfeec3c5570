/* chain_chen.c: equal segments, each computed once more (Chen, Xu, Zhang, Guestrin 2016).
 *
 *     f_0 ... f_s ... f_2s ... f_3s ....      the first pass keeps every s-th forward and all of
 *      *       *       *        *oooo         the last segment; the other segments are run again
 *                                             whole, one after the other, from the back
 *
 * With equal sizes s = sqrt(N) needs the least memory. Here every s is tried and simulated, and the
 * cheapest schedule that fits is taken. O(N^2) steps in all. */
#include "solve/chain/chain_solve.h"

static cairn_status lay_out(crn_arena *arena, uint32_t layers, uint32_t length,
                            crn_chain_steps *steps) {
    uint32_t last = layers / length * length; /* where the last segment begins */
    for (uint32_t at = 0; at < last; at += length)
        CRN_TRY(crn_chain_sweep(arena, steps, at, at + length));
    CRN_TRY(crn_chain_unroll(arena, steps, last, layers));
    for (uint32_t at = last; at > 0; at -= length)
        CRN_TRY(crn_chain_unroll(arena, steps, at - length, at - 1));
    return CAIRN_OK;
}

cairn_status crn_chain_chen(crn_chain_job *job, crn_chain_answer *answer) {
    crn_chain_choice choice;
    crn_chain_steps steps = {0};
    crn_chain_choice_init(&choice, job, answer);
    for (uint32_t length = 1; length <= job->problem->layers + 1; length++) {
        steps.length = 0;
        CRN_TRY(lay_out(job->arena, job->problem->layers, length, &steps));
        CRN_TRY(crn_chain_offer(&choice, &steps));
    }
    return CAIRN_OK;
}
