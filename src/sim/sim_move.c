/* sim_move.c: the steps that run no op: free, offload, fetch, wait. */
#include "cost/crn_cost.h"
#include "sim/sim_walk.h"

cairn_status crn_sim_free(crn_sim_walk *w, cairn_id tensor) {
    const crn_sim_place *p = &w->places[tensor];
    if (!p->resident)
        return crn_sim_break_rule(w,
                                  p->absence == NEVER_MADE || p->absence == AT_HOME
                                      ? CAIRN_RULE_FREE_NEVER_MADE
                                      : CAIRN_RULE_FREED_TWICE,
                                  tensor);
    if (p->flight != AT_REST)
        return crn_sim_break_rule(w, CAIRN_RULE_FREE_IN_FLIGHT, tensor);
    if (p->homed && !p->on_host)
        return crn_sim_break_rule(w, CAIRN_RULE_CHANGE_LOST, tensor);
    crn_sim_note_tensors(w, 0, &tensor, 1);
    CRN_TRY(crn_sim_leave_storage(w, tensor, FREED, w->step == 0 ? 0 : w->step - 1));
    return crn_sim_count(w, 0, tensor);
}

/* Before the last micro-batch a copy is left out if it is of a slot that only the update uses, or
 * would bring home a parameter, which has not changed. */
static bool is_left_out(const crn_sim_walk *w, cairn_id tensor, bool out) {
    bool is_parameter = cairn_graph_tensor(w->graph, tensor)->role == CAIRN_ROLE_PARAMETER;
    return w->gathers && (w->of_last[tensor] || (out && is_parameter));
}

/* Start a copy on its lane and fill in the times of the step. On a half-duplex link both directions
 * share one lane. */
static int64_t copy(crn_sim_walk *w, cairn_id tensor, bool out) {
    uint64_t bytes = cairn_costs_bytes(w->costs)[tensor];
    uint64_t left = !out && w->reads_only[w->step] ? crn_costs_unread(w->costs, tensor) : 0;
    int64_t *lane = out ? &w->out_free : &w->in_free;
    bool shared = w->machine != NULL && !w->machine->full_duplex;
    if (is_left_out(w, tensor, out))
        return w->sim->steps[w->step].end_ns = w->now;
    int64_t start = CRN_MAX(w->now, *lane);
    if (shared)
        start = CRN_MAX(start, CRN_MAX(w->out_free, w->in_free));
    int64_t length = 0;
    if (w->machine != NULL)
        length = crn_machine_copy_ns(w->machine, bytes - left);
    *lane = crn_add_time(start, length);
    int64_t *busy = out ? &w->sim->summary.copy_out_ns : &w->sim->summary.copy_in_ns;
    *busy = crn_add_time(*busy, length);
    w->sim->steps[w->step].start_ns = start;
    w->sim->steps[w->step].end_ns = *lane;
    return *lane;
}

/* Start a copy of a tensor that has a storage. */
static cairn_status start_copy(crn_sim_walk *w, cairn_id tensor, bool out) {
    crn_sim_place *p = &w->places[tensor];
    p->flight = out ? GOING_OUT : COMING_IN;
    w->storages.data[p->storage].copied++;
    p->copy_end = copy(w, tensor, out);
    *(out ? &w->sim->summary.offloads : &w->sim->summary.fetches) += 1;
    crn_sim_note_tensors(w, 0, &tensor, 1);
    return crn_sim_count(w, 0, tensor);
}

cairn_status crn_sim_offload(crn_sim_walk *w, cairn_id tensor) {
    crn_sim_place *p = &w->places[tensor];
    if (!p->resident)
        return crn_sim_break_rule(w, CAIRN_RULE_OFFLOAD_ABSENT, tensor);
    if (p->flight != AT_REST)
        return crn_sim_break_rule(w, CAIRN_RULE_OFFLOAD_IN_FLIGHT, tensor);
    if (!p->on_host && !p->homed)
        w->sim->summary.host_bytes += crn_align(cairn_costs_bytes(w->costs)[tensor]);
    if (w->machine != NULL && w->sim->summary.host_bytes > w->machine->host_memory_bytes)
        return crn_sim_break_rule(w, CAIRN_RULE_HOST_FULL, tensor);
    p->on_host = true;
    return start_copy(w, tensor, true);
}

cairn_status crn_sim_fetch(crn_sim_walk *w, cairn_id tensor) {
    crn_sim_place *p = &w->places[tensor];
    if (p->resident)
        return crn_sim_break_rule(w, CAIRN_RULE_FETCH_RESIDENT, tensor);
    if (!p->on_host)
        return crn_sim_break_rule(w, CAIRN_RULE_FETCH_WITHOUT_COPY, tensor);
    CRN_TRY(crn_sim_take_storage(w, tensor));
    return start_copy(w, tensor, false);
}

cairn_status crn_sim_wait(crn_sim_walk *w, cairn_id tensor) {
    crn_sim_place *p = &w->places[tensor];
    if (p->flight == AT_REST)
        return crn_sim_break_rule(w, CAIRN_RULE_WAIT_FOR_NOTHING, tensor);
    if (p->copy_end > w->now) {
        w->sim->summary.idle_ns = crn_add_time(w->sim->summary.idle_ns, p->copy_end - w->now);
        w->now = p->copy_end;
    }
    p->flight = AT_REST;
    w->storages.data[p->storage].copied--;
    crn_sim_note_tensors(w, 0, &tensor, 1);
    return crn_sim_count(w, 0, tensor);
}
