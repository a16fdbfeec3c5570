/* offload_settle.c: finds a schedule for a choice of trips whose layout has little fragmentation.
 *
 * In a step that waits for the link, memory is full nearly all the time, although this is useful
 * only in the middle of the step. Tensors that are copied in and out while memory is full leave
 * holes of the wrong size. So some memory is left free where that costs no time, or very little:
 *
 *     memory |    ______ budget              memory |       _  budget
 *            |   /######\__                         |    __/#\_
 *            |  /##########\                        |  _/######\_   by `spare` less
 *            | /############\                       | /##########\
 *            +---------------- ops                  +-------------- ops
 *
 * Tensors that must be in memory are not affected, so the peak in the middle stays; lifetimes nest
 * there. First, as much memory is left free as possible without a longer step. If the arena is then
 * not close to the live peak, as much as possible with a step that is longer by a thousandth, and
 * so on. */
#include "layout/crn_layout.h"
#include "solve/offload/offload_network.h"

#define SPARE_ROUNDS 8u /* the share of the budget is found to a precision of 2^-8 */
#define TRIALS 4u       /* budgets tried within one limit of time */

/* A step may be longer by 1/share of its time, tried one after the other; 0: it may not be
 * longer. */
static const int64_t shares[] = {0, 1024, 512, 256, 128, 96, 64, 48, 32, 24, 16};
#define START_STRIDE 3u /* as a start, within a budget that can be reached: every third of them */

/* Leave as much memory free in a pass as possible with a step within `limit`. */
static cairn_status spare(const crn_trips *trips, uint64_t budget, crn_trip_choice *choice,
                          uint32_t pass, int64_t limit) {
    uint64_t low = 0, high = budget;
    for (uint32_t round = 0; round < SPARE_ROUNDS; round++) {
        int64_t time;
        choice->spare[pass] = low + (high - low) / 2;
        CRN_TRY(crn_trips_walk(trips, budget, choice, limit, NULL, NULL, &time));
        if (time >= 0)
            low = choice->spare[pass];
        else
            high = choice->spare[pass];
    }
    choice->spare[pass] = low;
    return CAIRN_OK;
}

static cairn_status judge_choice(const crn_trips *trips, uint64_t budget,
                                 const crn_trip_choice *choice, bool brief, crn_schedule *schedule,
                                 crn_judgement *is) {
    const crn_problem *p = trips->problem;
    cairn_plan *plan;
    int64_t time;
    CRN_TRY(crn_trips_walk(trips, budget, choice, INT64_MAX, schedule, NULL, &time));
    CRN_TRY(crn_lower(p->graph, p->costs, schedule, CAIRN_GOAL_TRAIN, budget, &plan, p->err));
    cairn_status status = crn_judge(p, plan, brief, is);
    cairn_plan_destroy(plan);
    return status;
}

/* A schedule that was tried. */
typedef struct trial {
    uint64_t budget, spare[2];
} trial;

typedef struct settling {
    const crn_trips *trips;
    uint64_t budget;
    const crn_trip_choice *given;
    crn_trip_choice now, best;
    uint64_t *room;
    CRN_ARRAY(trial) tried;
    int64_t limit;    /* of time */
    uint32_t first;   /* the pass that leaves memory free first; the other one uses what is left of
                         the time */
    crn_judgement is; /* of the last schedule that was tried */
    crn_schedule schedule;
    int grade; /* of the best: 2: close to the live peak, 1: within the limit, 0: neither */
    uint64_t best_budget; /* and the budget it was tried with */
    uint64_t best_arena;
} settling;

static bool is_close(const crn_judgement *is) {
    return is->arena <= crn_layout_promise(is->peak);
}

/* By how much the arena exceeds its limit. */
static uint64_t excess(const settling *s) {
    uint64_t limit = s->trips->problem->limit;
    return limit > 0 && s->is.arena > limit ? s->is.arena - limit : 0;
}

static void keep(settling *s, uint64_t budget) {
    int grade = excess(s) > 0 ? 0 : is_close(&s->is) ? 2 : 1;
    if (grade < s->grade || (grade == s->grade && (grade > 0 || s->is.arena >= s->best_arena)))
        return;
    s->grade = grade;
    s->best_budget = budget;
    s->best_arena = s->is.arena;
    crn_trip_choice_copy(s->trips, &s->now, &s->best);
}

/* Nothing that is tried later can be better: no arena is smaller than what must be in memory. As a
 * start, one that is close to it is good enough, or within the limit. */
static bool is_best(const settling *s) {
    bool start = s->trips->problem->for_start;
    uint64_t floor = s->trips->floor, least = start ? crn_layout_promise(floor) : floor;
    return s->grade == 2 || (s->grade == 1 && start) || (s->grade == 0 && s->best_arena <= least);
}

/* Record a trial; `*again`: it was tried before. */
static cairn_status note(settling *s, uint64_t budget, bool *again) {
    trial fresh = {budget, {s->now.spare[0], s->now.spare[1]}};
    *again = false;
    for (uint32_t i = 0; i < s->tried.length; i++)
        *again = *again || memcmp(&s->tried.data[i], &fresh, sizeof fresh) == 0;
    if (!*again)
        CRN_PUSH(s->trips->problem->scratch, s->tried, fresh);
    return CAIRN_OK;
}

/* Try the choice within `budget`, with the trips that it requires, and leave as much memory free as
 * the time allows. `*fresh`: it is possible in that time and was not tried before. */
static cairn_status try_within(settling *s, uint64_t budget, bool *fresh) {
    const crn_trips *trips = s->trips;
    bool again;
    int64_t time;
    crn_schedule schedule = {0};
    *fresh = false;
    crn_trip_choice_copy(trips, s->given, &s->now);
    s->now.spare[0] = s->now.spare[1] = 0;
    if (budget < s->budget)
        crn_trips_fit(trips, budget, &s->now, s->room);
    uint64_t moved = crn_trips_bytes(trips, &s->now);
    CRN_TRY(crn_trips_walk(trips, budget, &s->now, s->limit, NULL, NULL, &time));
    if (time < 0 || moved > trips->problem->machine->host_memory_bytes)
        return CAIRN_OK;
    for (uint32_t pass = 0; pass < 2 && moved > 0; pass++)
        CRN_TRY(spare(trips, budget, &s->now, pass ^ s->first, s->limit));
    CRN_TRY(note(s, budget, &again));
    if (again)
        return CAIRN_OK;
    *fresh = true;
    CRN_TRY(judge_choice(trips, budget, &s->now, true, &schedule, &s->is));
    s->schedule = schedule;
    keep(s, budget);
    return CAIRN_OK;
}

/* Try several budgets within one limit of time. If the arena is close to the peak but exceeds its
 * limit, subtract the excess from the budget. */
static cairn_status try_budgets(settling *s) {
    uint64_t budget = s->budget;
    for (uint32_t round = 0; round < TRIALS && !is_best(s); round++) {
        bool fresh;
        CRN_TRY(try_within(s, budget, &fresh));
        uint64_t less = fresh ? excess(s) : 0;
        if (less == 0 || !is_close(&s->is) || budget < s->trips->floor + less)
            break;
        budget -= less;
    }
    return CAIRN_OK;
}

cairn_status crn_trips_settle(const crn_trips *trips, uint64_t budget,
                              const crn_trip_choice *choice, crn_schedule *schedule,
                              crn_judgement *is) {
    settling s = {.trips = trips, .budget = budget, .given = choice, .grade = -1};
    int64_t shortest;
    CRN_TAKE(trips->problem->scratch, s.room, trips->ops);
    CRN_TRY(crn_trip_choice_make(trips, &s.now));
    CRN_TRY(crn_trip_choice_make(trips, &s.best));
    CRN_TRY(crn_trips_walk(trips, budget, choice, INT64_MAX, NULL, NULL, &shortest));
    bool few = trips->problem->for_start && trips->problem->budget >= trips->floor;
    uint32_t stride = few ? START_STRIDE : 1;
    for (uint32_t i = 0; i < CRN_LENGTH(shares) && !is_best(&s); i += stride) {
        s.limit = crn_add_time(shortest, shares[i] == 0 ? 1 : shortest / shares[i] + 1);
        for (s.first = 0; s.first < 2 && !is_best(&s); s.first++)
            CRN_TRY(try_budgets(&s));
    }
    if (s.grade < 0)
        return judge_choice(trips, budget, choice, few, schedule, is);
    if (s.grade < 2)
        return judge_choice(trips, s.best_budget, &s.best, few, schedule, is);
    *schedule = s.schedule;
    *is = s.is;
    return CAIRN_OK;
}
