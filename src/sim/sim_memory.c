/* sim_memory.c: the memory of a walk: storages, their lifetimes, and what is in memory at the
 * peak. */
#include "sim/sim_walk.h"

#include <stdlib.h>

/* List the storages at the peak. A storage is named after the first tensor that is in it now: the
 * tensor that it was allocated for may have been freed while an alias of it stays. */
static cairn_status capture_holders(crn_sim_walk *w, uint64_t workspace) {
    crn_sim *sim = w->sim;
    bool *named;
    CRN_TAKE(&w->scratch, named, w->storages.length);
    for (cairn_id t = 0; t < cairn_graph_tensor_count(w->graph); t++) {
        uint32_t s = w->places[t].storage;
        if (s == NO_STORAGE || named[s])
            continue;
        named[s] = true;
        cairn_holder holder = {t, w->storages.data[s].bytes};
        CRN_PUSH(&sim->arena, sim->holders, holder);
    }
    cairn_holder holder = {CAIRN_NONE, workspace};
    if (workspace > 0)
        CRN_PUSH(&sim->arena, sim->holders, holder);
    w->found = true;
    return CAIRN_OK;
}

/* Count the memory at this step: the storages, and the workspace of a run. */
cairn_status crn_sim_count(crn_sim_walk *w, uint64_t workspace, cairn_id culprit) {
    uint64_t bytes = w->live + workspace;
    cairn_sim_summary *summary = &w->sim->summary;
    if (w->find_holders)
        return w->step == summary->peak_step && bytes == summary->peak_bytes && !w->found
                   ? capture_holders(w, workspace)
                   : CAIRN_OK;
    if (bytes > summary->peak_bytes) {
        summary->peak_bytes = bytes;
        summary->peak_step = w->step;
    }
    if (w->step < w->sim->step_count)
        w->sim->steps[w->step].bytes = bytes;
    return bytes > w->budget ? crn_sim_break_rule(w, CAIRN_RULE_OVER_BUDGET, culprit) : CAIRN_OK;
}

cairn_status crn_sim_record_lifetime(crn_sim_walk *w, cairn_id tensor, uint64_t bytes,
                                     uint32_t last, uint32_t *out) {
    cairn_lifetime lifetime = {.bytes = bytes, .first = w->step, .last = last, .tensor = tensor};
    *out = w->sim->lifetimes.length;
    if (!w->find_holders)
        CRN_PUSH(&w->sim->arena, w->sim->lifetimes, lifetime);
    return CAIRN_OK;
}

/* Allocate a storage for a tensor that is not resident. */
cairn_status crn_sim_take_storage(crn_sim_walk *w, cairn_id tensor) {
    crn_sim_place *p = &w->places[tensor];
    p->resident = true;
    p->storage = NO_STORAGE;
    if (crn_sim_outside(w, tensor))
        return CAIRN_OK;
    crn_sim_storage fresh = {.bytes = crn_align(cairn_costs_bytes(w->costs)[tensor]), .users = 1};
    CRN_TRY(crn_sim_record_lifetime(w, tensor, fresh.bytes, UINT32_MAX, &fresh.lifetime));
    if (w->free_slots.length > 0) {
        p->storage = w->free_slots.data[--w->free_slots.length];
        w->storages.data[p->storage] = fresh;
    } else {
        p->storage = w->storages.length;
        CRN_PUSH(&w->scratch, w->storages, fresh);
    }
    w->live += fresh.bytes;
    return CAIRN_OK;
}

/* A tensor leaves its storage. The storage is freed with its last user; its lifetime then ends at
 * step `last`. */
cairn_status crn_sim_leave_storage(crn_sim_walk *w, cairn_id tensor, crn_sim_absence why,
                                   uint32_t last) {
    crn_sim_place *p = &w->places[tensor];
    p->resident = false;
    p->absence = (uint8_t)why;
    if (p->storage == NO_STORAGE)
        return CAIRN_OK;
    crn_sim_storage *s = &w->storages.data[p->storage];
    if (--s->users == 0) {
        w->live -= s->bytes;
        if (!w->find_holders)
            w->sim->lifetimes.data[s->lifetime].last = last;
        CRN_PUSH(&w->scratch, w->free_slots, p->storage);
    }
    p->storage = NO_STORAGE;
    return CAIRN_OK;
}

static int compare_holders(const void *a, const void *b) {
    const cairn_holder *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* Walk again up to the peak and list what is in memory there. The figures of the first walk are
 * kept. The second walk starts from zero, or else host memory would be counted twice. */
cairn_status crn_sim_find_holders(crn_sim_walk *w) {
    cairn_sim_summary kept = w->sim->summary;
    w->sim->summary =
        (cairn_sim_summary){.peak_bytes = kept.peak_bytes, .peak_step = kept.peak_step};
    w->find_holders = true;
    cairn_status status = crn_sim_walk_plan(w);
    w->sim->summary = kept;
    if (status == CAIRN_ENOMEM)
        return status;
    if (w->sim->holders.length > 0)
        qsort(w->sim->holders.data, w->sim->holders.length, sizeof *w->sim->holders.data,
              compare_holders);
    return CAIRN_OK;
}
