/* chain_simulate.c: simulates schedules on abstract chains, and helps to write them.
 *
 * Invariant between steps: `memory` is the size of f_0, of every resident f and of the one resident
 * backward b_{next+1}, where B_next is the next backward. */
#include "solve/chain/chain_solve.h"

typedef struct state {
    const cairn_chain_problem *problem;
    bool *resident;
    int64_t next; /* the next backward; -1 at the end */
    uint64_t memory;
    cairn_chain_verdict verdict;
    const char *broken; /* the rule that the last step broke */
} state;

static bool charge(state *s, int64_t cost, uint64_t memory) {
    if (__builtin_add_overflow(s->verdict.cost, cost, &s->verdict.cost)) {
        s->broken = "makes the cost overflow";
        return false;
    }
    s->verdict.peak = CRN_MAX(s->verdict.peak, memory);
    return true;
}

static bool forward(state *s, uint32_t l) {
    if (l == 0 || l > s->problem->layers)
        s->broken = "names no forward of the chain";
    else if (!s->resident[l - 1])
        s->broken = "reads a forward that is not resident";
    else if (s->resident[l])
        s->broken = "makes a forward that is resident already";
    if (s->broken != NULL)
        return false;
    s->resident[l] = true;
    s->memory += s->problem->forward_sizes[l];
    return charge(s, s->problem->forward_costs[l], s->memory);
}

static bool backward(state *s, uint32_t l) {
    const uint64_t *sizes = s->problem->backward_sizes;
    if ((int64_t)l != s->next)
        s->broken = "is not the backward whose turn it is";
    else if (!s->resident[l])
        s->broken = "reads a forward that is not resident";
    if (s->broken != NULL)
        return false;
    if (!charge(s, s->problem->backward_costs[l], s->memory + sizes[l]))
        return false;
    s->memory = s->memory + sizes[l] - sizes[l + 1];
    if (l > 0) {
        s->resident[l] = false;
        s->memory -= s->problem->forward_sizes[l];
    }
    s->next--;
    return true;
}

static bool drop(state *s, uint32_t l) {
    if (l == 0 || l > s->problem->layers)
        s->broken = "drops what cannot be dropped";
    else if (!s->resident[l])
        s->broken = "drops a forward that is not resident";
    if (s->broken != NULL)
        return false;
    s->resident[l] = false;
    s->memory -= s->problem->forward_sizes[l];
    return true;
}

static bool take_step(state *s, cairn_chain_step step) {
    switch (step.kind) {
    case CAIRN_CHAIN_STEP_FORWARD:
        return forward(s, step.layer);
    case CAIRN_CHAIN_STEP_BACKWARD:
        return backward(s, step.layer);
    case CAIRN_CHAIN_STEP_DROP:
        return drop(s, step.layer);
    default:
        s->broken = "is of no known kind";
        return false;
    }
}

static cairn_status walk(state *s, const cairn_chain_step *steps, size_t count, cairn_error *err) {
    for (size_t i = 0; i < count; i++)
        if (!take_step(s, steps[i]))
            return crn_fail(err, CAIRN_EINVAL, "step %zu (%s%u) %s", i,
                            steps[i].kind == CAIRN_CHAIN_STEP_FORWARD    ? "F"
                            : steps[i].kind == CAIRN_CHAIN_STEP_BACKWARD ? "B"
                                                                         : "-f",
                            steps[i].layer, s->broken);
    if (s->next >= 0)
        return crn_fail(err, CAIRN_EINVAL, "the schedule ends before B%u", (unsigned)s->next);
    return CAIRN_OK;
}

cairn_status cairn_chain_judge(const cairn_chain_problem *problem, const cairn_chain_step *steps,
                               size_t count, cairn_chain_verdict *out, cairn_error *err) {
    *out = (cairn_chain_verdict){0, 0};
    bool resident[CAIRN_CHAIN_MOST_LAYERS + 1] = {true};
    uint32_t n = problem->layers;
    if (n > CAIRN_CHAIN_MOST_LAYERS)
        return cairn_chain_check(problem, err);
    state s = {.problem = problem, .resident = resident, .next = n};
    s.memory = problem->forward_sizes[0] + problem->backward_sizes[n + 1];
    cairn_status status = walk(&s, steps, count, err);
    if (status == CAIRN_OK)
        *out = s.verdict;
    return status;
}

/* ---- Writing schedules ---- */

cairn_status crn_chain_push(crn_arena *arena, crn_chain_steps *steps, cairn_chain_step_kind kind,
                            uint32_t layer) {
    CRN_PUSH(arena, *steps, ((cairn_chain_step){kind, layer}));
    return CAIRN_OK;
}

cairn_status crn_chain_sweep(crn_arena *arena, crn_chain_steps *steps, uint32_t from, uint32_t to) {
    for (uint32_t l = from + 1; l <= to; l++) {
        CRN_TRY(crn_chain_push(arena, steps, CAIRN_CHAIN_STEP_FORWARD, l));
        if (l - 1 > from)
            CRN_TRY(crn_chain_push(arena, steps, CAIRN_CHAIN_STEP_DROP, l - 1));
    }
    return CAIRN_OK;
}

cairn_status crn_chain_unroll(crn_arena *arena, crn_chain_steps *steps, uint32_t from,
                              uint32_t to) {
    for (uint32_t l = from + 1; l <= to; l++)
        CRN_TRY(crn_chain_push(arena, steps, CAIRN_CHAIN_STEP_FORWARD, l));
    for (uint32_t l = to + 1; l-- > from;)
        CRN_TRY(crn_chain_push(arena, steps, CAIRN_CHAIN_STEP_BACKWARD, l));
    return CAIRN_OK;
}

/* ---- Choosing among fixed schedules ---- */

void crn_chain_choice_init(crn_chain_choice *choice, crn_chain_job *job, crn_chain_answer *answer) {
    *choice = (crn_chain_choice){.job = job, .answer = answer};
    *answer = (crn_chain_answer){.min_budget = UINT64_MAX, .has_curve = true};
}

static cairn_status copy_steps(crn_arena *arena, const crn_chain_steps *from, crn_chain_steps *to) {
    if (to->capacity < from->length) {
        CRN_TAKE(arena, to->data, from->length);
        to->capacity = from->length;
    }
    memcpy(to->data, from->data, from->length * sizeof *from->data);
    to->length = from->length;
    return CAIRN_OK;
}

cairn_status crn_chain_offer(crn_chain_choice *choice, const crn_chain_steps *steps) {
    crn_chain_job *job = choice->job;
    crn_chain_answer *answer = choice->answer;
    cairn_chain_verdict verdict;
    CRN_TRY(cairn_chain_judge(job->problem, steps->data, steps->length, &verdict, job->err));
    answer->min_budget = CRN_MIN(answer->min_budget, verdict.peak);
    if (job->options.curve)
        CRN_PUSH(job->arena, answer->curve, ((cairn_chain_point){verdict.peak, verdict.cost}));
    bool better = !answer->feasible || verdict.cost < choice->best.cost ||
                  (verdict.cost == choice->best.cost && verdict.peak < choice->best.peak);
    if (verdict.peak > job->budget || !better)
        return CAIRN_OK;
    answer->feasible = true;
    choice->best = verdict;
    return copy_steps(job->arena, steps, &answer->steps);
}
