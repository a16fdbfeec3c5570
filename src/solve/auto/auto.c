/* auto.c: least time under a budget on any graph: bound, starts, search.
 *
 *     bound ----> price and keep-set ----> starts ----> repair, thin ----> ruin and recreate
 *       |                                    ^                                   |
 *       |             other algorithms ------+                                   v
 *       +------------------------------------------------------------>  plan, and how far it can
 *                                                                       be from the best
 *
 * The dispatcher asks again with less memory when the arena of a plan overshoots. The bound and the
 * starts are made in the first round; later ones go on from the best set. */
#include "solve/solver.h"

#include "solve/auto/auto_starts.h"

#define SEED 0x5eedu
#define WORK 8000000u       /* units of work for improving, at effort 1, and at most */
#define OP_WORK 24000u      /* so many per op */
#define CUTS 200u           /* for the bound */
#define FEW_CUTS 80u        /* where the graph is large */
#define LARGE 4000u         /* ops */
#define CLOSE 200           /* a start within 1/200 of the bound is good enough to begin with */
#define ENOUGH 2000         /* improving ends within 1/2000 of it */
#define DESCEND_TRIES 2000u /* towards a budget that no start meets */

/* Kept from round to round. */
typedef struct rounds {
    crn_flat *flat;
    crn_matrix *matrix;
    crn_search *search;
    crn_bound *bound;
    crn_bound_result found;
    crn_saved best; /* of the present round */
    bool fits;
} rounds;

/* No plan takes less; INT64_MAX: none fits. */
static int64_t bound_ns(const rounds *r) {
    return crn_add_time(r->bound->base_ns, r->found.extra_ns);
}

static int64_t bound_time(const rounds *r) {
    return bound_ns(r) == INT64_MAX ? INT64_MAX : bound_ns(r) >> r->flat->time_shift;
}

/* Whether the best set is within 1/`part` of the bound. */
static bool is_close(const rounds *r, int64_t part) {
    int64_t bound = bound_time(r);
    return r->fits && bound < INT64_MAX && r->best.time - bound < r->flat->base_time / part;
}

/* ---- Starts ---- */

static void finish_start(rounds *r, int64_t limit) {
    crn_thin_all(r->search, limit);
    if (crn_matrix_peak(r->matrix) <= limit && (!r->fits || r->matrix->time < r->best.time)) {
        crn_matrix_save(r->matrix, &r->best);
        r->fits = true;
    }
}

/* No start needs twice the overhead of the best. */
static int64_t most_time(const rounds *r) {
    return r->fits ? r->best.time + (r->best.time - r->flat->base_time) : INT64_MAX;
}

static cairn_status start_from_cuts(const crn_problem *problem, rounds *r, int64_t limit) {
    static const int64_t parts[] = {64, 60, 54, 46, 36, 24};
    crn_search *s = r->search;
    if (r->found.op == CRN_NO_OP)
        return CAIRN_OK;
    CRN_TRY(crn_bound_enter(r->bound, r->found.op));
    for (uint32_t k = 0; k < 2 * CRN_LENGTH(parts) && !is_close(r, 1000); k++) {
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
    for (uint32_t k = 0; k < 8 && !is_close(r, CLOSE); k++) {
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

/* Where no start fits: from the one that comes closest, down. */
static void start_from_above(rounds *r, int64_t limit) {
    crn_search *s = r->search;
    crn_matrix_clear(r->matrix);
    s->rate = 0;
    s->merge = false;
    crn_repair(s, limit, 2 * r->flat->op_count, INT64_MAX);
    crn_matrix_prune_all(r->matrix);
    uint32_t tries = r->flat->op_count > 1000 ? DESCEND_TRIES / 10 : DESCEND_TRIES;
    if (crn_descend(s, limit, tries))
        finish_start(r, limit);
    if (!r->fits)
        crn_matrix_save(r->matrix, &r->best);
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

static cairn_status first_round(const crn_problem *problem, rounds *r, int64_t limit) {
    uint32_t slot = crn_matrix_peak_slot(r->matrix);
    uint32_t centre = CRN_MIN(slot > 0 ? slot - 1 : 0, r->flat->op_count - 1);
    uint32_t cuts = r->flat->op_count > LARGE ? FEW_CUTS : CUTS;
    CRN_TRY(crn_bound_search(r->bound, (uint64_t)limit, centre, cuts, &r->found));
    CRN_TRY(start_from_cuts(problem, r, limit));
    start_from_nothing(r, limit);
    if (!r->fits)
        start_from_above(r, limit);
    return CAIRN_OK;
}

/* The best set of the round before, brought down to less memory. */
static void next_round(rounds *r, int64_t limit) {
    crn_matrix_load(r->matrix, &r->best);
    r->fits = false;
    r->search->rate = 0;
    if (crn_repair(r->search, limit, 4 * r->flat->op_count, INT64_MAX))
        finish_start(r, limit);
    if (!r->fits)
        start_from_nothing(r, limit);
    if (!r->fits)
        start_from_above(r, limit);
}

cairn_status crn_solve_auto(const crn_problem *problem, crn_schedule *schedule) {
    rounds *r = *problem->kept;
    bool first = r == NULL;
    if (first)
        CRN_TRY(begin(problem, &r));
    *problem->kept = r;
    int64_t limit = (int64_t)CRN_MIN(problem->budget, (uint64_t)INT64_MAX / 4);
    schedule->lower_bound_ns = r->bound->base_ns;
    if (crn_matrix_peak(r->matrix) <= limit && first)
        return crn_auto_emit(r->matrix, problem->scratch, schedule);
    if (first)
        CRN_TRY(first_round(problem, r, limit));
    else
        next_round(r, limit);
    crn_matrix_load(r->matrix, &r->best);
    if (r->fits) {
        int64_t enough = bound_time(r) + r->flat->base_time / ENOUGH;
        uint64_t work = CRN_MIN(WORK, (uint64_t)OP_WORK * r->flat->op_count);
        crn_improve(r->search, limit, first ? work : work / 4, enough);
        crn_matrix_prune_all(r->matrix);
        crn_matrix_save(r->matrix, &r->best);
    }
    if (r->matrix->failed)
        return CAIRN_ENOMEM;
    schedule->lower_bound_ns = bound_ns(r);
    return crn_auto_emit(r->matrix, problem->scratch, schedule);
}
