/* thin.c: removes recomputations that memory does not require. In a greedy repair, later decisions
 * can make earlier ones unnecessary. Checking the recomputations again, most expensive first, finds
 * them. */
#include "solve/auto/auto_search.h"

#include <stdlib.h>

#define FEW 32u /* re-runs in a short list */

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

/* Change back to faster ways where memory allows it. */
static uint32_t quicken(crn_search *s, int64_t limit) {
    crn_matrix *m = s->matrix;
    uint32_t changed = 0;
    for (uint32_t op = 0; op < s->flat->op_count; op++) {
        uint32_t slow = m->way[op];
        for (uint32_t way = 0; way < slow && m->way[op] == slow; way++) {
            crn_matrix_set_way(m, op, way);
            if (crn_matrix_peak(m) > limit)
                crn_matrix_set_way(m, op, slow);
            else
                changed++;
        }
    }
    return changed;
}

/* A recomputation with its time, for sorting. */
typedef struct timed {
    int64_t time;
    crn_rerun rerun;
} timed;

static int compare_timed(const void *a, const void *b) {
    const timed *x = a, *y = b;
    if (x->time != y->time)
        return x->time > y->time ? -1 : 1;
    if (x->rerun.slot != y->rerun.slot)
        return x->rerun.slot < y->rerun.slot ? -1 : 1;
    return (x->rerun.op > y->rerun.op) - (x->rerun.op < y->rerun.op);
}

/* Short lists are many: they are sorted in place. */
static void sort_timed(timed *list, uint32_t count) {
    if (count > FEW) {
        qsort(list, count, sizeof *list, compare_timed);
        return;
    }
    for (uint32_t k = 1; k < count; k++) {
        timed moved = list[k];
        uint32_t at = k;
        for (; at > 0 && compare_timed(&moved, &list[at - 1]) < 0; at--)
            list[at] = list[at - 1];
        list[at] = moved;
    }
}

static timed *sample_room(crn_search *s, uint32_t count) {
    if (count > s->sample_room) {
        s->sample = crn_arena_take(s->matrix->arena, 2 * (size_t)count, sizeof(timed));
        s->sample_room = s->sample == NULL ? 0 : 2 * count;
        s->matrix->failed = s->matrix->failed || s->sample == NULL;
    }
    return s->sample;
}

static uint32_t thin_list(crn_search *s, timed *list, uint32_t count, int64_t limit) {
    uint32_t gone = 0;
    sort_timed(list, count);
    for (uint32_t k = 0; k < count && !s->matrix->failed; k++)
        gone += try_without(s, list[k].rerun, limit);
    s->work += 3 * (uint64_t)count;
    return gone;
}

uint32_t crn_thin(crn_search *s, int64_t limit) {
    crn_matrix *m = s->matrix;
    timed *list = sample_room(s, m->all.length);
    uint32_t count = 0;
    for (uint32_t k = 0; k < m->all.length && list != NULL; k++)
        if (m->all.data[k].op < s->flat->op_count)
            list[count++] = (timed){crn_rerun_time(m, m->all.data[k].op), m->all.data[k]};
    return quicken(s, limit) + thin_list(s, list, count, limit);
}

void crn_thin_some(crn_search *s, int64_t limit, uint32_t count) {
    crn_matrix *m = s->matrix;
    timed *list = sample_room(s, count);
    uint32_t drawn = 0;
    for (uint32_t k = 0; k < count && m->all.length > 0 && list != NULL; k++) {
        crn_rerun r = m->all.data[crn_rng_below(&s->rng, m->all.length)];
        if (r.op < s->flat->op_count)
            list[drawn++] = (timed){crn_rerun_time(m, r.op), r};
    }
    thin_list(s, list, drawn, limit);
}

void crn_thin_all(crn_search *s, int64_t limit) {
    crn_matrix_prune_all(s->matrix);
    for (int pass = 0; pass < 3 && crn_thin(s, limit) > 0; pass++)
        ;
    crn_matrix_prune_all(s->matrix);
}
