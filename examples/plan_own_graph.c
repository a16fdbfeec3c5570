/* plan_own_graph.c: a plan for the training step of another program, with an address for every
 * tensor. Cairn only knows what its ops read, write and cost: see docs/embedding.md.
 *
 *     cc plan_own_graph.c $(pkg-config --cflags --libs cairn) -o plan_own_graph && ./plan_own_graph
 *
 * The step is a chain of LAYERS layers. Layer l makes h[l] from h[l-1]; its backward op reads
 * h[l-1] and the gradient g[l], and makes the gradient g[l-1]. */
#include <cairn.h>
#include <stdio.h>

#define LAYERS 6
#define MIB (1 << 20)

static cairn_id add_tensor(cairn_builder *builder, cairn_role role, const char *letter, int layer,
                           uint64_t bytes) {
    char name[16];
    snprintf(name, sizeof name, "%s%d", letter, layer);
    cairn_tensor tensor = CAIRN_TENSOR_INIT;
    tensor.name = name;
    tensor.role = role;
    tensor.bytes = bytes;
    return cairn_builder_tensor(builder, &tensor);
}

/* An op in list order. A backward op names the forward op that it belongs to. */
static cairn_id add_op(cairn_builder *builder, const char *letter, int layer, cairn_id of,
                       const cairn_id *inputs, uint32_t input_count, const cairn_id *output) {
    char name[16];
    snprintf(name, sizeof name, "%s%d", letter, layer);
    cairn_op op = {.name = name, .kind = CAIRN_OP_OPAQUE, .of = of};
    op.phase = of == CAIRN_NONE ? CAIRN_PHASE_FORWARD : CAIRN_PHASE_BACKWARD;
    op.inputs = inputs, op.input_count = input_count;
    op.outputs = output, op.output_count = 1;
    return cairn_builder_op(builder, &op);
}

/* A builder remembers its first error, so that only the end needs a check. */
static cairn_status build(cairn_graph **out, cairn_error *err) {
    cairn_builder *builder;
    cairn_status status = cairn_builder_create(NULL, "chain", &builder);
    if (status != CAIRN_OK)
        return status;
    cairn_id h[LAYERS + 1], g[LAYERS + 1], forward[LAYERS + 1];
    h[0] = add_tensor(builder, CAIRN_ROLE_INPUT, "h", 0, 8 * MIB);
    for (int l = 1; l <= LAYERS; l++) {
        h[l] = add_tensor(builder, CAIRN_ROLE_ACTIVATION, "h", l, 8 * MIB);
        forward[l] = add_op(builder, "forward", l, CAIRN_NONE, &h[l - 1], 1, &h[l]);
    }
    /* The loss turns the last activation into its gradient; nothing may repeat it. */
    g[LAYERS] = add_tensor(builder, CAIRN_ROLE_GRADIENT, "g", LAYERS, 8 * MIB);
    cairn_op loss = {.name = "loss", .kind = CAIRN_OP_OPAQUE, .phase = CAIRN_PHASE_BACKWARD};
    loss.of = forward[LAYERS];
    loss.flags = CAIRN_OP_FLAG_NEVER_AGAIN;
    loss.inputs = &h[LAYERS], loss.input_count = 1;
    loss.outputs = &g[LAYERS], loss.output_count = 1;
    loss.inplace = &(cairn_inplace){.output = 0, .input = 0}, loss.inplace_count = 1;
    cairn_builder_op(builder, &loss);
    for (int l = LAYERS; l > 0; l--) {
        const cairn_id inputs[] = {h[l - 1], g[l]};
        g[l - 1] = add_tensor(builder, CAIRN_ROLE_GRADIENT, "g", l - 1, 8 * MIB);
        add_op(builder, "backward", l, forward[l], inputs, 2, &g[l - 1]);
    }
    status = cairn_builder_finish(builder, out, err);
    cairn_builder_destroy(builder);
    return status;
}

/* Times should come from measurements of the other program; here every op takes a millisecond. */
static cairn_status measure(const cairn_graph *graph, cairn_costs **out, cairn_error *err) {
    cairn_status status = cairn_costs_create(graph, out, err);
    const cairn_implementation given = {.name = "given", .time_ns = 1000000};
    for (cairn_id op = 0; status == CAIRN_OK && op < cairn_graph_op_count(graph); op++)
        status = cairn_costs_set_op(*out, op, &given, 1);
    return status;
}

static void print(const cairn_graph *graph, const cairn_solution *solution) {
    const cairn_step *step = solution->plan->steps;
    uint32_t steps = solution->plan->step_count;
    for (uint32_t i = 0; i < steps; i++)
        printf("%2u  %-7s %s\n", i, cairn_step_kind_name(step[i].kind),
               step[i].kind == CAIRN_STEP_RUN ? cairn_graph_op(graph, step[i].id)->name
                                              : cairn_graph_tensor(graph, step[i].id)->name);
    const cairn_lifetime *lives = solution->sim->lifetimes;
    uint32_t lifetimes = solution->sim->lifetime_count;
    const uint64_t *offset = solution->layout->offsets;
    for (uint32_t i = 0; i < lifetimes; i++)
        printf("%-4s steps %2u to %2u at offset %llu MiB\n",
               lives[i].tensor == CAIRN_NONE ? "work"
                                             : cairn_graph_tensor(graph, lives[i].tensor)->name,
               lives[i].first, lives[i].last, (unsigned long long)offset[i] / MIB);
    printf("arena %llu MiB\n", (unsigned long long)solution->layout->arena_bytes / MIB);
}

int main(void) {
    cairn_graph *graph = NULL;
    cairn_costs *costs = NULL;
    cairn_solution *solution = NULL;
    cairn_error err = {0};
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    options.budget_bytes = 40 * MIB; /* keeping everything needs 64 */
    cairn_status status = build(&graph, &err);
    if (status == CAIRN_OK)
        status = measure(graph, &costs, &err);
    if (status == CAIRN_OK)
        status = cairn_solve(graph, costs, NULL, &options, &solution, &err);
    if (status == CAIRN_OK)
        print(graph, solution);
    else
        fprintf(stderr, "%s\n", cairn_error_text(&err, (char[512]){0}, 512));
    cairn_solution_destroy(solution);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
    return status != CAIRN_OK;
}
