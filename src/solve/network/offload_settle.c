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

/* 2: good, 1: within the limit, 0: not even that. */
static int grade(const crn_trips *trips, const crn_judgement *is) {
    if (trips->problem->limit > 0 && is->arena > trips->problem->limit)
        return 0;
    return is->arena <= crn_layout_promise(is->peak) ? 2 : 1;
}

cairn_status crn_trips_settle(const crn_trips *trips, uint64_t budget, crn_trip_choice *choice,
                              crn_schedule *schedule, crn_judgement *is) {
    int64_t shortest;
    uint64_t moved = crn_trips_bytes(trips, choice);
    int best = -1;
    choice->spare[0] = choice->spare[1] = 0;
    CRN_TRY(crn_trips_walk(trips, budget, choice, INT64_MAX, NULL, NULL, &shortest));
    for (uint32_t i = 0; i < CRN_LENGTH(parts) && best < 2; i++) {
        uint64_t before[] = {choice->spare[0], choice->spare[1]};
        int64_t limit = crn_add_time(shortest, parts[i] == 0 ? 1 : shortest / parts[i] + 1);
        for (uint32_t pass = 0; pass < 2 && moved > 0 && shortest >= 0; pass++)
            CRN_TRY(spare(trips, budget, choice, pass, limit));
        if (i > 0 && memcmp(before, choice->spare, sizeof before) == 0)
            continue;
        crn_schedule fresh = {0};
        crn_judgement judgement;
        CRN_TRY(judge_choice(trips, budget, choice, &fresh, &judgement));
        int now = grade(trips, &judgement);
        if (now > best || (now == 0 && judgement.arena < is->arena)) {
            best = now;
            *schedule = fresh;
            *is = judgement;
        }
    }
    return CAIRN_OK;
}
