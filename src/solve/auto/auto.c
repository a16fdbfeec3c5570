/* auto.c: least time under a budget on any graph: bound, starts, search.
 *
 *     bound ----> price and keep-set ----> starts ----> repair, thin ----> ruin and recreate
 *       |                                    ^                                   |
 *       |             other algorithms ------+                        with copies, or without
 *       |                                                                        v
 *       +------------------------------------------------------------>  plan, and how far it can
 *                                                                       be from the best
 *
 * The dispatcher calls again with less memory if the arena of a plan exceeds the budget. The bound
 * and the starts are made in the first round; later rounds continue from the best set. */
#include "cairn/papers/views.h"
#include "solve/auto/auto_joint.h"
#include "solve/auto/auto_ladder.h"
#include "solve/auto/certify.h"
#include "solve/chain/precise.h"
#include "solve/checkpoints/checkpoints.h"

#define SEED 0x5eedu

/* Work, in units of crn_search_work(), at effort 1. Improving the best set gets WORK, or OP_WORK
 * per op if that is less; everything else gets a share of it. The shares were found by trying:
 * doubling one of them gains less than doubling WORK. */
#ifndef CRN_AUTO_WORK /* tests that solve thousands of problems define less */
#define CRN_AUTO_WORK 8000000u
#endif
#define WORK CRN_AUTO_WORK
#define OP_WORK 24000u
#define START_WORK (WORK / 4)  /* each kind of starts */
#define ANNEAL_WORK (WORK / 6) /* annealing, on small graphs */
#define LADDER_WORK (WORK / 6) /* towards the smallest budget */
#define COPY_SHARE 24u         /* each search with copies: 1/24 of improving */
#define LATER_SHARE 8u         /* improving after the first round: 1/8 */

/* Sizes of graphs, in ops unless said otherwise. What takes longer than linear time in the ops is
 * done only up to one of them. */
#define COARSE 200u     /* searching again from other starts costs little */
#define SMALL 1000u     /* `precise` and last resorts of other algorithms cost little */
#define LONG_CHAIN 200u /* pieces: `precise` thins a longer chain, so it is quick there too */

/* How close a plan is to the bound: within 1/x of the time without recomputation. */
#define VERY_FAR 6   /* not within 1/6: the budget is near the smallest one, and plans are few */
#define FAR 20       /* not within 1/20: the plan may be far from the best one */
#define CLOSE 200    /* a start that is good enough */
#define CLOSER 1000  /* the same for starts from the bound, which are cheap */
#define ENOUGH 2000  /* improving ends */
#define NEARLY 20000 /* nothing is searched for any more with copies */

/* Rounds without copies where no plan with copies fits, each with less memory by at most a share of
 * the peak: 1/32, 2/32, ... */
#define ALONE_ROUNDS 4u
#define ALONE_STEP 32u

/* What a search may do of `units`. */
static uint64_t work_of(const crn_problem *problem, uint64_t units) {
    return units * problem->effort / CRN_MAX(problem->share, 1);
}

/* A plan within the whole budget, judged by the simulator and the layout. */
typedef struct candidate {
    crn_schedule schedule;
    int64_t time; /* INT64_MAX: none */
} candidate;

/* The last resort: the first of a fixed list of plans that fits, for the case that the search finds
 * none; or the smallest plan. */
typedef struct last_resort {
    candidate plan;
    bool feasible;        /* it is within the budget */
    const crn_rung *rung; /* that it is made from, if that is within the budget, or NULL */
    bool hastened;        /* it is as fast as it gets */
    bool needs_copies;    /* the smallest plan without copies that was found exceeds the budget */
} last_resort;

/* What is kept from round to round. choose() takes the fastest of the plans. */
typedef struct rounds {
    /* The problem, and the bounds for its whole budget. */
    crn_flat *flat;
    crn_matrix *matrix;
    crn_search *search;
    crn_bound *bound;
    crn_bound_result found; /* of plans without copies */
    int64_t joint_extra_ns; /* of plans with copies, if they are allowed */

    /* The plans. */
    crn_saved best;   /* set of recomputations, within the memory of the current round */
    bool fits;        /* there is a best set */
    candidate other;  /* of another algorithm without copies */
    candidate copied; /* of `offload-best` */
    bool asked_offload;
    last_resort resort;

    /* Where the rounds are. */
    uint32_t round;
    bool searched;  /* bounds, starts and the last resort are made */
    bool joined;    /* the plan of an earlier round had copies, and did not fit */
    uint64_t share; /* of the link, that gave the best plan; 0: not known yet */
} rounds;

/* A lower bound of the time of plans without copies; INT64_MAX: none fits. */
static int64_t bound_time(const rounds *r) {
    int64_t ns = crn_add_time(r->bound->base_ns, r->found.extra_ns);
    return ns == INT64_MAX ? INT64_MAX : ns >> r->flat->time_shift;
}

/* The time of the best set; INT64_MAX: there is none. */
static int64_t own_time(const rounds *r) {
    return r->fits ? r->best.time << r->flat->time_shift : INT64_MAX;
}

/* Whether the best set is within 1/`share` of the bound. */
static bool is_close(const rounds *r, int64_t share) {
    int64_t bound = bound_time(r);
    return r->fits && bound < INT64_MAX && r->best.time - bound < r->flat->base_time / share;
}

/* ---- Starts ---- */

static void finish_start(rounds *r, int64_t limit) {
    crn_thin_all(r->search, limit);
    if (crn_matrix_peak(r->matrix) <= limit && (!r->fits || r->matrix->time < r->best.time)) {
        crn_matrix_save(r->matrix, &r->best);
        r->fits = true;
    }
}

/* A start may take at most twice the overhead of the best set. */
static int64_t most_time(const rounds *r) {
    return r->fits ? r->best.time + (r->best.time - r->flat->base_time) : INT64_MAX;
}

static cairn_status start_from_min_cuts(const crn_problem *problem, rounds *r, int64_t limit) {
    static const int64_t prices[] = {64, 60, 54, 46, 36, 24};
    crn_search *s = r->search;
    if (r->found.op == CRN_NO_OP)
        return CAIRN_OK;
    CRN_TRY(crn_bound_enter(r->bound, r->found.op));
    for (uint32_t k = 0; k < 2 * CRN_LENGTH(prices) && !is_close(r, CLOSER) && !crn_search_late(s);
         k++) {
        int64_t price = r->found.price / 64 * prices[k / 2] + 1;
        CRN_TRY(crn_start_from_min_cut(s, r->bound, price, problem->scratch));
        s->rate = 0;
        s->merge = k % 2;
        if (crn_repair(s, limit, 4 * r->flat->op_count, most_time(r)))
            finish_start(r, limit);
    }
    return CAIRN_OK;
}

static void start_from_nothing(rounds *r, int64_t limit) {
    crn_search *s = r->search;
    for (uint32_t k = 0; k < 8 && !is_close(r, CLOSE) && !crn_search_late(s); k++) {
        crn_matrix_clear(r->matrix);
        s->rate = 0;
        s->merge = k % 2;
        s->closure_limit = k & 2 ? 40 : CRN_MOST_CLOSURE;
        s->noise = k >= 4 ? 512 : 0;
        if (crn_repair(s, limit, 4 * r->flat->op_count, most_time(r)))
            finish_start(r, limit);
    }
    s->noise = 0;
    s->closure_limit = CRN_MOST_CLOSURE;
}

/* ---- Other algorithms ---- */

/* Keep a schedule if it is faster than the best set and within the whole budget. `*over` is by how
 * much it exceeds the budget. */
static cairn_status compare_other(const crn_problem *problem, rounds *r,
                                  const crn_schedule *schedule, uint64_t *peak, uint64_t *over) {
    crn_judgement found;
    uint64_t budget = CRN_MAX(problem->limit, problem->budget);
    *over = *peak = 0;
    cairn_status status = crn_ladder_judge_within(problem, schedule, &found);
    if (status != CAIRN_OK)
        return status == CAIRN_EINVAL ? CAIRN_OK : status;
    if (found.time >= CRN_MIN(own_time(r), r->other.time))
        return CAIRN_OK;
    *peak = found.peak;
    *over = found.arena > budget ? found.arena - budget : 0;
    if (*over == 0) {
        r->other.schedule = *schedule;
        r->other.time = found.time;
    }
    return CAIRN_OK;
}

/* Another algorithm that `auto` asks for a plan. */
typedef struct other_solver {
    const char *name;
    crn_solver *solve;
} other_solver;

static const other_solver precise = {"precise", crn_solve_precise};

/* Those that take no budget; on small graphs they are cheap. */
static const other_solver cheap[] = {{"feng", crn_solve_checkpoints},
                                     {"pieces", crn_solve_checkpoints},
                                     {"chen", crn_solve_checkpoints},
                                     {"feng-linear", crn_solve_checkpoints},
                                     {"random", crn_solve_checkpoints}};

static cairn_status ask(const crn_problem *problem, uint64_t budget, const other_solver *other,
                        void **kept, crn_schedule *schedule) {
    crn_problem own = *problem;
    cairn_error err;
    own.algorithm = other->name;
    own.kept = kept;
    own.err = &err;
    own.budget = budget;
    own.for_start = true;
    own.cost_model = CAIRN_COST_MODEL_PRECISE;
    cairn_status status = other->solve(&own, schedule);
    if (status != CAIRN_OK)
        schedule->decisions.length = 0;
    return status == CAIRN_ENOMEM ? status : CAIRN_OK;
}

/* Start from the schedule of `precise`, if it applies; on long chains it is often the best start.
 * It is also a plan itself, and may use what a set of recomputations cannot express. */
static cairn_status start_from_precise(const crn_problem *problem, rounds *r, int64_t limit) {
    void *kept = NULL;
    uint64_t budget = (uint64_t)limit, over = 1, peak;
    for (uint32_t round = 0; round < CRN_MOST_ROUNDS && over > 0; round++) {
        crn_schedule schedule = {0};
        CRN_TRY(ask(problem, budget, &precise, &kept, &schedule));
        if (schedule.decisions.length == 0)
            return CAIRN_OK;
        r->search->rate = 0;
        if (round == 0 && crn_start_from_schedule(r->search, &schedule) &&
            crn_repair(r->search, limit, 4 * r->flat->op_count, most_time(r)))
            finish_start(r, limit);
        CRN_TRY(compare_other(problem, r, &schedule, &peak, &over));
        uint64_t less = crn_less_after(round, over);
        if (peak > budget || less >= peak)
            break;
        budget = peak - less;
    }
    return CAIRN_OK;
}

static cairn_status ask_checkpoints(const crn_problem *problem, rounds *r) {
    uint64_t peak, over;
    for (uint32_t k = 0; k < CRN_LENGTH(cheap); k++) {
        crn_schedule schedule = {0};
        void *kept = NULL;
        CRN_TRY(ask(problem, problem->budget, &cheap[k], &kept, &schedule));
        if (schedule.decisions.length > 0)
            CRN_TRY(compare_other(problem, r, &schedule, &peak, &over));
    }
    return CAIRN_OK;
}

/* ---- Rounds ---- */

static cairn_status begin(const crn_problem *problem, rounds **out) {
    crn_arena *arena = problem->scratch;
    rounds *r;
    CRN_TAKE(arena, r, 1);
    CRN_TRY(crn_flat_create(problem->graph, problem->costs, arena, &r->flat));
    CRN_TRY(crn_matrix_create(r->flat, arena, &r->matrix));
    CRN_TRY(crn_search_create(r->flat, r->matrix, SEED ^ problem->seed, arena, &r->search));
    CRN_TRY(crn_bound_create(r->flat, false, arena, &r->bound));
    r->other.time = r->copied.time = INT64_MAX;
    *out = r;
    return CAIRN_OK;
}

/* Compute the bounds for the whole budget, before later rounds reduced it. */
static cairn_status find_bounds(const crn_problem *problem, rounds *r, bool copies) {
    uint64_t budget = CRN_MAX(problem->limit, problem->budget);
    crn_certificate found = {0};
    CRN_TRY(crn_certify(r->bound, crn_certify_centre(r->matrix), copies ? problem->machine : NULL,
                        budget, problem->scratch, &found));
    r->found = found.alone;
    r->joint_extra_ns = found.extra_ns;
    return CAIRN_OK;
}

/* Start from the best set of the last round, and repair it for less memory. */
static void next_round(rounds *r, int64_t limit) {
    bool fitted = r->fits;
    r->fits = false;
    r->search->rate = 0;
    if (!fitted)
        return;
    crn_matrix_load(r->matrix, &r->best);
    if (crn_repair(r->search, limit, 4 * r->flat->op_count, INT64_MAX))
        finish_start(r, limit);
}

static void improve(rounds *r, int64_t limit, uint64_t work) {
    crn_matrix_load(r->matrix, &r->best);
    crn_improve(r->search, limit, work, bound_time(r) + r->flat->base_time / ENOUGH);
    crn_matrix_prune_all(r->matrix);
    crn_matrix_save(r->matrix, &r->best);
}

/* `offload-best` fits its arena into the whole budget itself, so it is asked in one round only. */
static cairn_status try_offload(const crn_problem *problem, rounds *r) {
    if (r->asked_offload)
        return CAIRN_OK;
    r->asked_offload = true;
    return crn_joint_ask_offload(problem, &r->copied.schedule, &r->copied.time);
}

/* What a plan with copies that takes `time` counts, compared with plans without: the simulation
 * does not know that ops beside copies are slower. */
static int64_t with_slowdown(const crn_problem *problem, int64_t time) {
    int64_t percent = crn_costs_copy_slowdown(problem->costs);
    return time == INT64_MAX ? time : crn_add_time(time, time / 100 * percent);
}

/* Search for plans with copies too, if they can be faster. */
static cairn_status try_copies(const crn_problem *problem, rounds *r, int64_t limit, uint64_t work,
                               crn_joint *joint) {
    *joint = (crn_joint){.problem = problem, .search = r->search, .bound = r->bound};
    joint->found = r->found;
    joint->share = is_close(r, FAR) ? 0 : r->share;
    joint->work = work / COPY_SHARE;
    joint->best_time = CRN_MIN(own_time(r), r->resort.plan.time);
    int64_t enough = crn_add_time(r->bound->base_ns, r->joint_extra_ns);
    if (enough == INT64_MAX) /* only the smallest plan is searched for */
        return try_offload(problem, r);
    if (r->found.op == CRN_NO_OP || joint->best_time <= enough + enough / NEARLY ||
        joint->best_time <= with_slowdown(problem, enough))
        return CAIRN_OK;
    joint->is_far = joint->best_time - enough > enough / VERY_FAR;
    /* Where only plans near the smallest one fit, at half as much again as the bound, copies do not
     * help a large graph, unless no other plan was found than the last resort. */
    if (r->flat->op_count <= SMALL || !r->fits || joint->best_time / 3 * 2 < enough)
        CRN_TRY(crn_joint_search(joint, limit, r->joint_extra_ns, r->fits ? &r->best : NULL));
    r->share = joint->share;
    if (joint->best_time - enough > enough / FAR)
        CRN_TRY(crn_joint_search_results(joint, limit));
    CRN_TRY(crn_bound_enter(r->bound, r->found.op));
    if (crn_joint_copies_only(r->bound, problem->machine, (uint64_t)limit) >= joint->best_time)
        return CAIRN_OK;
    return try_offload(problem, r);
}

/* On a large graph `precise` is quick only if it is a long chain, which it thins. */
static cairn_status is_long_chain(const crn_problem *problem, bool *out) {
    cairn_chain_view *view;
    CRN_TRY(cairn_chain_view_create(problem->graph, &view, problem->err));
    *out = view->piece_count > LONG_CHAIN;
    cairn_chain_view_destroy(view);
    return CAIRN_OK;
}

/* Start from a repair that did not reach the limit, and descend. */
static void start_from_above(const crn_problem *problem, rounds *r, int64_t limit) {
    crn_search *s = r->search;
    crn_matrix_clear(r->matrix);
    s->rate = 0;
    s->merge = false;
    crn_repair(s, limit, 2 * r->flat->op_count, INT64_MAX);
    crn_matrix_prune_all(r->matrix);
    crn_descend(s, limit, work_of(problem, START_WORK));
    finish_start(r, limit);
}

/* Near the smallest budget there are few plans, far apart: the search begins again, from others. */
static void search_again(const crn_problem *problem, rounds *r, int64_t limit, uint64_t work) {
    crn_saved first = r->best;
    r->best = (crn_saved){0};
    r->fits = false;
    start_from_above(problem, r, limit);
    if (r->fits)
        improve(r, limit, work);
    if (!r->fits || first.time <= r->best.time)
        r->best = first;
    r->fits = true;
}

static uint32_t restarts(const rounds *r) {
    if (r->flat->op_count > SMALL || is_close(r, FAR))
        return 0;
    return r->flat->op_count <= COARSE ? 3 : 1;
}

static cairn_status make_starts(const crn_problem *problem, rounds *r, int64_t limit) {
    crn_search *s = r->search;
    bool small = r->flat->op_count <= SMALL, quick = small;
    s->deadline = crn_search_work(s) + work_of(problem, START_WORK);
    CRN_TRY(start_from_min_cuts(problem, r, limit));
    s->deadline = crn_search_work(s) + work_of(problem, START_WORK);
    start_from_nothing(r, limit);
    s->deadline = UINT64_MAX;
    if (is_close(r, small ? ENOUGH : CLOSE))
        return CAIRN_OK;
    if (!small && problem->share <= 1)
        CRN_TRY(is_long_chain(problem, &quick));
    return quick ? start_from_precise(problem, r, limit) : CAIRN_OK;
}

/* Search for plans without copies. */
static cairn_status search(const crn_problem *problem, rounds *r, int64_t limit, uint64_t work) {
    bool few = r->flat->op_count <= CRN_FEW_OPS;
    CRN_TRY(make_starts(problem, r, limit));
    if (r->fits)
        improve(r, limit, work);
    for (uint32_t k = 0; r->fits && k < restarts(r); k++)
        search_again(problem, r, limit, work / 2);
    if (few && r->fits && bound_time(r) < r->best.time) {
        crn_matrix_load(r->matrix, &r->best);
        crn_anneal(r->search, limit, work_of(problem, ANNEAL_WORK));
        finish_start(r, limit);
    }
    if (few && !is_close(r, ENOUGH))
        CRN_TRY(ask_checkpoints(problem, r));
    return CAIRN_OK;
}

/* Take the smallest plan of another algorithm as the last resort, if it needs less memory. */
static cairn_status try_resort(const crn_problem *problem, rounds *r, const other_solver *other,
                               uint64_t *needed) {
    crn_schedule schedule = {0};
    crn_judgement found;
    void *kept = NULL;
    CRN_TRY(ask(problem, 1, other, &kept, &schedule));
    if (schedule.decisions.length == 0)
        return CAIRN_OK;
    cairn_status status = crn_ladder_judge(problem, &schedule, false, &found);
    if (status != CAIRN_OK)
        return status == CAIRN_EINVAL ? CAIRN_OK : status;
    if (found.arena < *needed) {
        *needed = found.arena;
        r->resort.plan.schedule = schedule;
        r->resort.plan.time = found.time;
    }
    return CAIRN_OK;
}

/* The set of recomputations cannot express everything that other algorithms do. */
static cairn_status try_resorts(const crn_problem *problem, rounds *r) {
    crn_judgement own;
    CRN_TRY(crn_ladder_judge(problem, &r->resort.plan.schedule, false, &own));
    uint64_t needed = own.arena;
    CRN_TRY(try_resort(problem, r, &precise, &needed));
    for (uint32_t k = 0; k < CRN_LENGTH(cheap) && r->flat->op_count <= CRN_FEW_OPS; k++)
        CRN_TRY(try_resort(problem, r, &cheap[k], &needed));
    r->resort.feasible = needed <= CRN_MAX(problem->limit, problem->budget);
    return CAIRN_OK;
}

/* Find the last resort for the case that the search fails: the first of a fixed list of plans that
 * fits. The list does not depend on the budget. It is also a start. */
static cairn_status find_resort(const crn_problem *problem, rounds *r, int64_t limit, bool copies) {
    crn_ladder ladder = {.problem = problem, .search = r->search, .bound = r->bound};
    ladder.work = LADDER_WORK * problem->effort;
    CRN_TRY(crn_ladder_find(&ladder, &r->resort.rung, &r->resort.feasible));
    if (!r->resort.feasible)
        r->resort.rung = NULL;
    r->resort.needs_copies = crn_matrix_peak(r->matrix) > limit;
    CRN_TRY(crn_auto_emit(r->matrix, NULL, problem->scratch, &r->resort.plan.schedule));
    r->resort.plan.time = r->matrix->time << r->flat->time_shift;
    if (r->resort.feasible)
        finish_start(r, limit);
    else if (r->flat->op_count <= SMALL)
        CRN_TRY(try_resorts(problem, r));
    ladder = (crn_ladder){.problem = problem, .search = r->search, .work = ladder.work};
    if (!r->resort.feasible && copies)
        CRN_TRY(crn_joint_least_results(&ladder, &r->resort.plan.schedule, &r->resort.plan.time,
                                        &r->resort.feasible));
    if (!r->resort.feasible && copies)
        CRN_TRY(crn_joint_least(problem, &r->resort.plan.schedule, &r->resort.plan.time,
                                &r->resort.feasible));
    return CAIRN_OK;
}

static cairn_status first_round(const crn_problem *problem, rounds *r, int64_t limit, uint64_t work,
                                bool copies) {
    r->searched = true;
    CRN_TRY(find_bounds(problem, r, copies));
    CRN_TRY(find_resort(problem, r, limit, copies));
    if (!r->resort.feasible || (r->resort.needs_copies && r->flat->op_count > SMALL))
        return CAIRN_OK;
    return search(problem, r, limit, work);
}

/* The last resort has many recomputations that only a smaller budget needs. Without them the arena
 * may exceed the budget, unless the peak is isolated. */
static cairn_status hasten_resort(const crn_problem *problem, rounds *r, uint64_t work) {
    crn_search *s = r->search;
    crn_schedule faster = {0};
    crn_judgement found;
    if (r->resort.hastened || r->resort.rung == NULL || r->flat->op_count > SMALL)
        return CAIRN_OK;
    r->resort.hastened = true;
    int64_t budget = (int64_t)CRN_MIN(CRN_MAX(problem->limit, problem->budget), INT64_MAX / 4);
    int64_t limit = budget - budget / CRN_ISOLATED;
    crn_matrix_load(r->matrix, &r->resort.rung->set);
    s->merge = false;
    crn_isolate_peak(s, budget, limit, work);
    crn_thin_all(s, limit);
    crn_improve(s, limit, work, bound_time(r));
    crn_isolate_end(s);
    crn_matrix_prune_all(r->matrix);
    CRN_TRY(crn_auto_emit(r->matrix, NULL, problem->scratch, &faster));
    CRN_TRY(crn_ladder_judge(problem, &faster, false, &found));
    if (found.arena <= (uint64_t)budget && r->matrix->time < r->resort.rung->set.time) {
        r->resort.plan.schedule = faster;
        r->resort.plan.time = r->matrix->time << r->flat->time_shift;
    }
    return CAIRN_OK;
}

/* Plans with copies came first, and none fits. Now the best set without copies has rounds of its
 * own; if it fits in one of them, it is a plan within the whole budget. */
static cairn_status go_alone(const crn_problem *problem, rounds *r, uint64_t work) {
    uint64_t budget = CRN_MAX(problem->limit, problem->budget);
    int64_t least = CRN_MIN(r->resort.plan.time, CRN_MIN(r->other.time, r->copied.time));
    for (uint32_t round = 0; round < ALONE_ROUNDS && own_time(r) < least; round++) {
        crn_schedule schedule = {0};
        crn_judgement found;
        crn_matrix_load(r->matrix, &r->best);
        CRN_TRY(crn_auto_emit(r->matrix, NULL, problem->scratch, &schedule));
        CRN_TRY(crn_ladder_judge_within(problem, &schedule, &found));
        if (found.arena <= budget) {
            r->other.schedule = schedule;
            r->other.time = own_time(r);
            return CAIRN_OK;
        }
        uint64_t less = crn_less_after(round, found.arena - budget);
        int64_t limit =
            (int64_t)(found.peak - CRN_MIN(less, found.peak / ALONE_STEP * (round + 1)));
        next_round(r, limit);
        if (r->fits)
            improve(r, limit, work);
    }
    r->fits = false;
    return CAIRN_OK;
}

/* Of all that was found take the fastest; the last resort if that is no slower. */
static cairn_status choose(const crn_problem *problem, rounds *r, const crn_joint *joint,
                           crn_schedule *schedule) {
    int64_t own = r->joined ? INT64_MAX : own_time(r);
    int64_t both = joint->best.decisions.length > 0 ? joint->best_time : INT64_MAX;
    int64_t copied = with_slowdown(problem, r->copied.time);
    both = with_slowdown(problem, both);
    int64_t best = CRN_MIN(CRN_MIN(own, both), CRN_MIN(r->other.time, copied));
    if (!r->resort.feasible || best >= r->resort.plan.time) {
        *schedule = r->resort.plan.schedule;
        schedule->last = true;
    } else if (r->other.time == best)
        *schedule = r->other.schedule;
    else if (copied == best)
        *schedule = r->copied.schedule;
    else if (both == best) {
        *schedule = joint->best;
        r->joined = true;
    } else {
        crn_matrix_load(r->matrix, &r->best);
        return crn_auto_emit(r->matrix, NULL, problem->scratch, schedule);
    }
    return CAIRN_OK;
}

/* Make the schedule of one round. */
static cairn_status take_round(const crn_problem *problem, rounds *r, int64_t limit,
                               crn_schedule *schedule) {
    bool copies = problem->machine != NULL && !problem->no_offload;
    bool last = r->round++ == CRN_MOST_ROUNDS - 1;
    uint64_t work = work_of(problem, CRN_MIN(WORK, (uint64_t)OP_WORK * r->flat->op_count));
    uint64_t later_work = work / LATER_SHARE;
    crn_joint joint = {0};
    if (!r->searched)
        CRN_TRY(first_round(problem, r, limit, work, copies));
    else {
        work = later_work;
        if (!r->joined)
            next_round(r, limit);
        if (!r->joined && r->fits)
            improve(r, limit, work);
    }
    if (own_time(r) >= r->resort.plan.time)
        CRN_TRY(hasten_resort(problem, r, later_work));
    if (copies && r->resort.feasible && !last)
        CRN_TRY(try_copies(problem, r, limit, work, &joint));
    if (r->joined && joint.best.decisions.length == 0) {
        CRN_TRY(go_alone(problem, r, later_work));
        CRN_TRY(hasten_resort(problem, r, later_work));
    } else if (last)
        r->fits = false;
    CRN_TRY(choose(problem, r, &joint, schedule));
    schedule->lower_bound_ns = crn_add_time(r->bound->base_ns, r->joint_extra_ns);
    return CAIRN_OK;
}

crn_solver crn_solve_auto; /* of solvers.def */

cairn_status crn_solve_auto(const crn_problem *problem, crn_schedule *schedule) {
    rounds *r = *problem->kept;
    bool first = r == NULL;
    if (first)
        CRN_TRY(begin(problem, &r));
    *problem->kept = r;
    int64_t limit = (int64_t)CRN_MIN(problem->budget, (uint64_t)INT64_MAX / 4);
    if (first && crn_matrix_peak(r->matrix) <= limit) {
        schedule->lower_bound_ns = r->bound->base_ns;
        CRN_TRY(crn_auto_emit(r->matrix, NULL, problem->scratch, schedule));
    } else
        CRN_TRY(take_round(problem, r, limit, schedule));
    return r->matrix->failed ? CAIRN_ENOMEM : CAIRN_OK;
}
