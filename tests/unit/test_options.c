/* test_options.c: every struct of options is read in the same way, and every output struct is
 * filled in the same way. A size of 0 is refused by all, and the message names the struct. A caller
 * that knows fewer fields gets those. */
#include "cairn.h"
#include "cairn/arrays.h"
#include "cairn/budget.h"
#include "cairn/page.h"
#include "cairn/papers.h"
#include "cairn/report.h"
#include "check.h"
#include "cost/crn_cost.h"
#include "graph/layers.h"
#include "import/importer.h"
#include "plan/crn_plan.h"

static cairn_error err;

static void expect(cairn_status status, const char *type) {
    char words[96];
    snprintf(words, sizeof words, "the struct_size of a %s is 0", type);
    CHECK(status == CAIRN_EINVAL);
    if (strstr(err.message, words) == NULL)
        fprintf(stderr, "%s: \"%s\"\n", type, err.message);
    CHECK(strstr(err.message, words) != NULL);
    err = (cairn_error){0};
}

static cairn_status open_nothing(void *context, uint32_t batch, cairn_graph **graph,
                                 cairn_costs **costs, cairn_error *failure) {
    (void)context, (void)batch, (void)graph, (void)costs, (void)failure;
    return CAIRN_EINVAL;
}

static void test_planning(const cairn_graph *forward, const cairn_graph *graph,
                          const cairn_costs *costs, const cairn_solution *none) {
    cairn_graph *other;
    cairn_sim *sim;
    cairn_solution *solution;
    cairn_budget budget = CAIRN_BUDGET_INIT;
    cairn_measured measured = CAIRN_MEASURED_INIT;
    cairn_fit_result fit = CAIRN_FIT_RESULT_INIT;
    cairn_arrays_step *step;
    cairn_builder *builder;
    expect(crn_zoo_build(NULL, "convnet", &(cairn_zoo_options){0}, &other, &err),
           "cairn_zoo_options");
    expect(cairn_model_open(NULL, "convnet", &(cairn_zoo_options){0}, &other, &err),
           "cairn_zoo_options");
    expect(cairn_graph_differentiate(forward, &(cairn_differentiate_options){0}, &other, &err),
           "cairn_differentiate_options");
    expect(cairn_simulate(graph, costs, none->plan, &(cairn_sim_options){0}, &sim, &err),
           "cairn_sim_options");
    expect(cairn_solve(graph, costs, NULL, &(cairn_solve_options){0}, &solution, &err),
           "cairn_solve_options");
    expect(cairn_budget_resolve(graph, costs, &(cairn_budget_options){0}, &budget, &err),
           "cairn_budget_options");
    expect(cairn_costs_measured((cairn_costs *)costs, graph, "", 0, "t",
                                &(cairn_measured_options){0}, &measured, &err),
           "cairn_measured_options");
    expect(cairn_fit(&(cairn_fit_options){0}, &fit, &err), "cairn_fit_options");
    cairn_fit_options options = CAIRN_FIT_OPTIONS_INIT;
    options.open = open_nothing;
    options.solve = &(cairn_solve_options){0};
    expect(cairn_fit(&options, &fit, &err), "cairn_solve_options");
    expect(cairn_arrays_step_create(NULL, &(cairn_arrays){0}, &step, &err), "cairn_arrays");

    cairn_page *page;
    CHECK(cairn_page_create(graph, costs, &(cairn_page_options){0}, &page) == CAIRN_EINVAL);
    CHECK_OK(cairn_page_create(graph, costs, NULL, &page), &err);
    CHECK(cairn_page_add(page, none, &(cairn_page_entry){0}) == CAIRN_EINVAL);
    cairn_page_destroy(page);

    /* An op whose kind has attributes. */
    CHECK_OK(cairn_builder_create(NULL, "g", &builder), &err);
    cairn_op pool = {.name = "pool", .kind = CAIRN_OP_AVG_POOL, .of = CAIRN_NONE};
    cairn_builder_op(builder, &pool);
    expect(cairn_builder_finish(builder, &other, &err), "cairn_attributes");
    cairn_builder_destroy(builder);
}

/* A size of 0 is refused; nothing is written behind the end of a shorter struct. */
static void test_outputs(const cairn_graph *graph, const cairn_costs *costs) {
    cairn_budget_options limit = CAIRN_BUDGET_OPTIONS_INIT;
    limit.amount = 5000;
    cairn_budget budget = {0};
    expect(cairn_budget_resolve(graph, costs, &limit, &budget, &err), "cairn_budget");
    budget = (cairn_budget){.struct_size = offsetof(cairn_budget, given_bytes), .given_bytes = 7};
    CHECK_OK(cairn_budget_resolve(graph, costs, &limit, &budget, &err), &err);
    CHECK_U64(budget.plan_bytes, 5000);
    CHECK_U64(budget.given_bytes, 7);
    CHECK_U64(budget.struct_size, offsetof(cairn_budget, given_bytes));

    /* A later version has more fields, which are set to 0 here. */
    struct {
        cairn_budget known;
        uint64_t later;
    } longer = {.known = {.struct_size = sizeof longer}, .later = 7};
    CHECK_OK(cairn_budget_resolve(graph, costs, &limit, &longer.known, &err), &err);
    CHECK_U64(longer.known.given_bytes, 5000);
    CHECK_U64(longer.later, 0);

    cairn_graph_summary summary = {.struct_size = offsetof(cairn_graph_summary, state_bytes),
                                   .state_bytes = 7};
    cairn_graph_summarize(graph, &summary);
    CHECK(summary.parameter_bytes > 0);
    CHECK_U64(summary.state_bytes, 7);

    const char *table = "{\"format\": \"cairn-costs\", \"version\": 1, \"ops\": []}";
    cairn_costs_origin origin = {0};
    cairn_measured measured = {0};
    expect(crn_costs_origin_from_json(table, strlen(table), "t", &origin, &err),
           "cairn_costs_origin");
    expect(cairn_costs_measured((cairn_costs *)costs, graph, table, strlen(table), "t", NULL,
                                &measured, &err),
           "cairn_measured");
    cairn_text text;
    CHECK(cairn_costs_to_json(costs, graph, &origin, &text) == CAIRN_EINVAL);
    cairn_text_release(&text);
    cairn_fit_options options = CAIRN_FIT_OPTIONS_INIT;
    cairn_fit_result fit = {0};
    expect(cairn_fit(&options, &fit, &err), "cairn_fit_result");
}

static void test_running(const cairn_graph *graph) {
    cairn_device *device, *refused;
    cairn_costs *costs;
    cairn_costs_origin origin = CAIRN_COSTS_ORIGIN_INIT;
    cairn_solution *none;
    cairn_exec *exec;
    cairn_train *train;
    cairn_data *data;
    expect(cairn_device_open("ref", &(cairn_device_options){0}, &refused, &err),
           "cairn_device_options");
    CHECK_OK(cairn_device_open("ref", NULL, &device, &err), &err);
    CHECK_OK(cairn_bind(graph, device, &costs, &err), &err);
    CHECK_OK(cairn_solve(graph, costs, "none", NULL, &none, &err), &err);
    expect(cairn_profile(graph, device, &(cairn_profile_options){0}, costs, &origin, &err),
           "cairn_profile_options");
    expect(cairn_exec_create(graph, device, costs, none, &(cairn_exec_options){0}, &exec, &err),
           "cairn_exec_options");
    expect(cairn_train_create(graph, device, costs, none, &(cairn_train_options){0}, &train, &err),
           "cairn_train_options");
    expect(cairn_profile(graph, device, NULL, costs, &(cairn_costs_origin){0}, &err),
           "cairn_costs_origin");
    CHECK_OK(cairn_train_create(graph, device, costs, none, NULL, &train, &err), &err);
    expect(cairn_train_step(train, &(cairn_train_result){0}, &err), "cairn_train_result");
    cairn_train_destroy(train);
    CHECK_OK(cairn_exec_create(graph, device, costs, none, NULL, &exec, &err), &err);
    expect(cairn_exec_run(exec, 0, &(cairn_exec_result){0}, &err), "cairn_exec_result");
    expect(cairn_weights_save(exec, graph, "nowhere", &(cairn_weights_save_options){0}, &err),
           "cairn_weights_save_options");
    expect(cairn_data_open("synthetic", &(cairn_data_options){0}, &data, &err),
           "cairn_data_options");
    CHECK_OK(cairn_data_open("synthetic", NULL, &data, &err), &err);
    cairn_data_destroy(data);
    cairn_exec_destroy(exec);
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    cairn_device_close(device);
}

/* Machines and headers of plans, which go in and come out. */
static void test_both_ways(const cairn_graph *graph, const cairn_costs *costs,
                           const cairn_solution *none) {
    static const char text[] = "cairn plan 1\n";
    cairn_machine machine = {0};
    cairn_costs *other;
    cairn_sim *sim;
    cairn_solution *solution;
    cairn_offload_view *view;
    crn_plan_builder *builder;
    cairn_plan *plan;
    cairn_plan_header header = {0};
    cairn_sim_options simulate = CAIRN_SIM_OPTIONS_INIT;
    cairn_solve_options solve = CAIRN_SOLVE_OPTIONS_INIT;
    int64_t time;
    uint64_t bytes;
    simulate.machine = solve.machine = &machine;
    expect(cairn_machine_find("cpu", &machine, &err), "cairn_machine");
    expect(cairn_machine_from_json("{}", 2, "m", &machine, &err), "cairn_machine");
    expect(cairn_costs_analytic(graph, &machine, &other, &err), "cairn_machine");
    expect(cairn_simulate(graph, costs, none->plan, &simulate, &sim, &err), "cairn_machine");
    expect(cairn_solve(graph, costs, "none", &solve, &solution, &err), "cairn_machine");
    expect(cairn_time_bound(graph, costs, &solve, &time, &err), "cairn_machine");
    expect(cairn_least_memory(graph, costs, &solve, &bytes, &err), "cairn_machine");
    expect(cairn_solution_create(graph, costs, none->plan, &machine, &solution, &err),
           "cairn_machine");
    expect(cairn_offload_view_create(graph, costs, &machine, CAIRN_OFFLOAD_LAYERS_OPS, &view, &err),
           "cairn_machine");
    expect(cairn_plan_header_from_text(text, strlen(text), "p", &header, &err),
           "cairn_plan_header");
    expect(cairn_plan_set_header(none->plan, &header, &err), "cairn_plan_header");
    CHECK_OK(crn_plan_builder_create(NULL, &builder), &err);
    expect(crn_plan_builder_finish(builder, graph, &header, &plan, &err), "cairn_plan_header");
    crn_plan_builder_destroy(builder);

    /* A caller of an older version knows fewer fields. */
    machine =
        (cairn_machine){.struct_size = offsetof(cairn_machine, memory_bytes), .memory_bytes = 7};
    CHECK_OK(cairn_machine_find("cpu", &machine, &err), &err);
    CHECK(machine.link_bytes_per_second > 0);
    CHECK_U64(machine.memory_bytes, 7);
}

/* Structs that have no size because they are what they are for good. */
#define FROZEN(type, bytes) _Static_assert(sizeof(void *) != 8 || sizeof(type) == (bytes), #type)
FROZEN(cairn_error, 1176);
FROZEN(cairn_allocator, 16);
FROZEN(cairn_text, 40);
FROZEN(cairn_step, 8);
FROZEN(cairn_sim_step, 24);
FROZEN(cairn_holder, 16);
FROZEN(cairn_lifetime, 24);
FROZEN(cairn_implementation, 40);
FROZEN(cairn_inplace, 8);
FROZEN(crn_conv, 52);
FROZEN(cairn_budget_point, 16);
FROZEN(cairn_region_way, 24);
FROZEN(cairn_schedule, 56);
FROZEN(cairn_train_score, 32);
FROZEN(cairn_train_record, 8);
FROZEN(cairn_named_tensor, 96);
FROZEN(cairn_pair, 16);
FROZEN(cairn_curve, 40);
FROZEN(cairn_dag_edge, 8);
FROZEN(cairn_dag, 32);
FROZEN(cairn_acg_solution, 24);
FROZEN(cairn_chain_problem, 48);
FROZEN(cairn_chain_step, 8);
FROZEN(cairn_chain_verdict, 16);
FROZEN(cairn_chain_point, 16);
FROZEN(cairn_offload_problem, 72);
FROZEN(cairn_offload_bounds, 72);
FROZEN(cairn_offload_transfer, 24);

static void test_papers(void) {
    static const uint64_t costs[] = {1, 1, 1};
    static const cairn_dag_edge edges[] = {{0, 1}, {1, 2}};
    cairn_dag dag = {.vertex_count = 3,
                     .edge_count = 2,
                     .source = 0,
                     .target = 2,
                     .costs = costs,
                     .edges = edges};
    cairn_acg_solution *result;
    expect(cairn_acg_solve(NULL, &dag, "feng", &(cairn_acg_options){0}, &result, &err),
           "cairn_acg_options");
    cairn_chain_solution *chain;
    cairn_chain_problem chain_problem = {0};
    expect(
        cairn_chain_solve(NULL, &chain_problem, "precise", &(cairn_chain_options){0}, &chain, &err),
        "cairn_chain_options");
    cairn_offload_solution *offload;
    cairn_offload_problem offload_problem = {0};
    expect(cairn_offload_solve(NULL, &offload_problem, "offload-best", &(cairn_offload_options){0},
                               &offload, &err),
           "cairn_offload_options");
}

int main(void) {
    cairn_zoo_options size = CAIRN_ZOO_OPTIONS_INIT;
    cairn_graph *forward, *graph;
    cairn_costs *costs;
    cairn_solution *none;
    size.batch = 1;
    CHECK_OK(crn_zoo_build(NULL, "convnet", &size, &forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(forward, NULL, &graph, &err), &err);
    CHECK_OK(cairn_costs_create(graph, &costs, &err), &err);
    CHECK_OK(cairn_solve(graph, costs, "none", NULL, &none, &err), &err);
    test_planning(forward, graph, costs, none);
    test_outputs(graph, costs);
    test_both_ways(graph, costs, none);
    test_running(graph);
    test_papers();
    cairn_solution_destroy(none);
    cairn_costs_destroy(costs);
    cairn_graph_destroy(graph);
    cairn_graph_destroy(forward);
    return check_result();
}
