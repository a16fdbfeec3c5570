/* auto_ladder.c: makes smaller and smaller plans from the plan without recomputations, in several
 * descents. When repair fails, ruin and repair continue for a while. */
#include "solve/auto/auto_ladder.h"

#include "layout/crn_layout.h"

#define SEED 0x1adde4u
#define SMALL 1000u /* up to this many ops all descents are tried */
#define ALL_DESCENTS 8u
#define FEW_DESCENTS 2u
#define FIRST_STEP 8       /* a rung is an eighth of the memory below the one above, */
#define LAST_STEP 256      /* or less, down to this share */
#define LEAST_MOMENTS 100u /* moments that are tried for the least memory */
#define FEW_CLOSURES 64u   /* candidates for a decision, with more ops */
#define LONG_SEARCHES 6u   /* layouts of the lowest rungs that are searched for at length, */
#define LARGE 4000u        /* or one of up to this many ops */
#define SHORT_CLOSURE 40   /* nodes; with long closures the peak stays higher */

/* ---- Simulating ---- */

static uint64_t budget_of(const crn_ladder *l) {
    return CRN_MAX(l->problem->limit, l->problem->budget);
}

static cairn_status judge_for(const crn_problem *problem, const crn_schedule *schedule,
                              uint64_t limit, bool brief, crn_judgement *out) {
    crn_problem own = *problem;
    cairn_plan *plan;
    own.limit = limit;
    own.for_start = true;
    CRN_TRY(crn_lower(own.graph, own.costs, schedule, CAIRN_GOAL_TRAIN, 0, &plan, own.err));
    cairn_status status = crn_judge(&own, plan, brief, out);
    cairn_plan_destroy(plan);
    return status;
}

cairn_status crn_ladder_judge(const crn_problem *problem, const crn_schedule *schedule, bool brief,
                              crn_judgement *out) {
    return judge_for(problem, schedule, 0, brief, out);
}

cairn_status crn_ladder_judge_within(const crn_problem *problem, const crn_schedule *schedule,
                                     crn_judgement *out) {
    uint64_t budget = CRN_MAX(problem->limit, problem->budget);
    CRN_TRY(judge_for(problem, schedule, budget, true, out));
    bool sure = out->arena > budget || out->arena <= crn_layout_promise(out->peak);
    return sure ? CAIRN_OK : judge_for(problem, schedule, 0, false, out);
}

/* The plan in the matrix. */
static cairn_status judge_plan(const crn_ladder *l, bool brief, crn_judgement *out) {
    crn_schedule schedule = {0};
    CRN_TRY(crn_auto_emit(l->search->matrix, l->results, l->problem->scratch, &schedule));
    return crn_ladder_judge(l->problem, &schedule, brief, out);
}

/* The set of the rung is in the matrix. */
static cairn_status judge_rung(const crn_ladder *l, bool brief, crn_rung *rung) {
    crn_judgement found;
    CRN_TRY(judge_plan(l, brief, &found));
    rung->needed = CRN_MAX(found.arena, (uint64_t)rung->set.peak);
    rung->peak = found.peak;
    rung->arena = brief ? 0 : found.arena;
    return CAIRN_OK;
}

/* ---- Smaller plans ---- */

/* The plan without recomputations. */
static void go_up(crn_ladder *l) {
    crn_matrix_clear(l->search->matrix);
    if (l->results != NULL)
        crn_copies_place(l->results);
}

static cairn_status add_rung(crn_ladder *l, bool *fits) {
    crn_rung rung = {0};
    crn_matrix *m = l->search->matrix;
    crn_matrix_save(m, &rung.set);
    if (m->failed)
        return CAIRN_ENOMEM;
    if ((uint64_t)rung.set.peak <= budget_of(l))
        CRN_TRY(judge_rung(l, true, &rung));
    *fits = rung.needed > 0 && rung.needed <= budget_of(l);
    CRN_PUSH(l->problem->scratch, l->rungs, rung);
    return CAIRN_OK;
}

/* Repair to a lower peak; if that fails, to one that is less low. False: repair cannot lower it. */
static bool step_down(crn_search *s, int64_t *share, crn_saved *before) {
    crn_matrix *m = s->matrix;
    int64_t peak = crn_matrix_peak(m);
    crn_matrix_save(m, before);
    for (; *share <= LAST_STEP && !m->failed; *share *= 2) {
        (void)crn_repair(s, peak - CRN_MAX(peak / *share, 1), 4 * s->flat->op_count, INT64_MAX);
        crn_matrix_prune_all(m);
        if (crn_matrix_peak(m) < peak)
            return true;
        crn_matrix_load(m, before);
    }
    return false;
}

/* Ruin and repair, as long as the peak falls from time to time. */
static cairn_status wander_down(crn_ladder *l, uint64_t work, bool *lower) {
    crn_matrix *m = l->search->matrix;
    int64_t before = crn_matrix_peak(m);
    if (l->least == 0 && l->bound != NULL)
        CRN_TRY(crn_bound_least_memory(l->bound, LEAST_MOMENTS, &l->least));
    int64_t least = (int64_t)CRN_MIN(l->least, (uint64_t)INT64_MAX / 4);
    crn_descend(l->search, least, work);
    if (m->flat->op_count <= CRN_FEW_OPS && l->results == NULL)
        crn_anneal(l->search, least, work);
    crn_matrix_prune_all(m);
    *lower = crn_matrix_peak(m) < before;
    return CAIRN_OK;
}

/* A descent to smaller plans: with or without counting on later recomputations, with short or long
 * closures, and with or without more relief than needed. The first two are tried for longer. */
static cairn_status go_down(crn_ladder *l, uint32_t descent, bool *fits) {
    crn_search *s = l->search;
    crn_saved before = {0};
    int64_t share = FIRST_STEP;
    go_up(l);
    s->rate = 0;
    s->merge = descent & 1;
    s->closure_limit = descent & 2 ? CRN_MOST_CLOSURE : SHORT_CLOSURE;
    s->modest = descent & 4;
    s->most_closures = s->flat->op_count <= SMALL ? UINT32_MAX : FEW_CLOSURES;
    while (!*fits && step_down(s, &share, &before))
        CRN_TRY(add_rung(l, fits));
    s->closure_limit = CRN_MOST_CLOSURE;
    s->modest = false;
    s->most_closures = UINT32_MAX;
    bool lower = false;
    if (!*fits)
        CRN_TRY(wander_down(l, descent < FEW_DESCENTS ? l->work : l->work / 8, &lower));
    if (lower)
        CRN_TRY(add_rung(l, fits));
    return s->matrix->failed ? CAIRN_ENOMEM : CAIRN_OK;
}

/* ---- The lowest rung ---- */

/* The rung with the lowest peak of those that have no verdict yet, if that is below `needed`. */
static crn_rung *next_lowest(crn_ladder *l, const bool *judged, uint64_t needed) {
    crn_rung *lowest = NULL;
    for (uint32_t k = 0; k < l->rungs.length; k++) {
        crn_rung *rung = &l->rungs.data[k];
        if (!judged[k] && (uint64_t)rung->set.peak < needed &&
            (lowest == NULL || rung->set.peak < lowest->set.peak))
            lowest = rung;
    }
    return lowest;
}

/* Fragmentation is small where only a few moments need the whole memory of the rung. */
static void isolate(crn_ladder *l, crn_rung *rung) {
    crn_search *s = l->search;
    s->merge = false;
    s->closure_limit = SHORT_CLOSURE;
    int64_t peak = rung->set.peak;
    crn_isolate_peak(s, peak, peak - peak / CRN_ISOLATED, l->work / 8);
    crn_isolate_end(s);
    s->closure_limit = CRN_MOST_CLOSURE;
    crn_matrix_save(s->matrix, &rung->set);
}

/* The smallest plan. Plans with a higher peak are not simulated. Of plans with about the same peak
 * some have much more fragmentation than others, so the lowest few get a long search for a layout,
 * as does the smallest one. */
static cairn_status find_lowest(crn_ladder *l, const crn_rung **out, bool *fits) {
    crn_rung *rung;
    crn_judgement found;
    uint64_t needed = UINT64_MAX;
    uint32_t ops = l->search->flat->op_count;
    uint32_t searches = ops <= SMALL ? LONG_SEARCHES : ops <= LARGE;
    bool *judged;
    CRN_TAKE(l->problem->scratch, judged, l->rungs.length);
    while ((rung = next_lowest(l, judged, needed)) != NULL) {
        crn_matrix_load(l->search->matrix, &rung->set);
        if (searches > 0)
            isolate(l, rung);
        CRN_TRY(judge_rung(l, searches == 0, rung));
        searches -= searches > 0;
        judged[rung - l->rungs.data] = true;
        if (rung->needed < needed) {
            *out = rung;
            needed = rung->needed;
        }
    }
    crn_matrix_load(l->search->matrix, &(*out)->set);
    if (l->search->matrix->failed)
        return CAIRN_ENOMEM;
    if ((*out)->peak > budget_of(l))
        return CAIRN_OK;
    found.arena = (*out)->arena;
    if (found.arena == 0)
        CRN_TRY(judge_plan(l, false, &found));
    *fits = found.arena <= budget_of(l);
    return CAIRN_OK;
}

cairn_status crn_ladder_find(crn_ladder *l, const crn_rung **out, bool *fits) {
    crn_rng before = l->search->rng;
    *fits = false;
    l->search->rng.state = SEED;
    go_up(l);
    CRN_TRY(add_rung(l, fits));
    uint32_t descents = l->search->flat->op_count <= SMALL ? ALL_DESCENTS : FEW_DESCENTS;
    for (uint32_t descent = 0; descent < descents && !*fits; descent++)
        CRN_TRY(go_down(l, descent, fits));
    l->search->rng = before;
    *out = &l->rungs.data[l->rungs.length - 1];
    if (*fits)
        return CAIRN_OK;
    return find_lowest(l, out, fits);
}
