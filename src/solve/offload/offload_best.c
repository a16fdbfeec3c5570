/* offload_best.c: the shortest schedule that Cairn can find.
 *
 * The paper's algorithms choose sets as if transfers could be interrupted, and run them in one
 * fixed order. Neither is optimal: a set that is best with interruptible transfers can be worse
 * with whole ones, and interleaving offloads with fetches can beat every ordered schedule (lemma 3
 * of the paper is false; example E14: 10 against 12). So there are three stages:
 *
 *     1. all other algorithms; so this one is never longer than any of them
 *     2. the best sets polished by the makespan that will be run (offload_polish.c)
 *     3. few layers: all lists (offload_exact.c), which proves the optimum
 *        otherwise: local search over lists (offload_anneal.c)
 *
 * Every list is a schedule with whole release, and also one with fractional release. The search
 * stops when it reaches a lower bound of all schedules. */
#include "solve/offload/offload_list.h"

#define EXACT_STATES 200000
#define SMALL_STATES 20000 /* used before the local search has found a good schedule */
#define ANNEAL_WORK 30000000
#define POLISH_WORK 5000000

typedef cairn_status solve_function(crn_offload_job *job, crn_offload_schedule *best);

static bool done(const crn_offload_job *job, const crn_offload_schedule *best) {
    return best->found && best->makespan <= job->goal;
}

static void polish(crn_offload_job *job, uint8_t *moved, uint64_t *work,
                   crn_offload_schedule *best) {
    crn_offload_polish(job->ordered, job->chain, job->release, job->goal, work, moved);
    crn_offload_try(job, moved, best);
}

/* Run each of the other algorithms, and polish its set. */
static cairn_status run_others(crn_offload_job *job, crn_offload_schedule *best) {
    static solve_function *const others[] = {
#define X(name, function, summary) crn_offload_solve_##function,
#include "solve/offload/offload_algorithms.def"
#undef X
    };
    uint32_t n = job->chain->count;
    uint64_t work = job->max_work != 0 ? job->max_work / 4 : POLISH_WORK;
    crn_offload_schedule other;
    CRN_TRY(crn_offload_schedule_make(job->arena, n, &other));
    for (size_t k = 0; k < CRN_LENGTH(others) && !done(job, best); k++) {
        if (others[k] == crn_offload_solve_best)
            continue;
        other.found = false;
        CRN_TRY(others[k](job, &other));
        if (!other.found)
            continue;
        if (!best->found || other.makespan < best->makespan)
            crn_offload_schedule_copy(n, &other, best);
        uint64_t share = work / 3;
        work -= share;
        polish(job, other.moved, &share, best);
        work += share;
    }
    return CAIRN_OK;
}

cairn_status crn_offload_solve_best(crn_offload_job *job, crn_offload_schedule *best) {
    crn_offload_lister lister;
    crn_offload_chain tight;
    bool complete = false;
    uint64_t work = job->max_work != 0 ? job->max_work : ANNEAL_WORK;
    CRN_TRY(run_others(job, best));
    if (done(job, best))
        return CAIRN_OK;
    CRN_TRY(crn_offload_tighten(job->arena, job->chain, &tight));
    CRN_TRY(crn_offload_lister_make(job->arena, &tight, &lister));
    CRN_TRY(crn_offload_exact(job->arena, &lister, SMALL_STATES, &job->trial, best, &complete));
    if (!complete)
        CRN_TRY(crn_offload_anneal(job->arena, &lister, job->goal, work, &job->trial, best));
    if (!complete && !done(job, best))
        CRN_TRY(crn_offload_exact(job->arena, &lister, EXACT_STATES, &job->trial, best, &complete));
    best->optimal = complete && job->release == CAIRN_OFFLOAD_RELEASE_WHOLE;
    return CAIRN_OK;
}
