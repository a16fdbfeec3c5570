/* auto_emit.c: from the matrix to decisions. */
#include "solve/auto/auto_starts.h"

/* Ops that run again in one slot, aliases included, in canonical order. */
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

static cairn_status choose_implementations(const crn_matrix *m, crn_arena *arena,
                                           crn_schedule *schedule) {
    const crn_flat *f = m->flat;
    uint16_t *chosen;
    CRN_TAKE(arena, chosen, f->op_count);
    for (uint32_t o = 0; o < f->op_count; o++)
        chosen[o] = f->ways[f->first_way[o] + m->way[o]].implementation;
    schedule->implementations = chosen;
    return CAIRN_OK;
}

cairn_status crn_auto_emit(const crn_matrix *m, crn_arena *arena, crn_schedule *schedule) {
    const crn_flat *f = m->flat;
    slot_ops ops = {.low = UINT32_MAX};
    CRN_TAKE(arena, ops.wanted, f->op_count);
    CRN_TRY(choose_implementations(m, arena, schedule));
    for (uint32_t slot = 1; slot < m->slot_count; slot++) {
        want_slot(m, slot, &ops);
        for (uint32_t o = ops.low; o < ops.high; o++)
            if (ops.wanted[o]) {
                ops.wanted[o] = false;
                CRN_TRY(crn_schedule_add(schedule, arena, CRN_RUN, o));
            }
        ops.low = UINT32_MAX;
        ops.high = 0;
        if (slot <= f->op_count)
            CRN_TRY(crn_schedule_add(schedule, arena, CRN_RUN, slot - 1));
    }
    return CAIRN_OK;
}
