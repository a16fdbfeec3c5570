/* offload_ordered.c: the shortest ordered schedule of a given set (Beaumont et al., proposition 1
 * and sections 5.2.1, 5.2.2, corrected).
 *
 * A schedule is ordered if offloads come by increasing index, fetches by decreasing index, and the
 * last offload before the first fetch. The paper's "prefetch as early as memory allows" deadlocks:
 * it fills the memory that a later forward op needs. Instead:
 *
 *     time ---->   |F0|F1| F2 |F3|   gap   |B3|B2 | |B1|B0|
 *     link          [o0 ][o1]                 [f1][f0 ]
 *                  forward side: no waiting   backward side: no waiting, run from the end
 *
 * Both sides are the same problem: ops 0, 1, 2, .. in a row, each as early as the bytes moved so
 * far allow. Backwards in time, B_0, B_1, .. take the place of F_0, F_1, .., and the beginning of a
 * fetch is the end of an offload. There is one difference: x_i can leave once F_{i-1} has ended,
 * but backwards only once B_i has "ended". Then the sides are pushed together as far as
 *
 *     - the last offload ends before the first fetch begins,
 *     - every B_j finds its need moved out by the forward side's offloads,
 *     - every F_j ends with its need still out, not yet fetched.
 *
 * With whole release all bytes of a transfer count as moved when it has ended; with fractional
 * release they count one by one. A schedule that moves only some of the last activation gives the
 * fractional optimum (theorem 2).
 *
 * O(n log n): the needs of one side are looked up in the transfers of the other. */
#include "solve/offload/crn_offload.h"

typedef struct side {
    int64_t *start, *end;    /* of op i, on the clock of this side */
    int64_t *transfer_start; /* of x_i */
    int64_t *moved_before;   /* bytes moved before transfer k */
    uint32_t *transfers;     /* activations in order */
    uint32_t count;
    int64_t moved;     /* bytes of all transfers */
    int64_t link_free; /* end of the last transfer */
} side;

struct crn_offload_ordered {
    const crn_offload_chain *chain;
    const int64_t *amount;
    bool whole;
    int64_t *amount_of_set;
    side forward, backward;
};

/* ---- Schedules ---- */

cairn_status crn_offload_schedule_make(crn_arena *arena, uint32_t count,
                                       crn_offload_schedule *out) {
    *out = (crn_offload_schedule){0};
    CRN_TAKE(arena, out->moved, count);
    CRN_TAKE(arena, out->forward, count);
    CRN_TAKE(arena, out->backward, count);
    CRN_TAKE(arena, out->offload, count);
    CRN_TAKE(arena, out->fetch, count);
    return CAIRN_OK;
}

void crn_offload_schedule_copy(uint32_t count, const crn_offload_schedule *from,
                               crn_offload_schedule *to) {
    to->found = from->found;
    to->optimal = from->optimal;
    to->makespan = from->makespan;
    memcpy(to->moved, from->moved, count * sizeof *to->moved);
    memcpy(to->forward, from->forward, count * sizeof *to->forward);
    memcpy(to->backward, from->backward, count * sizeof *to->backward);
    memcpy(to->offload, from->offload, count * sizeof *to->offload);
    memcpy(to->fetch, from->fetch, count * sizeof *to->fetch);
}

/* ---- One side ---- */

static cairn_status side_make(crn_arena *arena, uint32_t count, side *out) {
    CRN_TAKE(arena, out->start, count);
    CRN_TAKE(arena, out->end, count);
    CRN_TAKE(arena, out->transfer_start, count);
    CRN_TAKE(arena, out->moved_before, count);
    CRN_TAKE(arena, out->transfers, count);
    return CAIRN_OK;
}

cairn_status crn_offload_ordered_make(crn_arena *arena, const crn_offload_chain *chain,
                                      crn_offload_ordered **out) {
    CRN_TAKE(arena, *out, 1);
    (*out)->chain = chain;
    CRN_TAKE(arena, (*out)->amount_of_set, chain->count);
    CRN_TRY(side_make(arena, chain->count, &(*out)->forward));
    return side_make(arena, chain->count, &(*out)->backward);
}

static void add_transfer(side *s, uint32_t activation, int64_t ready, int64_t amount) {
    s->transfer_start[activation] = CRN_MAX(ready, s->link_free);
    s->moved_before[s->count] = s->moved;
    s->transfers[s->count++] = activation;
    s->link_free = s->transfer_start[activation] + amount;
    s->moved += amount;
}

/* When transfer k has made `bytes` free, counted from the first transfer. */
static int64_t time_in_transfer(const crn_offload_ordered *room, const side *s, uint32_t k,
                                int64_t bytes) {
    uint32_t activation = s->transfers[k];
    int64_t before = room->whole ? room->amount[activation] : bytes - s->moved_before[k];
    return s->transfer_start[activation] + before;
}

/* The time when `bytes` are free, where 0 < bytes <= s->moved. It lies in the last transfer with
 * fewer bytes moved before it. */
static int64_t time_of(const crn_offload_ordered *room, const side *s, int64_t bytes) {
    uint32_t low = 0, high = s->count; /* the answer is in low .. high - 1 */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (s->moved_before[middle] < bytes)
            low = middle;
        else
            high = middle;
    }
    return time_in_transfer(room, s, low, bytes);
}

/* Run ops 0 .. n-1, each as early as possible. False if an op can never get its need. */
static bool run_side(const crn_offload_ordered *room, side *s, const int64_t *duration,
                     const int64_t *need, bool leaves_before_op) {
    int64_t now = 0;
    s->count = 0;
    s->moved = s->link_free = 0;
    for (uint32_t i = 0; i < room->chain->count; i++) {
        int64_t ready = now;
        if (need[i] > s->moved)
            return false;
        if (need[i] > 0)
            now = CRN_MAX(now, time_of(room, s, need[i]));
        s->start[i] = now;
        now += duration[i];
        s->end[i] = now;
        if (room->amount[i] >= 0)
            add_transfer(s, i, leaves_before_op ? ready : now, room->amount[i]);
    }
    return true;
}

/* ---- Both sides ---- */

/* The smallest possible makespan: at any moment it is the sum of the forward and the backward
 * clock. */
static int64_t join(const crn_offload_ordered *room) {
    const crn_offload_chain *chain = room->chain;
    const side *forward = &room->forward, *backward = &room->backward;
    uint32_t n = chain->count;
    int64_t length = forward->end[n - 1] + backward->end[n - 1];
    if (forward->count > 0)
        length = CRN_MAX(length, forward->link_free + backward->link_free);
    for (uint32_t i = 0; i < n; i++) {
        if (chain->backward_need[i] > 0)
            length =
                CRN_MAX(length, time_of(room, forward, chain->backward_need[i]) + backward->end[i]);
        if (chain->forward_need[i] > 0)
            length =
                CRN_MAX(length, time_of(room, backward, chain->forward_need[i]) + forward->end[i]);
    }
    return length;
}

static void write_schedule(const crn_offload_ordered *room, int64_t length,
                           crn_offload_schedule *out) {
    out->found = true;
    out->optimal = false;
    out->makespan = length;
    for (uint32_t i = 0; i < room->chain->count; i++) {
        out->forward[i] = room->forward.start[i];
        out->backward[i] = length - room->backward.end[i];
        if (room->amount[i] < 0)
            continue;
        out->offload[i] = room->forward.transfer_start[i];
        out->fetch[i] = length - room->backward.transfer_start[i] - room->amount[i];
    }
}

/* Both sides apart; false if one is not possible. */
static bool run_sides(crn_offload_ordered *room, const int64_t *amount,
                      cairn_offload_release release) {
    const crn_offload_chain *chain = room->chain;
    room->amount = amount;
    room->whole = release == CAIRN_OFFLOAD_RELEASE_WHOLE;
    return run_side(room, &room->forward, chain->forward, chain->forward_need, true) &&
           run_side(room, &room->backward, chain->backward, chain->backward_need, false);
}

int64_t crn_offload_ordered_run(crn_offload_ordered *room, const int64_t *amount,
                                cairn_offload_release release, crn_offload_schedule *out) {
    if (!run_sides(room, amount, release))
        return -1;
    int64_t length = join(room);
    if (out != NULL)
        write_schedule(room, length, out);
    return length;
}

static const int64_t *amounts(crn_offload_ordered *room, const uint8_t *moved) {
    for (uint32_t i = 0; i < room->chain->count; i++)
        room->amount_of_set[i] = moved[i] ? room->chain->size[i] : -1;
    return room->amount_of_set;
}

int64_t crn_offload_ordered_length(crn_offload_ordered *room, const uint8_t *moved,
                                   cairn_offload_release release, int64_t limit) {
    if (!run_sides(room, amounts(room, moved), release))
        return -1;
    uint32_t n = room->chain->count;
    if (room->forward.end[n - 1] + room->backward.end[n - 1] >= limit ||
        room->forward.link_free + room->backward.link_free >= limit)
        return limit;
    return CRN_MIN(join(room), limit);
}

void crn_offload_try(crn_offload_job *job, const uint8_t *moved, crn_offload_schedule *best) {
    const int64_t *amount = amounts(job->ordered, moved);
    int64_t length = crn_offload_ordered_run(job->ordered, amount, job->release, &job->trial);
    if (length < 0 || (best->found && length >= best->makespan))
        return;
    memcpy(job->trial.moved, moved, job->chain->count);
    crn_offload_schedule_copy(job->chain->count, &job->trial, best);
}

cairn_status crn_offload_fractional(crn_arena *arena, const crn_offload_chain *chain,
                                    int64_t *out) {
    crn_offload_ordered *room;
    int64_t *amount, most = 0;
    CRN_TRY(crn_offload_ordered_make(arena, chain, &room));
    CRN_TAKE(arena, amount, chain->count);
    for (uint32_t i = 0; i < chain->count; i++)
        most = CRN_MAX(most, CRN_MAX(chain->forward_need[i], chain->backward_need[i]));
    for (uint32_t i = 0; i < chain->count; i++) {
        amount[i] = most > 0 ? CRN_MIN(most, chain->size[i]) : -1;
        most -= CRN_MAX(amount[i], 0);
    }
    *out = crn_offload_ordered_run(room, amount, CAIRN_OFFLOAD_RELEASE_FRACTIONAL, NULL);
    return CAIRN_OK;
}
