/* fuzz_auto.c: any bytes as a small training step of opaque ops, with costs and a budget. The plan
 * of `auto` is within the budget and not below the bound; a refusal names a budget that is solved.
 */
#include "fuzz.h"

#define MOST_FORWARD 7

typedef struct input {
    const uint8_t *data;
    size_t size, at;
} input;

static uint8_t next_byte(input *in) {
    return in->at < in->size ? in->data[in->at++] : 0;
}

typedef struct step {
    cairn_builder *builder;
    cairn_id x[MOST_FORWARD + 1];
    uint64_t bytes[MOST_FORWARD + 1];
    uint32_t forward;
} step;

static cairn_id add_tensor(step *s, const char *name, cairn_role role, uint64_t bytes,
                           uint8_t flags) {
    cairn_tensor t = CAIRN_TENSOR_INIT;
    t.name = name;
    t.role = role;
    t.bytes = bytes;
    t.stationary = flags & 1;
    t.result = flags & 2;
    return cairn_builder_tensor(s->builder, &t);
}

static void add_op(step *s, const char *name, cairn_phase phase, const cairn_id *reads,
                   uint32_t count, cairn_id made, bool in_place, uint32_t flags) {
    cairn_inplace pair = {0, 0};
    cairn_op op = {.kind = CAIRN_OP_OPAQUE, .phase = phase, .of = CAIRN_NONE, .name = name};
    op.inputs = reads;
    op.input_count = count;
    op.outputs = &made;
    op.output_count = 1;
    op.flags = flags;
    op.inplace = &pair;
    op.inplace_count = in_place;
    cairn_builder_op(s->builder, &op);
}

static void add_forward(step *s, input *in, uint32_t i) {
    char name[16];
    uint8_t size = next_byte(in), how = next_byte(in);
    cairn_id reads[2] = {s->x[i - 1], s->x[how % i]};
    bool same = size % 3 == 0, never = how % 16 == 15;
    s->bytes[i] = same ? s->bytes[i - 1] : 64 * (1 + (uint64_t)size);
    snprintf(name, sizeof name, "f%u", i);
    s->x[i] = add_tensor(s, name, CAIRN_ROLE_ACTIVATION, s->bytes[i], how % 11 == 10 ? 2 : 0);
    add_op(s, name, CAIRN_PHASE_FORWARD, reads, 1 + (how % i != i - 1), s->x[i],
           same && i > 1 && how & 64, never ? CAIRN_OP_FLAG_NEVER_AGAIN : 0);
}

static void add_backward(step *s, input *in, uint32_t i, cairn_id *gradient) {
    char name[16];
    uint8_t how = next_byte(in);
    cairn_id reads[3] = {*gradient};
    uint32_t count = 1;
    if (how & 1)
        reads[count++] = s->x[i - 1];
    if (how & 2)
        reads[count++] = s->x[i];
    snprintf(name, sizeof name, "g%u", i);
    *gradient = add_tensor(s, name, CAIRN_ROLE_GRADIENT, s->bytes[i - 1], i == 1);
    add_op(s, name, CAIRN_PHASE_BACKWARD, reads, count, *gradient, false, 0);
}

static cairn_graph *make_graph(input *in) {
    step s = {.forward = 1 + next_byte(in) % MOST_FORWARD};
    cairn_graph *graph;
    cairn_error err = {0};
    FUZZ_CHECK(cairn_builder_create(NULL, "step", &s.builder) == CAIRN_OK);
    s.bytes[0] = 64 * (1 + (uint64_t)next_byte(in));
    s.x[0] = add_tensor(&s, "x", CAIRN_ROLE_INPUT, s.bytes[0], 0);
    for (uint32_t i = 1; i <= s.forward; i++)
        add_forward(&s, in, i);
    cairn_id gradient = add_tensor(&s, "loss", CAIRN_ROLE_LOSS, 64, 0);
    add_op(&s, "loss", CAIRN_PHASE_FORWARD, &s.x[s.forward], 1, gradient, false, 0);
    for (uint32_t i = s.forward; i >= 1; i--)
        add_backward(&s, in, i, &gradient);
    cairn_status status = cairn_builder_finish(s.builder, &graph, &err);
    if (status != CAIRN_OK)
        fuzz_check_error(status, &err);
    cairn_builder_destroy(s.builder);
    return graph;
}

/* One way to run an op, or a fast one and one with less workspace. */
static cairn_costs *make_costs(const cairn_graph *graph, input *in) {
    cairn_costs *costs;
    cairn_error err = {0};
    FUZZ_CHECK(cairn_costs_create(graph, &costs, &err) == CAIRN_OK);
    for (cairn_id o = 0; o < cairn_graph_op_count(graph); o++) {
        uint8_t time = next_byte(in), workspace = next_byte(in);
        cairn_implementation ways[2] = {
            {.name = "fast", .time_ns = time, .workspace_bytes = 16 * (uint64_t)workspace},
            {.name = "small", .time_ns = 2 * (int64_t)time + 1}};
        FUZZ_CHECK(cairn_costs_set_op(costs, o, ways, 1 + workspace % 2) == CAIRN_OK);
    }
    return costs;
}

static uint64_t needed(const cairn_solution *solution, bool live) {
    return live ? solution->sim->summary->peak_bytes : solution->layout->arena_bytes;
}

static void check_solution(const cairn_graph *graph, const cairn_costs *costs,
                           cairn_solve_options *options) {
    cairn_solution *solution;
    cairn_error err = {0};
    cairn_status status = cairn_solve(graph, costs, "auto", options, &solution, &err);
    if (status == CAIRN_INFEASIBLE) {
        uint64_t smallest = err.smallest_budget;
        fuzz_check_error(status, &err);
        FUZZ_CHECK(smallest > options->budget_bytes);
        options->budget_bytes = smallest;
        status = cairn_solve(graph, costs, "auto", options, &solution, &err);
    }
    FUZZ_CHECK(status == CAIRN_OK);
    FUZZ_CHECK(needed(solution, options->live_peak) <= options->budget_bytes);
    FUZZ_CHECK(solution->lower_bound_ns <= solution->sim->summary->time_ns);
    cairn_solution_destroy(solution);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size, 0};
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    cairn_machine machine = *cairn_machine_list(0);
    cairn_solution *none;
    cairn_error err = {0};
    uint8_t percent = next_byte(&in), how = next_byte(&in);
    cairn_graph *graph = make_graph(&in);
    if (graph == NULL)
        return 0;
    cairn_costs *costs = make_costs(graph, &in);
    FUZZ_CHECK(cairn_solve(graph, costs, "none", NULL, &none, &err) == CAIRN_OK);
    machine.link_bytes_per_second = 1000000000 * (1 + (uint64_t)how);
    options.machine = &machine;
    options.no_offload = how & 1;
    options.live_peak = how & 2;
    options.budget_bytes = none->layout->arena_bytes * (percent % 101) / 100 + 1;
    check_solution(graph, costs, &options);
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
    return 0;
}
