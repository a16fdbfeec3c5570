/* offload_tensors.c: "offload-best" on networks: it decides for each tensor whether and when it is
 * offloaded.
 *
 *     1. start: the choices of all algorithms that look at the chain, the earliest tensors, and the
 *        dynamic programme on the chain of single ops
 *     2. search: take a tensor out, put one in, exchange two, ask for a copy later, fetch later;
 *        a step that lasts hardly longer is accepted, less and less so (threshold accepting)
 *     3. judge: lowered, simulated and laid out; if the arena passes the budget, search with less
 *     4. the others themselves, judged the same way, unless the bound is reached: so no other
 *        algorithm gives a shorter step
 *
 * If another algorithm asks for a start, the dynamic programme on single ops and step 4 are left
 * out, and the search is shorter.
 *
 * A choice is evaluated by the walk over the real network (offload_walk.c), which gives exactly the
 * time of the simulator. The random generator has a fixed seed and the work is limited in ops
 * visited, so the answer is the same everywhere. */
#include "solve/offload/offload_solvers.h"

#include "base/watch.h"
#include "solve/offload/trips_by_chain.h"
#include "solve/problem_key.h"

#define MOST_WORK 24000000u /* ops and trips visited in one search */
#define MOST_TRIALS 12000u  /* choices evaluated in one search */
#define START_SHARE 8u      /* an eighth of them, as a start */
#define SEARCH_ROUNDS 6u    /* searches for one budget */
#define START_ROUNDS 3u     /* the same, as a start */
#define THRESHOLD_SHARE 256 /* at first a step may be longer by 1/256 of its time */
#define NEAR 24u            /* most exchanges are with one of this many neighbours */

typedef struct search {
    const crn_problem *problem;
    const crn_trips *trips;
    const crn_pieces_problem *chain;
    const crn_ops_problem *ops;
    uint64_t *room;
    crn_rng rng;
    crn_trip_choice best, now, trial;
    int64_t best_time, now_time; /* -1: none yet */
    uint64_t best_bytes, now_bytes;
    /* the best schedule whose arena fits */
    crn_schedule schedule;
    int64_t time; /* -1: none fits yet */
} search;

/* ---- Evaluating ---- */

static bool shorter(int64_t time, uint64_t bytes, int64_t than, uint64_t than_bytes) {
    return than < 0 || time < than || (time == than && bytes < than_bytes);
}

static void keep_best(search *s) {
    if (!shorter(s->now_time, s->now_bytes, s->best_time, s->best_bytes))
        return;
    crn_trip_choice_copy(s->trips, &s->now, &s->best);
    s->best_time = s->now_time;
    s->best_bytes = s->now_bytes;
}

/* Accept the trial if it takes less than `limit`. */
static cairn_status consider(search *s, uint64_t budget, int64_t limit) {
    int64_t time;
    uint64_t bytes = crn_trips_bytes(s->trips, &s->trial);
    if (bytes > s->problem->machine->host_memory_bytes)
        return CAIRN_OK;
    CRN_TRY(crn_trips_walk(s->trips, budget, &s->trial, limit, NULL, NULL, &time));
    if (time < 0)
        return CAIRN_OK;
    crn_trip_choice_copy(s->trips, &s->trial, &s->now);
    s->now_time = time;
    s->now_bytes = bytes;
    keep_best(s);
    return CAIRN_OK;
}

/* Start from the trial, with and without fetches that push tensors out. */
static cairn_status start_from(search *s, uint64_t budget) {
    for (uint32_t k = 0; k < 2; k++) {
        int64_t time;
        s->trial.pushes = k == 1;
        CRN_TRY(crn_trips_prune(s->trips, budget, &s->trial, &time));
        CRN_TRY(consider(s, budget, INT64_MAX));
    }
    return CAIRN_OK;
}

/* Clear the trial: no trips, with default places. */
static void clear_trial(search *s) {
    for (uint32_t i = 0; i < s->trips->count; i++) {
        s->trial.moved[i] = 0;
        s->trial.out_at[i] = s->trips->list[i].made;
        s->trial.in_at[i] = 0;
    }
    s->trial.pushes = s->trial.prompt = false;
    s->trial.spare[0] = s->trial.spare[1] = 0;
}

/* ---- Moves ---- */

/* A random trip that is (or is not) `moved`; CAIRN_NONE if a few tries find none. */
static uint32_t pick(search *s, bool moved) {
    for (uint32_t tries = 0; tries < 64; tries++) {
        uint32_t i = (uint32_t)crn_rng_below(&s->rng, s->trips->count);
        if ((s->trial.moved[i] != 0) == moved)
            return i;
    }
    return CAIRN_NONE;
}

static uint32_t pick_near(search *s, uint32_t i) {
    uint32_t low = i > NEAR / 2 ? i - NEAR / 2 : 0, high = CRN_MIN(low + NEAR, s->trips->count);
    for (uint32_t tries = 0; tries < 16; tries++) {
        uint32_t other = low + (uint32_t)crn_rng_below(&s->rng, high - low);
        if (!s->trial.moved[other])
            return other;
    }
    return pick(s, false);
}

static void exchange(search *s) {
    uint32_t out = pick(s, true);
    if (out == CAIRN_NONE)
        return;
    uint32_t in = crn_rng_below(&s->rng, 4) > 0 ? pick_near(s, out) : pick(s, false);
    s->trial.moved[out] = 0;
    if (in != CAIRN_NONE)
        s->trial.moved[in] = 1;
}

/* Copy out later: at the place of another trip's copy, mostly a close one. */
static void shift_out(search *s) {
    uint32_t i = pick(s, true);
    if (i == CAIRN_NONE)
        return;
    const crn_trip *trip = &s->trips->list[i];
    uint32_t span = crn_rng_below(&s->rng, 4) > 0 ? CRN_MIN(NEAR, trip->need - trip->made)
                                                  : trip->need - trip->made;
    s->trial.out_at[i] = trip->made + (uint32_t)crn_rng_below(&s->rng, span);
}

static void shift_in(search *s) {
    uint32_t i = pick(s, true);
    if (i == CAIRN_NONE)
        return;
    uint32_t need = s->trips->list[i].need, first = s->trips->first_backward;
    bool reset = crn_rng_below(&s->rng, 3) == 0;
    uint32_t ahead = (uint32_t)crn_rng_below(&s->rng, CRN_MIN(need - first, 4 * NEAR) + 1);
    s->trial.in_at[i] = reset ? 0 : need - ahead;
}

static void change(search *s) {
    uint32_t i;
    switch (crn_rng_below(&s->rng, 10)) {
    case 0:
        if ((i = pick(s, true)) != CAIRN_NONE)
            s->trial.moved[i] = 0;
        break;
    case 1:
        if ((i = pick(s, false)) != CAIRN_NONE)
            s->trial.moved[i] = 1;
        break;
    case 2:
    case 3:
        shift_out(s);
        break;
    case 4:
        shift_in(s);
        break;
    case 5:
        s->trial.pushes = !s->trial.pushes;
        break;
    case 6:
        exchange(s);
        exchange(s);
        break;
    default:
        exchange(s);
        break;
    }
}

/* ---- The search ---- */

static cairn_status start_all(search *s, uint64_t budget) {
    const char *name;
    clear_trial(s);
    crn_trips_fit(s->trips, budget, &s->trial, s->room);
    CRN_TRY(start_from(s, budget));
    if (!s->problem->for_start) {
        clear_trial(s);
        CRN_TRY(crn_choose_by_ops(s->ops, s->trips, "offload-dynprog", budget, &s->trial, s->room));
        CRN_TRY(start_from(s, budget));
    }
    for (uint32_t k = 0; (name = crn_pieces_algorithm(k)) != NULL; k++) {
        clear_trial(s);
        CRN_TRY(crn_choose_by_pieces(s->chain, s->trips, name, budget, &s->trial, s->room));
        CRN_TRY(start_from(s, budget));
    }
    return CAIRN_OK;
}

/* Start from the last best choice, with the trips added that another budget requires. */
static cairn_status start_again(search *s, uint64_t budget) {
    crn_trip_choice_copy(s->trips, &s->best, &s->trial);
    crn_trips_fit(s->trips, budget, &s->trial, s->room);
    s->best_time = -1;
    return start_from(s, budget);
}

/* Store the best choice for a budget in s->best. */
static cairn_status find_best(search *s, uint64_t budget, bool first) {
    int64_t bound = crn_trips_bound(s->trips, budget);
    uint64_t trials = CRN_MIN(MOST_TRIALS, MOST_WORK / (s->trips->ops + s->trips->count + 1));
    trials = s->problem->for_start ? trials / START_SHARE : trials;
    s->best_time = first ? -1 : s->best_time;
    if (!first)
        CRN_TRY(start_again(s, budget));
    if (s->best_time < 0)
        CRN_TRY(start_all(s, budget));
    crn_trip_choice_copy(s->trips, &s->best, &s->now);
    s->now_time = s->best_time;
    s->now_bytes = s->best_bytes;
    for (uint64_t k = 0; k < trials && s->best_time > bound && s->trips->count > 0; k++) {
        int64_t threshold =
            s->best_time / THRESHOLD_SHARE * (int64_t)(trials - k) / (int64_t)trials;
        if (crn_arena_ended(s->trips->problem->scratch))
            return CAIRN_ENOMEM;
        crn_trip_choice_copy(s->trips, &s->now, &s->trial);
        change(s);
        CRN_TRY(consider(s, budget, crn_add_time(s->best_time, threshold + 1)));
    }
    return CAIRN_OK;
}

/* What a memo stores of a first search. Below the floor all budgets have the same one. */
typedef struct found {
    crn_trip_choice how; /* its arrays follow: out_at, in_at, moved */
    int64_t time;
    uint64_t bytes;
    crn_rng rng;
} found;

static void recall(search *s, const found *known) {
    const uint32_t *at = (const uint32_t *)(known + 1);
    crn_trip_choice how = known->how;
    how.out_at = (uint32_t *)at;
    how.in_at = (uint32_t *)at + s->trips->count;
    how.moved = (uint8_t *)(at + 2 * (size_t)s->trips->count);
    crn_trip_choice_copy(s->trips, &how, &s->best);
    s->best_time = known->time;
    s->best_bytes = known->bytes;
    s->rng = known->rng;
}

static cairn_status store(search *s, crn_key key) {
    void *place;
    size_t count = s->trips->count;
    size_t bytes = sizeof(found) + count * (2 * sizeof(uint32_t) + sizeof(uint8_t));
    CRN_TRY(crn_memo_add(s->problem->memo, key, bytes, &place));
    found *made = place;
    uint32_t *at = (uint32_t *)(made + 1);
    *made = (found){.how = s->best, .time = s->best_time, .bytes = s->best_bytes, .rng = s->rng};
    memcpy(at, s->best.out_at, count * sizeof *at);
    memcpy(at + count, s->best.in_at, count * sizeof *at);
    memcpy(at + 2 * count, s->best.moved, count);
    return CAIRN_OK;
}

/* The same; a first search is asked of the memo, if there is one. */
static cairn_status recall_best(search *s, uint64_t budget, bool first) {
    const crn_problem *p = s->problem;
    size_t bytes;
    if (p->memo == NULL || !first)
        return find_best(s, budget, first);
    crn_key key = crn_problem_key(CRN_KEY_OFFLOAD, p->graph, p->costs, p->machine);
    crn_key_add(&key, budget);
    crn_key_add(&key, p->for_start);
    const found *known = crn_memo_find(p->memo, key, &bytes);
    if (known != NULL) {
        recall(s, known);
        return CAIRN_OK;
    }
    CRN_TRY(find_best(s, budget, first));
    return store(s, key);
}

/* Store the best choice for a budget in s->best, and the same without trips that are not made in
 * s->trial. */
static cairn_status improve(search *s, uint64_t budget, bool first) {
    CRN_TRY(recall_best(s, budget, first));
    crn_trip_choice_copy(s->trips, &s->best, &s->trial);
    return crn_trips_prune(s->trips, budget, &s->trial, &s->now_time);
}

/* ---- Lowering, simulation and layout ---- */

/* Settle the trial, and keep its schedule if it fits and is the shortest. `*over` is by how much
 * the arena exceeds its limit. */
static cairn_status judge_trial(search *s, uint64_t budget, uint64_t *over) {
    const crn_problem *p = s->problem;
    crn_schedule schedule = {0};
    crn_judgement is;
    CRN_TRY(crn_trips_settle(s->trips, budget, &s->trial, &schedule, &is));
    *over = p->limit > 0 && is.arena > p->limit ? is.arena - p->limit : 0;
    bool first = s->schedule.decisions.length == 0;
    if (first || (*over == 0 && (s->time < 0 || is.time < s->time))) {
        s->schedule = schedule;
        s->time = *over == 0 ? is.time : -1;
    }
    return CAIRN_OK;
}

/* Search for the budget. If the arena exceeds it, search for less, then between a budget that
 * fitted and one that did not. */
static cairn_status play_search(search *s) {
    uint64_t budget = s->problem->budget, high = budget, low = 0, over = 0;
    uint32_t rounds = s->problem->for_start ? START_ROUNDS : SEARCH_ROUNDS;
    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t within = CRN_MAX(budget, s->trips->floor);
        CRN_TRY(improve(s, within, round == 0));
        CRN_TRY(judge_trial(s, within, &over));
        if (over == 0)
            low = budget;
        else
            high = budget;
        uint64_t less = crn_less_after(round, over);
        if (low == s->problem->budget || budget < s->trips->floor || less >= budget)
            break;
        if (low > 0 && high - low < high / 128)
            break;
        budget = low > 0 ? low + (high - low) / 2 : budget - less;
    }
    return CAIRN_OK;
}

/* Run another algorithm as the dispatcher would, as long as its result may be shorter. With less
 * memory a schedule hardly gets shorter; it may by chance, by up to 1/32. */
static cairn_status play_other(search *s, const char *name) {
    uint64_t budget = s->problem->budget, over = 0;
    for (uint32_t round = 0; round < CRN_MOST_ROUNDS && budget >= s->trips->floor; round++) {
        int64_t time;
        clear_trial(s);
        CRN_TRY(crn_choose_by_pieces(s->chain, s->trips, name, budget, &s->trial, s->room));
        CRN_TRY(crn_trips_prune(s->trips, budget, &s->trial, &time));
        if (s->time >= 0 && time - time / 32 >= s->time)
            break;
        CRN_TRY(judge_trial(s, budget, &over));
        uint64_t less = crn_less_after(round, over);
        if (over == 0 || less >= budget)
            break;
        budget -= less;
    }
    return CAIRN_OK;
}

static cairn_status search_on(search *s, crn_schedule *schedule) {
    const char *name;
    int64_t bound = crn_trips_bound(s->trips, CRN_MAX(s->problem->budget, s->trips->floor));
    CRN_TAKE(s->problem->scratch, s->room, s->trips->ops);
    CRN_TRY(crn_trip_choice_make(s->trips, &s->best));
    CRN_TRY(crn_trip_choice_make(s->trips, &s->now));
    CRN_TRY(crn_trip_choice_make(s->trips, &s->trial));
    CRN_TRY(play_search(s));
    bool done = s->problem->for_start || s->time == bound;
    for (uint32_t k = 0; !done && (name = crn_pieces_algorithm(k)) != NULL; k++) {
        CRN_TRY(play_other(s, name));
        done = s->time == bound;
    }
    *schedule = s->schedule;
    return CAIRN_OK;
}

cairn_status crn_solve_offload_best(const crn_problem *problem, crn_schedule *schedule) {
    cairn_chain_view *view;
    crn_pieces_problem chain;
    crn_ops_problem ops;
    crn_trips trips;
    CRN_TRY(crn_trips_build(problem, &trips));
    CRN_TRY(crn_ops_problem_build(&trips, &ops));
    CRN_TRY(cairn_chain_view_create(problem->graph, &view, problem->err));
    search s = {
        .problem = problem, .trips = &trips, .chain = &chain, .ops = &ops, .rng = {1}, .time = -1};
    cairn_status status = crn_pieces_problem_build(problem, view, &chain);
    if (status == CAIRN_OK)
        status = search_on(&s, schedule);
    cairn_chain_view_destroy(view);
    return status;
}
