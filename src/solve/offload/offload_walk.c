/* offload_walk.c: the schedule of a choice of trips, in one pass over the ops, with the same clock
 * as the simulator. The rules are in offload_network.h.
 *
 *     at op k    1. copies out that are asked for here
 *                2. what k reads and is away is fetched; copied tensors go until k fits
 *                3. fetches ahead, while the next tensor needed fits until it is needed
 *                4. the op, once its tensors have come
 *
 * The memory while k runs is the profile minus `away`. A prefetch is checked against all ops up to
 * the tensor's first reader, and tensors come back in the order of need. So later fetches cannot
 * take memory from earlier ones: every choice that fits by the profile has a schedule. */
#include "solve/offload/offload_network.h"

typedef enum trip_state { HERE, COPIED, AWAY, BACK } trip_state;

struct crn_walk {
    /* of the current walk */
    const crn_trips *trips;
    const crn_trip_choice *choice;
    uint64_t budget, away;
    uint64_t aim; /* the budget minus what should be left free at this op */
    int64_t now, out_free, in_free;
    int64_t coming; /* time of the copies in of all that is away */
    crn_schedule *schedule;
    uint8_t *stayed;
    uint32_t leaving_count,
        first_leaving; /* copies out, in order; those before first_leaving are freed */
    uint32_t need_count, next_need;

    uint8_t *state;             /* per trip */
    int64_t *copied, *back;     /* per trip: when its copies end */
    uint32_t *head, *next;      /* trips by out_at: per op its first, per trip the next */
    uint32_t *leaving, *needed; /* copies out in order; moved trips in the order of need */
    uint8_t *idle, *kept;       /* per trip, for crn_trips_prune() */
};

typedef struct crn_walk walk;

cairn_status crn_walk_make(crn_trips *trips) {
    crn_arena *arena = trips->problem->scratch;
    walk *w;
    CRN_TAKE(arena, w, 1);
    CRN_TAKE(arena, w->state, trips->count);
    CRN_TAKE(arena, w->copied, trips->count);
    CRN_TAKE(arena, w->back, trips->count);
    CRN_TAKE(arena, w->head, trips->ops + 1);
    CRN_TAKE(arena, w->next, trips->count);
    CRN_TAKE(arena, w->leaving, trips->count);
    CRN_TAKE(arena, w->needed, trips->count);
    CRN_TAKE(arena, w->idle, trips->count);
    CRN_TAKE(arena, w->kept, trips->count);
    trips->walk = w;
    return CAIRN_OK;
}

static cairn_status say(walk *w, crn_decision_kind kind, cairn_id id) {
    if (w->schedule == NULL)
        return CAIRN_OK;
    return crn_schedule_add(w->schedule, w->trips->problem->scratch, kind, id);
}

/* Start a copy by the rule of the simulator. */
static int64_t copy(walk *w, int64_t length, int64_t *lane) {
    int64_t start = CRN_MAX(w->now, *lane);
    if (!w->trips->problem->machine->full_duplex)
        start = CRN_MAX(start, CRN_MAX(w->out_free, w->in_free));
    *lane = crn_add_time(start, length);
    return *lane;
}

static uint64_t most_memory(const crn_trips *trips, uint32_t first, uint32_t last) {
    uint32_t level = 0;
    while ((2u << level) <= last - first + 1)
        level++;
    return CRN_MAX(trips->most[level][first], trips->most[level][last + 1 - (1u << level)]);
}

/* ---- 1. Out ---- */

/* Trips that are not made are in a list that no op has: a branch could not be predicted. */
static void index_copies(walk *w) {
    const crn_trips *trips = w->trips;
    for (uint32_t k = 0; k <= trips->ops; k++)
        w->head[k] = CAIRN_NONE;
    for (uint32_t i = trips->count; i-- > 0;) {
        uint32_t at = w->choice->moved[i] ? CRN_MIN(w->choice->out_at[i], trips->ops) : trips->ops;
        w->state[i] = HERE;
        w->next[i] = w->head[at];
        w->head[at] = i;
    }
    for (uint32_t i = 0; i < trips->count; i++) {
        uint32_t next = trips->by_need[i];
        w->needed[w->need_count] = next;
        w->need_count += w->choice->moved[next] != 0;
    }
}

static cairn_status copy_out(walk *w, uint32_t k) {
    for (uint32_t i = w->head[k]; i != CAIRN_NONE; i = w->next[i]) {
        const crn_trip *trip = &w->trips->list[i];
        if (trip->need <= k)
            continue;
        w->copied[i] = copy(w, trip->copy, &w->out_free);
        w->state[i] = COPIED;
        w->leaving[w->leaving_count++] = i;
        CRN_TRY(say(w, CRN_OFFLOAD, trip->tensor));
    }
    return CAIRN_OK;
}

static cairn_status evict(walk *w, uint32_t i) {
    w->now = CRN_MAX(w->now, w->copied[i]);
    w->state[i] = AWAY;
    w->away += w->trips->list[i].bytes;
    w->coming += w->trips->list[i].copy;
    return say(w, CRN_EVICT, w->trips->list[i].tensor);
}

/* Free copied tensors until `need` bytes fit at op k. */
static cairn_status make_room(walk *w, uint32_t k, uint64_t need, bool *fits) {
    for (uint32_t q = w->first_leaving; q < w->leaving_count && need > w->aim + w->away; q++) {
        uint32_t i = w->leaving[q];
        if (w->state[i] == COPIED && w->trips->list[i].leaves <= k && w->trips->list[i].need > k)
            CRN_TRY(evict(w, i));
        if (w->state[i] != COPIED && q == w->first_leaving)
            w->first_leaving++;
    }
    *fits = need <= w->budget + w->away;
    return CAIRN_OK;
}

/* If all trips are surely made, tensors that have been copied and read are freed at once: the more
 * memory is free, the easier the layout is. */
static cairn_status evict_copied(walk *w, uint32_t k) {
    for (uint32_t q = w->first_leaving; q < w->leaving_count; q++) {
        uint32_t i = w->leaving[q];
        if (w->copied[i] > w->now)
            break; /* the later ones have not been copied either */
        if (w->state[i] == COPIED && w->trips->list[i].leaves <= k && w->trips->list[i].need > k)
            CRN_TRY(evict(w, i));
        if (w->state[i] != COPIED && q == w->first_leaving)
            w->first_leaving++;
    }
    return CAIRN_OK;
}

/* ---- 2. and 3. In ---- */

static cairn_status fetch(walk *w, uint32_t i) {
    w->away -= w->trips->list[i].bytes;
    w->coming -= w->trips->list[i].copy;
    w->back[i] = copy(w, w->trips->list[i].copy, &w->in_free);
    w->state[i] = BACK;
    return say(w, CRN_FETCH, w->trips->list[i].tensor);
}

/* Fetch what op k reads, if it was not fetched before. */
static cairn_status fetch_needed(walk *w, uint32_t k, bool *fits) {
    uint64_t coming = 0;
    uint32_t end = w->next_need;
    for (; end < w->need_count && w->trips->list[w->needed[end]].need <= k; end++)
        if (w->state[w->needed[end]] == AWAY)
            coming += w->trips->list[w->needed[end]].bytes;
    CRN_TRY(make_room(w, k, w->trips->memory[k] + coming, fits));
    for (uint32_t q = w->next_need; q < end && *fits; q++) {
        uint32_t i = w->needed[q];
        if (w->state[i] == AWAY)
            CRN_TRY(fetch(w, i));
        else if (w->state[i] != BACK && w->stayed != NULL)
            w->stayed[i] = 1;
    }
    return CAIRN_OK;
}

/* Count the bytes that could be freed at once without a wait and are needed later than trip `i`.
 * With `go`, free as many of them as `lack` requires. */
static cairn_status push_out(walk *w, uint32_t i, uint64_t lack, bool go, uint64_t *found) {
    *found = 0;
    for (uint32_t q = w->first_leaving; q < w->leaving_count && *found < lack; q++) {
        uint32_t other = w->leaving[q];
        if (w->state[other] != COPIED || w->copied[other] > w->now ||
            w->trips->list[other].need <= w->trips->list[i].need)
            continue;
        *found += w->trips->list[other].bytes;
        if (go)
            CRN_TRY(evict(w, other));
    }
    return CAIRN_OK;
}

/* The time when op k will end, including waits for what it reads. */
static int64_t end_of(const walk *w, uint32_t k) {
    int64_t start = w->now;
    for (uint32_t q = w->next_need; q < w->need_count; q++) {
        uint32_t i = w->needed[q];
        if (w->trips->list[i].need > k)
            break;
        if (w->state[i] == BACK)
            start = CRN_MAX(start, w->back[i]);
    }
    return crn_add_time(start, w->trips->time[k]);
}

static int64_t link_free(const walk *w) {
    bool shared = !w->trips->problem->machine->full_duplex;
    return shared ? CRN_MAX(w->in_free, w->out_free) : w->in_free;
}

/* Prefetch tensors in the order of need, while there is memory and the link is free before the op
 * ends. Otherwise the tensor need not take memory yet: a fetch at the next op arrives as early. */
static cairn_status fetch_ahead(walk *w, uint32_t k) {
    int64_t end = end_of(w, k);
    for (uint32_t q = w->next_need; q < w->need_count && link_free(w) <= end; q++) {
        uint32_t i = w->needed[q];
        const crn_trip *trip = &w->trips->list[i];
        if (w->state[i] != AWAY)
            continue;
        uint64_t need = most_memory(w->trips, k, trip->need) + trip->bytes;
        if (w->choice->in_at[i] > k)
            break;
        if (need > w->aim + w->away) {
            uint64_t lack = need - w->aim - w->away, found = 0;
            if (w->choice->pushes)
                CRN_TRY(push_out(w, i, lack, false, &found));
            if (found < lack)
                break;
            CRN_TRY(push_out(w, i, lack, true, &found));
        }
        CRN_TRY(fetch(w, i));
    }
    return CAIRN_OK;
}

/* The op waits for its tensors; their trips are then complete. */
static void await_needed(walk *w, uint32_t k) {
    for (; w->next_need < w->need_count; w->next_need++) {
        uint32_t i = w->needed[w->next_need];
        if (w->trips->list[i].need > k)
            return;
        if (w->state[i] == BACK)
            w->now = CRN_MAX(w->now, w->back[i]);
    }
}

/* ---- The walk ---- */

static cairn_status visit(walk *w, uint32_t k, bool *fits) {
    w->aim = w->budget - CRN_MIN(w->choice->spare[k >= w->trips->first_backward], w->budget);
    CRN_TRY(copy_out(w, k));
    if (w->choice->prompt)
        CRN_TRY(evict_copied(w, k));
    CRN_TRY(fetch_needed(w, k, fits));
    if (!*fits)
        return CAIRN_OK;
    if (k >= w->trips->first_backward)
        CRN_TRY(fetch_ahead(w, k));
    await_needed(w, k);
    w->now = crn_add_time(w->now, w->trips->time[k]);
    return say(w, CRN_RUN, k);
}

/* The step cannot end before this: all later ops run, and what is away comes back after the forward
 * pass, the tensor that is needed last at the end. */
static int64_t earliest_end(const walk *w, uint32_t k) {
    const crn_trips *trips = w->trips;
    uint32_t turn = CRN_MAX(k, trips->first_backward);
    int64_t first = crn_add_time(w->now, trips->to_go[k] - trips->to_go[turn]);
    int64_t back = crn_add_time(CRN_MAX(first, w->in_free), w->coming);
    uint32_t last = w->need_count > 0 ? w->needed[w->need_count - 1] : CAIRN_NONE;
    if (last != CAIRN_NONE && w->state[last] == AWAY)
        back = crn_add_time(back, trips->to_go[trips->list[last].need]);
    return CRN_MAX(crn_add_time(w->now, trips->to_go[k]), back);
}

cairn_status crn_trips_walk(const crn_trips *trips, uint64_t budget, const crn_trip_choice *choice,
                            int64_t limit, crn_schedule *schedule, uint8_t *stayed, int64_t *time) {
    walk *w = trips->walk;
    w->trips = trips;
    w->choice = choice;
    w->budget = budget;
    w->schedule = schedule;
    w->stayed = stayed;
    w->away = 0;
    w->coming = 0;
    w->now = w->out_free = w->in_free = 0;
    w->leaving_count = w->first_leaving = w->need_count = w->next_need = 0;
    *time = -1;
    index_copies(w);
    if (stayed != NULL)
        memset(stayed, 0, trips->count);
    for (uint32_t k = 0; k < trips->ops; k++) {
        bool fits = true;
        if (earliest_end(w, k) >= limit)
            return CAIRN_OK;
        CRN_TRY(visit(w, k, &fits));
        if (!fits)
            return CAIRN_OK;
    }
    int64_t end = CRN_MAX(w->now, CRN_MAX(w->out_free, w->in_free));
    if (end < limit)
        *time = end;
    return CAIRN_OK;
}

cairn_status crn_trips_prune(const crn_trips *trips, uint64_t budget, crn_trip_choice *choice,
                             int64_t *time) {
    uint8_t *stayed = trips->walk->idle, *kept = trips->walk->kept;
    choice->prompt = false;
    CRN_TRY(crn_trips_walk(trips, budget, choice, INT64_MAX, NULL, stayed, time));
    for (bool any = *time >= 0; any;) {
        int64_t shorter;
        any = false;
        memcpy(kept, choice->moved, trips->count);
        for (uint32_t i = 0; i < trips->count; i++)
            if (stayed[i]) {
                any = true;
                choice->moved[i] = 0;
            }
        if (!any)
            break;
        CRN_TRY(crn_trips_walk(trips, budget, choice, INT64_MAX, NULL, stayed, &shorter));
        any = shorter >= 0 && shorter <= *time;
        if (!any)
            memcpy(choice->moved, kept, trips->count);
        else
            *time = shorter;
    }
    int64_t prompt;
    choice->prompt = true;
    CRN_TRY(crn_trips_walk(trips, budget, choice, INT64_MAX, NULL, NULL, &prompt));
    choice->prompt = prompt >= 0 && prompt <= *time;
    if (choice->prompt)
        *time = prompt;
    return CAIRN_OK;
}
