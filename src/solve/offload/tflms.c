/* tflms.c: TFLMS (Le et al., 2018) as Beaumont et al. compare with it.
 *
 * TFLMS rewrites the graph without using sizes or times. It has two parameters: how many
 * activations are moved, counted from the input, and how many layers before its use an activation
 * is fetched:
 *
 *     F_0 o_0 F_1 o_1 .. o_{k-1} .. F_L | B_L .. B_{i+ahead} f_i .. B_i ..
 *
 * Ops start the transfers, so a forward op never waits for free memory. All values of both
 * parameters are tried and the shortest schedule is taken. Schedules in which forward ops wait, as
 * Cairn's executor would make them, are used only if there is no other. On long chains only every
 * k-th value is tried, so that the work stays within a limit. */
#include "solve/offload/offload_list.h"

#define MOST_TRIES 4096
#define MOST_WORK (1u << 25) /* layers * tries */

typedef struct attempt {
    crn_offload_lister lister;
    crn_offload_list list;
    int64_t forward_time;         /* of all forward ops without waiting */
    crn_offload_schedule waiting; /* best where forward ops wait */
} attempt;

static void append(crn_offload_list *list, crn_offload_kind kind, uint32_t index) {
    list->events[list->length++] = crn_event(kind, index);
}

/* Build the list. The fetch of x_i starts with B_{i + ahead}. If `ahead` is 0, the fetch of x_i
 * comes just before B_i. */
static void build(attempt *a, uint32_t moved, uint32_t ahead) {
    uint32_t n = a->lister.chain->count;
    a->list.length = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i < moved)
            append(&a->list, CRN_LIST_OFFLOAD, i);
        append(&a->list, CRN_LIST_RUN, i);
    }
    uint32_t next = moved; /* fetches still to come: next - 1, .., 0 */
    while (next > 0 && ahead > 0 && next - 1 + ahead >= n)
        append(&a->list, CRN_LIST_FETCH, --next);
    for (uint32_t i = n; i-- > 0;) {
        if (ahead == 0 && next > i)
            append(&a->list, CRN_LIST_FETCH, --next);
        append(&a->list, CRN_LIST_RUN, 2 * n - 1 - i);
        if (ahead > 0 && next > 0 && next - 1 + ahead == i)
            append(&a->list, CRN_LIST_FETCH, --next);
    }
}

static void try_parameters(crn_offload_job *job, attempt *a, uint32_t moved, uint32_t ahead,
                           crn_offload_schedule *best) {
    uint32_t n = job->chain->count;
    build(a, moved, ahead);
    int64_t length = crn_offload_list_run(&a->lister, &a->list, &job->trial);
    if (length < 0)
        return;
    bool waits = job->trial.forward[n - 1] + job->chain->forward[n - 1] > a->forward_time;
    crn_offload_schedule *keep = waits ? &a->waiting : best;
    if (!keep->found || length < keep->makespan)
        crn_offload_schedule_copy(n, &job->trial, keep);
}

/* The smallest number of activations that fits: that of GREEDY. */
static uint32_t fewest(const uint8_t *eager, uint32_t n) {
    uint32_t count = 0;
    while (count < n && eager[count])
        count++;
    return count;
}

cairn_status crn_offload_solve_tflms(crn_offload_job *job, crn_offload_schedule *best) {
    uint32_t n = job->chain->count;
    uint8_t *eager;
    attempt a = {0};
    CRN_TAKE(job->arena, eager, n);
    CRN_TRY(crn_offload_lister_make(job->arena, job->chain, &a.lister));
    CRN_TRY(crn_offload_list_make(job->arena, n, &a.list));
    CRN_TRY(crn_offload_schedule_make(job->arena, n, &a.waiting));
    a.forward_time = a.lister.to_go[0] - a.lister.to_go[n];
    crn_offload_eager_set(job->chain, eager);
    uint32_t least = fewest(eager, n);
    uint32_t stride = 1;
    uint64_t tries = CRN_MAX(16, CRN_MIN(MOST_TRIES, MOST_WORK / n));
    while ((uint64_t)((n - least) / stride + 1) * (n / stride + 1) > tries)
        stride++;
    for (uint32_t moved = least; moved <= n; moved += stride)
        for (uint32_t ahead = 0; ahead <= n; ahead += stride)
            try_parameters(job, &a, moved, ahead, best);
    for (uint32_t ahead = 0; ahead <= 1;
         ahead++) /* the last resort: move all, fetch just in time */
        try_parameters(job, &a, n, ahead, best);
    if (!best->found)
        crn_offload_schedule_copy(n, &a.waiting, best);
    return CAIRN_OK;
}
