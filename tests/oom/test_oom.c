/* test_oom.c: every entry from a network to a report survives running out of memory at any point;
 * see failing.h. */
#include "base/team.h"
#include "cairn.h"
#include "cairn/budget.h"
#include "cairn/page.h"
#include "cairn/papers.h"
#include "cairn/report.h"
#include "cost/crn_cost.h"
#include "failing.h"
#include "graph/layers.h"
#include "import/importer.h"
#include "plan/crn_plan.h"

/* ---- The input of the entries, made while nothing fails ---- */

typedef struct fixture {
    memory memory;
    cairn_allocator allocator;
    cairn_graph *forward, *graph;
    cairn_machine machine;
    cairn_costs *costs;
    cairn_solution *solution;
    cairn_report *report;
    cairn_sim *sim;
    cairn_text graph_json, costs_json, plan_text;
    const char *network, *solver;
    uint64_t budget;
    cairn_solve_options how; /* of the rest */
    uint64_t stride;         /* from one allocation that fails to the next */
} fixture;

/* An entry whose result is an object: TRY_OBJECT(name, type, destroy, call using `out` and `err`)
 */
#define TRY_OBJECT(name, type, destroy, call)                                                      \
    static cairn_status try_##name(fixture *f) {                                                   \
        type *result = NULL, **out = &result;                                                      \
        cairn_error error = {0}, *err = &error;                                                    \
        cairn_status status;                                                                       \
        ARMED(&f->memory, status, call);                                                           \
        check_result_of(status, result);                                                           \
        check_error(status, err);                                                                  \
        destroy(result);                                                                           \
        return status;                                                                             \
    }

/* An entry whose result is a text. */
#define TRY_TEXT(name, call)                                                                       \
    static cairn_status try_##name(fixture *f) {                                                   \
        cairn_text text = {0}, *out = &text;                                                       \
        cairn_status status;                                                                       \
        ARMED(&f->memory, status, call);                                                           \
        check_result_of(status, text.data);                                                        \
        cairn_text_release(&text);                                                                 \
        return status;                                                                             \
    }

/* ---- The entries ---- */

/* A chain of convolutions with a branch, for the algorithms: as many pieces as any of them needs to
 * choose, and few enough that each allocation of each can fail. */
static cairn_status build_small(fixture *f, cairn_graph **out, cairn_error *err) {
    cairn_builder *b;
    crn_conv conv = {.channels = 8, .kernel = {3, 3}, .pad = {1, 1, 1, 1}};
    char name[16];
    cairn_status status = cairn_builder_create(&f->allocator, "small", &b);
    if (status != CAIRN_OK)
        return status;
    cairn_id x = crn_build_input(b, "x", 4, (uint32_t[]){1, 8, 16, 16});
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "conv%d", i);
        cairn_id y = crn_build_conv2d(b, name, x, &conv);
        snprintf(name, sizeof name, "join%d", i);
        x = i == 3 ? crn_build_add(b, name, x, y) : crn_build_relu(b, name, y);
    }
    x = crn_build_linear(b, "fc", crn_build_flatten(b, "flat", x), 2);
    crn_build_cross_entropy(b, "loss", x, crn_build_label(b, "label", 1, (uint32_t[]){1}));
    status = cairn_builder_finish(b, out, err);
    cairn_builder_destroy(b);
    return status;
}

/* Residual blocks with batch-norms, whose backward a device may fuse. */
static cairn_status build_blocks(fixture *f, cairn_graph **out, cairn_error *err) {
    cairn_builder *b;
    crn_conv conv = {.channels = 8, .kernel = {3, 3}, .pad = {1, 1, 1, 1}};
    char name[4][16];
    cairn_status status = cairn_builder_create(&f->allocator, "blocks", &b);
    if (status != CAIRN_OK)
        return status;
    cairn_id x = crn_build_input(b, "x", 4, (uint32_t[]){4, 8, 16, 16});
    for (int i = 0; i < 4; i++) {
        static const char *const kinds[] = {"conv", "bn", "add", "relu"};
        for (int k = 0; k < 4; k++)
            snprintf(name[k], sizeof name[k], "%s%d", kinds[k], i);
        cairn_id y = crn_build_conv2d(b, name[0], x, &conv);
        y = crn_build_batch_norm(b, name[1], y, 1e-5);
        x = crn_build_relu(b, name[3], crn_build_add(b, name[2], y, x));
    }
    x = crn_build_linear(b, "fc", crn_build_flatten(b, "flat", x), 2);
    crn_build_cross_entropy(b, "loss", x, crn_build_label(b, "label", 1, (uint32_t[]){4}));
    status = cairn_builder_finish(b, out, err);
    cairn_builder_destroy(b);
    return status;
}

static cairn_status build_network(fixture *f, cairn_graph **out, cairn_error *err) {
    if (strcmp(f->network, "small") == 0)
        return build_small(f, out, err);
    if (strcmp(f->network, "blocks") == 0)
        return build_blocks(f, out, err);
    cairn_zoo_options options = CAIRN_ZOO_OPTIONS_INIT;
    options.batch = 1;
    options.steps = strcmp(f->network, "lstm") == 0 ? 3 : 0;
    return crn_zoo_build(&f->allocator, f->network, &options, out, err);
}

static cairn_status solve(fixture *f, cairn_solution **out, cairn_error *err) {
    cairn_solve_options options = f->how;
    options.budget_bytes = f->budget;
    options.machine = &f->machine;
    options.no_offload = f->solver == NULL; /* so that the best of all is quick */
    return cairn_solve(f->graph, f->costs, f->solver, &options, out, err);
}

static cairn_status lay_out(fixture *f, cairn_layout **out, cairn_error *err) {
    const cairn_lifetime *lifetimes = f->sim->lifetimes;
    uint32_t count = f->sim->lifetime_count;
    return cairn_layout_create(&f->allocator, lifetimes, count, out, err);
}

static cairn_status make_report(fixture *f, cairn_report **out, cairn_error *err) {
    return cairn_report_create(f->graph, f->costs, f->solution, NULL, 1, out, err);
}

static cairn_status simulate(fixture *f, cairn_sim **out, cairn_error *err) {
    cairn_sim_options options = CAIRN_SIM_OPTIONS_INIT;
    options.machine = &f->machine;
    return cairn_simulate(f->graph, f->costs, f->solution->plan, &options, out, err);
}

TRY_OBJECT(zoo_build, cairn_graph, cairn_graph_destroy, build_network(f, out, err))
TRY_OBJECT(differentiate, cairn_graph, cairn_graph_destroy,
           cairn_graph_differentiate(f->forward, NULL, out, err))
TRY_OBJECT(graph_from_json, cairn_graph, cairn_graph_destroy,
           cairn_graph_from_json(&f->allocator, f->graph_json.data, f->graph_json.length, "g", out,
                                 err))
TRY_OBJECT(dag_view, cairn_dag_view, cairn_dag_view_destroy,
           cairn_dag_view_create(f->graph, NULL, out, err))
TRY_OBJECT(chain_view, cairn_chain_view, cairn_chain_view_destroy,
           cairn_chain_view_create(f->graph, out, err))
TRY_OBJECT(costs_create, cairn_costs, cairn_costs_destroy, cairn_costs_create(f->graph, out, err))
TRY_OBJECT(costs_analytic, cairn_costs, cairn_costs_destroy,
           cairn_costs_analytic(f->graph, &f->machine, out, err))
TRY_OBJECT(plan_from_text, cairn_plan, cairn_plan_destroy,
           cairn_plan_from_text(f->graph, f->plan_text.data, f->plan_text.length, "p", out, err))
TRY_OBJECT(solve, cairn_solution, cairn_solution_destroy, solve(f, out, err))

/* With a memo that is new, so that it must grow. */
static cairn_status solve_with_memo(fixture *f, cairn_solution **out, cairn_error *err) {
    *out = NULL;
    cairn_status status = cairn_memo_create(&f->allocator, &f->how.memo, err);
    if (status == CAIRN_OK)
        status = solve(f, out, err);
    cairn_memo_destroy(f->how.memo);
    f->how.memo = NULL;
    return status;
}

TRY_OBJECT(memo, cairn_solution, cairn_solution_destroy, solve_with_memo(f, out, err))
TRY_OBJECT(judge, cairn_solution, cairn_solution_destroy,
           cairn_solution_create(f->graph, f->costs, f->solution->plan, &f->machine, out, err))
TRY_OBJECT(simulate, cairn_sim, cairn_sim_destroy, simulate(f, out, err))
TRY_OBJECT(layout, cairn_layout, cairn_layout_destroy, lay_out(f, out, err))
TRY_OBJECT(report, cairn_report, cairn_report_destroy, make_report(f, out, err))
TRY_OBJECT(team, crn_team, crn_team_destroy, crn_team_create(&f->allocator, 2, out, err))

static cairn_status make_page(fixture *f, cairn_text *out) {
    cairn_page *page;
    cairn_page_options options = CAIRN_PAGE_OPTIONS_INIT;
    options.machine = "a machine";
    cairn_status status = cairn_page_create(f->graph, f->costs, &options, &page);
    for (uint32_t i = 0; i < 2 && status == CAIRN_OK; i++) /* the same plan twice, stored once */
        status = cairn_page_add(page, f->solution, NULL);
    if (status == CAIRN_OK)
        status = cairn_page_add_none(page, NULL);
    if (status == CAIRN_OK)
        status = cairn_page_write(page, out);
    cairn_page_destroy(page);
    return status;
}

TRY_TEXT(page, make_page(f, out))
TRY_TEXT(graph_to_json, cairn_graph_to_json(f->graph, out))
TRY_TEXT(graph_to_dot, cairn_graph_to_dot(f->graph, NULL, true, out))
TRY_TEXT(op_signature, cairn_op_signature(f->graph, 0, out))
TRY_TEXT(costs_to_json, cairn_costs_to_json(f->costs, f->graph, NULL, out))
TRY_TEXT(plan_to_text, cairn_plan_to_text(f->solution->plan, f->graph, out))
TRY_TEXT(plan_to_json, cairn_plan_to_json(f->solution->plan, f->graph, out))
TRY_TEXT(report_to_json, cairn_report_to_json(f->report, out))
TRY_TEXT(report_svg, cairn_report_memory_svg(f->report, out))
TRY_TEXT(report_trace, cairn_report_trace(f->report, out))
TRY_TEXT(text_load, cairn_text_load(&f->allocator, CAIRN_TEST_DATA "/op_cases.json", out, NULL))

/* Merging changes existing costs, so they are created again each time. */
static cairn_status try_costs_merge(fixture *f) {
    cairn_costs *costs;
    cairn_error err = {0};
    cairn_status status;
    uint32_t matched;
    CHECK_OK(cairn_costs_create(f->graph, &costs, &err), &err);
    ARMED(&f->memory, status,
          crn_costs_merge_json(costs, f->graph, f->costs_json.data, f->costs_json.length, "c",
                               &matched, &err));
    check_error(status, &err);
    cairn_costs_destroy(costs);
    return status;
}

/* A plan that is built step by step, as another program would do it. */
static cairn_status build_plan(fixture *f, cairn_plan **out, cairn_error *err) {
    crn_plan_builder *builder;
    const cairn_step *steps = f->solution->plan->steps;
    uint32_t count = f->solution->plan->step_count;
    cairn_status status = crn_plan_builder_create(&f->allocator, &builder);
    for (uint32_t i = 0; i < count && status == CAIRN_OK; i++)
        status = crn_plan_builder_add(builder, steps[i]);
    if (status == CAIRN_OK)
        status = crn_plan_builder_finish(builder, f->graph, f->solution->plan->header, out, err);
    else
        *err = (cairn_error){.status = status, .message = "out of memory"};
    crn_plan_builder_destroy(builder);
    return status;
}
TRY_OBJECT(plan_builder, cairn_plan, cairn_plan_destroy, build_plan(f, out, err))

/* Some entries have plain figures for a result. */
static cairn_status try_time_bound(fixture *f) {
    cairn_solve_options options = CAIRN_SOLVE_OPTIONS_INIT;
    int64_t bound;
    cairn_error err = {0};
    cairn_status status;
    options.budget_bytes = f->sim->summary->peak_bytes * 3 / 4;
    ARMED(&f->memory, status, cairn_time_bound(f->graph, f->costs, &options, &bound, &err));
    check_error(status, &err);
    return status;
}

static cairn_status try_least_memory(fixture *f) {
    uint64_t least;
    cairn_error err = {0};
    cairn_status status;
    ARMED(&f->memory, status, cairn_least_memory(f->graph, f->costs, NULL, &least, &err));
    check_error(status, &err);
    return status;
}

static cairn_status draw_checkpoints(fixture *f, cairn_text *out) {
    cairn_dag_view *view;
    cairn_acg_solution *green = NULL;
    cairn_error err = {0};
    cairn_status status = cairn_dag_view_create(f->graph, NULL, &view, &err);
    if (status != CAIRN_OK)
        return status;
    status = cairn_acg_solve(&f->allocator, &view->dag, NULL, NULL, &green, &err);
    if (status == CAIRN_OK)
        status = cairn_checkpoints_to_dot(f->graph, view, green, NULL, out);
    cairn_acg_solution_destroy(green);
    cairn_dag_view_destroy(view);
    return status;
}

static cairn_status plot(fixture *f, cairn_text *out) {
    static const double x[] = {0, 1, 2}, y[] = {3, 1, 2};
    const cairn_curve curve = {.name = "c", .count = 3, .x = x, .y = y};
    return cairn_plot_svg(&f->allocator, "t", "x", "y", &curve, 1, out);
}

TRY_OBJECT(precise_curve, cairn_budget_curve, cairn_budget_curve_destroy,
           cairn_precise_curve(f->graph, f->costs, 8, true, out, err))
TRY_OBJECT(view_by_ops, cairn_offload_view, cairn_offload_view_destroy,
           cairn_offload_view_create(f->graph, f->costs, &f->machine, CAIRN_OFFLOAD_LAYERS_OPS, out,
                                     err))
TRY_OBJECT(view_by_pieces, cairn_offload_view, cairn_offload_view_destroy,
           cairn_offload_view_create(f->graph, f->costs, &f->machine, CAIRN_OFFLOAD_LAYERS_PIECES,
                                     out, err))
TRY_TEXT(checkpoints_dot, draw_checkpoints(f, out))
TRY_TEXT(plot_svg, plot(f, out))

/* ---- Failing the k-th ---- */

static cairn_status try_model_source(fixture *f) {
    cairn_zoo_options size = CAIRN_ZOO_OPTIONS_INIT;
    cairn_text text;
    cairn_error err = {0};
    cairn_status status;
    size.batch = 1;
    size.steps = strcmp(f->network, "lstm") == 0 ? 2 : 0;
    ARMED(&f->memory, status, cairn_model_source(&f->allocator, f->network, &size, &text, &err));
    check_error(status, &err);
    cairn_text_release(&text);
    return status;
}

static cairn_status try_network(fixture *f) {
    static const char text[] = "network n\ninput 2x4x4\nclasses 3\nblock b width\n"
                               "  c conv2d channels=width kernel=3 pad=1\n  n batch_norm\nend\n"
                               "x{1..2} b width=2\nf flatten\nfc linear features=classes\n"
                               "loss cross_entropy\n";
    cairn_zoo_options size = CAIRN_ZOO_OPTIONS_INIT;
    cairn_graph *graph;
    cairn_error err = {0};
    cairn_status status;
    ARMED(&f->memory, status,
          crn_network_from_text(&f->allocator, text, sizeof text - 1, "f", &size, &graph, &err));
    check_error(status, &err);
    cairn_graph_destroy(graph);
    return status;
}

typedef struct entry {
    const char *name;
    cairn_status (*run)(fixture *f);
} entry;

/* An entry with its input, as failing.h calls it. */
typedef struct fixture_run {
    fixture *f;
    cairn_status (*run)(fixture *f);
} fixture_run;

static cairn_status run_entry(void *context) {
    fixture_run *call = context;
    return call->run(call->f);
}

#define ENTRY(name)                                                                                \
    { #name, try_##name }
static const entry entries[] = {
    ENTRY(model_source),    ENTRY(network),        ENTRY(zoo_build),      ENTRY(differentiate),
    ENTRY(graph_from_json), ENTRY(graph_to_json),  ENTRY(graph_to_dot),   ENTRY(dag_view),
    ENTRY(chain_view),      ENTRY(costs_create),   ENTRY(costs_analytic), ENTRY(costs_merge),
    ENTRY(costs_to_json),   ENTRY(op_signature),   ENTRY(plan_from_text), ENTRY(plan_to_text),
    ENTRY(plan_to_json),    ENTRY(plan_builder),   ENTRY(simulate),       ENTRY(layout),
    ENTRY(report),          ENTRY(report_to_json), ENTRY(report_svg),     ENTRY(report_trace),
    ENTRY(text_load),       ENTRY(team),           ENTRY(judge),          ENTRY(page),
    ENTRY(time_bound),      ENTRY(least_memory),   ENTRY(precise_curve),  ENTRY(checkpoints_dot),
    ENTRY(plot_svg),        ENTRY(view_by_ops),    ENTRY(view_by_pieces),
};

static void fail_each(fixture *f, const char *name, cairn_status (*run)(fixture *f)) {
    fixture_run call = {f, run};
    fail_some(&f->memory, name, f->network, run_entry, &call, f->stride);
}

static void set_up(fixture *f, const char *network) {
    cairn_error err = {0};
    *f = (fixture){
        .network = network, .solver = "none", .how = CAIRN_SOLVE_OPTIONS_INIT, .stride = 1};
    f->allocator = (cairn_allocator){resize, &f->memory};
    CHECK_OK(build_network(f, &f->forward, &err), &err);
    CHECK_OK(cairn_graph_differentiate(f->forward, NULL, &f->graph, &err), &err);
    f->machine = (cairn_machine)CAIRN_MACHINE_INIT;
    CHECK_OK(cairn_machine_find("cpu", &f->machine, &err), &err);
    CHECK_OK(cairn_costs_analytic(f->graph, &f->machine, &f->costs, &err), &err);
    CHECK_OK(solve(f, &f->solution, &err), &err);
    CHECK_OK(simulate(f, &f->sim, &err), &err);
    CHECK_OK(make_report(f, &f->report, &err), &err);
    CHECK_OK(cairn_graph_to_json(f->graph, &f->graph_json), &err);
    CHECK_OK(cairn_costs_to_json(f->costs, f->graph, NULL, &f->costs_json), &err);
    CHECK_OK(cairn_plan_to_text(f->solution->plan, f->graph, &f->plan_text), &err);
}

static void tear_down(fixture *f) {
    cairn_text_release(&f->plan_text);
    cairn_text_release(&f->costs_json);
    cairn_text_release(&f->graph_json);
    cairn_report_destroy(f->report);
    cairn_sim_destroy(f->sim);
    cairn_solution_destroy(f->solution);
    cairn_costs_destroy(f->costs);
    cairn_graph_destroy(f->graph);
    cairn_graph_destroy(f->forward);
    CHECK_U64(f->memory.live, 0);
}

static void test_entries(const char *network) {
    static fixture f;
    set_up(&f, network);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        fail_each(&f, entries[i].name, entries[i].run);
    tear_down(&f);
}

/* Every algorithm: those that take a budget with two tight ones, the others without a budget and
 * with one that is too small. `auto` comes to the same places again and again in the tighter one.
 */
static void test_solvers(const char *network) {
    static fixture f;
    set_up(&f, network);
    uint64_t none = f.sim->summary->peak_bytes;
    const uint64_t budgets[] = {0, none - none / 4, none / 2, 64};
    const cairn_solver *solver;
    for (uint32_t i = 0; (solver = cairn_solver_list(i)) != NULL; i++)
        for (size_t b = 0; b < sizeof budgets / sizeof *budgets; b++) {
            if (solver->budgeted != (b == 1 || b == 2))
                continue;
            f.solver = solver->name;
            f.budget = budgets[b];
            f.stride = strcmp(solver->name, "auto") == 0 ? (b == 2 ? 13 : CHECK_SHARE) : 1;
            fail_each(&f, solver->name, try_solve);
        }
    /* What options add: a memo, a plan that is there already, averages, memory where it lies. */
    f.budget = none - none / 4;
    f.solver = "vdnn";
    fail_each(&f, "with a memo", try_memo);
    f.solver = "precise";
    f.how.start = f.solution->plan;
    fail_each(&f, "with a start", try_solve);
    f.how.start = NULL;
    f.how.cost_model = CAIRN_COST_MODEL_UNIFORM;
    fail_each(&f, "with averages", try_solve);
    f.how.live_peak = true;
    f.solver = NULL;
    fail_each(&f, "live peak", try_solve);
    tear_down(&f);
}

/* A plan that recomputes outside of what a device fuses; then `auto`, which weighs copies: most of
 * its allocations are those of test_solvers(). */
static void test_fused(void) {
    static fixture f;
    set_up(&f, "blocks");
    for (cairn_id o = 0; o < cairn_graph_op_count(f.graph); o++)
        if (cairn_graph_op(f.graph, o)->kind == CAIRN_OP_BATCH_NORM_BWD)
            crn_costs_set_fused(
                f.costs, o,
                cairn_graph_tensor(f.graph, cairn_graph_op(f.graph, o)->inputs[2])->producer);
    crn_costs_set_copy_slowdown(f.costs, 5);
    f.solver = "precise";
    f.budget = f.sim->summary->peak_bytes / 4 * 3;
    fail_each(&f, "fused", try_solve);
    f.solver = "auto";
    f.budget = f.sim->summary->peak_bytes / 8 * 7;
    f.stride = 37;
    fail_each(&f, "with copies", try_solve);
    tear_down(&f);
}

int main(void) {
    test_fused();
    test_entries("alexnet");
    test_entries("lstm");
    test_solvers("small");
    return check_result();
}
