/* vdnn.c: VDNN as Beaumont et al. model vDNN++ (section 6.1).
 *
 * vDNN++ moves the inputs of convolutions, because they have much computing time per byte: all of
 * them, or every second one. Here a layer counts as a convolution if its forward time per byte of
 * input reaches a threshold. All thresholds are tried, each with both choices, and the empty set.
 * The shortest schedule is taken, the first one of equals.
 *
 * Ratios are compared as fractions; x_i = 0 counts as infinite. 2 n evaluations, O(n^2 log n); on
 * chains of many thousand layers only some thresholds are tried. */
#include "solve/offload/crn_offload.h"

__extension__ typedef unsigned __int128 wide;

#define MOST_WORK ((uint64_t)1 << 25) /* layers * thresholds: some 5,800 of each */

/* forward_time[a] / size[a] >= forward_time[b] / size[b]. */
static bool ratio_reaches(const cairn_offload_problem *p, uint32_t a, uint32_t b) {
    if (p->activations[a] == 0)
        return true;
    if (p->activations[b] == 0)
        return false;
    return (wide)p->forward_time[a] * p->activations[b] >=
           (wide)p->forward_time[b] * p->activations[a];
}

static void choose(const cairn_offload_problem *p, uint32_t threshold, bool every_second,
                   uint8_t *moved) {
    bool take = true;
    for (uint32_t i = 0; i < p->layers; i++) {
        moved[i] = ratio_reaches(p, i, threshold) && take;
        if (every_second && ratio_reaches(p, i, threshold))
            take = !take;
    }
}

cairn_status crn_offload_solve_vdnn(crn_offload_job *job, crn_offload_schedule *best) {
    uint8_t *moved;
    CRN_TAKE(job->arena, moved, job->chain->count);
    crn_offload_try(job, moved, best);
    uint32_t stride = 1 + (uint32_t)((uint64_t)job->chain->count * job->chain->count / MOST_WORK);
    for (uint32_t threshold = 0; threshold < job->chain->count; threshold += stride) {
        choose(job->problem, threshold, false, moved);
        crn_offload_try(job, moved, best);
        choose(job->problem, threshold, true, moved);
        crn_offload_try(job, moved, best);
    }
    return CAIRN_OK;
}
