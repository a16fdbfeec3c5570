/* chain_least_budget.c: the smallest budget for which a chain has a schedule.
 *
 * A shortest path over states where the length of a path is its largest memory (Dijkstra's
 * algorithm works for maxima as it does for sums). Moves: one forward, one backward, one drop. The
 * search starts from a lower bound: every step needs its operands and result. It skips states whose
 * peak is not below that of nested schedules. Near the smallest budget few sets of tensors fit, so
 * few of the 2^N states are visited.
 *
 * Invariant: states leave the frontier in order of their peak. O(states * N log states). */
#include "solve/chain/chain_states.h"

/* A lower bound of the peak of every schedule. */
static uint64_t lower_bound(const cairn_chain_problem *p) {
    const uint64_t *f = p->forward_sizes, *b = p->backward_sizes;
    uint64_t least = f[0] + b[0] + b[1];
    uint64_t waiting =
        b[p->layers + 1]; /* smallest of the backwards that may be resident during F_l */
    for (uint32_t l = p->layers; l > 0; l--) {
        waiting = CRN_MIN(waiting, b[l + 1]);
        least = CRN_MAX(least, f[0] + f[l] + b[l] + b[l + 1]);
        least = CRN_MAX(least, (l > 1 ? f[0] : 0) + f[l - 1] + f[l] + waiting);
    }
    return least;
}

typedef struct search {
    const cairn_chain_problem *problem;
    crn_states states;
    uint64_t known; /* peak of a known schedule; only smaller ones are searched */
} search;

static cairn_status reach(search *s, uint32_t from, uint64_t key, uint64_t peak, uint32_t step) {
    peak = CRN_MAX(peak, (uint64_t)s->states.all.data[from].value);
    if (peak >= s->known)
        return CAIRN_OK;
    crn_state state = {key, (int64_t)peak, from, step};
    /* Among equal peaks, prefer states closer to the end. */
    int64_t tie = 64 * (int64_t)crn_top_bit(key) - __builtin_popcountll(key);
    return crn_states_reach(&s->states, state, (int64_t)peak, tie);
}

static cairn_status expand(search *s, uint32_t from) {
    const cairn_chain_problem *p = s->problem;
    uint64_t key = s->states.all.data[from].key;
    uint64_t memory = crn_state_memory(p, key);
    uint32_t j = crn_top_bit(key), last = j - 1;
    if (key & crn_bit(last)) {
        uint64_t after =
            (key & ~crn_bit(j)) | crn_bit(last); /* b_last is resident, f_last is not */
        CRN_TRY(reach(s, from, after, memory + p->backward_sizes[last], 2 * last + 1));
    }
    for (uint32_t l = 1; l < j; l++) {
        if (key & crn_bit(l))
            CRN_TRY(reach(s, from, key & ~crn_bit(l), 0, CRN_STATE_DROP));
        else if (key & crn_bit(l - 1))
            CRN_TRY(reach(s, from, key | crn_bit(l), memory + p->forward_sizes[l], 2 * l));
    }
    return CAIRN_OK;
}

/* Search until b_0 is reached (`*end` is its state), no states are left, or there are too many. */
static cairn_status run(search *s, uint32_t max_states, uint32_t *end, bool *proven) {
    uint32_t at;
    while (crn_states_pop(&s->states, &at, NULL)) {
        if (s->states.all.data[at].key == 1) { /* b_0 */
            *end = at;
            return CAIRN_OK;
        }
        if (s->states.all.length > max_states) {
            *proven = false;
            return CAIRN_OK;
        }
        CRN_TRY(expand(s, at));
    }
    return CAIRN_OK;
}

cairn_status crn_chain_least_budget(crn_chain_job *job, const crn_chain_nested *nested,
                                    uint32_t max_states, uint64_t *budget, crn_chain_steps *steps,
                                    bool *proven) {
    const cairn_chain_problem *p = job->problem;
    search s = {.problem = p, .known = nested->floor};
    uint32_t end = CRN_STATE_NONE;
    uint64_t least = lower_bound(p);
    *budget = nested->floor;
    *proven = true;
    if (least < nested->floor && p->layers <= CRN_STATE_MOST_LAYERS) {
        CRN_TRY(crn_states_init(&s.states, job->arena));
        crn_state start = {crn_bit(p->layers + 1) | 1, (int64_t)least, CRN_STATE_NONE, 0};
        CRN_TRY(crn_states_reach(&s.states, start, start.value, 0));
        CRN_TRY(run(&s, max_states, &end, proven));
    } else if (least < nested->floor) {
        *proven = false;
    }
    if (end == CRN_STATE_NONE)
        return crn_chain_nested_steps(nested, 0, p->layers, nested->floor - p->forward_sizes[0],
                                      job->arena, steps);
    *budget = (uint64_t)s.states.all.data[end].value;
    return crn_states_steps(&s.states, end, job->arena, steps);
}
