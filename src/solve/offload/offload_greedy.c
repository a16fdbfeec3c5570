/* offload_greedy.c: GREEDY (Beaumont et al., section 4.2).
 *
 * If any share of an activation can be moved, it is best to move as little as possible, the first
 * bytes first: they can leave earliest and are needed last. Rounded up to whole activations:
 *
 *     x_0 x_1 .. x_k,  the smallest k whose sum reaches peak memory - memory.
 *
 * One evaluation, O(n log n). */
#include "solve/offload/crn_offload.h"

cairn_status crn_offload_solve_greedy(crn_offload_job *job, crn_offload_schedule *best) {
    uint8_t *moved;
    CRN_TAKE(job->arena, moved, job->chain->count);
    crn_offload_eager_set(job->chain, moved);
    crn_offload_try(job, moved, best);
    return CAIRN_OK;
}
