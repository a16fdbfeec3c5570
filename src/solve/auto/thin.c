/* thin.c: removes recomputations that memory does not require. In a greedy repair, later decisions
 * can make earlier ones unnecessary. Checking the recomputations again, most expensive first, finds
 * them. */
#include "solve/auto/auto_search.h"

/* Whether (slot, op) could be removed, judged by the memory of whole slots: its outputs would then
 * stay in memory since the event before. */
static bool is_removable(crn_search *s, crn_rerun r, int64_t limit) {
    const crn_flat *f = s->flat;
    crn_matrix *m = s->matrix;
    for (uint32_t k = f->first_output[r.op]; k < f->first_output[r.op + 1]; k++) {
        uint32_t v = f->outputs[k];
        const crn_event_list *list = &m->events[v];
        uint32_t at = crn_event_find(list, crn_key(r.slot, r.op));
        if (at == 0 || crn_event_dies(list, at))
            continue;
        uint32_t from = crn_key_slot(list->data[at - 1]) + 1;
        if (from < r.slot && crn_matrix_most(m, from, r.slot - 1) + (int64_t)f->room[v] > limit)
            return false;
    }
    return true;
}

static bool try_without(crn_search *s, crn_rerun r, int64_t limit) {
    crn_matrix *m = s->matrix;
    if (!crn_matrix_has(m, r.slot, r.op) || !is_removable(s, r, limit))
        return false;
    crn_matrix_flip(m, r.slot, r.op);
    if (crn_matrix_peak(m) <= limit)
        return true;
    crn_matrix_flip(m, r.slot, r.op);
    return false;
}

/* Change back to faster implementations where memory allows it. */
static uint32_t quicken(crn_search *s, int64_t limit) {
    crn_matrix *m = s->matrix;
    uint32_t changed = 0;
    for (uint32_t op = 0; op < s->flat->op_count; op++) {
        uint32_t slow = m->impl[op];
        for (uint32_t impl = 0; impl < slow && m->impl[op] == slow; impl++) {
            crn_matrix_set_impl(m, op, impl);
            if (crn_matrix_peak(m) > limit)
                crn_matrix_set_impl(m, op, slow);
            else
                changed++;
        }
    }
    return changed;
}

/* A recomputation to sort: the longest first, then by slot and op. Its low half is the slot and the
 * op. */
__extension__ typedef unsigned __int128 timed;

static timed timed_of(const crn_matrix *m, crn_rerun r) {
    uint64_t less = (uint64_t)INT64_MAX - (uint64_t)crn_rerun_time(m, r.op);
    return (timed)less << 64 | (uint64_t)r.slot << 32 | r.op;
}

/* Merge sort, `room` has space for as many. There is no branch on which is the less: it could not
 * be predicted. */
static void sort_timed(timed *list, timed *room, uint32_t count) {
    timed *from = list, *to = room;
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t start = 0; start < count; start += 2 * width) {
            uint32_t middle = CRN_MIN(start + width, count), end = CRN_MIN(middle + width, count);
            uint32_t left = start, right = middle, k = start;
            while (left < middle && right < end) {
                bool second = from[right] < from[left];
                to[k++] = from[second ? right : left];
                right += second;
                left += !second;
            }
            memcpy(to + k, from + left, (middle - left) * sizeof *to);
            memcpy(to + k + (middle - left), from + right, (end - right) * sizeof *to);
        }
        timed *other = from;
        from = to;
        to = other;
    }
    if (from != list)
        memcpy(list, from, count * sizeof *list);
}

/* Room for a list, and to sort it. */
static timed *sample_room(crn_search *s, uint32_t count) {
    if (count > s->sample_room) {
        s->sample = crn_arena_take(s->matrix->arena, 4 * (size_t)count, sizeof(timed));
        s->sample_room = s->sample == NULL ? 0 : 2 * count;
        s->matrix->failed = s->matrix->failed || s->sample == NULL;
    }
    return s->sample;
}

static uint32_t thin_list(crn_search *s, timed *list, uint32_t count, int64_t limit) {
    uint32_t gone = 0;
    if (count > 1)
        sort_timed(list, list + s->sample_room, count);
    for (uint32_t k = 0; k < count && !s->matrix->failed; k++) {
        crn_rerun r = {.slot = (uint32_t)(list[k] >> 32), .op = (uint32_t)list[k]};
        gone += try_without(s, r, limit);
    }
    s->work += 3 * (uint64_t)count;
    return gone;
}

uint32_t crn_thin(crn_search *s, int64_t limit) {
    crn_matrix *m = s->matrix;
    timed *list = sample_room(s, m->all.length);
    uint32_t count = 0;
    for (uint32_t k = 0; k < m->all.length && list != NULL; k++)
        if (m->all.data[k].op < s->flat->op_count)
            list[count++] = timed_of(m, m->all.data[k]);
    return quicken(s, limit) + thin_list(s, list, count, limit);
}

void crn_thin_some(crn_search *s, int64_t limit, uint32_t count) {
    crn_matrix *m = s->matrix;
    timed *list = sample_room(s, count);
    uint32_t drawn = 0;
    for (uint32_t k = 0; k < count && m->all.length > 0 && list != NULL; k++) {
        crn_rerun r = m->all.data[crn_rng_below(&s->rng, m->all.length)];
        if (r.op < s->flat->op_count)
            list[drawn++] = timed_of(m, r);
    }
    thin_list(s, list, drawn, limit);
}

void crn_thin_all(crn_search *s, int64_t limit) {
    crn_matrix_prune_all(s->matrix);
    for (int pass = 0; pass < 3 && crn_thin(s, limit) > 0; pass++)
        ;
    crn_matrix_prune_all(s->matrix);
}
