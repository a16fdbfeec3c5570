/* solve_homes.c: how much of what is stationary is at home on the host.
 *
 *     device   | stationary, at home here        | what the plan controls, visits included |
 *     host     | slots, spread over the step | parameters, spread over the step | ...
 *              0 ... level ... LEVELS           the first tensors of this list are at home there
 *
 * Over micro-batches, slots that only the last one uses come first, and the sums of gradients after
 * them. What is changed when the step is nearly over comes last.
 *
 * For a level, an op that uses tensors of the host is given their bytes as workspace. A plan that
 * the algorithm then makes has room for one visit at a time, and place_homes.c makes the visits as
 * long as the memory allows. The least level that fits is searched from the least that could, and
 * higher ones are tried while that may be faster: they copy more, and recompute less.
 *
 * The bound holds for any set of homes. With h bytes at home on the host, a step takes at least as
 * long as copying them, and as a plan in the memory that the others leave. The one rises with h and
 * the other falls. */
#include "cairn/papers/bounds.h"
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"
#include "solve/solve_homes.h"

#include "sim/crn_sim.h"
#include "solve/copy_costs.h"
#include "solve/place_homes.h"
#include "solve/solution.h"
#include "solve/solver.h"

#include <stdlib.h>

#define LEVELS 16
#define LEAST_BYTES ((uint64_t)64 << 10) /* a smaller tensor is not worth a copy */
#define SMALL_BYTES ((uint64_t)1 << 20)
#define SCATTER 2654435769u /* 2^32 by the golden ratio: multiples of it are evenly spread */
#define MOST_ROUNDS 6       /* of one level, while the arena is too large */
#define GOOD_ENOUGH 10000   /* ppm above the bound */
#define PARTS 16            /* of the usual work, of which some searches do one */
#define PATIENCE 2          /* levels without a faster plan, after which the search ends */
#define MOST_SPARES 4       /* spare memory is enough for so many visits, or for one */
#define LEAST_WAITS 32      /* of the step: longer visits are not tried for less than this part */
#define SMALL 2000u         /* ops: the search for a level does all the work */
#define LARGE 5000u         /* ops: fewer plans are tried */
#define LATE_PART 16        /* of the step, at its end */

typedef struct search {
    const cairn_graph *graph;
    const cairn_costs *costs;
    const char *algorithm;
    cairn_solve_options options; /* for the memory that a plan controls */
    uint64_t limit, stationary;  /* of everything on the device; all that is stationary */
    uint64_t movable;            /* of it, all that can be at home on the host at all */
    uint64_t unchanged;          /* of that, what no update changes */
    uint32_t micro_batches;      /* of a step, at least 1 */
    uint64_t of_last;            /* of what is movable, what only the last micro-batch uses */
    uint64_t parameters;         /* of what is movable */
    int64_t saved;               /* by updates that only add up gradients */
    int64_t before_updates;      /* no update begins earlier */
    cairn_id *order;             /* the list of the picture */
    uint32_t count;
    uint32_t first_of[LEVELS + 1]; /* per level: how many are on the host */
    uint64_t bytes_of[LEVELS + 1]; /* per level: their bytes */
    bool *on_host;
    uint32_t on_host_count;     /* at the level that is solved */
    bool share_link;            /* activations may be offloaded too, beside visits */
    uint32_t spares;            /* the spare memory, in visits of the op that visits most */
    bool shortens;              /* where the arena is too large, visits become shorter first */
    uint32_t parts;             /* of the work, of which a search does one */
    int64_t bounds[LEVELS + 1]; /* per level: of plans in its memory; 0: not known */
    cairn_solution *least;      /* in the least memory; NULL: not known, or handed out */
    uint64_t least_base;        /* what its plan without visits needs */
    crn_arena *scratch;
    cairn_error *err;
} search;

/* ---- Levels ---- */

static bool is_movable(const cairn_tensor *tensor) {
    return tensor->role == CAIRN_ROLE_PARAMETER || tensor->role == CAIRN_ROLE_SLOT;
}

typedef struct candidate {
    cairn_id tensor;
    bool late;       /* changed when the step is nearly over: nothing would hide its copy home */
    uint32_t copies; /* how often it is copied; the fewest are first on the host */
    bool small;      /* they are the last, because every copy has a latency */
    uint32_t place;  /* scattered, so that the copies of any level are spread over the step */
    uint64_t bytes;
} candidate;

static int compare_candidates(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->late != y->late)
        return x->late ? 1 : -1;
    if (x->copies != y->copies)
        return x->copies > y->copies ? 1 : -1;
    if (x->small != y->small)
        return x->small ? 1 : -1;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* Mark the tensors that some op uses, and those that an update changes. Others need not be on the
 * device, and are left as they are. */
static void mark_used(const search *s, bool *used, bool *changed) {
    for (cairn_id o = 0; o < cairn_graph_op_count(s->graph); o++) {
        const cairn_op *op = cairn_graph_op(s->graph, o);
        for (uint32_t i = 0; i < op->param_count; i++) {
            used[op->params[i]] = true;
            changed[op->params[i]] |= crn_op_updates(op);
        }
    }
}

static int64_t least_time(const search *s, cairn_id op) {
    uint32_t count;
    const cairn_implementation *list = cairn_costs_op(s->costs, op, &count);
    int64_t least = count > 0 ? list[0].time_ns : 0;
    for (uint32_t i = 1; i < count; i++)
        least = CRN_MIN(least, list[i].time_ns);
    return least;
}

/* Mark what is changed so late that, if all of it were on the host, the link could not bring it
 * home while the ops after it run; at most in the last part of the step. */
static void mark_late(const search *s, bool *late) {
    int64_t all = 0, after = 0;
    uint64_t bytes = 0;
    for (cairn_id o = 0; o < cairn_graph_op_count(s->graph); o++)
        all = crn_add_time(all, least_time(s, o));
    if (crn_machine_copy_ns(s->options.machine, s->stationary) / 3 * 2 > all)
        return;
    for (cairn_id o = cairn_graph_op_count(s->graph); o-- > 0 && after <= all / LATE_PART;) {
        const cairn_op *op = cairn_graph_op(s->graph, o);
        for (uint32_t i = 0; i < op->param_count && crn_op_updates(op); i++) {
            bytes += late[op->params[i]] ? 0 : cairn_costs_bytes(s->costs)[op->params[i]];
            late[op->params[i]] = crn_machine_copy_ns(s->options.machine, bytes) > after;
        }
        after = crn_add_time(after, least_time(s, o));
    }
}

static cairn_status list_candidates(search *s) {
    uint32_t tensors = cairn_graph_tensor_count(s->graph);
    candidate *list;
    bool *used, *changed, *of_last, *late;
    CRN_TAKE(s->scratch, list, tensors);
    CRN_TAKE(s->scratch, of_last, tensors);
    if (s->micro_batches > 1)
        crn_graph_mark_last(s->graph, of_last);
    CRN_TAKE(s->scratch, used, tensors);
    CRN_TAKE(s->scratch, changed, tensors);
    CRN_TAKE(s->scratch, late, tensors);
    if (s->options.machine != NULL)
        mark_late(s, late);
    CRN_TAKE(s->scratch, s->order, tensors);
    CRN_TAKE(s->scratch, s->on_host, tensors);
    mark_used(s, used, changed);
    for (cairn_id t = 0; t < tensors; t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(s->graph, t);
        uint64_t bytes = crn_align(cairn_costs_bytes(s->costs)[t]);
        if (!is_movable(tensor))
            continue;
        s->movable += bytes;
        bool parameter = tensor->role == CAIRN_ROLE_PARAMETER;
        s->unchanged += changed[t] ? 0 : bytes;
        s->of_last += of_last[t] ? bytes : 0;
        s->parameters += parameter ? bytes : 0;
        if (used[t] && bytes >= LEAST_BYTES)
            list[s->count++] = (candidate){.tensor = t,
                                           .late = late[t],
                                           .copies = parameter ? 2 : !of_last[t],
                                           .small = bytes < SMALL_BYTES,
                                           .place = SCATTER * t,
                                           .bytes = bytes};
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

/* The plan of a level without its visits, within `target`. Only the plan with visits is laid out;
 * and copies of activations would wait for those of visits. */
static cairn_status solve_base(const search *s, const cairn_costs *costs, uint64_t target,
                               cairn_solution **out) {
    cairn_solve_options options = s->options;
    options.budget_bytes = target;
    options.live_peak |= s->on_host_count > 0;
    options.no_offload |= s->on_host_count > 0 && !s->share_link;
    return crn_solve_round(s->graph, costs, s->algorithm, &options, s->parts, out, s->err);
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

/* Make the plan without visits, if there is none. If none fits beside the spare memory, it has all.
 */
static cairn_status find_base(const search *s, const cairn_costs *costs, share *at,
                              cairn_solution **base) {
    if (*base != NULL)
        return CAIRN_OK;
    cairn_status status = solve_base(s, costs, at->target, base);
    if (status != CAIRN_INFEASIBLE || at->spare == 0)
        return status;
    *at = (share){at->target + at->spare, 0};
    return solve_base(s, costs, at->target, base);
}

/* Solve in `room`; again with less memory while it is not enough. */
static cairn_status solve_in(const search *s, const cairn_costs *costs, uint64_t room,
                             cairn_solution **out) {
    uint64_t spare = spare_for(s);
    share at = spare < room ? (share){room - spare, spare} : (share){room, 0};
    cairn_solution *base = NULL;
    cairn_status status = CAIRN_INFEASIBLE;
    for (uint32_t round = 0; round < MOST_ROUNDS; round++) {
        status = find_base(s, costs, &at, &base);
        if (status == CAIRN_OK)
            status = visit(s, at.target + at.spare, base->plan, out);
        uint64_t memory = status == CAIRN_OK ? memory_of(s, *out) : 0;
        if (memory <= room)
            break;
        cairn_solution_destroy(*out);
        *out = NULL;
        status = CAIRN_INFEASIBLE;
        if (take_away(s, &at, (memory - room) * (round + 1))) {
            cairn_solution_destroy(base);
            base = NULL;
        }
    }
    cairn_solution_destroy(base);
    return status;
}

/* The plan for `budget` bytes in which what an op visits is workspace, with visits that last no
 * longer than their op. Its layout may still be larger. */
static cairn_status solve_short(const search *s, const cairn_costs *costs, uint64_t budget,
                                cairn_solution **out) {
    cairn_solve_options options = s->options;
    cairn_solution *base;
    options.budget_bytes = budget;
    CRN_TRY(crn_solve_round(s->graph, costs, s->algorithm, &options, 1, &base, s->err));
    cairn_status status = visit(s, 0, base->plan, out);
    cairn_solution_destroy(base);
    return status;
}

/* The last resort: short visits in the whole room, then in the least memory, and at last the plan
 * that is known to fit. */
static cairn_status solve_strictly(search *s, const cairn_costs *costs, uint64_t room,
                                   cairn_solution **out) {
    const uint64_t budgets[] = {room, s->least_base};
    for (uint32_t k = 0; k < CRN_LENGTH(budgets); k++) {
        cairn_status status = solve_short(s, costs, budgets[k], out);
        if (status == CAIRN_OK && memory_of(s, *out) <= room)
            return CAIRN_OK;
        cairn_solution_destroy(*out);
        *out = NULL;
        if (status != CAIRN_OK && status != CAIRN_INFEASIBLE)
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
    uint64_t room = room_of(s, s->bytes_of[LEVELS]);
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
    status = visit_least(s, base->plan);
    cairn_solution_destroy(base);
    CRN_TRY(status);
    crn_copy_string(s->err->name, sizeof s->err->name, op);
    s->err->smallest_budget = memory_of(s, s->least);
    return s->err->smallest_budget <= room ? CAIRN_OK : CAIRN_INFEASIBLE;
}

/* The best solution of a level; NULL: none fits. */
static cairn_status solve_level(search *s, uint32_t level, cairn_solution **out) {
    uint64_t room = room_of(s, s->bytes_of[level]);
    *out = NULL;
    if (room == 0 && level < LEVELS)
        return CAIRN_OK;
    cairn_costs *costs;
    CRN_TRY(open_level(s, level, &costs));
    cairn_status status = solve_in(s, costs, CRN_MAX(room, 1), out);
    if (status == CAIRN_INFEASIBLE && level == LEVELS && s->share_link)
        status = solve_strictly(s, costs, CRN_MAX(room, 1), out);
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

/* ---- When the first update can begin ---- */

static cairn_id maker_of(const search *s, cairn_id tensor) {
    return cairn_graph_tensor(s->graph, tensor)->producer;
}

/* Whether the op is an update or of the backward pass, and reads nothing of the backward pass. */
static bool begins_backward(const search *s, const cairn_op *op) {
    for (uint32_t i = 0; i < op->input_count; i++) {
        cairn_id maker = maker_of(s, op->inputs[i]);
        if (maker != CAIRN_NONE && cairn_graph_op(s->graph, maker)->phase == CAIRN_PHASE_BACKWARD)
            return false;
    }
    return op->phase == CAIRN_PHASE_BACKWARD;
}

/* The time of all ops that an op needs. `needed` has no mark on entry; ops are in topological
 * order. */
static int64_t time_before(const search *s, cairn_id op, bool *needed) {
    int64_t time = 0;
    memset(needed, 0, op * sizeof *needed);
    for (cairn_id o = op + 1; o-- > 0;) {
        if (o != op && !needed[o])
            continue;
        const cairn_op *at = cairn_graph_op(s->graph, o);
        time = o == op ? 0 : crn_add_time(time, least_time(s, o));
        for (uint32_t i = 0; i < at->input_count; i++)
            if (maker_of(s, at->inputs[i]) != CAIRN_NONE)
                needed[maker_of(s, at->inputs[i])] = true;
    }
    return time;
}

/* No update begins before what the first ops of the backward pass need has run. */
static cairn_status find_before_updates(search *s) {
    uint32_t count = cairn_graph_op_count(s->graph);
    bool *needed;
    CRN_TAKE(s->scratch, needed, count);
    s->before_updates = INT64_MAX;
    for (cairn_id o = 0; o < count; o++)
        if (begins_backward(s, cairn_graph_op(s->graph, o)))
            s->before_updates = CRN_MIN(s->before_updates, time_before(s, o, needed));
    if (s->before_updates == INT64_MAX)
        s->before_updates = 0;
    return CAIRN_OK;
}

/* ---- Copies ---- */

/* The least time of copies in, and of copies out of what updates changed. */
static int64_t copies_time(const search *s, uint64_t in, uint64_t out) {
    const cairn_machine *machine = s->options.machine;
    if (in == 0)
        return 0;
    int64_t all = crn_machine_copy_ns(machine, machine->full_duplex ? in : in + out);
    if (out == 0)
        return all;
    return CRN_MAX(all, crn_add_time(s->before_updates, crn_machine_copy_ns(machine, out)));
}

/* The least time of the copies of a level: in, and back what was changed. */
static int64_t link_time(const search *s, uint32_t level) {
    uint64_t in = s->bytes_of[level];
    return copies_time(s, in, in - CRN_MIN(in, s->unchanged));
}

/* The same in a micro-batch before the last, which changes only sums. */
static int64_t gather_link_time(const search *s, uint32_t level) {
    uint64_t in = s->bytes_of[level] - CRN_MIN(s->bytes_of[level], s->of_last);
    return copies_time(s, in, in - CRN_MIN(in, s->parameters + s->unchanged));
}

/* A step takes no less with at least the homes of a level, and plans that take at least `rest`. */
static int64_t step_bound(const search *s, uint32_t level, int64_t rest) {
    int64_t last = CRN_MAX(link_time(s, level), rest);
    int64_t before = CRN_MAX(gather_link_time(s, level), rest - CRN_MIN(rest, s->saved));
    int64_t count = (int64_t)s->micro_batches - 1;
    if (rest == INT64_MAX || (count > 0 && before > INT64_MAX / count))
        return INT64_MAX;
    return crn_add_time(last, before * count);
}

/* Between two levels a plan takes at least the copies of the lower and the time in the memory of
 * the higher one. A level is left out if even the time in the most memory is too long there. */
static cairn_status find_bound(search *s, uint32_t levels, int64_t *out) {
    int64_t least, rest;
    CRN_TRY(bound_of(s, levels, &least));
    *out = INT64_MAX;
    for (uint32_t level = levels + 1; level-- > 0;) {
        if (step_bound(s, level, least) >= *out)
            continue;
        CRN_TRY(bound_of(s, CRN_MIN(level + 1, levels), &rest));
        *out = CRN_MIN(*out, step_bound(s, level, rest));
    }
    return CAIRN_OK;
}

/* ---- The search ---- */

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
        CRN_TRY(bound_of(s, middle, &bound));
        if (bound == INT64_MAX)
            low = middle + 1;
        else
            high = middle;
    }
    *out = low;
    return CAIRN_OK;
}

/* Find the least level that fits. One that does not says how much memory it needs; a level with
 * less does not fit either, because it visits more. Without any, the last says what is missing. */
static cairn_status find_least_level(search *s, uint32_t *level, cairn_solution **best) {
    CRN_TRY(find_first_level(s, level));
    for (*level = CRN_MAX(*level, 1);; (*level)++) {
        s->err->smallest_budget = 0;
        CRN_TRY(solve_level(s, *level, best));
        if (*best != NULL)
            return CAIRN_OK;
        uint64_t needed = s->err->smallest_budget;
        while (*level + 1 < LEVELS && room_of(s, s->bytes_of[*level + 1]) < needed)
            (*level)++;
    }
}

/* Nothing fits at level 0. Activations are offloaded only if nothing fits without that. */
static cairn_status start_on_host(search *s, uint32_t *level, cairn_solution **best) {
    CRN_TRY(find_least(s));
    cairn_status status = find_least_level(s, level, best);
    if (status != CAIRN_INFEASIBLE)
        return status;
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
    CRN_TRY(solve_level(s, at.level, &next));
    keep_faster(best, next);
    if (time_of(*best) < before)
        *best_point = at;
    return CAIRN_OK;
}

/* Whether more on the host may be faster: the step recomputes more than it waits for copies. */
static bool may_gain(const search *s, const cairn_solution *solution, int64_t bound) {
    const cairn_sim_summary *summary = solution->sim->summary;
    int64_t waits = summary->idle_ns, reruns = summary->rerun_ns;
    if (solution->micro_batches > 1) /* the last one is a small part */
        waits = solution->gather_ns - (summary->compute_ns - s->saved);
    return !is_good(solution, bound) && reruns > waits;
}

/* From the least level that fits, go up while that is faster. */
static cairn_status climb(search *s, int64_t bound, cairn_solution **best, point *found) {
    *found = (point){0, 1, true};
    s->parts = cairn_graph_op_count(s->graph) > SMALL ? PARTS : 1;
    if (*best == NULL)
        CRN_TRY(start_on_host(s, &found->level, best));
    for (uint32_t level = found->level + 1;
         level < LEVELS && level <= found->level + PATIENCE && may_gain(s, *best, bound) &&
         step_bound(s, level, 0) < time_of(*best);
         level++)
        CRN_TRY(try_point(s, (point){level, 1, true}, best, found));
    return CAIRN_OK;
}

/* If the step waits for copies, try longer visits, there and at higher levels. */
static cairn_status lengthen(search *s, int64_t bound, cairn_solution **best, point *found) {
    uint32_t patience = cairn_graph_op_count(s->graph) > LARGE ? 0 : PATIENCE;
    s->parts = PARTS;
    for (uint32_t level = CRN_MAX(found->level, 1);
         level <= LEVELS && level <= found->level + patience && !is_good(*best, bound) &&
         (*best)->sim->summary->idle_ns > (*best)->sim->summary->time_ns / LEAST_WAITS;
         level++) {
        if (level > found->level)
            CRN_TRY(try_point(s, (point){level, 1, true}, best, found));
        CRN_TRY(try_point(s, (point){level, 1, false}, best, found));
        CRN_TRY(try_point(s, (point){level, MOST_SPARES, false}, best, found));
    }
    return CAIRN_OK;
}

static cairn_status search_levels(search *s, int64_t bound, cairn_solution **best) {
    point found;
    CRN_TRY(climb(s, bound, best, &found));
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
    CRN_TRY(list_candidates(s));
    CRN_TRY(find_before_updates(s));
    if (!copies) {
        s->movable = s->bytes_of[LEVELS] = 0;
        s->first_of[LEVELS] = 0;
    }
    CRN_TRY(find_bound(s, copies ? LEVELS : 0, &bound));
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
                .parts = 1,
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
