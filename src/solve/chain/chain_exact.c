/* chain_exact.c: least cost among ALL schedules of a chain, by shortest path.
 *
 * A* over the states of chain_states.h. Nested schedules (precise) keep a checkpoint until its own
 * backward; here a forward may be dropped at any time. Three things keep the search small.
 *
 * Lazy drops. Dropping costs nothing, so it can wait until a step would not fit. Then only minimal
 * sets of drops are tried.
 *
 * A lower bound. Every missing forward is computed at least once. When B_l runs, not all of f_1 ..
 * f_{l-1} fit beside its operands and result. Those that are not resident then must be computed
 * after it; lost_l is their least cost (a knapsack problem, solved once as a step function). Let r
 * be the last resident forward up to l. The forwards between r and l are computed before B_l, to
 * obtain f_l. So a forward that is not resident at B_l costs more than the first sum counts, unless
 * it is missing now and lies below r:
 *
 *     bound = sum of missing + max over l of (lost_l - sum of missing below r(l))
 *
 * An upper bound. States that cannot beat the nested optimum are not stored.
 *
 * Invariant: a state leaves the frontier with a priority that is at most the cost of the best
 * schedule through it. So the first state with b_0 is optimal. There are up to 2^N states; 20
 * layers take seconds at most. When the limit on states is reached, the answer is the best known
 * schedule, with the bound of the frontier. */
#include "solve/chain/chain_states.h"

#define DEFAULT_MAX_STATES 3000000u
#define KNAPSACK_POINTS 4096u

typedef struct search {
    const cairn_chain_problem *problem;
    uint64_t budget;
    int64_t known; /* cost of the best schedule so far, or CRN_CURVE_NEVER */
    crn_states states;
    int64_t backward_sum[CRN_STATE_MOST_LAYERS + 2]; /* [j]: B_0 .. B_{j-1} */
    int64_t lost[CRN_STATE_MOST_LAYERS + 2]
                [CRN_STATE_MOST_LAYERS + 2];     /* [r][j]: max lost_l, r<=l<j */
    uint32_t by_size[CRN_STATE_MOST_LAYERS + 1]; /* layers 1 .. N, largest forwards first */
} search;

/* ---- The lower bound ---- */

/* The least cost of the forwards that cannot be resident at each B_l. The step function is extended
 * by one forward at a time: either f_l is absent and costs its time, or it is resident and takes
 * its size. Thinned downwards, it is still a lower bound. */
static cairn_status find_lost(search *s, crn_arena *arena, int64_t *lost) {
    const cairn_chain_problem *p = s->problem;
    const uint64_t *f = p->forward_sizes, *b = p->backward_sizes;
    crn_envelope envelope;
    crn_curve curve;
    crn_envelope_init(&envelope, arena);
    CRN_TRY(crn_envelope_add_point(&envelope, 0, 0));
    CRN_TRY(crn_envelope_take(&envelope, arena, &curve));
    for (uint32_t l = 0; l <= p->layers; l++) {
        uint64_t used = f[0] + (l > 0 ? f[l] : 0) + b[l] + b[l + 1];
        lost[l] = used > s->budget ? 0 : crn_curve_at(curve, s->budget - used);
        if (l == 0)
            continue;
        CRN_TRY(crn_envelope_add_sum(&envelope, curve, f[l], NULL, 0, 0));
        CRN_TRY(crn_envelope_add_sum(&envelope, curve, 0, NULL, p->forward_costs[l], 0));
        crn_envelope_thin(&envelope, KNAPSACK_POINTS, true);
        CRN_TRY(crn_envelope_take(&envelope, arena, &curve));
    }
    return CAIRN_OK;
}

static cairn_status prepare_bound(search *s, crn_arena *arena) {
    uint32_t n = s->problem->layers;
    int64_t lost[CRN_STATE_MOST_LAYERS + 1];
    CRN_TRY(find_lost(s, arena, lost));
    for (uint32_t j = 0; j <= n; j++)
        s->backward_sum[j + 1] = s->backward_sum[j] + s->problem->backward_costs[j];
    for (uint32_t r = 0; r <= n; r++)
        for (uint32_t l = r; l <= n; l++)
            s->lost[r][l + 1] = CRN_MAX(s->lost[r][l], lost[l]);
    return CAIRN_OK;
}

/* A lower bound of the cost to finish from this state. It visits the gaps between resident
 * forwards. */
static int64_t bound(const search *s, uint64_t key) {
    uint32_t j = crn_top_bit(key);
    int64_t missing = 0, again = 0;
    if (j == 0)
        return 0;
    for (uint64_t rest = key & (key - 1), r = 0;; rest &= rest - 1) {
        uint32_t next = crn_low_bit(rest); /* the next resident one, or j */
        again = CRN_MAX(again, s->lost[r][next] - missing);
        for (uint64_t l = r + 1; l < next; l++)
            missing += s->problem->forward_costs[l];
        if (next == j)
            break;
        r = next;
    }
    return s->backward_sum[j] + missing + again;
}

/* ---- Moves ---- */

/* A step to run: what it needs, changes and costs. */
typedef struct move {
    uint32_t from, step;
    uint64_t fixed; /* bits that must not be dropped */
    uint64_t clear, set;
    int64_t cost;
} move;

static cairn_status reach(search *s, const move *m, uint64_t key) {
    key = (key & ~m->clear) | m->set;
    int64_t cost = s->states.all.data[m->from].value + m->cost;
    int64_t total = cost + bound(s, key);
    if (total >= s->known)
        return CAIRN_OK;
    return crn_states_reach(&s->states, (crn_state){key, cost, m->from, m->step}, total, -cost);
}

/* Free `excess` bytes by dropping minimal sets. Forwards are added to a set from large to small
 * until it is enough; then its last and smallest member was needed. `place` is the next place in
 * by_size. */
static cairn_status reach_with_drops(search *s, const move *m, uint64_t key, uint64_t excess,
                                     uint32_t place) {
    if (excess == 0)
        return reach(s, m, key);
    for (; place < s->problem->layers; place++) {
        uint32_t l = s->by_size[place];
        uint64_t size = s->problem->forward_sizes[l];
        if ((key & ~m->fixed & crn_bit(l)) == 0 || size == 0)
            continue;
        CRN_TRY(reach_with_drops(s, m, key & ~crn_bit(l), excess > size ? excess - size : 0,
                                 place + 1));
    }
    return CAIRN_OK;
}

static cairn_status try_move(search *s, move m, uint64_t key, uint64_t memory) {
    uint64_t excess = memory > s->budget ? memory - s->budget : 0;
    m.fixed |= crn_bit(crn_top_bit(key)) | 1;
    return reach_with_drops(s, &m, key, excess, 0);
}

static cairn_status expand(search *s, uint32_t from) {
    const cairn_chain_problem *p = s->problem;
    uint64_t key = s->states.all.data[from].key, memory = crn_state_memory(p, key);
    uint32_t j = crn_top_bit(key), last = j - 1;
    if (key & crn_bit(last)) {
        uint64_t need = memory + p->backward_sizes[last];
        move m = {from,       2 * last + 1,  crn_bit(last),
                  crn_bit(j), crn_bit(last), p->backward_costs[last]};
        CRN_TRY(try_move(s, m, key, need));
        /* If it fits now and leaves at least as much room as before, waiting gains nothing. */
        if (need <= s->budget && p->backward_sizes[last] <= p->backward_sizes[j])
            return CAIRN_OK;
    }
    for (uint32_t l = 1; l < j; l++) {
        if ((key & crn_bit(l)) != 0 || (key & crn_bit(l - 1)) == 0)
            continue;
        move m = {from, 2 * l, crn_bit(l - 1), 0, crn_bit(l), p->forward_costs[l]};
        CRN_TRY(try_move(s, m, key, memory + p->forward_sizes[l]));
    }
    return CAIRN_OK;
}

/* ---- The search ---- */

static void sort_by_size(search *s) {
    const uint64_t *f = s->problem->forward_sizes;
    for (uint32_t l = 1; l <= s->problem->layers; l++) {
        uint32_t at = l - 1;
        for (; at > 0 && f[s->by_size[at - 1]] < f[l]; at--)
            s->by_size[at] = s->by_size[at - 1];
        s->by_size[at] = l;
    }
}

/* Search for a schedule cheaper than s->known. `*end` is the state that has b_0, if it was found.
 * `*open_bound` is the least priority on the frontier if the limit was reached, else
 * CRN_CURVE_NEVER. */
static cairn_status run(search *s, uint32_t max_states, uint32_t *end, int64_t *open_bound) {
    uint64_t start = crn_bit(s->problem->layers + 1) | 1;
    uint32_t at;
    int64_t priority;
    CRN_TRY(
        crn_states_reach(&s->states, (crn_state){start, 0, CRN_STATE_NONE, 0}, bound(s, start), 0));
    while (crn_states_pop(&s->states, &at, &priority)) {
        if (s->states.all.data[at].key == 1) {
            *end = at;
            return CAIRN_OK;
        }
        if (s->states.all.length > max_states) {
            *open_bound = priority;
            return CAIRN_OK;
        }
        CRN_TRY(expand(s, at));
    }
    return CAIRN_OK;
}

/* The cheaper of the nested optimum and the schedule of least peak, if they fit. */
static cairn_status start_from_known(search *s, crn_chain_job *job, const crn_chain_nested *nested,
                                     const crn_chain_steps *least, crn_chain_answer *answer) {
    crn_chain_steps steps = {0};
    crn_chain_choice choice;
    crn_chain_answer known;
    crn_chain_choice_init(&choice, job, &known);
    CRN_TRY(crn_chain_offer(&choice, least));
    if (nested->floor <= job->budget) {
        CRN_TRY(crn_chain_nested_steps(nested, 0, job->problem->layers,
                                       job->budget - job->problem->forward_sizes[0], job->arena,
                                       &steps));
        CRN_TRY(crn_chain_offer(&choice, &steps));
    }
    answer->steps = known.steps;
    s->known = choice.best.cost;
    return CAIRN_OK;
}

static cairn_status improve(search *s, crn_chain_job *job, uint32_t max_states,
                            crn_chain_answer *answer) {
    uint32_t end = CRN_STATE_NONE;
    int64_t open_bound = CRN_CURVE_NEVER;
    s->problem = job->problem;
    s->budget = job->budget;
    CRN_TRY(crn_states_init(&s->states, job->arena));
    CRN_TRY(prepare_bound(s, job->arena));
    sort_by_size(s);
    CRN_TRY(run(s, max_states, &end, &open_bound));
    answer->bracketed = open_bound < s->known;
    answer->lower_bound = open_bound;
    if (end == CRN_STATE_NONE)
        return CAIRN_OK;
    answer->steps.length = 0;
    return crn_states_steps(&s->states, end, job->arena, &answer->steps);
}

cairn_status crn_chain_exact(crn_chain_job *job, crn_chain_answer *answer) {
    uint32_t max_states = job->options.max_states;
    if (max_states == 0)
        max_states = DEFAULT_MAX_STATES;
    if (job->problem->layers > CRN_STATE_MOST_LAYERS)
        return crn_fail(job->err, CAIRN_EINVAL,
                        "the chain has %u layers; exact search takes at most %u",
                        job->problem->layers, CRN_STATE_MOST_LAYERS);
    crn_chain_nested nested;
    crn_chain_steps least = {0};
    bool proven;
    search *s;
    CRN_TAKE(job->arena, s, 1);
    CRN_TRY(crn_chain_nested_solve(job, UINT64_MAX, 0, false, &nested));
    CRN_TRY(crn_chain_least_budget(job, &nested, max_states, &answer->min_budget, &least, &proven));
    answer->feasible = answer->min_budget <= job->budget;
    if (!answer->feasible)
        return CAIRN_OK;
    CRN_TRY(start_from_known(s, job, &nested, &least, answer));
    return improve(s, job, max_states, answer);
}
