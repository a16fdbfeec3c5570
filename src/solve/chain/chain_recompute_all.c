/* chain_recompute_all.c: keep only f_0 and recompute from it for every backward. O(N^2) steps. */
#include "solve/chain/chain_solve.h"

cairn_status crn_chain_recompute_all(crn_chain_job *job, crn_chain_answer *answer) {
    crn_chain_choice choice;
    crn_chain_steps steps = {0};
    crn_chain_choice_init(&choice, job, answer);
    for (uint32_t l = job->problem->layers + 1; l-- > 0;) {
        CRN_TRY(crn_chain_sweep(job->arena, &steps, 0, l));
        CRN_TRY(crn_chain_push(job->arena, &steps, CAIRN_CHAIN_STEP_BACKWARD, l));
    }
    return crn_chain_offer(&choice, &steps);
}
