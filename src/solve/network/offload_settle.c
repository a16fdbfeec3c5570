/* offload_settle.c: of the schedules that a choice of trips can have, one that can be laid out.
 *
 * A step that waits for the link has memory full nearly all the time, although that helps at the
 * turn of the step only; and tensors that come and go while memory is full leave holes of the wrong
 * size. So let it be less full where that costs nothing, or next to nothing:
 *
 *     memory |    ______ budget              memory |       _  budget
 *            |   /######\__                         |    __/#\_
 *            |  /##########\                        |  _/######\_   by `spare` less
 *            | /############\                       | /##########\
 *            +---------------- ops                  +-------------- ops
 *
 * What must be there is there all the same, so the peak at the turn stays; there lifetimes nest. As
 * much is spared as the step can bear without lasting longer; if the arena is then not close to the
 * live peak, as it can bear without lasting longer by a thousandth, and so on. */
#include "layout/crn_layout.h"
#include "solve/network/offload_network.h"

#define SPARE_ROUNDS 8u /* the share of the budget is found to a part of 2^8 */
#define CUTS 4u         /* budgets tried within one limit of time */

/* By what part of it a step may be longer, one after the other; 0: not at all. */
static const int64_t parts[] = {0, 1024, 512, 256, 128, 64, 32, 16};

/* Spare as much in a pass as leaves the step within `limit`. */
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
                                 const crn_trip_choice *choice, crn_schedule *schedule,
                                 crn_judgement *is) {
    const crn_problem *p = trips->problem;
    cairn_plan *plan;
    int64_t time;
    CRN_TRY(crn_trips_walk(trips, budget, choice, INT64_MAX, schedule, NULL, &time));
    CRN_TRY(crn_lower(p->graph, p->costs, schedule, CAIRN_TRAIN, budget, &plan, p->err));
    cairn_status status = crn_judge(p, plan, true, is);
    cairn_plan_destroy(plan);
    return status;
}

/* Of what was tried: 2 is good, 1 within the limit, 0 not even that. */
typedef struct settling {
    const crn_trips *trips;
    uint64_t budget;
    const crn_trip_choice *given;
    crn_trip_choice choice;
    uint64_t *room;
    int64_t limit; /* of time */
    int best;      /* -1: nothing yet */
    crn_schedule schedule;
    crn_judgement is;
    crn_judgement last; /* of the last that was tried */
} settling;

static bool is_close(const crn_judgement *is) {
    return is->arena <= crn_layout_promise(is->peak);
}

/* By how much the arena passes its limit. */
static uint64_t excess(const settling *s, const crn_judgement *is) {
    uint64_t limit = s->trips->problem->limit;
    return limit > 0 && is->arena > limit ? is->arena - limit : 0;
}

static void keep(settling *s, const crn_schedule *schedule) {
    int grade = excess(s, &s->last) > 0 ? 0 : is_close(&s->last) ? 2 : 1;
    if (grade < s->best || (grade == s->best && (grade > 0 || s->last.arena >= s->is.arena)))
        return;
    s->best = grade;
    s->schedule = *schedule;
    s->is = s->last;
}

/* The choice within `budget`, with what that asks for, and as much spared as the time allows.
 * `*lasts`: whether it can be done in that time. */
static cairn_status try_within(settling *s, uint64_t budget, bool *lasts) {
    const crn_trips *trips = s->trips;
    int64_t time;
    crn_trip_choice_copy(trips, s->given, &s->choice);
    s->choice.spare[0] = s->choice.spare[1] = 0;
    if (budget < s->budget)
        crn_trips_fit(trips, budget, &s->choice, s->room);
    uint64_t moved = crn_trips_bytes(trips, &s->choice);
    CRN_TRY(crn_trips_walk(trips, budget, &s->choice, s->limit, NULL, NULL, &time));
    *lasts = time >= 0 && moved <= trips->problem->machine->host_memory_bytes;
    if (!*lasts)
        return CAIRN_OK;
    for (uint32_t pass = 0; pass < 2 && moved > 0; pass++)
        CRN_TRY(spare(trips, budget, &s->choice, pass, s->limit));
    crn_schedule schedule = {0};
    CRN_TRY(judge_choice(trips, budget, &s->choice, &schedule, &s->last));
    keep(s, &schedule);
    return CAIRN_OK;
}

/* All within one limit of time: where the arena is close to the peak but passes its own limit, take
 * the excess off. */
static cairn_status try_budgets(settling *s) {
    uint64_t budget = s->budget;
    for (uint32_t round = 0; round < CUTS && s->best < 2; round++) {
        bool lasts;
        CRN_TRY(try_within(s, budget, &lasts));
        uint64_t less = lasts ? excess(s, &s->last) : 0;
        if (less == 0 || !is_close(&s->last) || budget - s->trips->floor < less)
            break;
        budget -= less;
    }
    return CAIRN_OK;
}

cairn_status crn_trips_settle(const crn_trips *trips, uint64_t budget,
                              const crn_trip_choice *choice, crn_schedule *schedule,
                              crn_judgement *is) {
    settling s = {.trips = trips, .budget = budget, .given = choice, .best = -1};
    int64_t shortest;
    CRN_TAKE(trips->problem->scratch, s.room, trips->ops);
    CRN_TRY(crn_trip_choice_make(trips, &s.choice));
    CRN_TRY(crn_trips_walk(trips, budget, choice, INT64_MAX, NULL, NULL, &shortest));
    for (uint32_t i = 0; i < CRN_LENGTH(parts) && s.best < 2; i++) {
        s.limit = crn_add_time(shortest, parts[i] == 0 ? 1 : shortest / parts[i] + 1);
        CRN_TRY(try_budgets(&s));
    }
    *schedule = s.schedule;
    *is = s.is;
    return CAIRN_OK;
}
