/* test_sim_random.c: the simulator against the naive one, and the guarantees of the lowering, on
 * seeded random graphs and schedules.
 *
 *     schedule  every op once in some topological order, recomputations, round trips to the host
 *     plan      lowered: must be legal, free nothing late, run nothing useless, work in place
 *     homes     steps with updates, and some of what is stationary at home on the host
 *     mutants   of the plan, legal or not: both simulators must agree on each
 */
#include "check.h"
#include "graph/crn_graph.h"
#include "plan/lower.h"
#include "property/agree.h"
#include "property/random_graph.h"
#include "solve/place_homes.h"
#include "sim/crn_sim.h"

#define GRAPHS CHECK_ROUNDS(12000)
#define MUTANTS 16
#define LONGEST 400

enum { RULES = CAIRN_RULE_CHANGE_LOST + 1 };

static long rule_counts[RULES], plans, mutants, legal_mutants, frees_moved, reruns, copies,
    inplaces, visits;

typedef struct subject {
    crn_rng rng;
    uint64_t seed;
    const cairn_graph *graph;
    const cairn_costs *costs;
    crn_decision decisions[LONGEST];
    uint32_t decision_count;
    cairn_step steps[LONGEST];
    uint32_t step_count;
    cairn_goal goal;
} subject;

/* ---- Schedules ---- */

static void insert(subject *s, uint32_t at, uint8_t kind, cairn_id id) {
    if (s->decision_count == LONGEST)
        exit(1);
    memmove(&s->decisions[at + 1], &s->decisions[at],
            (s->decision_count - at) * sizeof *s->decisions);
    s->decisions[at] = (crn_decision){kind, id};
    s->decision_count++;
}

static bool has_run(const subject *s, cairn_id op) {
    for (uint32_t i = 0; i < s->decision_count; i++)
        if (s->decisions[i].kind == CRN_RUN && s->decisions[i].id == op)
            return true;
    return false;
}

static bool is_ready(const subject *s, cairn_id o) {
    const cairn_op *op = cairn_graph_op(s->graph, o);
    if (has_run(s, o))
        return false;
    for (uint32_t i = 0; i < op->input_count; i++) {
        cairn_id producer = cairn_graph_tensor(s->graph, op->inputs[i])->producer;
        if (producer != CAIRN_NONE && !has_run(s, producer))
            return false;
    }
    return true;
}

/* Every op once, in canonical or any other topological order; or what evaluation needs. */
static void schedule_first_runs(subject *s) {
    uint32_t ops = cairn_graph_op_count(s->graph);
    bool shuffled = one_in(&s->rng, 3);
    if (s->goal == CAIRN_GOAL_INFER) {
        crn_arena arena;
        crn_schedule schedule = {0};
        cairn_error err = {0};
        crn_arena_init(&arena, NULL);
        CHECK_OK(crn_schedule_infer(&schedule, &arena, s->graph), &err);
        for (uint32_t i = 0; i < schedule.decisions.length; i++)
            insert(s, s->decision_count, CRN_RUN, schedule.decisions.data[i].id);
        crn_arena_release(&arena);
        return;
    }
    for (uint32_t done = 0; done < ops; done++) {
        cairn_id o = done;
        while (shuffled && (o = below(&s->rng, ops), !is_ready(s, o)))
            ;
        insert(s, s->decision_count, CRN_RUN, o);
    }
}

static bool may_run_again(const subject *s, cairn_id o) {
    const cairn_op *op = cairn_graph_op(s->graph, o);
    return !(op->flags & CAIRN_OP_FLAG_NEVER_AGAIN) && op->phase != CAIRN_PHASE_UPDATE;
}

static void strew_reruns(subject *s) {
    for (uint32_t n = below(&s->rng, 8); n > 0; n--) {
        if (s->decision_count == 0)
            return;
        uint32_t from = below(&s->rng, s->decision_count);
        cairn_id op = s->decisions[from].id;
        uint32_t to = from + 1 + below(&s->rng, s->decision_count - from);
        if (may_run_again(s, op))
            insert(s, to, CRN_RUN, op);
    }
}

static bool reads(const subject *s, crn_decision d, cairn_id t) {
    const cairn_op *op = cairn_graph_op(s->graph, d.id);
    for (uint32_t i = 0; d.kind == CRN_RUN && i < op->input_count; i++)
        if (op->inputs[i] == t)
            return true;
    return false;
}

/* Whether this decision makes a new instance of `t`, or copies it. */
static bool concerns(const subject *s, crn_decision d, cairn_id t) {
    return d.kind == CRN_RUN ? d.id == cairn_graph_tensor(s->graph, t)->producer : d.id == t;
}

/* Add a round trip of a tensor before one of its readers, after its latest instance is made:
 * offload before `out`, free before `gone` or when memory is needed, fetch before `back`. */
static void add_round_trip(subject *s) {
    uint32_t reader = below(&s->rng, s->decision_count + 1), first = reader;
    if (reader == s->decision_count || s->decisions[reader].kind != CRN_RUN)
        return;
    const cairn_op *op = cairn_graph_op(s->graph, s->decisions[reader].id);
    if (op->input_count == 0)
        return;
    cairn_id t = op->inputs[below(&s->rng, op->input_count)];
    if (cairn_graph_tensor(s->graph, t)->stationary)
        return;
    while (first > 0 && !concerns(s, s->decisions[first - 1], t))
        first--;
    if (first > 0 &&
        (s->decisions[first - 1].kind == CRN_OFFLOAD || s->decisions[first - 1].kind == CRN_EVICT))
        return; /* it is being copied already */
    uint32_t back = first + below(&s->rng, reader - first + 1);
    uint32_t out = first + below(&s->rng, back - first + 1), gone = back;
    while (gone > out && !reads(s, s->decisions[gone - 1], t))
        gone--;
    gone += below(&s->rng, back - gone + 1);
    insert(s, back, CRN_FETCH, t);
    if (one_in(&s->rng, 2))
        insert(s, gone, CRN_EVICT, t);
    insert(s, out, CRN_OFFLOAD, t);
}

static cairn_plan *lower(subject *s, uint64_t budget) {
    crn_arena arena;
    crn_schedule schedule = {0};
    cairn_error err = {0};
    cairn_plan *plan;
    crn_arena_init(&arena, NULL);
    for (uint32_t i = 0; i < s->decision_count; i++)
        CHECK_OK(crn_schedule_add(&schedule, &arena, (crn_decision_kind)s->decisions[i].kind,
                                  s->decisions[i].id),
                 &err);
    CHECK_OK(crn_lower(s->graph, s->costs, &schedule, s->goal, budget, &plan, &err), &err);
    crn_arena_release(&arena);
    const cairn_step *steps = plan->steps;
    s->step_count = plan->step_count;
    if (s->step_count > LONGEST)
        exit(1);
    for (uint32_t i = 0; i < s->step_count; i++) /* there may be none */
        s->steps[i] = steps[i];
    return plan;
}

/* ---- Both simulators ---- */

static cairn_rule judge(const subject *s, const cairn_step *steps, uint32_t count, cairn_goal goal,
                        const cairn_sim_options *options, uint64_t *peak) {
    cairn_plan *plan = agree_plan(s->graph, steps, count, goal);
    cairn_rule rule;
    naive_sim naive;
    bool good = agree(s->graph, s->costs, plan, options, &rule, &naive);
    if (!good)
        fprintf(stderr, "seed %" PRIu64 "\n", s->seed);
    CHECK(good);
    if (check_failures > 5)
        exit(1);
    if (peak != NULL)
        *peak = naive.peak_bytes;
    rule_counts[rule]++;
    naive_release(&naive);
    cairn_plan_destroy(plan);
    return rule;
}

/* Whether a plan is legal, by the naive simulator only. */
static bool is_legal(const subject *s, const cairn_step *steps, uint32_t count) {
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    naive_sim naive;
    naive_simulate(s->graph, s->costs, steps, count, s->goal, &options, &naive);
    bool legal = naive.broken_count == 0;
    naive_release(&naive);
    return legal;
}

/* ---- Guarantees of the lowering ---- */

static void complain(const subject *s, const char *what, uint32_t step) {
    cairn_text text;
    cairn_plan *plan = agree_plan(s->graph, s->steps, s->step_count, s->goal);
    if (cairn_plan_to_text(plan, s->graph, &text) == CAIRN_OK)
        fprintf(stderr, "seed %" PRIu64 ": %s at step %u\n%s\n", s->seed, what, step, text.data);
    cairn_text_release(&text);
    cairn_plan_destroy(plan);
    check_failures++;
}

static bool is_copied(const subject *s, cairn_id t) {
    for (uint32_t i = 0; i < s->step_count; i++)
        if (s->steps[i].id == t &&
            (s->steps[i].kind == CAIRN_STEP_OFFLOAD || s->steps[i].kind == CAIRN_STEP_FETCH))
            return true;
    return false;
}

/* Nothing is freed later than possible: moving a free before the run before it is illegal. Tensors
 * that are copied may stay until their memory is needed. */
static void check_frees(const subject *s) {
    cairn_step moved[LONGEST];
    for (uint32_t i = 0; i < s->step_count; i++) {
        if (s->steps[i].kind != CAIRN_STEP_FREE || is_copied(s, s->steps[i].id))
            continue;
        uint32_t run = i;
        while (run > 0 && s->steps[run].kind != CAIRN_STEP_RUN)
            run--;
        if (s->steps[run].kind != CAIRN_STEP_RUN)
            continue; /* never needed: freed before the first run */
        memcpy(moved, s->steps, s->step_count * sizeof *moved);
        memmove(&moved[run + 1], &moved[run], (i - run) * sizeof *moved);
        moved[run] = s->steps[i];
        check_count++;
        frees_moved++;
        if (is_legal(s, moved, s->step_count))
            complain(s, "freed too late", i);
    }
}

/* There is no recomputation of which nothing is read, even if it makes results of the step. A
 * result that is copied may need it. */
static void check_reruns(const subject *s) {
    for (uint32_t i = 0; i < s->step_count; i++) {
        bool again = false, read = false;
        for (uint32_t k = 0; k < i && s->steps[i].kind == CAIRN_STEP_RUN; k++)
            again =
                again || (s->steps[k].kind == CAIRN_STEP_RUN && s->steps[k].id == s->steps[i].id);
        if (!again)
            continue;
        const cairn_op *op = cairn_graph_op(s->graph, s->steps[i].id);
        for (uint32_t o = 0; o < op->output_count; o++) {
            cairn_id made = op->outputs[o];
            read = read || (made != CAIRN_NONE && is_copied(s, made));
            for (uint32_t k = i + 1; k < s->step_count && made != CAIRN_NONE; k++) {
                cairn_step step = s->steps[k];
                if (step.id == made && step.kind == CAIRN_STEP_FREE)
                    break;
                crn_decision d = {CRN_RUN, step.id};
                read = read || (step.kind == CAIRN_STEP_RUN && reads(s, d, made));
            }
        }
        check_count++;
        reruns++;
        if (!read)
            complain(s, "run again for nothing", i);
    }
}

/* If an operand dies at an op that may overwrite it, it is overwritten: no run that is followed by
 * the free of an operand can be replaced by a run in place. */
static void check_inplace(const subject *s) {
    cairn_step other[LONGEST];
    for (uint32_t i = 0; i < s->step_count; i++) {
        cairn_step step = s->steps[i];
        if (step.kind != CAIRN_STEP_RUN)
            continue;
        inplaces += step.inplace > 0;
        const cairn_op *op = cairn_graph_op(s->graph, step.id);
        for (uint32_t p = 0; p < op->inplace_count && step.inplace == 0; p++) {
            cairn_id operand = op->inputs[op->inplace[p].input];
            uint32_t end = i + 1;
            while (end < s->step_count && s->steps[end].kind == CAIRN_STEP_FREE &&
                   s->steps[end].id != operand)
                end++;
            bool dies = end < s->step_count && s->steps[end].kind == CAIRN_STEP_FREE;
            if (!dies || is_copied(s, operand))
                continue;
            memcpy(other, s->steps, s->step_count * sizeof *other);
            memmove(&other[end], &other[end + 1], (s->step_count - end - 1) * sizeof *other);
            other[i].inplace = (uint8_t)(p + 1);
            check_count++;
            if (is_legal(s, other, s->step_count - 1))
                complain(s, "could be in place", i);
        }
    }
}

/* ---- Mutants ---- */

static cairn_step random_step(subject *s) {
    cairn_step step = {.kind = (uint8_t)below(&s->rng, 5)};
    uint32_t limit = step.kind == CAIRN_STEP_RUN ? cairn_graph_op_count(s->graph)
                                                 : cairn_graph_tensor_count(s->graph);
    step.id = below(&s->rng, limit);
    return step;
}

/* Run an op again while a tensor that shares storage with its result is being copied. */
static void write_in_flight(subject *s, cairn_step *steps, uint32_t *count) {
    cairn_id t = below(&s->rng, cairn_graph_tensor_count(s->graph));
    cairn_id other = one_in(&s->rng, 2) ? t : crn_graph_storage(s->graph, t);
    cairn_id producer = cairn_graph_tensor(s->graph, other)->producer;
    if (producer == CAIRN_NONE || *count + 2 > LONGEST)
        return;
    uint32_t at = below(&s->rng, *count);
    for (uint32_t i = 0; i < *count; i++) /* preferably right after it was made */
        if (steps[i].kind == CAIRN_STEP_RUN && one_in(&s->rng, 2) &&
            steps[i].id == cairn_graph_tensor(s->graph, t)->producer)
            at = i + 1;
    memmove(&steps[at + 2], &steps[at], (*count - at) * sizeof *steps);
    steps[at] = (cairn_step){.kind = CAIRN_STEP_OFFLOAD, .id = t};
    steps[at + 1] = (cairn_step){.kind = CAIRN_STEP_RUN, .id = producer};
    *count += 2;
}

static void mutate(subject *s, cairn_step *steps, uint32_t *count) {
    uint32_t i = below(&s->rng, *count), j = below(&s->rng, *count);
    cairn_step step = steps[i];
    bool is_run = step.kind == CAIRN_STEP_RUN;
    uint32_t way = below(&s->rng, 10);
    switch (way) {
    case 0:
        memmove(&steps[i], &steps[i + 1], (*count - i - 1) * sizeof *steps);
        --*count;
        return;
    case 1: /* add a step, new or a copy */
    case 2:
        memmove(&steps[j + 1], &steps[j], (*count - j) * sizeof *steps);
        steps[j] = way == 1 ? random_step(s) : step;
        ++*count;
        return;
    case 3:
        steps[i] = steps[j];
        steps[j] = step;
        return;
    case 4: /* change to another op or tensor */
        steps[i].id = below(&s->rng, is_run ? cairn_graph_op_count(s->graph)
                                            : cairn_graph_tensor_count(s->graph));
        steps[i].inplace = steps[i].also = 0;
        return;
    case 5:
        steps[i].kind = is_run ? CAIRN_STEP_RUN : (uint8_t)(CAIRN_STEP_FREE + below(&s->rng, 4));
        return;
    case 6:
        for (; i < *count; i++)
            if (steps[i].kind == CAIRN_STEP_RUN && one_in(&s->rng, 3)) {
                uint32_t ways = cairn_graph_op(s->graph, steps[i].id)->inplace_count;
                steps[i].inplace = (uint8_t)below(&s->rng, ways + 1);
                steps[i].also = 0;
                return;
            }
        return;
    case 7:
        if (is_run)
            steps[i].implementation = (uint8_t)below(&s->rng, 4);
        return;
    case 8:
        write_in_flight(s, steps, count);
        return;
    default: /* move a step by a little */
        if (i + 1 < *count) {
            steps[i] = steps[i + 1];
            steps[i + 1] = step;
        }
        return;
    }
}

static void judge_mutants(subject *s, uint64_t peak) {
    cairn_step steps[LONGEST];
    for (uint32_t m = 0; m < MUTANTS && s->step_count > 0; m++) {
        uint32_t count = s->step_count;
        memcpy(steps, s->steps, count * sizeof *steps);
        cairn_machine machine = random_machine(&s->rng);
        cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
        if (!one_in(&s->rng, 3))
            options.machine = &machine;
        if (one_in(&s->rng, 5))
            options.budget_bytes = 1 + crn_rng_below(&s->rng, peak + 1);
        for (uint32_t times = 1 + below(&s->rng, 2); times > 0 && count > 0 && count < LONGEST;
             times--)
            mutate(s, steps, &count);
        cairn_goal goal = one_in(&s->rng, 20) ? CAIRN_GOAL_INFER : s->goal;
        mutants++;
        legal_mutants += judge(s, steps, count, goal, &options, NULL) == CAIRN_RULE_NONE;
    }
}

/* ---- One graph ---- */

static void check_plan(subject *s, uint64_t budget) {
    cairn_plan *plan = lower(s, budget);
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    uint64_t peak = 0;
    cairn_plan_destroy(plan);
    plans++;
    cairn_rule rule = judge(s, s->steps, s->step_count, s->goal, &options, &peak);
    if (rule != CAIRN_RULE_NONE)
        complain(s, crn_rule_name(rule), 0);
    CHECK(rule == CAIRN_RULE_NONE);
    check_frees(s);
    check_reruns(s);
    check_inplace(s);
    cairn_machine machine = random_machine(&s->rng);
    options.machine = &machine;
    judge(s, s->steps, s->step_count, s->goal, &options, NULL);
    machine.host_memory_bytes = 1 << 20;
    options.budget_bytes = peak;
    rule = judge(s, s->steps, s->step_count, s->goal, &options, NULL);
    CHECK(rule == CAIRN_RULE_NONE);
    options.budget_bytes = peak - 1;
    rule = judge(s, s->steps, s->step_count, s->goal, &options, NULL);
    CHECK(rule == (peak > 1 ? CAIRN_RULE_OVER_BUDGET : CAIRN_RULE_NONE));
    for (uint32_t i = 0; i < s->step_count; i++)
        copies += s->steps[i].kind == CAIRN_STEP_FETCH;
    judge_mutants(s, peak);
}

static void check_seed(uint64_t seed) {
    subject s = {.seed = seed, .rng = {seed}};
    cairn_graph *graph = seed % 4 == 0 ? random_network(&s.rng) : random_graph(&s.rng);
    cairn_costs *costs = random_costs(&s.rng, graph, one_in(&s.rng, 4));
    s.graph = graph;
    s.costs = costs;
    cairn_graph_summary summary = CAIRN_GRAPH_SUMMARY_INIT;
    cairn_graph_summarize(graph, &summary);
    bool can_infer = cairn_graph_tensor(graph, summary.output)->role != CAIRN_ROLE_LABEL;
    s.goal = can_infer && one_in(&s.rng, 6) ? CAIRN_GOAL_INFER : CAIRN_GOAL_TRAIN;
    schedule_first_runs(&s);
    if (seed % 5 != 0)
        strew_reruns(&s);
    check_plan(&s, 0);
    if (seed % 2 == 0) {
        uint64_t budget = 64 * (1 + below(&s.rng, 40));
        for (uint32_t n = 1 + below(&s.rng, 6); n > 0; n--)
            add_round_trip(&s);
        check_plan(&s, one_in(&s.rng, 4) ? 0 : budget);
    }
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
}

/* ---- Homes on the host ---- */

/* The lowered plan with visits of some tensors; within the room that one op at a time needs, if
 * there is no more. */
static void visit_some(subject *s, const cairn_plan *plan, const cairn_machine *machine) {
    bool on_host[LONGEST] = {0};
    cairn_error err = {0};
    cairn_plan *visited;
    crn_homes homes = {.graph = s->graph, .costs = s->costs, .machine = machine};
    homes.on_host = on_host;
    homes.room = one_in(&s->rng, 3) ? 0 : 64 * (1 + below(&s->rng, 400));
    for (cairn_id t = 0; t < cairn_graph_tensor_count(s->graph); t++) {
        cairn_role role = cairn_graph_tensor(s->graph, t)->role;
        on_host[t] =
            (role == CAIRN_ROLE_PARAMETER || role == CAIRN_ROLE_SLOT) && one_in(&s->rng, 4);
    }
    CHECK_OK(crn_place_homes(&homes, plan, &visited, &err), &err);
    const cairn_step *steps = visited->steps;
    s->step_count = visited->step_count;
    if (s->step_count > LONGEST - MUTANTS)
        s->step_count = 0; /* too long for the tables of this test */
    memcpy(s->steps, steps, s->step_count * sizeof *steps);
    cairn_plan_destroy(visited);
}

static void check_homes(uint64_t seed) {
    subject s = {.seed = seed, .rng = {seed}, .goal = CAIRN_GOAL_TRAIN};
    cairn_graph *step = random_network(&s.rng), *graph;
    cairn_error err = {0};
    CHECK_OK(cairn_graph_add_updates(step, UPDATES_OF(.slots = below(&s.rng, 3)), &graph, &err),
             &err);
    cairn_costs *costs = random_costs(&s.rng, graph, true);
    cairn_machine machine = random_machine(&s.rng);
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    uint64_t peak = 0;
    machine.host_memory_bytes = 1 << 30;
    s.graph = graph;
    s.costs = costs;
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++)
        insert(&s, s.decision_count, CRN_RUN, o);
    cairn_plan *plan = lower(&s, 0);
    visit_some(&s, plan, &machine);
    if (s.step_count > 0) {
        options.machine = &machine;
        CHECK(judge(&s, s.steps, s.step_count, s.goal, &options, &peak) == CAIRN_RULE_NONE);
        for (uint32_t i = 0; i < s.step_count; i++)
            visits += s.steps[i].kind == CAIRN_STEP_FETCH;
        judge_mutants(&s, peak);
    }
    cairn_plan_destroy(plan);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
    cairn_graph_destroy(step);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        check_seed(strtoull(argv[1], NULL, 10));
        check_homes(strtoull(argv[1], NULL, 10));
        return check_result();
    }
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        check_seed(seed);
        if (seed % 4 == 0)
            check_homes(seed);
        if (check_failures > 5)
            return check_result();
    }
    printf("%d graphs, %ld plans (%ld re-runs, %ld fetches, %ld in place), %ld frees moved\n",
           GRAPHS, plans, reruns, copies, inplaces, frees_moved);
    printf("%ld visits of what is at home on the host\n", visits);
    CHECK(visits > 1000);
    printf("%ld mutants, %ld of them legal\n", mutants, legal_mutants);
    for (int r = 0; r < RULES; r++) {
        printf("%8ld %s\n", rule_counts[r], crn_rule_name((cairn_rule)r));
        CHECK(rule_counts[r] > 0);
    }
    return check_result();
}
