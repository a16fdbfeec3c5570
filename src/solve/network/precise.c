/* precise.c: least time under a budget on the chain of a network, by the recurrence of
 * piece_chain.h (Butt's thesis, paper 003, mended and carried over to pieces of real networks).
 *
 * If the budget is below what the chain can do, the schedule for the least memory is given, and the
 * dispatcher says what that needs.
 *
 * With a uniform cost model the recurrence sees averages over the pieces, and each piece either
 * keeps all that is read or is run again. What it then thinks that a schedule needs means little,
 * so schedules along its whole curve are measured with the real costs, and the fastest that fits
 * the budget is taken; the smallest of all, if none does. */
#include "solve/network/network_chain.h"

#define MOST_POINTS 512u /* of one step function; see piece_chain.h. Fewer on long chains: */
#define MOST_WORK 65536u /* points times pieces */
#define MOST_TRIES 64u   /* schedules measured with a uniform cost model */

static uint32_t most_points(const crn_piece_chain *chain) {
    return CRN_MAX(CRN_MIN(MOST_POINTS, MOST_WORK / chain->count), 32);
}

/* ---- Precise costs ---- */

static cairn_status solve_precisely(const crn_problem *problem, const crn_network_chain *network,
                                    crn_schedule *schedule) {
    crn_piece_nodes nodes = {0};
    crn_piece_table *table;
    uint64_t memory = problem->budget > network->always ? problem->budget - network->always : 0;
    crn_piece_options options = {.memory = memory, .max_points = most_points(&network->chain)};
    CRN_TRY(crn_piece_solve(&network->chain, &options, problem->scratch, &table));
    uint64_t least = crn_piece_least_memory(table);
    if (memory < least) {
        options.memory = memory = least;
        CRN_TRY(crn_piece_solve(&network->chain, &options, problem->scratch, &table));
    }
    CRN_TRY(
        crn_piece_schedule(table, 0, network->chain.count - 1, memory, problem->scratch, &nodes));
    return crn_network_chain_expand(network, &nodes, schedule);
}

/* ---- Uniform costs ---- */

/* One figure of all pieces becomes their average. */
#define AVERAGE(type, pieces, count, field)                                                        \
    do {                                                                                           \
        uint64_t sum = 0;                                                                          \
        for (uint32_t i = 0; i < (count); i++)                                                     \
            sum += (uint64_t)(pieces)[i].field;                                                    \
        for (uint32_t i = 0; i < (count); i++)                                                     \
            (pieces)[i].field = (type)(sum / (count));                                             \
    } while (0)

static void average_times(crn_piece *pieces, crn_piece_way *ways, uint32_t count) {
    AVERAGE(int64_t, pieces, count, forward_time);
    AVERAGE(int64_t, pieces, count, again.forward_time);
    AVERAGE(int64_t, pieces, count, again.backward_time);
    AVERAGE(int64_t, ways, count, forward_time);
    AVERAGE(int64_t, ways, count, backward_time);
}

static void average_memory(crn_piece *pieces, crn_piece_way *ways, uint32_t count) {
    AVERAGE(uint64_t, pieces, count, input_bytes);
    AVERAGE(uint64_t, pieces, count, gradient_bytes);
    AVERAGE(uint64_t, pieces, count, discard_peak);
    AVERAGE(uint64_t, pieces, count, pass_peak);
    AVERAGE(uint64_t, pieces, count, again.backward_peak);
    AVERAGE(uint64_t, ways, count, forward_peak);
    AVERAGE(uint64_t, ways, count, kept);
    AVERAGE(uint64_t, ways, count, backward_peak);
    for (uint32_t i = 0; i < count; i++) /* an average keeps at least its output */
        ways[i].kept = CRN_MAX(ways[i].kept, pieces[i].input_bytes);
}

static cairn_status make_uniform(const crn_problem *problem, const crn_network_chain *network,
                                 crn_piece_chain *out) {
    uint32_t count = network->chain.count;
    crn_piece *pieces;
    crn_piece_way *ways;
    CRN_TAKE(problem->scratch, pieces, count);
    CRN_TAKE(problem->scratch, ways, count);
    for (uint32_t i = 0; i < count; i++) {
        pieces[i] = network->chain.pieces[i];
        ways[i] = pieces[i].ways[0];
        pieces[i].ways = &ways[i];
        pieces[i].way_count = 1;
    }
    if (problem->cost_model != CAIRN_COSTS_UNIFORM_MEMORY)
        average_times(pieces, ways, count);
    if (problem->cost_model != CAIRN_COSTS_UNIFORM_TIME)
        average_memory(pieces, ways, count);
    *out = (crn_piece_chain){pieces, count, 0};
    return CAIRN_OK;
}

/* What a schedule really needs, by itself. */
static cairn_status measure(const crn_problem *problem, const crn_schedule *schedule,
                            crn_part_cost *out) {
    crn_part part = {.decisions = schedule->decisions.data, .count = schedule->decisions.length};
    uint32_t tensors = cairn_graph_tensor_count(problem->graph);
    cairn_id *given;
    crn_arena scratch;
    CRN_TAKE(problem->scratch, given, tensors);
    for (cairn_id t = 0; t < tensors; t++) {
        cairn_role role = cairn_graph_tensor(problem->graph, t)->role;
        if (role == CAIRN_INPUT || role == CAIRN_LABEL)
            given[part.given_count++] = t;
    }
    part.given = given;
    crn_arena_init(&scratch, &problem->scratch->allocator);
    cairn_status status = crn_measure_part(problem->graph, problem->costs, &part, &scratch, out);
    crn_arena_release(&scratch);
    return status;
}

/* Better: fits and is faster; or nothing fits yet and it is smaller. */
static bool is_better(const crn_part_cost *a, const crn_part_cost *b, uint64_t budget) {
    bool fits = a->peak <= budget;
    if (fits != (b->peak <= budget))
        return fits;
    return fits ? a->time < b->time : a->peak < b->peak;
}

static cairn_status solve_uniformly(const crn_problem *problem, const crn_network_chain *network,
                                    crn_schedule *schedule) {
    crn_piece_chain chain;
    crn_piece_table *table;
    crn_part_cost best = {UINT64_MAX, 0, INT64_MAX};
    CRN_TRY(make_uniform(problem, network, &chain));
    crn_piece_options options = {.memory = UINT64_MAX, .max_points = most_points(&chain)};
    CRN_TRY(crn_piece_solve(&chain, &options, problem->scratch, &table));
    crn_curve curve = crn_piece_curve(table);
    uint32_t stride = curve.count / MOST_TRIES + 1;
    for (uint32_t i = 0; i < curve.count; i += stride) {
        crn_piece_nodes nodes = {0};
        crn_schedule tried = {0};
        crn_part_cost cost;
        CRN_TRY(crn_piece_schedule(table, 0, chain.count - 1, curve.points[i].memory,
                                   problem->scratch, &nodes));
        CRN_TRY(crn_network_chain_expand(network, &nodes, &tried));
        CRN_TRY(measure(problem, &tried, &cost));
        if (is_better(&cost, &best, problem->budget)) {
            best = cost;
            *schedule = tried;
        }
    }
    return CAIRN_OK;
}

static cairn_status solve_chain(const crn_problem *problem, const cairn_chain_view *view,
                                crn_schedule *schedule) {
    crn_network_chain network;
    CRN_TRY(crn_network_chain_build(problem, view, &network));
    CRN_TRY(crn_piece_check(&network.chain, problem->err));
    if (problem->cost_model == CAIRN_COSTS_PRECISE)
        return solve_precisely(problem, &network, schedule);
    return solve_uniformly(problem, &network, schedule);
}

cairn_status crn_solve_precise(const crn_problem *problem, crn_schedule *schedule) {
    cairn_chain_view *view;
    CRN_TRY(cairn_chain_view_create(problem->graph, &view, problem->err));
    cairn_status status = solve_chain(problem, view, schedule);
    cairn_chain_view_destroy(view);
    return status;
}
