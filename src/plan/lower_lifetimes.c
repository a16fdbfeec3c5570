/* lower_lifetimes.c: which instance each read refers to, which runs are needed, and how long each
 * instance lives. See lowering.h. */
#include "plan/lowering.h"

/* ---- First pass: bind ---- */

static cairn_status add_instance(crn_lowering *l, cairn_id tensor, uint32_t made) {
    crn_instance fresh = {
        .tensor = tensor, .made = made, .last_use = made, .source = CRN_NO_INSTANCE};
    fresh.storage = CRN_NO_INSTANCE;
    fresh.previous = l->tables->current[tensor];
    l->tables->current[tensor] = l->instances.length;
    CRN_PUSH(l->scratch, l->instances, fresh);
    return CAIRN_OK;
}

static cairn_status bind_read(crn_lowering *l, cairn_id tensor) {
    CRN_PUSH(l->scratch, l->reads, l->tables->current[tensor]);
    return CAIRN_OK;
}

static cairn_status bind_decision(crn_lowering *l, uint32_t d) {
    cairn_id id = l->decisions[d].id;
    if (l->decisions[d].kind == CRN_RUN) {
        const cairn_op *op = cairn_graph_op(l->graph, id);
        for (uint32_t i = 0; i < op->input_count; i++)
            CRN_TRY(bind_read(l, op->inputs[i]));
        for (uint32_t i = 0; i < op->output_count; i++)
            if (op->outputs[i] != CAIRN_NONE)
                CRN_TRY(add_instance(l, op->outputs[i], d));
        l->first_run[d] = !l->tables->has_run[id];
        l->tables->has_run[id] = true;
        return CAIRN_OK;
    }
    CRN_TRY(bind_read(l, id));
    if (l->decisions[d].kind == CRN_FETCH) {
        uint32_t source = l->tables->current[id];
        CRN_TRY(add_instance(l, id, d));
        l->instances.data[l->instances.length - 1].source = source;
    }
    return CAIRN_OK;
}

static cairn_status bind(crn_lowering *l) {
    CRN_TAKE(l->scratch, l->first_read, l->count + 1);
    CRN_TAKE(l->scratch, l->first_made, l->count + 1);
    CRN_TAKE(l->scratch, l->first_run, l->count);
    CRN_TAKE(l->scratch, l->dropped, l->count);
    for (uint32_t i = 0; i < l->given_count; i++)
        CRN_TRY(add_instance(l, l->given[i], CRN_TO_THE_END));
    for (uint32_t d = 0; d < l->count; d++) {
        l->first_read[d] = l->reads.length;
        l->first_made[d] = l->instances.length;
        CRN_TRY(bind_decision(l, d));
    }
    l->first_read[l->count] = l->reads.length;
    l->first_made[l->count] = l->instances.length;
    return CAIRN_OK;
}

/* ---- Second pass: what is needed, and until when ---- */

static void want(crn_lowering *l, uint32_t read, uint32_t d) {
    if (read == CRN_NO_INSTANCE)
        return; /* read before it is made: the simulator reports it */
    crn_instance *i = &l->instances.data[read];
    i->wanted = i->read = true;
    if (!i->stays && (i->last_use == i->made || i->last_use < d))
        i->last_use = d;
}

static bool makes_something_wanted(const crn_lowering *l, uint32_t d) {
    for (uint32_t i = l->first_made[d]; i < l->first_made[d + 1]; i++)
        if (l->instances.data[i].wanted)
            return true;
    return false;
}

/* The tensors that must be there at the end stay. */
static void want_kept(crn_lowering *l) {
    for (uint32_t k = 0; k < l->kept_count; k++) {
        uint32_t last = l->tables->current[l->kept[k]];
        if (last == CRN_NO_INSTANCE)
            continue;
        l->instances.data[last].wanted = l->instances.data[last].stays = true;
        l->instances.data[last].last_use = CRN_TO_THE_END;
    }
}

/* Whether nothing reads what a recomputation makes, and it is needed only because its outputs are
 * results of the plan. The earlier instances are then kept instead. */
static bool keep_earlier_results(crn_lowering *l, uint32_t d) {
    for (uint32_t i = l->first_made[d]; i < l->first_made[d + 1]; i++)
        if (l->instances.data[i].read)
            return false;
    for (uint32_t i = l->first_made[d]; i < l->first_made[d + 1]; i++) {
        if (!l->instances.data[i].wanted)
            continue;
        crn_instance *earlier = &l->instances.data[l->instances.data[i].previous];
        earlier->wanted = earlier->stays = true;
        earlier->last_use = CRN_TO_THE_END;
    }
    return true;
}

static void sweep(crn_lowering *l) {
    want_kept(l);
    for (uint32_t d = l->count; d-- > 0;) {
        uint32_t read = crn_lower_moved(l, d);
        switch (l->decisions[d].kind) {
        case CRN_RUN:
            l->dropped[d] =
                !l->first_run[d] && (!makes_something_wanted(l, d) || keep_earlier_results(l, d));
            for (uint32_t r = l->first_read[d]; r < l->first_read[d + 1] && !l->dropped[d]; r++)
                want(l, l->reads.data[r], d);
            break;
        case CRN_FETCH: /* a fetch needs its source through the copy to the host, not as a reader */
            l->dropped[d] = !makes_something_wanted(l, d) || read == CRN_NO_INSTANCE;
            if (!l->dropped[d]) {
                crn_instance *source = &l->instances.data[read];
                source->offloaded = source->wanted = source->read = true;
            }
            break;
        default: /* offload and evict only an instance that a fetch brings back */
            l->dropped[d] = read == CRN_NO_INSTANCE || !l->instances.data[read].offloaded;
            break;
        }
    }
}

cairn_status crn_lower_lifetimes(crn_lowering *l) {
    CRN_TRY(bind(l));
    sweep(l);
    return CAIRN_OK;
}
