/* test_whole_step.c: a graph with updates trains with the bits of the step whose update comes at
 * the end, in less memory: over networks, optimisers, micro-batches, algorithms, and with a
 * parameter that is updated in parts. Argument: the backend. */
#include "exec/fingerprint.h"
#include "exec/small_networks.h"
#include "exec/subject.h"
#include "exec/toy_network.h"

#define UPDATES 3

static const char *backend = "ref";

static cairn_graph *toy(void) {
    return toy_network(NULL, 2, 16);
}

static cairn_graph *recurrent(void) {
    return small_network("lstm", 1);
}

static cairn_graph *residual(void) {
    return small_network("resnet18", 16);
}

/* A weight of 20 MB, which is updated in two parts. */
static cairn_graph *large(void) {
    cairn_builder *b;
    cairn_graph *forward, *graph;
    cairn_error err = {0};
    uint32_t batch = 2;
    CHECK_OK(cairn_builder_create(NULL, "large", &b), &err);
    cairn_id x = cairn_build_input(b, "input", 2, (uint32_t[]){batch, 5000});
    x = cairn_build_linear(b, "fc1", x, 1000);
    x = cairn_build_linear(b, "fc2", x, 10);
    cairn_build_cross_entropy(b, "loss", x, cairn_build_label(b, "label", 1, &batch));
    CHECK_OK(cairn_builder_finish(b, &forward, &err), &err);
    cairn_builder_destroy(b);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &graph, &err), &err);
    cairn_graph_destroy(forward);
    return graph;
}

/* The same with its updates. */
static cairn_graph *with_updates(cairn_graph *step, const cairn_exec_options *options) {
    cairn_graph *whole;
    cairn_error err = {0};
    CHECK_OK(cairn_graph_add_updates(step, cairn_optimizer_slots(options), &whole, &err), &err);
    CHECK(cairn_graph_has_updates(whole) && !cairn_graph_has_updates(step));
    cairn_graph_destroy(step);
    return whole;
}

/* ---- What training leaves ---- */

typedef struct outcome {
    float losses[UPDATES];
    char sha256[65]; /* of parameters and state */
    uint64_t slots;  /* a hash of what the optimiser keeps */
    uint64_t bytes;  /* arena and stationary memory */
} outcome;

static uint64_t hash_slots(const subject *s) {
    uint64_t hash = 1;
    cairn_error err = {0};
    for (cairn_id t = 0; t < cairn_graph_tensor_count(s->graph); t++) {
        const cairn_tensor *tensor = cairn_graph_tensor(s->graph, t);
        if (tensor->role != CAIRN_ROLE_PARAMETER)
            continue;
        float *data = malloc(tensor->bytes);
        for (uint32_t slot = 0; cairn_exec_slot_name(s->exec, slot) != NULL; slot++) {
            CHECK_OK(cairn_exec_read_slot(s->exec, t, slot, data, &err), &err);
            for (uint64_t i = 0; i < tensor->bytes / sizeof *data; i++) {
                uint32_t bits;
                memcpy(&bits, &data[i], sizeof bits);
                hash = crn_mix(hash, bits);
            }
            /* what is read can be written */
            CHECK_OK(cairn_exec_write_slot(s->exec, t, slot, data, &err), &err);
        }
        free(data);
    }
    return hash;
}

static outcome train(subject *s, uint32_t micro_batches) {
    outcome out = {0};
    cairn_error err = {0};
    for (uint32_t i = 0; i < UPDATES * micro_batches; i++) {
        cairn_exec_result result = run_step(s->exec, i, i);
        out.losses[i / micro_batches] = result.loss;
        CHECK_U64(result.measured_peak_bytes, cairn_sim_result(s->solution->sim)->peak_bytes);
    }
    CHECK_OK(cairn_exec_sha256(s->exec, CAIRN_EXEC_PARAMETERS | CAIRN_EXEC_STATE, out.sha256, &err),
             &err);
    out.slots = hash_slots(s);
    const cairn_exec_figures *f = cairn_exec_get_figures(s->exec);
    out.bytes = f->arena_bytes + f->stationary_bytes;
    CHECK_U64(cairn_exec_updates(s->exec), UPDATES);
    return out;
}

static bool same(const outcome *a, const outcome *b) {
    return memcmp(a->losses, b->losses, sizeof a->losses) == 0 &&
           strcmp(a->sha256, b->sha256) == 0 && a->slots == b->slots;
}

/* ---- Tests ---- */

typedef struct row {
    cairn_graph *(*make)(void);
    cairn_optimizer optimizer;
    float momentum;
    double weight_decay;
    uint32_t micro_batches;
    bool check;
} row;

static const row rows[] = {
    {toy, CAIRN_OPTIMIZER_SGD, 0.9f, 0, 1, false},
    {toy, CAIRN_OPTIMIZER_SGD, 0, 0.01, 1, true},
    {toy, CAIRN_OPTIMIZER_ADAM, 0, 0.01, 1, true},
    {toy, CAIRN_OPTIMIZER_ADAMW, 0, 0.01, 3, false},
    {residual, CAIRN_OPTIMIZER_ADAMW, 0, 0.01, 1, false},
    {recurrent, CAIRN_OPTIMIZER_SGD, 0.9f, 0, 1, true},
    {recurrent, CAIRN_OPTIMIZER_ADAM, 0, 0, 2, false},
    {large, CAIRN_OPTIMIZER_ADAM, 0, 0, 1, false},
    {large, CAIRN_OPTIMIZER_SGD, 0.9f, 0, 2, false},
};

static cairn_exec_options options_of(const row *r) {
    cairn_exec_options options = CAIRN_EXEC_OPTIONS_INIT;
    options.optimizer = r->optimizer;
    options.momentum = r->momentum;
    options.weight_decay = r->weight_decay;
    options.micro_batches = r->micro_batches;
    options.check = r->check;
    options.update_in_run = true;
    return options;
}

static void test_same_bits(const row *r) {
    cairn_exec_options options = options_of(r);
    subject usual = subject_of(test_device(backend, 2), r->make(), "none", &options);
    subject whole =
        subject_of(test_device(backend, 2), with_updates(r->make(), &options), "none", &options);
    outcome a = train(&usual, r->micro_batches), b = train(&whole, r->micro_batches);
    CHECK(same(&a, &b));
    CHECK(b.bytes < a.bytes); /* gradients are freed */
    close_subject(&whole);
    close_subject(&usual);
}

/* Every algorithm makes a legal plan of the whole step, inside four fifths of the usual arena. */
static void test_algorithms(void) {
    cairn_exec_options options = options_of(&rows[3]);
    subject usual =
        subject_of(test_device(backend, 2), with_updates(toy(), &options), "none", &options);
    outcome expected = train(&usual, rows[3].micro_batches);
    const cairn_solver *solver;
    uint32_t solved = 0;
    for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL; i++) {
        cairn_solve_options solve = CAIRN_SOLVE_OPTIONS_INIT;
        subject s = usual;
        cairn_error err = {0};
        cairn_machine machine = CAIRN_MACHINE_INIT;
        CHECK_OK(cairn_machine_find("v100", &machine, &err), &err);
        solve.machine = &machine;
        solve.budget_bytes = cairn_layout_arena_bytes(usual.solution->layout) * 4 / 5;
        if (solver->goal != CAIRN_GOAL_TRAIN)
            continue;
        cairn_status status =
            cairn_solve(s.graph, s.costs, solver->name, &solve, &s.solution, &err);
        bool applies = status != CAIRN_EINVAL || strstr(err.message, "does not apply") == NULL;
        if (status == CAIRN_INFEASIBLE || !applies)
            continue;
        CHECK_OK(status, &err);
        CHECK_OK(cairn_exec_create(s.graph, s.device, s.costs, s.solution, &options, &s.exec, &err),
                 &err);
        outcome made = train(&s, rows[3].micro_batches);
        CHECK(same(&expected, &made));
        cairn_exec_destroy(s.exec);
        cairn_solution_destroy(s.solution);
        solved++;
    }
    CHECK(solved >= 5);
    close_subject(&usual);
}

/* A recomputation must not read an updated parameter, and the slots must be those of the
 * optimiser. */
static void test_wrong(void) {
    cairn_exec_options options = options_of(&rows[0]);
    cairn_error err = {0};
    cairn_graph *graph = with_updates(toy(), &options), *again;
    cairn_costs *costs;
    cairn_plan_builder *builder;
    cairn_plan_header header = CAIRN_PLAN_HEADER_INIT;
    cairn_plan *plan;
    CHECK(cairn_graph_add_updates(graph, 1, &again, &err) == CAIRN_EINVAL && again == NULL);
    CHECK_OK(cairn_costs_create(graph, &costs, &err), &err);
    CHECK_OK(cairn_plan_builder_create(NULL, &builder), &err);
    cairn_id update = cairn_graph_find_op(graph, "conv1.weight.update");
    CHECK(update != CAIRN_NONE);
    for (cairn_id o = 0; o <= update; o++)
        CHECK_OK(cairn_plan_builder_add(builder, (cairn_step){.kind = CAIRN_STEP_RUN, .id = o}),
                 &err);
    cairn_step repeat = {.kind = CAIRN_STEP_RUN, .id = cairn_graph_find_op(graph, "conv1")};
    CHECK_OK(cairn_plan_builder_add(builder, repeat), &err);
    CHECK_OK(cairn_plan_builder_finish(builder, graph, &header, &plan, &err), &err);
    CHECK(cairn_simulate(graph, costs, plan, NULL, NULL, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.message, "reads \"conv1.weight\" after its update") != NULL);
    cairn_plan_destroy(plan);
    cairn_plan_builder_destroy(builder);

    cairn_device *device = test_device(backend, 1);
    cairn_solution *solution;
    cairn_exec *exec;
    options.optimizer = CAIRN_OPTIMIZER_ADAM;
    cairn_costs_destroy(costs);
    CHECK_OK(cairn_bind(graph, device, &costs, &err), &err);
    CHECK_OK(cairn_solve(graph, costs, "none", NULL, &solution, &err), &err);
    CHECK(cairn_exec_create(graph, device, costs, solution, &options, &exec, &err) == CAIRN_EINVAL);
    CHECK(strstr(err.message, "have 1 slots, and the optimiser needs 2") != NULL);
    cairn_solution_destroy(solution);
    cairn_device_close(device);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
}

int main(int count, char **arguments) {
    if (count > 1)
        backend = arguments[1];
    for (size_t i = 0; i < CRN_LENGTH(rows); i++)
        test_same_bits(&rows[i]);
    test_algorithms();
    test_wrong();
    return 0;
}
