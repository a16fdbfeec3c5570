/* bind_costs.c: costs for a device: how it stores tensors, and its implementations of ops. */
#include "backend/backend.h"

/* Set the implementations of one op, each with the estimated time that `costs` has; a head_loss has
 * the same implementations there. */
static cairn_status bind_op(cairn_device *device, const cairn_graph *graph,
                            const crn_storage *storage, cairn_costs *costs, cairn_id id,
                            cairn_error *err) {
    const crn_choice *choices;
    cairn_implementation list[CRN_MOST_CHOICES];
    uint32_t analytic, count;
    const cairn_op *op = cairn_graph_op(graph, id);
    const cairn_implementation *estimates = cairn_costs_op(costs, id, &analytic);
    CRN_TRY(crn_device_choices(device, graph, id, storage, &choices, &count, err));
    if (count == 0)
        return crn_fail_at(err, CAIRN_EINVAL, op->name,
                           "backend \"%s\" has no implementation of op \"%s\" (%s)",
                           device->backend->name, op->name, cairn_op_kind_name(op->kind));
    for (uint32_t i = 0; i < count; i++)
        list[i] = (cairn_implementation){.name = choices[i].name,
                                         .time_ns = estimates[CRN_MIN(i, analytic - 1)].time_ns,
                                         .workspace_bytes = choices[i].workspace};
    return cairn_costs_set_op(costs, id, list, count);
}

static cairn_status bind_all(cairn_device *device, const cairn_graph *graph, crn_arena *scratch,
                             cairn_costs *costs, cairn_error *err) {
    crn_storage *storage;
    CRN_TAKE(scratch, storage, cairn_graph_tensor_count(graph));
    CRN_TRY(crn_device_store(device, graph, storage, err));
    for (cairn_id t = 0; t < cairn_graph_tensor_count(graph); t++) {
        cairn_costs_set_bytes(costs, t, storage[t].bytes);
        crn_costs_set_unread(costs, t, storage[t].unread);
    }
    crn_costs_set_copy_slowdown(costs, device->backend->copy_slowdown);
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        CRN_TRY(bind_op(device, graph, storage, costs, o, err));
        if (device->backend->fused_before != NULL)
            crn_costs_set_fused(costs, o, device->backend->fused_before(graph, o));
    }
    return CAIRN_OK;
}

cairn_status cairn_bind(const cairn_graph *graph, cairn_device *device, cairn_costs **out,
                        cairn_error *err) {
    crn_arena scratch;
    cairn_allocator allocator = crn_graph_allocator(graph);
    cairn_costs *costs;
    *out = NULL;
    crn_error_clear(err);
    CRN_TRY(cairn_costs_analytic(graph, &device->machine, &costs, err));
    crn_arena_init(&scratch, &allocator);
    cairn_status status = bind_all(device, graph, &scratch, costs, err);
    crn_arena_release(&scratch);
    if (status != CAIRN_OK) {
        cairn_costs_destroy(costs);
        return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
    }
    *out = costs;
    return CAIRN_OK;
}
