/* solve_homes.c: how much of what is stationary is at home on the host.
 *
 *     device   | stationary, at home here        | what the plan controls, visits included |
 *     host     | slots, largest first | parameters, largest first | ...
 *              0 ... level ... LEVELS           the first tensors of this list are at home there
 *
 * For a level, an op that uses tensors of the host is given their bytes as workspace. A plan that
 * the algorithm then makes has room for one visit at a time, and place_homes.c makes the visits as
 * long as the memory allows. The least level that fits is found by bisection, and higher ones are
 * tried while they are faster: they copy more, and recompute less.
 *
 * The bound holds for any set of homes. With h bytes at home on the host, a step takes at least as
 * long as fetching h bytes once, and as a plan in the memory that the others leave. The one rises
 * with h and the other falls. */
#include "solve/solve_homes.h"

#include "solve/place_homes.h"
#include "solve/solution.h"

#include <stdlib.h>

#define LEVELS 4
#define LEAST_BYTES ((uint64_t)64 << 10) /* a smaller tensor is not worth a copy */
#define MOST_ROUNDS 6                    /* of one level, while the arena is too large */
#define GOOD_ENOUGH 10000                /* ppm above the bound */

typedef struct search {
    const cairn_graph *graph;
    const cairn_costs *costs;
    const char *algorithm;
    cairn_solve_options options; /* for the memory that a plan controls */
    uint64_t limit, stationary;  /* of everything on the device; all that is stationary */
    uint64_t movable;            /* of it, all that can be at home on the host at all */
    cairn_id *order;             /* the list of the picture */
    uint32_t count;
    uint32_t first_of[LEVELS + 1]; /* per level: how many are on the host */
    uint64_t bytes_of[LEVELS + 1]; /* per level: their bytes */
    bool *on_host;
    int64_t bounds[LEVELS + 1]; /* per level: of plans in its memory; 0: not known */
    crn_arena *scratch;
    cairn_error *err;
} search;

/* ---- Levels ---- */

static bool is_movable(const cairn_tensor *tensor) {
    return tensor->role == CAIRN_ROLE_PARAMETER || tensor->role == CAIRN_ROLE_SLOT;
}

typedef struct candidate {
    cairn_id tensor;
    bool parameter;
    uint64_t bytes;
} candidate;

static int compare_candidates(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->parameter != y->parameter)
        return x->parameter ? 1 : -1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* Mark the tensors that some op uses. Others need not be on the device, and are left as they are.
 */
static void mark_used(const search *s, bool *used) {
    for (cairn_id o = 0; o < cairn_graph_op_count(s->graph); o++) {
        const cairn_op *op = cairn_graph_op(s->graph, o);
        for (uint32_t i = 0; i < op->param_count; i++)
            used[op->params[i]] = true;
    }
}

static cairn_status list_candidates(search *s) {
    uint32_t tensors = cairn_graph_tensor_count(s->graph);
    candidate *list;
    bool *used;
    CRN_TAKE(s->scratch, list, tensors);
    CRN_TAKE(s->scratch, used, tensors);
    CRN_TAKE(s->scratch, s->order, tensors);
    CRN_TAKE(s->scratch, s->on_host, tensors);
    mark_used(s, used);
    for (cairn_id t = 0; t < tensors; t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(s->graph, t);
        uint64_t bytes = crn_align(cairn_costs_bytes(s->costs, t));
        if (!is_movable(tensor))
            continue;
        s->movable += bytes;
        if (used[t] && bytes >= LEAST_BYTES)
            list[s->count++] = (candidate){t, tensor->role == CAIRN_ROLE_PARAMETER, bytes};
    }
    if (s->count > 0)
        qsort(list, s->count, sizeof *list, compare_candidates);
    uint64_t all = 0, sum = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        s->order[i] = list[i].tensor;
        all += list[i].bytes;
    }
    uint32_t next = 0;
    for (uint32_t level = 0; level <= LEVELS; level++) {
        while (next < s->count && sum < all / LEVELS * level)
            sum += list[next++].bytes;
        if (level == LEVELS)
            for (; next < s->count; next++)
                sum += list[next].bytes;
        s->first_of[level] = next;
        s->bytes_of[level] = sum;
    }
    return CAIRN_OK;
}

/* The memory that a level leaves for a plan; 0: none. */
static uint64_t room_of(const search *s, uint64_t on_host) {
    uint64_t stays = s->stationary - on_host;
    return s->limit > stays ? s->limit - stays : 0;
}

/* ---- One level ---- */

/* The bytes of what an op uses of the host. */
static uint64_t visited_by(const search *s, const cairn_op *op) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < op->param_count; i++)
        if (s->on_host[op->params[i]])
            bytes += crn_align(cairn_costs_bytes(s->costs, op->params[i]));
    return bytes;
}

/* Costs in which an op has what it visits as workspace. */
static cairn_status add_visits(const search *s, cairn_costs *costs) {
    cairn_costs_set_copy_slowdown(costs, cairn_costs_copy_slowdown(s->costs));
    for (cairn_id t = 0; t < cairn_graph_tensor_count(s->graph); t++)
        cairn_costs_set_bytes(costs, t, cairn_costs_bytes(s->costs, t));
    for (cairn_id o = 0; o < cairn_graph_op_count(s->graph); o++) {
        uint32_t count;
        const cairn_implementation *known = cairn_costs_op(s->costs, o, &count);
        uint64_t more = visited_by(s, cairn_graph_op(s->graph, o));
        cairn_implementation *list;
        CRN_TAKE(s->scratch, list, count);
        for (uint32_t i = 0; i < count; i++) {
            list[i] = known[i];
            list[i].workspace_bytes = crn_align(known[i].workspace_bytes) + more;
        }
        CRN_TRY(cairn_costs_set_op(costs, o, list, count));
        cairn_costs_set_fused(costs, o, cairn_costs_fused(s->costs, o));
        if (count > 0)
            cairn_costs_set_again(costs, o, list[0].time_ns - cairn_costs_again_ns(s->costs, o, 0));
    }
    return CAIRN_OK;
}

/* The plan of a solution with visits, judged. */
static cairn_status visit(const search *s, uint64_t room, const cairn_plan *plan,
                          cairn_solution **out) {
    crn_homes homes = {s->graph, s->costs, s->options.machine, s->on_host, room};
    cairn_plan *visited;
    CRN_TRY(crn_place_homes(&homes, plan, &visited, s->err));
    CRN_TRY(crn_solution_take(s->graph, s->costs, visited, s->options.machine, false,
                              s->options.memo, out, s->err));
    cairn_plan_header header = *cairn_plan_get_header((*out)->plan);
    header.predicted_peak_bytes = cairn_sim_result((*out)->sim)->peak_bytes;
    return cairn_plan_set_header((*out)->plan, &header, s->err);
}

/* Solve in `room`, of which `spare` is left for visits that begin early and end late; again with
 * less memory while the arena is larger. */
static cairn_status solve_in(const search *s, const cairn_costs *costs, uint64_t room,
                             uint64_t spare, cairn_solution **out) {
    cairn_solve_options options = s->options;
    uint64_t target = room - spare;
    for (uint32_t round = 0; round < MOST_ROUNDS; round++) {
        cairn_solution *base;
        options.budget_bytes = target;
        CRN_TRY(cairn_solve(s->graph, costs, s->algorithm, &options, &base, s->err));
        cairn_status status = visit(s, target + spare, base->plan, out);
        cairn_solution_destroy(base);
        CRN_TRY(status);
        uint64_t arena = cairn_layout_arena_bytes((*out)->layout);
        if (arena <= room)
            return CAIRN_OK;
        cairn_solution_destroy(*out);
        *out = NULL;
        uint64_t less = (arena - room) * (round + 1);
        target = target > less ? target - less : 1;
    }
    return CAIRN_INFEASIBLE;
}

/* Enough for the visits of one more op. */
static uint64_t spare_for(const search *s) {
    uint64_t most = 0;
    for (cairn_id o = 0; o < cairn_graph_op_count(s->graph); o++)
        most = CRN_MAX(most, visited_by(s, cairn_graph_op(s->graph, o)));
    return most;
}

/* With memory for long visits if there is some, else without. */
static cairn_status solve_both(const search *s, const cairn_costs *costs, uint64_t room,
                               cairn_solution **out) {
    uint64_t spare = spare_for(s);
    if (spare > 0 && spare < room) {
        cairn_status status = solve_in(s, costs, room, spare, out);
        if (status != CAIRN_INFEASIBLE)
            return status;
    }
    return solve_in(s, costs, room, 0, out);
}

/* The best solution of a level; NULL: none fits. */
static cairn_status solve_level(search *s, uint32_t level, cairn_solution **out) {
    uint64_t room = room_of(s, s->bytes_of[level]);
    *out = NULL;
    if (room == 0 && level < LEVELS)
        return CAIRN_OK;
    for (uint32_t i = 0; i < s->count; i++)
        s->on_host[s->order[i]] = i < s->first_of[level];
    cairn_costs *costs;
    CRN_TRY(cairn_costs_create(s->graph, &costs, s->err));
    cairn_status status = add_visits(s, costs);
    if (status == CAIRN_OK)
        status = solve_both(s, costs, CRN_MAX(room, 1), out);
    cairn_costs_destroy(costs);
    return status == CAIRN_INFEASIBLE && level < LEVELS ? CAIRN_OK : status;
}

/* ---- The bound ---- */

/* No plan takes less in the memory of a level; INT64_MAX: none fits. */
static cairn_status bound_of(search *s, uint32_t level, int64_t *out) {
    cairn_solve_options options = s->options;
    /* The last level stands for all that any plan can have on the host. */
    options.budget_bytes = room_of(s, level == LEVELS ? s->movable : s->bytes_of[level]);
    if (s->bounds[level] == 0) {
        cairn_error own;
        s->bounds[level] = INT64_MAX;
        if (options.budget_bytes > 0) {
            cairn_status status =
                cairn_time_bound(s->graph, s->costs, &options, &s->bounds[level], &own);
            if (status == CAIRN_ENOMEM)
                return status;
            if (status != CAIRN_OK)
                s->bounds[level] = INT64_MAX;
        }
    }
    *out = s->bounds[level];
    return CAIRN_OK;
}

static int64_t fetch_time(const search *s, uint32_t level) {
    return s->bytes_of[level] == 0 ? 0
                                   : cairn_machine_copy_ns(s->options.machine, s->bytes_of[level]);
}

/* Between two levels a plan takes at least the fetches of the lower and the time in the memory of
 * the higher one. Find where the one exceeds the other. */
static cairn_status find_bound(search *s, uint32_t levels, int64_t *out) {
    uint32_t low = 0, high = levels; /* from level `high` on, fetches take longer */
    CRN_TRY(bound_of(s, 0, out));
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        int64_t rest;
        CRN_TRY(bound_of(s, middle + 1, &rest));
        if (fetch_time(s, middle) >= rest)
            high = middle;
        else
            low = middle + 1;
    }
    if (levels == 0)
        return CAIRN_OK;
    CRN_TRY(bound_of(s, low, out));
    if (low < levels)
        *out = CRN_MIN(*out, fetch_time(s, low));
    return CAIRN_OK;
}

/* ---- The search ---- */

static int64_t time_of(const cairn_solution *solution) {
    return solution == NULL ? INT64_MAX : cairn_sim_result(solution->sim)->time_ns;
}

/* Keep the faster of two solutions; of two that are equally fast, the one with less on the host. */
static void keep_faster(cairn_solution **best, cairn_solution *other) {
    bool faster = time_of(other) < time_of(*best);
    if (other != NULL && time_of(other) == time_of(*best))
        faster =
            cairn_sim_result(other->sim)->home_bytes < cairn_sim_result((*best)->sim)->home_bytes;
    cairn_solution_destroy(faster ? *best : other);
    *best = faster ? other : *best;
}

static bool is_good(const cairn_solution *solution, int64_t bound) {
    int64_t time = time_of(solution);
    return solution != NULL && (time <= bound || (time - bound) <= bound / (1000000 / GOOD_ENOUGH));
}

/* Nothing fits at level 0. Find the least level that does; without any, the last one says what is
 * missing. */
static cairn_status find_least_level(search *s, uint32_t *level, cairn_solution **best) {
    uint32_t low = 0, high = LEVELS;
    CRN_TRY(solve_level(s, LEVELS, best));
    while (low + 1 < high) {
        uint32_t middle = (low + high) / 2;
        cairn_solution *next;
        CRN_TRY(solve_level(s, middle, &next));
        if (next == NULL)
            low = middle;
        else
            high = middle;
        keep_faster(best, next);
    }
    *level = high;
    return CAIRN_OK;
}

/* From the least level that fits, go up while that is faster. */
static cairn_status search_levels(search *s, int64_t bound, cairn_solution **best) {
    uint32_t level = 0;
    int64_t before = time_of(*best);
    if (*best == NULL)
        CRN_TRY(find_least_level(s, &level, best));
    for (level++; level < LEVELS && !is_good(*best, bound); level++) {
        cairn_solution *next;
        CRN_TRY(solve_level(s, level, &next));
        int64_t time = time_of(next);
        keep_faster(best, next);
        if (time >= before)
            break;
        before = time;
    }
    return CAIRN_OK;
}

static cairn_status refuse(const search *s) {
    cairn_error *err = s->err;
    if (err == NULL || err->smallest_budget == 0)
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
    CRN_TRY(list_candidates(s));
    if (!copies) {
        s->movable = s->bytes_of[LEVELS] = 0;
        s->first_of[LEVELS] = 0;
    }
    cairn_status status = solve_level(s, copies ? 0 : LEVELS, out);
    if (status == CAIRN_OK)
        status = find_bound(s, copies ? LEVELS : 0, &bound);
    if (status == CAIRN_OK && copies && !is_good(*out, bound))
        status = search_levels(s, bound, out);
    if (status == CAIRN_INFEASIBLE)
        return refuse(s);
    CRN_TRY(status);
    (*out)->lower_bound_ns = bound == INT64_MAX ? 0 : CRN_MIN(bound, time_of(*out));
    return CAIRN_OK;
}

cairn_status crn_solve_homes(const cairn_graph *graph, const cairn_costs *costs, const char *name,
                             const cairn_solve_options *options, cairn_solution **out,
                             cairn_error *err) {
    crn_arena scratch;
    cairn_allocator allocator = cairn_graph_allocator(graph);
    search s = {.graph = graph,
                .costs = costs,
                .algorithm = name,
                .options = *options,
                .limit = options->device_bytes,
                .stationary = cairn_stationary_bytes(graph, costs, 0),
                .scratch = &scratch,
                .err = err};
    s.options.device_bytes = 0;
    s.options.start = NULL;
    *out = NULL;
    if (!cairn_graph_has_updates(graph))
        return crn_fail(err, CAIRN_EINVAL,
                        "a limit for everything on the device needs a graph with updates, which "
                        "\"%s\" is not",
                        cairn_graph_name(graph));
    crn_arena_init(&scratch, &allocator);
    cairn_status status = solve_all(&s, out);
    crn_arena_release(&scratch);
    if (status == CAIRN_OK)
        return CAIRN_OK;
    cairn_solution_destroy(*out);
    *out = NULL;
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

cairn_status crn_solve_with_homes(const cairn_graph *graph, const cairn_costs *costs,
                                  const cairn_solve_options *options, cairn_solution **solution,
                                  cairn_error *err) {
    crn_arena scratch;
    cairn_allocator allocator = cairn_graph_allocator(graph);
    search s = {.graph = graph, .costs = costs, .options = *options, .err = err};
    cairn_solution *visited = NULL;
    crn_arena_init(&scratch, &allocator);
    s.on_host = crn_arena_take(&scratch, cairn_graph_tensor_count(graph), sizeof *s.on_host);
    cairn_status status = s.on_host == NULL ? CAIRN_ENOMEM : CAIRN_OK;
    if (status == CAIRN_OK) {
        crn_homes_of_plan(graph, options->homes, s.on_host);
        uint64_t peak = cairn_sim_result((*solution)->sim)->peak_bytes;
        status = visit(&s, CRN_MAX(options->budget_bytes, peak), (*solution)->plan, &visited);
    }
    crn_arena_release(&scratch);
    if (status != CAIRN_OK)
        return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
    cairn_solution_destroy(*solution);
    *solution = visited;
    return CAIRN_OK;
}
