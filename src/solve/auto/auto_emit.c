/* auto_emit.c: turns the matrix into decisions. */
#include "solve/auto/auto_starts.h"

/* ---- Runs ---- */

/* The ops that are recomputed in one slot, with their aliases, in canonical order. */
typedef struct slot_ops {
    bool *wanted; /* per op; all false between slots */
    uint32_t low, high;
} slot_ops;

static void want(slot_ops *ops, uint32_t op) {
    ops->wanted[op] = true;
    ops->low = CRN_MIN(ops->low, op);
    ops->high = CRN_MAX(ops->high, op + 1);
}

static void want_slot(const crn_matrix *m, uint32_t slot, slot_ops *ops) {
    const crn_flat *f = m->flat;
    for (uint32_t i = 0; i < m->slots[slot].length; i++) {
        uint32_t op = m->slots[slot].data[i];
        if (op >= f->op_count)
            continue;
        want(ops, op);
        for (uint32_t k = f->first_output[op]; k < f->first_output[op + 1]; k++)
            for (uint32_t a = f->first_alias[f->outputs[k]]; a < f->first_alias[f->outputs[k] + 1];
                 a++)
                if (f->alias_ops[a] + 1 < slot)
                    want(ops, f->alias_ops[a]);
    }
}

static cairn_status run_slot(const crn_matrix *m, uint32_t slot, slot_ops *ops, crn_arena *arena,
                             crn_schedule *schedule) {
    want_slot(m, slot, ops);
    for (uint32_t o = ops->low; o < ops->high; o++)
        if (ops->wanted[o]) {
            ops->wanted[o] = false;
            CRN_TRY(crn_schedule_add(schedule, arena, CRN_RUN, o));
        }
    ops->low = UINT32_MAX;
    ops->high = 0;
    return slot <= m->flat->op_count ? crn_schedule_add(schedule, arena, CRN_RUN, slot - 1)
                                     : CAIRN_OK;
}

static cairn_status choose_implementations(const crn_matrix *m, crn_arena *arena,
                                           crn_schedule *schedule) {
    const crn_flat *f = m->flat;
    uint16_t *chosen;
    CRN_TAKE(arena, chosen, f->op_count);
    for (uint32_t o = 0; o < f->op_count; o++)
        chosen[o] = f->impls[f->first_impl[o] + m->impl[o]].implementation;
    schedule->implementations = chosen;
    return CAIRN_OK;
}

/* ---- Copies ---- */

/* Lists of copies by slot: where the copy out starts, where the value is freed, and where it is
 * fetched. */
typedef struct copy_lists {
    const crn_copies *copies;
    uint32_t *head[3], *next[3]; /* by kind; CRN_NO_OP ends a list */
} copy_lists;

enum { STARTS, GOES, RETURNS };

static const crn_decision_kind kinds[] = {CRN_OFFLOAD, CRN_EVICT, CRN_FETCH};

/* The slot after which nothing reads the value any more before it is fetched. */
static uint32_t goes_after(const crn_matrix *m, const crn_copy *copy) {
    const crn_event_list *list = &m->events[copy->value];
    uint32_t at = crn_event_find(list, crn_key(copy->gone, crn_flat_copied(m->flat, copy->value)));
    while (!crn_event_dies(list, at))
        at++;
    return crn_key_slot(list->data[at]);
}

static cairn_status list_copies(const crn_matrix *m, const crn_copies *copies, crn_arena *arena,
                                copy_lists *out) {
    *out = (copy_lists){.copies = copies};
    for (int kind = STARTS; kind <= RETURNS; kind++) {
        CRN_TAKE(arena, out->head[kind], m->slot_count);
        CRN_TAKE(arena, out->next[kind], copies->count);
        memset(out->head[kind], 0xff, m->slot_count * sizeof *out->head[kind]);
    }
    for (uint32_t k = 0; k < copies->count;
         k++) { /* those read last come first: lists reverse the order */
        const crn_copy *copy = &copies->chosen[k];
        uint32_t slots[] = {m->flat->producer[copy->value] + 1, goes_after(m, copy), copy->back};
        for (int kind = STARTS; kind <= RETURNS; kind++) {
            out->next[kind][k] = out->head[kind][slots[kind]];
            out->head[kind][slots[kind]] = k;
        }
    }
    return CAIRN_OK;
}

static cairn_status copy_slot(const crn_matrix *m, uint32_t slot, const copy_lists *lists,
                              crn_arena *arena, crn_schedule *schedule) {
    for (int kind = STARTS; kind <= RETURNS; kind++)
        for (uint32_t k = lists->head[kind][slot]; k != CRN_NO_OP; k = lists->next[kind][k])
            CRN_TRY(crn_schedule_add(schedule, arena, kinds[kind],
                                     m->flat->root[lists->copies->chosen[k].value]));
    return CAIRN_OK;
}

cairn_status crn_auto_emit(const crn_matrix *m, const crn_copies *copies, crn_arena *arena,
                           crn_schedule *schedule) {
    slot_ops ops = {.low = UINT32_MAX};
    copy_lists lists = {0};
    CRN_TAKE(arena, ops.wanted, m->flat->op_count);
    CRN_TRY(choose_implementations(m, arena, schedule));
    if (copies != NULL)
        CRN_TRY(list_copies(m, copies, arena, &lists));
    for (uint32_t slot = 1; slot < m->slot_count; slot++) {
        CRN_TRY(run_slot(m, slot, &ops, arena, schedule));
        if (copies != NULL)
            CRN_TRY(copy_slot(m, slot, &lists, arena, schedule));
    }
    return CAIRN_OK;
}
