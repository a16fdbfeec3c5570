/* offload_network.c: which tensors of a network may be offloaded, and how much memory its ops have.
 * See offload_network.h. */
#include "solve/offload/offload_network.h"

#include "cairn/sim.h"

#include <stdlib.h>

/* ---- The profile ---- */

static cairn_status read_profile(crn_trips *trips, const cairn_plan *plan, const cairn_sim *sim) {
    uint64_t *memory;
    const cairn_step *list = plan->steps;
    uint32_t steps = plan->step_count;
    const cairn_sim_step *done = sim->steps;
    CRN_TAKE(trips->problem->scratch, memory, trips->ops);
    for (uint32_t s = 0; s < steps; s++)
        if (list[s].kind == CAIRN_STEP_RUN)
            memory[list[s].id] = done[s].bytes;
    trips->memory = memory;
    trips->peak = sim->summary->peak_bytes;
    return CAIRN_OK;
}

/* The memory in use during every op of the plan `none`. */
static cairn_status find_profile(crn_trips *trips) {
    const crn_problem *p = trips->problem;
    crn_schedule all = {0};
    cairn_plan *plan = NULL;
    cairn_sim *sim = NULL;
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    options.no_holders = true;
    CRN_TRY(crn_schedule_all(&all, p->scratch, p->graph));
    cairn_status status = crn_lower(p->graph, p->costs, &all, CAIRN_GOAL_TRAIN, 0, &plan, p->err);
    if (status == CAIRN_OK)
        status = cairn_simulate(p->graph, p->costs, plan, &options, &sim, p->err);
    if (status == CAIRN_OK)
        status = read_profile(trips, plan, sim);
    cairn_sim_destroy(sim);
    cairn_plan_destroy(plan);
    return status;
}

static cairn_status find_times(crn_trips *trips) {
    int64_t *time, *to_go;
    CRN_TAKE(trips->problem->scratch, time, trips->ops);
    CRN_TAKE(trips->problem->scratch, to_go, trips->ops + 1);
    for (cairn_id o = trips->ops; o-- > 0;) {
        uint32_t count;
        const cairn_implementation *list = cairn_costs_op(trips->problem->costs, o, &count);
        time[o] = count > 0 ? list[0].time_ns : 0;
        to_go[o] = crn_add_time(to_go[o + 1], time[o]);
    }
    trips->time = time;
    trips->to_go = to_go;
    return CAIRN_OK;
}

/* Maxima of the profile over all ranges whose length is a power of two. */
static cairn_status index_maxima(crn_trips *trips) {
    uint32_t levels = 1;
    while ((1u << levels) <= trips->ops)
        levels++;
    CRN_TAKE(trips->problem->scratch, trips->most, levels);
    for (uint32_t l = 0; l < levels; l++) {
        CRN_TAKE(trips->problem->scratch, trips->most[l], trips->ops);
        for (uint32_t k = 0; k + (1u << l) <= trips->ops; k++)
            trips->most[l][k] =
                l == 0 ? trips->memory[k]
                       : CRN_MAX(trips->most[l - 1][k], trips->most[l - 1][k + (1u << (l - 1))]);
    }
    return CAIRN_OK;
}

/* ---- The trips ---- */

/* Storages with aliases are not offloaded: all aliases would have to be offloaded with them. */
static cairn_status find_shared(const crn_trips *trips, bool **out) {
    const cairn_graph *graph = trips->problem->graph;
    uint32_t tensors = cairn_graph_tensor_count(graph);
    CRN_TAKE(trips->problem->scratch, *out, tensors);
    for (cairn_id t = 0; t < tensors; t++) {
        cairn_id root = crn_graph_storage(graph, t);
        if (root != t)
            (*out)[root] = (*out)[t] = true;
    }
    return CAIRN_OK;
}

static bool may_travel(const cairn_tensor *t) {
    return !t->stationary && t->bytes > 0 &&
           (t->role == CAIRN_ROLE_INPUT || t->role == CAIRN_ROLE_ACTIVATION ||
            t->role == CAIRN_ROLE_INTERNAL);
}

/* Fill in when tensor `t` may be away; false where no backward op reads it. */
static bool find_places(const crn_trips *trips, cairn_id t, crn_trip *out) {
    const cairn_graph *graph = trips->problem->graph;
    cairn_id producer = cairn_graph_tensor(graph, t)->producer;
    uint32_t count;
    const cairn_id *readers = crn_graph_readers(graph, t, &count);
    if (producer != CAIRN_NONE && producer >= trips->first_backward)
        return false;
    *out = (crn_trip){.tensor = t, .made = producer == CAIRN_NONE ? 0 : producer + 1};
    out->leaves = out->made;
    out->need = CAIRN_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (readers[i] < trips->first_backward)
            out->leaves = CRN_MAX(out->leaves, readers[i] + 1);
        else
            out->need = CRN_MIN(out->need, readers[i]);
    }
    out->bytes = crn_align(cairn_costs_bytes(trips->problem->costs)[t]);
    out->copy =
        crn_machine_copy_ns(trips->problem->machine, cairn_costs_bytes(trips->problem->costs)[t]);
    return out->need != CAIRN_NONE && out->leaves < out->need && out->bytes > 0;
}

static int compare_made(const void *a, const void *b) {
    const crn_trip *x = a, *y = b;
    if (x->made != y->made)
        return x->made < y->made ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* Tensors that are needed at the same op are fetched in the order in which they were made. */
typedef struct by_need {
    uint32_t need, trip;
} by_need;

static int compare_need(const void *a, const void *b) {
    const by_need *x = a, *y = b;
    if (x->need != y->need)
        return x->need < y->need ? -1 : 1;
    return (x->trip > y->trip) - (x->trip < y->trip);
}

static cairn_status order_trips(crn_trips *trips, crn_trip *list) {
    by_need *order;
    uint32_t *index, *of;
    uint32_t tensors = cairn_graph_tensor_count(trips->problem->graph);
    crn_arena *arena = trips->problem->scratch;
    CRN_TAKE(arena, order, trips->count);
    CRN_TAKE(arena, index, trips->count);
    CRN_TAKE(arena, of, tensors);
    if (trips->count > 0)
        qsort(list, trips->count, sizeof *list, compare_made);
    for (cairn_id t = 0; t < tensors; t++)
        of[t] = CAIRN_NONE;
    for (uint32_t i = 0; i < trips->count; i++) {
        order[i] = (by_need){list[i].need, i};
        of[list[i].tensor] = i;
    }
    if (trips->count > 0)
        qsort(order, trips->count, sizeof *order, compare_need);
    for (uint32_t i = 0; i < trips->count; i++)
        index[i] = order[i].trip;
    trips->list = list;
    trips->by_need = index;
    trips->of = of;
    return CAIRN_OK;
}

static cairn_status find_trips(crn_trips *trips) {
    const cairn_graph *graph = trips->problem->graph;
    uint32_t tensors = cairn_graph_tensor_count(graph);
    crn_trip *list;
    bool *shared;
    CRN_TAKE(trips->problem->scratch, list, tensors);
    CRN_TRY(find_shared(trips, &shared));
    for (cairn_id t = 0; t < tensors; t++)
        if (may_travel(cairn_graph_tensor(graph, t)) && !shared[t] &&
            find_places(trips, t, &list[trips->count]))
            trips->count++;
    return order_trips(trips, list);
}

/* ---- What fits ---- */

/* The memory of every op minus the tensors that may be away (`moved` NULL: all trips). Differences
 * are computed first, modulo 2^64, then their sums. */
static void profile(const crn_trips *trips, const uint8_t *moved, uint64_t *room) {
    memset(room, 0, trips->ops * sizeof *room);
    for (uint32_t i = 0; i < trips->count; i++) {
        if (moved != NULL && !moved[i])
            continue;
        room[trips->list[i].leaves] -= trips->list[i].bytes;
        room[trips->list[i].need] += trips->list[i].bytes;
    }
    uint64_t change = 0;
    for (uint32_t k = 0; k < trips->ops; k++) {
        change += room[k];
        room[k] = trips->memory[k] + change;
    }
}

static uint32_t count_over(const crn_trips *trips, const uint64_t *room, uint64_t budget) {
    uint32_t over = 0;
    for (uint32_t k = 0; k < trips->ops; k++)
        over += room[k] > budget;
    return over;
}

void crn_trips_fit(const crn_trips *trips, uint64_t budget, crn_trip_choice *choice,
                   uint64_t *room) {
    profile(trips, choice->moved, room);
    uint32_t over = count_over(trips, room, budget);
    for (uint32_t i = 0; i < trips->count && over > 0; i++) {
        const crn_trip *trip = &trips->list[i];
        bool wanted = false;
        for (uint32_t k = trip->leaves; k < trip->need && !choice->moved[i] && !wanted; k++)
            wanted = room[k] > budget;
        if (!wanted)
            continue;
        choice->moved[i] = 1;
        for (uint32_t k = trip->leaves; k < trip->need; k++) {
            over -= room[k] > budget && room[k] - trip->bytes <= budget;
            room[k] -= trip->bytes;
        }
    }
}

uint64_t crn_trips_bytes(const crn_trips *trips, const crn_trip_choice *choice) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < trips->count; i++)
        sum += choice->moved[i] ? trips->list[i].bytes : 0;
    return sum;
}

/* If the host cannot hold everything that the floor requires, the floor is raised to the smallest
 * memory for which the host can hold the earliest tensors that fit it. */
static cairn_status find_floor(crn_trips *trips) {
    uint64_t *room, low, high = trips->peak;
    uint64_t host = trips->problem->machine->host_memory_bytes;
    crn_trip_choice choice;
    CRN_TAKE(trips->problem->scratch, room, trips->ops);
    CRN_TRY(crn_trip_choice_make(trips, &choice));
    profile(trips, NULL, room);
    for (uint32_t k = 0; k < trips->ops; k++)
        trips->floor = CRN_MAX(trips->floor, room[k]);
    low = trips->floor;
    while (low <= high) {
        uint64_t middle = low == trips->floor ? low : low + (high - low) / 2;
        memset(choice.moved, 0, trips->count);
        crn_trips_fit(trips, middle, &choice, room);
        if (crn_trips_bytes(trips, &choice) > host) {
            low = middle + 1;
        } else {
            trips->floor = middle;
            if (middle == low)
                break;
            high = middle - 1;
        }
    }
    return CAIRN_OK;
}

cairn_status crn_trip_choice_make(const crn_trips *trips, crn_trip_choice *out) {
    *out = (crn_trip_choice){0};
    CRN_TAKE(trips->problem->scratch, out->moved, trips->count);
    CRN_TAKE(trips->problem->scratch, out->out_at, trips->count);
    CRN_TAKE(trips->problem->scratch, out->in_at, trips->count);
    for (uint32_t i = 0; i < trips->count; i++)
        out->out_at[i] = trips->list[i].made;
    return CAIRN_OK;
}

void crn_trip_choice_copy(const crn_trips *trips, const crn_trip_choice *from,
                          crn_trip_choice *to) {
    memcpy(to->moved, from->moved, trips->count * sizeof *to->moved);
    memcpy(to->out_at, from->out_at, trips->count * sizeof *to->out_at);
    memcpy(to->in_at, from->in_at, trips->count * sizeof *to->in_at);
    to->pushes = from->pushes;
    to->prompt = from->prompt;
    memcpy(to->spare, from->spare, sizeof to->spare);
}

int64_t crn_trips_bound(const crn_trips *trips, uint64_t budget) {
    const cairn_machine *machine = trips->problem->machine;
    if (trips->peak <= budget)
        return trips->to_go[0];
    /* Padding is not copied, at most CRN_ALIGNMENT bytes for each tensor. The 1 is for rounding. */
    cairn_machine link = *machine;
    link.link_latency_ns = 0;
    uint64_t excess = trips->peak - budget, padding = (uint64_t)trips->count * CRN_ALIGNMENT;
    int64_t copy = excess <= padding ? 0 : crn_machine_copy_ns(&link, excess - padding) - 1;
    if (!machine->full_duplex)
        copy = crn_add_time(copy, copy);
    return CRN_MAX(trips->to_go[0], copy);
}

cairn_status crn_trips_build(const crn_problem *problem, crn_trips *out) {
    *out = (crn_trips){.problem = problem, .ops = cairn_graph_op_count(problem->graph)};
    if (problem->machine == NULL)
        return crn_fail(
            problem->err, CAIRN_EINVAL,
            "offloading needs a machine: name one, so that the time of copies is known");
    while (out->first_backward < out->ops &&
           cairn_graph_op(problem->graph, out->first_backward)->phase == CAIRN_PHASE_FORWARD)
        out->first_backward++;
    CRN_TRY(find_profile(out));
    CRN_TRY(find_times(out));
    CRN_TRY(index_maxima(out));
    CRN_TRY(find_trips(out));
    CRN_TRY(find_floor(out));
    return crn_walk_make(out);
}
