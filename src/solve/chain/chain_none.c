/* chain_none.c: keep everything; nothing is recomputed. O(N). */
#include "solve/chain/chain_solve.h"

cairn_status crn_chain_none(crn_chain_job *job, crn_chain_answer *answer) {
    crn_chain_choice choice;
    crn_chain_steps steps = {0};
    crn_chain_choice_init(&choice, job, answer);
    CRN_TRY(crn_chain_unroll(job->arena, &steps, 0, job->problem->layers));
    return crn_chain_offer(&choice, &steps);
}
