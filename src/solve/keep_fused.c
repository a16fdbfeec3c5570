/* keep_fused.c: keeps ops next to each other that a device fuses (crn_costs_fused()).
 *
 * A solver recomputes a tensor just before it is read. In the backward pass this can be between two
 * ops that the device would run as one kernel, for example:
 *
 *     sum of gradients, relu_bwd, conv2d (again), batch_norm_bwd
 *     conv2d (again), sum of gradients, relu_bwd, batch_norm_bwd
 *
 * The second order takes the same simulated time and more memory, because what relu_bwd reads is
 * not free yet when the convolution runs. It is used where it fits. */
#include "solve/keep_fused.h"

#include "solve/solution.h"

#define MOST_TRIES 24u

/* Recomputations `from` .. `to` - 1 of the schedule move before decision `before`. */
typedef struct gap {
    uint32_t before, from, to;
    uint64_t bytes; /* that a fused kernel reads once less */
    bool closed;
} gap;

typedef struct search {
    const crn_problem *problem;
    const crn_schedule *schedule;
    cairn_goal goal;
    CRN_ARRAY(gap) gaps;
    crn_decision *moved; /* the decisions with all closed gaps moved */
} search;

/* ---- Finding gaps ---- */

static const cairn_op *op_at(const search *s, uint32_t d) {
    const crn_decision *decision = &s->schedule->decisions.data[d];
    return decision->kind == CRN_RUN ? cairn_graph_op(s->problem->graph, decision->id) : NULL;
}

/* Whether decisions `d` - 1 and `d` run two ops that are fused. */
static bool is_fused(const search *s, uint32_t d) {
    const crn_decision *decisions = s->schedule->decisions.data;
    return op_at(s, d) != NULL && op_at(s, d - 1) != NULL &&
           crn_costs_fused(s->problem->costs, decisions[d].id) == decisions[d - 1].id;
}

/* The gap before decision `d`, which runs an op that can be fused with op `with`, if there is
 * one. */
static bool find_gap(const search *s, uint32_t d, cairn_id with, gap *out) {
    uint32_t r = d;
    while (r > 0 && op_at(s, r - 1) != NULL && op_at(s, r - 1)->phase == CAIRN_PHASE_FORWARD)
        r--;
    if (r == d || r == 0 || op_at(s, r - 1) == NULL ||
        s->schedule->decisions.data[r - 1].id != with)
        return false;
    *out = (gap){.before = r - 1, .from = r, .to = d};
    out->bytes = cairn_costs_bytes(s->problem->costs)[op_at(s, r - 1)->outputs[0]];
    while (out->before > 0 && is_fused(s, out->before))
        out->before--;
    return true;
}

static cairn_status find_gaps(search *s) {
    gap found;
    for (uint32_t d = 0; d < s->schedule->decisions.length; d++) {
        cairn_id with = op_at(s, d) == NULL
                            ? CAIRN_NONE
                            : crn_costs_fused(s->problem->costs, s->schedule->decisions.data[d].id);
        if (with != CAIRN_NONE && find_gap(s, d, with, &found))
            CRN_PUSH(s->problem->scratch, s->gaps, found);
    }
    return CAIRN_OK;
}

/* ---- Closing them ---- */

/* Make the decisions with all closed gaps moved. Gaps do not overlap. */
static void move_all(search *s) {
    const crn_decision *from = s->schedule->decisions.data;
    uint32_t count = s->schedule->decisions.length;
    memcpy(s->moved, from, count * sizeof *from);
    for (uint32_t i = 0; i < s->gaps.length; i++) {
        const gap *g = &s->gaps.data[i];
        uint32_t before = g->from - g->before, inside = g->to - g->from;
        if (!g->closed)
            continue;
        memcpy(s->moved + g->before, from + g->from, inside * sizeof *from);
        memcpy(s->moved + g->before + inside, from + g->before, before * sizeof *from);
    }
}

static cairn_status lower(search *s, cairn_plan **out) {
    const crn_problem *problem = s->problem;
    crn_schedule schedule = *s->schedule;
    move_all(s);
    schedule.decisions.data = s->moved;
    uint64_t budget = problem->budget == UINT64_MAX ? 0 : problem->budget;
    return crn_lower(problem->graph, problem->costs, &schedule, s->goal, budget, out, problem->err);
}

/* Whether the plan with the closed gaps fits, and is not slower. */
static cairn_status try_gaps(search *s, int64_t time, bool *fits) {
    cairn_plan *plan;
    crn_judgement judgement;
    CRN_TRY(lower(s, &plan));
    cairn_status status = crn_judge(s->problem, plan, true, &judgement);
    cairn_plan_destroy(plan);
    if (status == CAIRN_OK)
        *fits = judgement.arena <= s->problem->limit && judgement.time <= time;
    return status;
}

/* Close all gaps if that fits, else the largest ones that do. */
static cairn_status close_gaps(search *s, int64_t time, bool *any) {
    for (uint32_t i = 0; i < s->gaps.length; i++)
        s->gaps.data[i].closed = true;
    CRN_TRY(try_gaps(s, time, any));
    for (uint32_t i = 0; i < s->gaps.length && !*any; i++)
        s->gaps.data[i].closed = false;
    if (*any)
        return CAIRN_OK;
    bool *tried;
    CRN_TAKE(s->problem->scratch, tried, s->gaps.length);
    for (uint32_t tries = 0; tries < CRN_MIN(s->gaps.length, MOST_TRIES); tries++) {
        uint32_t next = 0;
        for (uint32_t i = 0; i < s->gaps.length; i++)
            if (tried[next] || (!tried[i] && s->gaps.data[i].bytes > s->gaps.data[next].bytes))
                next = i;
        tried[next] = s->gaps.data[next].closed = true;
        CRN_TRY(try_gaps(s, time, &s->gaps.data[next].closed));
        *any = *any || s->gaps.data[next].closed;
    }
    return CAIRN_OK;
}

cairn_status crn_keep_fused(const crn_problem *problem, const crn_schedule *schedule,
                            cairn_goal goal, cairn_solution **solution) {
    search s = {.problem = problem, .schedule = schedule, .goal = goal};
    int64_t time = (*solution)->sim->summary->time_ns;
    bool any = false;
    cairn_plan *plan;
    cairn_solution *better;
    if (problem->limit == 0 || problem->live_peak ||
        (*solution)->layout->arena_bytes > problem->limit)
        return CAIRN_OK;
    CRN_TRY(find_gaps(&s));
    if (s.gaps.length == 0)
        return CAIRN_OK;
    CRN_TAKE(problem->scratch, s.moved, schedule->decisions.length);
    CRN_TRY(close_gaps(&s, time, &any));
    if (!any)
        return CAIRN_OK;
    CRN_TRY(lower(&s, &plan));
    CRN_TRY(crn_solution_take(problem->graph, problem->costs, plan, problem->machine,
                              problem->live_peak, problem->memo, &better, problem->err));
    cairn_solution *worse = better;
    if (better->layout->arena_bytes <= problem->limit) {
        worse = *solution;
        *solution = better;
    }
    cairn_solution_destroy(worse);
    return CAIRN_OK;
}
