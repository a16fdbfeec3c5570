/* precise.c: least time under a budget on the chain of a network, by the recurrence of
 * piece_chain.h (Butt's thesis, corrected and extended to pieces of real networks).
 *
 * The answer is exact, unless the chain is long or its step functions have too many points; then
 * they are thinned. If the budget is too small for the chain, the result is the schedule of least
 * memory, and the dispatcher reports what that needs. A table also answers for less memory, so it
 * is kept for the rounds in which the dispatcher asks for less.
 *
 * With a uniform cost model the recurrence uses averages over the pieces, and each piece either
 * keeps everything that is read or is recomputed. Its prediction of what a schedule needs is then
 * not accurate. So schedules along its whole curve are measured with the real costs. The fastest
 * one that fits the budget is taken, or the smallest one if none fits. */
#include "solve/chain/network_pieces.h"
#include "solve/chain/precise.h"

#define MOST_POINTS 512u      /* of a step function, if thinned; fewer on long chains: */
#define MOST_WORK 65536u      /* points times pieces, */
#define LEAST_POINTS 32u      /* but not fewer than this, */
#define START_SHARE 2u        /* except for a start, which needs only some of them */
#define MOST_TOTAL (1u << 24) /* points of all step functions together, if not thinned */
#define LONG_CHAIN 128u       /* pieces */
#define SHORT_RANGE 64u       /* see `longest` in piece_chain.h */
#define MOST_TRIES 64u        /* schedules measured with a uniform cost model */

/* Kept from round to round, in the problem's scratch arena. */
typedef struct rounds {
    crn_network_pieces network;
    crn_piece_options options; /* of the table */
    crn_piece_table *table;    /* or NULL */
} rounds;

static uint32_t most_points(const crn_problem *problem, const crn_piece_chain *chain) {
    uint32_t points = CRN_MAX(CRN_MIN(MOST_POINTS, MOST_WORK / chain->count), LEAST_POINTS);
    return problem->for_start ? points / START_SHARE : points;
}

/* ---- Precise costs ---- */

static crn_piece_options first_options(const crn_problem *problem, const crn_piece_chain *chain,
                                       uint64_t memory) {
    if (chain->count <= LONG_CHAIN)
        return (crn_piece_options){.memory = memory, .whole = true, .max_total = MOST_TOTAL};
    return (crn_piece_options){
        .memory = memory, .max_points = most_points(problem, chain), .longest = SHORT_RANGE};
}

/* A schedule within `memory`, or the one of least memory. `nodes` stays empty if the table is not
 * accurate enough; r->options are then those for a better one. */
static cairn_status try_table(const crn_problem *problem, rounds *r, uint64_t memory,
                              crn_piece_nodes *nodes) {
    const crn_piece_chain *chain = &r->network.chain;
    if (crn_piece_gave_up(r->table)) {
        r->options =
            (crn_piece_options){.memory = memory, .max_points = most_points(problem, chain)};
        return CAIRN_OK;
    }
    memory = CRN_MAX(memory, crn_piece_least_memory(r->table));
    if (r->options.memory < memory) {
        r->options.memory = memory;
        return CAIRN_OK;
    }
    CRN_TRY(crn_piece_schedule(r->table, 0, chain->count - 1, memory, problem->scratch, nodes));
    r->options.longest *= 4;
    return CAIRN_OK;
}

static cairn_status solve_precisely(const crn_problem *problem, rounds *r, crn_schedule *schedule) {
    crn_piece_nodes nodes = {0};
    uint64_t always = r->network.always;
    uint64_t memory = problem->budget > always ? problem->budget - always : 0;
    if (r->table == NULL)
        r->options = first_options(problem, &r->network.chain, memory);
    while (nodes.length == 0) {
        if (r->table == NULL)
            CRN_TRY(crn_piece_solve(&r->network.chain, &r->options, problem->scratch, &r->table));
        CRN_TRY(try_table(problem, r, memory, &nodes));
        if (nodes.length == 0)
            r->table = NULL;
    }
    return crn_network_pieces_expand(&r->network, &nodes, schedule);
}

/* ---- Uniform costs ---- */

/* Replace one figure of all pieces by its average. */
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
    for (uint32_t i = 0; i < count; i++) /* every way keeps at least the output */
        ways[i].kept = CRN_MAX(ways[i].kept, pieces[i].input_bytes);
}

static cairn_status make_uniform(const crn_problem *problem, const crn_network_pieces *network,
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
    if (problem->cost_model != CAIRN_COST_MODEL_UNIFORM_MEMORY)
        average_times(pieces, ways, count);
    if (problem->cost_model != CAIRN_COST_MODEL_UNIFORM_TIME)
        average_memory(pieces, ways, count);
    *out = (crn_piece_chain){pieces, count, 0};
    return CAIRN_OK;
}

/* Measure a schedule with the real costs. */
static cairn_status measure(const crn_problem *problem, const crn_schedule *schedule,
                            crn_part_cost *out) {
    crn_part part = {.decisions = schedule->decisions.data, .count = schedule->decisions.length};
    uint32_t tensors = cairn_graph_tensor_count(problem->graph);
    cairn_id *given;
    crn_lower_tables tables;
    crn_arena scratch;
    CRN_TAKE(problem->scratch, given, tensors);
    CRN_TRY(crn_lower_tables_make(problem->graph, problem->scratch, &tables));
    for (cairn_id t = 0; t < tensors; t++) {
        cairn_role role = cairn_graph_tensor(problem->graph, t)->role;
        if (role == CAIRN_ROLE_INPUT || role == CAIRN_ROLE_LABEL)
            given[part.given_count++] = t;
    }
    part.given = given;
    crn_arena_init(&scratch, &problem->scratch->allocator);
    cairn_status status =
        crn_measure_part(problem->graph, problem->costs, &part, &tables, &scratch, out);
    crn_arena_release(&scratch);
    return status;
}

/* `a` is better if it fits and is faster, or if nothing fits and it is smaller. */
static bool is_better(const crn_part_cost *a, const crn_part_cost *b, uint64_t budget) {
    bool fits = a->peak <= budget;
    if (fits != (b->peak <= budget))
        return fits;
    return fits ? a->time < b->time : a->peak < b->peak;
}

static cairn_status solve_uniformly(const crn_problem *problem, const crn_network_pieces *network,
                                    crn_schedule *schedule) {
    crn_piece_chain chain;
    crn_piece_table *table;
    crn_part_cost best = {UINT64_MAX, 0, INT64_MAX};
    CRN_TRY(make_uniform(problem, network, &chain));
    crn_piece_options options = {.memory = UINT64_MAX, .max_points = most_points(problem, &chain)};
    CRN_TRY(crn_piece_solve(&chain, &options, problem->scratch, &table));
    crn_curve curve = crn_piece_curve(table);
    uint32_t stride = curve.count / MOST_TRIES + 1;
    for (uint32_t i = 0; i < curve.count; i += stride) {
        crn_piece_nodes nodes = {0};
        crn_schedule tried = {0};
        crn_part_cost cost;
        CRN_TRY(crn_piece_schedule(table, 0, chain.count - 1, curve.points[i].memory,
                                   problem->scratch, &nodes));
        CRN_TRY(crn_network_pieces_expand(network, &nodes, &tried));
        CRN_TRY(measure(problem, &tried, &cost));
        if (is_better(&cost, &best, problem->budget)) {
            best = cost;
            *schedule = tried;
        }
    }
    return CAIRN_OK;
}

/* Copy the view into the scratch arena as well. */
static cairn_status copy_view(const crn_problem *problem, const cairn_chain_view *view,
                              cairn_chain_view *out) {
    uint32_t ops = cairn_graph_op_count(problem->graph);
    cairn_id *cuts, *first_op;
    uint32_t *piece_of;
    CRN_TAKE(problem->scratch, cuts, view->piece_count);
    CRN_TAKE(problem->scratch, first_op, view->piece_count + 1);
    CRN_TAKE(problem->scratch, piece_of, ops);
    memcpy(cuts, view->cuts, view->piece_count * sizeof *cuts);
    memcpy(first_op, view->first_op, (view->piece_count + 1) * sizeof *first_op);
    memcpy(piece_of, view->piece_of, ops * sizeof *piece_of);
    *out = (cairn_chain_view){view->piece_count, cuts, first_op, piece_of, NULL};
    return CAIRN_OK;
}

static cairn_status start_rounds(const crn_problem *problem, rounds **out) {
    cairn_chain_view *made, *view;
    CRN_TAKE(problem->scratch, *out, 1);
    CRN_TAKE(problem->scratch, view, 1);
    CRN_TRY(cairn_chain_view_create(problem->graph, &made, problem->err));
    cairn_status status = copy_view(problem, made, view);
    cairn_chain_view_destroy(made);
    CRN_TRY(status);
    CRN_TRY(crn_network_pieces_build(problem, view, &(*out)->network));
    return crn_piece_check(&(*out)->network.chain, problem->err);
}

/* ---- Ops that must not be run a second time ---- */

static bool has_never_again(const cairn_graph *graph) {
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        const cairn_op *op = cairn_graph_op(graph, o);
        if (op->phase == CAIRN_PHASE_FORWARD && op->flags & CAIRN_OP_FLAG_NEVER_AGAIN)
            return true;
    }
    return false;
}

/* A piece is recomputed as a whole. If it has such an op, and the op's result is read, the schedule
 * has no legal plan, and the algorithm does not apply. */
static cairn_status check_never_again(const crn_problem *problem, const crn_schedule *schedule) {
    cairn_plan *plan;
    cairn_error broken = {0};
    if (!has_never_again(problem->graph))
        return CAIRN_OK;
    CRN_TRY(crn_lower(problem->graph, problem->costs, schedule, CAIRN_GOAL_TRAIN, 0, &plan,
                      problem->err));
    cairn_status status = cairn_simulate(problem->graph, problem->costs, plan, NULL, NULL, &broken);
    cairn_plan_destroy(plan);
    if (status != CAIRN_EINVAL)
        return status;
    return crn_fail_at(problem->err, CAIRN_EINVAL, broken.name,
                       "\"precise\" does not apply to \"%s\": it recomputes whole pieces, and op "
                       "\"%s\" must not be run again",
                       cairn_graph_name(problem->graph), broken.name);
}

cairn_status crn_solve_precise(const crn_problem *problem, crn_schedule *schedule) {
    rounds *r = *problem->kept;
    if (r == NULL)
        CRN_TRY(start_rounds(problem, &r));
    *problem->kept = r;
    if (problem->cost_model == CAIRN_COST_MODEL_PRECISE)
        CRN_TRY(solve_precisely(problem, r, schedule));
    else
        CRN_TRY(solve_uniformly(problem, &r->network, schedule));
    return check_never_again(problem, schedule);
}
