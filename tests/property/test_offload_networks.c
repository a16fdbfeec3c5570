/* test_offload_networks.c: offloading on networks. For every network of the zoo and several
 * budgets, the simulator accepts the plan, the arena is within the budget, no plan is shorter than
 * the bound, and the search is never worse than the others. On graphs of the abstract chain the
 * simulator agrees with the recurrences. */
#include "base/rng.h"
#include "cairn.h"
#include "cairn/papers.h"
#include "check.h"
#include "solve/offload/offload_solvers.h"
#include "solve/offload/trips_by_chain.h"
#include "ration.h"
#include "graph/crn_graph.h"
#include "import/importer.h"

static const char *const algorithms[] = {"vdnn",           "tflms",           "autoswap",
                                         "offload-greedy", "offload-dynprog", "offload-best"};
enum { ALGORITHMS = sizeof algorithms / sizeof *algorithms, BEST = ALGORITHMS - 1 };

typedef struct network {
    cairn_graph *graph;
    cairn_costs *costs;
    cairn_machine machine;
} network;

static network open_network(const char *name, const char *machine) {
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    cairn_graph *forward;
    cairn_error err = {0};
    network net;
    bool recurrent = strcmp(name, "rnn") == 0 || strcmp(name, "lstm") == 0;
    options.batch = 2;
    options.steps = recurrent ? 12 : 0;
    if (strncmp(name, "densenet", 8) == 0 || strcmp(name, "unet") == 0)
        options.input[0] = 3, options.input[1] = options.input[2] = 64;
    CHECK_OK(crn_zoo_build(NULL, name, &options, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &net.graph, &err), &err);
    net.machine = (cairn_machine)CAIRN_MACHINE_INIT;
    CHECK_OK(cairn_machine_find(machine, &net.machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(net.graph, &net.machine, &net.costs, &err), &err);
    cairn_graph_destroy(forward);
    return net;
}

static void close_network(network *net) {
    cairn_costs_destroy(net->costs);
    cairn_graph_destroy(net->graph);
}

static crn_problem problem_of(const network *net, crn_arena *scratch, cairn_error *err) {
    return (crn_problem){.graph = net->graph,
                         .costs = net->costs,
                         .machine = &net->machine,
                         .budget = UINT64_MAX,
                         .scratch = scratch,
                         .err = err};
}

/* ---- The walk against the simulator ---- */

/* The time of the walk is that of the simulator, and its memory is within the budget. */
static void check_choice(const crn_trips *trips, crn_trip_choice *choice, uint64_t budget) {
    const crn_problem *p = trips->problem;
    crn_schedule schedule = {0};
    cairn_plan *plan;
    cairn_sim *sim;
    cairn_error err = {0};
    int64_t time, again;
    CHECK_OK(crn_trips_prune(trips, budget, choice, &time), &err);
    if (time < 0)
        return;
    uint8_t *stayed = crn_arena_take(p->scratch, trips->count, 1);
    CHECK_OK(crn_trips_walk(trips, budget, choice, INT64_MAX, &schedule, stayed, &again), &err);
    CHECK(again == time);
    CHECK_OK(crn_lower(p->graph, p->costs, &schedule, CAIRN_GOAL_TRAIN, budget, &plan, &err), &err);
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    options.machine = p->machine;
    options.budget_bytes = budget;
    CHECK_OK(cairn_simulate(p->graph, p->costs, plan, &options, &sim, &err), &err);
    const cairn_sim_summary *s = sim->summary;
    uint32_t moved = 0, idle = 0;
    for (uint32_t i = 0; i < trips->count; i++) {
        moved += choice->moved[i];
        idle += stayed[i];
    }
    CHECK(s->time_ns <= time);
    if (idle == 0) {
        CHECK_U64((uint64_t)s->time_ns, (uint64_t)time);
        CHECK_U64(s->offloads, moved);
        CHECK_U64(s->fetches, moved);
    }
    CHECK(s->time_ns >= crn_trips_bound(trips, budget));
    cairn_sim_destroy(sim);
    cairn_plan_destroy(plan);
}

/* Random choices, places and budgets. */
static void check_walks(const network *net, crn_rng *rng) {
    crn_arena scratch;
    cairn_error err = {0};
    crn_trips trips;
    crn_arena_init(&scratch, NULL);
    crn_problem problem = problem_of(net, &scratch, &err);
    CHECK_OK(crn_trips_build(&problem, &trips), &err);
    CHECK(trips.floor <= trips.peak && trips.count > 0);
    uint64_t *room = crn_arena_take(&scratch, trips.ops, sizeof *room);
    for (uint32_t round = 0; round < 12; round++) {
        crn_trip_choice choice;
        uint64_t budget = trips.floor + (trips.peak - trips.floor) * (round % 4) / 4;
        CHECK_OK(crn_trip_choice_make(&trips, &choice), &err);
        for (uint32_t i = 0; i < trips.count && round >= 4; i++) {
            const crn_trip *trip = &trips.list[i];
            choice.moved[i] = crn_rng_below(rng, 2) == 0;
            if (round >= 8 && crn_rng_below(rng, 8) == 0)
                choice.out_at[i] += (uint32_t)crn_rng_below(rng, trip->need - trip->made);
            if (round >= 8 && crn_rng_below(rng, 8) == 0)
                choice.in_at[i] = (uint32_t)crn_rng_below(rng, trip->need + 1);
        }
        choice.pushes = round % 2 == 1;
        crn_trips_fit(&trips, budget, &choice, room);
        check_choice(&trips, &choice, budget);
    }
    crn_arena_release(&scratch);
}

/* ---- Every algorithm on a network ---- */

static int64_t check_plan(const network *net, const char *name, uint64_t budget, int64_t bound) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_error err = {0};
    cairn_solution *solution;
    options.machine = &net->machine;
    options.budget_bytes = budget;
    cairn_status status = cairn_solve(net->graph, net->costs, name, &options, &solution, &err);
    if (status == CAIRN_INFEASIBLE) {
        CHECK(solution == NULL && err.smallest_budget > budget);
        CHECK(crn_graph_find_op(net->graph, err.name) != CAIRN_NONE);
        return -1;
    }
    CHECK_OK(status, &err);
    int64_t time = solution->sim->summary->time_ns;
    CHECK(solution->layout->arena_bytes <= budget);
    CHECK(solution->sim->summary->reruns == 0);
    CHECK(time >= bound);
    cairn_solution_destroy(solution);
    return time;
}

/* Below the floor every algorithm refuses; with the peak nothing moves. */
static void check_budget(const network *net, const crn_trips *trips, uint64_t budget) {
    int64_t bound = crn_trips_bound(trips, CRN_MAX(budget, trips->floor)), times[ALGORITHMS];
    for (int a = 0; a < ALGORITHMS; a++) {
        times[a] = check_plan(net, algorithms[a], budget, bound);
        CHECK(budget >= trips->floor || times[a] < 0);
        CHECK(budget < trips->peak || times[a] == trips->to_go[0]);
    }
    for (int a = 0; a < BEST; a++)
        CHECK(times[a] < 0 || (times[BEST] >= 0 && times[BEST] <= times[a]));
}

/* Each network runs one of the algorithms in turn, and every second one the search: all algorithms
 * on all networks would take a minute. */
static void check_two(const network *net, const crn_trips *trips, uint64_t budget, uint32_t which) {
    int64_t bound = crn_trips_bound(trips, budget);
    int64_t other = check_plan(net, algorithms[which % BEST], budget, bound);
    CHECK(other >= 0);
    if (which % 2 == 0) {
        int64_t best = check_plan(net, algorithms[BEST], budget, bound);
        CHECK(best >= 0 && best <= other);
    }
    CHECK(check_plan(net, algorithms[which % BEST], trips->floor / 2, 0) < 0);
}

static void check_network(const char *name, const char *machine, uint32_t which) {
    network net = open_network(name, machine);
    crn_rng rng = {7};
    crn_arena scratch;
    cairn_error err = {0};
    crn_trips trips;
    crn_arena_init(&scratch, NULL);
    crn_problem problem = problem_of(&net, &scratch, &err);
    CHECK_OK(crn_trips_build(&problem, &trips), &err);
    check_walks(&net, &rng);
    uint64_t budget = trips.floor + (trips.peak - trips.floor) * 2 / 5;
    if (trips.ops < 200)
        check_budget(&net, &trips, budget);
    else
        check_two(&net, &trips, budget, which);
    crn_arena_release(&scratch);
    close_network(&net);
}

static void test_zoo(void) {
    const cairn_zoo_entry *entry;
    static const char *const machines[] = {"v100", "cpu", "h200"};
    for (uint32_t i = 0; (entry = cairn_zoo_list(i)) != NULL; i++)
        check_network(entry->name, machines[i % 3], i);
}

/* With more memory than none needs, nothing is offloaded. Two runs give the same plan. */
static void test_ends(void) {
    network net = open_network("resnet18", "v100");
    crn_arena scratch;
    cairn_error err = {0};
    crn_trips trips;
    crn_arena_init(&scratch, NULL);
    crn_problem problem = problem_of(&net, &scratch, &err);
    CHECK_OK(crn_trips_build(&problem, &trips), &err);
    check_budget(&net, &trips, trips.peak + trips.peak / 8);
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.machine = &net.machine;
    options.budget_bytes = trips.peak / 2;
    cairn_solution *first, *second;
    cairn_text one, two;
    CHECK_OK(cairn_solve(net.graph, net.costs, "offload-best", &options, &first, &err), &err);
    CHECK_OK(cairn_solve(net.graph, net.costs, "offload-best", &options, &second, &err), &err);
    CHECK_OK(cairn_plan_to_text(first->plan, net.graph, &one), &err);
    CHECK_OK(cairn_plan_to_text(second->plan, net.graph, &two), &err);
    CHECK_STRING(one.data, two.data);
    cairn_text_release(&one);
    cairn_text_release(&two);
    cairn_solution_destroy(first);
    cairn_solution_destroy(second);
    crn_arena_release(&scratch);
    close_network(&net);
}

/* ---- Graphs that are the abstract chain ---- */

#define UNIT 64u  /* bytes of a size unit, so that nothing is rounded up */
#define TICK 1000 /* ns to move a size unit */
#define MOST_LAYERS 16

/* F_i reads x_i and makes x_{i+1}; B_i reads x_i, x_{i+1}, y_{i+1} and makes y_i. What is not made
 * by any op, y_{L+1}, is part of B_L's workspace. */
typedef struct chain_graph {
    cairn_id x[MOST_LAYERS + 1], y[MOST_LAYERS + 1];
    network net;
} chain_graph;

static cairn_id add_tensor(cairn_builder *b, const char *kind, uint32_t i, cairn_role role,
                           uint64_t units) {
    char name[32];
    cairn_tensor t = CAIRN_TENSOR_INIT;
    if (units == 0)
        return CAIRN_NONE;
    snprintf(name, sizeof name, "%s%u", kind, i);
    t.name = name;
    t.role = role;
    t.bytes = units * UNIT;
    return cairn_builder_tensor(b, &t);
}

static void add_op(cairn_builder *b, const char *kind, uint32_t i, cairn_phase phase, cairn_id of,
                   const cairn_id *read, uint32_t reads, cairn_id made) {
    char name[32];
    cairn_id inputs[4];
    cairn_op op = {.kind = CAIRN_OP_OPAQUE, .phase = phase, .of = of, .inputs = inputs};
    snprintf(name, sizeof name, "%s%u", kind, i);
    op.name = name;
    for (uint32_t k = 0; k < reads; k++)
        if (read[k] != CAIRN_NONE)
            inputs[op.input_count++] = read[k];
    op.outputs = &made;
    op.output_count = made != CAIRN_NONE;
    cairn_builder_op(b, &op);
}

static void set_costs(network *net, const cairn_offload_problem *p) {
    for (uint32_t i = 0; i < p->layers; i++) {
        uint64_t last = i + 1 == p->layers ? p->gradients[p->layers] : 0;
        int64_t tick = (int64_t)(TICK * p->bandwidth);
        cairn_implementation forward = {.name = "given",
                                        .time_ns = (int64_t)p->forward_time[i] * tick,
                                        .workspace_bytes = p->forward_extra[i] * UNIT};
        cairn_implementation backward = {.name = "given",
                                         .time_ns = (int64_t)p->backward_time[i] * tick,
                                         .workspace_bytes = (p->backward_extra[i] + last) * UNIT};
        cairn_error err = {0};
        CHECK_OK(cairn_costs_set_op(net->costs, i, &forward, 1), &err);
        CHECK_OK(cairn_costs_set_op(net->costs, 2 * p->layers - 1 - i, &backward, 1), &err);
    }
}

static chain_graph build_chain(const cairn_offload_problem *p) {
    chain_graph g = {0};
    cairn_builder *b;
    cairn_error err = {0};
    uint32_t n = p->layers;
    CHECK_OK(cairn_builder_create(NULL, "chain", &b), &err);
    for (uint32_t i = 0; i <= n; i++)
        g.x[i] = add_tensor(b, "x", i, i == 0 ? CAIRN_ROLE_INPUT : CAIRN_ROLE_ACTIVATION,
                            p->activations[i]);
    for (uint32_t i = 0; i < n; i++)
        g.y[i] = add_tensor(b, "y", i, CAIRN_ROLE_GRADIENT, p->gradients[i]);
    g.y[n] = CAIRN_NONE;
    for (uint32_t i = 0; i < n; i++)
        add_op(b, "F", i, CAIRN_PHASE_FORWARD, CAIRN_NONE, &g.x[i], 1, g.x[i + 1]);
    for (uint32_t i = n; i-- > 0;) {
        cairn_id read[] = {g.x[i], g.x[i + 1], g.y[i + 1]};
        add_op(b, "B", i, CAIRN_PHASE_BACKWARD, i, read, 3, g.y[i]);
    }
    CHECK_OK(cairn_builder_finish(b, &g.net.graph, &err), &err);
    cairn_builder_destroy(b);
    CHECK_OK(cairn_costs_create(g.net.graph, &g.net.costs, &err), &err);
    set_costs(&g.net, p);
    g.net.machine = (cairn_machine){.struct_size = sizeof(cairn_machine),
                                    .name = "chain",
                                    .link_bytes_per_second = UNIT * 1000000000ull / TICK,
                                    .memory_bytes = UINT64_MAX / 4,
                                    .host_memory_bytes = UINT64_MAX / 4};
    return g;
}

/* The chain view of the network is the chain that it was made from. */
static void check_view(const chain_graph *g, const cairn_offload_problem *p,
                       cairn_offload_layers layers) {
    cairn_offload_view *view;
    cairn_offload_bounds is, was;
    cairn_error err = {0};
    CHECK_OK(
        cairn_offload_view_create(g->net.graph, g->net.costs, &g->net.machine, layers, &view, &err),
        &err);
    cairn_offload_problem seen = view->problem;
    seen.memory = p->memory * UNIT;
    CHECK_OK(cairn_offload_bound(NULL, &seen, &is, &err), &err);
    CHECK_OK(cairn_offload_bound(NULL, p, &was, &err), &err);
    CHECK_U64(seen.layers, p->layers);
    CHECK_U64(is.peak_memory, was.peak_memory * UNIT);
    CHECK_U64(is.min_memory, was.min_memory * UNIT);
    CHECK_U64(is.compute_x_beta, was.compute_x_beta * UNIT);
    CHECK_U64(is.lower_bound_x_beta, was.lower_bound_x_beta * UNIT);
    CHECK_U64(is.fractional_x_beta, was.fractional_x_beta * UNIT);
    cairn_offload_view_destroy(view);
}

/* The schedule of a solution as a list of decisions: a copy comes at the last op boundary before it
 * starts; a tensor is freed at the first op that begins after its copy has ended. */
static void list_schedule(const chain_graph *g, const cairn_offload_problem *p,
                          const cairn_offload_solution *s, crn_arena *arena, crn_schedule *out) {
    cairn_error err = {0};
    uint32_t n = p->layers;
    bool gone[MOST_LAYERS] = {0}, back[MOST_LAYERS] = {0}, asked[MOST_LAYERS] = {0};
    for (uint32_t k = 0; k < 2 * n; k++) {
        uint32_t layer = k < n ? k : 2 * n - 1 - k;
        uint64_t start = k < n ? s->forward_start_x_beta[layer] : s->backward_start_x_beta[layer];
        uint64_t length = (k < n ? p->forward_time : p->backward_time)[layer] * p->bandwidth;
        for (uint32_t t = 0; t < s->transfer_count; t++) {
            const cairn_offload_transfer *move = &s->transfers[t];
            uint32_t i = move->activation;
            uint64_t end = move->offload_start_x_beta + p->activations[i];
            if (!asked[i] && k >= i && (move->offload_start_x_beta < start + length || k > i)) {
                asked[i] = true;
                CHECK_OK(crn_schedule_add(out, arena, CRN_OFFLOAD, g->x[i]), &err);
            }
            if (asked[i] && !gone[i] && k > i && end <= start) {
                gone[i] = true;
                CHECK_OK(crn_schedule_add(out, arena, CRN_EVICT, g->x[i]), &err);
            }
        }
        for (uint32_t t = s->transfer_count; t-- > 0;) {
            const cairn_offload_transfer *move = &s->transfers[t];
            uint32_t i = move->activation;
            if (gone[i] && !back[i] && (move->fetch_start_x_beta < start + length || layer == i)) {
                back[i] = true;
                CHECK_OK(crn_schedule_add(out, arena, CRN_FETCH, g->x[i]), &err);
            }
        }
        CHECK_OK(crn_schedule_add(out, arena, CRN_RUN, k), &err);
    }
}

/* If a list can express a schedule of the recurrences, the simulator finds the same length. Returns
 * whether it can. */
static bool check_list(const chain_graph *g, const cairn_offload_problem *p,
                       const cairn_offload_solution *s) {
    crn_arena arena;
    crn_schedule schedule = {0};
    cairn_plan *plan;
    cairn_sim *sim;
    cairn_error err = {0};
    crn_arena_init(&arena, NULL);
    list_schedule(g, p, s, &arena, &schedule);
    CHECK_OK(crn_lower(g->net.graph, g->net.costs, &schedule, CAIRN_GOAL_TRAIN, 0, &plan, &err),
             &err);
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    options.machine = &g->net.machine;
    options.budget_bytes = p->memory * UNIT;
    bool legal = cairn_simulate(g->net.graph, g->net.costs, plan, &options, &sim, &err) == CAIRN_OK;
    bool equal = legal && (uint64_t)sim->summary->time_ns == s->makespan_x_beta * TICK;
    cairn_sim_destroy(sim);
    cairn_plan_destroy(plan);
    crn_arena_release(&arena);
    return equal;
}

/* The budget is for the live peak here, because the layout of a chain of ten tensors may not be
 * perfect. */
static int64_t search_time(const chain_graph *g, const char *name, uint64_t budget) {
    crn_arena scratch;
    cairn_error err = {0};
    crn_schedule schedule = {0};
    cairn_plan *plan;
    cairn_sim *sim;
    crn_arena_init(&scratch, NULL);
    crn_problem problem = problem_of(&g->net, &scratch, &err);
    problem.budget = budget;
    problem.algorithm = name;
    if (strcmp(name, "offload-best") == 0)
        CHECK_OK(crn_solve_offload_best(&problem, &schedule), &err);
    else
        CHECK_OK(crn_solve_offload_pieces(&problem, &schedule), &err);
    CHECK_OK(
        crn_lower(g->net.graph, g->net.costs, &schedule, CAIRN_GOAL_TRAIN, budget, &plan, &err),
        &err);
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    options.machine = &g->net.machine;
    options.budget_bytes = budget;
    CHECK_OK(cairn_simulate(g->net.graph, g->net.costs, plan, &options, &sim, &err), &err);
    int64_t time = sim->summary->time_ns;
    cairn_sim_destroy(sim);
    cairn_plan_destroy(plan);
    crn_arena_release(&scratch);
    return time;
}

typedef struct tally {
    uint32_t cases, listed, greedy_equal, best_equal;
} tally;

/* Check one case: the view, the lists, and the solvers. */
static void check_chain(const cairn_offload_problem *p, tally *count) {
    cairn_offload_solution *greedy, *best;
    cairn_error err = {0};
    if (cairn_offload_solve(NULL, p, "offload-greedy", NULL, &greedy, &err) != CAIRN_OK)
        return;
    CHECK_OK(cairn_offload_solve(NULL, p, "offload-best", NULL, &best, &err), &err);
    chain_graph g = build_chain(p);
    check_view(&g, p, CAIRN_OFFLOAD_LAYERS_PIECES);
    check_view(&g, p, CAIRN_OFFLOAD_LAYERS_OPS);
    bool listed = check_list(&g, p, greedy);
    int64_t greedy_time = search_time(&g, "offload-greedy", p->memory * UNIT);
    int64_t best_time = search_time(&g, "offload-best", p->memory * UNIT);
    CHECK(greedy_time >= (int64_t)(best->bounds.fractional_x_beta * TICK));
    CHECK(best_time >= (int64_t)(best->bounds.fractional_x_beta * TICK));
    CHECK(!best->optimal || best_time >= (int64_t)(best->makespan_x_beta * TICK));
    count->cases++;
    count->listed += listed;
    count->greedy_equal += greedy_time == (int64_t)(greedy->makespan_x_beta * TICK);
    count->best_equal += best_time == (int64_t)(best->makespan_x_beta * TICK);
    CHECK(best_time <= greedy_time);
    close_network(&g.net);
    cairn_offload_solution_destroy(greedy);
    cairn_offload_solution_destroy(best);
}

static void test_examples(void) {
    cairn_error err = {0};
    cairn_text text;
    cairn_offload_cases *cases;
    tally count = {0};
    CHECK_OK(cairn_text_load(NULL, CAIRN_TEST_DATA "/offload_examples.json", &text, &err), &err);
    CHECK_OK(cairn_offload_cases_read(NULL, text.data, text.length, "e", &cases, &err), &err);
    for (uint32_t i = 0; i < cairn_offload_cases_count(cases); i++)
        check_chain(cairn_offload_cases_get(cases, i), &count);
    printf("examples: %u, greedy as a list %u, greedy equal %u, best equal %u\n", count.cases,
           count.listed, count.greedy_equal, count.best_equal);
    cairn_offload_cases_destroy(cases);
    cairn_text_release(&text);
}

static void fill_random(crn_rng *rng, uint64_t *to, uint32_t count, uint64_t low, uint64_t most) {
    for (uint32_t i = 0; i < count; i++)
        to[i] = low + crn_rng_below(rng, most - low + 1);
}

static void test_random_chains(void) {
    crn_rng rng = {11};
    tally count = {0};
    for (uint32_t round = 0; round < 40; round++) {
        uint64_t x[MOST_LAYERS + 1], y[MOST_LAYERS + 1], ef[MOST_LAYERS], eb[MOST_LAYERS],
            uf[MOST_LAYERS], ub[MOST_LAYERS];
        uint32_t n = 3 + (uint32_t)crn_rng_below(&rng, 10);
        fill_random(&rng, x, n + 1, 1, 9);
        fill_random(&rng, y, n + 1, 0, 9);
        fill_random(&rng, ef, n, 0, 5);
        fill_random(&rng, eb, n, 0, 5);
        fill_random(&rng, uf, n, 0, 9);
        fill_random(&rng, ub, n, 0, 9);
        cairn_offload_problem p = {n, x, y, ef, eb, uf, ub, 1, 0};
        cairn_offload_bounds bounds;
        cairn_error err = {0};
        CHECK_OK(cairn_offload_bound(NULL, &p, &bounds, &err), &err);
        p.memory =
            bounds.min_memory + crn_rng_below(&rng, bounds.peak_memory - bounds.min_memory + 1);
        check_chain(&p, &count);
    }
    printf("random chains: %u, greedy as a list %u, greedy equal %u, best equal %u\n", count.cases,
           count.listed, count.greedy_equal, count.best_equal);
    CHECK(count.cases == 40);
    CHECK(count.listed == count.cases && count.greedy_equal == count.cases);
    CHECK(count.best_equal >= count.cases * 9 / 10);
}

/* ---- Bad input, and no memory ---- */

static void test_bad_input(void) {
    network net = open_network("alexnet", "v100");
    cairn_error err = {0};
    cairn_solution *solution;
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.budget_bytes = 1 << 20;
    for (int a = 0; a < ALGORITHMS; a++) {
        CHECK(cairn_solve(net.graph, net.costs, algorithms[a], &options, &solution, &err) ==
              CAIRN_EINVAL);
        CHECK(solution == NULL && strstr(err.message, "machine") != NULL);
    }
    static const char *const rates[] = {"0", "-5", "1000000000000000001", "1e400", "\"fast\""};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        char text[512];
        cairn_machine machine = CAIRN_MACHINE_INIT;
        snprintf(text, sizeof text,
                 "{\"format\": \"cairn-machine\", \"version\": 1, \"name\": \"m\", "
                 "\"flops_per_second\": 1000, \"memory_bytes_per_second\": 1000, "
                 "\"launch_ns\": 0, \"link_bytes_per_second\": %s, \"link_latency_ns\": 0, "
                 "\"full_duplex\": false, \"memory_bytes\": 1000, \"host_memory_bytes\": 1000}",
                 rates[i]);
        CHECK(cairn_machine_from_json(text, strlen(text), "m.json", &machine, &err) != CAIRN_OK);
    }
    close_network(&net);
}

/* The slowest and fastest links that are allowed, and a host without memory. */
static void test_extreme_machines(void) {
    network net = open_network("alexnet", "v100");
    uint64_t rates[] = {1, 1000000000000000000u};
    cairn_error err = {0};
    cairn_solution *solution;
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.machine = &net.machine;
    CHECK_OK(cairn_solve(net.graph, net.costs, "none", NULL, &solution, &err), &err);
    options.budget_bytes = solution->plan->header->predicted_peak_bytes * 9 / 10;
    cairn_solution_destroy(solution);
    for (int a = 0; a < ALGORITHMS; a++)
        for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
            net.machine.link_bytes_per_second = rates[i];
            CHECK_OK(cairn_solve(net.graph, net.costs, algorithms[a], &options, &solution, &err),
                     &err);
            cairn_solution_destroy(solution);
        }
    net.machine.host_memory_bytes = 4096;
    for (int a = 0; a < ALGORITHMS; a++) {
        CHECK(cairn_solve(net.graph, net.costs, algorithms[a], &options, &solution, &err) ==
              CAIRN_INFEASIBLE);
        CHECK(err.smallest_budget > options.budget_bytes);
    }
    close_network(&net);
}

/* A small network. Its graph, and so everything that is made from it, uses the allocator. */
static cairn_status plan_with(const cairn_allocator *allocator, const char *name) {
    cairn_zoo_options zoo = CAIRN_ZOO_OPTIONS_INIT;
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_machine machine = CAIRN_MACHINE_INIT;
    cairn_graph *forward = NULL, *graph = NULL;
    cairn_costs *costs = NULL;
    cairn_solution *solution = NULL;
    cairn_offload_view *view = NULL;
    cairn_error err = {0};
    zoo.batch = 1;
    zoo.steps = 3;
    CHECK_OK(cairn_machine_find("v100", &machine, &err), &err);
    options.machine = &machine;
    options.budget_bytes = 16000;
    cairn_status status = crn_zoo_build(allocator, "rnn", &zoo, &forward, &err);
    if (status == CAIRN_OK)
        status = cairn_graph_differentiate(forward, NULL, &graph, &err);
    if (status == CAIRN_OK)
        status = cairn_costs_analytic(graph, &machine, &costs, &err);
    if (status == CAIRN_OK)
        status = cairn_solve(graph, costs, name, &options, &solution, &err);
    if (status == CAIRN_INFEASIBLE)
        status = CAIRN_OK; /* all allocations succeeded */
    if (status == CAIRN_OK)
        status = cairn_offload_view_create(graph, costs, &machine, CAIRN_OFFLOAD_LAYERS_PIECES,
                                           &view, &err);
    cairn_offload_view_destroy(view);
    cairn_solution_destroy(solution);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
    cairn_graph_destroy(forward);
    return status;
}

static void test_out_of_memory(void) {
    static const char *const names[] = {"offload-dynprog", "offload-best"};
    for (size_t k = 0; k < 2; k++) {
        cairn_status status = CAIRN_ENOMEM;
        for (long allowed = 0; status != CAIRN_OK && allowed < 4000; allowed++) {
            ration f = {allowed, 0};
            cairn_allocator allocator = {rationed, &f};
            status = plan_with(&allocator, names[k]);
            CHECK(status == CAIRN_OK || status == CAIRN_ENOMEM);
            CHECK(f.held == 0);
        }
        CHECK(status == CAIRN_OK);
    }
}

int main(void) {
    test_bad_input();
    test_extreme_machines();
    test_examples();
    test_random_chains();
    test_out_of_memory();
    test_ends();
    test_zoo();
    return check_result();
}
