/* trips_by_ops.c: a network as an offloading chain whose layers are its forward ops.
 *
 * Layer i is forward op i with all of its backward ops. A tensor that may be offloaded
 * (offload_network.h) belongs to x_i if op i is its last forward reader: it is away after F_i at
 * the earliest, and back before B_i. Its memory before that, or after its first backward reader,
 * counts as temporary memory of the ops in that time. So the memory of forward ops is exactly that
 * of the network, and that of backward ops at least as large. This chain is finer than the pieces
 * of a chain view: every tensor may be offloaded by itself, and no cut is needed. */
#include "solve/offload/trips_by_chain.h"

/* The layer of every backward op: that of the op it differentiates, but never later than the layer
 * of the op before it, so that layers follow each other. */
static cairn_status find_layers(const crn_trips *trips, uint32_t **out) {
    uint32_t *layer, now = trips->first_backward - 1;
    CRN_TAKE(trips->problem->scratch, layer, trips->ops);
    for (cairn_id o = 0; o < trips->ops; o++) {
        cairn_id of = cairn_graph_op(trips->problem->graph, o)->of;
        if (o >= trips->first_backward && of != CAIRN_NONE)
            now = CRN_MIN(now, of);
        layer[o] = o < trips->first_backward ? o : now;
    }
    *out = layer;
    return CAIRN_OK;
}

/* Find for each trip the x that it belongs to. */
static void place_trips(const crn_trips *trips, const uint32_t *layer, crn_ops_problem *out) {
    for (uint32_t i = 0; i < trips->count; i++) {
        const crn_trip *trip = &trips->list[i];
        uint32_t last_reader = CRN_MAX(trip->leaves, 1) - 1;
        out->layer_of[i] = CRN_MAX(CRN_MAX(last_reader, trip->made), layer[trip->need]);
    }
}

static uint64_t less(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

/* Temporary memory: what an op needs beyond the x that the chain counts for it. */
static void fill_extra(const crn_trips *trips, const uint32_t *layer, const crn_offload_arrays *a) {
    uint64_t *sum =
        a->y; /* x_0 + .. + x_{i+1}; this chain has no y, so the array is cleared below */
    uint64_t before = a->x[0];
    for (uint32_t i = 0; i < trips->first_backward; i++)
        sum[i] = before += a->x[i + 1];
    for (cairn_id o = 0; o < trips->ops; o++) {
        uint64_t extra = less(trips->memory[o], sum[layer[o]]);
        uint64_t *to = o < trips->first_backward ? a->forward_extra : a->backward_extra;
        to[layer[o]] = CRN_MAX(to[layer[o]], extra);
    }
    memset(sum, 0, trips->first_backward * sizeof *sum);
}

static uint64_t fill_times(const crn_trips *trips, const uint32_t *layer,
                           const crn_offload_arrays *a) {
    uint64_t all = 0;
    for (cairn_id o = 0; o < trips->ops; o++) {
        uint64_t *to = o < trips->first_backward ? a->forward_time : a->backward_time;
        to[layer[o]] += (uint64_t)trips->time[o];
    }
    for (uint32_t i = 0; i < trips->first_backward; i++) {
        a->forward_time[i] = crn_microseconds(a->forward_time[i]);
        a->backward_time[i] = crn_microseconds(a->backward_time[i]);
        all += a->forward_time[i] + a->backward_time[i];
    }
    return all;
}

cairn_status crn_ops_problem_build(const crn_trips *trips, crn_ops_problem *out) {
    crn_offload_arrays a = {0};
    uint32_t *layer = NULL, layers = trips->first_backward;
    *out = (crn_ops_problem){0};
    if (layers == 0)
        return crn_fail(trips->problem->err, CAIRN_EINVAL, "the graph has no forward op");
    CRN_TRY(find_layers(trips, &layer));
    CRN_TRY(crn_offload_arrays_take(trips->problem->scratch, layers, &a));
    CRN_TAKE(trips->problem->scratch, out->layer_of, trips->count);
    place_trips(trips, layer, out);
    for (uint32_t i = 0; i < trips->count; i++)
        a.x[out->layer_of[i]] += trips->list[i].bytes;
    fill_extra(trips, layer, &a);
    uint64_t all = fill_times(trips, layer, &a);
    out->problem = crn_offload_arrays_problem(&a, layers, trips->problem->machine, all);
    return CAIRN_OK;
}

cairn_status crn_choose_by_ops(const crn_ops_problem *chain, const crn_trips *trips,
                               const char *name, uint64_t budget, crn_trip_choice *choice,
                               uint64_t *room) {
    cairn_offload_solution *solution;
    bool *goes;
    CRN_TAKE(trips->problem->scratch, goes, chain->problem.layers + 1);
    CRN_TRY(crn_offload_solve_within(trips, &chain->problem, name, budget, &solution));
    for (uint32_t k = 0; k < solution->transfer_count; k++)
        goes[solution->transfers[k].activation] = true;
    cairn_offload_solution_destroy(solution);
    for (uint32_t i = 0; i < trips->count; i++)
        choice->moved[i] = goes[chain->layer_of[i]];
    crn_complete_choice(trips, budget, choice, room);
    return CAIRN_OK;
}
