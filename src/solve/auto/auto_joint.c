/* auto_joint.c: plans with copies and recomputations.
 *
 * With copies, the bytes that are away at the moment are at most what the link can carry out before
 * it and in after it. So the bound for a budget is the bound for a budget that is larger by this
 * amount. The amount depends on the time of the step itself, so the bound is the least time that is
 * consistent with itself. Recomputations come after the moment, where they give copies out no time:
 *
 *     time >= time before the moment + own time after it + recomputations
 *             `- at least that of the copies out
 *
 * So copies out that take longer than the ops before the moment make the step longer, byte by
 * byte.
 *
 * The search tries several shares of what the link can carry: it takes what the minimum cut keeps
 * with that much more memory, and copies that much of it. It also starts from the best set without
 * copies, fills the link, and removes recomputations that are not needed any more. Every plan is
 * simulated. */
#include "solve/auto/auto_joint.h"

#include "solve/offload/offload_solvers.h"

#define MIN_CUTS 8u /* minimum cuts for one value of the bound */
#define FILLS 8u    /* times that the link is filled and recomputations are removed again */
#define SHARES 6u   /* of what the link can carry, that are tried */
#define FEW 200u    /* up to this many ops the whole search of `offload-best` is quick */

/* ---- The bound ---- */

uint64_t crn_joint_away(const crn_bound *b, const cairn_machine *machine, int64_t time_ns) {
    int64_t left = CRN_MIN(time_ns - b->after_ns, time_ns - b->before_ns);
    if (!machine->full_duplex)
        left = CRN_MIN(left, time_ns / 2);
    if (left <= 0)
        return 0;
    uint64_t bytes = crn_mul_div_up((uint64_t)left, machine->link_bytes_per_second, 1000000000);
    return CRN_MIN(bytes, (uint64_t)1 << 60);
}

/* The extra time if copies in take no time: what the link carries out before the moment while all
 * ops run that need not come after it is free, and more has the price of the link. */
static int64_t bound_by_copies_out(crn_bound *b, const cairn_machine *machine, uint64_t budget) {
    uint64_t rate = machine->link_bytes_per_second;
    uint64_t free =
        crn_mul_div_up((uint64_t)CRN_MAX(b->base_ns - b->after_ns, 0), rate, 1000000000);
    return crn_bound_at_price(b, budget + CRN_MIN(free, (uint64_t)1 << 60), MIN_CUTS, rate);
}

/* The least extra time at the current moment that is consistent with itself, if it is above
 * `floor_ns`. */
static int64_t bound_at_moment(crn_bound *b, const cairn_machine *machine, uint64_t budget,
                               int64_t floor_ns) {
    int64_t low = CRN_MAX(floor_ns, bound_by_copies_out(b, machine, budget)), price = 0;
    floor_ns = low;
    uint64_t away = crn_joint_away(b, machine, crn_add_time(b->base_ns, low));
    if (crn_bound_at(b, budget + away, MIN_CUTS, &price) <= low)
        return floor_ns;
    int64_t step = CRN_MAX(b->base_ns / 64, 1), high = low + step;
    for (;; step = CRN_MIN(step * 2, INT64_MAX / 8), high = crn_add_time(high, step)) {
        away = crn_joint_away(b, machine, crn_add_time(b->base_ns, high));
        if (high == INT64_MAX || crn_bound_at(b, budget + away, MIN_CUTS, &price) <= high)
            break;
        low = high;
    }
    while (high - low > b->base_ns / 16384 + 1) { /* every time below `low` is impossible */
        int64_t middle = low + (high - low) / 2;
        away = crn_joint_away(b, machine, crn_add_time(b->base_ns, middle));
        if (crn_bound_at(b, budget + away, MIN_CUTS, &price) <= middle)
            high = middle;
        else
            low = middle;
    }
    return low;
}

static cairn_status try_moment(crn_bound *b, const cairn_machine *machine, uint64_t budget,
                               int64_t op, int64_t *extra_ns, int64_t *best) {
    if (op < 0 || op >= (int64_t)b->flat->op_count || !b->flat->needed[op])
        return CAIRN_OK;
    CRN_TRY(crn_bound_enter(b, (uint32_t)op));
    int64_t found = bound_at_moment(b, machine, budget, *extra_ns);
    if (found > *extra_ns) {
        *extra_ns = found;
        *best = op;
    }
    return CAIRN_OK;
}

cairn_status crn_joint_bound(crn_bound *raw, const cairn_machine *machine, uint64_t budget,
                             uint32_t centre, int64_t *extra_ns) {
    int64_t step = raw->flat->op_count / 24 + 1, best = centre;
    *extra_ns = 0;
    CRN_TRY(try_moment(raw, machine, budget, centre, extra_ns, &best));
    for (int64_t k = -8; k <= 8; k++)
        CRN_TRY(try_moment(raw, machine, budget, (int64_t)centre + k * step, extra_ns, &best));
    while (step > 1) {
        step = (step + 1) / 2;
        int64_t at = best;
        CRN_TRY(try_moment(raw, machine, budget, at - step, extra_ns, &best));
        CRN_TRY(try_moment(raw, machine, budget, at + step, extra_ns, &best));
    }
    for (int64_t k = 2, at = best; k <= 4; k++) { /* neighbours need very different memory */
        CRN_TRY(try_moment(raw, machine, budget, at - k, extra_ns, &best));
        CRN_TRY(try_moment(raw, machine, budget, at + k, extra_ns, &best));
    }
    return CAIRN_OK;
}

/* ---- The search ---- */

/* Lower and simulate a schedule, and keep it if it is the fastest within the limit. */
static cairn_status compare(crn_joint *j, const crn_schedule *schedule, int64_t limit) {
    const crn_problem *p = j->problem;
    cairn_plan *plan;
    cairn_sim *sim = NULL;
    cairn_error err;
    CRN_TRY(
        crn_lower(p->graph, p->costs, schedule, CAIRN_GOAL_TRAIN, (uint64_t)limit, &plan, p->err));
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    options.machine = p->machine;
    options.no_holders = true;
    cairn_status status = cairn_simulate(p->graph, p->costs, plan, &options, &sim, &err);
    if (status == CAIRN_OK) {
        const cairn_sim_summary *s = sim->summary;
        if (s->peak_bytes <= (uint64_t)limit && s->time_ns < j->best_time) {
            j->best_time = s->time_ns;
            j->best = *schedule;
        }
    }
    cairn_sim_destroy(sim);
    cairn_plan_destroy(plan);
    return status == CAIRN_EINVAL ? CAIRN_OK : status; /* the host is full: not this plan */
}

static cairn_status judge(crn_joint *j, const crn_copies *copies, int64_t limit) {
    crn_matrix *m = j->search->matrix;
    crn_schedule schedule = {0};
    if (m->failed)
        return CAIRN_ENOMEM;
    if (m->time << j->search->flat->time_shift >= j->best_time)
        return CAIRN_OK; /* copies cannot make it faster */
    CRN_TRY(crn_auto_emit(m, copies, j->problem->scratch, &schedule));
    return compare(j, &schedule, limit);
}

int64_t crn_joint_copies_only(const crn_bound *b, const cairn_machine *machine, uint64_t budget) {
    uint64_t away = b->all + b->fixed > budget ? b->all + b->fixed - budget : 0;
    uint64_t rate = machine->link_bytes_per_second;
    int64_t copying = (int64_t)CRN_MIN(away / CRN_MAX(rate / 1000000, 1), UINT32_MAX) * 1000;
    int64_t time = crn_add_time(CRN_MAX(b->before_ns, b->after_ns), copying);
    if (!machine->full_duplex)
        time = CRN_MAX(time, 2 * copying);
    return CRN_MAX(time, b->base_ns);
}

static bool is_small(const crn_problem *problem) {
    return cairn_graph_op_count(problem->graph) <= FEW;
}

/* What `offload-best` decides, if it applies. */
static cairn_status ask_offload(const crn_problem *problem, uint64_t budget,
                                crn_schedule *schedule) {
    crn_problem own = *problem;
    cairn_error err;
    void *kept = NULL;
    own.kept = &kept;
    own.err = &err;
    own.budget = own.limit = budget;
    own.for_start = !is_small(problem);
    cairn_status status = crn_solve_offload_best(&own, schedule);
    if (status != CAIRN_OK)
        schedule->decisions.length = 0;
    return status == CAIRN_ENOMEM ? status : CAIRN_OK;
}

cairn_status crn_joint_ask_offload(const crn_problem *problem, crn_schedule *schedule,
                                   int64_t *time) {
    uint64_t budget = CRN_MAX(problem->limit, problem->budget);
    crn_judgement found;
    *time = INT64_MAX;
    CRN_TRY(ask_offload(problem, budget, schedule));
    if (schedule->decisions.length == 0)
        return CAIRN_OK;
    schedule->last = true; /* it is lowered as here */
    cairn_status status = is_small(problem) ? crn_ladder_judge(problem, schedule, false, &found)
                                            : crn_ladder_judge_within(problem, schedule, &found);
    if (status == CAIRN_OK && found.arena <= budget)
        *time = found.time;
    return status == CAIRN_EINVAL ? CAIRN_OK : status; /* the host is full: not this plan */
}

cairn_status crn_joint_least(const crn_problem *problem, crn_schedule *least, int64_t *time,
                             bool *fits) {
    crn_schedule copied = {0};
    crn_judgement without, with;
    CRN_TRY(ask_offload(problem, 1, &copied));
    if (copied.decisions.length == 0)
        return CAIRN_OK;
    CRN_TRY(crn_ladder_judge(problem, least, false, &without));
    cairn_status status = crn_ladder_judge(problem, &copied, false, &with);
    if (status == CAIRN_EINVAL)
        return CAIRN_OK; /* the host is full */
    if (status == CAIRN_OK && with.arena < without.arena) {
        *least = copied;
        *time = with.time;
        *fits = with.arena <= CRN_MAX(problem->limit, problem->budget);
    }
    return status;
}

/* ---- Results ---- */

/* Choose all results that can be offloaded, up to `most` bytes. The matrix must be empty. */
static void choose_results(crn_copies *results, uint64_t most) {
    memset(results->wanted, true, results->search->flat->value_count * sizeof *results->wanted);
    crn_copies_choose(results, results->wanted, most);
}

cairn_status crn_joint_least_results(crn_ladder *ladder, crn_schedule *least, int64_t *time,
                                     bool *fits) {
    const crn_problem *problem = ladder->problem;
    crn_search *s = ladder->search;
    crn_schedule made = {0};
    crn_judgement without, with = {0};
    const crn_rung *rung;
    CRN_TRY(crn_copies_create_for_results(s, problem->machine, problem->scratch, &ladder->results));
    if (ladder->results->candidate_count == 0)
        return CAIRN_OK;
    CRN_TRY(crn_ladder_judge(problem, least, false, &without));
    crn_matrix_clear(s->matrix);
    choose_results(ladder->results, UINT64_MAX);
    cairn_status status = crn_ladder_find(ladder, &rung, fits);
    if (status == CAIRN_OK)
        status = crn_auto_emit(s->matrix, ladder->results, problem->scratch, &made);
    if (status == CAIRN_OK)
        status = crn_ladder_judge(problem, &made, false, &with);
    crn_copies_forget(ladder->results);
    if (status == CAIRN_OK && with.arena < without.arena) {
        *least = made;
        *time = with.time;
    }
    return status == CAIRN_EINVAL ? CAIRN_OK : status; /* the host is full */
}

/* ---- Searching ---- */

/* Repair, thin and improve with the copies in the matrix; then compute the times of the copies
 * again. This is done twice. */
static cairn_status work_out(crn_joint *j, crn_copies *copies, int64_t limit) {
    crn_search *s = j->search;
    for (int pass = 0; pass < 3; pass++) {
        if (!crn_copies_repair(copies, limit))
            return CAIRN_OK;
        crn_thin_all(s, limit);
        CRN_TRY(judge(j, copies, limit));
        if (pass == 2)
            break;
        crn_improve(s, limit, j->work, 0);
        CRN_TRY(judge(j, copies, limit));
        crn_copies_settle(copies);
    }
    return CAIRN_OK;
}

/* What the shares have begun with: the price of a minimum cut, and the bytes that are copied. */
typedef struct begun {
    int64_t price[SHARES];
    uint64_t moved[SHARES];
    uint32_t count;
} begun;

/* Record a beginning; false: another share had the same. */
static bool is_new(begun *b, int64_t price, uint64_t moved) {
    for (uint32_t k = 0; k < b->count; k++)
        if (b->price[k] == price && b->moved[k] == moved)
            return false;
    b->price[b->count] = price;
    b->moved[b->count++] = moved;
    return true;
}

/* Try the keep-set for `away` more bytes, with that much of it copied. */
static cairn_status try_share(crn_joint *j, crn_copies *copies, bool *keep, int64_t limit,
                              uint64_t away, begun *b) {
    crn_arena *arena = j->problem->scratch;
    int64_t price = 0;
    uint64_t moved = 0;
    for (int round = 0; round < 3; round++) {
        crn_copies_forget(copies);
        if (crn_bound_at(j->bound, (uint64_t)limit + away, 16, &price) == INT64_MAX)
            return CAIRN_OK;
        CRN_TRY(crn_start_from_min_cut(j->search, j->bound, price + 1, arena));
        crn_bound_keep(j->bound, price + 1, keep);
        moved = crn_copies_choose(copies, keep, away);
        if (moved >= away / 100 * 95)
            break;
        away = moved;
    }
    if (!is_new(b, price, moved) && j->is_far)
        return CAIRN_OK;
    crn_copies_place(copies);
    return work_out(j, copies, limit);
}

/* Start from the best set without copies: copy what the lanes can carry, and remove
 * recomputations. */
static cairn_status fill_link(crn_joint *j, crn_copies *copies, bool *all, int64_t limit,
                              const crn_saved *start) {
    crn_search *s = j->search;
    crn_copies_forget(copies);
    crn_matrix_load(s->matrix, start);
    memset(all, true, s->flat->value_count * sizeof *all);
    for (uint32_t k = 0; k < FILLS && !s->matrix->failed; k++) {
        crn_copies_remove(copies);
        crn_copies_choose(copies, all, UINT64_MAX);
        crn_copies_place(copies);
        if (!crn_copies_repair(copies, limit))
            return CAIRN_OK;
        crn_thin_all(s, limit);
        CRN_TRY(judge(j, copies, limit));
        if (k % 2 == 0)
            crn_improve(s, limit, j->work, 0);
        CRN_TRY(judge(j, copies, limit));
    }
    return CAIRN_OK;
}

cairn_status crn_joint_search(crn_joint *j, int64_t limit, int64_t extra_ns,
                              const crn_saved *start) {
    static const uint64_t shares[SHARES] = {100, 90, 80, 70, 50, 30};
    crn_arena *arena = j->problem->scratch;
    const cairn_machine *machine = j->problem->machine;
    crn_copies *copies;
    bool *keep;
    uint64_t best = shares[0];
    begun b = {.count = 0};
    CRN_TAKE(arena, keep, j->search->flat->value_count);
    CRN_TRY(crn_bound_enter(j->bound, j->found.op));
    CRN_TRY(crn_copies_create(j->search, machine, j->found.op + 1, arena, &copies));
    if (copies->candidate_count == 0 && j->is_far)
        return CAIRN_OK;
    uint64_t away = crn_joint_away(j->bound, machine, crn_add_time(j->bound->base_ns, extra_ns));
    away = CRN_MIN(away, j->bound->all);
    int64_t before = j->best_time;
    for (uint32_t k = 0; k < SHARES; k++) {
        if (j->share != 0 && shares[k] != j->share)
            continue; /* in a later round: the best share of the first one */
        CRN_TRY(try_share(j, copies, keep, limit, away / 100 * shares[k], &b));
        if (j->best_time < before)
            best = shares[k];
        before = j->best_time;
    }
    j->share = best;
    if (start != NULL)
        CRN_TRY(fill_link(j, copies, keep, limit, start));
    crn_copies_forget(copies);
    return CAIRN_OK;
}

cairn_status crn_joint_search_results(crn_joint *j, int64_t limit) {
    static const uint64_t shares[] = {100, 50, 25, 10};
    const crn_problem *problem = j->problem;
    crn_copies *results;
    uint64_t all = 0;
    CRN_TRY(crn_copies_create_for_results(j->search, problem->machine, problem->scratch, &results));
    for (uint32_t k = 0; k < results->candidate_count; k++)
        all += j->search->flat->bytes[results->candidates[k]];
    for (uint32_t k = 0; k < CRN_LENGTH(shares) && all > 0; k++) {
        crn_copies_forget(results);
        crn_matrix_clear(j->search->matrix);
        choose_results(results, all / 100 * shares[k]);
        crn_copies_place(results);
        CRN_TRY(work_out(j, results, limit));
    }
    crn_copies_forget(results);
    return CAIRN_OK;
}
