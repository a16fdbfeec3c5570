/* place_homes.c: see place_homes.h. The memory and the clock of the plan are known from a
 * simulation. Visits are made in four passes, each of which takes memory only where some is left:
 *
 *     1  every use has its tensor in memory
 *     2  two uses close to each other are one visit, shortest gap first
 *     3  fetches begin early enough to end in time, in the order of need
 *     4  tensors that were updated stay until they are copied home
 *
 * The clock is that of the plan without the visits. */
#include "cost/crn_cost.h"
#include "graph/crn_graph.h"
#include "solve/place_homes.h"
#include "plan/crn_plan.h"

#include <stdlib.h>

#define LONGEST_GAP                                                                                \
    8 /* a tensor is kept between two uses if that takes at most 8 of its copies                   \
       */

typedef struct visit {
    cairn_id tensor;
    uint32_t fetch;       /* the step before which it is fetched */
    uint32_t first, last; /* the runs that use it */
    uint32_t leave;       /* the step before which it is freed */
    uint32_t next;        /* the next visit of the tensor, or NOBODY */
    bool changed, gone;   /* gone: it is joined with the visit after it */
} visit;

#define NOBODY UINT32_MAX

typedef struct work {
    const crn_homes *in;
    crn_arena *scratch;
    const cairn_step *steps;
    uint32_t step_count;
    int64_t *clock;    /* per step, and the end: when the compute lane reaches it */
    uint64_t *live;    /* per step: the memory of the plan, visits included */
    uint32_t *last_of; /* per tensor: its last visit so far */
    CRN_ARRAY(visit) visits;
} work;

static uint64_t bytes_of(const work *at, cairn_id tensor) {
    return crn_align(cairn_costs_bytes(at->in->costs)[tensor]);
}

static int64_t copy_time(const work *at, cairn_id tensor) {
    if (at->in->machine == NULL)
        return 0;
    return crn_machine_copy_ns(at->in->machine, cairn_costs_bytes(at->in->costs)[tensor]);
}

/* What only updates use is not fetched where the tensor is only read. */
static int64_t fetch_time(const work *at, const visit *v) {
    const cairn_costs *costs = at->in->costs;
    if (at->in->machine == NULL || v->changed)
        return copy_time(at, v->tensor);
    return crn_machine_copy_ns(at->in->machine, cairn_costs_bytes(costs)[v->tensor] -
                                                    crn_costs_unread(costs, v->tensor));
}

/* Whether the tensor can be in memory during a step in addition. */
static bool fits(const work *at, uint32_t step, uint64_t bytes) {
    return at->live[step] + bytes <= at->in->room;
}

static void hold(work *at, uint32_t from, uint32_t to, uint64_t bytes) {
    for (uint32_t i = from; i < to; i++)
        at->live[i] += bytes;
}

/* ---- Uses ---- */

/* A run uses a tensor: its last visit grows, or a new one begins. */
static cairn_status add_use(work *at, uint32_t step, cairn_id tensor, bool changes) {
    uint32_t last = at->last_of[tensor];
    if (last != NOBODY && at->visits.data[last].last == step)
        return CAIRN_OK; /* twice in one op */
    visit fresh = {.tensor = tensor,
                   .fetch = step,
                   .first = step,
                   .last = step,
                   .leave = step + 1,
                   .next = NOBODY,
                   .changed = changes};
    if (last != NOBODY)
        at->visits.data[last].next = at->visits.length;
    at->last_of[tensor] = at->visits.length;
    CRN_PUSH(at->scratch, at->visits, fresh);
    at->live[step] += bytes_of(at, tensor);
    return CAIRN_OK;
}

static cairn_status find_uses(work *at) {
    for (uint32_t i = 0; i < at->step_count; i++) {
        if (at->steps[i].kind != CAIRN_STEP_RUN)
            continue;
        const cairn_op *op = cairn_graph_op(at->in->graph, at->steps[i].id);
        bool changes = crn_op_updates(op);
        for (uint32_t k = 0; k < op->param_count; k++)
            if (at->in->on_host[op->params[k]])
                CRN_TRY(add_use(at, i, op->params[k], changes));
    }
    return CAIRN_OK;
}

/* ---- Gaps ---- */

typedef struct gap {
    uint32_t visit, length; /* the gap after this visit, in steps */
} gap;

static int compare_gaps(const void *a, const void *b) {
    const gap *x = a, *y = b;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return (x->visit > y->visit) - (x->visit < y->visit);
}

/* The visit after `v`, which others may be joined with by now. */
static visit *visit_after(work *at, const visit *v) {
    visit *after = &at->visits.data[v->next];
    while (after->gone)
        after = &at->visits.data[after->next];
    return after;
}

/* Join visit `v` with the one after it, if the tensor can stay in memory between them. The later
 * one takes over; so `last` is the use that a visit was made for. */
static void join(work *at, uint32_t v) {
    visit *before = &at->visits.data[v], *after = visit_after(at, before);
    uint32_t end = at->visits.data[before->next].last;
    uint64_t bytes = bytes_of(at, before->tensor);
    for (uint32_t i = before->last + 1; i < end; i++)
        if (!fits(at, i, bytes))
            return;
    hold(at, before->last + 1, end, bytes);
    after->first = before->first;
    after->fetch = before->fetch;
    after->changed = after->changed || before->changed;
    before->gone = true;
}

static cairn_status join_visits(work *at) {
    gap *gaps;
    uint32_t count = 0;
    CRN_TAKE(at->scratch, gaps, at->visits.length);
    for (uint32_t v = 0; v < at->visits.length; v++) {
        const visit *before = &at->visits.data[v];
        if (before->next == NOBODY)
            continue;
        uint32_t next = at->visits.data[before->next].first;
        int64_t pause = at->clock[next] - at->clock[before->last + 1];
        if (pause / LONGEST_GAP <= copy_time(at, before->tensor))
            gaps[count++] = (gap){v, next - before->last};
    }
    if (count > 0)
        qsort(gaps, count, sizeof *gaps, compare_gaps);
    for (uint32_t i = 0; i < count; i++)
        join(at, gaps[i].visit);
    return CAIRN_OK;
}

/* ---- Visits by their steps ---- */

/* Visits by a step: lists in the order of the visits. */
typedef struct crn_visit_index {
    uint32_t *first, *visits; /* of step i: visits[first[i] .. first[i + 1]) */
} crn_visit_index;

/* The steps of a visit, in the order in which they stand before one step, and behind it. */
enum { LEAVE, FETCH, FIRST, LAST, STEPS };

static uint32_t step_of(const visit *v, int which) {
    return which == LEAVE   ? v->leave
           : which == FETCH ? v->fetch
           : which == FIRST ? v->first
                            : v->last;
}

static cairn_status index_by(work *at, int which, crn_visit_index *out) {
    CRN_TAKE(at->scratch, out->first, at->step_count + 2);
    CRN_TAKE(at->scratch, out->visits, at->visits.length);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t k = at->visits.length; k-- > 0;) {
            const visit *v = &at->visits.data[k];
            if (v->gone)
                continue;
            if (pass == 0)
                out->first[step_of(v, which)]++;
            else
                out->visits[--out->first[step_of(v, which)]] = k;
        }
        for (uint32_t i = 0; i <= at->step_count && pass == 0; i++)
            out->first[i + 1] += out->first[i];
    }
    return CAIRN_OK;
}

/* ---- Fetches ---- */

static bool is_run(const work *at, uint32_t step) {
    return at->steps[step].kind == CAIRN_STEP_RUN;
}

/* When each fetch should begin, such that all copies end in time: from the last to the first. */
static cairn_status find_starts(work *at, const crn_visit_index *by, uint32_t count,
                                int64_t **out) {
    int64_t lane = INT64_MAX;
    CRN_TAKE(at->scratch, *out, at->visits.length);
    for (uint32_t k = count; k-- > 0;) {
        const visit *v = &at->visits.data[by->visits[k]];
        lane = CRN_MIN(lane, at->clock[v->first]) - fetch_time(at, v);
        (*out)[by->visits[k]] = lane;
    }
    return CAIRN_OK;
}

/* Begin a fetch earlier. It stands before a run, which needs no less memory than there is just
 * before it; and behind the visit before it. */
static void begin_early(work *at, visit *v, uint32_t earliest, int64_t start) {
    uint64_t bytes = bytes_of(at, v->tensor);
    uint32_t best = v->fetch;
    for (uint32_t i = v->fetch; i-- > earliest && at->clock[i + 1] > start;) {
        if (!fits(at, i, bytes))
            break;
        if (is_run(at, i))
            best = i;
    }
    hold(at, best, v->fetch, bytes);
    v->fetch = best;
}

static cairn_status begin_all_early(work *at) {
    int64_t *starts;
    uint32_t *left; /* per tensor: the end of its visit before */
    crn_visit_index by;
    CRN_TRY(index_by(at, FIRST, &by));
    uint32_t count = by.first[at->step_count];
    CRN_TRY(find_starts(at, &by, count, &starts));
    CRN_TAKE(at->scratch, left, cairn_graph_tensor_count(at->in->graph));
    for (uint32_t k = 0; k < count; k++) {
        visit *v = &at->visits.data[by.visits[k]];
        begin_early(at, v, left[v->tensor], starts[by.visits[k]]);
        left[v->tensor] = v->leave;
    }
    return CAIRN_OK;
}

/* ---- Copies home ---- */

/* An updated tensor stays until its copy home has ended. Updates are the last use of a tensor. */
static void leave_late(work *at) {
    int64_t lane = 0;
    for (uint32_t k = 0; k < at->visits.length; k++) {
        visit *v = &at->visits.data[k];
        if (v->gone || !v->changed)
            continue;
        uint64_t bytes = bytes_of(at, v->tensor);
        lane = CRN_MAX(lane, at->clock[v->last + 1]) + copy_time(at, v->tensor);
        uint32_t limit = v->next == NOBODY ? at->step_count : visit_after(at, v)->fetch;
        while (v->leave < limit && at->clock[v->leave] < lane && fits(at, v->leave, bytes))
            at->live[v->leave++] += bytes;
    }
}

/* ---- The new plan ---- */

static cairn_status emit(crn_plan_builder *builder, cairn_step_kind kind, cairn_id tensor) {
    return crn_plan_builder_add(builder, (cairn_step){.kind = (uint8_t)kind, .id = tensor});
}

/* What stands before or behind a step for the visits of one list. */
static cairn_status emit_list(work *at, const crn_visit_index *by, int which, uint32_t step,
                              crn_plan_builder *builder) {
    for (uint32_t k = by->first[step]; k < by->first[step + 1]; k++) {
        const visit *v = &at->visits.data[by->visits[k]];
        if (which == LEAVE && v->changed)
            CRN_TRY(emit(builder, CAIRN_STEP_WAIT, v->tensor));
        if (which == LEAVE)
            CRN_TRY(emit(builder, CAIRN_STEP_FREE, v->tensor));
        if (which == FETCH)
            CRN_TRY(emit(builder, CAIRN_STEP_FETCH, v->tensor));
        if (which == FIRST)
            CRN_TRY(emit(builder, CAIRN_STEP_WAIT, v->tensor));
        if (which == LAST && v->changed)
            CRN_TRY(emit(builder, CAIRN_STEP_OFFLOAD, v->tensor));
    }
    return CAIRN_OK;
}

static cairn_status emit_all(work *at, crn_plan_builder *builder) {
    crn_visit_index by[STEPS];
    for (int which = 0; which < STEPS; which++)
        CRN_TRY(index_by(at, which, &by[which]));
    for (uint32_t i = 0; i <= at->step_count; i++) {
        for (int which = LEAVE; which <= FIRST; which++)
            CRN_TRY(emit_list(at, &by[which], which, i, builder));
        if (i == at->step_count)
            break;
        CRN_TRY(crn_plan_builder_add(builder, at->steps[i]));
        CRN_TRY(emit_list(at, &by[LAST], LAST, i, builder));
    }
    return CAIRN_OK;
}

/* The memory of every step, and when the compute lane reaches it; the times of a copy are those of
 * its own lane. */
static cairn_status read_clock(work *at, const cairn_sim *sim) {
    const cairn_sim_step *steps = sim->steps;
    uint32_t count = sim->step_count;
    CRN_TAKE(at->scratch, at->live, count);
    CRN_TAKE(at->scratch, at->clock, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        bool copies =
            at->steps[i].kind == CAIRN_STEP_OFFLOAD || at->steps[i].kind == CAIRN_STEP_FETCH;
        at->live[i] = steps[i].bytes;
        at->clock[i + 1] = copies ? at->clock[i] : steps[i].end_ns;
    }
    return CAIRN_OK;
}

static cairn_status place(work *at, const cairn_sim *sim, const cairn_plan *plan,
                          crn_plan_builder *builder, cairn_plan **out, cairn_error *err) {
    uint32_t tensors = cairn_graph_tensor_count(at->in->graph);
    at->steps = plan->steps;
    at->step_count = plan->step_count;
    CRN_TAKE(at->scratch, at->last_of, tensors);
    CRN_TRY(read_clock(at, sim));
    for (cairn_id t = 0; t < tensors; t++)
        at->last_of[t] = NOBODY;
    CRN_TRY(find_uses(at));
    CRN_TRY(join_visits(at));
    CRN_TRY(begin_all_early(at));
    leave_late(at);
    CRN_TRY(emit_all(at, builder));
    return crn_plan_builder_finish(builder, at->in->graph, plan->header, out, err);
}

cairn_status crn_place_homes(const crn_homes *homes, const cairn_plan *plan, cairn_plan **out,
                             cairn_error *err) {
    cairn_allocator allocator = crn_graph_allocator(homes->graph);
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    crn_plan_builder *builder = NULL;
    cairn_sim *sim = NULL;
    crn_arena scratch;
    *out = NULL;
    options.machine = homes->machine;
    CRN_TRY(cairn_simulate(homes->graph, homes->costs, plan, &options, &sim, err));
    crn_arena_init(&scratch, &allocator);
    work at = {.in = homes, .scratch = &scratch};
    cairn_status status = crn_plan_builder_create(&allocator, &builder);
    if (status == CAIRN_OK)
        status = place(&at, sim, plan, builder, out, err);
    crn_plan_builder_destroy(builder);
    crn_arena_release(&scratch);
    cairn_sim_destroy(sim);
    return status == CAIRN_ENOMEM ? crn_fail_memory(err) : status;
}

void crn_homes_of_plan(const cairn_graph *graph, const cairn_plan *plan, bool *on_host) {
    const cairn_step *steps = plan->steps;
    uint32_t count = plan->step_count;
    for (uint32_t i = 0; i < count; i++)
        if (steps[i].kind == CAIRN_STEP_FETCH && steps[i].id < cairn_graph_tensor_count(graph)) {
            cairn_role role = cairn_graph_tensor(graph, steps[i].id)->role;
            on_host[steps[i].id] = role == CAIRN_ROLE_PARAMETER || role == CAIRN_ROLE_SLOT;
        }
}
