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
#include "solve/auto/auto_joint.h"
#include "solve/auto/certify.h"

#define SEED 0x5eedu
#ifndef CRN_AUTO_WORK /* tests that solve thousands of problems define less */
#define CRN_AUTO_WORK 8000000u
#endif
#define WORK CRN_AUTO_WORK /* most units of work for improving, at effort 1, and ... */
#define OP_WORK 24000u     /* ... units per op */
#define COPY_WORK 24u      /* each search with copies gets 1/24 of the work */
#define SMALL 1000u        /* up to this many ops `precise` is always run, because it is cheap */
#define CLOSE 200          /* a start within 1/200 of the bound is good enough */
#define ENOUGH 2000        /* improving ends within 1/2000 of it */
#define NEARLY 20000       /* with copies it ends within 1/20000 */
#define DESCEND_TRIES (WORK / 4000)  /* when no start fits the budget */
#define SMALLEST_WORK (WORK / 2 * 3) /* in the search for the smallest budget */
#define HALVINGS 9u                  /* in the search for the smallest budget */
#define LEAST_MOMENTS 400u           /* moments that are tried for the least memory */

/* What is kept from round to round. */
typedef struct rounds {
    crn_flat *flat;
    crn_matrix *matrix;
    crn_search *search;
    crn_bound *bound;
    crn_bound_result found;
    int64_t joint_extra_ns; /* of plans with copies, if they are allowed */
    crn_saved best;         /* of the current round; if nothing fits, the smallest */
    bool fits;
    bool searched; /* bounds and starts are made */
    uint32_t round;
    bool smallest_known; /* `smallest` has been searched for */
    crn_saved smallest;
} rounds;

/* A lower bound of the time of plans without copies; INT64_MAX: none fits. */
static int64_t bound_time(const rounds *r) {
    int64_t ns = crn_add_time(r->bound->base_ns, r->found.extra_ns);
    return ns == INT64_MAX ? INT64_MAX : ns >> r->flat->time_shift;
}

/* Whether the best set is within 1/`part` of the bound. */
static bool is_close(const rounds *r, int64_t part) {
    int64_t bound = bound_time(r);
    return r->fits && bound < INT64_MAX && r->best.time - bound < r->flat->base_time / part;
}

/* ---- Starts ---- */

/* Whether to stop. In the search for the smallest budget any plan that fits is enough. */
static bool is_enough(const rounds *r) {
    return crn_search_late(r->search) || (r->fits && r->search->deadline < UINT64_MAX);
}

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

static cairn_status start_from_cuts(const crn_problem *problem, rounds *r, int64_t limit) {
    static const int64_t parts[] = {64, 60, 54, 46, 36, 24};
    crn_search *s = r->search;
    if (r->found.op == CRN_NO_OP)
        return CAIRN_OK;
    CRN_TRY(crn_bound_enter(r->bound, r->found.op));
    for (uint32_t k = 0; k < 2 * CRN_LENGTH(parts) && !is_close(r, 1000) && !is_enough(r); k++) {
        int64_t price = r->found.price / 64 * parts[k / 2] + 1;
        CRN_TRY(crn_start_from_cut(s, r->bound, price, problem->scratch));
        s->rate = 0;
        s->merge = k % 2;
        if (crn_repair(s, limit, 4 * r->flat->op_count, most_time(r)))
            finish_start(r, limit);
    }
    return CAIRN_OK;
}

static void start_from_nothing(rounds *r, int64_t limit) {
    crn_search *s = r->search;
    for (uint32_t k = 0; k < 8 && !is_close(r, CLOSE) && !is_enough(r); k++) {
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

/* Start from the schedule of `precise`, if it applies; on long chains it is often the best
 * start. */
static cairn_status start_from_precise(const crn_problem *problem, rounds *r, int64_t limit) {
    crn_problem own = *problem;
    crn_schedule schedule = {0};
    cairn_error err;
    void *kept = NULL;
    own.kept = &kept;
    own.err = &err;
    own.budget = (uint64_t)limit;
    own.cost_model = CAIRN_COST_MODEL_PRECISE;
    cairn_status status = crn_solve_precise(&own, &schedule);
    if (status != CAIRN_OK)
        return status == CAIRN_ENOMEM ? status : CAIRN_OK;
    bool same_order = crn_start_from_schedule(r->search, &schedule);
    r->search->rate = 0;
    if (same_order && crn_repair(r->search, limit, 4 * r->flat->op_count, most_time(r)))
        finish_start(r, limit);
    return CAIRN_OK;
}

/* ---- The smallest budget ---- */

/* Start from a repair that did not reach the limit, and descend. */
static bool start_from_above(rounds *r, int64_t limit) {
    crn_search *s = r->search;
    crn_matrix_clear(r->matrix);
    s->rate = 0;
    s->merge = false;
    crn_repair(s, limit, 2 * r->flat->op_count, INT64_MAX);
    crn_matrix_prune_all(r->matrix);
    uint32_t tries = r->flat->op_count > 1000 ? DESCEND_TRIES / 10 : DESCEND_TRIES;
    if (!crn_descend(s, limit, tries))
        return false;
    finish_start(r, limit);
    return r->fits;
}

static cairn_status reach(const crn_problem *problem, rounds *r, int64_t limit) {
    r->fits = false;
    CRN_TRY(start_from_cuts(problem, r, limit));
    start_from_nothing(r, limit);
    if (!r->fits)
        start_from_above(r, limit);
    return CAIRN_OK;
}

static void note_smallest(rounds *r) {
    crn_matrix_prune_all(r->matrix);
    if (r->smallest.way == NULL || crn_matrix_peak(r->matrix) < r->smallest.peak)
        crn_matrix_save(r->matrix, &r->smallest);
}

/* Find the smallest plan. This is the same for every budget, so that a plan that fits into one
 * budget fits into every larger one. */
static cairn_status find_smallest(const crn_problem *problem, rounds *r) {
    uint64_t least;
    crn_matrix_clear(r->matrix);
    note_smallest(r);
    r->smallest_known = true;
    r->search->rng.state = SEED;
    CRN_TRY(crn_bound_least_memory(r->bound, LEAST_MOMENTS, &least));
    int64_t low = (int64_t)CRN_MIN(least, (uint64_t)INT64_MAX / 4) - 1, high = r->smallest.peak;
    r->search->deadline = crn_search_work(r->search) + SMALLEST_WORK * problem->effort;
    for (uint32_t k = 0; k < HALVINGS && high - low > high / 512 && !crn_search_late(r->search);
         k++) {
        int64_t middle = low + (high - low) / 2;
        CRN_TRY(reach(problem, r, middle));
        if (r->fits) {
            crn_matrix_load(r->matrix, &r->best);
            note_smallest(r);
            high = r->smallest.peak;
        } else {
            note_smallest(r);
            low = middle;
        }
    }
    r->search->deadline = UINT64_MAX;
    r->fits = false;
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
static cairn_status next_round(const crn_problem *problem, rounds *r, int64_t limit) {
    bool fitted = r->fits;
    r->fits = false;
    r->search->rate = 0;
    crn_matrix_load(r->matrix, &r->best);
    if (fitted && crn_repair(r->search, limit, 4 * r->flat->op_count, INT64_MAX))
        finish_start(r, limit);
    return r->fits ? CAIRN_OK : reach(problem, r, limit);
}

static void improve(rounds *r, int64_t limit, uint64_t work) {
    crn_matrix_load(r->matrix, &r->best);
    crn_improve(r->search, limit, work, bound_time(r) + r->flat->base_time / ENOUGH);
    crn_matrix_prune_all(r->matrix);
    crn_matrix_save(r->matrix, &r->best);
}

/* Search for plans with copies too, if they can be faster. */
static cairn_status try_copies(const crn_problem *problem, rounds *r, int64_t limit, uint64_t work,
                               crn_joint *joint) {
    *joint = (crn_joint){.problem = problem, .search = r->search, .bound = r->bound};
    joint->found = r->found;
    joint->work = work / COPY_WORK;
    joint->best_time = r->fits ? r->best.time << r->flat->time_shift : INT64_MAX;
    int64_t enough = crn_add_time(r->bound->base_ns, r->joint_extra_ns);
    if (enough == INT64_MAX) /* only the smallest plan is searched for */
        return crn_joint_try_offload(joint, limit);
    if (r->found.op == CRN_NO_OP || joint->best_time <= enough + enough / NEARLY)
        return CAIRN_OK;
    CRN_TRY(crn_joint_search(joint, limit, r->joint_extra_ns, r->fits ? &r->best : NULL));
    CRN_TRY(crn_bound_enter(r->bound, r->found.op));
    if (crn_joint_copies_only(r->bound, problem->machine, (uint64_t)limit) >= joint->best_time)
        return CAIRN_OK;
    return crn_joint_try_offload(joint, limit);
}

/* Search for plans without copies. */
static cairn_status search(const crn_problem *problem, rounds *r, int64_t limit, uint64_t work) {
    CRN_TRY(start_from_cuts(problem, r, limit));
    start_from_nothing(r, limit);
    bool asked = r->flat->op_count <= SMALL && !is_close(r, ENOUGH);
    if (asked)
        CRN_TRY(start_from_precise(problem, r, limit));
    if (!r->fits)
        start_from_above(r, limit);
    if (r->fits)
        improve(r, limit, work);
    if (asked || is_close(r, CLOSE))
        return CAIRN_OK;
    int64_t before = r->fits ? r->best.time : INT64_MAX;
    CRN_TRY(start_from_precise(problem, r, limit));
    if (r->fits && r->best.time < before)
        improve(r, limit, work / 2);
    return CAIRN_OK;
}

/* Make the schedule of one round. */
static cairn_status take_round(const crn_problem *problem, rounds *r, int64_t limit,
                               crn_schedule *schedule) {
    bool copies = problem->machine != NULL && !problem->no_offload;
    uint64_t work = CRN_MIN(WORK, (uint64_t)OP_WORK * r->flat->op_count) * problem->effort;
    crn_joint joint = {.best_time = INT64_MAX};
    if (r->round++ == CRN_MOST_ROUNDS - 1)
        r->fits = copies = false; /* the last round: take the smallest plan */
    else if (!r->searched) {
        r->searched = true;
        CRN_TRY(find_bounds(problem, r, copies));
        CRN_TRY(search(problem, r, limit, work));
    } else {
        work /= 4;
        CRN_TRY(next_round(problem, r, limit));
        if (r->fits)
            improve(r, limit, work);
    }
    if (copies)
        CRN_TRY(try_copies(problem, r, limit, work, &joint));
    if (!r->fits && joint.best_time == INT64_MAX && !r->smallest_known)
        CRN_TRY(find_smallest(problem, r));
    bool below = joint.smallest_peak > 0 && joint.smallest_peak < (uint64_t)r->smallest.peak;
    if (joint.best.decisions.length > 0)
        *schedule = joint.best;
    else if (!r->fits && below)
        *schedule = joint.smallest;
    else {
        crn_matrix_load(r->matrix, r->fits ? &r->best : &r->smallest);
        CRN_TRY(crn_auto_emit(r->matrix, NULL, problem->scratch, schedule));
    }
    schedule->lower_bound_ns = crn_add_time(r->bound->base_ns, r->joint_extra_ns);
    return CAIRN_OK;
}

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
