/* trips_by_pieces.c: the algorithms of Beaumont et al. on networks. The network becomes a chain of
 * pieces, and the chain becomes a problem of offload.h. The activations that its solution moves
 * stand for the tensors that those pieces keep:
 *
 *     network -> pieces -> x, y, exF, exB, uF, uB -> {x_1, x_4} -> tensors kept by pieces 0 and 3
 *
 * The tensors are then offloaded one by one (offload_network.h), which is not in the model. If
 * the answer leaves an op without memory, or if the problem is infeasible although the network is
 * not, the earliest tensors that help are added. */
#include "solve/offload/trips_by_chain.h"

#define LARGEST_PRODUCT                                                                            \
    ((uint64_t)1 << 56) /* of all times and the bandwidth; crn_offload_check() has a limit */

/* ---- The chain as a problem ---- */

static uint64_t less(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

uint64_t crn_microseconds(uint64_t ns) {
    return ns / 1000 + (ns % 1000 >= 500);
}

/* The bandwidth in bytes per microsecond. It is reduced if times would overflow; such a fast link
 * takes hardly any time anyway. */
static uint64_t bandwidth_of(const cairn_machine *machine, uint64_t all_times) {
    uint64_t rate = (machine->link_bytes_per_second + 500000) / 1000000;
    uint64_t most = LARGEST_PRODUCT / CRN_MAX(all_times, 1);
    return CRN_MAX(CRN_MIN(rate, most), 1);
}

/* The bytes of the input if a backward op reads it, so that it counts as an activation; else 0. */
static uint64_t input_bytes(const crn_problem *p, cairn_id input) {
    uint32_t count;
    if (input == CAIRN_NONE)
        return 0;
    const cairn_id *readers = crn_graph_readers(p->graph, input, &count);
    for (uint32_t i = 0; i < count; i++)
        if (cairn_graph_op(p->graph, readers[i])->phase != CAIRN_PHASE_FORWARD)
            return crn_align(cairn_costs_bytes(p->costs)[input]);
    return 0;
}

cairn_status crn_offload_arrays_take(crn_arena *arena, uint32_t n, crn_offload_arrays *a) {
    CRN_TAKE(arena, a->x, n + 1);
    CRN_TAKE(arena, a->y, n + 1);
    CRN_TAKE(arena, a->forward_extra, n);
    CRN_TAKE(arena, a->backward_extra, n);
    CRN_TAKE(arena, a->forward_time, n);
    CRN_TAKE(arena, a->backward_time, n);
    return CAIRN_OK;
}

static uint64_t fill_arrays(const crn_piece_chain *chain, const crn_offload_arrays *a) {
    uint64_t all = 0;
    for (uint32_t i = 0; i < chain->count; i++)
        a->y[i] = chain->pieces[i].gradient_bytes;
    for (uint32_t i = 0; i < chain->count; i++) {
        const crn_piece_way *way = &chain->pieces[i].ways[0];
        a->x[i + 1] = way->kept;
        a->forward_extra[i] = less(way->forward_peak, way->kept);
        a->backward_extra[i] = less(way->backward_peak, way->kept + a->y[i] + a->y[i + 1]);
        a->forward_time[i] = crn_microseconds((uint64_t)way->forward_time);
        a->backward_time[i] = crn_microseconds((uint64_t)way->backward_time);
        all += a->forward_time[i] + a->backward_time[i];
    }
    return all;
}

cairn_offload_problem crn_offload_arrays_problem(const crn_offload_arrays *a, uint32_t layers,
                                                 const cairn_machine *machine, uint64_t all_times) {
    return (cairn_offload_problem){.layers = layers,
                                   .activations = a->x,
                                   .gradients = a->y,
                                   .forward_extra = a->forward_extra,
                                   .backward_extra = a->backward_extra,
                                   .forward_time = a->forward_time,
                                   .backward_time = a->backward_time,
                                   .bandwidth = bandwidth_of(machine, all_times)};
}

cairn_status crn_pieces_problem_build(const crn_problem *problem, const cairn_chain_view *view,
                                      crn_pieces_problem *out) {
    crn_offload_arrays a = {0};
    *out = (crn_pieces_problem){0};
    CRN_TRY(crn_network_pieces_keep(problem, view, &out->network));
    CRN_TRY(crn_piece_check(&out->network.chain, problem->err));
    CRN_TRY(crn_offload_arrays_take(problem->scratch, view->piece_count, &a));
    uint64_t all_times = fill_arrays(&out->network.chain, &a);
    a.x[0] = input_bytes(problem, view->cuts[0]);
    out->constant = less(out->network.always, a.x[0]);
    out->problem = crn_offload_arrays_problem(&a, view->piece_count, problem->machine, all_times);
    return CAIRN_OK;
}

/* ---- Choosing ---- */

const char *crn_pieces_algorithm(uint32_t index) {
    static const char *const names[] = {"offload-greedy", "offload-dynprog", "vdnn", "tflms",
                                        "autoswap"};
    return index < CRN_LENGTH(names) ? names[index] : NULL;
}

static void move_tensor(const crn_trips *trips, cairn_id tensor, crn_trip_choice *choice) {
    if (tensor != CAIRN_NONE && trips->of[tensor] != CAIRN_NONE)
        choice->moved[trips->of[tensor]] = 1;
}

/* Activation 0 is the input; activation i is what piece i - 1 keeps. */
static void move_activation(const crn_pieces_problem *chain, const crn_trips *trips, uint32_t i,
                            crn_trip_choice *choice) {
    move_tensor(trips, chain->network.view->cuts[i], choice);
    if (i == 0)
        return;
    const crn_backward *back = &chain->network.ways[i - 1][0];
    for (uint32_t k = 0; k < back->kept_count; k++)
        move_tensor(trips, back->kept[k], choice);
}

/* A choice that the host cannot hold is dropped; the earliest tensors are used instead. */
void crn_complete_choice(const crn_trips *trips, uint64_t budget, crn_trip_choice *choice,
                         uint64_t *room) {
    crn_trips_fit(trips, budget, choice, room);
    if (crn_trips_bytes(trips, choice) <= trips->problem->machine->host_memory_bytes)
        return;
    memset(choice->moved, 0, trips->count);
    crn_trips_fit(trips, budget, choice, room);
}

cairn_status crn_offload_solve_within(const crn_trips *trips, const cairn_offload_problem *chain,
                                      const char *name, uint64_t memory,
                                      cairn_offload_solution **out) {
    cairn_offload_problem problem = *chain;
    cairn_offload_bounds bounds;
    cairn_error *err = trips->problem->err;
    const cairn_allocator *allocator = &trips->problem->scratch->allocator;
    CRN_TRY(cairn_offload_bound(allocator, &problem, &bounds, err));
    problem.memory = CRN_MAX(CRN_MIN(memory, bounds.peak_memory), bounds.min_memory);
    return cairn_offload_solve(allocator, &problem, name, NULL, out, err);
}

cairn_status crn_choose_by_pieces(const crn_pieces_problem *chain, const crn_trips *trips,
                                  const char *name, uint64_t budget, crn_trip_choice *choice,
                                  uint64_t *room) {
    cairn_offload_solution *solution;
    CRN_TRY(crn_offload_solve_within(trips, &chain->problem, name, less(budget, chain->constant),
                                     &solution));
    for (uint32_t k = 0; k < solution->transfer_count; k++)
        move_activation(chain, trips, solution->transfers[k].activation, choice);
    cairn_offload_solution_destroy(solution);
    crn_complete_choice(trips, budget, choice, room);
    return CAIRN_OK;
}
