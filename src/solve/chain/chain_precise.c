/* chain_precise.c: least cost among nested schedules (Butt, "precise"), exact, for every budget.
 *
 * C(i,j,m) is the cost to obtain b_i. f_i is resident and not counted in m; b_j is resident and
 * counted.
 *
 *     C(i,i+1,m) = B_i                       if b_i + b_{i+1} fits in m
 *     C(i,j,m)   = min over i < k < j of     F_{i+1} + .. + F_k + C(k,j,m - f_k) + C(i,k,m)
 *                                            if b_j and the sweep F_{i+1} .. F_k fit in m
 *
 *      i          k            j
 *      f_i ~~~~~> f_k          b_j
 *                 [---C(k,j)---]        first, f_k being kept,
 *      [--C(i,k)--]                     then with all the memory again
 *
 * This is the chain of pieces of piece_chain.h without ways that keep tensors: piece a is F_{a+1}
 * and B_a, its leaf recomputes nothing, and "checkpoint j" is k. The cost is a step function of m,
 * so there are no buckets. For long chains it is thinned; a second table that is thinned downwards
 * gives a lower bound.
 *
 * O(N^3 p) time for step functions of p points. */
#include "solve/chain/chain_solve.h"
#include "solve/chain/piece_grid.h"

static crn_piece piece_of(const cairn_chain_problem *problem, uint32_t a) {
    const uint64_t *f = problem->forward_sizes, *b = problem->backward_sizes;
    crn_piece piece = {.input_bytes = f[a], .gradient_bytes = b[a]};
    piece.again.backward_peak = b[a] + b[a + 1];
    piece.again.backward_time = problem->backward_costs[a];
    if (a < problem->layers) {
        piece.forward_time = problem->forward_costs[a + 1];
        piece.discard_peak = f[a + 1];
        piece.pass_peak = f[a] + f[a + 1];
    }
    return piece;
}

#define ALWAYS_EXACT 120u    /* up to this many layers there is no limit on points */
#define MOST_POINTS 1500000u /* of all step functions of a longer chain */

cairn_status crn_chain_nested_solve(crn_chain_job *job, uint64_t budget, uint32_t max_points,
                                    bool downwards, crn_chain_nested *out) {
    const cairn_chain_problem *problem = job->problem;
    if (problem->layers + 1 > CRN_PIECE_MOST)
        return crn_fail(job->err, CAIRN_EINVAL,
                        "the chain has %u layers; this algorithm takes at most %u", problem->layers,
                        CRN_PIECE_MOST - 1);
    uint64_t input = problem->forward_sizes[0];
    crn_piece *pieces;
    CRN_TAKE(job->arena, pieces, problem->layers + 1);
    for (uint32_t a = 0; a <= problem->layers; a++)
        pieces[a] = piece_of(problem, a);
    out->chain = (crn_piece_chain){pieces, problem->layers + 1,
                                   problem->backward_sizes[problem->layers + 1]};
    CRN_TRY(crn_piece_check(&out->chain, job->err));
    crn_piece_options options = {.max_points = max_points, .downwards = downwards};
    if (problem->layers > ALWAYS_EXACT && max_points == 0)
        options.max_total = MOST_POINTS;
    options.memory = budget == UINT64_MAX ? budget : budget > input ? budget - input : 0;
    CRN_TRY(crn_piece_solve(&out->chain, &options, job->arena, &out->table));
    out->gave_up = crn_piece_gave_up(out->table);
    out->floor = out->gave_up ? UINT64_MAX : input + crn_piece_least_memory(out->table);
    return CAIRN_OK;
}

static cairn_status write_nodes(const crn_piece_nodes *nodes, crn_arena *arena,
                                crn_chain_steps *out) {
    for (uint32_t i = 0; i < nodes->length; i++) {
        crn_piece_node node = nodes->data[i];
        if (node.kind == CRN_PIECE_LEAF)
            CRN_TRY(crn_chain_push(arena, out, CAIRN_CHAIN_STEP_BACKWARD, node.first));
        else
            CRN_TRY(crn_chain_sweep(arena, out, node.first, node.choice));
    }
    return CAIRN_OK;
}

cairn_status crn_chain_nested_steps(const crn_chain_nested *nested, uint32_t first, uint32_t last,
                                    uint64_t memory, crn_arena *arena, crn_chain_steps *out) {
    crn_piece_nodes nodes = {0};
    CRN_TRY(crn_piece_schedule(nested->table, first, last, memory, arena, &nodes));
    return write_nodes(&nodes, arena, out);
}

/* A lower bound of the cost of nested schedules within the budget. */
static cairn_status find_lower_bound(crn_chain_job *job, uint32_t max_points, uint64_t memory,
                                     int64_t *out) {
    crn_chain_nested lower;
    CRN_TRY(crn_chain_nested_solve(job, job->budget, max_points, true, &lower));
    *out = crn_curve_at(crn_piece_curve(lower.table), memory);
    return CAIRN_OK;
}

/* ---- Long chains: a grid of memory ---- */

static uint32_t grid_slots(uint32_t layers) {
    uint64_t slots = (uint64_t)120000000 / ((uint64_t)layers * layers);
    return (uint32_t)CRN_MIN(CRN_MAX(slots, 128), 4096);
}

/* Offer the schedule of least memory, which a grid may miss, and add it to the curve. */
static cairn_status offer_least(crn_chain_choice *choice, const crn_chain_nested *floors) {
    crn_arena *arena = choice->job->arena;
    crn_piece_nodes nodes = {0};
    crn_chain_steps steps = {0};
    CRN_TRY(crn_piece_least_schedule(floors->table, arena, &nodes));
    CRN_TRY(write_nodes(&nodes, arena, &steps));
    return crn_chain_offer(choice, &steps);
}

static cairn_status offer_from_grid(crn_chain_choice *choice, const crn_piece_grid *grid,
                                    uint64_t memory) {
    crn_arena *arena = choice->job->arena;
    crn_piece_nodes nodes = {0};
    crn_chain_steps steps = {0};
    int64_t time = 0;
    bool found;
    CRN_TRY(crn_piece_grid_schedule(grid, memory, arena, &nodes, &time, &found));
    if (!found)
        return CAIRN_OK;
    CRN_TRY(write_nodes(&nodes, arena, &steps));
    return crn_chain_offer(choice, &steps);
}

static cairn_status push_curve(crn_chain_job *job, crn_curve curve, crn_chain_answer *answer) {
    uint64_t input = job->problem->forward_sizes[0];
    for (uint32_t i = 0; job->options.curve && i < curve.count; i++)
        CRN_PUSH(job->arena, answer->curve,
                 ((cairn_chain_point){input + curve.points[i].memory, curve.points[i].cost}));
    return CAIRN_OK;
}

cairn_status crn_chain_nested_on_grid(crn_chain_job *job, crn_chain_answer *answer) {
    uint64_t input = job->problem->forward_sizes[0], memory = 0;
    crn_chain_nested floors;
    crn_chain_choice choice;
    crn_piece_grid *grid, *lower;
    crn_curve curve;
    CRN_TRY(crn_chain_nested_solve(job, 0, 0, false, &floors));
    crn_chain_choice_init(&choice, job, answer);
    CRN_TRY(offer_least(&choice, &floors));
    if (job->budget > input)
        memory = job->budget - input;
    if (!answer->feasible && !job->options.curve)
        return CAIRN_OK;
    uint32_t slots = grid_slots(job->problem->layers);
    CRN_TRY(crn_piece_grid_solve(&floors.chain, job->options.curve ? UINT64_MAX : memory, slots,
                                 false, job->arena, &grid));
    CRN_TRY(crn_piece_grid_curve(grid, job->arena, &curve));
    CRN_TRY(push_curve(job, curve, answer));
    if (!answer->feasible)
        return CAIRN_OK;
    CRN_TRY(offer_from_grid(&choice, grid, memory));
    CRN_TRY(crn_piece_grid_solve(&floors.chain, memory, slots, true, job->arena, &lower));
    answer->lower_bound = crn_piece_grid_time(lower, memory);
    answer->bracketed = answer->lower_bound < choice.best.cost;
    return CAIRN_OK;
}

/* ---- The algorithm ---- */

cairn_status crn_chain_precise(crn_chain_job *job, crn_chain_answer *answer) {
    uint32_t max_points = job->options.max_points;
    crn_chain_nested nested;
    uint64_t budget = job->options.curve ? UINT64_MAX : job->budget;
    CRN_TRY(crn_chain_nested_solve(job, budget, max_points, false, &nested));
    if (nested.gave_up)
        return crn_chain_nested_on_grid(job, answer);
    answer->min_budget = nested.floor;
    answer->feasible = nested.floor <= job->budget;
    answer->has_curve = true;
    CRN_TRY(push_curve(job, crn_piece_curve(nested.table), answer));
    if (!answer->feasible)
        return CAIRN_OK;
    uint64_t memory = job->budget - job->problem->forward_sizes[0];
    answer->bracketed = crn_piece_thinned(nested.table);
    if (answer->bracketed)
        CRN_TRY(find_lower_bound(job, max_points, memory, &answer->lower_bound));
    return crn_chain_nested_steps(&nested, 0, job->problem->layers, memory, job->arena,
                                  &answer->steps);
}
