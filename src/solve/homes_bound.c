/* homes_bound.c: how long a step takes at least, whatever is at home on the host.
 *
 * With h bytes at home on the host, a step takes at least as long as copying them, and as a plan in
 * the memory that the others leave. The one rises with h and the other falls. */
#include "solve/homes_search.h"

#include "cairn/papers/bounds.h"
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"
#include "solve/solver.h"

typedef crn_homes_search search;

cairn_status crn_homes_bound_of(search *s, uint32_t level, int64_t *out) {
    cairn_solve_options options = s->options;
    /* The last level stands for all that any plan can have on the host. */
    options.budget_bytes =
        crn_homes_room(s, level == CRN_HOME_LEVELS ? s->movable : s->bytes_of[level]);
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
        time = o == op ? 0 : crn_add_time(time, crn_homes_least_time(s, o));
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
    uint64_t out = in - CRN_MIN(in, s->unchanged);
    return copies_time(s, in - CRN_MIN(in, s->unread), out);
}

/* The same in a micro-batch before the last, which changes only sums. */
static int64_t gather_link_time(const search *s, uint32_t level) {
    uint64_t in = s->bytes_of[level] - CRN_MIN(s->bytes_of[level], s->of_last);
    uint64_t out = in - CRN_MIN(in, s->parameters + s->unchanged);
    return copies_time(s, in - CRN_MIN(in, s->unread_parameters), out);
}

int64_t crn_homes_step_bound(const search *s, uint32_t level, int64_t rest) {
    int64_t last = CRN_MAX(link_time(s, level), rest);
    int64_t before = CRN_MAX(gather_link_time(s, level), rest - CRN_MIN(rest, s->saved));
    int64_t count = (int64_t)s->micro_batches - 1;
    if (rest == INT64_MAX || (count > 0 && before > INT64_MAX / count))
        return INT64_MAX;
    return crn_add_time(last, before * count);
}

/* Lower `*out` to the bound of plans with the homes of levels `low` to `high`, which take at least
 * `rest` whatever the copies. Between two levels a plan takes at least the copies of the lower and
 * the time in the memory of the higher one. The first rises with the level and the second falls, so
 * that few levels are looked at. */
static cairn_status bound_range(search *s, uint32_t levels, int32_t low, int32_t high, int64_t rest,
                                int64_t *out) {
    if (low > high || crn_homes_step_bound(s, (uint32_t)low, rest) >= *out)
        return CAIRN_OK;
    int32_t middle = low + (high - low) / 2;
    uint32_t level = (uint32_t)middle;
    int64_t above;
    CRN_TRY(crn_homes_bound_of(s, CRN_MIN(level + 1, levels), &above));
    int64_t found = crn_homes_step_bound(s, level, above);
    *out = CRN_MIN(*out, found);
    if (found > crn_homes_step_bound(s, level, 0)) {
        CRN_TRY(bound_range(s, levels, middle + 1, high, rest, out));
        return bound_range(s, levels, low, middle - 1, above, out);
    }
    CRN_TRY(bound_range(s, levels, low, middle - 1, above, out));
    return bound_range(s, levels, middle + 1, high, rest, out);
}

cairn_status crn_homes_find_bound(search *s, uint32_t levels, int64_t *out) {
    int64_t least;
    CRN_TRY(find_before_updates(s));
    CRN_TRY(crn_homes_bound_of(s, levels, &least));
    *out = INT64_MAX;
    return bound_range(s, levels, 0, (int32_t)levels, least, out);
}
