/* auto_starts.c: turns the keep-set of a minimum cut, or the schedule of another algorithm, into a
 * set of recomputations. */
#include "solve/auto/auto_starts.h"

/* Recompute in `slot` what `value` needs and is not there. */
static cairn_status make_again(crn_search *s, uint32_t value, uint32_t slot, bool *there,
                               crn_arena *arena) {
    const crn_flat *f = s->flat;
    CRN_ARRAY(uint32_t) missing = {0};
    CRN_PUSH(arena, missing, value);
    while (missing.length > 0) {
        uint32_t v = missing.data[--missing.length], producer = f->producer[v];
        if (there[v])
            continue;
        for (uint32_t k = f->first_output[producer]; k < f->first_output[producer + 1]; k++)
            there[f->outputs[k]] = true;
        if (!crn_matrix_has(s->matrix, slot, producer))
            crn_matrix_flip(s->matrix, slot, producer);
        for (uint32_t k = f->first_input[producer]; k < f->first_input[producer + 1]; k++)
            if (!there[f->inputs[k]])
                CRN_PUSH(arena, missing, f->inputs[k]);
    }
    return CAIRN_OK;
}

cairn_status crn_start_from_min_cut(crn_search *s, crn_bound *bound, int64_t price,
                                    crn_arena *arena) {
    const crn_flat *f = s->flat;
    bool *there;
    CRN_TAKE(arena, there, f->value_count);
    crn_bound_keep(bound, price, there);
    for (uint32_t v = 0; v < f->value_count; v++) {
        uint32_t producer = f->producer[v];
        there[v] = there[v] || producer == CRN_NO_OP || f->fixed[producer] ||
                   bound->side[producer] != CRN_BEFORE;
    }
    crn_matrix_clear(s->matrix);
    for (uint32_t o = bound->op; o < f->last_slot; o++)
        for (uint32_t k = f->first_input[o]; k < f->first_input[o + 1]; k++)
            if (!there[f->inputs[k]])
                CRN_TRY(make_again(s, f->inputs[k], o + 1, there, arena));
    crn_matrix_prune_all(s->matrix);
    return CAIRN_OK;
}

bool crn_start_from_schedule(crn_search *s, const crn_schedule *schedule) {
    const crn_flat *f = s->flat;
    uint32_t next = 0;
    crn_matrix_clear(s->matrix);
    for (uint32_t d = 0; d < schedule->decisions.length; d++) {
        uint32_t o = schedule->decisions.data[d].id;
        if (schedule->decisions.data[d].kind != CRN_RUN || o > next)
            return false;
        if (o == next)
            next++;
        else if (!f->fixed[o] && next < f->last_slot && !crn_matrix_has(s->matrix, next + 1, o))
            crn_matrix_flip(s->matrix, next + 1, o);
    }
    crn_matrix_prune_all(s->matrix);
    return true;
}
