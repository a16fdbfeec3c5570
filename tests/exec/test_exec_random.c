/* test_exec_random.c: the executor on seeded random graphs and plans, with the mixing backend.
 *
 *     plan     every op once, random recomputations, round trips to the host
 *     claims   the same bits as `none`: loss, gradients, parameters, running statistics; the
 *              measured peak is the predicted one; copies early or late, check mode or not
 */
#include "exec/fingerprint.h"
#include "plan/lower.h"
#include "property/random_graph.h"
#include "plan/crn_plan.h"

#define GRAPHS 600
#define LONGEST 400

static long reruns, round_trips, plans;

typedef struct list {
    crn_decision items[LONGEST];
    uint32_t count;
} list;

static void insert(list *l, uint32_t at, uint8_t kind, cairn_id id) {
    if (l->count == LONGEST)
        exit(1);
    memmove(&l->items[at + 1], &l->items[at], (l->count - at) * sizeof *l->items);
    l->items[at] = (crn_decision){kind, id};
    l->count++;
}

static bool may_run_again(const cairn_op *op) {
    return !(op->flags & CAIRN_OP_FLAG_NEVER_AGAIN) && op->output_count > 0 &&
           !((op->flags & CAIRN_OP_FLAG_ONCE) && op->phase == CAIRN_PHASE_UPDATE);
}

/* Insert recomputations of ops anywhere after their first run. */
static void strew_reruns(crn_rng *rng, const cairn_graph *graph, list *l) {
    for (uint32_t n = below(rng, 12); n > 0 && l->count + 8 < LONGEST; n--) {
        uint32_t from = below(rng, l->count);
        crn_decision d = l->items[from];
        if (d.kind == CRN_RUN && may_run_again(cairn_graph_op(graph, d.id)))
            insert(l, from + 1 + below(rng, l->count - from), CRN_RUN, d.id);
    }
}

static bool makes(const cairn_graph *graph, crn_decision d, cairn_id t) {
    return d.kind == CRN_RUN && cairn_graph_tensor(graph, t)->producer == d.id;
}

static bool reads(const cairn_graph *graph, crn_decision d, cairn_id t) {
    if (d.kind != CRN_RUN)
        return false;
    const cairn_op *op = cairn_graph_op(graph, d.id);
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] == t)
            return true;
    return false;
}

/* Offload a tensor after it is made and fetch it before a later reader. */
static void add_round_trip(crn_rng *rng, const cairn_graph *graph, list *l) {
    cairn_id t = below(rng, cairn_graph_tensor_count(graph));
    const cairn_tensor *tensor = cairn_graph_tensor(graph, t);
    if (tensor->stationary || tensor->role == CAIRN_ROLE_PARAMETER ||
        tensor->role == CAIRN_ROLE_STATE)
        return;
    uint32_t made = tensor->producer == CAIRN_NONE ? 0 : UINT32_MAX, read = UINT32_MAX;
    for (uint32_t i = 0; i < l->count; i++) {
        if (l->items[i].kind != CRN_RUN && l->items[i].id == t)
            return; /* one is enough */
        if (made == UINT32_MAX && makes(graph, l->items[i], t))
            made = i + 1;
        if (made != UINT32_MAX && i >= made && reads(graph, l->items[i], t))
            read = i; /* the last */
    }
    if (made == UINT32_MAX || read == UINT32_MAX || read < made + 1)
        return;
    uint32_t fetch = made + below(rng, read - made + 1);
    for (uint32_t i = made; i < fetch; i++)
        if (reads(graph, l->items[i], t) && one_in(rng, 2))
            made = i + 1; /* offload after one of its readers instead */
    insert(l, fetch, CRN_FETCH, t);
    if (one_in(rng, 2))
        insert(l, fetch, CRN_EVICT, t);
    insert(l, made, CRN_OFFLOAD, t);
}

/* The same steps with random implementations; all runs of an op use the same one. */
static cairn_plan *choose_implementations(crn_rng *rng, const cairn_graph *graph,
                                          cairn_plan *plan) {
    crn_plan_builder *builder;
    cairn_plan *chosen;
    cairn_error err = {0};
    const cairn_step *steps = plan->steps;
    uint32_t count = plan->step_count;
    uint8_t *by = calloc(cairn_graph_op_count(graph), sizeof *by);
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++)
        by[o] = (uint8_t)below(rng, 2);
    CHECK_OK(crn_plan_builder_create(NULL, &builder), &err);
    for (uint32_t i = 0; i < count; i++) {
        cairn_step step = steps[i];
        if (step.kind == CAIRN_STEP_RUN)
            step.implementation = by[step.id];
        CHECK_OK(crn_plan_builder_add(builder, step), &err);
    }
    CHECK_OK(crn_plan_builder_finish(builder, graph, plan->header, &chosen, &err), &err);
    crn_plan_builder_destroy(builder);
    cairn_plan_destroy(plan);
    free(by);
    return chosen;
}

/* A plan of random decisions, or NULL if the plan is not legal. */
static cairn_solution *random_plan(crn_rng *rng, const cairn_graph *graph,
                                   const cairn_costs *costs) {
    list l = {.count = 0};
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++)
        insert(&l, o, CRN_RUN, o);
    strew_reruns(rng, graph, &l);
    for (uint32_t n = below(rng, 6); n > 0; n--)
        add_round_trip(rng, graph, &l);
    crn_arena arena;
    crn_arena_init(&arena, NULL);
    crn_schedule schedule = {0};
    cairn_plan *plan = NULL;
    cairn_error err = {0};
    for (uint32_t i = 0; i < l.count; i++)
        CHECK_OK(
            crn_schedule_add(&schedule, &arena, (crn_decision_kind)l.items[i].kind, l.items[i].id),
            &err);
    cairn_status status =
        crn_lower(graph, costs, &schedule, CAIRN_GOAL_TRAIN, one_in(rng, 2) ? 0 : 1, &plan, &err);
    crn_arena_release(&arena);
    if (status == CAIRN_OK && one_in(rng, 2))
        plan = choose_implementations(rng, graph, plan);
    cairn_solution *solution = NULL;
    if (status == CAIRN_OK &&
        cairn_solution_create(graph, costs, plan, NULL, &solution, &err) == CAIRN_OK) {
        plans++;
        reruns += solution->sim->summary->reruns;
        round_trips += solution->sim->summary->fetches;
    }
    cairn_plan_destroy(plan);
    return solution;
}

/* Devices that copy by threads, as late as possible, and as early as possible. */
static cairn_device *devices[3];

static void check_graph(uint64_t seed) {
    crn_rng rng = {seed};
    cairn_error err = {0};
    cairn_costs *costs;
    cairn_solution *none, *solution;
    cairn_graph *graph = one_in(&rng, 2) ? random_graph(&rng) : random_network(&rng);
    CHECK_OK(cairn_bind(graph, devices[0], &costs, &err), &err);
    CHECK_OK(cairn_solve(graph, costs, "none", NULL, &none, &err), &err);
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    options.seed = seed;
    fingerprint expected = fingerprint_of(devices[0], graph, costs, none, &options);
    for (int i = 0; i < 4; i++) {
        options.check = one_in(&rng, 2);
        cairn_device *device = devices[below(&rng, 3)];
        solution = random_plan(&rng, graph, costs);
        if (solution == NULL)
            continue;
        fingerprint f = fingerprint_of(device, graph, costs, solution, &options);
        if (!same_fingerprint(&f, &expected)) {
            fprintf(stderr, "seed %" PRIu64 ", plan %d: other bits than none\n", seed, i);
            check_failures++;
        }
        cairn_solution_destroy(solution);
    }
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
}

int main(void) {
    static const char *const names[] = {"mixing", "mixing-late", "mixing-early"};
    for (int i = 0; i < 3; i++)
        devices[i] = test_device(names[i], 1);
    for (uint64_t seed = 0; seed < GRAPHS && check_failures < 10; seed++)
        check_graph(seed);
    for (int i = 0; i < 3; i++)
        cairn_device_close(devices[i]);
    printf("%ld plans, %ld re-runs, %ld round trips\n", plans, reruns, round_trips);
    CHECK(plans > GRAPHS && reruns > GRAPHS && round_trips > GRAPHS);
    return check_result();
}
