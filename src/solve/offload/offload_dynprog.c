/* offload_dynprog.c: DYNPROG, the set whose ordered schedule is shortest under fractional release
 * (Beaumont et al., section 5.3, algorithm 1, corrected: see offload_front.c for the programme
 * itself).
 *
 * The programme is exact on integers, but its fronts can grow without limit. So, as in section
 * 5.3.2, memory is divided into slots and sizes are counted in slots:
 *
 *     times           partial sums rounded down
 *     room of an op   memory less what the op itself holds, rounded down: the paper rounds exF, exB
 *                     and y up one by one, but they only occur in this sum, and a room that is not
 *                     negative stays so, so a case that fits never stops fitting by rounding
 *     activations     partial sums rounded up, which is optimistic for some; while the set found
 *                     does not fit in truth, the activations whose rounding is below but closest to
 *                     the truth get one slot more: 1, 1, 2, 4, .. of them in turn, where the
 *                     paper raises one each time
 *
 * The set is then polished in true units, which corrects effects of rounding. It is compared with
 * the set of GREEDY by its true makespan under fractional release. The result is the schedule of
 * the better set under the release that was asked for. */
#include "solve/offload/crn_offload.h"
#include "solve/offload/offload_front.h"

__extension__ typedef __int128 wide;

#define DEFAULT_SLOTS 500
#define QUICK_WIDTH 640 /* largest front for the exact attempt */
#define EXACT_WIDTH (1 << 18)
#define EXACT_WORK 2000000000u /* comparisons of states */
#define SLOT_WORK 400000000u
#define SLOT_WIDTH 1024
#define MOST_ROUNDS 24
#define POLISH_WORK 2000000

/* ---- Counting in slots ---- */

typedef struct rounding {
    const crn_offload_chain *chain; /* in true units */
    crn_offload_chain slotted;      /* it uses the following arrays */
    int64_t *size, *forward, *backward, *forward_need, *backward_need;
    int64_t memory;
    uint32_t slots;
} rounding;

static int64_t slots_down(const rounding *r, int64_t value) {
    return (int64_t)((wide)value * r->slots / r->memory);
}

static int64_t slots_up(const rounding *r, int64_t value) {
    return (int64_t)(((wide)value * r->slots + r->memory - 1) / r->memory);
}

static cairn_status rounding_make(crn_offload_job *job, uint32_t slots, rounding *r) {
    uint32_t n = job->chain->count;
    *r = (rounding){.chain = job->chain, .slots = slots};
    uint64_t memory = CRN_MIN(job->problem->memory, (uint64_t)CRN_OFFLOAD_LARGEST);
    r->memory = CRN_MAX((int64_t)memory, 1);
    CRN_TAKE(job->arena, r->size, n);
    CRN_TAKE(job->arena, r->forward, n);
    CRN_TAKE(job->arena, r->backward, n);
    CRN_TAKE(job->arena, r->forward_need, n);
    CRN_TAKE(job->arena, r->backward_need, n);
    r->slotted = (crn_offload_chain){
        n, r->size, r->forward, r->backward, r->forward_need, r->backward_need, NULL, NULL};
    int64_t sizes = 0, forward = 0, backward = 0;
    for (uint32_t i = 0; i < n; i++) {
        r->size[i] = slots_up(r, sizes + job->chain->size[i]) - slots_up(r, sizes);
        r->forward[i] = slots_down(r, forward + job->chain->forward[i]) - slots_down(r, forward);
        r->backward[i] =
            slots_down(r, backward + job->chain->backward[i]) - slots_down(r, backward);
        sizes += job->chain->size[i];
        forward += job->chain->forward[i];
        backward += job->chain->backward[i];
    }
    return CAIRN_OK;
}

/* Compute the needs from the rounded sizes and the rooms. */
static void round_needs(rounding *r) {
    int64_t truth = 0, before = 0; /* x_0 .. x_{i-1} in true units and in slots */
    for (uint32_t i = 0; i < r->chain->count; i++) {
        r->forward_need[i] = before - slots_down(r, truth - r->chain->forward_need[i]);
        r->backward_need[i] = before - slots_down(r, truth - r->chain->backward_need[i]);
        truth += r->chain->size[i];
        before += r->size[i];
    }
}

/* Give one slot more to the activation whose rounded size is below its true size by the least.
 * False if there is none. */
static bool raise_closest(rounding *r) {
    uint32_t closest = UINT32_MAX;
    wide least = 0;
    for (uint32_t i = 0; i < r->chain->count; i++) {
        wide below = (wide)r->chain->size[i] * r->slots - (wide)r->size[i] * r->memory;
        if (below > 0 && (closest == UINT32_MAX || below < least)) {
            closest = i;
            least = below;
        }
    }
    if (closest != UINT32_MAX)
        r->size[closest]++;
    return closest != UINT32_MAX;
}

/* ---- The best set so far, by its true makespan under fractional release ---- */

typedef struct candidate {
    uint8_t *moved;
    int64_t length; /* negative: none */
} candidate;

static void consider(crn_offload_job *job, const uint8_t *moved, candidate *best) {
    int64_t limit = best->length >= 0 ? best->length : INT64_MAX;
    int64_t length =
        crn_offload_ordered_length(job->ordered, moved, CAIRN_OFFLOAD_RELEASE_FRACTIONAL, limit);
    if (length < 0 || length >= limit)
        return;
    best->length = length;
    memcpy(best->moved, moved, job->chain->count);
}

static cairn_status solve_slotted(crn_offload_job *job, uint32_t slots, uint8_t *moved,
                                  candidate *best) {
    rounding r;
    bool complete;
    crn_offload_limits limits = {SLOT_WIDTH, job->max_work != 0 ? job->max_work : SLOT_WORK};
    CRN_TRY(rounding_make(job, slots, &r));
    for (uint32_t round = 0, raise = 1; round < MOST_ROUNDS; round++) {
        round_needs(&r);
        CRN_TRY(crn_offload_front(job->arena, &r.slotted, limits, moved, &complete));
        if (crn_offload_set_fits(job->chain, moved)) {
            uint64_t work = POLISH_WORK;
            crn_offload_polish(job->ordered, job->chain, CAIRN_OFFLOAD_RELEASE_FRACTIONAL,
                               (int64_t)job->bounds.fractional_x_beta, &work, moved);
            consider(job, moved, best);
            return CAIRN_OK;
        }
        bool raised = false;
        for (uint32_t k = 0; k < raise && raise_closest(&r); k++)
            raised = true;
        if (!raised)
            return CAIRN_OK;
        raise *= round > 0 ? 2 : 1;
    }
    return CAIRN_OK;
}

cairn_status crn_offload_solve_dynprog(crn_offload_job *job, crn_offload_schedule *best) {
    uint8_t *moved;
    candidate chosen = {.length = -1};
    bool complete = false;
    bool exact = job->slots == CAIRN_OFFLOAD_SLOTS_EXACT;
    uint32_t slots = job->slots == 0 ? DEFAULT_SLOTS : job->slots;
    CRN_TAKE(job->arena, moved, job->chain->count);
    CRN_TAKE(job->arena, chosen.moved, job->chain->count);
    crn_offload_eager_set(job->chain, moved);
    consider(job, moved, &chosen);
    if (exact || job->slots == 0 || job->problem->memory <= slots) {
        crn_offload_limits limits = {job->slots == 0 ? QUICK_WIDTH : EXACT_WIDTH,
                                     job->slots == 0 ? SLOT_WORK : EXACT_WORK};
        if (job->max_work != 0)
            limits.work = job->max_work;
        CRN_TRY(crn_offload_front(job->arena, job->chain, limits, moved, &complete));
        consider(job, moved, &chosen);
    }
    if (!complete && !exact)
        CRN_TRY(solve_slotted(job, slots, moved, &chosen));
    crn_offload_try(job, chosen.moved, best);
    best->optimal = complete && job->release == CAIRN_OFFLOAD_RELEASE_FRACTIONAL;
    return CAIRN_OK;
}
