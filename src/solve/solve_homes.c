/* solve_homes.c: how much of what is stationary is at home on the host.
 *
 *     device   | stationary, at home here        | what the plan controls, visits included |
 *     host     | slots, spread over the step | parameters, spread over the step | ...
 *              0 ... level ... LEVELS           the first tensors of this list are at home there
 *
 * For a level, an op that uses tensors of the host is given their bytes as workspace. A plan that
 * the algorithm then makes has room for one visit at a time, and place_homes.c makes the visits as
 * long as the memory allows. The least level that fits is searched from the least that could, and
 * higher ones are tried while that may be faster: they copy more, and recompute less. */
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"
#include "solve/solve_homes.h"

#include "sim/crn_sim.h"
#include "solve/copy_costs.h"
#include "solve/homes_search.h"
#include "solve/place_homes.h"
#include "solve/solution.h"
#include "solve/solver.h"

#include <stdlib.h>

#define MOST_ROUNDS 6     /* of one level, while the arena is too large */
#define LARGE_ROUNDS 2    /* the same of a large graph, if there is another level */
#define GOOD_ENOUGH 10000 /* ppm above the bound */
#define SHARES 16         /* of the usual work, of which some searches do one */
#define SHORT_SHARES 4    /* the same for the last resort, on a large graph */
#define VISIT_SHARES 16   /* of the room, of which visits of the last resort take from half on */
#define PATIENCE 2        /* levels without a faster plan, after which the search ends */
#define MOST_SPARES 4     /* spare memory is enough for so many visits, or for one */
#define LEAST_WAITS 32    /* of the step: longer visits are not tried for less than this share */
#define LONG_WAITS 8      /* of the step */
#define SMALL 2000u       /* ops: the search for a level does all the work */
#define LARGE 5000u       /* ops: fewer plans are tried */
#define LEAST_GAIN 128 /* of the step: longer visits are tried if waits are at least this share */
#define AMPLE 4        /* times what an op needs */
#define EXCESS_SHARE 8 /* of the memory that an arena lost, more than which is left out */
#define LEVELS CRN_HOME_LEVELS

typedef crn_homes_search search;

static bool is_large(const search *s) {
    return cairn_graph_op_count(s->graph) > LARGE;
}

/* ---- One level ---- */

/* The bytes of what an op uses of the host. */
static uint64_t visited_by(const search *s, const cairn_op *op) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < op->param_count; i++)
        if (s->on_host[op->params[i]])
            bytes += crn_align(cairn_costs_bytes(s->costs)[op->params[i]]);
    return bytes;
}

/* Costs in which an op has what it visits as workspace. */
static cairn_status add_visits(const search *s, cairn_costs **out) {
    uint64_t *more;
    CRN_TAKE(s->scratch, more, cairn_graph_op_count(s->graph));
    for (cairn_id o = 0; o < cairn_graph_op_count(s->graph); o++)
        more[o] = visited_by(s, cairn_graph_op(s->graph, o));
    crn_costs_change change = {.more_workspace = more};
    return crn_costs_copy(s->graph, s->costs, &change, s->scratch, out, s->err);
}

/* The plan of a solution with visits, judged. */
static cairn_status visit(const search *s, uint64_t room, const cairn_plan *plan,
                          cairn_solution **out) {
    crn_homes homes = {s->graph, s->costs, s->options.machine, s->on_host, room};
    cairn_plan *visited;
    CRN_TRY(crn_place_homes(&homes, plan, &visited, s->err));
    CRN_TRY(crn_solution_take(s->graph, s->costs, visited, s->options.machine, false,
                              s->options.memo, out, s->err));
    cairn_solve_options options = s->options;
    options.micro_batches = s->micro_batches;
    CRN_TRY(crn_solution_gather(s->graph, s->costs, &options, *out, s->err));
    cairn_plan_header header = *(*out)->plan->header;
    header.predicted_peak_bytes = (*out)->sim->summary->peak_bytes;
    return cairn_plan_set_header((*out)->plan, &header, s->err);
}

/* The memory of a solution that the limit bounds, without what stays. */
static uint64_t memory_of(const search *s, const cairn_solution *solution) {
    return s->options.live_peak ? solution->sim->summary->peak_bytes
                                : solution->layout->arena_bytes;
}

/* Enough for the visits of some more ops. */
static uint64_t spare_for(const search *s) {
    uint64_t most = 0;
    for (cairn_id o = 0; o < cairn_graph_op_count(s->graph); o++)
        most = CRN_MAX(most, visited_by(s, cairn_graph_op(s->graph, o)));
    return s->spares * most;
}

/* Whether an output takes memory of its own, which ends. */
static bool is_new(const cairn_graph *graph, cairn_id output) {
    bool own = crn_graph_storage(graph, output) == output;
    return own && !cairn_graph_tensor(graph, output)->stationary;
}

/* What an op reads, its workspace, and what it makes if not in place are in memory at once. */
static uint64_t needed_by(const search *s, const cairn_costs *costs, cairn_id op) {
    const cairn_op *at = cairn_graph_op(s->graph, op);
    uint32_t count;
    const cairn_implementation *list = cairn_costs_op(costs, op, &count);
    uint64_t bytes = count > 0 ? list[0].workspace_bytes : 0;
    for (uint32_t i = 1; i < count; i++)
        bytes = CRN_MIN(bytes, list[i].workspace_bytes);
    for (uint32_t i = 0; i < at->input_count; i++) {
        cairn_id storage = crn_graph_storage(s->graph, at->inputs[i]);
        bool seen = cairn_graph_tensor(s->graph, storage)->stationary;
        for (uint32_t k = 0; k < i && !seen; k++)
            seen = crn_graph_storage(s->graph, at->inputs[k]) == storage;
        bytes += seen ? 0 : cairn_costs_bytes(costs)[storage];
    }
    for (uint32_t i = 0; i < at->output_count && at->inplace_count == 0; i++)
        if (is_new(s->graph, at->outputs[i]))
            bytes += cairn_costs_bytes(costs)[at->outputs[i]];
    return bytes;
}

/* Whether each op by itself fits into the room. */
static bool may_fit(const search *s, const cairn_costs *costs, uint64_t room) {
    for (cairn_id o = 0; o < cairn_graph_op_count(s->graph); o++)
        if (needed_by(s, costs, o) > room)
            return false;
    return true;
}

/* Whether a refusal of the same level says that `target` is too little. */
static bool is_refused(const search *s, uint64_t target) {
    const crn_refused_base *r = &s->refused;
    return r->homes > 0 && r->homes == s->on_host_count &&
           (r->any_link || r->share_link == s->share_link) && target < r->err.smallest_budget;
}

/* The plan of a level without its visits, within `target`. Only the plan with visits is laid out;
 * and copies of activations would wait for those of visits. */
static cairn_status solve_base(search *s, const cairn_costs *costs, uint64_t target,
                               cairn_solution **out) {
    cairn_solve_options options = s->options;
    options.budget_bytes = target;
    options.live_peak |= s->on_host_count > 0;
    options.no_offload |= s->on_host_count > 0 && !s->share_link;
    *out = NULL;
    if (is_refused(s, target)) {
        *s->err = s->refused.err;
        return CAIRN_INFEASIBLE;
    }
    if (is_large(s) && !may_fit(s, costs, target)) { /* to be refused takes long */
        crn_error_clear(s->err);
        return CAIRN_INFEASIBLE;
    }
    cairn_status status =
        crn_solve_round(s->graph, costs, s->algorithm, &options, s->shares, out, s->err);
    if (status == CAIRN_INFEASIBLE)
        s->refused = (crn_refused_base){s->on_host_count, s->share_link, false, *s->err};
    return status;
}

/* A share of the room: `target` for the plan, `spare` for visits that begin early and end late. */
typedef struct share {
    uint64_t target, spare;
} share;

/* Take away from the plan or, if visits are shortened, from the spare memory first. Returns whether
 * the plan has less. */
static bool take_away(const search *s, share *at, uint64_t less) {
    uint64_t of_spare = s->shortens ? CRN_MIN(at->spare, less) : 0;
    at->spare -= of_spare;
    less -= of_spare;
    at->target = at->target > less ? at->target - less : 1;
    return less > 0;
}

/* Keep the plan, which other visits may be added to, and the one that was kept last. */
static void keep_base(search *s, uint64_t target, cairn_solution *base) {
    cairn_solution_destroy(s->kept[1].solution);
    s->kept[1] = s->kept[0];
    s->kept[0] = (crn_kept_base){base, s->on_host_count, s->shares, target, s->share_link};
}

/* The kept plan for `target`; NULL: none. */
static crn_kept_base *kept_for(search *s, uint64_t target) {
    for (uint32_t i = 0; i < CRN_LENGTH(s->kept); i++) {
        crn_kept_base *k = &s->kept[i];
        if (k->solution != NULL && k->homes == s->on_host_count && k->shares == s->shares &&
            k->target == target && k->share_link == s->share_link)
            return k;
    }
    return NULL;
}

/* The plan without visits that is kept, or a new one. */
static cairn_status take_base(search *s, const cairn_costs *costs, uint64_t target,
                              cairn_solution **out) {
    crn_kept_base *kept = kept_for(s, target);
    if (kept == NULL)
        return solve_base(s, costs, target, out);
    *out = kept->solution;
    kept->solution = NULL;
    return CAIRN_OK;
}

/* Make the plan without visits, if there is none. If none fits beside the spare memory, it has all.
 */
static cairn_status find_base(search *s, const cairn_costs *costs, share *at,
                              cairn_solution **base) {
    if (*base != NULL)
        return CAIRN_OK;
    cairn_status status = take_base(s, costs, at->target, base);
    if (status != CAIRN_INFEASIBLE || at->spare == 0)
        return status;
    *at = (share){at->target + at->spare, 0};
    return take_base(s, costs, at->target, base);
}

/* The first plan of a level is kept. */
static void end_base(search *s, bool first, uint64_t target, cairn_solution *base) {
    if (first && base != NULL)
        keep_base(s, target, base);
    else
        cairn_solution_destroy(base);
}

/* On a large graph the first plan of a level shows how much memory is lost in the arena; later ones
 * begin with less. */
static void expect_excess(search *s, share *at) {
    bool known = s->excess_homes == s->on_host_count && s->excess_homes > 0;
    if (known && is_large(s) && kept_for(s, at->target) == NULL)
        (void)take_away(s, at, s->excess + s->excess / EXCESS_SHARE);
}

static void note_excess(search *s, uint64_t excess) {
    if (s->excess_homes == s->on_host_count)
        return;
    s->excess_homes = s->on_host_count;
    s->excess = excess;
}

/* Solve in `room`; again with less memory while it is not enough. */
static cairn_status solve_in(search *s, const cairn_costs *costs, uint64_t room,
                             cairn_solution **out) {
    uint64_t spare = spare_for(s);
    share at = spare < room ? (share){room - spare, spare} : (share){room, 0};
    cairn_solution *base = NULL;
    cairn_status status = CAIRN_INFEASIBLE;
    expect_excess(s, &at);
    uint64_t target = at.target;
    for (uint32_t round = 0; round < s->rounds; round++) {
        status = find_base(s, costs, &at, &base);
        if (status == CAIRN_OK)
            status = visit(s, at.target + at.spare, base->plan, out);
        uint64_t memory = status == CAIRN_OK ? memory_of(s, *out) : 0;
        if (memory <= room)
            break;
        s->recomputes = (*out)->sim->summary->rerun_ns > (*out)->sim->summary->idle_ns;
        cairn_solution_destroy(*out);
        *out = NULL;
        status = CAIRN_INFEASIBLE;
        note_excess(s, memory - room);
        uint64_t made_for = at.target;
        if (take_away(s, &at, (memory - room) * (round + 1))) {
            end_base(s, made_for == target, made_for, base);
            base = NULL;
        }
        if (is_large(s) && !s->shortens && at.target < target / 3 * 2)
            break; /* it would recompute more than longer visits gain */
    }
    end_base(s, at.target == target, at.target, base);
    return status;
}

static int64_t time_of(const cairn_solution *solution) {
    return solution == NULL ? INT64_MAX : crn_solution_time(solution);
}

/* Keep the faster of two solutions; of two that are equally fast, the one with less on the host. */
static void keep_faster(cairn_solution **best, cairn_solution *other) {
    bool faster = time_of(other) < time_of(*best);
    if (other != NULL && time_of(other) == time_of(*best))
        faster = other->sim->summary->home_bytes < (*best)->sim->summary->home_bytes;
    cairn_solution_destroy(faster ? *best : other);
    *best = faster ? other : *best;
}

/* Keep a solution that is within the room and faster. */
static void keep_within(const search *s, uint64_t room, cairn_solution **best,
                        cairn_solution *other) {
    if (memory_of(s, other) <= room)
        keep_faster(best, other);
    else
        cairn_solution_destroy(other);
}

/* A plan with visits that last no longer than their op, or with longer ones that take a share of
 * the room: the fastest that is within the room; NULL: none is. What an op needs beyond its share
 * does not matter, and a smaller share leaves fewer holes in the arena. */
static cairn_status visit_within(const search *s, uint64_t room, const cairn_plan *plan,
                                 cairn_solution **out) {
    cairn_solution *next;
    CRN_TRY(visit(s, 0, plan, &next));
    keep_within(s, room, out, next);
    for (uint32_t k = VISIT_SHARES - 1; k >= VISIT_SHARES / 2; k--) {
        CRN_TRY(visit(s, room / VISIT_SHARES * k, plan, &next));
        keep_within(s, room, out, next);
    }
    return CAIRN_OK;
}

/* The plan for `budget` bytes in which what an op visits is workspace, with its visits; NULL: its
 * layout is larger than the room. */
static cairn_status solve_short(const search *s, const cairn_costs *costs, uint64_t budget,
                                uint64_t room, uint32_t shares, cairn_solution **out) {
    cairn_solve_options options = s->options;
    cairn_solution *base;
    options.budget_bytes = budget;
    CRN_TRY(crn_solve_round(s->graph, costs, s->algorithm, &options, shares, &base, s->err));
    cairn_status status = visit_within(s, room, base->plan, out);
    cairn_solution_destroy(base);
    return status;
}

/* The last resort: a plan for the whole room, then for the least memory, and at last the plan that
 * is known to fit. It is always the same, so only the first call gives it; later ones give
 * NULL. */
static cairn_status solve_strictly(search *s, const cairn_costs *costs, uint64_t room,
                                   cairn_solution **out) {
    const uint64_t budgets[] = {room, room, s->least_base};
    const uint32_t shares[] = {SHORT_SHARES, 1, 1};
    if (s->resorted)
        return CAIRN_OK;
    s->resorted = true;
    for (uint32_t k = is_large(s) ? 0 : 1; k < CRN_LENGTH(budgets); k++) {
        cairn_status status = solve_short(s, costs, budgets[k], room, shares[k], out);
        if (*out != NULL || (status != CAIRN_OK && status != CAIRN_INFEASIBLE))
            return status;
    }
    *out = s->least;
    s->least = NULL;
    return CAIRN_OK;
}

/* Costs in which the first tensors of the list, those of a level, are at home on the host. */
static cairn_status open_level(search *s, uint32_t level, cairn_costs **out) {
    for (uint32_t i = 0; i < s->count; i++)
        s->on_host[s->order[i]] = i < s->first_of[level];
    s->on_host_count = s->first_of[level];
    return add_visits(s, out);
}

/* The plan in the least memory with its visits. Short visits need no more at any moment, but leave
 * more holes in the arena; longer ones are tried if those are too many. */
static cairn_status visit_least(search *s, const cairn_plan *plan) {
    cairn_solution *longer;
    CRN_TRY(visit(s, 0, plan, &s->least));
    if (memory_of(s, s->least) <= s->least_base)
        return CAIRN_OK;
    CRN_TRY(visit(s, s->least_base, plan, &longer));
    bool smaller = memory_of(s, longer) < memory_of(s, s->least);
    cairn_solution_destroy(smaller ? s->least : longer);
    s->least = smaller ? longer : s->least;
    return CAIRN_OK;
}

/* Find the plan in the least memory: all that can be is at home on the host, and activations may be
 * offloaded. It does not depend on the limit. A limit below what it needs is
 * refused, so all refusals name the same smallest budget, and that one is enough. */
static cairn_status find_least(search *s) {
    uint64_t room = crn_homes_room(s, s->bytes_of[LEVELS]);
    char op[sizeof s->err->name];
    cairn_costs *costs;
    cairn_solution *base;
    CRN_TRY(open_level(s, LEVELS, &costs));
    cairn_status status =
        crn_solve_least(s->graph, costs, s->algorithm, &s->options, &base, s->err);
    cairn_costs_destroy(costs);
    CRN_TRY(status);
    crn_copy_string(op, sizeof op, s->err->name);
    s->least_base = memory_of(s, base);
    if (is_large(s)) /* it would hardly find less, and search for long */
        s->refused = (crn_refused_base){
            s->on_host_count, true, true, {.smallest_budget = base->sim->summary->peak_bytes}};
    status = visit_least(s, base->plan);
    cairn_solution_destroy(base);
    CRN_TRY(status);
    crn_copy_string(s->err->name, sizeof s->err->name, op);
    s->err->smallest_budget = memory_of(s, s->least);
    return s->err->smallest_budget <= room ? CAIRN_OK : CAIRN_INFEASIBLE;
}

/* Whether the host has memory for the homes of a level. */
static bool host_holds(search *s, uint32_t level) {
    uint64_t bytes = s->bytes_of[level];
    bool holds = bytes == 0 || bytes <= s->options.machine->host_memory_bytes;
    s->host_full = s->host_full || !holds;
    return holds;
}

/* The best solution of a level; NULL: none fits. */
static cairn_status solve_level(search *s, uint32_t level, cairn_solution **out) {
    uint64_t room = crn_homes_room(s, s->bytes_of[level]);
    *out = NULL;
    if (!host_holds(s, level))
        return level < LEVELS ? CAIRN_OK : CAIRN_INFEASIBLE;
    if (room == 0 && level < LEVELS)
        return CAIRN_OK;
    cairn_costs *costs;
    CRN_TRY(open_level(s, level, &costs));
    cairn_status status = CAIRN_INFEASIBLE;
    if (level == LEVELS || may_fit(s, costs, room))
        status = solve_in(s, costs, CRN_MAX(room, 1), out);
    if (status == CAIRN_INFEASIBLE && level == LEVELS && s->share_link)
        status = solve_strictly(s, costs, CRN_MAX(room, 1), out);
    cairn_costs_destroy(costs);
    return status == CAIRN_INFEASIBLE && level < LEVELS ? CAIRN_OK : status;
}

/* ---- The search ---- */

static bool is_good(const cairn_solution *solution, int64_t bound) {
    int64_t time = time_of(solution);
    return solution != NULL && (time <= bound || (time - bound) <= bound / (1000000 / GOOD_ENOUGH));
}

/* The least level in whose memory some plan could fit, by the bound. */
static cairn_status find_first_level(search *s, uint32_t *out) {
    uint32_t low = 0, high = LEVELS;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        int64_t bound;
        CRN_TRY(crn_homes_bound_of(s, middle, &bound));
        if (bound == INT64_MAX)
            low = middle + 1;
        else
            high = middle;
    }
    *out = low;
    return CAIRN_OK;
}

/* A level that does not fit says how much memory it needs. Levels with less do not fit either,
 * because they visit more. */
static void skip_levels(const search *s, uint32_t *level) {
    uint64_t needed = s->err->smallest_budget;
    while (*level + 1 < LEVELS && crn_homes_room(s, s->bytes_of[*level + 1]) < needed)
        (*level)++;
}

/* Find the least level from `first` on that fits. Without any, the last says what is missing. */
static cairn_status find_level_from(search *s, uint32_t first, uint32_t *level,
                                    cairn_solution **best) {
    cairn_status status = CAIRN_OK;
    for (*level = first;; (*level)++) {
        s->err->smallest_budget = 0;
        s->rounds = is_large(s) && *level < LEVELS ? LARGE_ROUNDS : MOST_ROUNDS;
        status = solve_level(s, *level, best);
        if (status != CAIRN_OK || *best != NULL)
            break;
        skip_levels(s, level);
    }
    s->rounds = MOST_ROUNDS;
    return status;
}

static cairn_status find_least_level(search *s, uint32_t *level, cairn_solution **best) {
    CRN_TRY(find_first_level(s, level));
    return find_level_from(s, CRN_MAX(*level, 1), level, best);
}

/* The same for a large graph: where the first plan of a level does not fit, and recomputes more
 * than it waits for copies, the next level is tried before smaller plans of this one. They are
 * tried only if the plan without visits was faster than what is found there. */
static cairn_status hurry_to_level(search *s, uint32_t *level, cairn_solution **best) {
    cairn_solution *lower;
    CRN_TRY(find_first_level(s, level));
    uint32_t first = *level = CRN_MAX(*level, 1);
    s->rounds = 1;
    s->recomputes = false;
    s->err->smallest_budget = 0;
    cairn_status status = solve_level(s, first, best);
    s->rounds = MOST_ROUNDS;
    if (status != CAIRN_OK || *best != NULL)
        return status;
    bool known = s->err->smallest_budget > 0 && first < LEVELS; /* no plan at all fits there */
    if (known)
        skip_levels(s, level);
    if (!s->recomputes || first == LEVELS)
        return find_level_from(s, *level + known, level, best);
    const cairn_solution *kept = s->kept[0].solution;
    int64_t time = kept == NULL ? INT64_MAX : kept->sim->summary->time_ns;
    CRN_TRY(find_level_from(s, first + 1, level, best));
    if (time >= (*best)->sim->summary->time_ns)
        return CAIRN_OK;
    CRN_TRY(solve_level(s, first, &lower));
    if (time_of(lower) < time_of(*best))
        *level = first;
    keep_faster(best, lower);
    return CAIRN_OK;
}

/* Whether the limit is so far above what any op needs that the plan in the least memory is not
 * needed to tell that it is no refusal. */
static bool is_ample(const search *s) {
    uint64_t most = 0;
    for (cairn_id o = 0; o < cairn_graph_op_count(s->graph); o++) {
        uint64_t bytes = needed_by(s, s->costs, o);
        const cairn_op *op = cairn_graph_op(s->graph, o);
        for (uint32_t i = 0; i < op->param_count; i++)
            bytes += cairn_costs_bytes(s->costs)[op->params[i]];
        most = CRN_MAX(most, bytes);
    }
    return crn_homes_room(s, s->bytes_of[LEVELS]) / AMPLE >= most;
}

/* Nothing fits at level 0. Activations are offloaded only if nothing fits without that. */
static cairn_status start_on_host(search *s, uint32_t *level, cairn_solution **best) {
    bool holds_all = host_holds(s, LEVELS);
    if (holds_all && (!is_large(s) || !is_ample(s)))
        CRN_TRY(find_least(s));
    cairn_status status =
        is_large(s) ? hurry_to_level(s, level, best) : find_least_level(s, level, best);
    if (status != CAIRN_INFEASIBLE || !holds_all)
        return status;
    if (s->least == NULL)
        CRN_TRY(find_least(s));
    s->share_link = true;
    return find_least_level(s, level, best);
}

/* A level, and how much spare memory the plan has there: much makes visits long, and little leaves
 * more for activations. */
typedef struct point {
    uint32_t level, spares;
    bool shortens;
} point;

/* Keep the solution of a point if it is faster; then that is the best point. */
static cairn_status try_point(search *s, point at, cairn_solution **best, point *best_point) {
    int64_t before = time_of(*best);
    cairn_solution *next;
    s->spares = at.spares;
    s->shortens = at.shortens;
    cairn_status status = solve_level(s, at.level, &next);
    if (status != CAIRN_INFEASIBLE) /* then there is none, and the best one stays */
        CRN_TRY(status);
    s->busy = next == NULL ? INT64_MAX : time_of(next) - next->sim->summary->idle_ns;
    keep_faster(best, next);
    if (time_of(*best) < before)
        *best_point = at;
    return CAIRN_OK;
}

/* Whether more on the host may be faster: the step recomputes more than it waits for copies. */
static bool may_gain(const search *s, const cairn_solution *solution, int64_t bound) {
    const cairn_sim_summary *summary = solution->sim->summary;
    int64_t waits = summary->idle_ns, reruns = summary->rerun_ns;
    if (solution->micro_batches > 1) /* the last one is small */
        waits = solution->gather_ns - (summary->compute_ns - s->saved);
    return !is_good(solution, bound) && reruns > waits;
}

/* Whether the last plan would be the fastest if it did not wait for copies. */
static bool waits_too_long(const search *s, const cairn_solution *best) {
    int64_t time = time_of(best);
    return !is_large(s) && s->busy < time - time / LEAST_GAIN;
}

/* From the least level that fits, go up while that is faster. */
static cairn_status climb(search *s, int64_t bound, cairn_solution **best, point *found) {
    *found = (point){0, 1, true};
    s->shares = cairn_graph_op_count(s->graph) > SMALL ? SHARES : 1;
    if (*best == NULL)
        CRN_TRY(start_on_host(s, &found->level, best));
    for (uint32_t level = found->level + 1;
         level <= LEVELS && level <= found->level + PATIENCE && may_gain(s, *best, bound) &&
         crn_homes_step_bound(s, level, 0) < time_of(*best);
         level++) {
        CRN_TRY(try_point(s, (point){level, 1, true}, best, found));
        if (waits_too_long(s, *best)) {
            CRN_TRY(try_point(s, (point){level, 1, false}, best, found));
            CRN_TRY(try_point(s, (point){level, MOST_SPARES, false}, best, found));
        }
    }
    return CAIRN_OK;
}

/* On a large graph, whose higher levels are not tried, one more plan if the step waits long though
 * the link is free for an eighth of it: then there is too little memory for fetches to be early. */
static cairn_status try_next(search *s, cairn_solution **best, point *found) {
    const cairn_sim_summary *summary = (*best)->sim->summary;
    bool waits = summary->idle_ns > summary->time_ns / LONG_WAITS &&
                 summary->copy_in_ns < summary->time_ns / 8 * 7;
    if (!is_large(s) || found->level == LEVELS || !waits)
        return CAIRN_OK;
    return try_point(s, (point){found->level + 1, 1, false}, best, found);
}

/* If the step waits for copies, try longer visits, there and at higher levels. */
static cairn_status lengthen(search *s, int64_t bound, cairn_solution **best, point *found) {
    uint32_t patience = is_large(s) ? 0 : PATIENCE;
    s->shares = SHARES;
    for (uint32_t level = CRN_MAX(found->level, 1);
         level <= LEVELS && level <= found->level + patience && !is_good(*best, bound) &&
         (*best)->sim->summary->idle_ns > (*best)->sim->summary->time_ns / LEAST_WAITS;
         level++) {
        if (level > found->level)
            CRN_TRY(try_point(s, (point){level, 1, true}, best, found));
        int64_t before = time_of(*best);
        CRN_TRY(try_point(s, (point){level, 1, false}, best, found));
        if (!is_large(s) || time_of(*best) < before)
            CRN_TRY(try_point(s, (point){level, MOST_SPARES, false}, best, found));
    }
    return CAIRN_OK;
}

static cairn_status search_levels(search *s, int64_t bound, cairn_solution **best) {
    point found;
    CRN_TRY(climb(s, bound, best, &found));
    CRN_TRY(try_next(s, best, &found));
    return lengthen(s, bound, best, &found);
}

static cairn_status refuse(const search *s) {
    cairn_error *err = s->err;
    if (err->smallest_budget == 0)
        return CAIRN_INFEASIBLE;
    char op[sizeof err->name];
    uint64_t least = err->smallest_budget + (s->stationary - s->bytes_of[LEVELS]);
    crn_copy_string(op, sizeof op, err->name);
    crn_fail_at(err, CAIRN_INFEASIBLE, op,
                "\"%s\" cannot fit \"%s\" into %llu bytes of device memory; the smallest possible "
                "budget is %llu bytes, set by op \"%s\"",
                s->algorithm, cairn_graph_name(s->graph), (unsigned long long)s->limit,
                (unsigned long long)least, op);
    err->smallest_budget = least;
    return CAIRN_INFEASIBLE;
}

/* Without copies everything stays on the device: there is only level 0, which is then the last. */
static cairn_status solve_all(search *s, cairn_solution **out) {
    bool copies = s->options.machine != NULL && !s->options.no_offload;
    int64_t bound;
    CRN_TRY(crn_homes_list(s));
    if (!copies) {
        s->movable = s->bytes_of[LEVELS] = 0;
        s->first_of[LEVELS] = 0;
    }
    CRN_TRY(crn_homes_find_bound(s, copies ? LEVELS : 0, &bound));
    cairn_status status = CAIRN_OK;
    if (!copies || s->bounds[0] != INT64_MAX)
        status = solve_level(s, copies ? 0 : LEVELS, out);
    if (status == CAIRN_OK && copies && !is_good(*out, bound))
        status = search_levels(s, bound, out);
    if (status == CAIRN_INFEASIBLE)
        return refuse(s);
    CRN_TRY(status);
    (*out)->lower_bound_ns = bound == INT64_MAX ? 0 : CRN_MIN(bound, time_of(*out));
    return CAIRN_OK;
}

/* Nothing fits because of the host: say how much memory it would have to have. */
static cairn_status refuse_host(const search *s, const cairn_solve_options *given) {
    cairn_machine larger = *given->machine;
    cairn_solve_options options = *given;
    cairn_solution *solution;
    larger.host_memory_bytes = UINT64_MAX;
    options.machine = &larger;
    CRN_TRY(crn_solve_homes(s->graph, s->costs, s->algorithm, &options, &solution, s->err));
    uint64_t homes = solution->sim->summary->host_bytes;
    cairn_solution_destroy(solution);
    return crn_fail(
        s->err, CAIRN_INFEASIBLE,
        "\"%s\" cannot fit \"%s\" into %llu bytes of device memory: parameters and what "
        "the optimiser keeps would take %llu bytes of host memory, and the host has "
        "%llu",
        s->algorithm, cairn_graph_name(s->graph), (unsigned long long)given->device_bytes,
        (unsigned long long)homes, (unsigned long long)given->machine->host_memory_bytes);
}

cairn_status crn_solve_homes(const cairn_graph *graph, const cairn_costs *costs, const char *name,
                             const cairn_solve_options *options, cairn_solution **out,
                             cairn_error *err) {
    crn_arena scratch;
    cairn_error own = {0};
    cairn_allocator allocator = crn_graph_allocator(graph);
    search s = {.graph = graph,
                .costs = costs,
                .algorithm = name,
                .options = *options,
                .limit = options->device_bytes,
                .stationary = cairn_stationary_bytes(graph, costs, 0),
                .micro_batches = CRN_MAX(options->micro_batches, 1),
                .saved = crn_sim_gather_saves(graph, costs),
                .spares = 1,
                .shortens = true,
                .shares = 1,
                .rounds = MOST_ROUNDS,
                .scratch = &scratch,
                .err = err != NULL ? err : &own};
    s.options.device_bytes = 0;
    s.options.micro_batches = 0;
    s.options.start = NULL;
    *out = NULL;
    if (!crn_graph_has_updates(graph))
        return crn_fail(err, CAIRN_EINVAL,
                        "a limit for everything on the device needs a graph with updates, which "
                        "\"%s\" is not",
                        cairn_graph_name(graph));
    crn_arena_init(&scratch, &allocator);
    cairn_status status = solve_all(&s, out);
    cairn_solution_destroy(s.least);
    cairn_solution_destroy(s.kept[0].solution);
    cairn_solution_destroy(s.kept[1].solution);
    crn_arena_release(&scratch);
    if (status == CAIRN_OK)
        return CAIRN_OK;
    cairn_solution_destroy(*out);
    *out = NULL;
    if (status == CAIRN_INFEASIBLE && s.host_full)
        status = refuse_host(&s, options);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

cairn_status crn_solve_with_homes(const cairn_graph *graph, const cairn_costs *costs,
                                  const cairn_solve_options *options, cairn_solution **solution,
                                  cairn_error *err) {
    crn_arena scratch;
    cairn_allocator allocator = crn_graph_allocator(graph);
    search s = {
        .graph = graph, .costs = costs, .options = *options, .micro_batches = 1, .err = err};
    cairn_solution *visited = NULL;
    crn_arena_init(&scratch, &allocator);
    s.on_host = crn_arena_take(&scratch, cairn_graph_tensor_count(graph), sizeof *s.on_host);
    cairn_status status = s.on_host == NULL ? CAIRN_ENOMEM : CAIRN_OK;
    if (status == CAIRN_OK) {
        crn_homes_of_plan(graph, options->homes, s.on_host);
        uint64_t peak = (*solution)->sim->summary->peak_bytes;
        status = visit(&s, CRN_MAX(options->budget_bytes, peak), (*solution)->plan, &visited);
    }
    crn_arena_release(&scratch);
    if (status != CAIRN_OK)
        return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
    cairn_solution_destroy(*solution);
    *solution = visited;
    return CAIRN_OK;
}
