/* copy_costs.c: see copy_costs.h. */
#include "solve/copy_costs.h"

#include "graph/crn_graph.h"

/* The ids of ops in the new graph, by those in the old one. */
static cairn_status invert(uint32_t count, const cairn_id *order, crn_arena *scratch,
                           cairn_id **out) {
    CRN_TAKE(scratch, *out, count);
    for (cairn_id o = 0; o < count; o++)
        (*out)[order == NULL ? o : order[o]] = o;
    return CAIRN_OK;
}

static cairn_status copy_op(const cairn_costs *from, cairn_id old, uint64_t more,
                            crn_arena *scratch, cairn_costs *to, cairn_id op) {
    uint32_t count;
    const cairn_implementation *known = cairn_costs_op(from, old, &count);
    cairn_implementation *list;
    CRN_TAKE(scratch, list, count);
    for (uint32_t i = 0; i < count; i++) {
        list[i] = known[i];
        list[i].workspace_bytes = crn_align(known[i].workspace_bytes) + more;
    }
    CRN_TRY(cairn_costs_set_op(to, op, list, count));
    if (count > 0)
        crn_costs_set_again(to, op, list[0].time_ns - crn_costs_again_ns(from, old, 0));
    return CAIRN_OK;
}

static cairn_status copy_all(const cairn_graph *graph, const cairn_costs *from,
                             const crn_costs_change *change, crn_arena *scratch, cairn_costs *to) {
    uint32_t count = cairn_graph_op_count(graph);
    cairn_id *inverse;
    CRN_TRY(invert(count, change->order, scratch, &inverse));
    crn_costs_set_copy_slowdown(to, crn_costs_copy_slowdown(from));
    cairn_costs_set_same_bits(to, crn_costs_same_bits(from));
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++) {
        cairn_costs_set_bytes(to, t, cairn_costs_bytes(from)[t]);
        crn_costs_set_unread(to, t, crn_costs_unread(from, t));
    }
    for (cairn_id o = 0; o < count; o++) {
        cairn_id old = change->order == NULL ? o : change->order[o];
        cairn_id fused = crn_costs_fused(from, old);
        uint64_t more = change->more_workspace == NULL ? 0 : change->more_workspace[o];
        CRN_TRY(copy_op(from, old, more, scratch, to, o));
        crn_costs_set_fused(to, o, fused == CAIRN_NONE ? CAIRN_NONE : inverse[fused]);
    }
    return CAIRN_OK;
}

cairn_status crn_costs_copy(const cairn_graph *graph, const cairn_costs *from,
                            const crn_costs_change *change, crn_arena *scratch, cairn_costs **out,
                            cairn_error *err) {
    CRN_TRY(cairn_costs_create(graph, out, err));
    cairn_status status = copy_all(graph, from, change, scratch, *out);
    if (status == CAIRN_OK)
        return CAIRN_OK;
    cairn_costs_destroy(*out);
    *out = NULL;
    return status;
}
